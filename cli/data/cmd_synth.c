/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke synth: a set to try everything on.
 */
#include <stdio.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"

typedef struct synth_options {
    int64_t count, classes, seed, quality, threads, scale;
    int task, degrade;
    uint32_t size[2];
    uint64_t memory_limit;
    int force;
} synth_options;

#define OPTIONS synth_options
static const stoke_option options[] = {
    CLI_NUMBER(INT, count, "64", 1, 1e9, "N", "Number of scenes"),
    CLI_TEXT(SIZE, size, "512", "N|HxW", "Height and width of a scene, 16 to 16384 pixels"),
    CLI_CHOICE(
        task, "segment", "segment|restore",
        "What the set is for: segment makes images and masks, restore degraded pictures and the clean ones"),
    CLI_CHOICE(
        degrade, "noise", "noise|blur|dark|mix|none",
        "What pictures of --task restore suffer from; mix draws one, two or all three for every scene, none "
        "leaves --scale alone"),
    CLI_NUMBER(INT, scale, "1", 1, 4, "N",
               "Pictures of --task restore are N times smaller than --size, which is that of the clean ones"),
    CLI_NUMBER(INT, classes, "6", 2, 255, "N", "Number of classes; 0 is the background"),
    CLI_NUMBER(INT, seed, "0", 0, 9007199254740991.0, "N", "Other seed, other scenes"),
    CLI_NUMBER(INT, quality, "90", 1, 100, "N",
               "JPEG quality of the images; those of --task restore are PNG"),
    CLI_NUMBER(INT, threads, "0", 0, 1024, "N", "Threads that draw and write; 0 = the cores there are"),
    CLI_TEXT(BYTES, memory_limit, "0", "BYTES",
             "Ceiling of all that the command holds (64M, 2G): fewer threads; 0 = none"),
    CLI_FLAG(force, "Write into a folder that is not empty and not from synth, and replace pictures of the "
                    "same names that are not as synth wrote them; others stay"),
};

static const char *const degrades[] = { "noise", "blur", "dark", "mix", "none" };

static void print_result(const cli_call *call, const char *folder, double seconds)
{
    const synth_options *o = call->options;
    if (call->common.json) {
        stoke_json json = cli_json_open();
        FACTS(&json, FACT("folder", folder), FACT_OF(o, count), FACT("height", o->size[0]),
              FACT("width", o->size[1]), FACT("task", o->task ? "restore" : "segment"), FACT_OF(o, classes),
              FACT_OF(o, seed), FACT_OF(o, quality), FACT_IF(o->task, FACT("degrade", degrades[o->degrade])),
              FACT_IF(o->task, FACT_OF(o, scale)), FACT("seconds", seconds));
        cli_json_memory(&json, call->planned);
        stoke_json_close(&json);
        return;
    }
    if (o->task) {
        cli_print("%s: %s of %ux%u to %ux%u (height x width), degraded by %s, in %s\n", folder,
                  STOKE_COUNT(o->count, "pair"), o->size[0] / (uint32_t)o->scale,
                  o->size[1] / (uint32_t)o->scale, o->size[0], o->size[1],
                  o->degrade == STOKE_DEGRADE_NONE ? "scale" : degrades[o->degrade], STOKE_SECONDS(seconds));
        if (o->scale > 1)
            cli_say(call, "next: stoke verify %s --scale %lld", STOKE_WORD(folder), (long long)o->scale);
        else
            cli_say(call, "next: stoke verify %s", STOKE_WORD(folder));
        return;
    }
    cli_print("%s: %s of %ux%u (height x width), %lld classes, in %s\n", folder,
              STOKE_COUNT(o->count, "pair"), o->size[0], o->size[1], (long long)o->classes,
              STOKE_SECONDS(seconds));
    cli_say(call, "next: stoke verify %s --classes %lld", STOKE_WORD(folder), (long long)o->classes);
}

static int run(cli_call *call, stoke_error *err)
{
    const synth_options *o = call->options;
    if (!call->n_words) return cli_error(err, STOKE_E_INVALID, "name the folder to make: stoke synth DIR");
    stoke_synth_params params = stoke_synth_defaults();
    params.count = (uint64_t)o->count;
    params.height = o->size[0];
    params.width = o->size[1];
    params.classes = (uint32_t)o->classes;
    params.seed = (uint64_t)o->seed;
    params.jpeg_quality = (int)o->quality;
    params.restore = o->task;
    params.degrade = o->degrade;
    params.scale = (uint32_t)o->scale;
    params.force = o->force;
    params.memory_limit = o->memory_limit;
    params.planned = cli_memory_planned;
    params.planned_context = call;
    const char *folder = call->words[0];
    uint64_t others;
    int r =
        o->force ? stoke_synth_others(&params, folder, cli_progress_update, NULL, &others, err) : STOKE_OK;
    if (r == STOKE_E_STATE) /* what --force gives up: pictures that are not as synth wrote them */
        cli_say(call, "--force: %s in %s that %s not as synth wrote %s %s replaced",
                STOKE_COUNT(others, "picture"), folder, others == 1 ? "is" : "are",
                others == 1 ? "it" : "them", others == 1 ? "is" : "are");
    else if (r)
        return r;
    const uint64_t start = stoke_machine_now_ns();
    stoke_progress *progress = cli_progress_begin(call, "drawing", "scenes");
    r = stoke_synth_write(&params, folder, (unsigned)o->threads, cli_progress_update, progress, err);
    stoke_progress_destroy(&progress);
    if (r) return r;
    print_result(call, folder, (double)(stoke_machine_now_ns() - start) / 1e9);
    return CLI_OK;
}

const cli_command cli_synth = {
    .summary = "make a synthetic set of images and exact masks, or of degraded pictures and clean ones",
    .arguments = "DIR",
    .max_words = 1,
    .description = "Writes DIR/images/NNNNNN.jpg and DIR/masks/NNNNNN.png: scenes of textured shapes with "
                   "photographic noise, and the class of every pixel. With --task restore DIR/images/NNNNNN.png "
                   "and DIR/targets/NNNNNN.png: the scene as a worse camera takes it, and without any noise. The "
                   "same settings give the same bytes on every machine. In a folder that synth made before (it has a file .stokehold) pictures "
                   "of the same name are replaced while they are as synth wrote them; what you changed or "
                   "put there stays, and synth ends with its name. Any other folder must be empty.",
    .examples = {
        { "stoke synth demo/data", "64 pairs of 512x512 with 6 classes" },
        { "stoke synth demo/data --count 16 --size 240x320 --classes 12", "fewer, smaller, more classes" },
        { "stoke synth demo/data --seed 7 --json", "other scenes; the result as JSON" },
        { "stoke synth demo/pairs --task restore --degrade mix --scale 2",
          "256x256 pictures to restore and enlarge to 512x512" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
