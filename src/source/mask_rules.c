/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/mask_rules.h"

#include <stdio.h>
#include <stoke/tools/terminal.h>
#include <string.h>

#include "src/base/error.h"
#include "src/source/labels_internal.h"
#include "src/source/reader.h"

static void add_run(stk_mask_tally *tally, uint16_t id, uint32_t length)
{
    tally->pixels[id] += length;
    if (tally->stamp[id] == tally->sample) return;
    tally->stamp[id] = tally->sample;
    tally->samples[id]++;
    tally->seen[tally->n_seen++] = id;
}

/* By runs: masks are areas of one id (the mean run of the CamVid masks is 36 pixels), and counting a
 * pixel at a time would wait for the same counter on every pixel. */
void stk_tally_add(stk_mask_tally *tally, const stoke_image *ids)
{
    tally->sample++; /* from 1: a zeroed stamp is no sample */
    tally->n_seen = 0;
    for (uint32_t y = 0; y < ids->height; y++) {
        const uint8_t *bytes = (const uint8_t *)ids->data + y * ids->stride;
        const uint16_t *words = (const uint16_t *)(const void *)bytes;
        for (uint32_t x = 0, start; x < ids->width;) {
            start = x;
            uint16_t id = ids->depth == 1 ? bytes[x] : words[x];
            if (ids->depth == 1)
                while (++x < ids->width && bytes[x] == id) {
                }
            else
                while (++x < ids->width && words[x] == id) {
                }
            add_run(tally, id, x - start);
        }
    }
}

void stk_tally_merge(stk_mask_tally *tally, const stk_mask_tally *other)
{
    for (uint32_t i = 0; i < STK_TALLY_IDS; i++) {
        tally->pixels[i] += other->pixels[i];
        tally->samples[i] += other->samples[i];
    }
}

enum {
    SPREAD_MOST = 16,          /* values that are spread evenly: 17 apart at the least */
    SPARSE_MOST = 32,          /* values far apart that are taken for classes */
    CLASSES_MOST = 256,        /* more are hardly classes: ids of objects, or heights */
    USUAL_IGNORE = 255,        /* the default of ignore_index, */
    OTHER_IGNORE = UINT16_MAX, /* and what stands in for it */
};

typedef struct judging {
    const stoke_data_params *params;
    const stk_mask_values *values;
    stk_say_fn *say;
    void *context;
    stk_mask_rules *out;
    stoke_error *err;
} judging;

int stk_is_identity(const char *label_map)
{
    return !label_map || !*label_map || !strcmp(label_map, "identity");
}

/* ---- values ---- */

/* Distinct values, ascending. */
typedef struct seen {
    uint32_t n, largest;
    uint32_t value[SPARSE_MOST]; /* the first */
} seen;

static seen list(const stk_mask_values *values, int64_t without)
{
    seen s = { 0 };
    for (uint32_t v = 0; v < STK_TALLY_IDS; v++) {
        if (!values->counts[0]->pixels[v] && !(values->counts[1] && values->counts[1]->pixels[v])) continue;
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
    text[0] = 0;
    for (uint32_t i = 0; i < shown; i++)
        stk_text_add(text, size, i + 1 == shown && s->n < 12 ? " and " : ", ", "%u", s->value[i]);
    if (shown < s->n) stk_text_add(text, size, ", ", "... up to %u", s->largest);
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
static void map_in_order(judging *j, const seen *values)
{
    for (uint32_t i = 0; i < values->n; i++)
        stk_text_add(j->out->label_map, STK_JUDGE_MAP, ",", "%u:%u", values->value[i], i);
    j->out->classes = values->n;
}

static void map_spread(judging *j, const seen *values)
{
    char text[160], without[96] = "";
    map_in_order(j, values);
    name_values(values, text, sizeof text);
    if (values->n == 2 && j->params->ignore_index == 255)
        snprintf(without, sizeof without, "; if 255 means no class here, set it to 0:0,255:ignore");
    stk_say(j->say, j->context, "The masks hold %s: taken for %u classes in this order (`label_map` %s%s).",
            text, values->n, j->out->label_map, without);
}

/* JPEG blurs numbers: between 3 and 11 there is a 7 at every border. */
static int refuse_jpeg(const judging *j, const seen *values)
{
    char text[200];
    name_values(values, text, sizeof text);
    return stk_fail(
        j->err, STOKE_E_LABEL,
        "the masks are JPEG files (%s), which do not keep numbers as they are: there are %u values in "
        "them (%s). Save masks as PNG, or say with `label_map` what each value means",
        j->values->jpeg, values->n, text);
}

static int map_sparse(judging *j, const seen *values)
{
    char text[200], ignored[64] = "";
    name_values(values, text, sizeof text);
    if (values->n > SPARSE_MOST)
        return stk_fail(
            j->err, STOKE_E_LABEL,
            "the masks hold %u values (%s), too many and too far apart to be taken for classes (%s is "
            "one): say with `classes` or `label_map` what they mean",
            values->n, text, j->values->path);
    map_in_order(j, values);
    if (j->params->ignore_index >= 0)
        snprintf(ignored, sizeof ignored, "; %lld has no class", (long long)j->params->ignore_index);
    stk_say(j->say, j->context,
            "The masks hold %s, which are taken for classes 0 to %u in this order (`label_map` %s%s).", text,
            values->n - 1, j->out->label_map, ignored);
    return STOKE_OK;
}

static int take_range(judging *j, const seen *values)
{
    const stoke_data_params *p = j->params;
    char gaps[96] = "", ignored[64] = "", named[64] = "";
    const uint32_t names =
        j->values->names_found && j->values->names > 2 * (values->largest + 1) ? 0 : j->values->names;
    if (values->largest >= CLASSES_MOST && names <= values->largest)
        return stk_fail(
            j->err, STOKE_E_LABEL,
            "the masks hold values up to %u: if these are classes and not the numbers of objects, say "
            "so with `classes` %u",
            values->largest, values->largest + 1);
    j->out->classes = values->largest + 1;
    if (names > values->largest + 1) {
        j->out->classes = names;
        snprintf(named, sizeof named, " and %s", STOKE_COUNT(names, "name"));
    }
    const int64_t absent = j->out->classes - values->n;
    if (absent)
        snprintf(gaps, sizeof gaps, ", of which %lld occur%s in none", (long long)absent,
                 absent == 1 ? "s" : "");
    if (p->ignore_index >= 0 && !(p->ignore_index == USUAL_IGNORE && j->out->classes > USUAL_IGNORE))
        snprintf(ignored, sizeof ignored, "; %lld is ignored", (long long)p->ignore_index);
    stk_say(j->say, j->context, "%s, from the values 0 to %u in the masks%s%s%s.",
            STOKE_COUNT(j->out->classes, "class"), values->largest, named, gaps, ignored);
    return STOKE_OK;
}

/* "nothing but 0"; "": there is something to learn. */
static const char *nothing_but(const judging *j, const seen *classes, char text[static 160])
{
    text[0] = 0;
    if (!classes->n)
        snprintf(text, 160, "nothing but %lld, which stands for pixels without a class (`ignore_index`)",
                 (long long)j->params->ignore_index);
    else if (classes->n == 1 && !classes->largest)
        snprintf(text, 160, "nothing but 0");
    return text;
}

/* From what the masks hold, as they hold it. */
static int choose(judging *j)
{
    const stoke_data_params *p = j->params;
    const seen all = list(j->values, -1), classes = list(j->values, p->ignore_index);
    char nothing[160];
    if (spread_evenly(&all)) {
        map_spread(j, &all);
        return STOKE_OK;
    }
    if (*nothing_but(j, &classes, nothing))
        return stk_fail(j->err, STOKE_E_LABEL,
                        "the masks hold %s (%s is one): there is nothing to learn. Are these the masks?",
                        nothing, j->values->path);
    if (j->values->jpeg) return refuse_jpeg(j, &all);
    /* Below twice their number the values are a count with gaps; beyond, a code. */
    return classes.largest < 2 * classes.n ? take_range(j, &classes) : map_sparse(j, &classes);
}

/* `classes` 2 and masks of 0 and 255: all of the second class would be ignored. */
static void keep_given(judging *j)
{
    const seen all = list(j->values, -1), classes = list(j->values, j->params->ignore_index);
    char nothing[160];
    j->out->classes = j->params->classes;
    if (spread_evenly(&all) && (int64_t)all.n == j->params->classes)
        map_spread(j, &all);
    else if (*nothing_but(j, &classes, nothing))
        stk_say(j->say, j->context,
                "The masks hold %s (%s is one): there is nothing to learn. Are these the masks?", nothing,
                j->values->path);
    else if (j->values->jpeg)
        stk_say(
            j->say, j->context,
            "The masks are JPEG files (%s), which do not keep numbers as they are: values at borders belong "
            "to "
            "no class, or to a wrong one. Save masks as PNG.",
            j->values->jpeg);
}

int stk_judge_values(const stoke_data_params *params, const stk_mask_values *values, stk_say_fn *say,
                     void *context, stk_mask_rules *judgement, stoke_error *err)
{
    judging j = { params, values, say, context, judgement, err };
    *judgement = (stk_mask_rules){ .classes = params->classes, .ignore_index = params->ignore_index };
    int r = STOKE_OK;
    if (params->classes)
        keep_given(&j);
    else
        r = choose(&j);
    if (!r) stk_judge_ignore(params, judgement->classes, say, context, &judgement->ignore_index);
    if (!r && !*judgement->label_map) stk_judge_ignored(params, values->counts, say, context);
    return r;
}

int stk_judge_range(const stoke_data_params *params, const stk_mask_values *values, stk_say_fn *say,
                    void *context, stk_mask_rules *judgement, stoke_error *err)
{
    judging j = { params, values, say, context, judgement, err };
    *judgement = (stk_mask_rules){ .ignore_index = params->ignore_index };
    const seen classes = list(values, params->ignore_index);
    if (!classes.n)
        return stk_fail(err, STOKE_E_INVALID, "`label_map` %.200s gives no class", params->label_map);
    const int r = take_range(&j, &classes);
    if (!r) stk_judge_ignore(params, judgement->classes, say, context, &judgement->ignore_index);
    return r;
}

/* ---- ignored ---- */

/* An ignore_index below 255 among the classes (0, say) was chosen; 255 is what nobody said. */
int stk_ignores_a_class(const stoke_data_params *params)
{
    return params->ignore_index == USUAL_IGNORE && params->classes > USUAL_IGNORE;
}

void stk_judge_ignore(const stoke_data_params *params, int64_t classes, stk_say_fn *say, void *context,
                      int64_t *ignore_index)
{
    stoke_data_params settled = *params;
    settled.classes = classes;
    *ignore_index = params->ignore_index;
    if (!stk_ignores_a_class(&settled)) return;
    *ignore_index = classes <= OTHER_IGNORE ? OTHER_IGNORE : -1;
    stk_say(say, context,
            "255 is one of %lld classes: %lld stands for pixels without a class instead (`ignore_index`).",
            (long long)classes, (long long)*ignore_index);
}

static uint64_t pixels_of(const stk_mask_tally *const counts[2], uint32_t id)
{
    return counts[0]->pixels[id] + (counts[1] ? counts[1]->pixels[id] : 0);
}

/* "0:0,255:1": the classes that occur as they are, and the ignored value as class `target`. Returns whether
 * it fitted; a longer one is of no use in a remark. */
static int suggest_map(const stk_mask_tally *const counts[2], int64_t ignored, uint32_t target, char *text,
                       size_t size)
{
    size_t n = 0;
    for (uint32_t id = 0; id < STK_TALLY_IDS && n < size; id++)
        if (pixels_of(counts, id))
            n += (size_t)snprintf(text + n, size - n, "%s%u:%u", n ? "," : "", id,
                                  (int64_t)id == ignored ? target : id);
    return n < size;
}

/* Nothing is wrong with any file where every pixel of the foreground is 255. */
void stk_judge_ignored(const stoke_data_params *params, const stk_mask_tally *const counts[2],
                       stk_say_fn *say, void *context)
{
    uint64_t total = 0, ignored = 0;
    uint32_t occurring = 0, listed = 0; /* classes that occur; those of them below `classes` */
    uint32_t missing = 0;               /* the first id that does not occur */
    for (uint32_t id = 0; id < STK_TALLY_IDS; id++) {
        const uint64_t pixels = pixels_of(counts, id);
        const int is_ignored = (int64_t)id == params->ignore_index;
        if (!pixels) continue;
        total += pixels;
        if (id == missing) missing++;
        if (is_ignored) ignored = pixels;
        occurring += !is_ignored;
        listed += id < params->classes;
    }
    /* An ignore_index among the classes (0, say) was chosen, not met by accident. */
    if (ignored <= total / 2 || missing > params->ignore_index) return;
    if (occurring >= 2 && listed >= params->classes) return;
    char map[128], advice[160];
    if (stk_is_identity(params->label_map) &&
        suggest_map(counts, params->ignore_index, missing, map, sizeof map))
        snprintf(advice, sizeof advice, "use `label_map` %s", map);
    else
        snprintf(advice, sizeof advice, "`label_map` must say so");
    stk_say(say, context,
            "%.0f %% of the pixels are %lld = `ignore_index`, and class %u never occurs: if %lld is a "
            "class, %s",
            100.0 * (double)ignored / (double)total, (long long)params->ignore_index, missing,
            (long long)params->ignore_index, advice);
}

/* ---- masks that are pictures ---- */

enum { COLORS = 12 };

int stk_mask_is_colored(const stoke_image_info *mask)
{
    return mask->width && mask->channels >= 3 && !mask->palette;
}

/* The first colours of a picture, as lines of a colour file: "0 0 0; 128 0 0; ...". */
static void list_colors(const stoke_image *image, char *text, size_t size)
{
    uint32_t known[COLORS];
    size_t n = 0;
    text[0] = 0;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *p = (const uint8_t *)image->data + y * image->stride;
        for (uint32_t x = 0; x < image->width; x++, p += 3) {
            const uint32_t rgb = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
            size_t i = 0;
            while (i < n && known[i] != rgb) i++;
            if (i < n) continue;
            if (n == COLORS) {
                stk_text_add(text, size, "; ", "...");
                return;
            }
            known[n++] = rgb;
            stk_text_add(text, size, "; ", "%u %u %u", p[0], p[1], p[2]);
        }
    }
}

int stk_judge_colors(const stoke_data_params *params, const stoke_sample *sample, stoke_error *err)
{
    stk_reader reader = { 0 };
    stoke_image image;
    stoke_image_info info;
    char colors[COLORS * 16 + 8] = "";
    stoke_sample picture = { .image = sample->mask, .image_path = sample->mask_path };
    if (!stk_reader_start(NULL, &reader, NULL) &&
        !stk_reader_image(&reader, params, &picture, &info, &image, NULL) && image.depth == 1)
        list_colors(&image, colors, sizeof colors);
    stk_reader_finish(NULL, &reader);
    return stk_fail(
        err, STOKE_E_LABEL,
        "%s is a colour picture, and it is for you to say what its colours mean: write a text file "
        "with a line `R G B name` for each class, such as `128 64 128 road`, and set `label_map` to the "
        "name of that file%s%s",
        sample->mask_path, *colors ? ". Colours of this mask: " : "", colors);
}
