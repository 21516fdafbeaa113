/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics page as bytes, apart from files and processes: what it says, and what two looks say.
 */
#include "src/loader/live_page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <xxhash.h>

#include "src/base/error.h"

const char *stoke_live_phase_name(int phase)
{
    static const char *const names[] = { "starting", "training", "evaluating", "saving", "ended" };
    return phase >= 0 && phase <= STOKE_LIVE_ENDED ? names[phase] : "unknown";
}

stoke_live_data stoke_live_defaults(void)
{
    stoke_live_data data;
    memset(&data, 0xff, sizeof data); /* STOKE_LIVE_NA and NaN alike */
    memset(data.what, 0, sizeof data.what);
    data.phase = STOKE_LIVE_STARTING;
    return data;
}

uint64_t stk_live_checksum(const stk_live_page *page)
{
    const size_t head = offsetof(stk_live_content, version);
    return XXH3_64bits(page->room + head, offsetof(stk_live_content, data) - head + page->content.bytes);
}

int stk_live_take(const stk_live_page *page, size_t bytes, const char *path, stoke_live_data *data,
                  stoke_error *err)
{
    const stk_live_content *content = &page->content;
    const size_t head = offsetof(stk_live_content, data);
    if (bytes < head || content->magic != STK_LIVE_MAGIC)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: not a page of statistics; name a run folder, or the page in it, RUN/live", path);
    if (content->version > STOKE_LIVE_VERSION)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "%s: written by a newer stoke (page version %" PRIu64
                        ", this one knows up to %d): watch it with the stoke that runs the job",
                        path, content->version, STOKE_LIVE_VERSION);
    if (content->bytes > sizeof content->data || content->bytes % 8 || head + content->bytes > bytes)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: a damaged page of statistics: %" PRIu64 " bytes of figures in a file of %zu",
                        path, content->bytes, bytes);
    if (content->checksum != stk_live_checksum(page))
        return stk_fail(err, STOKE_E_STATE,
                        "%s: the writer died while writing, or the page is damaged. The run's own files are "
                        "not concerned: `stoke report` shows what it wrote down",
                        path);
    *data = stoke_live_defaults(); /* what an older page lacks is n/a */
    memcpy(data, &content->data, content->bytes);
    data->what[sizeof data->what - 1] = 0;
    return STOKE_OK;
}

/* ---- two looks ---- */

/* A counter that went back is another job's: nothing is known then. */
static double passed(uint64_t before, uint64_t after)
{
    return before == STOKE_LIVE_NA || after == STOKE_LIVE_NA || after < before ? NAN
                                                                               : (double)(after - before);
}

static double per(double amount, double of)
{
    return of > 0 ? amount / of : NAN; /* not for NaN either */
}

void stoke_live_between(const stoke_live_data *before, const stoke_live_data *after, stoke_live_rates *rates)
{
    static const stoke_live_data none;
    stoke_live_data began = none;
    if (!before) {
        began.now_ns = after->start_ns;
        began.step = STOKE_LIVE_NA;
        before = &began;
    }
    const double seconds = passed(before->now_ns, after->now_ns) / 1e9;
    const double samples = passed(before->samples, after->samples);
    const double wait = passed(before->data_wait_ns, after->data_wait_ns);
    const double hits = passed(before->cache_hits, after->cache_hits);
    *rates = (stoke_live_rates){
        .seconds = seconds,
        .steps_s = per(passed(before->step, after->step), seconds),
        .samples_s = per(samples, seconds),
        .read_bytes_s = per(passed(before->bytes_read, after->bytes_read), seconds),
        .data_wait = per(wait, wait + passed(before->step_ns, after->step_ns)),
        .cache_hits = per(hits, hits + passed(before->cache_misses, after->cache_misses)),
    };
    for (int i = 0; i < STOKE_STAGES; i++) {
        rates->stage_wall_ms[i] =
            per(passed(before->stage_wall_ns[i], after->stage_wall_ns[i]) / 1e6, samples);
        rates->stage_cpu_ms[i] = per(passed(before->stage_cpu_ns[i], after->stage_cpu_ns[i]) / 1e6, samples);
    }
}
