/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke estimate: where memory will go, in our engine and in PyTorch, and what else would fit.
 */
#include <stdio.h>
#include <string.h>

#include "cli/lib/card.h"
#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/lib/settings.h"
#include <stoke/tools/advise.h>

#define GIB(bytes) ((double)(bytes) / (double)(UINT64_C(1) << 30))
#define SPARE      (UINT64_C(1) << 30)

typedef struct estimate_options {
    const char *model;
    int64_t batch, classes, prefetch, base_channels, num_blocks;
    uint32_t size[2];
    int task;
    int64_t scale;
    int precision, optimizer, freeze_encoder, average;
    double vram;
    const char *gpu;
} estimate_options;

#define OPTIONS estimate_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, model, "b0", "b0..b5|resnet|unet",
             "The network; resnet is a small residual one, of --base-channels and --num-blocks, unet has "
             "--base-channels"),
    CLI_NUMBER(AUTO_INT, batch, "8", 1, 65536, "N|auto",
               "Pictures per batch; auto is what `stoke train` takes: up to 8 that fit into this machine"),
    CLI_TEXT(SIZE, size, "288", "N|HxW", "Size of a picture"),
    CLI_NUMBER(INT, classes, "0", 0, 65535, "N", "Number of classes; 0 is 19"),
    CLI_CHOICE(
        task, "auto", "auto|segment|restore",
        "What the network learns of a picture: its mask, or what it should become; auto is segment, and "
        "of a resnet without --classes restore"),
    CLI_NUMBER(INT, scale, "1", 1, 4, "N", "Of --task restore: sides of the result per side of the picture"),
    CLI_CHOICE(precision, "auto", "fp32|bf16|fp16|auto",
               "In PyTorch, bf16 and fp16 are autocast: weights, gradients and moments stay fp32. auto is "
               "what `stoke train` takes on this processor, and autocast in PyTorch"),
    CLI_CHOICE(optimizer, "adamw", "adamw|sgd", "AdamW keeps two moments per weight, SGD one"),
    CLI_FLAG(freeze_encoder, "Train the decode head only"),
    CLI_FLAG(average, "Keep a moving average of the weights"),
    CLI_NUMBER(INT, prefetch, "2", 0, 1024, "N", "Batches that wait beside the one in use"),
    CLI_NUMBER(INT, base_channels, "0", 0, 1024, "N", "Of resnet and unet; 0 is 32, and 16 of a unet"),
    CLI_NUMBER(INT, num_blocks, "0", 0, 256, "N", "Of resnet; 0 is 4"),
    CLI_NUMBER(REAL, vram, "0", 0, 4096, "GB",
               "Memory of a card as it is sold (1 GB is 1024^3 bytes): what is the largest batch, picture "
               "and model that leave 1 GiB of it free"),
    CLI_TEXT(STRING, gpu, NULL, "NAME", "The same for a card by its name, such as \"RTX 3090\""),
};

/* What there is to tell about one engine. */
typedef struct column {
    const char *name;
    stoke_estimate estimate;
    int ok;
    const char *precision;
    char problem[1024];
} column;

/* What fits on the card, in PyTorch. 0 or NULL: nothing does. */
typedef struct inverse {
    uint64_t memory;
    char subject[128];
    int asked; /* what was asked for fits itself */
    uint32_t batch, side;
    const char *model;
} inverse;

enum { ENGINES = 2 };

static stoke_estimate_params params_of(const estimate_options *o)
{
    stoke_estimate_params p = stoke_estimate_defaults();
    p.model = o->model;
    p.batch = (uint32_t)o->batch;
    p.height = o->size[0];
    p.width = o->size[1];
    p.classes = o->classes ? (uint32_t)o->classes : stoke_estimate_classes(o->model);
    p.task = o->task == STOKE_TASK_AUTO && o->classes ? STOKE_TASK_SEGMENT : o->task;
    p.scale = (uint32_t)o->scale;
    p.precision = o->precision;
    p.optimizer = o->optimizer;
    p.freeze_encoder = o->freeze_encoder;
    p.average = o->average;
    p.prefetch = (uint32_t)o->prefetch;
    p.base_channels = (uint32_t)o->base_channels;
    p.num_blocks = (uint32_t)o->num_blocks;
    return p;
}

enum { ASSUMED = 5 };
static const char *const assumed_names[ASSUMED] = { "model", "batch", "size", "classes", "precision" };

/* Of what the flags leave open: what the file says, or the set that it names shows. Returns a sum of
 * stoke_assumed. */
static unsigned complete(const cli_call *call, estimate_options *o)
{
    stoke_estimate_params p = params_of(o);
    unsigned assumed = (1U << ASSUMED) - 1;
    char model[32];
    if (!cli_has_flag(call, "model")) p.model = NULL; /* the file's, or nobody's */
    if (call->common.config && !stoke_estimate_config(&p, call->common.config, model, &assumed, NULL)) {
        if (!cli_has_flag(call, "size") && !(assumed & STOKE_ASSUMED_SIZE))
            o->size[0] = p.height, o->size[1] = p.width;
        if (!cli_has_flag(call, "precision")) o->precision = p.precision;
    }
    for (int i = 0; i < ASSUMED; i++)
        if (cli_has_flag(call, assumed_names[i])) assumed &= ~(1U << i);
    return assumed;
}

/* One of them must work: neither engine knows every network. */
static int make_columns(column columns[ENGINES], const stoke_estimate_params *p, stoke_error *err)
{
    columns[0] = (column){ .name = "native" };
    columns[1] = (column){ .name = "torch" };
    int ok = 0;
    for (int engine = ENGINES - 1; engine >= 0; engine--) {
        column *c = &columns[engine];
        const int r = stoke_estimate_make(&c->estimate, (stoke_engine)engine, p, err);
        if (r && r != STOKE_E_UNSUPPORTED) return r;
        ok |= c->ok = !r;
        if (r)
            snprintf(c->problem, sizeof c->problem, "%s", err->message);
        else
            c->precision = stoke_estimate_precision((stoke_engine)engine, p);
    }
    return ok ? STOKE_OK : STOKE_E_UNSUPPORTED;
}

/* Networks that differ in size alone: the largest that fits is worth an answer. */
static const char *const models[] = { "b5", "b4", "b3", "b2", "b1", "b0" };

static int has_sizes(const char *model)
{
    for (size_t i = 0; i < CLI_COUNT(models); i++)
        if (!strcmp(models[i], model)) return 1;
    return 0;
}

static int ask_backwards(inverse *v, const estimate_options *o, stoke_error *err)
{
    const stoke_engine torch = STOKE_ENGINE_TORCH;
    stoke_recommend_params card = stoke_recommend_defaults();
    stoke_advice advice;
    stoke_estimate estimate;
    card.gpu = o->gpu;
    card.memory = (uint64_t)(o->vram * (double)(UINT64_C(1) << 30));
    if (!card.gpu && !card.memory) return STOKE_OK;
    int r = stoke_recommend(&advice, &card, err);
    if (r) return r;
    v->memory = advice.memory;
    snprintf(v->subject, sizeof v->subject, "%s", advice.subject);

    stoke_estimate_params p = params_of(o);
    r = stoke_estimate_make(&estimate, torch, &p, err);
    if (!r) v->asked = v->memory >= SPARE && estimate.high <= v->memory - SPARE;
    if (!r) r = stoke_estimate_batch(torch, &p, v->memory, SPARE, 8, &v->batch, err);
    if (!r && !v->batch) r = stoke_estimate_batch(torch, &p, v->memory, SPARE, 1, &v->batch, err);
    if (!r) r = stoke_estimate_side(torch, &p, v->memory, SPARE, &v->side, err);
    if (!has_sizes(p.model)) return r;
    for (size_t i = 0; !r && !v->model && i < CLI_COUNT(models); i++) {
        p.model = models[i];
        r = stoke_estimate_make(&estimate, torch, &p, err);
        if (!r && v->memory >= SPARE && estimate.high <= v->memory - SPARE) v->model = models[i];
    }
    return r;
}

/* ---- for people ---- */

static const char *cell(char text[static 32], const column *c, uint64_t bytes)
{
    if (!c->ok) return "n/a";
    snprintf(text, 32, "%.3f", GIB(bytes));
    return text;
}

static void print_terms(const column columns[ENGINES])
{
    stoke_table *table = CLI_TABLE("GiB", "native", "torch", "largest", "what it is");
    char native[32], torch[32];
    for (int i = 0; i < STOKE_TERMS; i++) {
        const int here = columns[0].ok && columns[0].estimate.dominant == i,
                  there = columns[1].ok && columns[1].estimate.dominant == i;
        cli_row(table, "%s\t%s\t%s\t%s%s%s\t%s", stoke_memory_term_name(i),
                cell(native, &columns[0], columns[0].estimate.bytes[i]),
                cell(torch, &columns[1], columns[1].estimate.bytes[i]), here ? "native" : "",
                here && there ? ", " : "", there ? "torch" : "", stoke_memory_term_meaning(i));
    }
    cli_row(table, "total\t%s\t%s\t\t", cell(native, &columns[0], columns[0].estimate.total),
            cell(torch, &columns[1], columns[1].estimate.total));
    cli_table_end(table);
}

static void print_columns(const column columns[ENGINES], const stoke_estimate_params *p, unsigned assumed)
{
    const char *between = "assumed, since nobody says them: ";
    stoke_estimate_subject(stdout, &columns[columns[1].ok].estimate, p);
    for (int i = 0; i < ASSUMED; i++)
        if (assumed >> i & 1) {
            cli_print("%s%s", between, assumed_names[i]);
            between = ", ";
        }
    puts(assumed ? "\n" : "");
    print_terms(columns);
    putchar('\n');
    for (int i = 0; i < ENGINES; i++) {
        const column *c = &columns[i];
        if (!c->ok)
            cli_print("%-6s  n/a: %s\n", c->name, c->problem);
        else
            stoke_estimate_verdict(stdout, &c->estimate, (stoke_engine)i, p);
    }
    if (!columns[1].ok) return;
    putchar('\n');
    stoke_estimate_levels(stdout, &columns[1].estimate);
}

static void print_inverse(const inverse *v, const stoke_estimate_params *p)
{
    if (!v->memory) return;
    cli_print("\n%s, 1 GiB left free, by the high end of torch's range:\n", v->subject);
    cli_print("  as asked       %s\n", v->asked ? "fits" : "does not fit");
    if (v->batch)
        cli_print("  largest batch  %u with %s at %u x %u\n", (unsigned)v->batch, p->model,
                  (unsigned)p->height, (unsigned)p->width);
    else
        cli_print("  largest batch  none: not one picture fits with %s at %u x %u\n", p->model,
                  (unsigned)p->height, (unsigned)p->width);
    if (v->side)
        cli_print("  largest size   %u x %u with %s at batch %u\n", (unsigned)v->side, (unsigned)v->side,
                  p->model, (unsigned)p->batch);
    else
        cli_print("  largest size   none, with %s at batch %u\n", p->model, (unsigned)p->batch);
    if (has_sizes(p->model))
        cli_print("  largest model  %s at batch %u and %u x %u\n", v->model ? v->model : "none",
                  (unsigned)p->batch, (unsigned)p->height, (unsigned)p->width);
}

/* ---- for programs ---- */

static void json_column(stoke_json *json, const column *c)
{
    stoke_json_object(json, c->name);
    stoke_json_string(json, "problem", c->ok ? NULL : c->problem);
    if (c->ok) {
        const stoke_estimate *e = &c->estimate;
        FACTS(json, FACT_OF(c, precision));
        stoke_json_object(json, "bytes");
        for (int i = 0; i < STOKE_TERMS; i++) stoke_json_uint(json, stoke_memory_term_name(i), e->bytes[i]);
        stoke_json_close(json);
        FACTS(json, FACT("total_bytes", e->total), FACT("low_bytes", e->low), FACT("high_bytes", e->high),
              FACT("allocated_bytes", e->allocated), FACT("reserved_low_bytes", e->reserved_low),
              FACT("reserved_high_bytes", e->reserved_high), FACT_COUNT("card_bytes", e->card),
              FACT("dominant", stoke_memory_term_name(e->dominant)),
              FACT("source", stoke_source_name(e->source)));
    }
    stoke_json_close(json);
}

static void print_json(const column columns[ENGINES], const inverse *v, const stoke_estimate_params *p,
                       unsigned assumed)
{
    stoke_json json = cli_json_open();
    FACTS(&json, FACT_OF(p, model), FACT_OF(&columns[columns[1].ok].estimate, parameters), FACT_OF(p, batch),
          FACT_OF(p, height), FACT_OF(p, width), FACT_OF(p, classes));
    JSON_LIST(&json, "assumed", i, i < ASSUMED)
        if (assumed >> i & 1) stoke_json_string(&json, NULL, assumed_names[i]);
    for (int i = 0; i < ENGINES; i++) json_column(&json, &columns[i]);
    if (v->memory)
        FACTS_OBJECT(&json, "fits", FACT("card", v->subject), FACT("memory_bytes", v->memory),
                     FACT("spare_bytes", SPARE), FACT_IS("as_asked", v->asked),
                     FACT("largest_batch", v->batch), FACT("largest_side", v->side),
                     FACT("largest_model", v->model));
    stoke_json_close(&json);
}

static int run(cli_call *call, stoke_error *err)
{
    estimate_options *o = call->options;
    const unsigned assumed = complete(call, o);
    column columns[ENGINES];
    inverse v = { 0 };
    if (o->batch < 0) {
        const stoke_estimate_params any = params_of(o);
        o->batch = stoke_estimate_auto(&any);
        cli_say(call, "batch is auto: %lld, as `stoke train` takes it here", (long long)o->batch);
    }
    const stoke_estimate_params p = params_of(o);
    int r = make_columns(columns, &p, err);
    if (!r) r = ask_backwards(&v, o, err);
    if (r == STOKE_E_NOTFOUND) err->code = STOKE_E_INVALID; /* a name that was typed */
    if (r) {
        cli_hint_memory(err);
    } else if (call->common.json) {
        print_json(columns, &v, &p, assumed);
    } else {
        print_columns(columns, &p, assumed);
        print_inverse(&v, &p);
    }
    return r;
}

const cli_command cli_estimate = {
    .summary = "where memory will go before anything runs, and what fits",
    .description =
        "Memory for one step of training. The column native is the plan of our own engine, in host memory; "
        "torch is a model of Hugging Face's SegFormer, or of the modules in examples/python for resnet and unet, "
        "in PyTorch on a card. It agrees with measured "
        "peaks of live tensors in fp32 within 10 %; the driver's context, the workspaces of cuDNN and the "
        "allocator's slack are a range, and autocast was not measured. Other implementations keep more: "
        "mmsegmentation's takes 1.3 to 1.5 times the tensors. What fits is decided by the high end of the "
        "process. cudnn.benchmark may take more during the first steps. With --vram or --gpu the question is "
        "asked backwards too. GiB are 1024^3 bytes, as cards and their drivers count.",
    .reads_config = 1,
    .sees_set = 1,
    .examples = {
        { "stoke estimate --model b4 --batch 8 --size 288", "term by term, here and on a card" },
        { "stoke estimate --model b2 --size 256 --vram 8",
          "also what is the most that a card of 8 GB takes" },
        { "stoke estimate --model b5 --batch 16 --gpu \"RTX 3090\" --json", "the same for programs" },
        { "stoke estimate --model resnet --base-channels 96 --num-blocks 8 --batch 32 --size 192",
          "a small residual network on patches" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
