/* SPDX-License-Identifier: Apache-2.0
 *
 * A pre-flight check from end to end: reads the file, looks at the machine and the data, has it judged.
 */
#include "src/tune/preflight/preflight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/tune/decide/decide.h"

/* Files whose size is asked for; of larger sets these are taken for the rest. A stat takes about 2 us here
 * and 1 ms on a slow network, so this is 4 s at most. */
enum { SIZES = 4096 };
/* Pictures of which it is asked how much is in the page cache: spread over the set, they tell it to 10 %. */
enum { LOOKED_AT = 64 };

struct stoke_preflight {
    stk_run_config config;
    stk_preflight_list list;
    char no_card[384];
};

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
    return stk_stat(blob->path, &s) ? 0 : (double)s.st_size;
}

static void look_at_sizes(stk_preflight_surroundings *here, const stoke_dataset *dataset)
{
    const uint64_t n = stoke_dataset_count(dataset), looked = n < SIZES ? n : SIZES;
    double bytes = 0;
    for (uint64_t i = 0; i < looked; i++) {
        const stoke_sample sample = stoke_dataset_sample(dataset, i * n / looked);
        bytes += blob_bytes(&sample.image) + blob_bytes(&sample.mask);
    }
    if (!looked) return;
    here->data_bytes.value = bytes / (double)looked * (double)n;
    here->data_bytes.source = looked == n ? STOKE_SOURCE_MEASURED : STOKE_SOURCE_ESTIMATED;
}

static void look_at_disk(stk_preflight_surroundings *here, const stoke_dataset *dataset)
{
    stoke_error err = { 0 };
    const char *files[LOOKED_AT];
    const uint64_t n = stoke_dataset_count(dataset), looked = n < LOOKED_AT ? n : LOOKED_AT;
    for (uint64_t i = 0; i < looked; i++) files[i] = stoke_dataset_sample(dataset, i * n / looked).image.path;
    if (stoke_disk_probe(&here->disk, files, looked, 0, &err))
        STK_SAY(here->why_no_disk, "%.250s", err.message);
}

/* How many are left to train on; the split is by name and costs no more than opening. */
static uint64_t count_training(const stk_run_config *config, uint64_t all)
{
    stoke_data_params data = config->data;
    stoke_dataset *dataset;
    if (config->engine != STOKE_ENGINE_NATIVE || data.split != STOKE_SPLIT_ALL || data.val_split <= 0)
        return all;
    data.split = STOKE_SPLIT_TRAIN;
    if (stoke_dataset_open(&dataset, &data, NULL)) return all;
    all = stoke_dataset_count(dataset);
    stoke_dataset_close(&dataset);
    return all;
}

static void look_at_data(stk_preflight_surroundings *here, const stk_run_config *config)
{
    stoke_error err = { 0 };
    stoke_dataset *dataset;
    if (!config->has_data) return;
    if (stoke_dataset_open(&dataset, &config->data, &err)) {
        STK_SAY(here->why_no_data, "%.500s", err.message);
        return;
    }
    here->data_there = 1;
    here->pairs = stoke_dataset_count(dataset);
    here->left_out = stoke_dataset_notes(dataset);
    here->has_masks = stoke_dataset_has_masks(dataset);
    if (here->left_out) STK_SAY(here->first_left_out, "%.250s", stoke_dataset_note(dataset, 0).path);
    here->train_pairs = count_training(config, here->pairs);
    if (here->pairs) {
        look_at_sizes(here, dataset);
        look_at_disk(here, dataset);
    }
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
        r = stk_find_meant(here, gpus, p, err);
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

int stoke_preflight_run(stoke_preflight **out, const stoke_preflight_params *params, stoke_error *err)
{
    *out = NULL;
    if (!params || params->struct_size != sizeof *params || !params->config)
        return stk_fail(err, STOKE_E_INVALID,
                        "no settings file is named, or the parameters are not those of "
                        "stoke_preflight_defaults");
    stoke_preflight *preflight = stk_calloc(1, sizeof *preflight);
    stk_preflight_surroundings *here =
        stk_calloc(1, sizeof *here); /* a card's facts are 10 KB: not for the stack */
    int r = preflight && here ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for a pre-flight check");
    if (!r) r = stk_run_config_read(&preflight->config, params, err);
    if (!r) stk_run_config_see_size(&preflight->config);
    if (!r) r = stk_look_around(here, &preflight->config, params, err);
    if (!r) stk_resolve_ranks(&preflight->config, here, params->config);
    if (!r) stk_preflight_judge(&preflight->list, &preflight->config, here);
    if (!r && !stk_has_card(here)) STK_SAY(preflight->no_card, "%s", here->why_no_gpu);
    stk_free(here);
    if (r)
        stoke_preflight_destroy(&preflight);
    else
        *out = preflight;
    return r;
}

void stoke_preflight_destroy(stoke_preflight **preflight)
{
    if (!preflight || !*preflight) return;
    stk_run_config_free(&(*preflight)->config);
    stk_free(*preflight);
    *preflight = NULL;
}

int stoke_preflight_at(const stoke_preflight *preflight, size_t index, stoke_preflight_line *line)
{
    if (index >= preflight->list.n) return 0;
    *line = preflight->list.line[index];
    return 1;
}

size_t stoke_preflight_count(const stoke_preflight *preflight, int verdict)
{
    size_t n = 0;
    for (size_t i = 0; i < preflight->list.n; i++) n += preflight->list.line[i].verdict == verdict;
    return n;
}

const char *stoke_preflight_no_card(const stoke_preflight *preflight)
{
    return preflight->no_card;
}

stoke_engine stoke_preflight_engine(const stoke_preflight *preflight)
{
    return preflight->config.engine;
}

const char *stoke_preflight_dialect(const stoke_preflight *preflight)
{
    return preflight->config.dialect;
}
