/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: precision, clipping, compilation, augmentation on the card. Effects are said in words: a figure
 * needs a measurement.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "src/base/number.h"
#include "src/base/words.h"
#include "src/tune/optimize/optimize.h"

/* The size of the network. It keeps the card busier, and changes the experiment: only where asked. */

static int scale(stoke_optimization *o, const char *setting, const char *effect, stoke_error *err)
{
    const stoke_recommendation *line = stk_optimize_advised(o, setting);
    int64_t wanted;
    stk_optimize_key f;
    int r = stk_optimize_look(o, setting, &f, err);
    if (r || !line || !stk_parse_int(line->value, &wanted) || !f.exists || !f.is_number || f.number >= wanted)
        return r;
    if (!o->params.allow_model_scale)
        return stk_remark(&o->remarks,
                          "%s: %s is left (usual are %s): a larger model keeps the card busier and changes the "
                          "experiment; allow_model_scale grows it",
                          f.path, f.text, line->value);
    const size_t before = o->n_changes;
    r = stk_optimize_change(o, &f, line->value, (stk_optimize_reason){ line->why, effect, line->source },
                            err);
    if (r || o->n_changes == before) return r;
    /* The estimate is of the network as it will be. */
    if (!strcmp(setting, "base_channels"))
        o->p.base_channels = (uint32_t)wanted;
    else if (!strcmp(setting, "num_blocks"))
        o->p.num_blocks = (uint32_t)wanted;
    else
        o->p.height = o->p.width = (uint32_t)wanted;
    return STOKE_OK;
}

/* The loss is the experiment, too. */
static int perceptual(stoke_optimization *o, stoke_error *err)
{
    const stoke_recommendation *line = stk_optimize_advised(o, "use_perceptual");
    stk_optimize_key f;
    const int r = stk_optimize_look(o, "use_perceptual", &f, err);
    if (r || !line || !f.exists || (!stk_is_on(f.text) && !stk_is_off(f.text)) ||
        stk_is_on(f.text) == stk_is_on(line->value))
        return r;
    if (!o->params.allow_model_scale)
        return stk_remark(&o->remarks, "%s: %s is left (usual is %s): another loss changes the experiment",
                          f.path, f.text, line->value);
    const stk_optimize_reason because = { line->why,
                                          "this changes the experiment: another loss, results do not compare",
                                          line->source };
    return stk_optimize_change(o, &f, line->value, because, err);
}

/* Growing was asked for, and no card tells how far: those that stand there are named. */
static void say_not_grown(stoke_optimization *o)
{
    static const char *const settings[] = { "base_channels", "num_blocks", "patch_size", "use_perceptual" };
    char list[256] = "";
    stk_optimize_key f;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (!stk_optimize_look(o, settings[i], &f, NULL) && f.exists)
            stk_text_add(list, sizeof list, ", ", "%.60s", f.path);
    if (*list)
        stk_remark(&o->remarks, "%s: left: how large the network may grow depends on the card, and %s", list,
                   o->place == STK_ON_PROCESSOR ? "the file trains on the processor"
                                                : "none is seen or named");
}

int stk_optimize_model(stoke_optimization *o, stoke_error *err)
{
    if (o->params.allow_model_scale && o->place != STK_ON_CARD) say_not_grown(o);
    static const char larger[] =
        "this changes the experiment: a larger model; checkpoints and results do not compare";
    static const char patches[] =
        "this changes the experiment: the network sees larger patches, results do not compare";
    int r = scale(o, "base_channels", larger, err);
    if (!r) r = scale(o, "num_blocks", larger, err);
    if (!r) r = scale(o, "patch_size", patches, err);
    return r ? r : perceptual(o, err);
}

/* ---- precision ---- */

static const stk_optimize_reason HALF = {
    "usual: the card multiplies 16-bit numbers faster",
    "less memory for activations, faster steps on cards with tensor cores; weights stay fp32",
    STOKE_SOURCE_TABLE
};

static const stk_optimize_reason MEMORY = { "it saves memory; this card wins no time by it",
                                            "less memory for activations; weights stay fp32",
                                            STOKE_SOURCE_TABLE };

static const stk_optimize_reason OWN = { "auto is bf16 where the processor multiplies it by itself",
                                         "faster steps there, the same elsewhere", STOKE_SOURCE_TABLE };

/* What the full precision that stands there becomes; NULL: it is none. A switch becomes true. */
static const char *half_of(const stoke_optimization *o, const stk_optimize_key *f, int quoted)
{
    static const struct {
        const char *full, *half;
    } words[] = { { "32", "16" },     { "fp32", "fp16" },        { "float32", "float16" },
                  { "full", "fp16" }, { "32-true", "16-mixed" }, { "torch.float32", "torch.float16" } };
    const int lightning =
        o->framework == STOKE_FRAMEWORK_LIGHTNING && !strcasecmp(stk_last_key(f->path), "precision");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(f->text, words[i].full)) return lightning ? "16-mixed" : words[i].half;
    if (lightning && (!f->exists || stk_is_off(f->text))) return "16-mixed";
    if (!stk_is_off(f->text)) return NULL;
    return quoted ? "fp16" : "true"; /* "no" of accelerate is a word */
}

int stk_optimize_precision(stoke_optimization *o, stoke_error *err)
{
    static const char half[] = "fp16 bf16 16 auto 16-mixed bf16-mixed float16 bfloat16 16-true bf16-true "
                               "torch.float16 torch.bfloat16";
    stk_optimize_key f;
    const char *path;
    stoke_yaml_value value = { 0 }, other;
    const int r = stk_optimize_look(o, "mixed_precision", &f, err);
    if (r || f.none) return r;
    if (o->framework == STOKE_FRAMEWORK_STOKE)
        return f.exists && !strcmp(f.text, "fp32") ? stk_optimize_change(o, &f, "auto", OWN, err) : STOKE_OK;
    if (o->place == STK_ON_PROCESSOR)
        return stk_remark(&o->remarks,
                          "mixed precision is left as it is: the file trains on the processor, which "
                          "gains little by it");
    int is_half = stk_is_one_of_any_case(f.text, half) || stk_is_on(f.text);
    for (size_t i = 0; !is_half && stoke_yaml_at(o->yaml, i, &path, &other); i++) /* of TrainingArguments */
        is_half = !strcasecmp(stk_last_key(path), "bf16") && stk_is_on(other.text);
    if (f.exists) stoke_yaml_get(o->yaml, f.path, &value);
    if (f.exists && is_half) {
        stk_optimize_right(o, &f);
        o->p.precision = STOKE_PRECISION_FP16;
        return STOKE_OK;
    }
    const char *to = half_of(o, &f, value.quoted);
    if (!to) return stk_remark(&o->remarks, "%s: %s is left: it is no precision known here", f.path, f.text);
    const size_t before = o->n_changes;
    const stoke_recommendation *line = stk_optimize_advised(o, "compile"); /* false: the card is too old */
    const int old = line && stk_is_off(line->value);
    const int done = stk_optimize_change(o, &f, to, old ? MEMORY : HALF, err);
    if (o->n_changes > before) o->p.precision = STOKE_PRECISION_FP16;
    return done;
}

/* ---- the rest ---- */

static int clipping(stoke_optimization *o, stoke_error *err)
{
    static const stk_optimize_reason because = {
        "usual; larger batches and fp16 make single large gradients likelier",
        "a single bad batch no longer throws training off", STOKE_SOURCE_TABLE
    };
    stk_optimize_key f;
    const int r = stk_optimize_look(o, "grad_clip", &f, err);
    if (r || f.none) return r;
    if (!stk_is_off(f.text)) return stk_optimize_right(o, &f);
    return stk_optimize_change(o, &f, "1.0", because, err);
}

/* Only where the file knows the word, or has sections of somebody's own trainer. */
static int augmentation(stoke_optimization *o, stoke_error *err)
{
    static const stk_optimize_reason
        own = { "auto measures both on the first batches; augmenting on the CPU is the "
                "first cause of an idle card",
                "the device augments where that leaves it busier", STOKE_SOURCE_TABLE },
        theirs = { "augmenting on the CPU is the first cause of an idle card",
                   "workers decode only; the card does the rest between steps", STOKE_SOURCE_TABLE };
    stk_optimize_key f;
    const int r = stk_optimize_look(o, "gpu_augmentation", &f, err);
    if (r || f.none) return r;
    if (o->framework == STOKE_FRAMEWORK_STOKE) {
        if (!f.exists) return STOKE_OK;
        if (!strcasecmp(f.text, "host")) return stk_optimize_change(o, &f, "auto", own, err);
        return stk_optimize_right(o, &f);
    }
    if (o->place == STK_ON_PROCESSOR || (!f.exists && o->dialect != STOKE_DIALECT_SECTIONS)) return STOKE_OK;
    return stk_optimize_switch_on(o, "gpu_augmentation", theirs, err);
}

/* A figure that stands there and is small; what a trainer does by default is not known here. */
static int log_interval(stoke_optimization *o, stoke_error *err)
{
    static const stk_optimize_reason because = {
        "to print a loss (loss.item()) the loop waits for the device, here "
        "at almost every step",
        "the loop runs ahead of the device again; curves have fewer points", STOKE_SOURCE_TABLE
    };
    stk_optimize_key f;
    const int r = stk_optimize_look(o, "log_every", &f, err);
    if (r || !f.is_number || f.number < 1 || f.number >= 10) return r;
    return stk_optimize_change(o, &f, o->framework == STOKE_FRAMEWORK_STOKE ? "auto" : "50", because, err);
}

int stk_optimize_training(stoke_optimization *o, stoke_error *err)
{
    static const stk_optimize_reason compiled = {
        "usual: fuses small kernels",
        "faster steps on most networks after a slow first one; try it, then measure", STOKE_SOURCE_TABLE
    };
    static const stk_optimize_reason tuned = {
        "pictures of one size let cuDNN time its algorithms once and keep the best",
        "faster convolutions after the first steps, which may take more memory", STOKE_SOURCE_TABLE
    };
    const int card = o->framework != STOKE_FRAMEWORK_STOKE && o->place != STK_ON_PROCESSOR;
    const stoke_recommendation *line = stk_optimize_advised(o, "compile"); /* old cards gain nothing by it */
    int r = clipping(o, err);
    if (!r && card && !(line && stk_is_off(line->value)))
        r = stk_optimize_switch_on(o, "compile", compiled, err);
    if (!r && card && o->framework == STOKE_FRAMEWORK_LIGHTNING)
        r = stk_optimize_switch_on(o, "benchmark", tuned, err);
    if (!r) r = augmentation(o, err);
    return r ? r : log_interval(o, err);
}
