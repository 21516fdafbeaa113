/* SPDX-License-Identifier: Apache-2.0
 *
 * What a search found, for people and for programs.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/tune/find_batch.h"
#include "cli/lib/facts.h"

static const char *source_name(const find_batch *s)
{
    return stoke_source_name(find_batch_source(s));
}

/* Memory of a simulated GPU is estimated, not measured in any time. */
static const char *memory_source(const find_batch *s)
{
    return find_batch_source(s) == STOKE_SOURCE_MEASURED ? source_name(s) : "estimated";
}

static uint64_t effective(const find_batch *s)
{
    return (uint64_t)s->result.batch * s->limits.accumulate * s->limits.world;
}

/* The loop with the batch that was found: what the file says otherwise is the file's. */
static void diagnose_command(const find_batch *s, char *line, size_t size)
{
    char number[48];
    snprintf(line, size, "stoke diagnose");
    if (s->shown) {
        cli_append_word(line, size, "--config");
        cli_append_word(line, size, s->shown);
    }
    if (s->wish.data) cli_append_word(line, size, s->wish.data);
    snprintf(number, sizeof number, "--batch=%u", (unsigned)s->result.batch);
    cli_append_word(line, size, number);
    snprintf(number, sizeof number, "--size=%ux%u", (unsigned)s->params.data.size[0],
             (unsigned)s->params.data.size[1]);
    cli_append_word(line, size, number);
    cli_append_word(line, size, "--device");
    cli_append_word(line, size, s->wish.device);
    if (find_batch_source(s) == STOKE_SOURCE_MEASURED) return;
    double step_ms = 0; /* of the choice: the last trial with it */
    for (size_t i = 0; i < s->result.n_trials; i++)
        if (s->result.trial[i].batch == s->result.batch) step_ms = s->result.trial[i].step_ms;
    snprintf(number, sizeof number, "--step-ms=%.3g", step_ms);
    cli_append_word(line, size, number);
}

enum { NEXT_BYTES = 4096 };

/* `stoke diagnose ...` where the loader binds; "" = nothing to say. */
static void next_text(const find_batch *s, char *text, size_t size)
{
    *text = 0;
    if (!strcmp(s->result.next, "stoke diagnose"))
        diagnose_command(s, text, size);
    else if (*s->result.next)
        snprintf(text, size, "stoke estimate --model %s --batch 1 --size %ux%u", s->params.train.model,
                 (unsigned)s->params.data.size[0], (unsigned)s->params.data.size[1]);
}

/* ---- for people ---- */

static void print_trials(const find_batch *s)
{
    stoke_table *table = CLI_TABLE("batch", "trial", "outcome", "memory", "step", "images/s", "busy");
    for (size_t i = 0; i < s->result.n_trials; i++) {
        const stoke_trial *t = &s->result.trial[i];
        char memory[32] = "n/a", step[32] = "n/a", rate[32] = "n/a", busy[32] = "n/a";
        if (t->outcome == STOKE_OUTCOME_OK) {
            const double images_s = 1000 * t->batch / (t->step_ms + t->wait_ms);
            snprintf(rate, sizeof rate, images_s < 100 ? "%.1f" : "%.0f", images_s);
            stoke_text_memory(t->reserved, memory, sizeof memory);
            find_batch_ms(t->step_ms, step);
        }
        if (!isnan(t->busy)) snprintf(busy, sizeof busy, "%.0f %%", 100 * t->busy);
        cli_row(table, "%u\t%s\t%s\t%s\t%s\t%s\t%s", (unsigned)t->batch,
                t->with_loader ? "confirms" : "probe", stoke_outcome_name(t->outcome), memory, step, rate,
                busy);
    }
    cli_table_end(table);
}

static void print_fits(const find_batch *s)
{
    const stoke_batch_result *r = &s->result;
    cli_print("\nbudget: %s of %s\n", STOKE_MEMORY(r->budget), STOKE_MEMORY(s->limits.memory));
    if (r->linear)
        cli_print("memory: %s%s + %s x batch (R2 %.4f, %s)\n", r->memory0 < 0 ? "-" : "",
                  STOKE_MEMORY((uint64_t)fabs(r->memory0)), STOKE_MEMORY((uint64_t)r->memory1), r->memory_r2,
                  memory_source(s));
    else if (!isnan(r->memory_r2))
        cli_print("memory: no line (R2 %.4f): found by halving (%s)\n", r->memory_r2, memory_source(s));
    if (r->timed)
        cli_print("time:   %.3g ms + %.3g ms x batch (%s)\n", r->time0, r->time1, source_name(s));
    else if (r->batch || r->too_busy)
        cli_print("time:   no line within 5 %% of every trial%s (%s)\n",
                  r->too_busy ? "" : ": the trials themselves count", source_name(s));
}

static void print_choice(const find_batch *s)
{
    const stoke_batch_result *r = &s->result;
    const uint32_t before = s->before;
    cli_print(
        "\nbatch: %u for %s at %ux%u (%s%s, %s binds), %s; whether it learns as well, no trial tells\n%s\n",
        (unsigned)r->batch, s->params.train.model ? s->params.train.model : "b0",
        (unsigned)s->params.data.size[0], (unsigned)s->params.data.size[1], source_name(s),
        r->doubtful ? ", low confidence" : "", stoke_bound_name(r->bound),
        r->images_s >= s->limits.near * r->best_images_s ? "the smallest that is about as fast as any"
                                                         : "the largest that trains in the budget",
        r->why);
    cli_print("\neffective batch: %u x %u accumulated x %s = %llu\n", (unsigned)r->batch,
              (unsigned)s->limits.accumulate, STOKE_COUNT(s->limits.world, "process"),
              (unsigned long long)effective(s));
    if (before && before != r->batch) {
        const double factor = (double)r->batch / before;
        cli_print("learning rate: left as it is. From %u to %u samples the linear rule (SGD) would multiply "
                  "it by %.3g, the square root rule (Adam) by %.3g; `stoke find-lr` measures one\n",
                  (unsigned)before, (unsigned)r->batch, factor, sqrt(factor));
    } else {
        puts("learning rate: left as it is. With the batch, the linear rule (SGD) or the square root rule "
             "(Adam) would scale it");
    }
}

void find_batch_print(const find_batch *s)
{
    char next[NEXT_BYTES];
    const stoke_trial_params *p = &s->params;
    const char *learns =
        p->task == STOKE_TASK_RESTORE ? "restores pictures" : STOKE_COUNT(p->classes, "class");
    cli_print("%s", find_batch_source(s) == STOKE_SOURCE_MEASURED ? "Measured on this processor: "
                                                                  : "Emulated, nothing ran on a card: ");
    cli_print("%s, %ux%u, %s, on %s\n\n", p->train.model ? p->train.model : "b0", (unsigned)p->data.size[0],
              (unsigned)p->data.size[1], learns, s->wish.device);
    print_trials(s);
    print_fits(s);
    if (s->result.batch)
        print_choice(s);
    else
        cli_print("\nbatch: %s\n%s\n", s->result.too_busy ? "no suggestion" : "none", s->result.why);
    if (s->result.too_busy && s->journal)
        cli_say(s->call, "the trials stay in %s: another --journal, or none, tries again", s->journal);
    next_text(s, next, sizeof next);
    if (*next) cli_say(s->call, "next: %s", next);
}

/* ---- for programs ---- */

static void json_trials(stoke_json *json, const stoke_batch_result *r)
{
    JSON_LIST(json, "trials", i, i < r->n_trials) {
        const stoke_trial *t = &r->trial[i];
        const int ok = t->outcome == STOKE_OUTCOME_OK;
        FACTS_OBJECT(json, NULL, FACT_OF(t, batch), FACT_IS_OF(t, with_loader),
                     FACT("outcome", stoke_outcome_name(t->outcome)),
                     FACT("allocated_bytes", ok ? (double)t->allocated : NAN),
                     FACT("reserved_bytes", ok ? (double)t->reserved : NAN),
                     FACT("step_ms", ok ? t->step_ms : NAN), FACT("step_low_ms", ok ? t->step_low : NAN),
                     FACT("step_high_ms", ok ? t->step_high : NAN),
                     FACT("wait_ms", isnan(t->busy) ? NAN : t->wait_ms), FACT_OF(t, busy),
                     FACT_OF(t, cores_wanted), FACT_OF(t, cores_had), FACT_TEXT("message", t->message));
    }
}

void find_batch_json(stoke_json *json, const find_batch *s)
{
    const stoke_batch_result *r = &s->result;
    const uint32_t before = s->before;
    char next[NEXT_BYTES];
    next_text(s, next, sizeof next);
    FACTS(json, FACT_OF(&s->wish, device), FACT("source", source_name(s)),
          FACT("memory_source", memory_source(s)), FACT_OF(&s->params.train, model),
          FACT_SIZE("size", s->params.data.size[0], s->params.data.size[1]), FACT_OF(&s->params, classes),
          FACT("memory_bytes", s->limits.memory));
    cli_json_memory(json, s->call->planned);
    FACTS(json, FACT("budget_bytes", r->budget), FACT_COUNT("batch", r->batch), FACT_IS_OF(r, too_busy),
          FACT_IS("low_confidence", r->doubtful), FACT("bound", stoke_bound_name(r->bound)),
          FACT_COUNT("largest_ok", r->largest_ok), FACT_COUNT("largest_fit", r->largest_fit),
          FACT_COUNT("smallest_oom", r->smallest_oom), FACT("images_per_s", r->images_s),
          FACT("best_images_per_s", r->best_images_s), FACT_OF(r, busy),
          FACT_COUNT("effective_batch", effective(s)),
          FACT("lr_factor_linear", before && r->batch ? (double)r->batch / before : NAN),
          FACT("lr_factor_sqrt", before && r->batch ? sqrt((double)r->batch / before) : NAN));
    FACTS_OBJECT(json, "memory_fit", FACT_IS_OF(r, linear), FACT("bytes", r->memory0),
                 FACT("bytes_per_sample", r->memory1), FACT("r2", r->memory_r2));
    FACTS_OBJECT(json, "time_fit", FACT_IS("linear", r->timed), FACT("ms", r->time0),
                 FACT("ms_per_sample", r->time1));
    json_trials(json, r);
    FACTS(json, FACT_OF(r, why), FACT_TEXT("next", next));
}
