/* SPDX-License-Identifier: Apache-2.0
 *
 * One launch a stage for the whole batch, in the order of the stages; a stage that no row of the batch needs
 * is not launched. The tables are written into pinned memory and copied up by two copies (rows, steps):
 * kernels take whole blocks, and a block that holds both would have to begin with steps for one reader and
 * with rows for the other.
 *
 * A batch is not cut into parts to save memory. The planes take 12 bytes a pixel, as much as the finished
 * batch in f32, and a blur takes them twice: 2 x 101 MB for 32 pictures of 512 x 512, where the network that
 * is fed needs some GB for its activations. Parts would multiply the launches, and a batch that is small for
 * the device would leave it half empty. Whoever is short of memory lowers the batch, and all of it shrinks.
 */
#include "src/upload/augmenter.h"

#include <string.h>
#include <stoke/tools/labels.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/pix/pix_table.h"

enum {
    DEEP_VALUES = 65536,   /* of a 16-bit sample */
    GRID_DEPTH_MAX = 65535 /* of CUDA in z: rows, and steps of noise_keys */
};

/* Device memory that all turns share: batches go through one after the other. */
enum block {
    NOTHING, /* stands for a block that no kernel of this pipeline looks at */
    DEEP,
    SWAP,
    PLANES,
    SPARE,
    SUMS,
    COUNTS,
    TABLES,
    POINTS,
    KEYS,
    PURE,
    PURE_MASKS,
    BLOCKS
};

/* What is written by the host while the batch before is still on the device. */
typedef struct turn {
    stk_device_block samples, steps; /* device */
    stk_device_block host;           /* pinned: samples, then steps */
} turn;

struct stk_augmenter {
    stoke_device *device;
    const stk_loader_config *config;
    stk_device_module *module;
    stk_table_need need; /* of one row */
    uint32_t capacity, turns;
    stk_device_block block[BLOCKS];
    turn *turn;
    stk_tables tables;
    uint32_t launches;
    uint64_t traffic;
};

/* ---- memory ---- */

static void block_bytes(const stk_loader_config *config, uint64_t capacity, uint64_t bytes[BLOCKS])
{
    const stk_table_need need = stk_tables_need(config);
    const stoke_batch batch = stk_batch_shape(config, 1);
    const uint64_t planes = (uint64_t)config->width * config->height * 3 * sizeof(float);
    memset(bytes, 0, BLOCKS * sizeof *bytes);
    bytes[NOTHING] = 64;
    if (config->writer.dtype != STOKE_DTYPE_U8) bytes[DEEP] = 3 * DEEP_VALUES * sizeof(float);
    if (config->swap) bytes[SWAP] = DEEP_VALUES * sizeof(uint16_t);
    if (need.planes) bytes[PLANES] = capacity * planes;
    if (need.spare) bytes[SPARE] = capacity * planes;
    bytes[SUMS] = capacity * need.sums * sizeof(uint32_t);
    bytes[COUNTS] = capacity * need.tiles * K_LEVELS * sizeof(uint32_t);
    bytes[TABLES] = capacity * need.tiles * K_LEVELS;
    bytes[POINTS] = capacity * need.points * 2 * sizeof(float);
    bytes[KEYS] = capacity * need.keys * sizeof(uint32_t);
    if (config->mixes) {
        bytes[PURE] = capacity * batch.image_row_bytes;
        bytes[PURE_MASKS] = capacity * batch.mask_row_bytes;
    }
}

static uint64_t samples_bytes(uint64_t capacity)
{
    return capacity * sizeof(k_sample);
}

/* At least one, so that there is a block. */
static uint64_t steps_bytes(const stk_table_need *need, uint64_t capacity)
{
    return (need->steps ? capacity * need->steps : 1) * sizeof(k_step);
}

uint64_t stk_augmenter_host_bytes(const stk_loader_config *config, uint32_t capacity, uint32_t turns)
{
    const stk_table_need need = stk_tables_need(config);
    return turns * (samples_bytes(capacity) + steps_bytes(&need, capacity));
}

uint64_t stk_augmenter_bytes(const stk_loader_config *config, uint32_t capacity, uint32_t turns)
{
    uint64_t bytes[BLOCKS], sum = stk_augmenter_host_bytes(config, capacity, turns);
    block_bytes(config, capacity, bytes);
    for (int i = 0; i < BLOCKS; i++) sum += bytes[i];
    return sum;
}

/* Indices in the tables are 32 bits, and a grid ends. */
static int check_sizes(const stk_augmenter *a, stoke_error *err)
{
    const stk_table_need *need = &a->need;
    const uint64_t capacity = a->capacity;
    if (!capacity || !a->turns) return stk_fail(err, STOKE_E_INVALID, "batches of no rows, or none at all");
    if (capacity <= GRID_DEPTH_MAX && capacity * need->steps <= GRID_DEPTH_MAX &&
        capacity * need->points <= UINT32_MAX && capacity * need->keys <= UINT32_MAX &&
        capacity * need->tiles * K_LEVELS <= UINT32_MAX)
        return STOKE_OK;
    return stk_fail(err, STOKE_E_LIMIT,
                    "batch %u at %u x %u with %u colour steps a sample is more than a device takes in one "
                    "launch: lower batch, or augment on the host",
                    a->capacity, a->config->width, a->config->height, need->steps);
}

static int take_memory(stk_augmenter *a, stoke_error *err)
{
    uint64_t bytes[BLOCKS];
    block_bytes(a->config, a->capacity, bytes);
    int r = STOKE_OK;
    for (int i = 0; !r && i < BLOCKS; i++)
        if (bytes[i]) r = stk_block_create(&a->block[i], a->device, STK_MEMORY_DEVICE, bytes[i], err);
    const uint64_t samples = samples_bytes(a->capacity), steps = steps_bytes(&a->need, a->capacity);
    for (uint32_t i = 0; !r && i < a->turns; i++) {
        r = stk_block_create(&a->turn[i].samples, a->device, STK_MEMORY_DEVICE, samples, err);
        if (!r) r = stk_block_create(&a->turn[i].steps, a->device, STK_MEMORY_DEVICE, steps, err);
        if (!r) r = stk_block_create(&a->turn[i].host, a->device, STK_MEMORY_PINNED, samples + steps, err);
    }
    return r;
}

/* ---- what stays the same ---- */

/* Every 16-bit sample as an element, by the function that writes them on the host. */
static int make_deep(const stk_loader_config *config, float *deep, stoke_error *err)
{
    uint16_t *pixels = stk_alloc(DEEP_VALUES * 3 * sizeof *pixels);
    if (!pixels) return stk_fail(err, STOKE_E_NOMEM, "no memory for a table of 16-bit samples");
    for (uint32_t i = 0; i < DEEP_VALUES * 3; i++) pixels[i] = (uint16_t)(i / 3);
    stk_pix_writer writer = config->writer;
    writer.dtype = STOKE_DTYPE_F32;
    writer.layout = STOKE_LAYOUT_CHW;
    stk_pix()->write_u16[STOKE_DTYPE_F32][STOKE_LAYOUT_CHW](&writer, deep, DEEP_VALUES, pixels, DEEP_VALUES);
    stk_free(pixels);
    return STOKE_OK;
}

static int send(stk_augmenter *a, stk_device_stream *stream, enum block which, const stk_device_block *from,
                stoke_error *err)
{
    if (!a->block[which].bytes) return STOKE_OK;
    int r = stk_stream_copy(stream, &a->block[which], 0, from, 0, a->block[which].bytes, err);
    return r ? r : stk_stream_finish(stream, err);
}

static int send_constants(stk_augmenter *a, stoke_error *err)
{
    if (!a->block[DEEP].bytes && !a->block[SWAP].bytes) return STOKE_OK;
    stk_device_block host = { 0 };
    stk_device_stream *stream = NULL;
    int r = stk_block_create(&host, a->device, STK_MEMORY_PAGEABLE, 3 * DEEP_VALUES * sizeof(float), err);
    if (!r) r = stk_stream_create(&stream, a->device, err);
    if (!r && a->block[DEEP].bytes) r = make_deep(a->config, host.host, err);
    if (!r) r = send(a, stream, DEEP, &host, err);
    if (!r && a->block[SWAP].bytes) {
        const uint32_t values = stoke_labels_depth(a->config->labels) == 1 ? 256 : DEEP_VALUES;
        uint16_t *swap = host.host;
        for (uint32_t id = 0; id < DEEP_VALUES; id++)
            swap[id] = id < values ? a->config->swap[id] : (uint16_t)id;
    }
    if (!r) r = send(a, stream, SWAP, &host, err);
    stk_stream_destroy(&stream);
    stk_block_destroy(&host);
    return r;
}

/* ---- create and destroy ---- */

int stk_augmenter_create(stk_augmenter **out, stoke_device *device, const stk_loader_config *config,
                         uint32_t capacity, uint32_t turns, stoke_error *err)
{
    *out = NULL;
    stk_augmenter *a = stk_calloc(1, sizeof *a);
    if (!a) return stk_fail(err, STOKE_E_NOMEM, "no memory to augment on a device");
    a->device = device;
    a->config = config;
    a->need = stk_tables_need(config);
    a->capacity = capacity;
    a->turns = turns;
    int r = check_sizes(a, err);
    if (!r && !(a->turn = stk_calloc(turns, sizeof *a->turn)))
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for the tables of %u batches", turns);
    if (!r) r = stk_module_create(&a->module, device, &stk_augment_program, err);
    if (!r) r = take_memory(a, err);
    if (!r) r = send_constants(a, err);
    if (r)
        stk_augmenter_destroy(&a);
    else
        *out = a;
    return r;
}

void stk_augmenter_destroy(stk_augmenter **augmenter)
{
    stk_augmenter *a = *augmenter;
    if (!a) return;
    *augmenter = NULL;
    for (uint32_t i = 0; a->turn && i < a->turns; i++) {
        stk_block_destroy(&a->turn[i].samples);
        stk_block_destroy(&a->turn[i].steps);
        stk_block_destroy(&a->turn[i].host);
    }
    for (int i = 0; i < BLOCKS; i++) stk_block_destroy(&a->block[i]);
    stk_module_destroy(&a->module);
    stk_free(a->turn);
    stk_free(a);
}

uint32_t stk_augmenter_launches(const stk_augmenter *augmenter)
{
    return augmenter->launches;
}

uint64_t stk_augmenter_traffic(const stk_augmenter *augmenter)
{
    return augmenter->traffic;
}

stk_device_module *stk_augmenter_module(const stk_augmenter *augmenter)
{
    return augmenter->module;
}

int stk_augment_spin(stk_device_stream *stream, stk_device_module *module, const stk_device_block *words,
                     uint32_t items, uint32_t turns, stoke_error *err)
{
    const k_shape shape = { .width = items, .round = turns };
    const stk_device_argument arguments[] = { { .block = words },
                                              { .value = &shape, .bytes = sizeof shape } };
    const stk_device_launch launch = {
        .kernel = STK_KERNEL_spin, .grid = { items, 1, 1 }, .arguments = arguments, .n_arguments = 2
    };
    return stk_stream_launch(stream, module, &launch, err);
}

/* ---- a batch ---- */

/* A batch on its way. After the first failure nothing more is launched. */
typedef struct run {
    stk_augmenter *a;
    stk_device_stream *stream;
    const stk_augmenter_job *job;
    const stk_tables *t;
    const turn *turn;
    const stk_device_block *images, *masks; /* where rows go before they are mixed */
    k_shape shape;
    uint64_t plane_bytes, image_bytes, mask_bytes; /* of a row: its planes; in the finished batch */
    int status;
    stoke_error *err;
} run;

static const stk_device_block *block_of(const run *r, enum block which)
{
    const stk_device_block *block = &r->a->block[which];
    return block->bytes ? block : &r->a->block[NOTHING];
}

/* The last argument of a kernel is the shape. `traffic`: bytes read and written, pixels that several work
 * items look at counted once: they come from a cache. */
static void launch(run *r, uint32_t kernel, const uint32_t grid[3], uint64_t traffic,
                   const stk_device_block *const *blocks, uint32_t n)
{
    enum { MOST = 12 };
    stk_device_argument arguments[MOST] = { 0 };
    if (r->status) return;
    for (uint32_t i = 0; i < n; i++) arguments[i].block = blocks[i];
    arguments[n] = (stk_device_argument){ .value = &r->shape, .bytes = sizeof r->shape };
    const stk_device_launch one = { .kernel = kernel,
                                    .grid = { grid[0], grid[1], grid[2] },
                                    .arguments = arguments,
                                    .n_arguments = n + 1,
                                    .traffic = traffic };
    r->status = stk_stream_launch(r->stream, r->a->module, &one, r->err);
    r->a->launches++;
    r->a->traffic += traffic;
}

/* LAUNCH(run, name of the kernel, {x, y, z}, bytes, blocks in the order of kernels.def) */
#define GRID(x, y, z) ((const uint32_t[3]){ x, y, z })
#define LAUNCH(r, name, grid, traffic, ...)                                                                  \
    launch(r, STK_KERNEL_##name, grid, traffic, (const stk_device_block *const[]){ __VA_ARGS__ },            \
           sizeof((const stk_device_block *const[]){ __VA_ARGS__ }) / sizeof(const stk_device_block *))

/* Some kernels count something else than pixels and rows. */
static void clear(run *r, enum block which, uint32_t words)
{
    const uint32_t width = r->shape.width;
    if (!words) return;
    r->shape.width = words;
    LAUNCH(r, clear, GRID(words, 1, 1), 4 * (uint64_t)words, block_of(r, which));
    r->shape.width = width;
}

static void prepare(run *r)
{
    const stk_tables *t = r->t;
    clear(r, SUMS, t->sums);
    clear(r, COUNTS, t->tiles * K_LEVELS);
    if (t->columns)
        LAUNCH(r, elastic_points, GRID(t->columns, t->rows, t->n_samples), 8 * (uint64_t)t->points,
               block_of(r, POINTS), &r->turn->samples);
    if (!t->noises) return;
    r->shape.count = t->n_steps;
    LAUNCH(r, noise_keys, GRID(r->shape.height, 3, t->n_steps), 4 * (uint64_t)t->keys, block_of(r, KEYS),
           &r->turn->steps);
    r->shape.count = t->n_samples;
}

static void lay(run *r)
{
    const stk_tables *t = r->t;
    const uint32_t *grid = GRID(r->shape.width, r->shape.height, t->n_samples);
    uint64_t images = t->direct * r->image_bytes + (t->n_samples - t->direct) * r->plane_bytes,
             masks = t->n_samples * r->mask_bytes;
    for (uint32_t i = 0; i < t->n_samples; i++) {
        images += r->job->rows[i].image_bytes;
        masks += r->job->rows[i].mask_bytes;
    }
    LAUNCH(r, lay_image, grid, images, r->images, block_of(r, PLANES), r->job->raw, &r->turn->samples,
           &r->turn->steps, block_of(r, POINTS), block_of(r, KEYS), block_of(r, DEEP));
    LAUNCH(r, lay_mask, grid, masks, r->masks, r->job->raw, &r->turn->samples, &r->turn->steps,
           block_of(r, POINTS), block_of(r, SWAP));
}

/* Of rows: a work item sums up part of a column. */
static uint32_t strips(uint32_t height)
{
    return (height + K_STRIP - 1) / K_STRIP;
}

static void equalise(run *r, const stk_tables_round *round)
{
    const uint32_t rows = r->t->n_samples;
    const stk_device_block *planes = block_of(r, PLANES), *counts = block_of(r, COUNTS),
                           *tables = block_of(r, TABLES), *samples = &r->turn->samples,
                           *steps = &r->turn->steps;
    LAUNCH(r, clahe_count, GRID(round->padded_width, strips(round->padded_height), rows),
           round->clahes * r->plane_bytes, counts, planes, samples, steps);
    LAUNCH(r, clahe_table, GRID(round->across, round->across, rows), (uint64_t)round->tiles * K_LEVELS * 5,
           tables, counts, samples, steps);
    LAUNCH(r, clahe_apply, GRID(r->shape.width, r->shape.height, rows), 2 * round->clahes * r->plane_bytes,
           planes, tables, samples, steps);
}

/* Segment `number` of all rows that have one. */
static void touch_round(run *r, uint32_t number)
{
    const stk_tables_round *round = &r->t->round[number];
    const uint32_t width = r->shape.width, height = r->shape.height, rows = r->t->n_samples;
    const stk_device_block *planes = block_of(r, PLANES), *spare = block_of(r, SPARE),
                           *sums = block_of(r, SUMS), *samples = &r->turn->samples, *steps = &r->turn->steps;
    r->shape.round = number;
    if (round->contrasts)
        LAUNCH(r, gray_sum, GRID(width, strips(height), rows), round->contrasts * r->plane_bytes, sums,
               planes, samples, steps);
    if (round->blurs) {
        const uint64_t traffic = 2 * round->blurs * r->plane_bytes;
        LAUNCH(r, blur_across, GRID(width, height, rows), traffic, spare, planes, samples, steps);
        LAUNCH(r, blur_down, GRID(width, height, rows), traffic, planes, spare, samples, steps);
    }
    if (round->clahes) equalise(r, round);
    LAUNCH(r, apply_color, GRID(width, height, rows),
           (2 * round->rows - round->ends) * r->plane_bytes + round->ends * r->image_bytes, r->images, planes,
           samples, steps, block_of(r, KEYS), sums);
}

/* Mixed rows read two and write one, the others are copied. */
static void mix(run *r)
{
    const stk_augmenter_job *job = r->job;
    const uint64_t rows = r->t->n_samples;
    const uint64_t traffic =
        (2 * rows + r->t->mixed) * r->image_bytes + (r->shape.two_masks ? 4 : 2) * rows * r->mask_bytes;
    LAUNCH(r, mix_rows, GRID(r->shape.width, r->shape.height, r->t->n_samples), traffic, job->images,
           job->masks, job->masks_b ? job->masks_b : block_of(r, NOTHING), r->images, r->masks,
           &r->turn->samples);
}

/* Whether `bytes` of row i lie inside the block, at an even place: samples and ids may have two bytes. */
static int lies_in(const stk_device_block *block, size_t at, size_t pitch, uint32_t i, size_t bytes)
{
    const size_t from = at + i * pitch;
    return from % 2 == 0 && from <= block->bytes && bytes <= block->bytes - from;
}

/* Kernels check nothing: they would read and write beyond the end. */
static int check_job(const stk_augmenter *a, const stk_augmenter_job *job, stoke_error *err)
{
    if (job->count > a->capacity || job->turn >= a->turns)
        return stk_fail(err, STOKE_E_INVALID, "%u rows in turn %u: planned were %u rows and %u turns",
                        job->count, job->turn, a->capacity, a->turns);
    if (!job->masks_b != !a->config->two_masks)
        return stk_fail(err, STOKE_E_INVALID, "second masks and the pipeline do not go together");
    const stoke_batch batch = stk_batch_shape(a->config, job->count);
    const size_t images = batch.image_row_bytes * job->count, masks = batch.mask_row_bytes * job->count;
    int good = images <= job->images->bytes && masks <= job->masks->bytes &&
               (!job->masks_b || masks <= job->masks_b->bytes);
    for (uint32_t i = 0; good && i < job->count; i++)
        good =
            lies_in(job->raw, job->layout.image_at, job->layout.image_pitch, i, job->rows[i].image_bytes) &&
            lies_in(job->raw, job->layout.mask_at, job->layout.mask_pitch, i, job->rows[i].mask_bytes);
    return good ? STOKE_OK : stk_fail(err, STOKE_E_INVALID, "a block is too small for %u rows", job->count);
}

/* Plans of another pipeline could ask for more than there is. */
static int check_room(const stk_augmenter *a, const stk_tables *t, stoke_error *err)
{
    const stk_device_block *block = a->block;
    if (t->sums * sizeof(uint32_t) <= block[SUMS].bytes &&
        (size_t)t->tiles * K_LEVELS <= block[TABLES].bytes &&
        t->points * 2 * sizeof(float) <= block[POINTS].bytes &&
        t->keys * sizeof(uint32_t) <= block[KEYS].bytes && (t->rounds <= 1 || block[PLANES].bytes) &&
        (!t->mixed || block[PURE].bytes))
        return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID,
                    "rows of another pipeline: their plans ask for more than was planned");
}

/* Tables of a batch, on their way. */
static int send_tables(stk_augmenter *a, stk_device_stream *stream, const stk_augmenter_job *job,
                       stoke_error *err)
{
    const turn *mine = &a->turn[job->turn];
    const size_t steps_at = samples_bytes(a->capacity);
    stk_tables *t = &a->tables;
    t->samples = mine->host.host;
    t->steps = (k_step *)((char *)mine->host.host + steps_at);
    t->steps_capacity = a->capacity * a->need.steps;
    int r = stk_tables_fill(t, a->config, job->rows, job->count, &job->layout, err);
    if (!r) r = check_room(a, t, err);
    if (!r)
        r = stk_stream_copy(stream, &mine->samples, 0, &mine->host, 0, t->n_samples * sizeof(k_sample), err);
    if (!r && t->n_steps)
        r = stk_stream_copy(stream, &mine->steps, 0, &mine->host, steps_at, t->n_steps * sizeof(k_step), err);
    return r;
}

int stk_augmenter_run(stk_augmenter *a, stk_device_stream *stream, const stk_augmenter_job *job,
                      stoke_error *err)
{
    a->launches = 0;
    a->traffic = 0;
    if (!job->count) return STOKE_OK; /* policy skip left nothing of it */
    int status = check_job(a, job, err);
    if (!status) status = send_tables(a, stream, job, err);
    if (status) return status;
    const k_shape shape = stk_tables_shape(a->config, job->count);
    const int mixes = a->tables.mixed || shape.two_masks;
    run r = { .a = a,
              .stream = stream,
              .job = job,
              .t = &a->tables,
              .turn = &a->turn[job->turn],
              .images = mixes ? &a->block[PURE] : job->images,
              .masks = mixes ? &a->block[PURE_MASKS] : job->masks,
              .shape = shape,
              .plane_bytes = (uint64_t)shape.width * shape.height * 3 * sizeof(float),
              .image_bytes = shape.image_pitch,
              .mask_bytes = shape.mask_pitch,
              .err = err };
    prepare(&r);
    lay(&r);
    for (uint32_t number = 1; number < a->tables.rounds; number++) touch_round(&r, number);
    if (mixes) mix(&r);
    return r.status;
}
