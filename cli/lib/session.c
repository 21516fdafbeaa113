/* SPDX-License-Identifier: Apache-2.0
 *
 * A dataset and a loader, ready to iterate, with what a person should know about them on stderr.
 */
#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/lib/help.h"
#include "cli/lib/output.h"
#include "cli/lib/settings.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

/* Settings that do nothing, or name nothing, before any file is read. The library tells an unknown preset
 * from a file that is missing in words only; here the first is wrong usage and the second fails. */
static int check_settings(const stoke_data_params *data, stoke_error *err)
{
    if (data->weights && data->order != STOKE_ORDER_WEIGHTED)
        return cli_error(err, STOKE_E_INVALID,
                         "--weights %s has no effect without --order weighted: give both or neither",
                         data->weights);
    stoke_pipeline *pipeline = NULL;
    int r = stoke_pipeline_create(&pipeline, data->augment, err);
    stoke_pipeline_destroy(&pipeline);
    int is_file = r && (strchr(data->augment, '/') || cli_ends_with(data->augment, ".yaml") ||
                        cli_ends_with(data->augment, ".yml"));
    return r ? cli_blame(err, is_file ? data->augment : NULL) : STOKE_OK;
}

int cli_require_data(const cli_call *call, const stoke_data_params *data, stoke_error *err)
{
    char path[CLI_PATH];
    const int typed = cli_has_flag(call, "data") || cli_has_flag(call, "images") ||
                      cli_has_flag(call, "list") || (call->n_words && !call->command->takes_network);
    if (cli_set_name(data)) { /* of a run's own settings the place is checked, not of what was typed */
        const char *config = typed || call->common.config ? NULL : cli_settings_file(call, path);
        return config ? stoke_run_check_data(config, data, err) : STOKE_OK;
    }
    const char *file = call->common.config, *command = CLI_TITLE(call->command, " ");
    if (file)
        return cli_error(err, STOKE_E_INVALID,
                         "%s names no data: name a folder beside it (stoke %s DIR --config %s), or use "
                         "--images or --list. `stoke synth DIR` makes a set to try",
                         file, command, STOKE_WORD(file));
    return cli_error(err, STOKE_E_INVALID,
                     "no data given: name a folder (stoke %s DIR), or use --images, --list or --config. "
                     "`stoke synth DIR` makes a set to try",
                     command);
}

int cli_open_dataset(const cli_call *call, const stoke_data_params *data, stoke_dataset **out,
                     stoke_error *err)
{
    int r = cli_require_data(call, data, err);
    if (!r) r = check_settings(data, err);
    if (!r) r = stoke_dataset_open(out, data, err);
    struct stat st;
    char usage[CLI_PATH] = "", tmp[CLI_PATH] = ""; /* what every cache folder has */
    if (r && data->data) {
        snprintf(usage, sizeof usage, "%s/usage", data->data);
        snprintf(tmp, sizeof tmp, "%s/tmp", data->data);
    }
    if (*usage && stoke_stat(usage, &st) == 0 && stoke_stat(tmp, &st) == 0)
        return cli_error(err, r,
                         "%s: this is a cache, not data: give it as --cache, beside the set it was made from",
                         data->data);
    if (r) return r;
    char unread[256];
    if (*stoke_dataset_unread(*out, unread, sizeof unread) && call->command != &cli_verify)
        cli_say(call, "left out: %s; " STOKE_FORMATS_AND " are read", unread);
    size_t notes = stoke_dataset_notes(*out);
    if (notes && call->command != &cli_verify) {
        stoke_note first = stoke_dataset_note(*out, 0);
        cli_say(call,
                "left out: %s without a partner or with the name of another (first: %s); `stoke verify` "
                "lists them",
                STOKE_COUNT(notes, "file"), first.path);
    }
    return STOKE_OK;
}

void cli_say_lines(const cli_call *call, const char *remarks)
{
    for (const char *line = remarks, *end; (end = strchr(line, '\n')); line = end + 1)
        cli_say(call, "remark: %.*s", (int)(end - line), line);
}

void cli_say_remarks(const cli_call *call, const stoke_dataset *dataset, const stoke_data_params *data)
{
    static int said; /* hash opens a loader for every rank */
    char text[2048];
    stoke_data_params own = *data;
    if (call->common.quiet || said++) return;
    if (call->command == &cli_show) own.dtype = stoke_data_defaults().dtype; /* bytes are show's own choice */
    stoke_data_remarks(dataset, &own, text, sizeof text);
    cli_say_lines(call, text);
}

int cli_settle_orientation(const cli_call *call, const stoke_dataset *dataset, stoke_data_params *data,
                           stoke_error *err)
{
    static int known; /* hash opens a loader for every rank */
    static stoke_orientation settled;
    char text[2048] = "";
    const int r =
        known ? STOKE_OK : stoke_dataset_orientation(dataset, data, &settled, text, sizeof text, err);
    if (r) return r;
    known = 1;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        cli_say(call, "remark: %s", CLI_WITH_FLAGS(call, line));
    }
    data->orientation = (int)settled;
    return STOKE_OK;
}

int cli_open_settled(const cli_call *call, stoke_data_params *data, stoke_dataset **out, stoke_error *err)
{
    const int r = cli_open_dataset(call, data, out, err);
    return r ? r : cli_settle_orientation(call, *out, data, err);
}

int cli_session_open(cli_session *session, const cli_call *call, const stoke_data_params *data,
                     stoke_error *err)
{
    *session = (cli_session){ .call = call, .size_is_taken = !data->size[0], .drawn = session->drawn };
    stoke_data_params own = *data;
    if (own.consumer_cores < 0) own.consumer_cores = 0; /* we only look at batches */
    int r = cli_open_dataset(call, data, &session->dataset, err);
    if (!r) r = cli_settle_orientation(call, session->dataset, &own, err);
    enum { PAGE = 2 << 20 };
    uint32_t size[2] = { 0 };
    stoke_memory_share drawn = { "pictures to draw", 0, 0 };
    if (!r && session->drawn.pictures) r = stoke_data_size(session->dataset, &own, size, err);
    if (session->drawn.pictures) {
        /* Each with its mask or target; two tiles on a page with room between them, which is then compressed.
         */
        const int targets = !r && stoke_dataset_has_targets(session->dataset);
        const uint64_t other = targets ? 3 * (uint64_t)(own.scale * own.scale) : 2;
        const uint64_t tile = session->drawn.tile + 48,
                       each = (uint64_t)size[0] * size[1] * (3 + other) + tile * tile * 2 * 3;
        drawn.count = 1;
        drawn.bytes = session->drawn.pictures * each + PAGE;
    }
    if (!r) r = stoke_loader_create_beside(&session->loader, session->dataset, &own, NULL, &drawn, err);
    if (r) {
        cli_session_close(session);
        return r;
    }
    stoke_memory_plan plan = stoke_loader_memory(session->loader);
    session->memory = cli_loader_memory(&plan);
    cli_say_memory(call, &session->memory);
    if (plan.prefetch_reduced)
        cli_say(call, "remark: prefetch is lowered to %u to honour --memory-limit", plan.slots - 1);
    cli_say_remarks(call, session->dataset, data);
    return STOKE_OK;
}

void cli_keep_named_quarantine(cli_call *call)
{
    const int typed = cli_has_flag(call, "quarantine");
    if (!typed && !call->common.config) call->data.quarantine = "";
    /* The library takes the usual name for one that nobody said. */
    if (typed && !strcmp(call->data.quarantine, stoke_data_defaults().quarantine))
        call->data.quarantine = "./quarantine.jsonl";
}

void cli_say_reading(const cli_call *call, const stoke_loader *loader)
{
    stoke_loader_stats_data stats;
    char text[2048];
    stoke_loader_stats(loader, &stats);
    if (stats.retries)
        cli_say(call, "remark: %s %s tried again", STOKE_COUNT(stats.retries, "read"),
                stats.retries == 1 ? "was" : "were");
    if (stoke_loader_unrecorded(loader, text, sizeof text)) cli_say(call, "warning: %s", text);
}

void cli_session_close(cli_session *session)
{
    if (session->loader) cli_say_reading(session->call, session->loader);
    stoke_loader_destroy(&session->loader);
    stoke_dataset_close(&session->dataset);
}

void cli_say_size(const cli_call *call, uint32_t height, uint32_t width)
{
    cli_say(call, "size: %ux%u, from the first sample; --size N sets it", height, width);
}

int cli_next(cli_session *session, const stoke_batch **batch, stoke_error *err)
{
    *batch = NULL;
    int r;
    do {
        if (cli_interrupted()) return cli_error(err, STOKE_E_CANCELLED, "interrupted");
        r = stoke_loader_next_until(session->loader, batch, stoke_machine_now_ns() + CLI_TICK_NS);
    } while (r == STOKE_E_TIMEOUT);
    if (r && r != STOKE_E_END) return cli_pass(err, r, stoke_loader_error(session->loader));
    const char *warning = session->warned ? NULL : stoke_loader_warning(session->loader);
    if (warning) {
        cli_say(session->call, "warning: %s", warning);
        session->warned = 1;
    }
    if (!r && session->size_is_taken) {
        cli_say_size(session->call, (*batch)->height, (*batch)->width);
        session->size_is_taken = 0;
    }
    return r;
}

void cli_say_bad(const cli_call *call, uint64_t replaced, uint64_t skipped)
{
    if (replaced || skipped)
        cli_say(call, "bad files: %s replaced, %llu left out; `stoke verify` gives the reasons",
                STOKE_COUNT(replaced, "row"), (unsigned long long)skipped);
}

void cli_cache_add(cli_cache_report *report, const stoke_data_params *data, const stoke_loader *loader)
{
    stoke_loader_stats_data stats;
    if (!(data->cache && *data->cache) && !data->cache_ram) return;
    stoke_loader_stats(loader, &stats);
    report->used = 1;
    report->hits += stats.cache_hits_ram + stats.cache_hits_disk;
    report->misses += stats.cache_misses;
    report->stored += stats.cache_stored;
    report->damaged += stats.cache_damaged;
    report->disk_bytes = stats.cache_disk_bytes;
    report->ram_bytes = stats.cache_ram_bytes;
    const char *warning = stoke_loader_warning(loader);
    if (warning) snprintf(report->warning, sizeof report->warning, "%s", warning);
}

void cli_say_cache(const cli_call *call, const cli_cache_report *report)
{
    char decoded[96] = "", damaged[64] = "";
    if (!report->used) return;
    if (report->damaged)
        snprintf(damaged, sizeof damaged, ", %llu damaged and made again",
                 (unsigned long long)report->damaged);
    if (report->misses)
        snprintf(decoded, sizeof decoded, ", %llu decoded, %llu of these kept",
                 (unsigned long long)report->misses, (unsigned long long)report->stored);
    cli_say(call, "cache: %llu of %s taken from it%s%s", (unsigned long long)report->hits,
            STOKE_COUNT(report->hits + report->misses, "sample"), decoded, damaged);
    if (*report->warning && !report->warned) cli_say(call, "warning: %s", report->warning);
}

void cli_json_cache(stoke_json *json, const cli_cache_report *report)
{
    if (!report->used) return;
    FACTS_OBJECT(json, "cache", FACT_OF(report, hits), FACT_OF(report, misses), FACT_OF(report, stored),
                 FACT_OF(report, damaged), FACT_OF(report, disk_bytes), FACT_OF(report, ram_bytes),
                 FACT_TEXT("warning", report->warning));
}

/* ---- memory ---- */

/* glibc learns to keep large blocks: after the first one is freed, up to 64 MB of them stay with each thread
 * that decodes, on top of what others were planned to hold. What a decoder freed goes back at once instead,
 * which costs about 0.2 ms for every megabyte it asks for again. */
void cli_keep_memory_small(void)
{
#if defined(__GLIBC__)
    enum { LARGE = 1 << 20 };
    mallopt(M_MMAP_THRESHOLD, LARGE);
    mallopt(M_TRIM_THRESHOLD, LARGE);
#endif
}

void cli_return_memory(void)
{
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

stoke_memory_sum cli_loader_memory(const stoke_memory_plan *plan)
{
    stoke_memory_sum sum = { .limit_bytes = plan->limit_bytes };
    stoke_memory_add_loader(&sum, plan);
    stoke_memory_add(&sum, "process", 1, plan->fixed_bytes);
    return sum;
}

void cli_say_memory(const cli_call *call, const stoke_memory_sum *sum)
{
    *call->planned = *sum;
    cli_say(call, "memory: up to %s (--json has the terms)", STOKE_MEMORY(stoke_memory_total(sum)));
}

void cli_memory_planned(void *call, const stoke_memory_sum *sum)
{
    cli_say_memory(call, sum);
}

void cli_say_memory_terms(const cli_call *call, const stoke_memory_sum *sum)
{
    char text[1024];
    *call->planned = *sum;
    stoke_memory_text(sum, text, sizeof text);
    cli_say(call, "memory: %s", text);
}

void cli_json_memory(stoke_json *json, const stoke_memory_sum *sum)
{
    if (!sum->count) return;
    char text[1024];
    stoke_memory_text(sum, text, sizeof text);
    stoke_json_object(json, "plan");
    FACTS(json, FACT("bytes", stoke_memory_total(sum)), FACT_OF(sum, limit_bytes), FACT("text", text));
    JSON_LIST(json, "terms", i, i < sum->count)
        FACTS_OBJECT(json, NULL, FACT_OF(&sum->share[i], name), FACT_OF(&sum->share[i], count),
                     FACT_OF(&sum->share[i], bytes));
    stoke_json_close(json);
}
