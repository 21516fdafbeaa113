/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings to start from: a row of the documents' tables, cut to what the estimate lets fit and to the cores
 * there are. Every line says which of these it is; what the tables and the estimate disagree about goes into
 * the remark.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/tune/advice/advice_tables.h"
#include <stoke/advise.h>
#include <stoke/machine.h>
#include <stoke/net.h>

enum {
    CLASSES = 19,      /* of Cityscapes: nobody has said how many there are */
    WORKERS_MOST = 16, /* the documents: 8 to 16 */
    WORKERS_LEAST = 8,
    WORKER_BYTES = 300000000, /* what a worker process of PyTorch holds of its own before its batches */
    PREFETCH_FACTOR = 4,
    RANKS_MOST = 4096
};
#define SPARE      (UINT64_C(1) << 30) /* the documents want 1 GB left free */
#define GIB(bytes) ((double)(bytes) / (double)(UINT64_C(1) << 30))

typedef struct adviser {
    stoke_advice *advice;
    const stoke_recommend_params *params;
    const stk_advice_row *card; /* its row counts; NULL: that of the memory */
    uint64_t memory;            /* 0: no card */
    uint64_t host_memory;       /* UINT64_MAX: n/a */
    char where[48];             /* "RTX 3090", "16 GB and more" */
} adviser;

stoke_recommend_params stoke_recommend_defaults(void)
{
    return (stoke_recommend_params){ .struct_size = sizeof(stoke_recommend_params),
                                     .task = "segformer",
                                     .cores = stoke_machine_cores().usable,
                                     .ranks = 1,
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

static const char *number(char text[static 16], uint32_t value)
{
    snprintf(text, 16, "%u", (unsigned)value);
    return text;
}

/* One more sentence. */
STOKE_PRINTF(2, 3)
static void remark(adviser *a, const char *format, ...)
{
    char *text = a->advice->remark;
    const size_t used = strlen(text), room = sizeof a->advice->remark - used;
    va_list arguments;
    if (used && room > 1) text[used] = ' ', text[used + 1] = 0;
    va_start(arguments, format);
    vsnprintf(text + used + !!used, room - !!used, format, arguments);
    va_end(arguments);
}

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

static int largest_batch(const stoke_estimate_params *p, stoke_engine engine, uint64_t memory,
                         uint32_t *batch, stoke_error *err)
{
    int r = stoke_estimate_batch(engine, p, memory, SPARE, 8, batch, err);
    if (!r && !*batch) r = stoke_estimate_batch(engine, p, memory, SPARE, 1, batch, err);
    return r;
}

/* Keeps the model and lowers the batch; takes the next smaller model where not even one picture fits. */
static int fit(fitted *f, const stoke_estimate_params *wanted, stoke_engine engine, uint64_t memory,
               stoke_error *err)
{
    static const char *const models[] = { "b5", "b4", "b3", "b2", "b1", "b0" };
    const size_t n = sizeof models / sizeof *models;
    size_t next = 0;
    memset(f, 0, sizeof *f);
    f->chosen = *wanted;
    f->wanted_model = wanted->model;
    f->wanted_batch = wanted->batch;
    int r = stoke_estimate_make(&f->wanted, engine, wanted, err);
    if (!r) r = largest_batch(&f->chosen, engine, memory, &f->room, err);
    while (next < n && strcmp(models[next], wanted->model)) next++;
    while (!r && !f->room && next + 1 < n) {
        f->chosen.model = models[++next];
        r = largest_batch(&f->chosen, engine, memory, &f->room, err);
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
    char text[16], range[32], of[64] = "";
    number(text, f->chosen.batch);
    if (a->memory)
        snprintf(of, sizeof of, " of the card's %.1f", GIB(a->memory));
    else if (a->host_memory != UINT64_MAX)
        snprintf(of, sizeof of, " of the %.1f that the machine can give", GIB(a->host_memory));
    if (f->got.low == f->got.high) /* the native engine's plan */
        snprintf(range, sizeof range, "%.1f", GIB(f->got.high));
    else
        snprintf(range, sizeof range, "%.1f to %.1f", GIB(f->got.low), GIB(f->got.high));
    if (!is_cut(f))
        line(a, "batch_size", text, STOKE_SOURCE_TABLE, "row of %s; estimated to take %s GiB%s", a->where,
             range, of);
    else
        line(a, "batch_size", text, STOKE_SOURCE_ESTIMATED,
             "row of %s says %u with %s, estimated to take up to %.1f GiB%s; this takes %s", a->where,
             (unsigned)f->wanted_batch, f->wanted_model, GIB(f->wanted.high), of, range);
}

static void fit_remark(adviser *a, const fitted *f)
{
    const stoke_estimate_params *c = &f->chosen;
    if (!f->fits)
        remark(a,
               "Not even batch 1 with %s leaves 1 GiB free (%.1f GiB are needed at the most): lower the size "
               "of the pictures.",
               c->model, GIB(f->got.high));
    else if (is_cut(f))
        remark(a,
               "The table and the estimate disagree: batch %u with %s would take %.1f to %.1f GiB, so batch "
               "%u with %s stands here; up to %u fits.",
               (unsigned)f->wanted_batch, f->wanted_model, GIB(f->wanted.low), GIB(f->wanted.high),
               (unsigned)c->batch, c->model, (unsigned)f->room);
    else if (f->room >= 2 * f->wanted_batch)
        remark(a, "The table is more careful than the estimate, by which up to batch %u fits%s",
               (unsigned)f->room,
               a->memory ? ": a larger one is worth a trial where the card is not busy." : ".");
}

/* What makes up for a smaller batch: gradients of several added up, as many times as the table does anyway.
 */
static void accumulate_line(adviser *a, const fitted *f, uint32_t table)
{
    char text[16];
    const uint32_t times = f->times * (table ? table : 1);
    if (f->times > 1)
        line(a, "accumulate", number(text, times), STOKE_SOURCE_ESTIMATED,
             "%u batches of %u make up one of the row's %u: the learning rate keeps its meaning",
             (unsigned)f->times, (unsigned)f->chosen.batch, (unsigned)f->wanted_batch);
    else if (table)
        line(a, "accumulate", number(text, table), STOKE_SOURCE_TABLE, "row of %s", a->where);
}

static int segformer_lines(adviser *a, uint32_t prefetch, fitted *f, stoke_error *err)
{
    const stk_tier *tier = stk_tier_of(a->memory);
    const stk_advice_row *card = a->card && a->card->model ? a->card : NULL;
    stoke_estimate_params p = stoke_estimate_defaults();
    char text[16];
    snprintf(a->where, sizeof a->where, "%s", card ? card->name : tier->title);
    p.model = card ? card->model : tier->model;
    p.batch = card ? card->batch : tier->batch;
    p.height = p.width = tier->side;
    p.classes = CLASSES;
    p.precision = a->memory ? STOKE_PRECISION_FP16 : STOKE_PRECISION_FP32;
    p.prefetch = prefetch;
    const int r = fit(f, &p, a->memory ? STOKE_ENGINE_TORCH : STOKE_ENGINE_NATIVE,
                      a->memory ? a->memory : a->host_memory, err);
    if (r) return r;

    if (strcmp(f->chosen.model, p.model))
        line(a, "model", f->chosen.model, STOKE_SOURCE_ESTIMATED,
             "row of %s says %s, of which not one picture fits by the estimate", a->where, p.model);
    else
        line(a, "model", p.model, STOKE_SOURCE_TABLE, "row of %s", a->where);
    batch_line(a, f);
    line(a, "image_size", number(text, tier->side), STOKE_SOURCE_TABLE,
         "pictures as the table has them for %s", tier->model);
    if (tier->lr)
        line(a, "learning_rate", tier->lr, STOKE_SOURCE_TABLE,
             "row of %s; `stoke find-lr` measures one on your data", tier->title);
    if (tier->epochs)
        line(a, "epochs", number(text, tier->epochs), STOKE_SOURCE_TABLE, "row of %s", tier->title);
    accumulate_line(a, f, tier->accumulate);
    if (tier->no_scheduler) line(a, "scheduler", "none", STOKE_SOURCE_TABLE, "row of %s", tier->title);
    fit_remark(a, f);
    return STOKE_OK;
}

static int smallnet_lines(adviser *a, uint32_t prefetch, fitted *f, stoke_error *err)
{
    const stk_small_row *row = stk_small_row_of(a->card ? a->card->name : NULL, a->memory);
    stoke_estimate_params p = stoke_estimate_defaults();
    char text[16], from[64];
    snprintf(a->where, sizeof a->where, "%s", row->card);
    p.model = "smallnet";
    p.batch = row->batch;
    p.height = p.width = row->patch;
    p.classes = 3;
    p.base_channels = row->channels;
    p.num_blocks = row->blocks;
    p.precision = STOKE_PRECISION_FP16;
    p.prefetch = prefetch;
    const int r = fit(f, &p, STOKE_ENGINE_TORCH, a->memory, err);
    if (r) return r;

    snprintf(from, sizeof from, "%s%s", row->borrowed ? row->borrowed : row->card,
             row->borrowed ? "; that of this card does not say" : "");
    batch_line(a, f);
    line(a, "base_channels", number(text, row->channels), STOKE_SOURCE_TABLE, "row of %s", row->card);
    line(a, "num_blocks", number(text, row->blocks), STOKE_SOURCE_TABLE, "row of %s", from);
    line(a, "patch_size", number(text, row->patch), STOKE_SOURCE_TABLE, "row of %s", from);
    if (row->no_perceptual)
        line(a, "use_perceptual", "false", STOKE_SOURCE_TABLE,
             "row of %s: its network needs memory of its own", row->card);
    accumulate_line(a, f, 0);
    fit_remark(a, f);
    remark(a, "Channels, blocks and patches are part of the experiment: with others it is another one.");
    return STOKE_OK;
}

/* ---- lines of the loader ---- */

static uint32_t table_workers(const adviser *a)
{
    if (!a->memory) return stk_tier_of(0)->workers;
    if (!strcmp(a->params->task, "smallnet"))
        return stk_small_row_of(a->card ? a->card->name : NULL, a->memory)->workers;
    return a->card ? a->card->workers : 0;
}

/* Returns how many. One core per process stays with the one that feeds the device. */
static uint32_t workers_line(adviser *a, uint64_t batch_bytes)
{
    const uint32_t each = a->params->cores / a->params->ranks, cap = each ? each - 1 : 0;
    const uint32_t table = table_workers(a), wanted = table ? table : WORKERS_MOST;
    const uint64_t worker = WORKER_BYTES + PREFETCH_FACTOR * batch_bytes;
    const uint64_t held = a->host_memory / a->params->ranks / 2 / worker;
    uint32_t workers = wanted < cap ? wanted : cap;
    char text[16], share[64] = "";
    if (a->params->ranks > 1)
        snprintf(share, sizeof share, " shared by %u processes", (unsigned)a->params->ranks);
    if (held < workers) {
        workers = (uint32_t)held;
        line(a, "num_workers", number(text, workers), STOKE_SOURCE_ESTIMATED,
             "each takes about %.1f GiB with its batches, and half of the host's %.1f GiB%s is for them",
             GIB(worker), GIB(a->host_memory), share);
    } else if (workers < (table ? table : WORKERS_LEAST))
        line(a, "num_workers", number(text, workers), STOKE_SOURCE_MEASURED,
             "the table says %s, but %u cores%s are usable and one stays with the training",
             table ? number((char[16]){ 0 }, table) : "8 to 16", (unsigned)a->params->cores, share);
    else
        line(a, "num_workers", number(text, workers), STOKE_SOURCE_TABLE,
             "row of %s, and %u cores%s are usable", table ? a->where : "8 to 16", (unsigned)a->params->cores,
             share);
    return workers;
}

static void loader_lines(adviser *a, const fitted *f, const stk_prefetch_row *prefetch)
{
    const stoke_estimate_params *c = &f->chosen;
    char text[16];
    const uint32_t workers = workers_line(a, (uint64_t)c->batch * c->height * c->width * (3 * 4 + 8));
    if (workers) {
        line(a, "persistent_workers", "true", STOKE_SOURCE_TABLE,
             "workers started anew cost every epoch its first batches");
        line(a, "prefetch_factor", number(text, PREFETCH_FACTOR), STOKE_SOURCE_TABLE,
             "batches that each worker keeps ready");
    }
    if (!a->memory) return;
    line(a, "prefetch", number(text, prefetch->low), STOKE_SOURCE_TABLE,
         "batches that wait on the card, %u to %u for this memory; the estimate counts them",
         (unsigned)prefetch->low, (unsigned)prefetch->high);
    line(a, "pin_memory", "true", STOKE_SOURCE_TABLE,
         "only from pinned memory does a copy run beside the computing");
}

static void precision_lines(adviser *a)
{
    const int old = a->card && !strncmp(a->card->name, "GTX", 3);
    if (!a->memory) {
        line(a, "mixed_precision", "false", STOKE_SOURCE_TABLE, "row of the processor alone");
        return;
    }
    line(a, "mixed_precision", "true", STOKE_SOURCE_TABLE, "%s",
         old ? "it saves memory here, but little time: this card has no tensor cores"
             : "activations take about half, weights and optimiser as much as before");
    /* The compiler behind torch.compile wants compute capability 7.0; these have 6.1 at the most. */
    if (old && !strncmp(a->card->name, "GTX 10", 6))
        line(a, "compile", "false", STOKE_SOURCE_TABLE,
             "torch.compile needs compute capability 7.0 and this card has 6.1");
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
        if (p->memory)
            snprintf(subject, size, "a card of %.4g GB", GIB(p->memory));
        else
            snprintf(subject, size, "no card: the processor, %u usable cores", (unsigned)p->cores);
        return STOKE_OK;
    }
    const stk_advice_name found = stk_advice_card(p->gpu);
    if (!p->memory && found.gb)
        a->memory = (uint64_t)found.gb << 30;
    else if (!p->memory && found.card && !found.portable)
        a->memory = (uint64_t)found.card->gb << 30;
    if (!a->memory && found.portable)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "\"%s\" is a laptop's, whose memory differs from model to model: give its "
                        "memory (--vram GB)",
                        p->gpu);
    if (!a->memory)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "no card called \"%s\" is known%s%s: give its memory (--vram GB)", p->gpu,
                        found.nearest ? "; the nearest is " : "", found.nearest ? found.nearest : "");
    snprintf(subject, size, "%.100s, %.4g GB", found.card && !found.portable ? found.card->name : p->gpu,
             GIB(a->memory));
    if (!found.card || found.portable) return STOKE_OK;
    const uint32_t gb = found.card->gb;
    if (stk_is_at_least(a->memory, gb) && a->memory < ((uint64_t)gb << 30) / 10 * 11)
        a->card = found.card;
    else
        remark(a, "The tables have %s with %u GB; the row is that of the memory.", found.card->name,
               (unsigned)gb);
    return STOKE_OK;
}

static int check(const stoke_recommend_params *p, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p)
        return stk_fail(err, STOKE_E_INVALID, "the parameters are not those of stoke_recommend_defaults");
    if (!p->task || (strcmp(p->task, "segformer") && strcmp(p->task, "smallnet")))
        return stk_fail(err, STOKE_E_INVALID, "task \"%s\" is unknown: there are segformer and smallnet",
                        p->task ? p->task : "");
    if (!p->ranks || p->ranks > RANKS_MOST)
        return stk_fail(err, STOKE_E_INVALID, "ranks is %u: 1 to %d will do", (unsigned)p->ranks, RANKS_MOST);
    return STOKE_OK;
}

int stoke_recommend(stoke_advice *advice, const stoke_recommend_params *params, stoke_error *err)
{
    adviser a = { .advice = advice, .params = params };
    fitted f;
    memset(advice, 0, sizeof *advice);
    int r = check(params, err);
    if (!r) r = find_subject(&a, err);
    if (r) return r;
    a.host_memory = params->host_memory ? params->host_memory : UINT64_MAX;
    advice->memory = a.memory;
    const stk_prefetch_row *prefetch = stk_prefetch_of(a.memory);
    if (!strcmp(params->task, "segformer"))
        r = segformer_lines(&a, prefetch->low, &f, err);
    else if (a.memory)
        r = smallnet_lines(&a, prefetch->low, &f, err);
    else
        r = stk_fail(
            err, STOKE_E_UNSUPPORTED,
            "the tables have no row for smallnet without a card: name a card (--gpu) or its memory (--vram)");
    if (r) return r;
    loader_lines(&a, &f, prefetch);
    precision_lines(&a);
    line(&a, "grad_clip", "1.0", STOKE_SOURCE_TABLE,
         "harmless where gradients are small, and a bad batch cannot throw the run off");
    return STOKE_OK;
}
