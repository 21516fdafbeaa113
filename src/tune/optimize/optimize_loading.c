/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading: workers by the cores of the machine that trains, and what else keeps batches coming.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/error.h"
#include "src/base/number.h"
#include "src/base/words.h"
#include "src/settings/keys.h"
#include "src/tune/decide/decide.h"
#include "src/tune/optimize/optimize.h"

/* ---- workers ---- */

static const char *workers_effect(const stk_optimize_key *f, int64_t wanted)
{
    return f->number > wanted ? "workers no longer take cores from each other and the trainer"
                              : "batches are made while the device computes";
}

/* What `stoke diagnose` found best on this machine is better than a table and a rule about cores. */
static int measured_workers(stoke_optimization *o, const stk_optimize_key *f, int64_t *after,
                            stoke_error *err)
{
    const int64_t wanted = o->params.measured_workers;
    char to[32];
    snprintf(to, sizeof to, "%lld", (long long)wanted);
    *after = wanted;
    if (f->is_number && f->number == wanted) return stk_optimize_right(o, f);
    const size_t before = o->n_changes;
    const stk_optimize_reason because = { "what `stoke diagnose` found best for these files on this machine",
                                          workers_effect(f, wanted), STOKE_SOURCE_MEASURED };
    const int r = stk_optimize_change(o, f, to, because, err);
    if (o->n_changes == before) *after = f->is_number ? f->number : 0;
    return r;
}

/* 1: they stay as they are, and a remark says why. */
static int workers_stay(stoke_optimization *o, const stk_optimize_key *f)
{
    const int own = o->framework == STOKE_FRAMEWORK_STOKE;
    if (own && !strcmp(f->text, "auto")) {
        stk_optimize_right(o, f);
        return 1;
    }
    if (f->exists && !f->is_number && !stk_is_off(f->text)) {
        long long low, high;
        int end = 0;
        const int range = sscanf(f->text, "%9lld - %9lld%n", &low, &high, &end) == 2 && !f->text[end];
        stk_remark(&o->remarks, "%s: %s is %s and is left", f->path, f->text,
                   range ? "a range" : "no number");
        return 1;
    }
    if (own || o->cores_source) return 0;
    if (stk_is_off(f->text)) return 0; /* any are better than none: the usual number */
    stk_remark(&o->remarks,
               "%s%s%s is left: the card is in another machine, and how many cores that has is not "
               "known here; with them said (cores) it becomes two thirds of them",
               f->path, *f->text ? ": " : "", f->text);
    return 1;
}

/* Workers there will be afterwards: persistent_workers and prefetch_factor depend on it. *known = 0: some,
 * how many is not said by a number. */
static int workers(stoke_optimization *o, int64_t *after, int *known, stoke_error *err)
{
    stk_optimize_key f;
    int r = stk_optimize_look(o, "num_workers", &f, err);
    if (r || f.none) return r;
    if (o->params.measured_workers) return measured_workers(o, &f, after, err);
    const int own = o->framework == STOKE_FRAMEWORK_STOKE;
    const stoke_recommendation *line = stk_optimize_advised(o, "num_workers");
    *after = f.is_number ? f.number : own || !stk_is_off(f.text) ? 1 : 0; /* "auto" will be some */
    if (workers_stay(o, &f)) {
        *known = f.is_number;
        return STOKE_OK;
    }
    const int64_t most =
        o->cores_source || own ? stk_decide_workers_most(o->params.cores, o->params.ranks, 0) : INT64_MAX;
    int64_t wanted = 1;
    if (!line || !stk_parse_int(line->value, &wanted)) return STOKE_OK;
    if (f.is_number && f.number >= wanted && f.number <= most) return stk_optimize_right(o, &f);
    char why[256], share[48] = "";
    if (o->params.ranks > 1) snprintf(share, sizeof share, " for %u processes", (unsigned)o->params.ranks);
    if (f.is_number && f.number > most)
        snprintf(why, sizeof why, "%u core%s%s%s: more than %lld take cores from each other and the trainer",
                 o->params.cores, o->params.cores == 1 ? "" : "s",
                 o->cores_source == STOKE_SOURCE_GIVEN ? " given" : " usable here", share, (long long)most);
    else
        snprintf(why, sizeof why, "%.255s", line->why);
    const size_t before = o->n_changes;
    const int source = f.is_number && f.number > most ? o->cores_source : line->source;
    r = stk_optimize_change(o, &f, own ? "auto" : line->value,
                            (stk_optimize_reason){ why, workers_effect(&f, wanted), source }, err);
    if (!r && o->n_changes > before) *after = own ? 1 : wanted;
    return r;
}

/* ---- workers of validation ---- */

/* "validation_ds.num_workers", "data.val_num_workers". */
static int is_validating(const char *path)
{
    for (const char *key = path; key; key = strchr(key, '.') ? strchr(key, '.') + 1 : NULL)
        if (!strncasecmp(key, "val", 3) || !strncasecmp(key, "eval_", 5) ||
            !strcasecmp(key, "num_workers_val"))
            return 1;
    return 0;
}

/* One that stands at the path, or is merged into its section. */
static int halve(stoke_optimization *o, const char *path, const char *text, int64_t n_workers,
                 stoke_error *err)
{
    const int64_t half = n_workers > 1 ? n_workers / 2 : n_workers;
    stk_optimize_key f = { .setting = "num_workers", .path = path, .exists = 1, .text = text };
    char to[32], why[128];
    f.is_number = stk_parse_int(f.text, &f.number);
    if (!f.is_number || f.number == half || (f.number > half && f.number < n_workers)) return STOKE_OK;
    snprintf(to, sizeof to, "%lld", (long long)half);
    snprintf(why, sizeof why, "half of the %lld that training has: those wait while it validates",
             (long long)n_workers);
    const stk_optimize_reason because = { why,
                                          f.number > half ? "processes and their memory are saved"
                                                          : "validation no longer waits for every picture",
                                          STOKE_SOURCE_TABLE };
    return stk_optimize_change(o, &f, to, because, err);
}

typedef struct halving {
    stoke_optimization *o;
    int64_t n_workers;
    stoke_error *err;
} halving;

/* A section of validation that has its workers by a merge (<<). */
static int halve_merged(void *context, const char *path, const stoke_yaml_value *value)
{
    const halving *h = context;
    if (!stk_is_one_of(stk_last_key(path), "num_workers workers n_workers NUM_WORKERS") ||
        !is_validating(path))
        return STOKE_OK;
    const char *kept = stk_yaml_keep(h->o->yaml, path, strlen(path));
    return kept ? halve(h->o, kept, value->text, h->n_workers, h->err)
                : stk_yaml_no_memory(h->o->yaml, h->err);
}

static int validation(stoke_optimization *o, int64_t n_workers, stoke_error *err)
{
    static const char names[] = "num_workers workers n_workers val_num_workers num_workers_val val_workers "
                                "workers_per_gpu eval_num_workers";
    const char *path;
    stoke_yaml_value value;
    int r = STOKE_OK;
    if (n_workers < 1 || o->framework == STOKE_FRAMEWORK_STOKE) return r;
    for (size_t i = 0; !r && stoke_yaml_at(o->yaml, i, &path, &value); i++)
        if (stk_is_one_of_any_case(stk_last_key(path), names) && is_validating(path))
            r = halve(o, path, value.text, n_workers, err);
    return r ? r : stoke_yaml_merged(o->yaml, halve_merged, &(halving){ o, n_workers, err });
}

/* ---- with workers, and without ---- */

/* PyTorch raises an error for both when there are no workers. */
static int without_workers(stoke_optimization *o, stoke_error *err)
{
    static const char *const settings[] = { "persistent_workers", "prefetch_factor" };
    int r = STOKE_OK;
    for (int i = 0; !r && i < 2; i++) {
        stk_optimize_key f;
        r = stk_optimize_look(o, settings[i], &f, err);
        if (r || f.none || !f.exists || stk_is_off(f.text)) continue;
        const stk_optimize_reason because = { "without workers PyTorch refuses it", "the loader starts",
                                              STOKE_SOURCE_TABLE };
        r = stk_optimize_change(o, &f, i ? "null" : "false", because, err);
    }
    return r;
}

static int prefetch(stoke_optimization *o, stoke_error *err)
{
    stk_optimize_key f;
    const int own = o->framework == STOKE_FRAMEWORK_STOKE;
    const stoke_recommendation *line = own ? NULL : stk_optimize_advised(o, "prefetch_factor");
    int64_t wanted = 2; /* ours counts batches in all, PyTorch's those of each worker */
    const int r = stk_optimize_look(o, "prefetch_factor", &f, err);
    if (r || f.none || (own && !f.exists) || (line && !stk_parse_int(line->value, &wanted))) return r;
    if (f.exists && !f.is_number && !stk_is_off(f.text))
        return stk_remark(&o->remarks, "%s: %s is no number and is left", f.path, f.text);
    if (f.is_number && f.number >= wanted) return stk_optimize_right(o, &f);
    const stk_optimize_reason because = { line ? line->why : "a batch is ready while another is in use",
                                          "slow samples are evened out; costs host memory, a batch each",
                                          STOKE_SOURCE_TABLE };
    return stk_optimize_change(o, &f, line ? line->value : "2", because, err);
}

/* ---- copies ---- */

/* Whether a switch is on, or will be by a change that was planned. */
static int will_be_on(const stoke_optimization *o, const char *setting)
{
    stk_optimize_key f;
    for (size_t i = 0; i < o->n_changes; i++)
        if (!strcmp(o->changes[i].setting, setting)) return stk_is_on(o->changes[i].to);
    return !stk_optimize_look(o, setting, &f, NULL) && stk_is_on(f.text);
}

/* Where the file knows the word, or has sections of somebody's own trainer. */
static int switch_on_known(stoke_optimization *o, const char *setting, stk_optimize_reason because,
                           stoke_error *err)
{
    stk_optimize_key f;
    const int r = stk_optimize_look(o, setting, &f, err);
    if (r || f.none || (!f.exists && o->dialect != STOKE_DIALECT_SECTIONS)) return r;
    return stk_optimize_switch_on(o, setting, because, err);
}

/* non_blocking frees the host alone: what hides copies from the device is a second stream. Both need
 * pinned memory; where that is not to be had they would promise what they cannot keep. */
static int copies(stoke_optimization *o, stoke_error *err)
{
    static const stk_optimize_reason
        own = { "copies on a stream of their own run while the device computes",
                "the time of copies hides behind that of steps", STOKE_SOURCE_TABLE },
        free_host = { "the loop waits for every copy otherwise; needs pinned memory "
                      "(pin_memory)",
                      "the loop goes on while a batch crosses; the card still waits for it",
                      STOKE_SOURCE_TABLE },
        ahead = { "copies on the stream of the steps never overlap with them, non_blocking "
                  "or not",
                  "copies hide behind computing, if the loop copies the next batch on a second "
                  "stream; stokehold's loader does so by itself",
                  STOKE_SOURCE_TABLE };
    stk_optimize_key f;
    if (o->framework == STOKE_FRAMEWORK_STOKE) {
        const int r = stk_optimize_look(o, "device_prefetch", &f, err);
        if (r || !f.exists) return r;
        if (stk_is_one_of_any_case(f.text, "pinned pageable"))
            return stk_optimize_change(o, &f, "stream", own, err);
        return stk_optimize_right(o, &f);
    }
    if (o->place == STK_ON_PROCESSOR || !will_be_on(o, "pin_memory")) return STOKE_OK;
    const int r = switch_on_known(o, "non_blocking", free_host, err);
    return r ? r : switch_on_known(o, "device_prefetch", ahead, err);
}

int stk_optimize_loading(stoke_optimization *o, stoke_error *err)
{
    static const stk_optimize_reason pinned = {
        "copies from pinned memory need no second copy by the driver",
        "faster copies, and such that can run while the card computes", STOKE_SOURCE_TABLE
    };
    static const stk_optimize_reason persistent = { "workers are started again at every epoch otherwise",
                                                    "no pause between epochs", STOKE_SOURCE_TABLE };
    int64_t n_workers = 0;
    int known = 1;
    stk_optimize_key f;
    int r = stk_optimize_look(o, "num_workers", &f, err);
    if (r) return r;
    if (f.none && o->framework == STOKE_FRAMEWORK_LIGHTNING)
        return stk_remark(&o->remarks, "nothing of loading is in the file, and Trainer takes nothing of it: "
                                       "num_workers, pin_memory, persistent_workers and prefetch_factor are "
                                       "arguments of your DataLoader");
    r = workers(o, &n_workers, &known, err);
    if (!r && known) r = validation(o, n_workers, err);
    if (!r && o->place != STK_ON_PROCESSOR) r = stk_optimize_switch_on(o, "pin_memory", pinned, err);
    if (!r) r = copies(o, err);
    if (r) return r;
    if (n_workers <= 0 && o->framework != STOKE_FRAMEWORK_STOKE) return without_workers(o, err);
    r = stk_optimize_switch_on(o, "persistent_workers", persistent, err);
    return r ? r : prefetch(o, err);
}
