/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke hash: the digest of every batch of an epoch, the proof of promise (a): equal for any number of
 * workers, any prefetch depth, any number of ranks and any point of resumption.
 *
 * An epoch is taken in one or two phases (before and after --resume-at); a phase is a world of ranks run one
 * after another, each with its own loader that starts from a state and ends with one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cli/lib/upload_options.h"
#include "cli/lib/output.h"
#include "cli/lib/settings.h"
#include "cli/lib/facts.h"

typedef struct hash_options {
    int ranks_all, force;
    int64_t batches, resume_at, resume_workers, resume_prefetch, resume_world;
    const char *state, *from, *device;
} hash_options;

#define OPTIONS hash_options
static const stoke_option options[] = {
    CLI_FLAG(ranks_all, "Run every rank of --world one after another and print the union"),
    CLI_NUMBER(INT, batches, "0", 0, 1e9, "N", "Stop after N batches of a rank; 0 = the whole epoch"),
    CLI_NUMBER(
        INT, resume_at, "0", 0, 1e9, "K",
        "After K batches save the state, destroy the loader, make a new one, restore and go on; 0 = never"),
    CLI_NUMBER(AUTO_INT, resume_workers, "auto", 0, 1024, "N|auto",
               "Workers after --resume-at; auto = as many as before"),
    CLI_NUMBER(AUTO_INT, resume_prefetch, "auto", 1, 1024, "N|auto",
               "Prefetch after --resume-at; auto = as before"),
    CLI_NUMBER(AUTO_INT, resume_world, "auto", 1, 65536, "N|auto",
               "Ranks after --resume-at (with --ranks-all); auto = as before"),
    CLI_TEXT(STRING, state, NULL, "FILE", "Write the state after the last batch to FILE (JSON)"),
    CLI_TEXT(STRING, from, NULL, "FILE", "Start from a state written by --state"),
    CLI_TEXT(STRING, device, NULL, "NAME",
             "Send the batches to a device and read them back there (`stoke devices` lists them): the "
             "digests are the same"),
    CLI_FORCE,
};

enum { STATE_TEXT = 1024 };

typedef struct entry {
    uint64_t index, position;
    uint32_t count;
    int padding; /* a batch that only keeps ranks in step: its rows were delivered before */
    uint8_t digest[16];
} entry;

typedef struct digests {
    entry *entries;
    size_t count, capacity;
    uint64_t epoch; /* of the batches: a state may name another than --epoch */
    uint64_t replaced, skipped;
    char unrecorded[2048]; /* bad samples that the quarantine list lacks; "" = none */
    cli_cache_report cache;
    stoke_memory_sum memory; /* of the loader that takes most */
    int goes_on;             /* another phase follows, so this one must leave batches to it */
} digests;

static void add(digests *list, const stoke_batch *batch, uint64_t samples)
{
    list->entries = cli_grow(list->entries, &list->capacity, list->count + 1, sizeof *list->entries);
    entry *e = &list->entries[list->count++];
    list->epoch = batch->epoch;
    *e = (entry){ .index = batch->index,
                  .position = batch->position,
                  .count = batch->count,
                  .padding = batch->position >= samples };
    stoke_batch_digest(batch, e->digest);
}

/* Where batches come from: a loader, or an upload to a device and back. */
typedef struct source {
    cli_session session; /* without a device; else its dataset only */
    stoke_device *device;
    stoke_upload *upload;
} source;

static void source_close(source *from)
{
    if (from->upload) cli_say_reading(from->session.call, stoke_upload_loader(from->upload));
    stoke_upload_destroy(&from->upload);
    stoke_device_close(&from->device);
    cli_session_close(&from->session);
}

static int feed_open(source *from, cli_call *call, const stoke_data_params *data, stoke_error *err)
{
    const hash_options *o = call->options;
    stoke_data_params own = *data;
    stoke_upload_params params = call->upload;
    params.reads = 1;
    if (own.consumer_cores < 0) own.consumer_cores = 0; /* we only look at batches */
    from->session = (cli_session){ .call = call };
    int r = cli_open_settled(call, &own, &from->session.dataset, err);
    if (!r) r = cli_device_open(&from->device, o->device, 1, err);
    if (!r)
        r = cli_feed_open(call, &from->upload, from->session.dataset, &own, from->device, &params, 0, err);
    if (!r) from->session.memory = cli_loader_memory(&stoke_upload_memory_plan(from->upload)->host);
    return r;
}

static int source_open(source *from, cli_call *call, const stoke_data_params *data, const char *state,
                       stoke_error *err)
{
    const hash_options *o = call->options;
    *from = (source){ 0 };
    int r = o->device ? feed_open(from, call, data, err) : cli_session_open(&from->session, call, data, err);
    if (!r && *state)
        r = from->upload ? stoke_upload_restore(from->upload, state, err)
                         : stoke_loader_restore(from->session.loader, state, err);
    if (r) source_close(from);
    return r;
}

/* Adds the next batch to the list. */
static int source_take(source *from, digests *list, stoke_error *err)
{
    const uint64_t samples = stoke_dataset_count(from->session.dataset);
    const stoke_batch *batch;
    if (!from->upload) {
        int r = cli_next(&from->session, &batch, err);
        if (r) return r;
        add(list, batch, samples);
        stoke_batch_release(from->session.loader, &batch);
        return STOKE_OK;
    }
    const stoke_device_batch *there;
    stoke_batch back;
    int r = cli_feed_next(from->upload, &there, err);
    if (r) return r;
    r = stoke_upload_read(from->upload, there, &back, err);
    if (!r) add(list, &back, samples);
    stoke_upload_release(from->upload, &there);
    return r;
}

/* What became of rows, and what a loader knows about its cache: an upload's is ahead of what was taken. */
static void source_account(const source *from, const stoke_data_params *data, digests *list)
{
    stoke_loader_stats_data stats;
    const stoke_loader *loader = from->upload ? stoke_upload_loader(from->upload) : from->session.loader;
    if (!*list->unrecorded) stoke_loader_unrecorded(loader, list->unrecorded, sizeof list->unrecorded);
    if (from->upload) {
        uint64_t replaced, skipped;
        stoke_upload_bad(from->upload, &replaced, &skipped);
        list->replaced += replaced;
        list->skipped += skipped;
        return;
    }
    stoke_loader_stats(loader, &stats);
    list->replaced += stats.replaced;
    list->skipped += stats.skipped;
    cli_cache_add(&list->cache, data, loader);
    list->cache.warned |= from->session.warned;
}

/* One rank from `state` ("" = the start of the epoch), at most `limit` batches (0 = to the end). `state` then
 * holds where it stopped. */
static int run_rank(cli_call *call, const stoke_data_params *data, uint64_t limit, char *state, digests *list,
                    stoke_error *err)
{
    source from = { 0 };
    int r = source_open(&from, call, data, state, err);
    if (r) return r;
    if (stoke_memory_total(&from.session.memory) > stoke_memory_total(&list->memory))
        list->memory = from.session.memory;
    /* Of an upload that was restored, at most. */
    uint64_t done = 0, total = from.upload ? stoke_upload_batches(from.upload)
                                           : stoke_loader_remaining(from.session.loader);
    if (list->goes_on && limit >= total)
        r = cli_error(err, STOKE_E_INVALID,
                      "--resume-at %llu is not inside the epoch: a rank has %s to take, so nothing would be "
                      "left to resume",
                      (unsigned long long)limit, STOKE_COUNT(total, "batch"));
    if (limit && limit < total) total = limit;
    stoke_progress *progress = cli_progress_begin(call, "hashing", "batches");
    while (!r && done < total) {
        r = source_take(&from, list, err);
        if (!r) cli_progress_update(progress, ++done, total);
    }
    stoke_progress_destroy(&progress);
    if (r == STOKE_E_END) r = STOKE_OK; /* policy skip may leave nothing of a batch: it is passed over */
    source_account(&from, data, list);
    if (!r && from.upload)
        stoke_upload_state(from.upload, state, STATE_TEXT);
    else if (!r)
        stoke_loader_state(from.session.loader, state, STATE_TEXT);
    source_close(&from);
    return r;
}

/* All ranks, or the one that was asked for, from one state: every rank saves the same one when it has taken
 * as many batches. */
static int run_phase(cli_call *call, const stoke_data_params *settings, uint64_t limit, char *state,
                     digests *list, stoke_error *err)
{
    const hash_options *o = call->options;
    stoke_data_params data = *settings;
    char end[STATE_TEXT] = "";
    int64_t first = o->ranks_all ? 0 : data.rank, last = o->ranks_all ? data.world - 1 : data.rank;
    for (int64_t rank = first; rank <= last; rank++) {
        data.rank = rank;
        strcpy(end, state);
        int r = run_rank(call, &data, limit, end, list, err);
        if (r) return r;
    }
    strcpy(state, end);
    return STOKE_OK;
}

static int run_epoch(cli_call *call, char *state, digests *list, stoke_error *err)
{
    const hash_options *o = call->options;
    stoke_data_params data = call->data;
    uint64_t limit = (uint64_t)o->batches, at = (uint64_t)o->resume_at;
    if (limit && at >= limit)
        return cli_error(err, STOKE_E_INVALID, "--resume-at %llu must be less than --batches %llu",
                         (unsigned long long)at, (unsigned long long)limit);
    list->goes_on = at != 0;
    int r = run_phase(call, &data, at ? at : limit, state, list, err);
    if (r || !at) return r;
    list->goes_on = 0;
    if (o->resume_workers >= 0) data.workers = o->resume_workers;
    if (o->resume_prefetch > 0) data.prefetch = o->resume_prefetch;
    if (o->resume_world > 0) data.world = o->resume_world;
    return run_phase(call, &data, limit ? limit - at : 0, state, list, err);
}

static int by_index(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* XXH3-128 over (index, digest) of the batches in order of index, padding left out: the same for any number
 * of ranks. */
static void digest_all(const digests *list, uint8_t all[16])
{
    XXH3_state_t *hash = XXH3_createState();
    XXH3_128bits_reset(hash);
    for (size_t i = 0; i < list->count; i++) {
        const entry *e = &list->entries[i];
        uint8_t index[8];
        if (e->padding) continue;
        for (int k = 0; k < 8; k++) index[k] = (uint8_t)(e->index >> 8 * k);
        XXH3_128bits_update(hash, index, sizeof index);
        XXH3_128bits_update(hash, e->digest, sizeof e->digest);
    }
    XXH128_canonical_t text;
    XXH128_canonicalFromHash(&text, XXH3_128bits_digest(hash));
    memcpy(all, text.digest, 16);
    XXH3_freeState(hash);
}

static void print_json(const cli_call *call, const digests *list, const uint8_t digest[16])
{
    const hash_options *o = call->options;
    stoke_json json = cli_json_open();
    FACTS(&json, FACT("all", CLI_HEX(digest)), FACT_OF(&call->data, seed), FACT_OF(list, epoch),
          FACT_OF(&call->data, world), o->ranks_all ? FACT("rank", "all") : FACT_OF(&call->data, rank),
          FACT_OF(list, replaced), FACT_OF(list, skipped), FACT_TEXT("unrecorded", list->unrecorded));
    cli_json_cache(&json, &list->cache);
    cli_json_memory(&json, &list->memory);
    JSON_LIST(&json, "batches", i, i < list->count) {
        const entry *e = &list->entries[i];
        FACTS_OBJECT(&json, NULL, FACT_OF(e, index), FACT_OF(e, position), FACT_OF(e, count),
                     FACT("digest", CLI_HEX(e->digest)), FACT_IF(e->padding, FACT_IS_OF(e, padding)));
    }
    stoke_json_close(&json);
}

static void print_text(const cli_call *call, const digests *list, const uint8_t digest[16])
{
    for (size_t i = 0; i < list->count; i++) {
        const entry *e = &list->entries[i];
        cli_print("%6llu  %s%s\n", (unsigned long long)e->index, CLI_HEX(e->digest),
                  e->padding ? "  padding" : "");
    }
    cli_print("   all  %s\n", CLI_HEX(digest));
}

static int run(cli_call *call, stoke_error *err)
{
    const hash_options *o = call->options;
    digests list = { .epoch = (uint64_t)call->data.epoch };
    char state[STATE_TEXT] = "", *given = NULL;
    stoke_output output = { 0 };
    uint8_t digest[16];
    int r = STOKE_OK;
    if (o->resume_world > 0 && !o->ranks_all)
        r = cli_error(err, STOKE_E_INVALID,
                      "--resume-world needs --ranks-all: other ranks take over the rest");
    if (!r && !o->resume_at && (o->resume_workers >= 0 || o->resume_prefetch > 0 || o->resume_world > 0))
        r = cli_error(err, STOKE_E_INVALID, "--resume-workers, -prefetch and -world need --resume-at K");
    if (!r && !o->device &&
        (cli_has_flag(call, "placement") || cli_has_flag(call, "transfer") || cli_has_flag(call, "depth")))
        r = cli_error(err, STOKE_E_INVALID,
                      "--placement, --transfer and --depth need --device NAME (`stoke devices` lists them)");
    if (!r) r = cli_may_write(call, o->state, o->force, err);
    if (!r && o->from) r = cli_read_text(o->from, STATE_TEXT - 1, &given, err);
    if (given) strcpy(state, given);
    free(given);
    if (!r && o->from && !*state) r = cli_error(err, STOKE_E_STATE, "%s: empty file", o->from);
    if (!r) r = run_epoch(call, state, &list, err);
    if (!r && o->state) r = stoke_output_open(&output, o->state, err);
    if (!r && o->state) {
        fprintf(output.stream, "%s\n", state);
        r = stoke_output_commit(&output, err);
    }
    if (!r) {
        if (list.count) qsort(list.entries, list.count, sizeof *list.entries, by_index);
        digest_all(&list, digest);
        (call->common.json ? print_json : print_text)(call, &list, digest);
        cli_say_bad(call, list.replaced, list.skipped);
        cli_say_cache(call, &list.cache);
        if (!list.count)
            cli_say(call, "no batches: nothing was compared (--drop-last leaves out what does not fill a "
                          "batch on every rank, and a state may be that of the end)");
    }
    free(list.entries);
    return r;
}

const cli_command cli_hash = {
    .summary = "digest of every batch of an epoch",
    CLI_TAKES_DIR,
    .description = "Takes the batches of one epoch and prints a 128-bit digest (XXH3) of what a consumer "
                   "sees in each: ids, pixels, masks or targets. The digests depend on data, settings, seed and epoch "
                   "only; use it to prove that two machines, settings or versions deliver the same. `all` is "
                   "over the pairs (index, digest) in order of index. With --world the batches of one rank "
                   "are printed; batches that only keep the ranks in step are marked as padding and left out "
                   "of `all`. With --device the batches go there and come back first.",
    .examples = {
        { "stoke hash demo/data --batch 8 --workers 0", "one line per batch and one over all" },
        { "stoke hash demo/data --batch 8 --workers 2 --prefetch 4 --json",
          "the same digests by other means" },
        { "stoke hash demo/data --batch 8 --world 2 --ranks-all",
          "two ranks: their union is the same again" },
        { "stoke hash demo/data --batch 8 --device host --placement device --resume-at 3",
          "stopped, resumed and augmented by a device: the same" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
    .reads_upload = 1,
};
