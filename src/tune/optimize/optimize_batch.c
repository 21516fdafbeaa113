/* SPDX-License-Identifier: Apache-2.0
 *
 * The batch: usual for the card, as far as it fits the network that the file names. One that does not fit is
 * lowered, with the numbers; one of a network that nobody here knows is left. The learning rate is never
 * touched: what a changed batch makes of it is said.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/tune/advice/advice.h"
#include "src/tune/decide/decide.h"
#include "src/base/number.h"
#include "src/tune/optimize/optimize.h"
#include "src/settings/yaml_tree.h"

/* ---- what depends on it ---- */

/* By how much the batch grows changes the step that is right, but which rule holds depends on the optimiser
 * and the data: said, never done. */
static void learning_rate(stoke_optimization *o, int64_t from, int64_t to)
{
    stk_optimize_key f;
    char room[64];
    double lr;
    if (stk_optimize_look(o, "learning_rate", &f, NULL)) return;
    if (!stk_parse_real(f.text, &lr) || lr <= 0) {
        if (f.exists) stk_remark(&o->remarks, "%s: %s is no number and is left", f.path, f.text);
        return;
    }
    const char *ending = strrchr(o->target, '.');
    const int is_yaml = ending && (!strcmp(ending, ".yaml") || !strcmp(ending, ".yml"));
    if (is_yaml && f.exists && o->dialect != STOKE_DIALECT_OWN && stk_yaml_number(f.text, room) != f.text)
        stk_remark(&o->remarks, "%s: PyYAML reads %s as a text, not a number; write %s", f.path, f.text,
                   room);
    if (from <= 0 || from == to) return;
    const double factor = (double)to / (double)from;
    stk_remark(&o->remarks,
               "%s: %s is kept. For a batch %.3g times as large the linear rule (SGD) would give "
               "%.3g, the square root rule (Adam) %.3g; `stoke find-lr` measures one",
               f.path, f.text, factor, lr * factor, lr * sqrt(factor));
}

static void effective_batch(stoke_optimization *o, int64_t from, int64_t batch)
{
    stk_optimize_key f;
    if (stk_optimize_look(o, "accumulate", &f, NULL)) return;
    const int64_t times = f.is_number && f.number > 1 && f.number <= INT32_MAX ? f.number : 1;
    const long long keeps = batch > 0 ? (long long)((from * times + batch - 1) / batch) : 0;
    if (from > batch && f.exists)
        stk_remark(&o->remarks,
                   "%s: %lld instead of %s keeps the %lld samples that a step saw, and the "
                   "learning rate its meaning",
                   f.path, keeps, f.text, (long long)(from * times));
    else if (from > batch)
        stk_remark(&o->remarks,
                   "gradients of %lld batches added up keep the %lld samples that a step saw, and "
                   "the learning rate its meaning",
                   keeps, (long long)from);
    else if (times > 1)
        stk_remark(
            &o->remarks,
            "%s: %lld batches make a step, so a step now sees %lld samples; divide it to keep the old number",
            f.path, (long long)times, (long long)(times * batch));
}

/* Whether it can be a batch at all: what is computed from it below stays within 64 bits. */
static int is_size(const stk_optimize_key *f)
{
    return f->is_number && f->number >= 1 && f->number <= UINT32_MAX;
}

static int change_batch(stoke_optimization *o, const stk_optimize_key *f, int64_t to,
                        stk_optimize_reason because, stoke_error *err)
{
    char text[32];
    const size_t before = o->n_changes;
    snprintf(text, sizeof text, "%lld", (long long)to);
    const int r = stk_optimize_change(o, f, text, because, err);
    if (r || o->n_changes == before) return r;
    const int64_t from = is_size(f) ? f->number : 0;
    learning_rate(o, from, to);
    effective_batch(o, from, to);
    return STOKE_OK;
}

/* ---- by what fits ---- */

/* What is known of the network's memory. */
typedef struct fitting {
    uint32_t room;  /* the largest batch that leaves 1 GiB free; 0: none does */
    char name[112]; /* "b5 at 512x512, fp16" */
    double have;    /* GiB of the card */
    int64_t wanted; /* usual */
} fitting;

static int make_fitting(const stoke_optimization *o, fitting *t, stoke_error *err)
{
    const stoke_estimate_params *p = &o->p;
    const int small = stk_is_resnet(p->model);
    char network[48];
    if (small)
        snprintf(network, sizeof network, "%u channels, %u blocks", (unsigned)p->base_channels,
                 (unsigned)p->num_blocks);
    else
        snprintf(network, sizeof network, "%.30s", p->model);
    snprintf(t->name, sizeof t->name, "%s at %ux%u%s, %s", network, (unsigned)p->height, (unsigned)p->width,
             o->size == STK_SIZE_SEEN ? " as in the set" : "",
             p->precision == STOKE_PRECISION_FP32 ? "fp32" : "mixed precision");
    t->have = STK_GIB(o->advice.memory);
    t->wanted = o->advice.table_batch;
    return stk_estimate_largest(p, STOKE_ENGINE_TORCH, o->advice.memory, &t->room, err);
}

/* "an estimated 12.4 to 17.8 GiB of 24 GiB" */
static const char *takes(const stoke_optimization *o, const fitting *t, int64_t batch, char text[static 64])
{
    stoke_estimate_params p = o->p;
    stoke_estimate e;
    p.batch = (uint32_t)batch;
    if (batch > UINT32_MAX || stoke_estimate_make(&e, STOKE_ENGINE_TORCH, &p, NULL))
        snprintf(text, 64, "more than the card's %.3g GiB", t->have);
    else
        snprintf(text, 64, "an estimated %.1f to %.1f GiB of %.3g GiB", STK_GIB(e.low), STK_GIB(e.high),
                 t->have);
    return text;
}

/* As few equal parts as fit, so that so many of them make up what was wanted. */
static int64_t part_of(int64_t wanted, uint32_t room)
{
    const int64_t times = (wanted + room - 1) / room;
    return (wanted + times - 1) / times;
}

/* ---- by trials ---- */

/* Trials know more than tables: theirs is taken, upwards and downwards. */
static int measured_batch(stoke_optimization *o, const stk_optimize_key *f, stoke_error *err)
{
    const int64_t largest = o->params.measured_largest;
    int64_t wanted = o->params.measured_batch;
    fitting t;
    const char *said = o->params.measured_why ? o->params.measured_why : "";
    char why[256], effect[256];
    if (o->params.measured_on_processor && o->place == STK_ON_CARD && *o->model &&
        o->size != STK_SIZE_UNKNOWN) {
        const int r = make_fitting(o, &t, err);
        if (r) return r;
        if (t.room && wanted > t.room) wanted = part_of(wanted, t.room);
    }
    if (f->is_number && f->number == wanted)
        return stk_remark(&o->remarks, "%s: %s is right already, by trials: %s", f->path, f->text, said);
    snprintf(why, sizeof why, "found by trials: %.230s", said);
    if (f->is_number && largest && f->number > largest)
        snprintf(effect, sizeof effect, "it fits: of %.20s samples a batch, %lld are the most that do",
                 f->text, (long long)largest);
    else
        snprintf(effect, sizeof effect, "%s",
                 f->is_number && f->number > wanted ? "about the same throughput with less memory"
                                                    : "fewer, larger steps; fixed costs per step weigh less");
    return change_batch(o, f, wanted, (stk_optimize_reason){ why, effect, o->params.measured_source }, err);
}

/* Where not one picture fits: what would. */
static void say_what_fits(stoke_optimization *o, const fitting *t)
{
    const uint64_t memory = o->advice.memory, room = memory > STK_SPARE_BYTES ? memory - STK_SPARE_BYTES : 0;
    stoke_estimate_params p = o->p;
    stoke_estimate e;
    uint32_t side = 0;
    char size[64] = "no size", other[64] = "";
    const char *fits = NULL;
    p.batch = 1;
    if (!stoke_estimate_side(STOKE_ENGINE_TORCH, &p, memory, STK_SPARE_BYTES, &side, NULL) && side)
        snprintf(size, sizeof size, "pictures of up to %ux%u", (unsigned)side, (unsigned)side);
    if (!stk_is_resnet(o->model)) {
        for (size_t i = STK_MODELS; !fits && i;) {
            p.model = stk_model_rows[--i].model;
            if (!stoke_estimate_make(&e, STOKE_ENGINE_TORCH, &p, NULL) && e.high <= room) fits = p.model;
        }
        snprintf(other, sizeof other, "; at %ux%u, %s", (unsigned)p.height, (unsigned)p.width,
                 fits ? fits : "no SegFormer");
    }
    stk_remark(&o->remarks, "not one picture fits: %s. With a batch of 1 %s would%s", t->name, size, other);
}

static int lower(stoke_optimization *o, const stk_optimize_key *f, const fitting *t, stoke_error *err)
{
    const int64_t to = t->room ? part_of(f->number, t->room) : 1;
    char before[64], after[64], why[256], effect[256];
    snprintf(why, sizeof why, "batch %lld of %s takes %s, 1 of them to stay free; up to %u fits",
             (long long)f->number, t->name, takes(o, t, f->number, before), (unsigned)t->room);
    snprintf(effect, sizeof effect, "%s %s instead of running out of memory",
             t->room ? "it fits:" : "the least there is, and even that may not fit:", takes(o, t, to, after));
    if (!t->room) say_what_fits(o, t);
    if (f->number == to)
        return stk_remark(&o->remarks,
                          "%s: %s is left, and will probably not fit: %s. Smaller pictures would help",
                          f->path, f->text, why);
    return change_batch(o, f, to, (stk_optimize_reason){ why, effect, STOKE_SOURCE_ESTIMATED }, err);
}

/* The file's loss has a frozen network of its own, whose memory no estimate has. */
static int has_more_to_hold(stoke_optimization *o)
{
    stk_optimize_key f;
    return !stk_optimize_look(o, "use_perceptual", &f, NULL) && f.exists && !stk_is_off(f.text);
}

/* Where the file names its network: up to what is usual and fits, down to what fits. */
static int known_network(stoke_optimization *o, const stk_optimize_key *f, const fitting *t, stoke_error *err)
{
    char text[64], why[256];
    if (f->number > t->room) return lower(o, f, t, err);
    if (has_more_to_hold(o))
        return stk_remark(&o->remarks,
                          "%s: %s is left: %s takes %s without the frozen network of the perceptual loss, "
                          "which is not estimated; usual are %lld",
                          f->path, f->text, t->name, takes(o, t, f->number, text), (long long)t->wanted);
    const int64_t to = t->wanted > t->room ? part_of(t->wanted, t->room) : t->wanted;
    if (f->number >= to)
        return stk_remark(&o->remarks, "%s: %s is left: %s takes %s; usual are %lld, up to %u fits", f->path,
                          f->text, t->name, takes(o, t, f->number, text), (long long)t->wanted,
                          (unsigned)t->room);
    if (to < t->wanted)
        snprintf(why, sizeof why, "usual for %.40s are %lld, of which up to %u fits: with %s it takes %s",
                 o->advice.subject, (long long)t->wanted, (unsigned)t->room, t->name, takes(o, t, to, text));
    else
        snprintf(why, sizeof why, "a usual starting point for %.40s; with %s it takes %s", o->advice.subject,
                 t->name, takes(o, t, to, text));
    const stk_optimize_reason because = { why, "fewer, larger steps; fixed costs per step weigh less",
                                          to < t->wanted ? STOKE_SOURCE_ESTIMATED : STOKE_SOURCE_TABLE };
    return change_batch(o, f, to, because, err);
}

/* Where it names none: up to what is usual, if even the usual network has room for it; never down. */
static int unnamed_network(stoke_optimization *o, const stk_optimize_key *f, const fitting *t,
                           stoke_error *err)
{
    char text[64], why[256];
    const int64_t to = !t->room ? 0 : t->wanted > t->room ? part_of(t->wanted, t->room) : t->wanted;
    if (o->size == STK_SIZE_UNKNOWN)
        return stk_remark(&o->remarks,
                          "%s: %s is left: %lld are usual for this card, not estimated: your network and "
                          "picture size are not in the file",
                          f->path, f->text, (long long)t->wanted);
    if (f->number >= to)
        return stk_remark(&o->remarks,
                          "%s: %s is left: usual for %s are %lld; the file names no network, so whether "
                          "more fits is not known",
                          f->path, f->text, o->advice.subject, (long long)t->wanted);
    snprintf(why, sizeof why, "a usual starting point for %.40s; the file names no network: %s would take %s",
             o->advice.subject, t->name, takes(o, t, to, text));
    return change_batch(o, f, to,
                        (stk_optimize_reason){ why, "fewer, larger steps; fixed costs per step weigh less",
                                               STOKE_SOURCE_TABLE },
                        err);
}

/* "16-32": a choice that is left to somebody. What of it fits is said. */
static int not_a_number(stoke_optimization *o, const stk_optimize_key *f, const fitting *t)
{
    long long low, high;
    int end = 0;
    char text[64];
    if (sscanf(f->text, "%9lld - %9lld%n", &low, &high, &end) == 2 && !f->text[end] && low > 0 &&
        high > low && t->room && *o->model)
        return stk_remark(&o->remarks, "%s: the range %s is left: with %s, %lld take %s, and up to %u fits",
                          f->path, f->text, t->name, high, takes(o, t, high, text), (unsigned)t->room);
    return stk_remark(&o->remarks, "%s: %s is no size of a batch and is left", f->path, f->text);
}

/* ---- all cases ---- */

/* 1: nothing is known of the memory that a batch takes or may take; a remark says why. */
static int is_left(stoke_optimization *o, const stk_optimize_key *f)
{
    if (o->framework == STOKE_FRAMEWORK_STOKE)
        stk_remark(&o->remarks,
                   "%s: %s is left: `stoke train` computes on the processor; `stoke find-batch` "
                   "finds a batch by trials",
                   f->path, f->text);
    else if (o->place == STK_ON_PROCESSOR)
        stk_remark(&o->remarks, "%s: %s is left: the file trains on the processor", f->path, f->text);
    else if (*o->network)
        stk_remark(
            &o->remarks,
            "%s: %s is left: the file names %s, and how much memory a batch of that takes is not known here; "
            "stokehold.BatchSizeOptimizer finds one by trials with your own network",
            f->path, f->text, o->network);
    else if (o->place == STK_ON_SOME_CARD)
        stk_remark(&o->remarks,
                   "%s: %s is left: how large it may be depends on the memory of the card, and none "
                   "is seen or named",
                   f->path, f->text);
    else if (*o->model && o->size == STK_SIZE_UNKNOWN)
        stk_remark(&o->remarks,
                   "%s: %s is left: how much memory it takes depends on the size of pictures, which "
                   "the file does not say, and no set that it names can be read here; with "
                   "image_size in the file it is judged",
                   f->path, f->text);
    else
        return 0;
    return 1;
}

/* Up or down, or not at all and why. */
static int judge_batch(stoke_optimization *o, const stk_optimize_key *f, stoke_error *err)
{
    fitting t = { 0 };
    stoke_error refusal = { 0 };
    if (o->params.measured_batch) return measured_batch(o, f, err);
    if (is_left(o, f)) return STOKE_OK;
    const int r = make_fitting(o, &t, &refusal);
    if (r == STOKE_E_INVALID) /* pictures of a size that no network here takes */
        return stk_remark(&o->remarks, "%s: %s is left: its memory cannot be estimated: %s", f->path, f->text,
                          refusal.message);
    if (r) return stk_fail_again(err, r, refusal.message);
    if (o->classes_assumed && *o->model && stk_estimate_task(&o->p) == STOKE_TASK_RESTORE)
        stk_remark(&o->remarks,
                   "the number of classes is not in the file: the network is taken to restore pictures");
    else if (o->classes_assumed && *o->model)
        stk_remark(&o->remarks, "the number of classes is not in the file: %u assumed for the estimate",
                   (unsigned)o->p.classes);
    if (!is_size(f)) return not_a_number(o, f, &t);
    return *o->model ? known_network(o, f, &t, err) : unnamed_network(o, f, &t, err);
}

int stk_optimize_batch(stoke_optimization *o, stoke_error *err)
{
    stk_optimize_key f;
    const size_t before = o->n_changes;
    int r = stk_optimize_look(o, "batch_size", &f, err);
    if (r) return r;
    if (!f.exists && !f.is_number && !o->params.measured_batch)
        return stk_remark(&o->remarks,
                          "batch_size is not in the file under any name known; map it to its path");
    if (o->framework == STOKE_FRAMEWORK_STOKE && !strcmp(f.text, "auto") && !o->params.measured_batch)
        return stk_optimize_right(o, &f);
    r = judge_batch(o, &f, err);
    if (!r && o->n_changes == before) learning_rate(o, 0, 0); /* what is odd about it is said in any case */
    return r;
}
