/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings to start from: a row of the tables, cut to what the estimate lets fit and to the cores there are.
 * Every line says which of these it is; what the tables and the estimate disagree about goes into the remark.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/remarks.h"
#include "src/tune/advice/advice.h"
#include "src/tune/decide/decide.h"
#include <stoke/tools/advise.h>
#include <stoke/tools/machine.h>
#include <stoke/net.h>

enum {
    WORKERS_MOST = 16, /* usual are 8 to 16 */
    WORKERS_LEAST = 8,
    WORKER_BYTES = 300000000, /* what a worker process of PyTorch holds before its batches */
    PREFETCH = 2,             /* batches on the card, as `stoke estimate` has it */
    RANKS_MOST = 4096
};
#define USUAL "a usual starting point for %s"

typedef struct adviser {
    stoke_advice *advice;
    const stoke_recommend_params *params;
    const stk_gpu *card; /* what is usual on it counts; NULL: what is usual for the memory */
    uint64_t memory;     /* 0: no card, or none that is known */
    int on_card;
    uint64_t host_memory; /* UINT64_MAX: n/a */
    char where[48];       /* "RTX 3090", "a card of 16 GB or more" */
} adviser;

stoke_recommend_params stoke_recommend_defaults(void)
{
    return (stoke_recommend_params){ .struct_size = sizeof(stoke_recommend_params),
                                     .task = "segformer",
                                     .cores = stoke_machine_cores().usable,
                                     .ranks = 1,
                                     .cores_source = STOKE_SOURCE_MEASURED,
                                     .host_memory = stoke_machine_available() };
}

/* ---- lines ---- */

STOKE_PRINTF(5, 6)
static void line(adviser *a, const char *key, const char *value, int source, const char *format, ...)
{
    if (a->advice->n == STOKE_RECOMMENDATIONS) return;
    stoke_recommendation *r = &a->advice->line[a->advice->n++];
    va_list arguments;
    r->key = key;
    r->source = source;
    snprintf(r->value, sizeof r->value, "%s", value);
    va_start(arguments, format);
    vsnprintf(r->why, sizeof r->why, format, arguments);
    va_end(arguments);
}

/* In its own buffer, which lives as long as the block it is written in. */
#define NUMBER(value) number((char[16]){ 0 }, (value))
static const char *number(char text[static 16], uint32_t value)
{
    snprintf(text, 16, "%u", (unsigned)value);
    return text;
}

/* One more sentence. */
#define REMARK(a, ...) stk_text_add((a)->advice->remark, sizeof(a)->advice->remark, " ", __VA_ARGS__)

/* ---- what fits ---- */

typedef struct fitted {
    stoke_estimate_params chosen; /* model and batch after the cut */
    stoke_estimate wanted, got;   /* of the table's row, and of what is left of it */
    const char *wanted_model;
    uint32_t wanted_batch;
    uint32_t room;  /* the largest batch of the chosen model that fits */
    uint32_t times; /* the table's batch in so many equal parts that each fits */
    int fits;       /* 0: not even the least does */
} fitted;

/* Keeps the model and lowers the batch; takes the next smaller SegFormer where not even one picture fits. */
static int fit(fitted *f, const stoke_estimate_params *wanted, stoke_engine engine, uint64_t memory,
               stoke_error *err)
{
    memset(f, 0, sizeof *f);
    f->chosen = *wanted;
    f->wanted_model = wanted->model;
    f->wanted_batch = wanted->batch;
    int r = stoke_estimate_make(&f->wanted, engine, wanted, err);
    if (!r) r = stk_estimate_largest(&f->chosen, engine, memory, &f->room, err);
    size_t smaller = stk_is_resnet(wanted->model) ? 0 : stk_model_index(wanted->model);
    while (!r && !f->room && smaller) {
        f->chosen.model = stk_model_rows[--smaller].model;
        r = stk_estimate_largest(&f->chosen, engine, memory, &f->room, err);
    }
    if (r) return r;
    f->fits = f->room > 0;
    const uint32_t room = f->room ? f->room : 1;
    f->times = (wanted->batch + room - 1) / room;
    f->chosen.batch = (wanted->batch + f->times - 1) / f->times;
    return stoke_estimate_make(&f->got, engine, &f->chosen, err);
}

static int is_cut(const fitted *f)
{
    return f->chosen.batch != f->wanted_batch || strcmp(f->chosen.model, f->wanted_model);
}

/* ---- lines of one network or the other ---- */

static void batch_line(adviser *a, const fitted *f)
{
    char range[32], of[64] = "";
    const char *text = NUMBER(f->chosen.batch);
    a->advice->table_batch = f->wanted_batch;
    if (a->memory)
        snprintf(of, sizeof of, " of the card's %.1f", STK_GIB(a->memory));
    else if (a->host_memory != UINT64_MAX)
        snprintf(of, sizeof of, " of the %.1f that the machine can give", STK_GIB(a->host_memory));
    if (f->got.low == f->got.high) /* the native engine's plan */
        snprintf(range, sizeof range, "%.1f", STK_GIB(f->got.high));
    else
        snprintf(range, sizeof range, "%.1f to %.1f", STK_GIB(f->got.low), STK_GIB(f->got.high));
    if (!is_cut(f))
        line(a, "batch_size", text, STOKE_SOURCE_TABLE,
             "a usual starting point for %s; %s at %ux%u is estimated to take %s GiB%s", a->where,
             f->chosen.model, (unsigned)f->chosen.height, (unsigned)f->chosen.width, range, of);
    else
        line(a, "batch_size", text, STOKE_SOURCE_ESTIMATED,
             "usual for %s are %u, but with %s at %ux%u that is estimated to take up to %.1f GiB%s; this "
             "takes "
             "%s",
             a->where, (unsigned)f->wanted_batch, f->wanted_model, (unsigned)f->chosen.height,
             (unsigned)f->chosen.width, STK_GIB(f->wanted.high), of, range);
}

static void fit_remark(adviser *a, const fitted *f)
{
    const stoke_estimate_params *c = &f->chosen;
    if (!f->fits)
        REMARK(a,
               "Not even batch 1 with %s leaves 1 GiB free (%.1f GiB are needed at the most): lower the size "
               "of the pictures.",
               c->model, STK_GIB(f->got.high));
    else if (is_cut(f))
        REMARK(
            a,
            "What is usual and the estimate disagree: batch %u with %s would take %.1f to %.1f GiB, so batch "
            "%u with %s stands here; up to %u fits.",
            (unsigned)f->wanted_batch, f->wanted_model, STK_GIB(f->wanted.low), STK_GIB(f->wanted.high),
            (unsigned)c->batch, c->model, (unsigned)f->room);
    else if (f->room >= 2 * f->wanted_batch)
        REMARK(a, "The usual batch is more careful than the estimate, by which up to %u fits%s",
               (unsigned)f->room,
               a->memory ? ": a larger one is worth a trial where the card is not busy." : ".");
}

/* What makes up for a smaller batch: gradients of several added up, as many times as the table does anyway.
 */
static void accumulate_line(adviser *a, const fitted *f, uint32_t table)
{
    const uint32_t times = f->times * (table ? table : 1);
    if (f->times > 1)
        line(a, "accumulate", NUMBER(times), STOKE_SOURCE_ESTIMATED,
             "%u batches of %u make up one of the usual %u: the learning rate keeps its meaning",
             (unsigned)f->times, (unsigned)f->chosen.batch, (unsigned)f->wanted_batch);
    else if (table)
        line(a, "accumulate", NUMBER(table), STOKE_SOURCE_TABLE, USUAL, a->where);
}

static void expectation(adviser *a, const char *key, const char *value, const char *where)
{
    stoke_recommendation *r = &a->advice->expected[a->advice->n_expected++];
    *r = (stoke_recommendation){ .key = key, .source = STOKE_SOURCE_TABLE };
    snprintf(r->value, sizeof r->value, "%s", value);
    snprintf(r->why, sizeof r->why, "what people are told of %s; yours depends on data and task", where);
}

static int segformer_lines(adviser *a, fitted *f, stoke_error *err)
{
    const stk_advice_tier *tier = stk_tier_of(a->memory);
    const stk_advice_row *card = stk_advice_row_of(a->card);
    stoke_estimate_params p = stoke_estimate_defaults();
    snprintf(a->where, sizeof a->where, "%s", card ? card->name : tier->title);
    p.model = card ? card->model : tier->model;
    p.batch = card ? card->batch : tier->batch;
    p.height = p.width = tier->side;
    p.precision = a->memory ? STOKE_PRECISION_FP16 : STOKE_PRECISION_FP32;
    p.prefetch = PREFETCH;
    const int r = fit(f, &p, a->memory ? STOKE_ENGINE_TORCH : STOKE_ENGINE_NATIVE,
                      a->memory ? a->memory : a->host_memory, err);
    if (r) return r;

    if (strcmp(f->chosen.model, f->wanted_model))
        line(a, "model", f->chosen.model, STOKE_SOURCE_ESTIMATED,
             "usual for %s is %s, of which not one picture fits by the estimate", a->where, f->wanted_model);
    else
        line(a, "model", f->wanted_model, STOKE_SOURCE_TABLE, USUAL, a->where);
    batch_line(a, f);
    line(a, "image_size", NUMBER(tier->side), STOKE_SOURCE_TABLE, "usual for %s", tier->model);
    if (tier->lr)
        line(a, "learning_rate", tier->lr, STOKE_SOURCE_TABLE,
             USUAL "; `stoke find-lr` measures one on your data", tier->title);
    if (tier->epochs) line(a, "epochs", NUMBER(tier->epochs), STOKE_SOURCE_TABLE, USUAL, tier->title);
    accumulate_line(a, f, tier->accumulate);
    if (tier->scheduler)
        line(a, "scheduler", tier->scheduler > 0 ? "cosine" : "none", STOKE_SOURCE_TABLE,
             tier->scheduler > 0 ? USUAL ": one is on, and cosine is what most take" : USUAL, tier->title);
    fit_remark(a, f);
    if (!a->memory)
        REMARK(a, "These are usual values for any trainer, not measured here: left alone, `stoke train` "
                  "takes batches "
                  "of up to 8 and the size of your pictures; `stoke find-batch` measures.");
    const stk_advice_expected *e = card ? card->expected : a->memory ? NULL : &stk_expected_processor;
    if (e) {
        expectation(a, "time of an epoch", e->epoch, a->where);
        expectation(a, "time of 100 epochs", e->epochs, a->where);
        expectation(a, "F1", e->f1, a->where);
    }
    return STOKE_OK;
}

static int resnet_lines(adviser *a, fitted *f, stoke_error *err)
{
    const stk_advice_small_row *row = stk_small_row_of(a->card ? a->card->name : NULL, a->memory);
    stoke_estimate_params p = stoke_estimate_defaults();
    char from[64];
    snprintf(a->where, sizeof a->where, "%s", row->card);
    p.model = "resnet";
    p.batch = row->batch;
    p.height = p.width = row->patch;
    p.classes = stoke_estimate_classes(p.model);
    p.base_channels = row->channels;
    p.num_blocks = row->blocks;
    p.precision = STOKE_PRECISION_FP16;
    p.prefetch = PREFETCH;
    const int r = fit(f, &p, STOKE_ENGINE_TORCH, a->memory, err);
    if (r) return r;

    snprintf(from, sizeof from, "%s%s", row->borrowed ? row->borrowed : row->card,
             row->borrowed ? "; none is known for this card" : "");
    line(a, "model", "resnet", STOKE_SOURCE_TABLE, "the small residual network, as asked for");
    batch_line(a, f);
    line(a, "base_channels", NUMBER(row->channels), STOKE_SOURCE_TABLE, USUAL, row->card);
    line(a, "num_blocks", NUMBER(row->blocks), STOKE_SOURCE_TABLE, USUAL, from);
    line(a, "patch_size", NUMBER(row->patch), STOKE_SOURCE_TABLE, USUAL, from);
    if (row->perceptual)
        line(a, "use_perceptual", row->perceptual > 0 ? "true" : "false", STOKE_SOURCE_TABLE,
             USUAL ": its network needs memory of its own", row->card);
    accumulate_line(a, f, 0);
    fit_remark(a, f);
    REMARK(a, "Channels, blocks, patches and the loss are part of the experiment: with others it is another "
              "one.");
    if (row->busy) expectation(a, "busy share of the card", row->busy, row->card);
    if (row->speed_up) expectation(a, "faster than before", row->speed_up, row->card);
    return STOKE_OK;
}

/* ---- lines of the loader ---- */

static uint32_t table_workers(const adviser *a)
{
    if (!a->on_card) return stk_tier_of(0)->workers;
    if (a->memory && stk_is_resnet(a->params->task))
        return stk_small_row_of(a->card ? a->card->name : NULL, a->memory)->workers;
    const stk_advice_row *row = stk_advice_row_of(a->card);
    return row ? row->workers : 0;
}

/* Two thirds of the cores; as many as usual where nobody said whose they are. */
static void workers_line(adviser *a, uint64_t batch_bytes)
{
    const stoke_recommend_params *p = a->params;
    const uint32_t table = table_workers(a), most = table ? table : WORKERS_MOST;
    const uint32_t wanted = stk_decide_workers(p->cores, p->ranks), workers = wanted < most ? wanted : most;
    const uint64_t worker = WORKER_BYTES + stk_loader_row_of(a->memory)->prefetch * batch_bytes;
    const uint64_t held = a->host_memory / p->ranks / 2 / worker;
    char usual[16] = "8 to 16", cores[96], share[48] = "";
    if (table) number(usual, table);
    if (!p->cores_source) {
        line(a, "num_workers", NUMBER(table ? table : WORKERS_LEAST), STOKE_SOURCE_TABLE,
             "a usual start (%s): the cores of that machine are not known here; with them given it is two "
             "thirds of them",
             usual);
        return;
    }
    if (p->ranks > 1) snprintf(share, sizeof share, ", shared by %u processes", (unsigned)p->ranks);
    snprintf(cores, sizeof cores, "%u core%s %s%s", (unsigned)p->cores, p->cores == 1 ? "" : "s",
             p->cores_source == STOKE_SOURCE_GIVEN ? "given" : "usable here", share);
    if (held < workers && p->cores_source == STOKE_SOURCE_MEASURED) {
        const uint32_t few = held ? (uint32_t)held : 1;
        line(a, "num_workers", NUMBER(few), STOKE_SOURCE_ESTIMATED,
             "each takes about %.1f GiB with its batches, and half of the host's %.1f GiB is for them",
             STK_GIB(worker), STK_GIB(a->host_memory));
    } else if (wanted < most)
        line(a, "num_workers", NUMBER(workers), p->cores_source,
             "two thirds of the cores: %s; the others are for the trainer (usual are %s)", cores, usual);
    else
        line(a, "num_workers", NUMBER(workers), STOKE_SOURCE_TABLE, "usual are %s, and %s allow them", usual,
             cores);
}

static void loader_lines(adviser *a, const fitted *f)
{
    const stoke_estimate_params *c = &f->chosen;
    const stk_advice_loader_row *row =
        a->memory ? stk_loader_row_of(a->memory) : stk_loader_row_of(STK_SPARE_BYTES * 16);
    workers_line(a, (uint64_t)c->batch * c->height * c->width * (3 * 4 + 8));
    line(a, "persistent_workers", "true", STOKE_SOURCE_TABLE,
         "workers started again cost every epoch its first batches");
    if (a->memory)
        line(a, "prefetch_factor", NUMBER(row->prefetch), STOKE_SOURCE_TABLE,
             "batches that each worker keeps ready; %u to %u are usual for this memory",
             (unsigned)(row->prefetch_most == row->prefetch ? 2 : row->prefetch),
             (unsigned)row->prefetch_most);
    else
        line(a, "prefetch_factor", NUMBER(row->prefetch), STOKE_SOURCE_TABLE,
             "batches that each worker keeps ready");
    if (a->on_card)
        line(a, "pin_memory", "true", STOKE_SOURCE_TABLE,
             "only from pinned memory does a copy run beside the computing");
}

static void precision_lines(adviser *a)
{
    const double capability = a->card ? a->card->capability : 0;
    const int old = capability > 0 && capability < STK_MIXED_SINCE;
    if (!a->on_card) {
        line(a, "mixed_precision", "false", STOKE_SOURCE_TABLE, USUAL, stk_tier_of(0)->title);
        return;
    }
    line(a, "mixed_precision", "true", STOKE_SOURCE_TABLE, "%s",
         old ? "it saves memory on this card, no time: that is won from compute capability 7.0 on"
             : "activations take about half, weights and optimiser as much as before");
    if (old) /* the compiler behind it wants 7.0, too */
        line(a, "compile", "false", STOKE_SOURCE_TABLE,
             "torch.compile needs compute capability 7.0 and this card has %.1f", capability);
    else
        line(a, "compile", "true", STOKE_SOURCE_TABLE,
             "the first steps take a minute or more, so time it on a whole epoch");
}

/* ---- which row ---- */

/* The card by name, its memory, and the subject. A given memory goes before what the name stands for. */
static int find_subject(adviser *a, stoke_error *err)
{
    const stoke_recommend_params *p = a->params;
    char *subject = a->advice->subject;
    const size_t size = sizeof a->advice->subject;
    a->memory = p->memory;
    if (!p->gpu || !*p->gpu) {
        a->on_card = p->memory || p->some_card || stk_is_resnet(p->task);
        if (p->memory)
            snprintf(subject, size, "a card of %.4g GB", STK_GIB(p->memory));
        else if (a->on_card)
            snprintf(subject, size, "a card that is not named");
        else
            snprintf(subject, size, "no card: the processor, %u usable core%s", (unsigned)p->cores,
                     p->cores == 1 ? "" : "s");
        return STOKE_OK;
    }
    const stk_gpu_name found = stk_gpu_named(p->gpu);
    const int known = found.gpu && !found.portable;
    if (!p->memory && found.gb)
        a->memory = (uint64_t)found.gb << 30;
    else if (!p->memory && known)
        a->memory = (uint64_t)found.gpu->gb << 30;
    if (!a->memory && found.portable)
        return stk_fail(
            err, STOKE_E_INVALID,
            "\"%s\" is a laptop's, whose memory differs from model to model: give its memory, too", p->gpu);
    if (!a->memory)
        return stk_fail(err, STOKE_E_INVALID, "no card called \"%s\" is known%s%s: give its memory, too",
                        p->gpu, found.nearest ? "; the nearest is " : "", found.nearest ? found.nearest : "");
    a->on_card = 1;
    snprintf(subject, size, "%.100s, %.4g GB", known ? found.gpu->name : p->gpu, STK_GIB(a->memory));
    if (!known) return STOKE_OK;
    const uint32_t gb = found.gpu->gb;
    if (stk_is_at_least(a->memory, gb) && a->memory < ((uint64_t)gb << 30) / 10 * 11) {
        a->card = found.gpu;
        if (!p->memory && !found.gb && found.gpu->also_gb)
            REMARK(a, "%s is also sold with %u GB: say so where yours is one.", found.gpu->name,
                   (unsigned)found.gpu->also_gb);
    } else if (a->memory != (uint64_t)found.gpu->also_gb << 30)
        REMARK(a, "%s is known with %u GB; the settings are those usual for the memory there is.",
               found.gpu->name, (unsigned)gb);
    return STOKE_OK;
}

static int check(const stoke_recommend_params *p, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_recommend_defaults");
    if (!p->task || (strcmp(p->task, "segformer") && !stk_is_resnet(p->task)))
        return stk_fail(err, STOKE_E_INVALID, "task \"%s\" is unknown: there are segformer and resnet",
                        p->task ? p->task : "");
    if (!p->ranks || p->ranks > RANKS_MOST)
        return stk_fail(err, STOKE_E_INVALID, "ranks is %u: 1 to %d will do", (unsigned)p->ranks, RANKS_MOST);
    return STOKE_OK;
}

int stoke_recommend(stoke_advice *advice, const stoke_recommend_params *params, stoke_error *err)
{
    adviser a = { .advice = advice, .params = params };
    fitted f = { 0 };
    memset(advice, 0, sizeof *advice);
    int r = check(params, err);
    if (!r) r = find_subject(&a, err);
    if (r) return r;
    a.host_memory = params->host_memory ? params->host_memory : UINT64_MAX;
    advice->memory = a.memory;
    const int small = stk_is_resnet(params->task);
    if (a.memory)
        r = small ? resnet_lines(&a, &f, err) : segformer_lines(&a, &f, err);
    else if (!a.on_card)
        r = segformer_lines(&a, &f, err);
    else /* what needs no memory to be known follows */
        REMARK(&a, "Batch and size of the network depend on the card's memory, and no card is known: name "
                   "one, or its memory.");
    if (r) return r;
    loader_lines(&a, &f);
    precision_lines(&a);
    line(&a, "grad_clip", "1.0", STOKE_SOURCE_TABLE,
         "harmless where gradients are small, and a bad batch cannot throw the run off");
    return STOKE_OK;
}

int stoke_card_same(const char *a, const char *b)
{
    const stk_gpu_name x = stk_gpu_named(a), y = stk_gpu_named(b);
    return x.portable == y.portable && (x.gpu ? x.gpu == y.gpu : !strcasecmp(a, b));
}
