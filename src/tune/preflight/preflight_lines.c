/* SPDX-License-Identifier: Apache-2.0
 *
 * The list: memory and data of any engine here, the card in preflight_card.c, a PyTorch loader's settings in
 * preflight_loading.c.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/remarks.h"
#include "src/tune/decide/decide.h"
#include "src/tune/preflight/preflight.h"
#include <stoke/tools/report.h>
#include <stoke/tools/terminal.h>

static const double SPARE = STK_SPARE_BYTES;

stoke_preflight_line *stk_check_add(stk_preflight_list *list, const char *key, const char *title)
{
    /* The lines there are stand in the functions below and in two files: one too many is seen by the tests.
     */
    if (list->n == sizeof list->line / sizeof *list->line) list->n--;
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
    PUT("--precision %s", stoke_precision_name(config->precision));
    if (config->optimizer != usual.optimizer) PUT("--optimizer sgd");
    if (config->freeze_encoder) PUT("--freeze-encoder");
    if (config->average) PUT("--average");
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
        STK_SAY(line->fix, "name one: stoke check --config %s --model MODEL   b0..b5 or smallnet",
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

static void check_memory(stk_preflight_list *list, const stk_run_config *config,
                         const stk_preflight_surroundings *here)
{
    stoke_preflight_line *line = stk_check_add(list, "memory", "memory");
    const int native = config->engine == STOKE_ENGINE_NATIVE;
    const stoke_figure room = native ? stk_host_free(&here->machine) : stk_card_memory(here);
    const stoke_figure now = here->gpu.memory_free;
    char need[80], have[32], left[32], free_now[64] = "", classes[32] = "";
    stoke_estimate e;
    if (!estimate(&e, line, config)) return;
    stoke_text_memory(room.source ? (uint64_t)room.value : 0, have, sizeof have);
    if (config->classes < 1)
        STK_SAY(classes, ", %" PRIu32 " classes assumed", stoke_estimate_classes(config->model));
    if (!native && !here->meant && room.source && now.source)
        STK_SAY(free_now, ", %s of them free now", stoke_text_memory((uint64_t)now.value, left, sizeof left));
    STK_SAY(line->figure,
            "%s, batch %" PRId64 ", %" PRId64 "x%" PRId64 "%s%s: %s and 1 GiB to spare; %s%s%s%s",
            config->model, config->batch, config->height, config->width,
            config->size_seen ? " as in the set" : "", classes, stk_decide_range(&e, need, sizeof need),
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

/* ---- data ---- */

static void check_set(stk_preflight_list *list, const stk_run_config *config,
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
    if (here->left_out || !here->has_masks) {
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

static void check_disk(stk_preflight_list *list, const stk_run_config *config,
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
static void check_cache(stk_preflight_list *list, const stk_run_config *config,
                        const stk_preflight_surroundings *here)
{
    char all[32], have[32];
    if (!here->data_there || config->epochs == 1) return;
    stoke_preflight_line *line = stk_check_add(list, "page_cache", "data against memory");
    const stoke_figure room = stk_host_free(&here->machine);
    if (!here->data_bytes.source || !room.source) {
        STK_SAY(line->figure, "%s is not known",
                room.source ? "the size of the set" : "the memory that is free");
        return;
    }
    stoke_text_bytes((uint64_t)here->data_bytes.value, all, sizeof all);
    stoke_text_memory((uint64_t)room.value, have, sizeof have);
    line->source = here->data_bytes.source;
    const int stays = here->data_bytes.value <= room.value / 2;
    line->verdict = stays ? STOKE_VERDICT_PASS : STOKE_VERDICT_WARN;
    STK_SAY(line->figure, "%s of files, %s of memory free: %s", all, have,
            stays ? "stays in the page cache" : "is read from the disk in every epoch");
    if (!stays) STK_SAY(line->fix, "stoke pack %s --out shards   or more memory", config->data_name);
}

/* Our own trainer sees to the rest of an epoch itself: there only a batch that is never full is of interest.
 */
static void check_drop_last(stk_preflight_list *list, const stk_run_config *config,
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

void stk_check_data(stk_preflight_list *list, const stk_run_config *config,
                    const stk_preflight_surroundings *here)
{
    check_set(list, config, here);
    check_drop_last(list, config, here);
    check_disk(list, config, here);
    check_cache(list, config, here);
}

void stk_preflight_judge(stk_preflight_list *list, const stk_run_config *config,
                         const stk_preflight_surroundings *here)
{
    list->n = 0;
    if (config->engine == STOKE_ENGINE_TORCH) stk_check_card(list, config, here);
    check_memory(list, config, here);
    stk_check_loading(list, config, here);
    if (!here->meant) stk_check_machine(list, config, here);
    stk_check_data(list, config, here);
}
