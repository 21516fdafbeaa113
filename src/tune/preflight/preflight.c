/* SPDX-License-Identifier: Apache-2.0
 *
 * A pre-flight check from end to end: reads the file, looks at the machine and the data, has it judged.
 */
#include "src/tune/preflight/preflight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/terminal.h"
#include "src/tune/advice/advice.h"
#include "src/tune/decide/decide.h"
#include "src/tune/machine/tree.h"
#include "src/tune/preflight/preflight_ranks.h"
#include <stoke/tools/dataset.h>

/* ---- memory nodes and large pages: what a machine has beside enough of everything ---- */

/* Whether a number is in a list such as "0-3,8". */
static int is_in(const char *text, long number)
{
    stk_machine_cpu_list list = stk_cpu_list_begin(text);
    for (long n; stk_cpu_list_next(&list, &n);)
        if (n == number) return 1;
    return 0;
}

static void look_at_cores(stk_preflight_surroundings *here, const char *root)
{
    char status[8192], near[4096];
    const stoke_figure node = here->gpu.numa_node;
    if (!node.source || node.value < 0 || !stk_tree_text(status, sizeof status, root, "proc/self/status"))
        return;
    const char *allowed = strstr(status, "Cpus_allowed_list:");
    if (!allowed ||
        !stk_tree_text(near, sizeof near, root, "sys/devices/system/node/node%d/cpulist", (int)node.value))
        return;
    stk_machine_cpu_list list = stk_cpu_list_begin(allowed + strlen("Cpus_allowed_list:"));
    int all = 0, there = 0;
    for (long cpu; all < 8192 && stk_cpu_list_next(&list, &cpu); all++) there += is_in(near, cpu);
    if (!all) return;
    here->cpus_allowed = stk_figure(all, STOKE_SOURCE_PROC);
    here->cpus_near = stk_figure(there, STOKE_SOURCE_SYSFS);
}

void stk_look_at_nodes(stk_preflight_surroundings *here, const char *root)
{
    char text[128];
    look_at_cores(here, root);
    if (!stk_tree_text(text, sizeof text, root, "sys/kernel/mm/transparent_hugepage/enabled")) return;
    const char *word = strchr(text, '['); /* "always [madvise] never" */
    if (word) STK_SAY(here->huge_pages, "%.*s", (int)strcspn(word + 1, "]"), word + 1);
}

/* The card that is meant where it is in another machine: what the tables know of it by its name, or its
 * memory alone. */

/* The card that is meant, from the tables; or one of those seen here that has its name. `gpus` may be empty.
 */
static int find_meant(stk_preflight_surroundings *here, stoke_gpus *gpus, const stoke_preflight_params *p,
                      stoke_error *err)
{
    const stk_gpu_name name = p->card ? stk_gpu_named(p->card) : (stk_gpu_name){ 0 };
    if (p->card && !name.gpu && !name.gb && !p->card_memory)
        return stk_fail(err, STOKE_E_INVALID,
                        "no card is known as '%.80s'%s%s%s (`--vram` with its memory will do, too)", p->card,
                        name.nearest ? ": did you mean " : "", name.nearest ? name.nearest : "",
                        name.nearest ? "?" : "");
    for (size_t i = 0; name.gpu && !p->card_memory && i < here->n_gpus; i++) {
        here->index = i;
        stoke_gpus_read(gpus, i, &here->gpu);
        if (!here->gpu.lost && stk_gpu_named(here->gpu.name).gpu == name.gpu) return STOKE_OK;
    }
    const uint32_t gb = name.gb ? name.gb : name.gpu ? name.gpu->gb : 0;
    const uint64_t memory = p->card_memory ? p->card_memory : (uint64_t)gb << 30;
    stoke_gpu *gpu = &here->gpu;
    *gpu = (stoke_gpu){ 0 };
    here->n_gpus = here->index = 0;
    here->meant = 1;
    if (name.gpu)
        STK_SAY(gpu->name, "%s", name.gpu->name);
    else
        STK_SAY(gpu->name, "a card of %.4g GiB", (double)memory / (double)STK_SPARE_BYTES);
    gpu->memory_total = gpu->memory_free = stk_figure((double)memory, STOKE_SOURCE_TABLE);
    const double capability = name.gpu ? name.gpu->capability : 0;
    if (capability > 0) gpu->compute_capability = stk_figure(capability, STOKE_SOURCE_TABLE);
    char word[80] = "";
    if (name.gpu && !p->card_memory && *stoke_text_word(p->card, word, sizeof word))
        STK_SAY(here->card_flag, " --gpu %s", word);
    else
        STK_SAY(here->card_flag, " --vram %.4g", (double)memory / (double)STK_SPARE_BYTES);
    return STOKE_OK;
}

int stk_has_card(const stk_preflight_surroundings *here)
{
    return here->n_gpus > 0 || here->meant;
}

stoke_figure stk_card_memory(const stk_preflight_surroundings *here)
{
    return here->gpu.memory_total.source ? here->gpu.memory_total : here->gpu.memory_free;
}

stoke_figure stk_cores(const stk_preflight_surroundings *here)
{
    if (here->cores_given) return stk_figure(here->cores_given, STOKE_SOURCE_TABLE);
    return here->meant ? (stoke_figure){ 0 } : here->machine.usable;
}

int stk_slow_files(const stk_preflight_surroundings *here)
{
    const stoke_disk_facts *disk = &here->disk;
    const int turns = disk->rotational.source && disk->rotational.value > 0;
    return here->data_there && (turns || (disk->network.source && disk->network.value > 0));
}

void stk_resolve_ranks(stk_run_config *config, const stk_preflight_surroundings *here)
{
    if (config->engine != STOKE_ENGINE_TORCH || config->ranks > 1) return;
    if (config->cards < 0 && here->n_gpus) config->ranks = (int64_t)here->n_gpus;
    if (config->cards > 0) config->ranks = config->cards;
}

/* Files whose size is asked for; of larger sets these are taken for the rest. A stat takes about 2 us here
 * and 1 ms on a slow network, so this is 4 s at most. */
enum { SIZES = 4096 };
/* Pictures of which it is asked how much is in the page cache: spread over the set, they tell it to 10 %. */
enum { LOOKED_AT = 64 };
/* For the others of a launch to come. */
static const double JOIN_SECONDS = 60;

stoke_preflight_params stoke_preflight_defaults(void)
{
    return (stoke_preflight_params){ .struct_size = sizeof(stoke_preflight_params),
                                     .ignore_index = STOKE_PREFLIGHT_UNSAID,
                                     .ranks = 1 };
}

const char *stoke_verdict_name(int verdict)
{
    static const char *const names[STOKE_VERDICTS] = { "pass", "n/a", "warn", "fail" };
    return verdict >= 0 && verdict < STOKE_VERDICTS ? names[verdict] : "n/a";
}

/* ---- looking ---- */

static double blob_bytes(const stoke_blob *blob)
{
    struct stat s;
    if (!blob->path) return 0;
    if (blob->size != UINT64_MAX) return (double)blob->size;
    return stoke_stat(blob->path, &s) ? 0 : (double)s.st_size;
}

static void look_at_data(stk_preflight_surroundings *here, const stk_run_config *config)
{
    stoke_error err = { 0 };
    stoke_dataset *dataset;
    const char *files[LOOKED_AT];
    if (!config->has_data) return;
    if (stoke_dataset_open(&dataset, &config->data, &err)) {
        STK_SAY(here->why_no_data, "%.500s", err.message);
        return;
    }
    here->data_there = 1;
    here->pairs = stoke_dataset_count(dataset);
    here->left_out = stoke_dataset_notes(dataset);
    here->has_partners = stoke_dataset_has_masks(dataset) || stoke_dataset_has_targets(dataset);
    if (here->left_out) STK_SAY(here->first_left_out, "%.250s", stoke_dataset_note(dataset, 0).path);
    const uint64_t n = here->pairs, sized = stk_least(n, SIZES), looked = stk_least(n, LOOKED_AT);
    double bytes = 0;
    for (uint64_t i = 0; i < sized; i++) {
        const stoke_sample sample = stoke_dataset_sample(dataset, i * n / sized);
        const double size[] = { blob_bytes(&sample.image), blob_bytes(&sample.mask) };
        bytes += size[0] + size[1];
        here->sizes_digest = XXH3_64bits_withSeed(size, sizeof size, here->sizes_digest);
    }
    here->names_digest = stoke_dataset_fingerprint(dataset);
    if (n)
        here->data_bytes = stk_figure(bytes / (double)sized * (double)n,
                                      sized == n ? STOKE_SOURCE_MEASURED : STOKE_SOURCE_ESTIMATED);
    for (uint64_t i = 0; i < looked; i++) files[i] = stoke_dataset_sample(dataset, i * n / looked).image.path;
    if (looked && stoke_disk_probe(&here->disk, files, looked, 0, &err))
        STK_SAY(here->why_no_disk, "%.250s", err.message);
    stoke_dataset_close(&dataset);
    /* How many are left to train on; the split is by name and costs no more than opening. */
    stoke_data_params data = config->data;
    here->train_pairs = here->pairs;
    if (config->engine != STOKE_ENGINE_NATIVE || data.split != STOKE_SPLIT_ALL || data.val_split <= 0) return;
    data.split = STOKE_SPLIT_TRAIN;
    if (stoke_dataset_open(&dataset, &data, NULL)) return;
    here->train_pairs = stoke_dataset_count(dataset);
    stoke_dataset_close(&dataset);
}

static int look_at_cards(stk_preflight_surroundings *here, const stoke_preflight_params *p, stoke_error *err)
{
    stoke_gpus_params params = stoke_gpus_defaults();
    stoke_gpus *gpus;
    params.nvml = p->nvml;
    params.root = p->root;
    int r = stoke_gpus_open(&gpus, &params, err);
    if (r) return r;
    here->n_gpus = stoke_gpus_count(gpus);
    here->index = p->gpu;
    STK_SAY(here->why_no_gpu, "%.380s", stoke_gpus_why(gpus));
    if (p->card || p->card_memory)
        r = find_meant(here, gpus, p, err);
    else if (p->gpu && p->gpu >= here->n_gpus)
        r = stk_fail(err, STOKE_E_INVALID, "there is no card %u: %zu %s here; `stoke doctor` lists them",
                     (unsigned)p->gpu, here->n_gpus, here->n_gpus == 1 ? "is" : "are");
    else if (here->n_gpus)
        stoke_gpus_read(gpus, p->gpu, &here->gpu);
    if (!r && !*here->card_flag && here->n_gpus && here->gpu.memory_total.source)
        STK_SAY(here->card_flag, " --vram %.0f", here->gpu.memory_total.value / (double)STK_SPARE_BYTES);
    stoke_gpus_close(&gpus);
    return r;
}

int stk_look_around(stk_preflight_surroundings *here, const stk_run_config *config,
                    const stoke_preflight_params *p, stoke_error *err)
{
    here->cores_given = p->cores;
    int r = stoke_machine_probe(&here->machine, 0, p->root, err);
    if (!r && config->engine == STOKE_ENGINE_TORCH) r = look_at_cards(here, p, err);
    if (r) return r;
    look_at_data(here, config);
    stk_look_at_nodes(here, p->root ? p->root : "");
    here->omp_threads = getenv("OMP_NUM_THREADS");
    return STOKE_OK;
}

/* ---- the whole ---- */

static int check_here(stoke_preflight *list, stk_run_config *config, stk_preflight_surroundings *here,
                      const stoke_preflight_params *params, stoke_error *err)
{
    int r = stk_run_config_read(config, params, err);
    if (!r) stk_run_config_see_size(config);
    if (!r) r = stk_look_around(here, config, params, err);
    if (r) return r;
    stk_resolve_ranks(config, here);
    stk_preflight_judge(list, config, here);
    return STOKE_OK;
}

int stoke_preflight_run(stoke_preflight **out, const stoke_preflight_params *params, stoke_error *err)
{
    *out = NULL;
    if (!params || params->struct_size != sizeof *params || !params->config)
        return stk_fail(err, STOKE_E_INVALID,
                        "no settings file is named, or the parameters are not those of "
                        "stoke_preflight_defaults");
    stk_run_config config = { 0 };
    stk_comm *comm = NULL;
    stoke_error lonely = { 0 };
    stoke_preflight *preflight = stk_calloc(1, sizeof *preflight);
    stk_preflight_surroundings *here =
        stk_calloc(1, sizeof *here); /* a card's facts are 10 KB: not for the stack */
    int r = preflight && here ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for a pre-flight check");
    /* First of all, so that a rank that fails can tell the others. */
    const stk_comm_settings settings = { .engine = params->comm, .timeout = JOIN_SECONDS };
    const int apart = !r && params->comm ? stk_comm_open(&comm, &settings, &lonely) : STOKE_OK;
    if (!r) r = check_here(preflight, &config, here, params, err);
    if (comm) r = stk_preflight_together(preflight, comm, &config, here, r, err);
    if (!r && apart) stk_preflight_alone(preflight, &lonely);
    stk_comm_close(&comm);
    stk_run_config_free(&config);
    stk_free(here);
    if (r) stoke_preflight_destroy(&preflight);
    *out = preflight;
    return r;
}

void stoke_preflight_destroy(stoke_preflight **preflight)
{
    if (!preflight) return;
    stk_free(*preflight);
    *preflight = NULL;
}
