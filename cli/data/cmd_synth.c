/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke synth: a set to try everything on.
 */
#include <stdio.h>

#include "cli/lib/common.h"
#include "cli/lib/output.h"

typedef struct synth_options {
    int64_t count, classes, seed, quality, threads;
    uint32_t size[2];
    uint64_t memory_limit;
    int force;
} synth_options;

static const stoke_option options[] = {
    { .name = "count",
      .type = STOKE_OPT_INT,
      .offset = offsetof(synth_options, count),
      .default_text = "64",
      .min = 1,
      .max = 1e9,
      .argument = "N",
      .help = "Number of scenes" },
    { .name = "size",
      .type = STOKE_OPT_SIZE,
      .offset = offsetof(synth_options, size),
      .default_text = "512",
      .argument = "N|HxW",
      .help = "Height and width of a scene, 16 to 16384 pixels" },
    { .name = "classes",
      .type = STOKE_OPT_INT,
      .offset = offsetof(synth_options, classes),
      .default_text = "6",
      .min = 2,
      .max = 255,
      .argument = "N",
      .help = "Number of classes; 0 is the background" },
    { .name = "seed",
      .type = STOKE_OPT_INT,
      .offset = offsetof(synth_options, seed),
      .default_text = "0",
      .min = 0,
      .max = 9007199254740991.0,
      .argument = "N",
      .help = "Other seed, other scenes" },
    { .name = "quality",
      .type = STOKE_OPT_INT,
      .offset = offsetof(synth_options, quality),
      .default_text = "90",
      .min = 1,
      .max = 100,
      .argument = "N",
      .help = "JPEG quality of the images" },
    { .name = "threads",
      .type = STOKE_OPT_INT,
      .offset = offsetof(synth_options, threads),
      .default_text = "0",
      .min = 0,
      .max = 1024,
      .argument = "N",
      .help = "Threads that draw and write; 0 = the cores there are" },
    { .name = "memory_limit",
      .type = STOKE_OPT_BYTES,
      .offset = offsetof(synth_options, memory_limit),
      .default_text = "0",
      .argument = "BYTES",
      .help = "Ceiling of all that the command holds (64M, 2G): fewer threads; 0 = none" },
    { .name = "force",
      .type = STOKE_OPT_FLAG,
      .offset = offsetof(synth_options, force),
      .default_text = "false",
      .help = "Write into a folder that is not empty and not from synth, and replace pictures of the same "
              "names that are not as synth wrote them; others stay" },
};

/* The line of the plan, and the plan for JSON. */
typedef struct planning {
    const cli_call *call;
    stoke_memory_sum sum;
} planning;

static void take_plan(void *context, const stoke_memory_sum *sum)
{
    planning *p = context;
    p->sum = *sum;
    cli_say_memory(p->call, sum);
}

static void print_result(const cli_call *call, const char *folder, double seconds,
                         const stoke_memory_sum *memory)
{
    const synth_options *o = call->options;
    if (call->common.json) {
        stoke_json json;
        stoke_json_begin(&json, stdout, 2);
        stoke_json_object(&json, NULL);
        stoke_json_string(&json, "folder", folder);
        stoke_json_int(&json, "count", o->count);
        stoke_json_uint(&json, "height", o->size[0]);
        stoke_json_uint(&json, "width", o->size[1]);
        stoke_json_int(&json, "classes", o->classes);
        stoke_json_int(&json, "seed", o->seed);
        stoke_json_int(&json, "quality", o->quality);
        stoke_json_real(&json, "seconds", seconds);
        cli_json_memory(&json, memory);
        stoke_json_close(&json);
        return;
    }
    char time[32];
    cli_print("%s: %s of %ux%u (height x width), %lld classes, in %s\n", folder,
              STOKE_COUNT(o->count, "pair"), o->size[0], o->size[1], (long long)o->classes,
              stoke_text_seconds(seconds, time, sizeof time));
    cli_say(call, "next: stoke verify %s --classes %lld", STOKE_WORD(folder), (long long)o->classes);
}

/* What --force gives up: pictures that are not as synth wrote them. */
static int say_replaced(const cli_call *call, const stoke_synth_params *params, const char *folder,
                        stoke_error *err)
{
    uint64_t others;
    const int r = stoke_synth_others(params, folder, cli_progress_update, NULL, &others, err);
    if (r != STOKE_E_STATE) return r;
    cli_say(call, "--force: %s in %s that %s not as synth wrote %s %s replaced",
            STOKE_COUNT(others, "picture"), folder, others == 1 ? "is" : "are", others == 1 ? "it" : "them",
            others == 1 ? "is" : "are");
    return STOKE_OK;
}

static int run(cli_call *call)
{
    const synth_options *o = call->options;
    stoke_error err = { 0 };
    if (!call->n_words) {
        cli_error(&err, STOKE_E_INVALID, "name the folder to make: stoke synth DIR");
        return cli_fail(call, &err);
    }
    stoke_synth_params params = stoke_synth_defaults();
    params.count = (uint64_t)o->count;
    params.height = o->size[0];
    params.width = o->size[1];
    params.classes = (uint32_t)o->classes;
    params.seed = (uint64_t)o->seed;
    params.jpeg_quality = (int)o->quality;
    params.force = o->force;
    params.memory_limit = o->memory_limit;
    planning plan = { .call = call };
    params.planned = take_plan;
    params.planned_context = &plan;
    if (o->force && say_replaced(call, &params, call->words[0], &err)) return cli_fail(call, &err);
    uint64_t start = stoke_machine_now_ns();
    stoke_progress *progress = cli_progress_begin(call, "drawing", "scenes");
    int r =
        stoke_synth_write(&params, call->words[0], (unsigned)o->threads, cli_progress_update, progress, &err);
    cli_progress_end(&progress);
    if (r) return cli_fail(call, &err);
    print_result(call, call->words[0], (double)(stoke_machine_now_ns() - start) / 1e9, &plan.sum);
    return CLI_OK;
}

static const cli_example examples[] = {
    { "stoke synth demo/data", "64 pairs of 512x512 with 6 classes" },
    { "stoke synth demo/data --count 16 --size 240x320 --classes 12", "fewer, smaller, more classes" },
    { "stoke synth demo/data --seed 7 --json", "other scenes; the result as JSON" },
    { 0 },
};

const cli_command cli_synth = {
    .name = "synth",
    .summary = "make a synthetic set of images and exact masks",
    .arguments = "DIR",
    .max_words = 1,
    .description =
        "Writes DIR/images/NNNNNN.jpg and DIR/masks/NNNNNN.png: scenes of textured shapes with photographic "
        "noise, and the class of every pixel. The same settings give the same bytes on every machine. "
        "In a folder that synth made before (it has a file .stokehold) pictures of the same name are "
        "replaced while they are as synth wrote them; what you changed or put there stays, and synth ends "
        "with its name. Any other folder must be empty.",
    .examples = examples,
    .options = options,
    .n_options = CLI_COUNT(options),
    .options_bytes = sizeof(synth_options),
    .run = run,
};
