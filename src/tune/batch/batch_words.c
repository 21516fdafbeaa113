/* SPDX-License-Identifier: Apache-2.0
 *
 * What a search found, in words: memory, throughput and loader, each with what it allows, and which one
 * binds.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/remarks.h"
#include "src/tune/batch/batch_search.h"
#include <stoke/tools/report.h>
#include <stoke/tools/terminal.h>

#define SAY(result, ...) stk_text_add((result)->why, sizeof(result)->why, "", __VA_ARGS__)

static int bound_of(const stk_batch_search *s)
{
    const stoke_batch_result *result = s->result;
    const stoke_batch_params *p = s->params;
    if (result->busy < p->target_busy) return STOKE_BOUND_LOADER; /* NaN: not measured */
    const uint32_t next = stk_batch_floor(s->low + p->multiple, p->multiple);
    /* Would twice the largest still gain? Then it is not throughput that ends the search. Of one point nobody
     * can tell. */
    const double twice = stk_batch_fit_rate(&s->fit, 2 * s->low), now = stk_batch_fit_rate(&s->fit, s->low);
    if (s->flat || (s->fit.n_points > 1 && !(p->near * twice > now))) return STOKE_BOUND_THROUGHPUT;
    if (s->stopped.outcome != STOKE_OUTCOME_OK) return STOKE_BOUND_FAILURE;
    return next > s->most && !s->high ? STOKE_BOUND_DATA : STOKE_BOUND_MEMORY;
}

static void say_memory(const stk_batch_search *s)
{
    stoke_batch_result *result = s->result;
    char budget[32], fixed[32], each[32];
    stoke_text_memory(result->budget, budget, sizeof budget);
    SAY(result, "Memory: %s%u fit%s in %s", s->flat ? "" : "up to ", (unsigned)s->low, s->low == 1 ? "s" : "",
        budget);
    if (s->flat) SAY(result, ", and no more were tried");
    if (result->linear && result->memory0 >= 0)
        SAY(result, "; %s and %s a sample", stoke_text_memory((uint64_t)result->memory0, fixed, sizeof fixed),
            stoke_text_memory((uint64_t)result->memory1, each, sizeof each));
    /* What the line says is told as such; that the set ends before is another matter. */
    const int all = s->params->largest && !s->high && result->largest_fit + s->params->multiple > s->most;
    const int said = s->params->largest_said;
    if (all && result->largest_fit > s->low)
        SAY(result, ", by which all %u %s would", (unsigned)s->most,
            said ? "that were allowed" : "of the set");
    else if (result->largest_fit > s->low)
        SAY(result, ", by which about %u would", (unsigned)result->largest_fit);
    else if (all && said)
        SAY(result, "; no more than %u were to be tried", (unsigned)s->most);
    else if (all)
        SAY(result, "; the set has no more than %s", STOKE_COUNT(s->most, "sample"));
    SAY(result, ". ");
}

static void say_busy(const stk_batch_search *s, const char *what)
{
    const stk_batch_fit *fit = &s->fit;
    if (fit->cores_had < fit->cores_wanted)
        SAY(s->result, "%s (%.1f of %.1f cores were had)", what, fit->cores_had, fit->cores_wanted);
    else
        SAY(s->result, "%s (steps of one trial differ by half and more)", what);
}

/* What is certain when times are not. */
static void say_too_busy(stk_batch_search *s)
{
    stoke_batch_result *result = s->result;
    say_busy(s, "This machine is too busy to tell");
    SAY(result, ": the times scatter, and no batch is suggested from them. Only this is certain. ");
    say_memory(s);
    SAY(result, "Search again when the machine is quiet, or with more --steps.");
}

/* The choice is made by trials without data, or by their line; the table of trials has the one with the
 * loader on too, which may be slower. */
static void say_throughput(const stk_batch_search *s)
{
    stoke_batch_result *result = s->result;
    const double best = result->best_images_s, made = stk_batch_whole_rate(&s->confirmed);
    const int places = best < 100;
    SAY(result, "Throughput: by the %s %u reach%s %.*f images/s, %.0f %% of the best, %.*f",
        s->fit.timed ? "line" : "trials", (unsigned)result->batch, result->batch == 1 ? "es" : "", places,
        result->images_s, 100 * result->images_s / best, places, best);
    SAY(result, "; the confirming trial made %.*f. ", places, made);
}

static void say_loader(stoke_batch_result *result, const stoke_batch_params *p)
{
    if (isnan(result->busy))
        SAY(result, "Loader: n/a, the trials were without data. ");
    else
        SAY(result, "Loader: keeps the device busy %.0f %% of the time; wanted are %.0f %%. ",
            100 * result->busy, 100 * p->target_busy);
}

static void say_bound(const stk_batch_search *s)
{
    stoke_batch_result *result = s->result;
    switch (result->bound) {
    case STOKE_BOUND_THROUGHPUT:
        SAY(result, "Throughput binds: larger batches gain less than %.0f %%.", 100 * (1 - s->params->near));
        break;
    case STOKE_BOUND_MEMORY:
        SAY(result, "Memory binds: a larger batch would be faster and does not fit.");
        break;
    case STOKE_BOUND_DATA:
        SAY(result, "%s",
            s->params->largest_said
                ? "The limit binds: a larger batch would be faster, and none was to be tried."
                : "The data bind: a larger batch would be faster, and there are no more samples.");
        break;
    case STOKE_BOUND_LOADER:
        SAY(result,
            "The loader binds: the device waits %.3g ms a step, and another batch does not change that.",
            s->confirmed.wait_ms);
        snprintf(result->next, sizeof result->next, "stoke diagnose");
        break;
    default:
        SAY(result, "A trial of %u ended with %s, so larger ones were not tried: %.120s",
            (unsigned)s->stopped.batch, stoke_outcome_name(s->stopped.outcome), s->stopped.message);
    }
}

void stk_batch_tell(stk_batch_search *s)
{
    stoke_batch_result *result = s->result;
    if (result->too_busy) {
        result->bound = STOKE_BOUND_MEMORY;
        say_too_busy(s);
        return;
    }
    if (!result->batch) {
        char budget[32];
        result->bound = STOKE_BOUND_MEMORY;
        SAY(result,
            "Not even one sample fits in %s. A smaller picture, a smaller model, 16-bit precision or a "
            "frozen "
            "encoder need less.",
            stoke_text_memory(result->budget, budget, sizeof budget));
        snprintf(result->next, sizeof result->next, "stoke estimate");
        return;
    }
    result->bound = bound_of(s);
    if (result->doubtful) {
        say_busy(s, "Low confidence: the machine was busy, and its times scatter");
        SAY(result, ". ");
    }
    say_memory(s);
    say_throughput(s);
    say_loader(result, s->params);
    say_bound(s);
}
