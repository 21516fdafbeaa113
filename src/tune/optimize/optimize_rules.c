/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules: what the documents' defaults (O) and tables (O5) make of the settings a file has. A value that
 * is right already is left, with a remark. What changes the experiment (the model's size) is left unless
 * asked for, and the learning rate always. Effects are said in words: a figure needs a measurement.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <math.h>

#include "src/base/error.h"
#include "src/base/number.h"
#include "src/tune/optimize/optimize.h"
#include "src/tune/yaml/yaml_tree.h"

/* What the file says of one setting. */
typedef struct found {
    const char *setting, *path;
    int exists, none; /* none: this dialect has no such setting */
    const char *text; /* "" = there is none */
    int64_t number;
    int is_number;
} found;

typedef struct reason {
    const char *why, *effect;
    int source;
} reason;

static STOKE_PRINTF(2, 3) void remark(stoke_optimization *o, const char *format, ...)
{
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *kept = o->n_remarks < STK_REMARKS ? stk_yaml_keep(o->yaml, text, strlen(text)) : NULL;
    if (kept) o->remarks[o->n_remarks++] = kept;
}

/* ---- reading ---- */

/* Several candidates end it all: nothing is changed on a guess. */
static int look(const stoke_optimization *o, const char *setting, found *f, stoke_error *err)
{
    stoke_yaml_value value;
    *f = (found){ .setting = setting, .text = "" };
    const int r = stoke_config_find(o->yaml, setting, o->params.map, &f->path, &f->exists, err);
    f->none = r == STOKE_E_NOTFOUND && o->dialect == STOKE_DIALECT_OWN;
    if (r) return f->none ? STOKE_OK : r;
    if (f->exists && stoke_yaml_get(o->yaml, f->path, &value)) f->text = value.text;
    f->is_number = stk_parse_int(f->text, &f->number);
    return STOKE_OK;
}

static int is_word(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strcasecmp(text, *words)) return 1;
    return 0;
}

static int is_on(const char *text)
{
    static const char *const words[] = { "true", "yes", "on", "1", NULL };
    return is_word(text, words);
}

static int is_off(const char *text)
{
    static const char *const words[] = { "false", "no", "off", "0", "0.0", "null", "none", "~", "", NULL };
    return is_word(text, words);
}

static const stoke_recommendation *advised(const stoke_optimization *o, const char *key)
{
    for (size_t i = 0; i < o->advice.n; i++)
        if (!strcmp(o->advice.line[i].key, key)) return &o->advice.line[i];
    return NULL;
}

static int64_t advised_number(const stoke_optimization *o, const char *key, int64_t otherwise)
{
    const stoke_recommendation *line = advised(o, key);
    int64_t number;
    return line && stk_parse_int(line->value, &number) ? number : otherwise;
}

/* ---- deciding ---- */

/* Plans the change. One that cannot be made safely becomes a remark, with its line and reason. */
static int change(stoke_optimization *o, const found *f, const char *to, reason because, stoke_error *err)
{
    stoke_error refusal = { 0 };
    if (o->n_changes == STK_CHANGES || strlen(f->path) >= sizeof o->changes[0].path) {
        remark(o, "%s is left as it is: its path is too long to show", f->setting);
        return STOKE_OK;
    }
    const int r = stoke_yaml_set(o->yaml, f->path, to, &refusal);
    if (r == STOKE_E_UNSUPPORTED || r == STOKE_E_NOTFOUND) {
        remark(o, "%s; wanted was %s: %s", refusal.message, f->setting, to);
        return STOKE_OK;
    }
    if (r) return stk_fail(err, r, "%s", refusal.message);
    stoke_change *c = &o->changes[o->n_changes++];
    *c = (stoke_change){ .setting = f->setting, .source = because.source };
    snprintf(c->path, sizeof c->path, "%s", f->path);
    snprintf(c->from, sizeof c->from, "%.127s", f->exists ? *f->text ? f->text : "(nothing)" : "");
    snprintf(c->to, sizeof c->to, "%s", to);
    snprintf(c->why, sizeof c->why, "%s", because.why);
    snprintf(c->effect, sizeof c->effect, "%s", because.effect);
    return STOKE_OK;
}

static void right_already(stoke_optimization *o, const found *f)
{
    remark(o, "%s: %s is right already", f->path, f->text);
}

/* A switch that should be on. */
static int switch_on(stoke_optimization *o, const char *setting, reason because, stoke_error *err)
{
    found f;
    const int r = look(o, setting, &f, err);
    if (r || f.none) return r;
    if (is_on(f.text)) {
        right_already(o, &f);
        return STOKE_OK;
    }
    if (f.exists && !is_off(f.text)) {
        remark(o, "%s: %s is neither on nor off; it is left as it is", f.path, f.text);
        return STOKE_OK;
    }
    return change(o, &f, "true", because, err);
}

/* ---- batch, and the learning rate that depends on it ---- */

/* By how much the batch grows changes the step that is right, but which rule holds depends on the optimiser
 * and the data: said, never done. */
static void learning_rate(stoke_optimization *o, int64_t from, int64_t to)
{
    found f;
    char room[64];
    double lr;
    if (look(o, "learning_rate", &f, NULL) || !f.exists || !stk_parse_real(f.text, &lr) || lr <= 0) return;
    if (o->dialect != STOKE_DIALECT_OWN && stk_yaml_number(f.text, room) != f.text)
        remark(o, "%s: PyYAML reads %s as a text, not a number; write %s", f.path, f.text, room);
    if (from <= 0 || from == to) return;
    const double factor = (double)to / (double)from;
    remark(
        o,
        "%s: %s is kept. For a batch %.3g times as large the linear rule (SGD) would give %.3g, the square "
        "root rule (Adam) %.3g; `stoke find-lr` measures one",
        f.path, f.text, factor, lr * factor, lr * sqrt(factor));
}

static void effective_batch(stoke_optimization *o, int64_t batch)
{
    found f;
    if (look(o, "accumulate", &f, NULL) || !f.is_number || f.number < 2) return;
    remark(o,
           "%s: %lld batches make a step, so a step now sees %lld samples; divide it to keep the old number",
           f.path, (long long)f.number, (long long)(f.number * batch));
}

/* Trials know more than tables: theirs is taken, upwards and downwards. */
static int measured_batch(stoke_optimization *o, const found *f, stoke_error *err)
{
    const int64_t wanted = o->params.measured_batch, largest = o->params.measured_largest;
    char to[32], why[256], effect[256];
    if (f->is_number && f->number == wanted) {
        remark(o, "%s: %s is right already, by trials: %s", f->path, f->text,
               o->params.measured_why ? o->params.measured_why : "");
        learning_rate(o, 0, 0);
        return STOKE_OK;
    }
    snprintf(to, sizeof to, "%lld", (long long)wanted);
    snprintf(why, sizeof why, "found by trials: %.230s",
             o->params.measured_why ? o->params.measured_why : "");
    if (f->is_number && f->number > largest)
        snprintf(effect, sizeof effect, "it fits: of %.20s samples a batch, %lld are the most that do",
                 f->text, (long long)largest);
    else
        snprintf(effect, sizeof effect, "%s",
                 f->is_number && f->number > wanted ? "about the same throughput with less memory"
                                                    : "fewer, larger steps; fixed costs per step weigh less");
    const size_t before = o->n_changes;
    const int r = change(o, f, to, (reason){ why, effect, o->params.measured_source }, err);
    if (r || o->n_changes == before) return r;
    learning_rate(o, f->is_number ? f->number : 0, wanted);
    effective_batch(o, wanted);
    return STOKE_OK;
}

static int batch(stoke_optimization *o, stoke_error *err)
{
    found f;
    const int r = look(o, "batch_size", &f, err);
    if (!r && o->params.measured_batch) return measured_batch(o, &f, err);
    const stoke_recommendation *line = advised(o, "batch_size");
    const int64_t wanted = advised_number(o, "batch_size", 0);
    if (r || !line || wanted <= 0) return r;
    if (!f.exists) {
        remark(o, "batch_size is not in the file under any name known; --map batch_size=PATH names it");
        return STOKE_OK;
    }
    if ((o->dialect == STOKE_DIALECT_OWN && !strcmp(f.text, "auto")) || (f.is_number && f.number == wanted)) {
        right_already(o, &f);
        learning_rate(o, 0, 0);
        return STOKE_OK;
    }
    if (f.is_number && f.number > wanted) {
        remark(
            o,
            "%s: %s is more than the %lld of the table and is left; `stoke estimate` tells whether it fits",
            f.path, f.text, (long long)wanted);
        learning_rate(o, 0, 0);
        return STOKE_OK;
    }
    char why[256];
    snprintf(why, sizeof why, "%s%.220s", f.is_number ? "" : "it is no number; ", line->why);
    const reason because = { why, "fewer, larger steps; fixed costs per step weigh less", line->source };
    const size_t before = o->n_changes;
    const int done = change(o, &f, line->value, because, err);
    if (done || o->n_changes == before) return done;
    learning_rate(o, f.is_number ? f.number : 0, wanted);
    effective_batch(o, wanted);
    return STOKE_OK;
}

/* ---- loading ---- */

/* What `stoke diagnose` found best on this machine is better than a table and a rule about cores. */
static int measured_workers(stoke_optimization *o, const found *f, int64_t *after, stoke_error *err)
{
    const int64_t wanted = o->params.measured_workers;
    char to[32];
    snprintf(to, sizeof to, "%lld", (long long)wanted);
    *after = wanted;
    if (f->is_number && f->number == wanted) {
        right_already(o, f);
        return STOKE_OK;
    }
    const size_t before = o->n_changes;
    const reason because = { "what `stoke diagnose` found best for these files on this machine",
                             f->number > wanted
                                 ? "workers no longer take cores from each other and the trainer"
                                 : "batches are made while the device computes",
                             STOKE_SOURCE_MEASURED };
    const int r = change(o, f, to, because, err);
    if (o->n_changes == before) *after = f->is_number ? f->number : 0;
    return r;
}

/* Workers there will be afterwards: persistent_workers and prefetch_factor depend on it. */
static int workers(stoke_optimization *o, int64_t *after, stoke_error *err)
{
    found f;
    int r = look(o, "num_workers", &f, err);
    if (r) return r;
    if (o->params.measured_workers) return measured_workers(o, &f, after, err);
    const int64_t share = o->params.cores / o->params.ranks, most = share > 1 ? share - 1 : 0;
    const stoke_recommendation *line = advised(o, "num_workers");
    const int64_t table = advised_number(o, "num_workers", 8), wanted = table < most ? table : most;
    const int own = o->dialect == STOKE_DIALECT_OWN;
    *after = f.is_number ? f.number : own ? 1 : 0;
    if ((own && !strcmp(f.text, "auto")) || (f.is_number && f.number >= wanted && f.number <= most)) {
        right_already(o, &f);
        return STOKE_OK;
    }
    char to[32], why[256];
    snprintf(to, sizeof to, "%lld", (long long)wanted);
    if (f.is_number && f.number > most)
        snprintf(why, sizeof why,
                 "%u usable cores shared by %u: at most %lld workers, one core stays for the "
                 "trainer",
                 o->params.cores, o->params.ranks, (long long)most);
    else
        snprintf(why, sizeof why, "%.255s",
                 line ? line->why : "the documents' 8, cut to the usable cores less one");
    const size_t before = o->n_changes;
    const char *effect = !wanted             ? "loading and computing take turns on the only core"
                         : f.number > wanted ? "workers no longer take cores from each other and the trainer"
                                             : "batches are made while the device computes";
    r = change(o, &f, own ? "auto" : to, (reason){ why, effect, line ? line->source : STOKE_SOURCE_TABLE },
               err);
    if (!r && o->n_changes > before) *after = own ? 1 : wanted;
    return r;
}

/* PyTorch raises an error for both when there are no workers. */
static int without_workers(stoke_optimization *o, stoke_error *err)
{
    static const char *const settings[] = { "persistent_workers", "prefetch_factor" };
    int r = STOKE_OK;
    for (int i = 0; !r && i < 2; i++) {
        found f;
        r = look(o, settings[i], &f, err);
        if (r || f.none || !f.exists || is_off(f.text)) continue;
        const reason because = { "without workers PyTorch refuses it", "the loader starts",
                                 STOKE_SOURCE_TABLE };
        r = change(o, &f, i ? "null" : "false", because, err);
    }
    return r;
}

static int prefetch(stoke_optimization *o, stoke_error *err)
{
    found f;
    const int own = o->dialect == STOKE_DIALECT_OWN;
    const int64_t wanted = own ? 2 : 4; /* ours counts batches in all, PyTorch's those of each worker */
    const int r = look(o, "prefetch_factor", &f, err);
    if (r || f.none || (own && !f.exists)) return r;
    if (f.is_number && f.number >= wanted) {
        right_already(o, &f);
        return STOKE_OK;
    }
    const reason because = { own ? "a batch is ready while another is in use"
                                 : "the documents' default; 2 is PyTorch's",
                             "slow samples are evened out; costs host memory, a batch each",
                             STOKE_SOURCE_TABLE };
    return change(o, &f, own ? "2" : "4", because, err);
}

/* Whether a switch is on, or will be by a change that was planned. */
static int will_be_on(const stoke_optimization *o, const char *setting)
{
    found f;
    for (size_t i = 0; i < o->n_changes; i++)
        if (!strcmp(o->changes[i].setting, setting)) return is_on(o->changes[i].to);
    return !look(o, setting, &f, NULL) && is_on(f.text);
}

/* Ours says a word that is the worse one, and has a better one: that is taken. Absent, it is the default. */
static int better_word(stoke_optimization *o, const char *setting, const char *const *worse,
                       const char *better, reason because, stoke_error *err)
{
    found f;
    const int r = look(o, setting, &f, err);
    if (r || !f.exists) return r;
    if (is_word(f.text, worse)) return change(o, &f, better, because, err);
    right_already(o, &f);
    return STOKE_OK;
}

/* Where the file knows the word, or has sections: there the documents' trainer reads it. */
static int switch_on_known(stoke_optimization *o, const char *setting, reason because, stoke_error *err)
{
    found f;
    const int r = look(o, setting, &f, err);
    if (r || f.none || (!f.exists && o->dialect == STOKE_DIALECT_FLAT)) return r;
    return switch_on(o, setting, because, err);
}

/* non_blocking frees the host alone: what hides copies from the device is a stream of their own. Both need
 * page-locked memory; where that is not to be had they would promise what they cannot keep. */
static int copies(stoke_optimization *o, int card, stoke_error *err)
{
    static const char *const slower[] = { "pinned", "pageable", NULL };
    static const reason own = { "copies on a stream of their own run while the device computes",
                                "the time of copies hides behind that of steps", STOKE_SOURCE_TABLE },
                        free_host = { "the loop waits for every copy otherwise; needs page-locked memory "
                                      "(pin_memory)",
                                      "the loop goes on while a batch crosses; the card still waits for it",
                                      STOKE_SOURCE_TABLE },
                        ahead = {
                            "copies on the stream of the steps never overlap with them, non_blocking "
                            "or not",
                            "copies hide behind computing, if the loop copies the next batch on a second "
                            "stream; stokehold's loader does so by itself",
                            STOKE_SOURCE_TABLE
                        };
    if (o->dialect == STOKE_DIALECT_OWN) return better_word(o, "device_prefetch", slower, "stream", own, err);
    if (!card || !will_be_on(o, "pin_memory")) return STOKE_OK;
    const int r = switch_on_known(o, "non_blocking", free_host, err);
    return r ? r : switch_on_known(o, "device_prefetch", ahead, err);
}

static int loading(stoke_optimization *o, int card, stoke_error *err)
{
    static const reason pinned = { "copies from page-locked memory need no second copy by the driver",
                                   "faster copies, and such that can run while the card computes",
                                   STOKE_SOURCE_TABLE };
    static const reason persistent = { "workers are started again at every epoch otherwise",
                                       "no pause between epochs", STOKE_SOURCE_TABLE };
    int64_t n_workers = 0;
    int r = workers(o, &n_workers, err);
    if (!r && card) r = switch_on(o, "pin_memory", pinned, err);
    if (!r) r = copies(o, card, err);
    if (r) return r;
    if (n_workers <= 0 && o->dialect != STOKE_DIALECT_OWN) return without_workers(o, err);
    r = switch_on(o, "persistent_workers", persistent, err);
    return r ? r : prefetch(o, err);
}

/* ---- training ---- */

/* A switch in most files; a word in ours ("fp32") and where it is quoted ("no" of accelerate). */
static int precision(stoke_optimization *o, int card, stoke_error *err)
{
    static const char *const words[] = { "fp16", "bf16", "16", "auto", "16-mixed", "bf16-mixed", NULL };
    static const reason because = {
        "the documents' default: the card multiplies 16-bit numbers faster",
        "less memory for activations, faster steps on cards with tensor cores; weights "
        "stay fp32",
        STOKE_SOURCE_TABLE
    };
    found f;
    const int r = look(o, "mixed_precision", &f, err);
    stoke_yaml_value value = { 0 };
    if (r) return r;
    if (o->dialect == STOKE_DIALECT_OWN) {
        if (!f.exists || strcmp(f.text, "fp32") != 0) return STOKE_OK;
        return change(o, &f, "auto",
                      (reason){ "auto is bf16 where the processor multiplies it by itself",
                                "faster steps there, the same elsewhere", STOKE_SOURCE_TABLE },
                      err);
    }
    if (!card) {
        remark(o, "mixed precision is left as it is: no card is named or found, and a processor gains little "
                  "by it");
        return STOKE_OK;
    }
    if (f.exists) stoke_yaml_get(o->yaml, f.path, &value);
    if (f.exists && is_word(f.text, words)) {
        right_already(o, &f);
        return STOKE_OK;
    }
    if (value.quoted && is_off(f.text)) return change(o, &f, "fp16", because, err);
    return switch_on(o, "mixed_precision", because, err);
}

static int clipping(stoke_optimization *o, stoke_error *err)
{
    found f;
    const int r = look(o, "grad_clip", &f, err);
    if (r) return r;
    if (f.exists && !is_off(f.text)) {
        right_already(o, &f);
        return STOKE_OK;
    }
    const reason because = {
        "the documents' default; larger batches and fp16 make single large gradients likelier",
        "a single bad batch no longer throws training off", STOKE_SOURCE_TABLE
    };
    return change(o, &f, "1.0", because, err);
}

/* Only where the file knows the word: no trainer but the documents' own has this setting. */
static int augmentation(stoke_optimization *o, int card, stoke_error *err)
{
    static const char *const slower[] = { "host", NULL };
    static const reason own = { "auto measures both on the first batches; augmenting on the CPU is the "
                                "documents' first cause of an idle card",
                                "the device augments where that leaves it busier", STOKE_SOURCE_TABLE },
                        theirs = { "augmenting on the CPU is the documents' first cause of an idle card",
                                   "workers decode only; the card does the rest between steps",
                                   STOKE_SOURCE_TABLE };
    found f;
    if (o->dialect == STOKE_DIALECT_OWN) return better_word(o, "gpu_augmentation", slower, "auto", own, err);
    const int r = card ? look(o, "gpu_augmentation", &f, err) : STOKE_OK;
    if (r || !card || (!f.exists && o->dialect != STOKE_DIALECT_SECTIONS)) return r;
    return switch_on(o, "gpu_augmentation", theirs, err);
}

/* A figure that stands there and is small; what a trainer does by default is not known here. */
static int log_interval(stoke_optimization *o, stoke_error *err)
{
    static const reason because = { "to print a loss (loss.item()) the loop waits for the device, here at "
                                    "almost every step",
                                    "the loop runs ahead of the device again; curves have fewer points",
                                    STOKE_SOURCE_TABLE };
    found f;
    const int r = look(o, "log_every", &f, err);
    if (r || !f.is_number || f.number < 1 || f.number >= 10) return r;
    return change(o, &f, o->dialect == STOKE_DIALECT_OWN ? "auto" : "50", because, err);
}

static int training(stoke_optimization *o, int card, stoke_error *err)
{
    static const reason compiled = {
        "the documents' default: fuses small kernels",
        "faster steps on most networks after a slow first one; try it, then measure", STOKE_SOURCE_TABLE
    };
    int r = precision(o, card, err);
    if (!r) r = clipping(o, err);
    const stoke_recommendation *line = advised(o, "compile"); /* old cards gain nothing by it */
    if (!r && card && !(line && is_off(line->value))) r = switch_on(o, "compile", compiled, err);
    if (!r) r = augmentation(o, card, err);
    return r ? r : log_interval(o, err);
}

/* ---- the model ---- */

static int scale(stoke_optimization *o, stoke_error *err)
{
    static const char *const settings[] = { "base_channels", "num_blocks", "patch_size" };
    int r = STOKE_OK;
    for (size_t i = 0; !r && i < sizeof settings / sizeof *settings; i++) {
        const stoke_recommendation *line = advised(o, settings[i]);
        const int64_t wanted = advised_number(o, settings[i], 0);
        found f;
        r = look(o, settings[i], &f, err);
        if (r || !line || !f.exists || !f.is_number || f.number >= wanted) continue;
        if (!o->params.allow_model_scale) {
            remark(o,
                   "%s: %s is left (the table has %s): growing the model keeps the card busier with another "
                   "experiment; --allow-model-scale does it",
                   f.path, f.text, line->value);
            continue;
        }
        const reason because = {
            line->why,
            i == 2 ? "another experiment: the network sees larger patches, results do not compare"
                   : "another experiment: a larger model; checkpoints and results do not compare",
            line->source
        };
        r = change(o, &f, line->value, because, err);
    }
    return r;
}

int stk_optimize_rules(stoke_optimization *o, stoke_error *err)
{
    const int card = o->advice.memory != 0;
    remark(o, "the values are those for %s", o->advice.subject);
    int r = batch(o, err);
    if (!r) r = loading(o, card, err);
    if (!r) r = training(o, card, err);
    if (!r) r = scale(o, err);
    if (!r && *o->advice.remark) remark(o, "%s", o->advice.remark);
    return r;
}
