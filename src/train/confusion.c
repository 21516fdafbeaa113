/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix of counts, and every score from it.
 *
 * Masks are runs of one class, so that most increments hit the cell of the one before, and a store that the
 * next load has to wait for costs 4 to 5 cycles a pixel. Four tables taken in turn hide that: 0.9 Gpixel/s
 * (2.6 GB/s of mask and prediction) on one core with 19 classes, against 0.2 to 0.4 straight into the matrix.
 * They hold 32 bits per cell and are added to the matrix once per call.
 */
#include <math.h>
#include <string.h>

#include <stoke/tools/metrics.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/ops/ops.h"
#include "src/train/evaluate.h"

enum {
    TABLES = 4,
    MOST_IN_TABLES = 256, /* classes: the tables take 1 MB then */
    BLOCK = 2048          /* pixels whose cells are found before they are counted: 16 KB on the stack */
};
/* Pixels of one call that go into the tables: no cell of 32 bits can overflow. */
#define MOST_PIXELS ((size_t)1 << 30)

struct stoke_confusion {
    uint32_t classes; /* 2 for foreground against background */
    int64_t ignore;
    stk_label_rules rules; /* the loss's: what counts there counts here */
    uint64_t *counts;      /* classes x classes, and a cell for pixels that do not count */
    uint32_t *tables;      /* TABLES times the same; NULL: too many classes */
};

static size_t cells_of(const stoke_confusion *c)
{
    return (size_t)c->classes * c->classes + 1;
}

int stoke_confusion_create(stoke_confusion **out, uint32_t classes, int64_t ignore_index, stoke_error *err)
{
    *out = NULL;
    if (!classes)
        return stk_fail(err, STOKE_E_INVALID, "a matrix of counts needs at least one class; 0 were given");
    if (classes > STOKE_CONFUSION_CLASSES)
        return stk_fail(err, STOKE_E_LIMIT,
                        "%u classes: a matrix of counts would take %.1f GiB; %d classes is the most that is "
                        "counted. Join classes with a label map",
                        (unsigned)classes, STK_GIB(8.0 * classes * classes), STOKE_CONFUSION_CLASSES);
    stoke_confusion *c = stk_calloc(1, sizeof *c);
    if (c) {
        c->classes = classes == 1 ? 2 : classes;
        c->ignore = ignore_index;
        /* -1 is no value of the loader's masks; in those of others it must not pass for one to ignore. */
        c->rules =
            (stk_label_rules){ .classes = classes, .ignore = ignore_index == -1 ? INT64_MIN : ignore_index };
        c->counts = stk_calloc(cells_of(c), sizeof *c->counts);
        if (c->classes <= MOST_IN_TABLES) c->tables = stk_calloc(cells_of(c), TABLES * sizeof *c->tables);
    }
    *out = c;
    if (c && c->counts && (c->tables || c->classes > MOST_IN_TABLES)) return STOKE_OK;
    stoke_confusion_destroy(out);
    return stk_fail(err, STOKE_E_NOMEM, "no memory for a matrix of %u x %u counts", (unsigned)classes,
                    (unsigned)classes);
}

void stoke_confusion_destroy(stoke_confusion **confusion)
{
    if (!*confusion) return;
    stk_free((*confusion)->counts);
    stk_free((*confusion)->tables);
    stk_free(*confusion);
    *confusion = NULL;
}

void stoke_confusion_reset(stoke_confusion *confusion)
{
    memset(confusion->counts, 0, cells_of(confusion) * sizeof *confusion->counts);
}

/* ---- counting ---- */

typedef struct pixels {
    const uint16_t *predicted;
    const void *truth;
    stk_label_rules rules;
} pixels;

/* The cell of each of `count` pixels from `first` on. 0: one of them has none. No branch on the values, so
 * that compilers make vectors of it. */
static int find_cells(const stoke_confusion *c, const pixels *p, size_t first, size_t count, uint32_t *cells)
{
    int32_t labels[BLOCK];
    const uint32_t classes = c->classes, beside = classes * classes;
    uint32_t bad = !stk_labels_read(&p->rules, p->truth, first, count, labels);
    for (size_t i = 0; i < count; i++) {
        const uint32_t predicted = p->predicted[first + i], counts = labels[i] >= 0;
        bad |= counts & (predicted >= classes);
        cells[i] = counts ? (uint32_t)labels[i] * classes + predicted : beside;
    }
    return !bad;
}

static int refuse_value(const stoke_confusion *c, const pixels *p, size_t first, size_t count,
                        stoke_error *err)
{
    int64_t value;
    const size_t at = stk_labels_bad(&p->rules, p->truth, first, count, &value);
    if (at < count && c->ignore == -1)
        return stk_fail(err, STOKE_E_LABEL, "a mask has the value %lld (pixel %zu): none of the %u classes",
                        (long long)value, first + at, (unsigned)c->classes);
    if (at < count)
        return stk_fail(
            err, STOKE_E_LABEL,
            "a mask has the value %lld (pixel %zu): neither one of the %u classes nor ignore_index %lld",
            (long long)value, first + at, (unsigned)c->classes, (long long)c->ignore);
    return stk_fail(err, STOKE_E_LABEL,
                    "a prediction among the pixels %zu to %zu is none of the %u classes (0 to %u)", first,
                    first + count - 1, (unsigned)c->classes, (unsigned)c->classes - 1);
}

static void count_in_tables(stoke_confusion *c, const uint32_t *cells, size_t count)
{
    const size_t each = cells_of(c);
    uint32_t *a = c->tables, *b = a + each, *d = b + each, *e = d + each;
    size_t i = 0;
    for (; i + TABLES <= count; i += TABLES) {
        a[cells[i]]++;
        b[cells[i + 1]]++;
        d[cells[i + 2]]++;
        e[cells[i + 3]]++;
    }
    for (; i < count; i++) a[cells[i]]++;
}

static int add_in_tables(stoke_confusion *c, const pixels *p, size_t count, stoke_error *err)
{
    const size_t each = cells_of(c);
    uint32_t cells[BLOCK];
    int r = STOKE_OK;
    for (size_t first = 0; !r && first < count; first += BLOCK) {
        const size_t n = count - first < BLOCK ? count - first : BLOCK;
        if (find_cells(c, p, first, n, cells))
            count_in_tables(c, cells, n);
        else
            r = refuse_value(c, p, first, n, err);
    }
    for (size_t t = 0; !r && t < TABLES; t++)
        for (size_t i = 0; i < each; i++) c->counts[i] += c->tables[t * each + i];
    memset(c->tables, 0, each * TABLES * sizeof *c->tables);
    return r;
}

/* A pass that only looks comes first, since of a bad mask nothing may be added. */
static int add_straight(stoke_confusion *c, const pixels *p, size_t count, stoke_error *err)
{
    uint32_t cells[BLOCK];
    for (int counting = 0; counting < 2; counting++)
        for (size_t first = 0; first < count; first += BLOCK) {
            const size_t n = count - first < BLOCK ? count - first : BLOCK;
            if (!find_cells(c, p, first, n, cells)) return refuse_value(c, p, first, n, err);
            for (size_t i = 0; counting && i < n; i++) c->counts[cells[i]]++;
        }
    return STOKE_OK;
}

int stoke_confusion_add(stoke_confusion *confusion, const uint16_t *predicted, const void *truth,
                        stoke_dtype truth_dtype, size_t count, stoke_error *err)
{
    const stoke_confusion *c = confusion;
    if (truth_dtype != STOKE_DTYPE_U8 && truth_dtype != STOKE_DTYPE_U16 && truth_dtype != STOKE_DTYPE_I32 &&
        truth_dtype != STOKE_DTYPE_I64)
        return stk_fail(err, STOKE_E_INVALID, "masks are u8, u16, i32 or i64");
    pixels p = { predicted, truth, c->rules };
    p.rules.dtype = truth_dtype;
    /* Emptying tables of many classes costs more than a small picture has to gain. */
    const int tables = c->tables && count >= cells_of(c) && count <= MOST_PIXELS;
    return (tables ? add_in_tables : add_straight)(confusion, &p, count, err);
}

int stoke_confusion_merge(stoke_confusion *confusion, const stoke_confusion *other, stoke_error *err)
{
    if (confusion->classes != other->classes)
        return stk_fail(err, STOKE_E_INVALID,
                        "a matrix of %u classes and one of %u cannot be added: give both as many",
                        (unsigned)confusion->classes, (unsigned)other->classes);
    for (size_t i = 0; i < cells_of(confusion); i++) confusion->counts[i] += other->counts[i];
    return STOKE_OK;
}

uint64_t *stk_confusion_cells(stoke_confusion *confusion, size_t *cells)
{
    *cells = cells_of(confusion);
    return confusion->counts;
}

/* ---- what was counted ---- */

uint32_t stoke_confusion_classes(const stoke_confusion *confusion)
{
    return confusion->classes;
}

uint64_t stoke_confusion_count(const stoke_confusion *confusion, uint32_t truth, uint32_t predicted)
{
    if (truth >= confusion->classes || predicted >= confusion->classes) return 0;
    return confusion->counts[(size_t)truth * confusion->classes + predicted];
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

stoke_class_score stoke_confusion_class(const stoke_confusion *confusion, uint32_t id)
{
    stoke_class_score s = { .iou = NAN, .f1 = NAN, .precision = NAN, .recall = NAN };
    const size_t classes = confusion->classes;
    if (id >= classes) return s;
    for (size_t other = 0; other < classes; other++) {
        s.truth += confusion->counts[id * classes + other];
        s.predicted += confusion->counts[other * classes + id];
    }
    s.hit = confusion->counts[id * classes + id];
    if (!s.truth && !s.predicted) return s;
    s.iou = ratio(s.hit, s.truth + s.predicted - s.hit);
    s.f1 = ratio(2 * s.hit, s.truth + s.predicted);
    s.precision = ratio(s.hit, s.predicted);
    s.recall = ratio(s.hit, s.truth);
    return s;
}

stoke_scores stoke_confusion_scores(const stoke_confusion *confusion)
{
    stoke_scores s = { .psnr = NAN, .ssim = NAN };
    uint64_t hits = 0;
    uint32_t in_miou = 0;
    for (uint32_t id = 0; id < confusion->classes; id++) {
        const stoke_class_score class = stoke_confusion_class(confusion, id);
        if (!class.truth && !class.predicted) continue;
        s.classes_counted++;
        s.pixels += class.truth;
        hits += class.hit;
        s.f1_macro += class.f1;
        s.precision += class.precision;
        s.recall += class.recall;
        if (id == confusion->ignore) continue; /* as torchmetrics, whose other means keep it: metrics.h */
        in_miou++;
        s.miou += class.iou;
    }
    const double n = s.classes_counted; /* 0 / 0: no pixel counted, NaN throughout */
    s.miou /= in_miou;
    s.f1_macro /= n;
    s.precision /= n;
    s.recall /= n;
    s.pixel_accuracy = s.f1_micro = (double)hits / (double)s.pixels;
    return s;
}

static const stoke_score scores[STOKE_SCORES] = {
#define STOKE_SCORE(id, task, name, title, metric, charted)                                                  \
    { #name, title, metric, offsetof(stoke_scores, name), STOKE_TASK_##task, charted },
#include <stoke/scores.def>
#undef STOKE_SCORE
};

const stoke_score *stoke_score_at(int metric)
{
    return &scores[metric];
}

double stoke_score_value(const stoke_scores *all, int metric)
{
    double value;
    memcpy(&value, (const char *)all + scores[metric].offset, sizeof value);
    return value;
}

int stoke_metric_fits(int metric, int task)
{
    return metric == STOKE_METRIC_LOSS || scores[metric].task == task;
}

const char *stoke_scores_convention(void)
{
    return "Pixels are counted over the whole set and each score is taken once from the counts; ignored "
           "pixels do not count. Means are over the classes that occur in truth or prediction, with 0 where "
           "a class occurs in only one of them, as torchmetrics 1.x (average macro).";
}
