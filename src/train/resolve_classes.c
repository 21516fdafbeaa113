/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes: how many, what the values in the masks mean (src/source/mask_rules.h says that), their names and
 * weights.
 */
#include "src/train/resolve.h"

#include <stdio.h>
#include <string.h>

#include <stoke/tools/labels.h>
#include <stoke/metrics.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/number.h"
#include "src/source/mask_rules.h"
#include "src/source/labels.h"
#include "src/source/quarantine.h"
#include "src/source/reader.h"
#include <stoke/tools/terminal.h>

enum {
    MASKS_MOST = 4096, /* read of each set: 0.75 ms each for 512 x 512 PNG, so 3 s on one core */
    MASKS_GLANCE = 64, /* where the classes are given, to notice the usual slip */
    WEIGHT_MOST = 50   /* times the mean: as the weights of ENet, 1 / ln(1.02 + share), are bounded */
};

/* ---- weights ---- */

/* Pixels of each class in the masks of training. */
static int count_classes(const stk_resolve_ctx *s, const stk_resolve_survey *survey, int raw, double *pixels)
{
    const stk_setup *setup = s->setup;
    const uint32_t classes = (uint32_t)setup->train.classes;
    stoke_labels *labels = NULL;
    int r = raw ? stk_labels_of(&labels, &setup->train, s->err) : STOKE_OK;
    for (uint32_t v = 0; !r && v < STK_TALLY_IDS; v++) {
        if (!survey->train->pixels[v]) continue;
        uint16_t value = (uint16_t)v, id = value;
        if (raw) { /* a mask of one pixel */
            stoke_image mask = { &value, 2, 1, 1, 1, 2 };
            stoke_image out = { &id, 2, 1, 1, 1, stoke_labels_depth(labels) };
            if (stoke_labels_apply(labels, &mask, &out, NULL)) continue;
            if (out.depth == 1) id = *(const uint8_t *)out.data;
        }
        if (id < classes && (int64_t)id != setup->train.ignore_index)
            pixels[id] += (double)survey->train->pixels[v];
    }
    stoke_labels_destroy(&labels);
    return r;
}

/* The list as text with six digits, and the weights that this text means: a repeated run has the same. */
static int keep_weights(stk_resolve_ctx *s, const double *weights, uint32_t n)
{
    stk_setup *setup = s->setup;
    const size_t size = (size_t)n * 16 + 1;
    char *text = stk_alloc(size);
    setup->class_weights = stk_calloc(n, sizeof *setup->class_weights);
    if (!text || !setup->class_weights) {
        stk_free(text);
        return stk_fail(s->err, STOKE_E_NOMEM, "no memory for the weights of classes");
    }
    size_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        char number[STK_REAL_TEXT];
        const double scale = weights[i] >= 1 ? 1e4 : 1e6;
        const double value = (double)(int64_t)(weights[i] * scale + 0.5) / scale;
        used += (size_t)snprintf(text + used, size - used, "%s%.13s", i ? "," : "",
                                 stk_format_real(value, number));
        setup->class_weights[i] = (float)value;
    }
    setup->params.class_weights = stk_resolve_keep(s, text);
    stk_free(text);
    return setup->params.class_weights ? STOKE_OK : STOKE_E_NOMEM;
}

/* All pixels / (classes that occur x pixels of the class), as scikit-learn's "balanced". */
static int balance(stk_resolve_ctx *s, const stk_resolve_survey *survey, int raw)
{
    const uint32_t n = (uint32_t)s->setup->train.classes;
    double *pixels = stk_calloc(n, sizeof *pixels), all = 0, least = WEIGHT_MOST, most = 0;
    uint32_t occur = 0;
    if (!pixels) return stk_fail(s->err, STOKE_E_NOMEM, "no memory for the weights of classes");
    int r = count_classes(s, survey, raw, pixels);
    for (uint32_t i = 0; i < n; i++) all += pixels[i], occur += pixels[i] > 0;
    for (uint32_t i = 0; i < n; i++) {
        double *weight = &pixels[i];
        *weight = *weight > 0 ? all / (occur * *weight) : 1; /* 1: never asked for */
        if (*weight > WEIGHT_MOST) *weight = WEIGHT_MOST;
        if (*weight < least) least = *weight;
        if (*weight > most) most = *weight;
    }
    if (!r && !occur) r = stk_fail(s->err, STOKE_E_LABEL, "class_weights balanced: no mask has a class");
    if (!r) r = keep_weights(s, pixels, n);
    stk_free(pixels);
    if (!r)
        stk_resolve_say(s, "Classes are weighted by how rare they are, from %.3g to %.3g (`class_weights`).",
                        least, most);
    return r;
}

/* "1,2.5,1": as many as there are classes. */
static int read_weights(const stk_resolve_ctx *s, const char *text)
{
    stk_setup *setup = s->setup;
    const uint32_t n = setup->classes;
    uint32_t i = 0;
    double sum = 0;
    setup->class_weights = stk_calloc(n, sizeof *setup->class_weights);
    if (!setup->class_weights) return stk_fail(s->err, STOKE_E_NOMEM, "no memory for the weights of classes");
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL, i++) {
        char number[STK_REAL_TEXT];
        double value = -1;
        at += strspn(at, " ");
        end = at + strcspn(at, ",");
        size_t length = (size_t)(end - at);
        while (length && at[length - 1] == ' ') length--;
        snprintf(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : 0), at);
        if (!stk_parse_real(number, &value) || !(value >= 0 && value <= 1e6))
            return stk_fail(s->err, STOKE_E_INVALID,
                            "`class_weights`: '%.40s' is neither none nor balanced nor a list of numbers "
                            "from 0 on, such as 1,2.5,1",
                            text);
        if (i < n) setup->class_weights[i] = (float)value;
        sum += i < n ? value : 0;
    }
    if (i != n)
        return stk_fail(s->err, STOKE_E_INVALID, "`class_weights` has %u numbers, and there are %u classes",
                        i, n);
    return sum > 0 ? STOKE_OK : stk_fail(s->err, STOKE_E_INVALID, "`class_weights` are all 0");
}

/* ---- the whole ---- */

/* By value, compared with the classes that were given. */
static int survey_values(stk_resolve_ctx *s, uint64_t most, stk_resolve_survey *survey)
{
    stoke_data_params p = s->setup->train;
    stoke_labels *labels = NULL, *given = NULL;
    uint32_t values = 0;
    if (stk_ignores_a_class(&p)) p.ignore_index = UINT16_MAX; /* as the judgement will say */
    int r = stoke_labels_create(&labels, "identity", STK_LABEL_VALUES, -1, s->err);
    if (!r && p.classes) r = stk_labels_of(&given, &p, s->err);
    if (!r) r = stk_survey_masks(s, labels, given, most, survey);
    for (uint32_t v = 0; !r && v < STK_TALLY_IDS; v++)
        values += survey->train->pixels[v] || (survey->val && survey->val->pixels[v]);
    /* Values that are no class, or but one of them: a glance may have met the only such masks. */
    if (!r && most == MASKS_GLANCE && survey->read < survey->masks &&
        (survey->odd[0] || survey->odd[1] || values < 2)) {
        stk_survey_free(survey);
        r = stk_survey_masks(s, labels, given, MASKS_MOST, survey);
    }
    stoke_labels_destroy(&labels);
    stoke_labels_destroy(&given);
    return r;
}

/* With a map the ids are what it gives; without one every value is looked at as it is. */
static int survey_for(stk_resolve_ctx *s, int raw, int balanced, stk_resolve_survey *survey)
{
    const stoke_data_params *p = &s->setup->train;
    const uint64_t most = p->classes && !balanced ? MASKS_GLANCE : MASKS_MOST;
    stoke_labels *labels = NULL;
    int r = raw ? survey_values(s, most, survey) : stk_labels_of(&labels, p, s->err);
    if (!r && !raw) r = stk_survey_masks(s, labels, NULL, most, survey);
    stoke_labels_destroy(&labels);
    if (r) return r;
    if (!survey->read)
        return stk_fail(s->err, survey->first_bad.code, "no mask can be read. The first: %s",
                        survey->first_bad.message);
    /* Some bad masks are the loader's business, which has a policy for them. */
    if (survey->bad)
        stk_resolve_say(s, "%llu of %s cannot be used, the first: %s; `stoke verify` lists them.",
                        (unsigned long long)survey->bad, STOKE_COUNT(survey->read + survey->bad, "mask"),
                        survey->first_bad.message);
    return STOKE_OK;
}

/* Classes by a map that was given: as many as it can give. */
static int take_map(stk_resolve_ctx *s)
{
    stoke_data_params *p = &s->setup->train, wide = *p;
    stoke_labels *labels = NULL;
    if (stk_ignores_a_class(&wide)) wide.ignore_index = -1; /* settled afterwards */
    int r = stk_labels_of(&labels, &wide, s->err);
    if (r) return r;
    if (!p->classes) {
        p->classes = stk_labels_classes(labels);
        if (p->classes)
            stk_resolve_say(s, "%lld classes, from `label_map` %s.", (long long)p->classes, p->label_map);
    }
    stoke_labels_destroy(&labels);
    return p->classes ? STOKE_OK
                      : stk_fail(s->err, STOKE_E_INVALID,
                                 "`label_map` %.200s gives no class: a `,*` at its end keeps the values that "
                                 "it does not name",
                                 p->label_map);
}

/* Masks without a map, or with one that keeps what it does not name: what their values come to. */
static int judge(stk_resolve_ctx *s, const stk_resolve_survey *survey, const stk_names *names, int raw)
{
    stoke_data_params *p = &s->setup->train;
    const int chosen = !p->classes;
    const stk_mask_values values = { .counts = { survey->train, survey->val },
                                     .path = stoke_dataset_sample(s->setup->train_set, 0).mask_path,
                                     .jpeg = survey->jpeg,
                                     .names = names->count,
                                     .names_found = names->found };
    stk_mask_rules judgement;
    int r = (raw ? stk_judge_values : stk_judge_range)(p, &values, s->say, s->context, &judgement, s->err);
    if (r) return r;
    if (chosen && survey->read + survey->bad < survey->masks)
        stk_resolve_say(s,
                        "Of %llu masks %llu were looked at, evenly spread: a value that is in none of them "
                        "will be refused when it comes; `classes` makes sure.",
                        (unsigned long long)survey->masks, (unsigned long long)(survey->read + survey->bad));
    /* Where the values were mapped they are classes after all. */
    for (int part = 0; !*judgement.label_map && part < 2; part++)
        if ((r = stk_resolve_unusable(s, part, survey->odd[part], survey->looked[part], STOKE_E_LABEL,
                                      "holds", "hold", "a value that is no class",
                                      survey->first_odd[part].message)))
            return r;
    p->classes = judgement.classes;
    p->ignore_index = judgement.ignore_index;
    if (*judgement.label_map && !(p->label_map = stk_resolve_keep(s, judgement.label_map)))
        return STOKE_E_NOMEM;
    return STOKE_OK;
}

/* How many there are, and what stands for none of them. */
static int settle_count(stk_resolve_ctx *s, int raw, int balanced, stk_resolve_survey *survey)
{
    stoke_data_params *p = &s->setup->train;
    stoke_labels *labels = NULL;
    /* Whether a list such as 11:255,* leaves to the masks how many classes there are. */
    const int open = !raw && !p->classes && !stk_labels_of(&labels, p, NULL) && stk_labels_keep(labels);
    stoke_labels_destroy(&labels);
    stk_names names = { 0 };
    int r = raw || open ? stk_resolve_names_beforehand(s, &names) : take_map(s);
    if (!r && !raw && !open) stk_judge_ignore(p, p->classes, s->say, s->context, &p->ignore_index);
    /* Known before masks are read and a network is made, not when its first evaluation begins. */
    if (!r && s->setup->val_set && p->classes > STOKE_CONFUSION_CLASSES)
        r = stk_fail(s->err, STOKE_E_LIMIT,
                     "%lld classes: validation counts every pair of them, and %d is the most it does that "
                     "for. Join classes with `label_map`, or train without validation (`eval_every` 0)",
                     (long long)p->classes, STOKE_CONFUSION_CLASSES);
    if (!r) r = survey_for(s, raw, balanced, survey);
    return !r && (raw || open) ? judge(s, survey, &names, raw) : r;
}

int stk_resolve_classes(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    stoke_data_params *p = &setup->train;
    const char *weights = setup->params.class_weights;
    const int balanced = weights && !strcmp(weights, "balanced"), raw = stk_is_identity(p->label_map);
    const int one = p->classes == 1;
    stk_resolve_survey survey = { 0 };
    if (one && weights && strcmp(weights, "none"))
        return stk_fail(s->err, STOKE_E_INVALID,
                        "`class_weights` weigh classes against each other: with `classes` 1 there is nothing "
                        "to weigh; say 2");
    if (one) p->classes = 2; /* one logit for two values: the class, and what is not */
    int r = settle_count(s, raw, balanced, &survey);
    setup->classes = one ? 1 : (uint32_t)p->classes;
    if (!r && balanced) r = balance(s, &survey, raw);
    stk_survey_free(&survey);
    if (!r && weights && !balanced && strcmp(weights, "none")) r = read_weights(s, weights);
    return r ? r : stk_resolve_names(s);
}
