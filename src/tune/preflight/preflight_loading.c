/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines about loading: our own loader takes workers alone, a PyTorch DataLoader the rest too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tune/decide/decide.h"
#include "src/tune/preflight/preflight.h"
#include <stoke/tools/report.h>

/* What Docker gives a container that asks for nothing. */
static const double SHM_DEFAULT = 64.0 * 1024 * 1024;

static void check_workers(stk_preflight_list *list, const stk_run_config *config,
                          const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "workers", "workers");
    const stoke_figure usable = stk_cores(here);
    const int native = config->engine == STOKE_ENGINE_NATIVE;
    const int64_t workers = config->workers;
    char of[128] = "";
    if (usable.source) {
        const uint32_t cores = (uint32_t)usable.value, ranks = (uint32_t)config->ranks;
        char each[48] = "";
        if (config->ranks > 1) STK_SAY(each, " for %" PRIu32 " processes", ranks);
        STK_SAY(of, "; %" PRIu32 " core%s%s: %" PRIu32 " usual, up to %" PRIu32, cores, cores == 1 ? "" : "s",
                each, stk_decide_workers(cores, ranks),
                stk_decide_workers_most(cores, ranks, stk_slow_files(here)));
    }
    line->source = usable.source;
    if (native && workers < 0) {
        line->verdict = usable.source ? STOKE_VERDICT_PASS : STOKE_VERDICT_NA;
        STK_SAY(line->figure, "auto%s", of);
        return;
    }
    if (*config->workers_said) {
        line->source = STOKE_SOURCE_NA;
        STK_SAY(line->figure, "%s: how many that is shows where it runs%s", config->workers_said, of);
        return;
    }
    const int none = workers < 1;
    const int many = usable.source && workers > (int64_t)stk_decide_workers_most((uint32_t)usable.value,
                                                                                 (uint32_t)config->ranks,
                                                                                 stk_slow_files(here));
    if (none)
        STK_SAY(line->figure, "%s: the training makes every batch itself and waits for it%s",
                stk_run_config_default(config, "num_workers") ? "not said, so 0" : "0", of);
    else
        STK_SAY(line->figure, "%" PRId64 "%s%s%s", workers, of, many ? "; more get in each other's way" : "",
                usable.source ? "" : "; how many cores the machine with the card has is not known here");
    if (none && !usable.source) line->source = STOKE_SOURCE_TABLE;
    line->verdict = none || many ? STOKE_VERDICT_WARN : usable.source ? STOKE_VERDICT_PASS : STOKE_VERDICT_NA;
    if (line->verdict == STOKE_VERDICT_NA)
        STK_SAY(line->fix, "say it: stoke check --config %s%s --cores N", config->config, here->card_flag);
    if (line->verdict != STOKE_VERDICT_WARN) return;
    if (native)
        STK_SAY(line->fix, "stoke train --config %s%s --workers auto", config->config, config->data_flag);
    else
        stk_how_to_optimize(line, config, here);
}

static void check_pinned(stk_preflight_list *list, const stk_run_config *config,
                         const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "pin_memory", "pinned memory");
    const char *state = stk_run_config_switch(config, "pin_memory", config->pin_memory);
    if (config->pin_memory != 1 && !stk_has_card(here)) {
        STK_SAY(line->figure, "%s; it matters where there is a card, and none is seen here", state);
        return;
    }
    line->source = STOKE_SOURCE_TABLE;
    line->verdict = config->pin_memory == 1 ? STOKE_VERDICT_PASS : STOKE_VERDICT_WARN;
    STK_SAY(line->figure, "%s%s", state, line->verdict ? ": copies to the card wait for the processor" : "");
    if (line->verdict) stk_how_to_optimize(line, config, here);
}

/* PyTorch refuses both settings where there are no workers: the training does not start. */
static void check_persistent(stk_preflight_list *list, const stk_run_config *config,
                             const stk_preflight_surroundings *here)
{
    const int none = stk_run_config_no_workers(config);
    if (config->persistent_workers == 1 && none) {
        stoke_preflight_line *line = stk_check_add(list, "persistent_workers", "persistent workers");
        line->source = STOKE_SOURCE_TABLE;
        line->verdict = STOKE_VERDICT_FAIL;
        STK_SAY(line->figure, "on with num_workers 0: DataLoader stops with a ValueError");
        stk_how_to_optimize(line, config, here);
        return;
    }
    if (none || config->epochs == 1) return;
    stoke_preflight_line *line = stk_check_add(list, "persistent_workers", "persistent workers");
    line->source = STOKE_SOURCE_TABLE;
    line->verdict = config->persistent_workers == 1 ? STOKE_VERDICT_PASS : STOKE_VERDICT_WARN;
    STK_SAY(line->figure, "%s%s",
            stk_run_config_switch(config, "persistent_workers", config->persistent_workers),
            config->persistent_workers == 1 ? "" : ": workers start again in every epoch");
    if (config->persistent_workers != 1) stk_how_to_optimize(line, config, here);
}

/* Bytes of the batches that workers hold ready: f32 pictures of three channels and int64 masks, as PyTorch's
 * losses want them. 0 = the file does not say enough. */
static double ready_bytes(const stk_run_config *config)
{
    const double prefetch = (double)config->prefetch;
    if (config->prefetch < 1 || config->batch < 1 || config->height < 1 || config->width < 1) return 0;
    return (double)config->ranks * (double)config->workers * prefetch * (double)config->batch *
           (double)config->height * (double)config->width * (3 * 4 + 8);
}

static void check_prefetch(stk_preflight_list *list, const stk_run_config *config,
                           const stk_preflight_surroundings *here)
{
    char need[32], have[32];
    const double bytes = ready_bytes(config);
    const stoke_figure room = here->meant ? (stoke_figure){ 0 } : here->machine.available_bytes;
    const int refused = stk_run_config_no_workers(config) && config->prefetch > 0 &&
                        !stk_run_config_default(config, "prefetch_factor");
    if (config->workers < 1 && !refused) return;
    stoke_preflight_line *line = stk_check_add(list, "prefetch", "batches held ready");
    if (refused) {
        line->source = STOKE_SOURCE_TABLE;
        line->verdict = STOKE_VERDICT_FAIL;
        STK_SAY(line->figure,
                "prefetch_factor %" PRId64 " with num_workers 0: DataLoader stops with a ValueError",
                config->prefetch);
        stk_how_to_optimize(line, config, here);
        return;
    }
    if (bytes <= 0 || !room.source) {
        STK_SAY(line->figure, "%s is not known",
                room.source ? "the size of a batch" : "the memory that is free");
        if (bytes <= 0) STK_SAY(line->fix, "say it: stoke check --config %s --size HxW", config->config);
        if (bytes > 0 && here->meant)
            STK_SAY(line->figure, "%s of host memory", stoke_text_memory((uint64_t)bytes, need, sizeof need));
        return;
    }
    stoke_text_memory((uint64_t)bytes, need, sizeof need);
    stoke_text_memory((uint64_t)room.value, have, sizeof have);
    line->source = STOKE_SOURCE_ESTIMATED;
    line->verdict = bytes > room.value       ? STOKE_VERDICT_FAIL
                    : bytes > room.value / 2 ? STOKE_VERDICT_WARN
                                             : STOKE_VERDICT_PASS;
    STK_SAY(line->figure, "%s of %s free host memory", need, have);
    if (line->verdict) STK_SAY(line->fix, "fewer workers or a smaller prefetch_factor in %s", config->config);
}

/* Workers are processes: every batch goes through /dev/shm, and one too many ends them by a bus error. */
static void check_shm(stk_preflight_list *list, const stk_run_config *config,
                      const stk_preflight_surroundings *here)
{
    char need[32], have[32];
    if (config->workers < 1) return;
    stoke_preflight_line *line = stk_check_add(list, "shm", "/dev/shm");
    const double bytes = ready_bytes(config);
    const stoke_figure room = here->machine.shm_bytes;
    if (!room.source) {
        STK_SAY(line->figure, "there is none that can be seen; PyTorch's workers need it");
        return;
    }
    stoke_text_memory((uint64_t)bytes, need, sizeof need);
    stoke_text_memory((uint64_t)room.value, have, sizeof have);
    line->source = room.source;
    if (bytes <= 0 && room.value > SHM_DEFAULT) {
        STK_SAY(line->figure, "%s free; the size of a batch is not known", have);
        STK_SAY(line->fix, "say it: stoke check --config %s --size HxW", config->config);
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
static void check_threads(stk_preflight_list *list, const stk_run_config *config,
                          const stk_preflight_surroundings *here)
{
    const char *text = here->omp_threads;
    if (config->workers < 1 || !here->machine.usable.source) return;
    stoke_preflight_line *line = stk_check_add(list, "omp_threads", "OMP_NUM_THREADS");
    const double cores = here->machine.usable.value;
    const long threads = text ? strtol(text, NULL, 10) : 0;
    line->source = STOKE_SOURCE_MEASURED;
    if (threads < 1)
        STK_SAY(line->figure,
                "not set in this shell: NumPy and OpenCV may start %.0f threads in each of %" PRId64
                " workers",
                cores, config->workers);
    else
        STK_SAY(line->figure, "%ld in this shell, for each of %" PRId64 " workers on %.0f cores", threads,
                config->workers, cores);
    const int fits = threads >= 1 && (threads == 1 || (double)threads * (double)config->workers <= cores);
    line->verdict = fits ? STOKE_VERDICT_PASS : STOKE_VERDICT_WARN;
    if (!fits) STK_SAY(line->fix, "export OMP_NUM_THREADS=1   and cv2.setNumThreads(0) in the workers");
}

void stk_check_loading(stk_preflight_list *list, const stk_run_config *config,
                       const stk_preflight_surroundings *here)
{
    check_workers(list, config, here);
    if (config->engine != STOKE_ENGINE_TORCH) return;
    check_pinned(list, config, here);
    check_persistent(list, config, here);
    check_prefetch(list, config, here);
    if (here->meant) return; /* the rest is about this machine, and another one is meant */
    check_shm(list, config, here);
    check_threads(list, config, here);
}
