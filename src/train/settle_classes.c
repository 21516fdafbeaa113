/* SPDX-License-Identifier: Apache-2.0
 *
 * What the values in the masks mean. Where the user said it (`classes`, `label_map`) that stands; else it is
 * read from the masks:
 *
 *   0, 1, 2, ... k          k + 1 classes; gaps of rare classes are filled
 *   0, 255 and the like     evenly spread over a byte, drawn to be looked at: classes in that order
 *   0, 38, 75               few and far apart: classes in that order
 *   colours                 an error that says how to write a file of them
 *
 * ignore_index is no class, unless the values are spread evenly up to it.
 */
#include "src/train/settle.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <stoke/labels.h>
#include <stoke/metrics.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/number.h"
#include "src/source/labels_private.h"
#include "src/source/reader.h"

enum {
    MASKS_MOST = 4096,  /* read of each set: 0.75 ms each for 512 x 512 PNG, so 3 s on one core */
    MASKS_GLANCE = 64,  /* where the classes are given, to notice the usual slip */
    SPREAD_MOST = 16,   /* values that are spread evenly: 17 apart at the least */
    SPARSE_MOST = 32,   /* values far apart that are taken for classes */
    CLASSES_MOST = 256, /* more are hardly classes: ids of objects, or heights */
    WEIGHT_MOST = 50    /* times the mean: as the weights of ENet, 1 / ln(1.02 + share), are bounded */
};

/* Distinct values, ascending. */
typedef struct seen {
    uint32_t n, largest;
    uint32_t value[SPARSE_MOST]; /* the first */
} seen;

static seen list(const stk_survey *survey, int64_t without)
{
    seen s = { 0 };
    for (uint32_t v = 0; v < STK_TALLY_IDS; v++) {
        if (!survey->train->pixels[v] && !(survey->val && survey->val->pixels[v])) continue;
        if ((int64_t)v == without) continue;
        if (s.n < SPARSE_MOST) s.value[s.n] = v;
        s.n++;
        s.largest = v;
    }
    return s;
}

/* "0, 38 and 75"; of many the first ones. */
static void name_values(const seen *s, char *text, size_t size)
{
    const uint32_t shown = s->n < 12 ? s->n : 11;
    size_t used = 0;
    for (uint32_t i = 0; i < shown && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%u",
                                 !i                            ? ""
                                 : i + 1 == shown && s->n < 12 ? " and "
                                                               : ", ",
                                 s->value[i]);
    if (shown < s->n && used < size) snprintf(text + used, size - used, ", ... up to %u", s->largest);
}

/* 0, 255; 0, 127, 255; 0, 85, 170, 255: grey levels for the eye. */
static int spread_evenly(const seen *s)
{
    if (s->n < 2 || s->n > SPREAD_MOST || s->largest != 255) return 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const double place = 255.0 * i / (s->n - 1), off = s->value[i] - place;
        if (off > 1 || off < -1) return 0;
    }
    return 1;
}

/* Values to classes in order: "0:0,255:1". */
static int map_in_order(stk_settling *s, const seen *values)
{
    stoke_data_params *p = &s->setup->train;
    char map[SPARSE_MOST * 12];
    size_t used = 0;
    for (uint32_t i = 0; i < values->n; i++)
        used += (size_t)snprintf(map + used, sizeof map - used, "%s%u:%u", i ? "," : "", values->value[i], i);
    p->label_map = stk_settle_keep(s, map);
    p->classes = values->n;
    return p->label_map ? STOKE_OK : STOKE_E_NOMEM;
}

static int map_spread(stk_settling *s, const seen *values)
{
    const int64_t ignore = s->setup->train.ignore_index;
    char text[160], without[96] = "";
    int r = map_in_order(s, values);
    if (r) return r;
    name_values(values, text, sizeof text);
    if (values->n == 2 && ignore == 255)
        snprintf(without, sizeof without, "; if 255 means no class here, set it to 0:0,255:ignore");
    stk_settle_say(s, "The masks hold %s: taken for %u classes in this order (`label_map` %s%s).", text,
                   values->n, s->setup->train.label_map, without);
    return STOKE_OK;
}

/* JPEG blurs numbers: between 3 and 11 there is a 7 at every border. */
static int refuse_jpeg(const stk_settling *s, const seen *values)
{
    const char *path = stoke_dataset_sample(s->setup->train_set, 0).mask_path, *dot = strrchr(path, '.');
    char text[200];
    if (!dot || (strcasecmp(dot, ".jpg") && strcasecmp(dot, ".jpeg"))) return STOKE_OK;
    name_values(values, text, sizeof text);
    return stk_fail(
        s->err, STOKE_E_LABEL,
        "the masks are JPEG files (%s), which do not keep numbers as they are: there are %u values in "
        "them (%s). Save masks as PNG, or say with `label_map` what each value means",
        path, values->n, text);
}

static int map_sparse(stk_settling *s, const seen *values)
{
    const stoke_data_params *p = &s->setup->train;
    char text[200];
    name_values(values, text, sizeof text);
    if (values->n > SPARSE_MOST)
        return stk_fail(
            s->err, STOKE_E_LABEL,
            "the masks hold %u values (%s), too many and too far apart to be taken for classes (%s is "
            "one): say with `classes` or `label_map` what they mean",
            values->n, text, stoke_dataset_sample(s->setup->train_set, 0).mask_path);
    int r = map_in_order(s, values);
    if (r) return r;
    char ignored[64] = "";
    if (p->ignore_index >= 0)
        snprintf(ignored, sizeof ignored, "; %lld has no class", (long long)p->ignore_index);
    stk_settle_say(s,
                   "The masks hold %s, which are taken for classes 0 to %u in this order (`label_map` %s%s).",
                   text, values->n - 1, p->label_map, ignored);
    return STOKE_OK;
}

static int take_range(stk_settling *s, const seen *values)
{
    stoke_data_params *p = &s->setup->train;
    char gaps[96] = "", ignored[64] = "";
    if (values->largest >= CLASSES_MOST)
        return stk_fail(
            s->err, STOKE_E_LABEL,
            "the masks hold values up to %u: if these are classes and not the numbers of objects, say "
            "so with `classes` %u",
            values->largest, values->largest + 1);
    p->classes = values->largest + 1;
    if (values->n < p->classes)
        snprintf(gaps, sizeof gaps, ", of which %lld occur%s in none", (long long)p->classes - values->n,
                 p->classes - values->n == 1 ? "s" : "");
    if (p->ignore_index >= 0)
        snprintf(ignored, sizeof ignored, "; %lld is ignored", (long long)p->ignore_index);
    stk_settle_say(s, "%lld classes, from the values 0 to %u in the masks%s%s.", (long long)p->classes,
                   values->largest, gaps, ignored);
    return STOKE_OK;
}

static void say_sample(const stk_settling *s, const stk_survey *survey)
{
    if (survey->read + survey->bad < survey->masks)
        stk_settle_say(
            s,
            "Of %llu masks %llu were looked at, evenly spread: a value that is in none of them will be "
            "refused when it comes; `classes` makes sure.",
            (unsigned long long)survey->masks, (unsigned long long)(survey->read + survey->bad));
}

/* From what the masks hold, as they hold it. */
static int choose(stk_settling *s, const stk_survey *survey)
{
    const stoke_data_params *p = &s->setup->train;
    const seen all = list(survey, -1), classes = list(survey, p->ignore_index);
    if (spread_evenly(&all)) return map_spread(s, &all);
    if (!classes.n || (classes.n == 1 && !classes.largest))
        return stk_fail(
            s->err, STOKE_E_LABEL,
            "the masks hold nothing but %lld%s (%s is one): there is nothing to learn. Are these the "
            "masks?",
            classes.n ? 0 : (long long)p->ignore_index,
            classes.n ? "" : ", which stands for pixels without a class (`ignore_index`)",
            stoke_dataset_sample(s->setup->train_set, 0).mask_path);
    int r = refuse_jpeg(s, &all);
    if (r) return r;
    /* Below twice their number the values are a count with gaps; beyond, a code. */
    r = classes.largest < 2 * classes.n ? take_range(s, &classes) : map_sparse(s, &classes);
    if (!r) say_sample(s, survey);
    return r;
}

/* `classes` 2 and masks of 0 and 255: all of the second class would be ignored. */
static int notice_slip(stk_settling *s, const stk_survey *survey)
{
    const seen all = list(survey, -1);
    return spread_evenly(&all) && (int64_t)all.n == s->setup->train.classes ? map_spread(s, &all) : STOKE_OK;
}

/* Some bad masks are the loader's business, which has a policy for them. */
static int check_read(const stk_settling *s, const stk_survey *survey)
{
    if (survey->read && survey->bad)
        stk_settle_say(s, "%llu of %llu masks cannot be used, the first: %s; `stoke verify` lists them.",
                       (unsigned long long)survey->bad, (unsigned long long)(survey->read + survey->bad),
                       survey->first_bad.message);
    if (survey->read) return STOKE_OK;
    return stk_fail(s->err, survey->first_bad.code, "no mask can be read. The first: %s",
                    survey->first_bad.message);
}

static int is_identity(const char *map)
{
    return !map || !*map || !strcmp(map, "identity");
}

/* ---- weights ---- */

/* Pixels of each class in the masks of training. */
static int count_classes(const stk_settling *s, const stk_survey *survey, int raw, double *pixels)
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
static int keep_weights(stk_settling *s, const double *weights, uint32_t n)
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
    setup->params.class_weights = stk_settle_keep(s, text);
    stk_free(text);
    return setup->params.class_weights ? STOKE_OK : STOKE_E_NOMEM;
}

/* All pixels / (classes that occur x pixels of the class), as scikit-learn's "balanced". */
static int balance(stk_settling *s, const stk_survey *survey, int raw)
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
        stk_settle_say(s, "Classes are weighted by how rare they are, from %.3g to %.3g (`class_weights`).",
                       least, most);
    return r;
}

/* "1,2.5,1": as many as there are classes. */
static int read_weights(const stk_settling *s, const char *text)
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
            return stk_fail(
                s->err, STOKE_E_INVALID,
                "`class_weights`: '%.40s' is neither none nor balanced nor a list of numbers from 0 on, "
                "such as 1,2.5,1",
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

/* Names from a file of colours. */
static int keep_names(stk_settling *s, const stoke_labels *labels)
{
    stk_setup *setup = s->setup;
    int any = 0;
    const char **names = stk_calloc(setup->classes, sizeof *names);
    if (!names) return stk_fail(s->err, STOKE_E_NOMEM, "no memory for the names of classes");
    setup->class_names = names;
    for (uint32_t i = 0; i < setup->classes; i++) {
        const char *name = stoke_labels_name(labels, i);
        if (name && !(names[i] = stk_settle_keep(s, name))) return STOKE_E_NOMEM;
        any |= name != NULL;
    }
    if (!any) {
        stk_free(names);
        setup->class_names = NULL;
    }
    return STOKE_OK;
}

/* With a map the ids are what it gives; without one every value is looked at as it is. */
static int survey_for(stk_settling *s, int raw, int balanced, stk_survey *survey)
{
    const stoke_data_params *p = &s->setup->train;
    stoke_labels *labels = NULL;
    int r = raw ? stoke_labels_create(&labels, "identity", STK_LABEL_VALUES, -1, s->err)
                : stk_labels_of(&labels, p, s->err);
    if (!r) r = stk_survey_masks(s, labels, p->classes && !balanced ? MASKS_GLANCE : MASKS_MOST, survey);
    stoke_labels_destroy(&labels);
    return r ? r : check_read(s, survey);
}

/* Classes by a map that was given: as many as it can give. */
static int take_map(stk_settling *s)
{
    stoke_data_params *p = &s->setup->train;
    stoke_labels *labels = NULL;
    int r = stk_labels_of(&labels, p, s->err);
    if (r) return r;
    if (!p->classes) {
        p->classes = stk_labels_classes(labels);
        stk_settle_say(s, "%lld classes, from `label_map` %s.", (long long)p->classes, p->label_map);
    }
    stoke_labels_destroy(&labels);
    return p->classes ? STOKE_OK
                      : stk_fail(s->err, STOKE_E_INVALID, "`label_map` %.200s gives no class", p->label_map);
}

/* Known before masks are read and a network is made, not when its first evaluation begins. */
static int check_count(const stk_settling *s)
{
    const int64_t classes = s->setup->train.classes;
    if (!s->setup->val_set || classes <= STOKE_CONFUSION_CLASSES) return STOKE_OK;
    return stk_fail(
        s->err, STOKE_E_LIMIT,
        "%lld classes: validation counts every pair of them, and %d is the most it does that for. "
        "Join classes with `label_map`, or train without validation (`eval_every` 0)",
        (long long)classes, STOKE_CONFUSION_CLASSES);
}

int stk_settle_classes(stk_settling *s)
{
    stk_setup *setup = s->setup;
    stoke_data_params *p = &setup->train;
    const char *weights = setup->params.class_weights;
    const int balanced = weights && !strcmp(weights, "balanced"), raw = is_identity(p->label_map);
    const int given = p->classes > 0, one = p->classes == 1;
    stk_survey survey = { 0 };
    stoke_labels *labels = NULL;
    if (one && weights && strcmp(weights, "none"))
        return stk_fail(
            s->err, STOKE_E_INVALID,
            "`class_weights` weigh classes against each other: with `classes` 1 there is nothing to "
            "weigh; say 2");
    if (one) p->classes = 2; /* one logit for two values: the class, and what is not */
    int r = raw ? STOKE_OK : take_map(s);
    if (!r) r = check_count(s);
    if (!r && (raw || balanced)) r = survey_for(s, raw, balanced, &survey);
    if (!r && raw) r = given ? notice_slip(s, &survey) : choose(s, &survey);
    setup->classes = one ? 1 : (uint32_t)p->classes;
    if (!r && balanced) r = balance(s, &survey, raw);
    stk_survey_free(&survey);
    if (r) return r;
    if (weights && !balanced && strcmp(weights, "none")) r = read_weights(s, weights);
    if (!r) r = stk_labels_of(&labels, p, s->err);
    if (!r) r = keep_names(s, labels);
    stoke_labels_destroy(&labels);
    return r;
}
