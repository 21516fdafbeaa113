/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke pack: a set as tar shards, or decoded into a cache.
 */
#include <stdio.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"

enum { FORMAT_TAR, FORMAT_CACHE }; /* the order of the choices */

typedef struct pack_options {
    const char *out, *prefix;
    uint64_t shard_size;
    int64_t shard_samples;
    int format, force;
} pack_options;

#define OPTIONS pack_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, out, NULL, "DIR", "Folder for the shards or the cache; made when it is not there"),
    CLI_CHOICE(format, "tar", "tar|cache",
               "tar: files as they are, in WebDataset's layout. cache: decoded samples, as --cache DIR of "
               "other commands keeps them, for the same settings"),
    CLI_TEXT(BYTES, shard_size, "256M", "BYTES",
             "A shard is at most so large, unless one sample is larger; 0 for no limit"),
    CLI_NUMBER(INT, shard_samples, "0", 0, 1e9, "N", "And has at most N samples; 0 for no limit"),
    CLI_TEXT(STRING, prefix, NULL, "TEXT",
             "What the shards' names begin with: a-000000.tar. A name that begins with train or val makes "
             "them that part of a set"),
    CLI_FLAG(force, "Replace what was packed in DIR before, from other sources or with other settings, or "
                    "write into a folder that has other things in it. A file that took the place of a packed "
                    "shard stays, and pack ends with its name"),
};

static void print_result(const cli_call *call, const char *out, const stoke_pack_report *report)
{
    double rate = report->seconds > 0 ? (double)report->written / 1e6 / report->seconds : 0;
    if (call->common.json) {
        stoke_json json = cli_json_open();
        FACTS(&json, FACT("folder", out), FACT_OF(report, shards), FACT_OF(report, kept),
              FACT_OF(report, samples), FACT_OF(report, bytes), FACT("written_bytes", report->written));
        JSON_LIST(&json, "left_out", i, i < report->n_bad)
            FACTS_OBJECT(&json, NULL, FACT_OF(&report->bad[i], path), FACT_OF(&report->bad[i], reason));
        FACTS(&json, FACT_OF(report, seconds), FACT("mb_per_s", rate));
        cli_json_memory(&json, &report->memory);
        stoke_json_close(&json);
        return;
    }
    cli_print("%s: %s in %s, %s, in %s", out, STOKE_COUNT(report->samples, "sample"),
              STOKE_COUNT(report->shards, "shard"), STOKE_BYTES(report->bytes),
              STOKE_SECONDS(report->seconds));
    if (report->written) cli_print(" (%.0f MB/s)", rate);
    if (report->kept) cli_print("; %llu finished before", (unsigned long long)report->kept);
    putchar('\n');
    for (size_t i = 0; i < report->n_bad && i < 20; i++)
        cli_print("left out: %s: %s\n", report->bad[i].path, report->bad[i].reason);
    if (report->n_bad > 20) cli_print("... and %zu more: --json has them all\n", report->n_bad - 20);
}

static void print_cache(const cli_call *call, const char *folder, const stoke_cache_report *report)
{
    if (call->common.json) {
        stoke_json json = cli_json_open();
        FACTS(&json, FACT("folder", folder), FACT_OF(report, found), FACT_OF(report, stored),
              FACT_OF(report, bad), FACT_TEXT("unrecorded", report->unrecorded), FACT_OF(report, left_out),
              FACT_OF(report, bytes), FACT_TEXT("warning", report->warning), FACT_OF(report, seconds));
        cli_json_memory(&json, call->planned);
        stoke_json_close(&json);
        return;
    }
    char size[48] = "";
    if (report->bytes) /* without a budget only what was added is known */
        snprintf(size, sizeof size, ", %s%s", STOKE_BYTES(report->bytes),
                 call->data.cache_disk ? " in all" : "");
    cli_print("%s: %s decoded and kept%s, %llu there before, in %s\n", folder,
              STOKE_COUNT(report->stored, "sample"), size, (unsigned long long)report->found,
              STOKE_SECONDS(report->seconds));
    if (report->bad)
        cli_print("bad: %llu; `stoke verify` gives the reasons\n", (unsigned long long)report->bad);
    if (report->left_out)
        cli_print("left out: %llu, %s\n", (unsigned long long)report->left_out,
                  *report->warning ? "the folder cannot be written" : "the budget (--cache-disk) is full");
}

static int run_cache(cli_call *call, stoke_error *err)
{
    const pack_options *o = call->options;
    stoke_dataset *dataset = NULL;
    stoke_cache_report report;
    stoke_data_params data = call->data;
    if (o->out) data.cache = o->out;
    int r = data.cache && *data.cache
                ? STOKE_OK
                : cli_error(err, STOKE_E_INVALID, "name the folder of the cache: --out DIR");
    if (!r) r = cli_open_settled(call, &data, &dataset, err);
    unsigned threads = data.workers > 0 ? (unsigned)data.workers : 0;
    stoke_memory_sum memory = { 0 };
    if (!r) r = stoke_cache_fill_memory(dataset, &data, &threads, &memory, err);
    if (!r) {
        cli_say_memory(call, &memory);
        stoke_progress *progress = cli_progress_begin(call, "filling", "samples");
        r = stoke_cache_fill(dataset, &data, threads, cli_progress_update, progress, &report, err);
        stoke_progress_destroy(&progress);
    }
    if (!r) {
        print_cache(call, data.cache, &report);
        if (*report.warning) cli_say(call, "warning: %s", report.warning);
        if (*report.unrecorded) cli_say(call, "warning: %s", report.unrecorded);
        /* A full budget was asked for. A disk that says no is a failure here, where filling is all there is
         * to do; a run that only uses the cache goes on without. */
        if (*report.warning && report.left_out) r = CLI_FAILED;
        if (!call->common.json && !r)
            cli_say(call,
                    "next: stoke bench data %s --cache %s, with the same settings; deleting the folder "
                    "empties the cache",
                    data.data ? STOKE_WORD(data.data) : "...", STOKE_WORD(data.cache));
    }
    stoke_dataset_close(&dataset);
    return r;
}

/* Settings that shape samples, where files are copied as they are. */
static void say_unused(const cli_call *call)
{
    const stoke_data_params *data = &call->data;
    const char *name = strcmp(data->label_map, "identity") ? "label-map"
                       : data->size[0]                     ? "size"
                       : strcmp(data->augment, "none")     ? "augment"
                       : *data->cache                      ? "cache"
                                                           : NULL;
    if (name && !call->common.config)
        cli_say(call,
                "note: --%s has no effect on shards, which hold the files as they are: give it to the "
                "commands that read them",
                name);
}

static int run(cli_call *call, stoke_error *err)
{
    const pack_options *o = call->options;
    if (o->format == FORMAT_CACHE) return run_cache(call, err);
    stoke_dataset *dataset = NULL;
    stoke_pack_report report = { 0 };
    stoke_pack_params params = stoke_pack_defaults();
    params.out = o->out;
    if (o->prefix) params.prefix = o->prefix;
    params.shard_bytes = o->shard_size;
    params.shard_samples = (uint64_t)o->shard_samples;
    params.force = o->force;
    params.memory_limit = call->data.memory_limit;
    params.planned = cli_memory_planned;
    params.planned_context = call;
    /* There is nothing to replace a sample by: either it is left out, or somebody should know. */
    params.skip_bad = call->data.policy == STOKE_POLICY_SKIP;
    cli_keep_named_quarantine(call);
    params.quarantine = call->data.quarantine;
    int r = o->out ? STOKE_OK : cli_error(err, STOKE_E_INVALID, "name the folder for the shards: --out DIR");
    if (!r) r = cli_open_dataset(call, &call->data, &dataset, err);
    if (!r) {
        say_unused(call);
        stoke_progress *progress = cli_progress_begin(call, "packing", "samples");
        r = stoke_pack(dataset, &params, cli_progress_update, progress, &report, err);
        stoke_progress_destroy(&progress);
    }
    if (!r) {
        print_result(call, o->out, &report);
        if (report.replaced)
            cli_say(call, "--force: %s %s replaced in %s", STOKE_COUNT(report.replaced, "shard"),
                    report.replaced == 1 ? "was" : "were", o->out);
        if (*report.unrecorded) cli_say(call, "warning: %s", report.unrecorded);
        if (!call->common.json) cli_say(call, "next: stoke verify %s", STOKE_WORD(o->out));
    }
    stoke_pack_report_free(&report);
    stoke_dataset_close(&dataset);
    return r;
}

const cli_command cli_pack = {
    .summary = "write a set as tar shards, or decoded into a cache",
    .arguments = "[DIR] --out DIR",
    .max_words = 1,
    .description =
        "Writes the samples as KEY.jpg and KEY.mask.png into tar files that stoke, GNU tar and the "
        "webdataset package read. Files are copied byte for byte, so the shards give the same batches as the "
        "set. A set with its own train and val folders becomes train-000000.tar ... and val-000000.tar ... "
        "The same set and settings give the same shards. Interrupted, it leaves finished shards only, and "
        "goes on from there when it is run again. A file that cannot be opened or is no picture ends it, "
        "unless --policy skip leaves the sample out; pixels are not decoded, so a damaged picture is packed "
        "as it is: `stoke verify` finds those. With --format cache the samples are decoded and resized into "
        "a cache, so that the first epoch of a run with --cache DIR and the same settings finds them all. "
        "Deleting the folder empties a cache.",
    .examples = {
        { "stoke pack demo/data --out demo/shards", "shards of 256 MB: demo/shards/000000.tar ..." },
        { "stoke pack demo/data --out demo/small --shard-samples 16", "16 samples in each" },
        { "stoke pack demo/data --out demo/parts --split train --val-split 0.2 --prefix train",
          "one part of a set, named so" },
        { "stoke pack demo/data --format cache --out demo/cache --size 256", "for runs with --size 256" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
    .reads_data = 1,
};
