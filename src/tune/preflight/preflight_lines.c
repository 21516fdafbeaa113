/* SPDX-License-Identifier: Apache-2.0
 *
 * The list: memory, loading, machine and data of any engine here, the card in preflight_card.c.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/remarks.h"
#include "src/tune/decide/decide.h"
#include "src/tune/advice/advice.h"
#include "src/tune/preflight/preflight.h"
#include <stoke/tools/report.h>
#include <stoke/tools/terminal.h>

static const double SPARE = STK_SPARE_BYTES;

stoke_preflight_line *stk_check_add(stoke_preflight *list, const char *key, const char *title)
{
    /* The lines there are stand in the functions below and in two files: one too many is seen by the tests.
     */
    if (list->n == STOKE_PREFLIGHT_LINES) list->n--;
    stoke_preflight_line *line = &list->line[list->n++];
    *line = (stoke_preflight_line){ .key = key, .title = title, .verdict = STOKE_VERDICT_NA };
    return line;
}

/* ---- what to type ---- */

/* For the card that is meant: of several, and of those that have no name in the tables, too. */
stk_preflight_command stk_optimize_command(const stk_run_config *config,
                                           const stk_preflight_surroundings *here)
{
    stk_preflight_command command;
    char cores[32] = "", ranks[32] = "";
    if (here->cores_given) STK_SAY(cores, " --cores %" PRIu32, here->cores_given);
    if (config->ranks > 1) STK_SAY(ranks, " --ranks %" PRId64, config->ranks);
    STK_SAY(command.text, "stoke optimize --config %s%s%s%s", config->config, here->card_flag, cores, ranks);
    return command;
}

void stk_how_to_optimize(stoke_preflight_line *line, const stk_run_config *config,
                         const stk_preflight_surroundings *here)
{
    STK_SAY(line->fix, "%s", stk_optimize_command(config, here).text);
}

/* What the file does not say is left to the defaults, which the estimate here took too. */
stk_preflight_command stk_estimate_command(const stk_run_config *config, int64_t batch, double room)
{
    const stoke_estimate_params usual = stoke_estimate_defaults();
    stk_preflight_command command;
#define PUT(...) stk_text_add(command.text, sizeof command.text, " ", __VA_ARGS__)
    *command.text = 0;
    PUT("stoke estimate --model %s --batch %" PRId64 " --size %" PRId64 "x%" PRId64, config->model, batch,
        config->height, config->width);
    if (config->base_channels > 0) PUT("--base-channels %" PRId64, config->base_channels);
    if (config->num_blocks > 0) PUT("--num-blocks %" PRId64, config->num_blocks);
    if (config->classes > 0) PUT("--classes %" PRId64, config->classes);
    PUT("--precision %s", stoke_precision_name(config->train.precision));
    if (config->train.optimizer != usual.optimizer) PUT("--optimizer sgd");
    if (config->train.freeze_encoder) PUT("--freeze-encoder");
    if (config->train.average > 0) PUT("--average");
    if (room > 0) PUT("--vram %.4g", floor(room / SPARE * 100) / 100);
#undef PUT
    return command;
}

/* ---- memory ---- */

/* 0 = the file does not say enough, and the line says what is missing. */
static int estimate(stoke_estimate *e, stoke_preflight_line *line, const stk_run_config *config)
{
    stoke_estimate_params p;
    stoke_error err = { 0 };
    const int native = config->engine == STOKE_ENGINE_NATIVE;
    const char *unsaid = stk_run_config_estimate(config, &p);
    if (unsaid && !*config->model) {
        STK_SAY(line->figure, "the file names no model that the estimate knows%s%s",
                *config->model_said ? ": " : "", config->model_said);
        STK_SAY(line->fix, "name one: stoke check --config %s --model MODEL   b0..b5, resnet or unet",
                config->config);
        return 0;
    }
    if (unsaid) {
        if (*config->batch_said)
            STK_SAY(line->figure, "a batch of %s: how many that is shows where it runs", config->batch_said);
        else
            STK_SAY(line->figure, "the file does not say the %s%s", unsaid,
                    native ? ": training chooses" : "");
        if (native)
            STK_SAY(line->fix, "stoke train --config %s%s --dry-run", config->config, config->data_flag);
        else
            STK_SAY(line->fix,
                    config->batch < 1 ? "say batch_size as a number in %s"
                                      : "say it: stoke check --config %s --size HxW",
                    config->config);
        return 0;
    }
    if (!stoke_estimate_make(e, config->engine, &p, &err)) return 1;
    STK_SAY(line->figure, "no estimate: %.300s", err.message);
    return 0;
}

stoke_figure stk_host_free(const stoke_machine_facts *m)
{
    const int limited =
        m->limit_bytes.source != STOKE_SOURCE_NA &&
        (m->available_bytes.source == STOKE_SOURCE_NA || m->limit_bytes.value < m->available_bytes.value);
    return limited ? m->limit_bytes : m->available_bytes;
}

static void check_memory(stoke_preflight *list, const stk_run_config *config,
                         const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "memory", "memory");
    const int native = config->engine == STOKE_ENGINE_NATIVE;
    const stoke_figure room = native ? stk_host_free(&here->machine) : stk_card_memory(here);
    const stoke_figure now = here->gpu.memory_free;
    char need[80], free_now[64] = "", classes[32] = "";
    stoke_estimate e;
    if (!estimate(&e, line, config)) return;
    const char *have = STOKE_MEMORY(room.value);
    const stoke_estimate_params as = { .model = config->model,
                                       .classes = stoke_estimate_classes(config->model),
                                       .task = stk_run_config_task(config) };
    if (stk_estimate_task(&as) == STOKE_TASK_RESTORE)
        STK_SAY(classes, ", restores pictures");
    else if (config->classes < 1)
        STK_SAY(classes, ", %" PRIu32 " classes assumed", stoke_estimate_classes(config->model));
    if (!native && !here->meant && room.source && now.source)
        STK_SAY(free_now, ", %s of them free now", STOKE_MEMORY(now.value));
    STK_SAY(line->figure,
            "%s, batch %" PRId64 ", %" PRId64 "x%" PRId64 "%s%s: %s%s and 1 GiB to spare; %s%s%s%s",
            config->model, config->batch, config->height, config->width,
            config->size_seen ? " as in the set" : "", classes, stk_decide_range(&e, need, sizeof need),
            config->perceptual ? ", what its perceptual loss takes not counted," : "",
            native        ? "the host"
            : here->meant ? here->gpu.name
                          : "the card",
            !room.source ? ": what it has is not known"
            : native     ? " has free "
                         : " has ",
            room.source ? have : "", free_now);
    line->source = e.source;
    if (!room.source) {
        STK_SAY(line->fix, "name the card: stoke check --config %s --gpu NAME   or --vram GB",
                config->config);
        return;
    }
    static const int verdicts[] = { STOKE_VERDICT_PASS, STOKE_VERDICT_WARN, STOKE_VERDICT_FAIL };
    line->verdict = verdicts[stk_decide_fit(&e, room.value)];
    if (line->verdict == STOKE_VERDICT_PASS && *free_now && stk_decide_fit(&e, now.value) != STK_FITS) {
        line->verdict = STOKE_VERDICT_WARN;
        STK_SAY(line->fix, "nvidia-smi   shows who holds the rest; end them, or wait");
    }
    if (line->verdict == STOKE_VERDICT_PASS || *line->fix) return;
    if (native)
        STK_SAY(line->fix, "stoke train --config %s%s --batch auto", config->config, config->data_flag);
    else
        STK_SAY(line->fix, "%s", stk_estimate_command(config, config->batch, room.value).text);
}

/* ---- loading: our own loader takes workers alone, a PyTorch DataLoader the rest too ---- */

/* What Docker gives a container that asks for nothing. */
static const double SHM_DEFAULT = 64.0 * 1024 * 1024;

static void check_workers(stoke_preflight *list, const stk_run_config *config,
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

static void check_pinned(stoke_preflight *list, const stk_run_config *config,
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
static void check_persistent(stoke_preflight *list, const stk_run_config *config,
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

static void check_prefetch(stoke_preflight *list, const stk_run_config *config,
                           const stk_preflight_surroundings *here)
{
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
        if (bytes > 0 && here->meant) STK_SAY(line->figure, "%s of host memory", STOKE_MEMORY(bytes));
        return;
    }
    const char *need = STOKE_MEMORY(bytes), *have = STOKE_MEMORY(room.value);
    line->source = STOKE_SOURCE_ESTIMATED;
    line->verdict = bytes > room.value       ? STOKE_VERDICT_FAIL
                    : bytes > room.value / 2 ? STOKE_VERDICT_WARN
                                             : STOKE_VERDICT_PASS;
    STK_SAY(line->figure, "%s of %s free host memory", need, have);
    if (line->verdict) STK_SAY(line->fix, "fewer workers or a smaller prefetch_factor in %s", config->config);
}

/* Workers are processes: every batch goes through /dev/shm, and one too many ends them by a bus error. */
static void check_shm(stoke_preflight *list, const stk_run_config *config,
                      const stk_preflight_surroundings *here)
{
    if (config->workers < 1) return;
    stoke_preflight_line *line = stk_check_add(list, "shm", "/dev/shm");
    const double bytes = ready_bytes(config);
    const stoke_figure room = here->machine.shm_bytes;
    if (!room.source) {
        STK_SAY(line->figure, "there is none that can be seen; PyTorch's workers need it");
        return;
    }
    const char *need = STOKE_MEMORY(bytes), *have = STOKE_MEMORY(room.value);
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
static void check_threads(stoke_preflight *list, const stk_run_config *config,
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

/* ---- memory nodes and large pages ---- */

static void check_nodes(stoke_preflight *list, const stk_run_config *config,
                        const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "numa", "memory nodes");
    const stoke_figure nodes = here->machine.numa_nodes;
    if (!nodes.source) {
        STK_SAY(line->figure, "the system does not tell them");
        return;
    }
    line->source = nodes.source;
    if (nodes.value < 2) {
        line->verdict = STOKE_VERDICT_PASS;
        STK_SAY(line->figure, "1: memory is equally near to all cores");
        return;
    }
    if (config->engine == STOKE_ENGINE_NATIVE) {
        STK_SAY(line->figure, "%.0f; what it costs shows only when it runs", nodes.value);
        STK_SAY(line->fix, "try it, then compare: numactl --interleave=all stoke train --config %s%s",
                config->config, config->data_flag);
        return;
    }
    if (!here->cpus_allowed.source) {
        STK_SAY(line->figure, "%.0f; which of them the card is at is not known", nodes.value);
        return;
    }
    const int node = (int)here->gpu.numa_node.value;
    const double near = here->cpus_near.value, all = here->cpus_allowed.value;
    STK_SAY(line->figure, "%.0f; the card is at node %d, and so are %.0f of the %.0f cores of this shell",
            nodes.value, node, near, all);
    line->verdict = near < all ? STOKE_VERDICT_WARN : STOKE_VERDICT_PASS;
    if (near < all)
        STK_SAY(line->fix,
                "numactl --cpunodebind=%d --membind=%d python3 ...   for the training and its workers", node,
                node);
}

/* Our network asks for them (madvise); PyTorch does not, and has them where they are given to all. */
static void check_pages(stoke_preflight *list, const stk_run_config *config,
                        const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "huge_pages", "large pages");
    const int native = config->engine == STOKE_ENGINE_NATIVE, never = !strcmp(here->huge_pages, "never");
    if (!*here->huge_pages) {
        STK_SAY(line->figure, "the kernel does not tell, or has none");
        return;
    }
    line->source = STOKE_SOURCE_SYSFS;
    line->verdict = native && never ? STOKE_VERDICT_WARN : STOKE_VERDICT_PASS;
    STK_SAY(line->figure, "%.15s%s", here->huge_pages,
            !native ? "; of little weight where a card computes"
            : never ? ": the network asks for them and gets none"
                    : ": the network gets them");
    if (line->verdict)
        STK_SAY(line->fix, "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
}

/* ---- data ---- */

static void check_set(stoke_preflight *list, const stk_run_config *config,
                      const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "data", "data set");
    if (!config->has_data) {
        STK_SAY(line->figure, "the file names no data set");
        STK_SAY(line->fix, "name it: stoke check --config %s --data DIR", config->config);
        return;
    }
    line->source = STOKE_SOURCE_MEASURED;
    if (!here->data_there) {
        line->verdict = STOKE_VERDICT_FAIL;
        STK_SAY(line->figure, "%.380s", here->why_no_data);
        STK_SAY(line->fix, "put it there, or name it: stoke check --config %s --data DIR", config->config);
        return;
    }
    if (here->left_out || !here->has_partners) {
        line->verdict = STOKE_VERDICT_WARN;
        if (here->left_out)
            STK_SAY(line->figure, "%s; %s without a partner, left out, such as %.200s",
                    STOKE_COUNT(here->pairs, "pair"), STOKE_COUNT(here->left_out, "file"),
                    here->first_left_out);
        else
            STK_SAY(line->figure, "%s without masks", STOKE_COUNT(here->pairs, "picture"));
        STK_SAY(line->fix, "stoke verify %s", config->data_name);
        return;
    }
    line->verdict = STOKE_VERDICT_PASS;
    STK_SAY(line->figure, "%s, none without its partner; `stoke verify` reads every pixel",
            STOKE_COUNT(here->pairs, "pair"));
}

static void check_disk(stoke_preflight *list, const stk_run_config *config,
                       const stk_preflight_surroundings *here)
{
    const stoke_disk_facts *d = &here->disk;
    if (!here->data_there) return;
    stoke_preflight_line *line = stk_check_add(list, "disk", "disk of the data");
    const int network = d->network.source && d->network.value > 0;
    const int turns = d->rotational.source && d->rotational.value > 0;
    if (!network && !turns && (!d->rotational.source || !d->network.source)) {
        STK_SAY(line->figure, "%s",
                *here->why_no_disk ? here->why_no_disk : "the system does not say what it is");
        if (!*here->why_no_disk && *d->filesystem)
            STK_SAY(line->figure, "%s at %.100s: the system does not say what is below it", d->filesystem,
                    d->mount);
        return;
    }
    line->source = network ? d->network.source : d->rotational.source;
    STK_SAY(line->figure, "%s, %s at %.100s",
            network ? "a network disk"
            : turns ? "a spinning disk, says the kernel"
                    : "no spinning disk",
            d->filesystem, d->mount);
    /* Read once, it stays in memory: half of what is free, as below. */
    const stoke_figure room = stk_host_free(&here->machine);
    const int stays = here->data_bytes.source && room.source && here->data_bytes.value < room.value / 2;
    line->verdict = (network || turns) && !stays ? STOKE_VERDICT_WARN : STOKE_VERDICT_PASS;
    if (line->verdict == STOKE_VERDICT_WARN)
        STK_SAY(line->fix, "stoke pack %s --out shards   reads in long runs; or copy it to a local SSD",
                config->data_name);
}

/* Whether what is read in the first epoch is still in memory in the second. Half of what is free: the other
 * half is for the training itself. */
static void check_cache(stoke_preflight *list, const stk_run_config *config,
                        const stk_preflight_surroundings *here)
{
    if (!here->data_there || config->epochs == 1) return;
    stoke_preflight_line *line = stk_check_add(list, "page_cache", "data against memory");
    const stoke_figure room = stk_host_free(&here->machine);
    if (!here->data_bytes.source || !room.source) {
        STK_SAY(line->figure, "%s is not known",
                room.source ? "the size of the set" : "the memory that is free");
        return;
    }
    const char *all = STOKE_BYTES(here->data_bytes.value), *have = STOKE_MEMORY(room.value);
    line->source = here->data_bytes.source;
    const int stays = here->data_bytes.value <= room.value / 2;
    line->verdict = stays ? STOKE_VERDICT_PASS : STOKE_VERDICT_WARN;
    STK_SAY(line->figure, "%s of files, %s of memory free: %s", all, have,
            stays ? "stays in the page cache" : "is read from the disk in every epoch");
    if (!stays) STK_SAY(line->fix, "stoke pack %s --out shards   or more memory", config->data_name);
}

/* Our own trainer sees to the rest of an epoch itself: there only a batch that is never full is of interest.
 */
static void check_drop_last(stoke_preflight *list, const stk_run_config *config,
                            const stk_preflight_surroundings *here)
{
    if (!here->data_there || config->batch < 1 || !here->train_pairs) return;
    const int never =
        config->drop_last == 1 && here->train_pairs < (uint64_t)config->batch * (uint64_t)config->ranks;
    if (config->engine == STOKE_ENGINE_NATIVE && !never) return;
    stoke_preflight_line *line = stk_check_add(list, "drop_last", "last batch");
    const uint64_t batch = (uint64_t)config->batch * (uint64_t)config->ranks, n = here->train_pairs;
    const uint64_t rest = n % batch;
    line->source = STOKE_SOURCE_MEASURED;
    line->verdict = STOKE_VERDICT_PASS;
    if (never) {
        line->verdict = STOKE_VERDICT_FAIL;
        STK_SAY(line->figure, "%s cannot fill a batch of %" PRIu64 ", and drop_last leaves out what does not",
                STOKE_COUNT(n, "pair"), batch);
        STK_SAY(line->fix, "set drop_last: false, or a batch of %" PRIu64 " at most, in %s", n,
                config->config);
    } else if (config->drop_last == 1) {
        STK_SAY(line->figure, "dropped: %" PRIu64 " of %s in every epoch", rest, STOKE_COUNT(n, "pair"));
    } else if (rest == 1 && batch > 1) {
        line->verdict = STOKE_VERDICT_WARN;
        STK_SAY(line->figure,
                "of 1 picture (%" PRIu64 " pairs, batch %" PRIu64
                "): batch norm has little to go by, or stops",
                n, batch);
        STK_SAY(line->fix, "set drop_last: true in %s", config->config);
    } else {
        STK_SAY(line->figure, "kept: of %s (%s, batch %" PRIu64 ")",
                STOKE_COUNT(rest ? rest : batch, "picture"), STOKE_COUNT(n, "pair"), batch);
    }
}

void stk_preflight_judge(stoke_preflight *list, const stk_run_config *config,
                         const stk_preflight_surroundings *here)
{
    const int torch = config->engine == STOKE_ENGINE_TORCH;
    *list = (stoke_preflight){ .engine = config->engine, .dialect = config->dialect };
    if (!stk_has_card(here)) STK_SAY(list->no_card, "%s", here->why_no_gpu);
    if (torch) stk_check_card(list, config, here);
    check_memory(list, config, here);
    check_workers(list, config, here);
    if (torch) {
        check_pinned(list, config, here);
        check_persistent(list, config, here);
        check_prefetch(list, config, here);
    }
    if (!here->meant) { /* what is about this machine, where no other one is meant */
        if (torch) check_shm(list, config, here);
        if (torch) check_threads(list, config, here);
        check_nodes(list, config, here);
        check_pages(list, config, here);
    }
    check_set(list, config, here);
    check_drop_last(list, config, here);
    check_disk(list, config, here);
    check_cache(list, config, here);
    for (size_t i = 0; i < list->n; i++) list->count[list->line[i].verdict]++;
}
