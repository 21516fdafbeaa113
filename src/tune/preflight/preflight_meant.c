/* SPDX-License-Identifier: Apache-2.0
 *
 * The card that is meant where it is in another machine: what the tables know of it by its name, or its
 * memory alone.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/number.h"
#include "src/base/terminal.h"
#include "src/settings/keys.h"
#include "src/tune/advice/advice_tables.h"
#include "src/tune/decide/decide.h"
#include "src/tune/machine/tree.h"
#include "src/tune/preflight/preflight.h"

/* One of those seen here that has the name; -1: none. */
static int seen_here(stk_preflight_surroundings *here, stoke_gpus *gpus, const stk_gpu *gpu)
{
    for (size_t i = 0; gpu && i < here->n_gpus; i++) {
        stoke_gpus_read(gpus, i, &here->gpu);
        if (!here->gpu.lost && stk_gpu_named(here->gpu.name).gpu == gpu) return (int)i;
    }
    return -1;
}

int stk_find_meant(stk_preflight_surroundings *here, stoke_gpus *gpus, const stoke_preflight_params *p,
                   stoke_error *err)
{
    const stk_gpu_name name = p->card ? stk_gpu_named(p->card) : (stk_gpu_name){ 0 };
    if (p->card && !name.gpu && !name.gb && !p->card_memory)
        return stk_fail(err, STOKE_E_INVALID,
                        "no card is known as '%.80s'%s%s%s (`--vram` with its memory will do, too)", p->card,
                        name.nearest ? ": did you mean " : "", name.nearest ? name.nearest : "",
                        name.nearest ? "?" : "");
    const int seen = p->card_memory ? -1 : seen_here(here, gpus, name.gpu);
    if (seen >= 0) {
        here->index = (size_t)seen;
        return STOKE_OK;
    }
    const uint32_t gb = name.gb ? name.gb : name.gpu ? name.gpu->gb : 0;
    const uint64_t memory = p->card_memory ? p->card_memory : (uint64_t)gb << 30;
    stoke_gpu *gpu = &here->gpu;
    *gpu = (stoke_gpu){ 0 };
    here->n_gpus = 0;
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

/* Cards of "0,1", and of a list; 0: it is one number, which counts them, or a word. */
static int64_t listed(const stoke_yaml *yaml, uint32_t node, const char *text)
{
    int64_t n = 1;
    if (yaml->nodes[node].kind != STK_YAML_SEQUENCE && !strchr(text, ',')) return 0;
    for (; (text = strchr(text, ',')); text++) n++;
    return n;
}

int64_t stk_cards_asked(const stoke_yaml *yaml, char said[32])
{
    const char *text;
    char room[64];
    uint32_t node;
    int64_t n = 0;
    *said = 0;
    if (stk_setting_node(yaml, stk_setting_named("devices"), NULL, &node, NULL) || node == STK_YAML_NONE ||
        !(text = stk_value_text(yaml, node, room, sizeof room)))
        return 0;
    snprintf(said, 32, "%.31s", text);
    if (!strcmp(text, "-1") || !strcasecmp(text, "auto") || !strcasecmp(text, "all")) return -1;
    const int64_t in_list = listed(yaml, node, text);
    if (in_list) return in_list;
    return stk_parse_int(text, &n) && n > 0 && n <= 1024 ? n : 0;
}

void stk_resolve_ranks(stk_run_config *config, stk_preflight_surroundings *here, const char *file)
{
    stoke_yaml *yaml;
    if (!file || config->engine != STOKE_ENGINE_TORCH || config->ranks > 1) return;
    if (stoke_yaml_open(&yaml, file, NULL)) return;
    const int64_t n = stk_cards_asked(yaml, here->devices);
    if (n < 0 && here->n_gpus) config->ranks = (int64_t)here->n_gpus;
    if (n > 0) config->ranks = n;
    stoke_yaml_close(&yaml);
}
