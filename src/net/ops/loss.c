/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss, in up to three passes over the masks: count labels, and refuse bad ones; Dice's sums, where it is
 * asked for; losses and gradients.
 *
 * Every line of a mask lies between two neighbouring lines of logits. A task is a strip of such pairs of one
 * sample and the lines of the mask between them. It goes down block by block of columns (net_table.h), the
 * lower line of one pair being the upper of the next, so that planes stay in the first cache. Two strips
 * share a line of logits: the upper strip keeps its part of that line's gradient aside, and it is added when
 * all are done. A line thus has at most two parts, added in one order whatever the threads did.
 *
 * What is averaged. Cross-entropy: sum over pixels of factor * w_t * (..) / sum of w_t, as
 * torch.nn.functional.cross_entropy; one class: the mean of BCE over all pixels, ignored ones being 0, as
 * Hugging Face has it, class_weights[0] being torch's pos_weight. Focal: sum of w_t (1 - p)^gamma (-log p)
 * over the number of pixels that count. Dice: as segmentation_models_pytorch.
 *
 * Mixed samples. With share s_n = lambda_n for `masks` and 1 - lambda_n for `masks_b`, a pixel's term is
 * multiplied by s_n of its sample and divided by what the whole mask array counts, mixed or not. Dice is no
 * sum over pixels: with S the mean of s_n, its term is S * Dice where the sums of sample n count s_n / S
 * times. For equal lambdas both are lambda * L(masks) + (1 - lambda) * L(masks_b) exactly.
 *
 * Batches that will be one mean together (truth.divisor): all are divided by one number here, and afterwards
 * by the sum of their weights, to which a mixed sample adds s_n of either mask.
 */
#include "src/net/ops/ops.h"

#include <math.h>
#include <string.h>

#include "src/base/error.h"
#include "src/net/segformer/segformer_head.h"
#include "src/net/kernels/net_table.h"

enum { MASKS = 2 };

/* How work and room are cut; a function of the shape and the table's lanes. */
typedef struct loss_cut {
    uint32_t planes, lanes;
    uint32_t pairs;  /* of neighbouring lines of logits; 1 when there is only one line */
    uint32_t strip;  /* pairs of a task */
    uint32_t strips; /* of a sample */
    uint32_t tasks;
    uint32_t step;  /* lines from the upper to the lower of a pair: 1, or 0 */
    size_t columns; /* of the mask, padded to whole blocks of any table */
    size_t stride;  /* floats of a pixel of logits */
    size_t line;    /* of a line of them */
} loss_cut;

static loss_cut cut_of(const stk_exec *run, const stk_loss_shape *shape)
{
    loss_cut cut = { .planes = shape->classes == 1 ? 2 : shape->classes, .lanes = run->table->loss.lanes };
    cut.step = shape->in_height > 1;
    cut.pairs = stk_loss_pairs(shape);
    /* 8 pairs keep what strips do twice near 2 %; more when there are many, so that the lines kept aside
     * stay few. */
    cut.strip = 8;
    while (cut.strip < 32 && (uint64_t)shape->batch * cut.pairs > 64 * (uint64_t)cut.strip) cut.strip *= 2;
    cut.strips = (cut.pairs + cut.strip - 1) / cut.strip;
    cut.tasks = cut.strips * shape->batch;
    cut.columns = stk_loss_columns_padded(shape);
    cut.stride = stk_logits_stride(shape->classes);
    cut.line = cut.stride * shape->in_width;
    return cut;
}

/* Lines of the mask in the fullest strip. */
static uint32_t most_lines(const stk_loss_shape *shape, const loss_cut *cut)
{
    uint32_t most = 0, lines = 0, last = 0;
    float share;
    for (uint32_t i = 0; i < shape->height; i++, lines++) {
        const uint32_t strip = stk_loss_tap(i, shape->in_height, shape->height, &share) / cut->strip;
        if (strip != last) lines = 0;
        last = strip;
        if (lines >= most) most = lines + 1;
    }
    return most;
}

/* What a task finds. */
typedef struct task_finding {
    double loss;
    int64_t bad_value; /* of the first bad label */
    uint32_t bad_line, bad_column;
    int bad;
} task_finding;

/* run->partial, shared by the tasks; arrays per task have `tasks` rows. */
typedef struct loss_shared {
    task_finding *findings;
    double *overlap[MASKS], *cover[MASKS]; /* Dice's sums, [tasks][planes] */
    uint32_t *counts[MASKS];               /* pixels of each class, [tasks][planes] */
    float *inside[MASKS], *overall[MASKS]; /* Dice's coefficients, [planes] */
    float *weights;                        /* [planes] */
    float *aside;                          /* [tasks][line]: the part of the line below each strip */
    size_t floats;
} loss_shared;

static void *take(float *base, size_t *floats, size_t bytes)
{
    float *at = base ? base + *floats : NULL;
    *floats += (bytes + 63) / 64 * 16; /* whole cache lines: tasks do not share one, doubles are aligned */
    return at;
}

static loss_shared shared_in(const loss_cut *cut, float *base)
{
    loss_shared s = { .floats = 0 };
    const size_t cells = (size_t)cut->tasks * cut->planes;
    s.findings = take(base, &s.floats, cut->tasks * sizeof(task_finding));
    for (int m = 0; m < MASKS; m++) {
        s.overlap[m] = take(base, &s.floats, cells * sizeof(double));
        s.cover[m] = take(base, &s.floats, cells * sizeof(double));
        s.counts[m] = take(base, &s.floats, cells * sizeof(uint32_t));
        s.inside[m] = take(base, &s.floats, cut->planes * sizeof(float));
        s.overall[m] = take(base, &s.floats, cut->planes * sizeof(float));
    }
    s.weights = take(base, &s.floats, cut->planes * sizeof(float));
    s.aside = take(base, &s.floats, cut->tasks * cut->line * sizeof(float));
    return s;
}

/* A thread's scratch. Planes are [planes][lanes]. */
typedef struct loss_rooms {
    float *upper, *lower, *d_upper, *d_lower, *powers;
    float *overlap[MASKS], *cover[MASKS];
    int32_t *labels[MASKS]; /* of the strip, [lines][columns] */
    size_t floats;
} loss_rooms;

static loss_rooms rooms_in(const loss_cut *cut, uint32_t lines, float *base)
{
    loss_rooms r = { .floats = 0 };
    const size_t plane = (size_t)cut->planes * cut->lanes * sizeof(float);
    r.upper = take(base, &r.floats, plane);
    r.lower = take(base, &r.floats, plane);
    r.d_upper = take(base, &r.floats, plane);
    r.d_lower = take(base, &r.floats, plane);
    r.powers = take(base, &r.floats, STK_LOSS_LINES * plane);
    for (int m = 0; m < MASKS; m++) {
        r.overlap[m] = take(base, &r.floats, plane);
        r.cover[m] = take(base, &r.floats, plane);
        r.labels[m] = take(base, &r.floats, lines * cut->columns * sizeof(int32_t));
    }
    return r;
}

stk_exec_need stk_loss_need(const stk_exec *run, const stk_loss_shape *shape)
{
    const loss_cut cut = cut_of(run, shape);
    return (stk_exec_need){ .scratch = rooms_in(&cut, most_lines(shape, &cut), NULL).floats * sizeof(float),
                            .partial = shared_in(&cut, NULL).floats };
}

typedef enum loss_pass { PASS_SUMS, PASS_PIXELS } loss_pass;

/* One call of stk_loss, as its tasks see it. */
typedef struct loss_job {
    const stk_exec *run;
    const stoke_loss *settings;
    const stk_loss_shape *shape;
    stk_loss_taps taps;
    loss_cut cut;
    uint32_t most_lines;
    stk_label_rules rules;
    const stk_loss_truth *truth;
    uint32_t masks;
    const float *logits;
    float *d_logits;
    float factor;
    loss_shared shared;
    loss_pass pass;
    double point[MASKS]; /* factor of a pixel's loss, before the share of its sample */
    double share[MASKS]; /* mean share of the samples */
    float weights_sum;
} loss_job;

/* A task's part of one sample. */
typedef struct loss_strip {
    uint32_t sample, first, end; /* pairs */
    uint32_t line, lines;        /* of the mask */
    int last;                    /* of the sample: the line below it is its own */
} loss_strip;

static loss_strip strip_of(const loss_job *job, uint32_t task)
{
    const loss_cut *cut = &job->cut;
    loss_strip s = { .sample = task / cut->strips, .first = task % cut->strips * cut->strip };
    s.end = s.first + cut->strip < cut->pairs ? s.first + cut->strip : cut->pairs;
    s.last = s.end == cut->pairs;
    s.line = job->taps.start[s.first];
    s.lines = job->taps.start[s.end] - s.line;
    return s;
}

/* The first line of a strip in logits or their gradients. */
static size_t line_at(const loss_job *job, const loss_strip *strip)
{
    return ((size_t)strip->sample * job->shape->in_height + strip->first) * job->cut.line;
}

static const void *mask_of(const loss_job *job, uint32_t m, uint32_t sample)
{
    const unsigned char *masks = m ? job->truth->masks_b : job->truth->masks;
    return masks + sample * job->truth->row_bytes;
}

/* How much mask m of a sample counts. */
static double share_of(const loss_job *job, uint32_t m, uint32_t sample)
{
    if (job->masks == 1) return 1;
    const double lambda = job->truth->lambda[sample];
    return m ? 1 - lambda : lambda;
}

/* --- labels --- */

static void find_bad(const loss_job *job, const loss_strip *strip, uint32_t m, uint32_t line,
                     task_finding *finding)
{
    const size_t width = job->shape->width;
    finding->bad = 1;
    finding->bad_line = line;
    finding->bad_column = (uint32_t)stk_labels_bad(&job->rules, mask_of(job, m, strip->sample), line * width,
                                                   width, &finding->bad_value);
}

static void count_task(const void *context, uint32_t task, uint32_t thread)
{
    const loss_job *job = context;
    const loss_cut *cut = &job->cut;
    const size_t width = job->shape->width;
    const loss_strip strip = strip_of(job, task);
    task_finding *finding = &job->shared.findings[task];
    int32_t *labels = rooms_in(cut, job->most_lines, stk_exec_scratch(job->run, thread)).labels[0];
    memset(finding, 0, sizeof *finding);
    for (uint32_t m = 0; m < job->masks; m++) {
        uint32_t *counts = job->shared.counts[m] + (size_t)task * cut->planes;
        memset(counts, 0, cut->planes * sizeof *counts);
        for (uint32_t i = 0; i < strip.lines && !finding->bad; i++) {
            const size_t first = (strip.line + i) * width;
            if (!stk_labels_read(&job->rules, mask_of(job, m, strip.sample), first, width, labels))
                find_bad(job, &strip, m, strip.line + i, finding);
            else
                for (size_t x = 0; x < width; x++)
                    if (labels[x] >= 0) counts[labels[x]]++;
        }
    }
}

/* Counts labels of all masks; the first bad one in the order of the tasks is reported. */
static int count_labels(const loss_job *job, stoke_error *err)
{
    stk_threadpool_run(job->run->pool, count_task, job, job->cut.tasks);
    for (uint32_t task = 0; task < job->cut.tasks; task++) {
        const task_finding *f = &job->shared.findings[task];
        if (f->bad)
            return stk_fail(err, STOKE_E_LABEL,
                            "mask %u of the batch has the label %lld at line %u, column %u: neither one of "
                            "the %u classes nor ignore_index %lld",
                            (unsigned)(task / job->cut.strips), (long long)f->bad_value,
                            (unsigned)f->bad_line, (unsigned)f->bad_column, (unsigned)job->cut.planes,
                            (long long)job->settings->ignore_index);
    }
    return STOKE_OK;
}

/* Labels of the strip into scratch, padded with -1. They were checked before. */
static void read_labels(const loss_job *job, const loss_strip *strip, const loss_rooms *rooms)
{
    const size_t width = job->shape->width, columns = job->cut.columns;
    for (uint32_t m = 0; m < job->masks; m++)
        for (uint32_t i = 0; i < strip->lines; i++) {
            int32_t *labels = rooms->labels[m] + i * columns;
            stk_labels_read(&job->rules, mask_of(job, m, strip->sample), (strip->line + i) * width, width,
                            labels);
            for (size_t x = width; x < columns; x++) labels[x] = -1;
        }
}

/* --- what terms count --- */

static void set_weights(loss_job *job)
{
    const float *given = job->settings->class_weights;
    float *weights = job->shared.weights;
    if (job->shape->classes == 1) {
        weights[0] = 1;
        weights[1] = given ? given[0] : 1;
    } else {
        for (uint32_t c = 0; c < job->cut.planes; c++) weights[c] = given ? given[c] : 1;
    }
    double sum = 0;
    for (uint32_t c = 0; c < job->cut.planes; c++) sum += weights[c];
    job->weights_sum = (float)sum;
}

/* The weights of the pixels of mask m that count, in samples `first` to before `end`. */
static double weight_of(const loss_job *job, uint32_t m, uint32_t first, uint32_t end)
{
    const int focal = job->settings->kind == STOKE_LOSS_FOCAL;
    if (job->shape->classes == 1 && !focal)
        return (double)(end - first) * job->shape->height * job->shape->width;
    double sum = 0;
    for (uint32_t c = 0; c < job->cut.planes; c++) {
        uint64_t count = 0;
        for (uint32_t task = first * job->cut.strips; task < end * job->cut.strips; task++)
            count += job->shared.counts[m][(size_t)task * job->cut.planes + c];
        sum += (double)count * (focal ? 1 : job->shared.weights[c]);
    }
    return sum;
}

/* The same of all masks, each sample by its share. */
static double weight_of_all(const loss_job *job)
{
    double sum = 0;
    if (job->masks == 1) return weight_of(job, 0, 0, job->shape->batch);
    for (uint32_t m = 0; m < job->masks; m++)
        for (uint32_t n = 0; n < job->shape->batch; n++)
            sum += share_of(job, m, n) * weight_of(job, m, n, n + 1);
    return sum;
}

static void set_points(loss_job *job)
{
    const stoke_loss *settings = job->settings;
    const double part = settings->kind == STOKE_LOSS_CE_DICE ? settings->ce_weight
                        : settings->kind == STOKE_LOSS_DICE  ? 0
                                                             : 1;
    for (uint32_t m = 0; m < job->masks; m++) {
        const double divisor =
            job->truth->divisor > 0 ? job->truth->divisor : weight_of(job, m, 0, job->shape->batch);
        job->point[m] = divisor > 0 ? part / divisor : 0;
        job->share[m] = 0;
        for (uint32_t n = 0; n < job->shape->batch; n++)
            job->share[m] += share_of(job, m, n) / job->shape->batch;
    }
}

static int has_dice(const loss_job *job)
{
    return job->settings->kind == STOKE_LOSS_DICE || job->settings->kind == STOKE_LOSS_CE_DICE;
}

/* The part of sample n in Dice's sums of mask m. */
static double dice_share(const loss_job *job, uint32_t m, uint32_t sample)
{
    return job->share[m] > 0 ? share_of(job, m, sample) / job->share[m] : 0;
}

/* Dice of mask m from the tasks' sums, and its derivatives: score = (I + s) / ((P + T) / 2 + s), I the sum of
 * p over the pixels of the class, P over all that count, T the number of the former; 1 - score for classes
 * that are there, mean over all. One class: that one alone. */
static double set_dice(const loss_job *job, uint32_t m)
{
    const loss_shared *shared = &job->shared;
    const uint32_t planes = job->cut.planes, first = job->shape->classes == 1;
    const double smooth = job->settings->dice_smooth;
    const double part = job->settings->kind == STOKE_LOSS_DICE ? 1 : job->settings->dice_weight;
    const double weight = part * job->share[m] / job->shape->classes;
    double loss = 0;
    memset(shared->inside[m], 0, planes * sizeof(float));
    memset(shared->overall[m], 0, planes * sizeof(float));
    for (uint32_t c = first; c < planes; c++) {
        double overlap = 0, cover = 0, there = 0;
        for (uint32_t task = 0; task < job->cut.tasks; task++) {
            const double share = dice_share(job, m, task / job->cut.strips);
            const size_t cell = (size_t)task * planes + c;
            overlap += share * shared->overlap[m][cell];
            cover += share * shared->cover[m][cell];
            there += share * shared->counts[m][cell];
        }
        if (!(there > 0)) continue;
        const double above = overlap + smooth, below = (cover + there) / 2 + smooth;
        loss += weight * (1 - above / below);
        shared->inside[m][c] = (float)(-weight / below);
        shared->overall[m][c] = (float)(weight * above / (2 * below * below));
    }
    return loss;
}

/* --- passes over the pixels --- */

/* What is the same for all blocks of a strip. */
static stk_loss_block block_of(const loss_job *job, const loss_strip *strip, const loss_rooms *rooms)
{
    const stoke_loss *settings = job->settings;
    const double smoothing = settings->kind == STOKE_LOSS_FOCAL ? 0 : settings->label_smoothing;
    stk_loss_block block = { .planes = job->cut.planes,
                             .masks = job->masks,
                             .label_stride = job->cut.columns,
                             .weights = job->shared.weights,
                             .weights_sum = job->weights_sum,
                             .smoothing = (float)(smoothing / job->cut.planes),
                             .certain = (float)(1 - smoothing),
                             .gamma = settings->kind == STOKE_LOSS_FOCAL ? (float)settings->focal_gamma : -1,
                             .factor = job->factor,
                             .room = rooms->powers };
    for (uint32_t m = 0; m < job->masks; m++) {
        stk_loss_mask *mask = &block.mask[m];
        mask->point = (float)(job->point[m] * share_of(job, m, strip->sample));
        mask->dice = has_dice(job) ? (float)dice_share(job, m, strip->sample) : 0;
        mask->inside = job->shared.inside[m];
        mask->overall = job->shared.overall[m];
        mask->overlap = rooms->overlap[m];
        mask->cover = rooms->cover[m];
    }
    return block;
}

/* Lines first .. end of the mask, all in one pair. */
static double do_pair(const loss_job *job, const loss_strip *strip, const loss_rooms *rooms,
                      stk_loss_block *block, size_t column, uint32_t first, uint32_t end)
{
    const stk_loss_table *table = &job->run->table->loss;
    double loss = 0;
    for (uint32_t line = first; line < end; line += block->lines) {
        block->lines = end - line < STK_LOSS_LINES ? end - line : STK_LOSS_LINES;
        for (uint32_t i = 0; i < block->lines; i++) block->share[i] = job->taps.line_share[line + i];
        for (uint32_t m = 0; m < job->masks; m++)
            block->mask[m].labels = rooms->labels[m] + (line - strip->line) * job->cut.columns + column;
        if (job->pass == PASS_SUMS)
            table->sums(block);
        else
            loss += table->pixels(block);
    }
    return loss;
}

static stk_loss_columns columns_at(const loss_job *job, size_t column)
{
    return (stk_loss_columns){ .first = job->taps.column_first + column,
                               .share = job->taps.column_share + column,
                               .step = job->shape->in_width > 1,
                               .stride = job->cut.stride,
                               .classes = job->shape->classes };
}

static void swap(float **a, float **b)
{
    float *t = *a;
    *a = *b;
    *b = t;
}

/* One block of columns from the top of the strip to its bottom. d: gradients of the strip's first line, NULL
 * for none; aside: of the line below the strip. */
static double go_down(const loss_job *job, const loss_strip *strip, loss_rooms *rooms, size_t column,
                      float *d, float *aside)
{
    const loss_cut *cut = &job->cut;
    const stk_loss_table *table = &job->run->table->loss;
    const stk_loss_columns columns = columns_at(job, column);
    const size_t plane = (size_t)cut->planes * cut->lanes * sizeof(float);
    const float *line = job->logits + line_at(job, strip);
    stk_loss_block block = block_of(job, strip, rooms);
    double loss = 0;
    memset(rooms->d_upper, 0, plane);
    table->spread(&columns, line, rooms->upper);
    for (uint32_t pair = strip->first; pair < strip->end; pair++) {
        line += cut->step * cut->line;
        table->spread(&columns, line, rooms->lower);
        memset(rooms->d_lower, 0, plane);
        block.upper = rooms->upper;
        block.lower = rooms->lower;
        block.d_upper = d ? rooms->d_upper : NULL;
        block.d_lower = d ? rooms->d_lower : NULL;
        loss += do_pair(job, strip, rooms, &block, column, job->taps.start[pair], job->taps.start[pair + 1]);
        if (d) {
            table->collect(&columns, rooms->d_upper, d);
            d += cut->step * cut->line;
        }
        swap(&rooms->upper, &rooms->lower);
        swap(&rooms->d_upper, &rooms->d_lower);
    }
    if (d) table->collect(&columns, rooms->d_upper, aside);
    return loss;
}

/* Adds the lanes of Dice's planes to the task's sums. */
static void add_sums(const loss_job *job, uint32_t task, const loss_rooms *rooms)
{
    const loss_cut *cut = &job->cut;
    for (uint32_t m = 0; m < job->masks; m++)
        for (uint32_t c = 0; c < cut->planes; c++) {
            const size_t cell = (size_t)task * cut->planes + c;
            for (uint32_t l = 0; l < cut->lanes; l++) {
                job->shared.overlap[m][cell] += rooms->overlap[m][(size_t)c * cut->lanes + l];
                job->shared.cover[m][cell] += rooms->cover[m][(size_t)c * cut->lanes + l];
            }
        }
}

static void start_sums(const loss_job *job, uint32_t task)
{
    const size_t planes = job->cut.planes;
    for (uint32_t m = 0; m < job->masks; m++) {
        memset(job->shared.overlap[m] + task * planes, 0, planes * sizeof(double));
        memset(job->shared.cover[m] + task * planes, 0, planes * sizeof(double));
    }
}

static void pixel_task(const void *context, uint32_t task, uint32_t thread)
{
    const loss_job *job = context;
    const loss_cut *cut = &job->cut;
    const loss_strip strip = strip_of(job, task);
    const size_t plane = (size_t)cut->planes * cut->lanes * sizeof(float);
    loss_rooms rooms = rooms_in(cut, job->most_lines, stk_exec_scratch(job->run, thread));
    float *d = NULL, *aside = NULL;
    if (job->pass == PASS_PIXELS && job->d_logits) {
        d = job->d_logits + line_at(job, &strip);
        const size_t lines = strip.last ? job->shape->in_height - strip.first : strip.end - strip.first;
        memset(d, 0, lines * cut->line * sizeof(float));
        aside = strip.last ? d + (lines - 1) * cut->line : job->shared.aside + task * cut->line;
        if (!strip.last) memset(aside, 0, cut->line * sizeof(float));
    }
    read_labels(job, &strip, &rooms);
    memset(rooms.upper, 0, plane); /* plane 0 of one class stays so */
    memset(rooms.lower, 0, plane);
    if (job->pass == PASS_SUMS) start_sums(job, task);
    double loss = 0;
    for (size_t column = 0; column < job->shape->width; column += cut->lanes) {
        if (job->pass == PASS_SUMS)
            for (uint32_t m = 0; m < job->masks; m++) {
                memset(rooms.overlap[m], 0, plane);
                memset(rooms.cover[m], 0, plane);
            }
        loss += go_down(job, &strip, &rooms, column, d, aside);
        if (job->pass == PASS_SUMS) add_sums(job, task, &rooms);
    }
    job->shared.findings[task].loss = loss;
}

/* Adds what a strip kept aside to the first line of the next. */
static void join_task(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const loss_job *job = context;
    const loss_strip strip = strip_of(job, task);
    if (strip.last) return;
    float *line = job->d_logits + ((size_t)strip.sample * job->shape->in_height + strip.end) * job->cut.line;
    const float *aside = job->shared.aside + task * job->cut.line;
    for (size_t i = 0; i < job->cut.line; i++) line[i] += aside[i];
}

static void run_pass(loss_job *job, loss_pass pass)
{
    job->pass = pass;
    stk_threadpool_run(job->run->pool, pixel_task, job, job->cut.tasks);
}

static loss_job job_of(const stk_exec *run, const stk_loss_shape *shape, const void *room,
                       const float *logits)
{
    loss_job job = { .run = run, .shape = shape, .logits = logits, .cut = cut_of(run, shape) };
    job.taps = stk_loss_taps_in(shape, room);
    job.most_lines = most_lines(shape, &job.cut);
    return job;
}

int stk_loss(const stk_exec *run, const stoke_loss *settings, const stk_loss_shape *shape, const void *room,
             const float *logits, const stk_loss_truth *truth, float factor, double *loss, float *d_logits,
             stoke_error *err)
{
    loss_job job = job_of(run, shape, room, logits);
    job.settings = settings;
    job.truth = truth;
    job.masks = truth->masks_b ? 2 : 1;
    job.rules = (stk_label_rules){ truth->dtype, shape->classes, settings->ignore_index };
    job.d_logits = d_logits;
    job.factor = factor;
    job.shared = shared_in(&job.cut, run->partial);
    *loss = 0;
    const int status = count_labels(&job, err);
    if (status) return status;
    set_weights(&job);
    set_points(&job);
    if (truth->weight) *truth->weight = weight_of_all(&job);
    if (has_dice(&job)) {
        run_pass(&job, PASS_SUMS);
        for (uint32_t m = 0; m < job.masks; m++) *loss += set_dice(&job, m);
    }
    if (d_logits || settings->kind != STOKE_LOSS_DICE) {
        run_pass(&job, PASS_PIXELS);
        for (uint32_t task = 0; task < job.cut.tasks; task++) *loss += job.shared.findings[task].loss;
    }
    if (d_logits) stk_threadpool_run(run->pool, join_task, &job, job.cut.tasks);
    return STOKE_OK;
}

/* --- classes of pixels --- */

typedef struct classes_job {
    loss_job job;
    uint16_t *labels;
} classes_job;

/* Lines of one pair, `count` columns of them. */
static void classes_of_pair(const classes_job *classes, const loss_strip *strip, stk_loss_block *block,
                            uint32_t pair, size_t column, size_t count)
{
    const loss_job *job = &classes->job;
    const uint32_t end = job->taps.start[pair + 1], lanes = job->cut.lanes;
    for (uint32_t line = job->taps.start[pair]; line < end; line += block->lines) {
        uint16_t best[STK_LOSS_LINES * STK_LOSS_MOST_LANES];
        block->lines = end - line < STK_LOSS_LINES ? end - line : STK_LOSS_LINES;
        for (uint32_t i = 0; i < block->lines; i++) block->share[i] = job->taps.line_share[line + i];
        job->run->table->loss.best(block, best);
        for (uint32_t i = 0; i < block->lines; i++) {
            const size_t row = (size_t)strip->sample * job->shape->height + line + i;
            memcpy(classes->labels + row * job->shape->width + column, best + i * lanes,
                   count * sizeof *best);
        }
    }
}

static void classes_task(const void *context, uint32_t task, uint32_t thread)
{
    const classes_job *classes = context;
    const loss_job *job = &classes->job;
    const loss_cut *cut = &job->cut;
    const stk_loss_table *table = &job->run->table->loss;
    const loss_strip strip = strip_of(job, task);
    const size_t plane = (size_t)cut->planes * cut->lanes * sizeof(float), width = job->shape->width;
    loss_rooms rooms = rooms_in(cut, job->most_lines, stk_exec_scratch(job->run, thread));
    stk_loss_block block = { .planes = cut->planes };
    memset(rooms.upper, 0, plane);
    memset(rooms.lower, 0, plane);
    for (size_t column = 0; column < width; column += cut->lanes) {
        const stk_loss_columns columns = columns_at(job, column);
        const size_t count = width - column < cut->lanes ? width - column : cut->lanes;
        const float *line = job->logits + line_at(job, &strip);
        table->spread(&columns, line, rooms.upper);
        for (uint32_t pair = strip.first; pair < strip.end; pair++) {
            line += cut->step * cut->line;
            table->spread(&columns, line, rooms.lower);
            block.upper = rooms.upper;
            block.lower = rooms.lower;
            classes_of_pair(classes, &strip, &block, pair, column, count);
            swap(&rooms.upper, &rooms.lower);
        }
    }
}

void stk_classes_of(const stk_exec *run, const stk_loss_shape *shape, const void *room, const float *logits,
                    uint16_t *labels)
{
    const classes_job classes = { job_of(run, shape, room, logits), labels };
    stk_threadpool_run(run->pool, classes_task, &classes, classes.job.cut.tasks);
}
