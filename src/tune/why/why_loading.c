/* SPDX-License-Identifier: Apache-2.0
 *
 * Why batches come slowly: what of making them takes the time, by the run's own counters, and what the disk,
 * the page cache, the files and the workers have to do with it. Nothing is measured again: where records do
 * not tell, the command that does is named.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/remarks.h"
#include "src/tune/why/why.h"
#include <stoke/tools/report.h>

/* Steps that wait less are not held up by loading. */
static const double WAITING = 0.1;
/* Files of which opening takes as long as reading: about 100 us against 64 KB at 600 MB/s; and a set of them
 * large enough to matter. */
enum { TINY = 64 << 10, MANY = 5000 };
/* What Docker gives a container that asks for nothing. */
static const double SHM_DEFAULT = 64.0 * 1024 * 1024;

/* Whether loading holds anything up: 1, 0, or -1: no run tells. */
static int held_up(const stk_why_evidence *e)
{
    const double share = stk_waited(e);
    return isnan(share) ? -1 : share > WAITING;
}

static stk_preflight_command measure_it(const stk_why_evidence *e)
{
    if (e->has_config) return stk_diagnose_it(e);
    return STK_REMEDY("stoke bench data %s", e->config.has_data ? e->config.data_name : "DIR");
}

static void waiting(stoke_answer *a, const stk_why_evidence *e)
{
    static const char cause[] = "steps wait for batches";
    const int found = held_up(e);
    if (found < 0)
        stk_reason(a, found, 0.5, cause, measure_it(e).text, "%s",
                   e->state == STK_RUN_NONE ? "only a run tells" : "too few steps to tell");
    else
        stk_reason(a, found, 0.5, cause, measure_it(e).text,
                   "log.jsonl, steps up to %" PRIu64 ": %.1f %% of their time [measured]%s", e->log.step,
                   100 * stk_waited(e), found ? "" : "; making batches faster would gain no more than that");
}

/* ---- what takes the time ---- */

static stk_preflight_command how_to_hasten(const stk_why_evidence *e, int stage)
{
    switch (stage) {
    case STOKE_STAGE_READ:
        return STK_REMEDY("stoke pack %s --out shards   then --data shards", e->config.data_name);
    case STOKE_STAGE_DECODE_IMAGE:
    case STOKE_STAGE_DECODE_MASK:
    case STOKE_STAGE_FIT:
        return stk_with(stk_train_again(e),
                        " --cache cache   or --decode fast, which changes bytes a little");
    default: return stk_with(stk_train_again(e), " --workers auto --augment light");
    }
}

static void stages(stoke_answer *a, const stk_why_evidence *e)
{
    static const char *const what[] = { "reading files", "decoding pictures", "decoding masks",
                                        "cutting and resizing", "augmenting" };
    enum { MAKING = sizeof what / sizeof *what };
    char cause[64];
    double all = 0;
    int most = 0;
    for (int i = 0; e->has_page && i < MAKING; i++) {
        const double ms = e->rates.stage_wall_ms[i];
        if (!(ms >= 0)) continue;
        all += ms;
        if (!(e->rates.stage_wall_ms[most] >= ms)) most = i;
    }
    if (!(all > 0)) {
        stk_reason(a, -1, 0.9, "one stage of making batches takes most of the time", measure_it(e).text, "%s",
                   e->state == STK_RUN_NONE ? "only a run, or a measurement, tells"
                                            : "the run has no live page (RUN/live) with the times of stages");
        return;
    }
    const double share = e->rates.stage_wall_ms[most] / all;
    STK_SAY(cause, "%s takes %.0f %% of making a sample", what[most], 100 * share);
    stoke_reason *r = stk_reason(a, held_up(e) == 1, 0.9, cause, how_to_hasten(e, most).text, "%s", "");
    for (int i = 0; i < MAKING; i++)
        stk_text_add(r->evidence, sizeof r->evidence, ", ", "%s%s %.2f ms",
                     i ? "" : "a sample in RUN/live: ", what[i], e->rates.stage_wall_ms[i]);
    stk_text_add(r->evidence, sizeof r->evidence, " ", "[measured]");
}

static void cache_misses(stoke_answer *a, const stk_why_evidence *e)
{
    const double hits = e->has_page ? e->rates.cache_hits : NAN;
    if (isnan(hits) || e->page.epoch == STOKE_LIVE_NA || e->page.epoch < 2) return;
    stk_reason(a, hits < 0.5, 0.6, "the cache has few of the samples that are asked for",
               STK_AGAIN(e, " --cache-disk 0   0 sets no limit"),
               "RUN/live: %.0f %% of them after %" PRIu64 " epochs [measured]", 100 * hits, e->page.epoch);
}

static void acquit(stoke_reason *reason)
{
    if (reason->found != 1) return;
    reason->found = 0;
    reason->remedy[0] = 0;
}

/* ---- files ---- */

static void tiny_files(stoke_answer *a, const stk_why_evidence *e)
{
    const stk_preflight_surroundings *here = &e->here;
    if (!here->data_there || !here->pairs || !here->data_bytes.source) return;
    const double files = (double)here->pairs * (here->has_partners ? 2 : 1),
                 bytes = here->data_bytes.value / files;
    stk_reason(a, bytes < TINY && files > MANY, 0.55,
               "the set is many small files, and opening them takes long",
               STK_REMEDY("stoke pack %s --out shards", e->config.data_name).text,
               "%.0f files of %s each in the mean [%s]", files, STOKE_BYTES(bytes),
               stoke_source_name(here->data_bytes.source));
}

static void cold_files(stoke_answer *a, const stk_why_evidence *e)
{
    static const char cause[] = "files are read from the disk, not from memory";
    const stoke_disk_facts *disk = &e->here.disk;
    const stk_preflight_command look =
        STK_REMEDY("stoke doctor --data %s   measures how fast it reads", e->config.data_name);
    if (!e->here.data_there) return;
    const stoke_figure share = disk->cached_share;
    /* In the first epoch everything is cold: that is no fault of anything. */
    const int wrong = share.source && share.value < 0.5 && held_up(e) == 1;
    if (share.source)
        stk_reason(a, wrong, 0.45, cause, look.text,
                   "%.0f %% of the pictures looked at are in the page cache now; %s at %.100s [%s]",
                   100 * share.value, disk->filesystem, disk->mount, stoke_source_name(share.source));
    else
        stk_reason(a, -1, 0.45, cause, look.text, "the page cache cannot be asked%s%.200s",
                   *e->here.why_no_disk ? ": " : "", e->here.why_no_disk);
}

/* A slow disk is no cause where files are read from memory. */
static void slow_disk(stoke_answer *a, const stk_why_evidence *e)
{
    const stoke_figure cached = e->here.disk.cached_share;
    const size_t before = a->n;
    stk_reason_line(a, e, "disk", "the disk of the data is slow at many small reads", 0.65);
    if (!cached.source || cached.value < 0.9) return;
    for (size_t i = before; i < a->n; i++) acquit(&a->reason[i]);
}

static void bad_files(stoke_answer *a, const stk_why_evidence *e)
{
    const char *said = NULL;
    uint64_t bad = 0;
    for (size_t i = 0; !said && i < e->log.n_remarks; i++)
        if (strstr(e->log.remarks[i], ": bad files ")) said = e->log.remarks[i];
    if (e->has_page && e->page.bad_samples != STOKE_LIVE_NA) bad = e->page.bad_samples;
    if (e->state == STK_RUN_NONE) return;
    stoke_reason *r = stk_reason(a, said || bad, 0.35, "bad files are tried and replaced",
                                 STK_REMEDY("stoke verify %s", e->config.data_name).text,
                                 "%" PRIu64 " in RUN/live, no remark in log.jsonl", bad);
    if (said) STK_SAY(r->evidence, "log.jsonl: %.290s", said);
}

/* Without a file or a run: what of the machine alone holds up any loader. */
static void this_machine(stoke_answer *a, const stk_why_evidence *e)
{
    const stoke_machine_facts *m = &e->here.machine;
    if (m->usable.source)
        stk_reason(a, m->usable.value < 2, 0.5, "loading and training share a single core",
                   "stoke doctor   shows what limits them: affinity, or a quota", "usable cores: %.0f [%s]",
                   m->usable.value, stoke_source_name(m->usable.source));
    if (m->shm_bytes.source)
        stk_reason(a, m->shm_bytes.value <= SHM_DEFAULT, 0.4,
                   "/dev/shm has no more than a container's default: workers of PyTorch die of SIGBUS",
                   "docker run --shm-size=8g ...", "%s free [%s]", STOKE_MEMORY(m->shm_bytes.value),
                   stoke_source_name(m->shm_bytes.source));
}

void stk_why_loading(stoke_answer *a, const stk_why_evidence *e)
{
    static const char *const settings[] = { "num_workers",        "prefetch_factor",
                                            "persistent_workers", "gpu_augmentation",
                                            "pin_memory",         "non_blocking",
                                            "device_prefetch",    NULL };
    waiting(a, e);
    stages(a, e);
    cache_misses(a, e);
    if (!e->has_config && e->state == STK_RUN_NONE) this_machine(a, e);
    if (e->config.engine == STOKE_ENGINE_TORCH)
        stk_reason_settings(a, e, settings);
    else if (e->has_config)
        stk_reason_line(a, e, "workers", "the number of workers does not suit the cores", 0.7);
    slow_disk(a, e);
    stk_reason_line(a, e, "page_cache", "the set does not stay in memory: every epoch reads the disk", 0.6);
    stk_reason_line(a, e, "shm", "/dev/shm is too small for the workers", 0.6);
    stk_reason_line(a, e, "omp_threads", "threads of NumPy and OpenCV crowd the workers", 0.4);
    if (e->config.has_data && !e->here.data_there)
        stk_reason_line(a, e, "data", "the data set is not there", 0.3);
    tiny_files(a, e);
    cold_files(a, e);
    bad_files(a, e);
    /* Where steps do not wait, what would make others wait is no cause. */
    for (size_t i = 0; i < a->n && !held_up(e); i++) acquit(&a->reason[i]);
}
