/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines about loading: our own loader takes workers alone, a PyTorch DataLoader the rest too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tune/preflight/preflight.h"
#include <stoke/report.h>

/* What Docker gives a container that asks for nothing. */
static const double SHM_DEFAULT = 64.0 * 1024 * 1024;
/* DataLoader's own, where workers are said and this is not. */
enum { PREFETCH_DEFAULT = 2 };

static void check_workers(stk_check_list *list, const stk_run_wish *wish, const stk_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "workers", "workers");
    const stoke_figure usable = here->machine.usable;
    const int native = wish->engine == STOKE_ENGINE_NATIVE;
    const int64_t workers = wish->workers;
    line->source = usable.source;
    if (!usable.source) {
        STK_SAY(line->figure, "how many cores may be used is not known");
        return;
    }
    const int64_t cores = (int64_t)usable.value;
    const int64_t most = (cores - 1) / wish->ranks > 1 ? (cores - 1) / wish->ranks : 1;
    char of[96], ranks[32] = "";
    if (wish->ranks > 1) STK_SAY(ranks, ", %" PRId64 " processes", wish->ranks);
    STK_SAY(of, "%" PRId64 " usable core%s%s: up to %" PRId64, cores, cores == 1 ? "" : "s", ranks, most);
    line->verdict = STOKE_VERDICT_PASS;
    if (native && workers < 0) {
        STK_SAY(line->figure, "auto; %s", of);
        return;
    }
    if (workers < 0)
        STK_SAY(line->figure, "not said, so 0 in PyTorch: the training waits for every picture; %s", of);
    else if (!workers)
        STK_SAY(line->figure, "0: the training waits for every picture; %s", of);
    else
        STK_SAY(line->figure, "%" PRId64 "; %s%s", workers, of,
                workers > most ? "; more get in each other's way" : "");
    if (workers >= 1 && workers <= most) return;
    line->verdict = STOKE_VERDICT_WARN;
    if (native)
        STK_SAY(line->fix, "stoke train --config %s%s --workers auto", wish->config, wish->data_flag);
    else
        stk_how_to_optimize(line, wish, here);
}

static void check_pinned(stk_check_list *list, const stk_run_wish *wish, const stk_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "pin_memory", "pinned memory");
    const char *state = wish->pin_memory == 1 ? "on" : !wish->pin_memory ? "off" : "not said, so off";
    if (wish->pin_memory != 1 && !here->n_gpus) {
        STK_SAY(line->figure, "%s; it matters where there is a card, and none is seen here", state);
        return;
    }
    line->source = STOKE_SOURCE_TABLE;
    line->verdict = wish->pin_memory == 1 ? STOKE_VERDICT_PASS : STOKE_VERDICT_WARN;
    STK_SAY(line->figure, "%s%s", state, line->verdict ? ": copies to the card wait for the processor" : "");
    if (line->verdict) stk_how_to_optimize(line, wish, here);
}

/* PyTorch refuses both settings where there are no workers: the training does not start. */
static void check_persistent(stk_check_list *list, const stk_run_wish *wish, const stk_surroundings *here)
{
    const int none = wish->workers < 1;
    if (wish->persistent_workers == 1 && none) {
        stoke_preflight_line *line = stk_check_add(list, "persistent_workers", "persistent workers");
        line->source = STOKE_SOURCE_TABLE;
        line->verdict = STOKE_VERDICT_FAIL;
        STK_SAY(line->figure, "on with num_workers 0: DataLoader stops with a ValueError");
        stk_how_to_optimize(line, wish, here);
        return;
    }
    if (none || wish->epochs == 1) return;
    stoke_preflight_line *line = stk_check_add(list, "persistent_workers", "persistent workers");
    line->source = STOKE_SOURCE_TABLE;
    line->verdict = wish->persistent_workers == 1 ? STOKE_VERDICT_PASS : STOKE_VERDICT_WARN;
    STK_SAY(line->figure, "%s",
            wish->persistent_workers == 1 ? "on"
            : !wish->persistent_workers   ? "off: workers start anew in every epoch"
                                          : "not said, so off: workers start anew in every epoch");
    if (wish->persistent_workers != 1) stk_how_to_optimize(line, wish, here);
}

/* Bytes of the batches that workers hold ready: f32 pictures of three channels and int64 masks, as PyTorch's
 * losses want them. 0 = the file does not say enough. */
static double ready_bytes(const stk_run_wish *wish)
{
    const double prefetch = wish->prefetch > 0 ? (double)wish->prefetch : PREFETCH_DEFAULT;
    if (wish->batch < 1 || wish->height < 1 || wish->width < 1) return 0;
    return (double)wish->ranks * (double)wish->workers * prefetch * (double)wish->batch *
           (double)wish->height * (double)wish->width * (3 * 4 + 8);
}

static void check_prefetch(stk_check_list *list, const stk_run_wish *wish, const stk_surroundings *here)
{
    char need[32], have[32];
    const double bytes = ready_bytes(wish);
    const stoke_figure room = here->machine.available_bytes;
    const int refused = wish->workers < 1 && wish->prefetch > 0;
    if (wish->workers < 1 && !refused) return;
    stoke_preflight_line *line = stk_check_add(list, "prefetch", "batches held ready");
    if (refused) {
        line->source = STOKE_SOURCE_TABLE;
        line->verdict = STOKE_VERDICT_FAIL;
        STK_SAY(line->figure,
                "prefetch_factor %" PRId64 " with num_workers 0: DataLoader stops with a ValueError",
                wish->prefetch);
        stk_how_to_optimize(line, wish, here);
        return;
    }
    if (bytes <= 0 || !room.source) {
        STK_SAY(line->figure, "%s is not known",
                room.source ? "the size of a batch" : "the memory that is free");
        if (bytes <= 0) STK_SAY(line->fix, "say it: stoke check --config %s --size HxW", wish->config);
        return;
    }
    stoke_text_bytes((uint64_t)bytes, need, sizeof need);
    stoke_text_bytes((uint64_t)room.value, have, sizeof have);
    line->source = STOKE_SOURCE_ESTIMATED;
    line->verdict = bytes > room.value       ? STOKE_VERDICT_FAIL
                    : bytes > room.value / 2 ? STOKE_VERDICT_WARN
                                             : STOKE_VERDICT_PASS;
    STK_SAY(line->figure, "%s of %s free host memory", need, have);
    if (line->verdict) STK_SAY(line->fix, "fewer workers or a smaller prefetch_factor in %s", wish->config);
}

/* Workers are processes: every batch goes through /dev/shm, and one too many ends them by a bus error. */
static void check_shm(stk_check_list *list, const stk_run_wish *wish, const stk_surroundings *here)
{
    char need[32], have[32];
    if (wish->workers < 1) return;
    stoke_preflight_line *line = stk_check_add(list, "shm", "/dev/shm");
    const double bytes = ready_bytes(wish);
    const stoke_figure room = here->machine.shm_bytes;
    if (!room.source) {
        STK_SAY(line->figure, "there is none that can be seen; PyTorch's workers need it");
        return;
    }
    stoke_text_bytes((uint64_t)bytes, need, sizeof need);
    stoke_text_bytes((uint64_t)room.value, have, sizeof have);
    line->source = room.source;
    if (bytes <= 0 && room.value > SHM_DEFAULT) {
        STK_SAY(line->figure, "%s free; the size of a batch is not known", have);
        STK_SAY(line->fix, "say it: stoke check --config %s --size HxW", wish->config);
        return;
    }
    STK_SAY(line->figure, "%s free, workers need %s", have,
            bytes > 0 ? need : "more than a container's default");
    line->verdict = bytes > room.value                     ? STOKE_VERDICT_FAIL
                    : bytes <= 0 || bytes > room.value / 2 ? STOKE_VERDICT_WARN
                                                           : STOKE_VERDICT_PASS;
    if (line->verdict)
        STK_SAY(line->fix, "docker run --shm-size=%.0fg ...   or: sudo mount -o remount,size=%.0fG /dev/shm",
                bytes * 2 / (1 << 30) + 1, bytes * 2 / (1 << 30) + 1);
}

/* Of this shell, which is not surely the one that trains. */
static void check_threads(stk_check_list *list, const stk_run_wish *wish, const stk_surroundings *here)
{
    const char *text = here->omp_threads;
    if (wish->workers < 1 || !here->machine.usable.source) return;
    stoke_preflight_line *line = stk_check_add(list, "omp_threads", "OMP_NUM_THREADS");
    const double cores = here->machine.usable.value;
    const long threads = text ? strtol(text, NULL, 10) : 0;
    line->source = STOKE_SOURCE_MEASURED;
    if (threads < 1)
        STK_SAY(line->figure,
                "not set in this shell: NumPy and OpenCV may start %.0f threads in each of %" PRId64
                " workers",
                cores, wish->workers);
    else
        STK_SAY(line->figure, "%ld in this shell, for each of %" PRId64 " workers on %.0f cores", threads,
                wish->workers, cores);
    const int fits = threads >= 1 && (threads == 1 || (double)threads * (double)wish->workers <= cores);
    line->verdict = fits ? STOKE_VERDICT_PASS : STOKE_VERDICT_WARN;
    if (!fits) STK_SAY(line->fix, "export OMP_NUM_THREADS=1   and cv2.setNumThreads(0) in the workers");
}

void stk_check_loading(stk_check_list *list, const stk_run_wish *wish, const stk_surroundings *here)
{
    check_workers(list, wish, here);
    if (wish->engine != STOKE_ENGINE_TORCH) return;
    check_pinned(list, wish, here);
    check_persistent(list, wish, here);
    check_prefetch(list, wish, here);
    check_shm(list, wish, here);
    check_threads(list, wish, here);
}
