/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers by a few threads: about 10 us each with a warm cache. All of them are read up to PROBES samples,
 * which takes one core some 5 s; beyond that an even choice, and the plan keeps room for one picture as large
 * as max_pixels allows.
 */
#include "src/loader/memory_plan.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include <stoke/tools/machine.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/loader/sample.h"
#include "src/base/threadpool.h"
#include "src/source/reader.h"

enum {
    PROBES = 1 << 18,
    CHUNK = 64,               /* samples that a thread takes at once */
    ALONE = 512,              /* so many are read sooner than threads start */
    MOST_THREADS = 16,        /* a network disk answers many at once; more only wait for each other */
    HEADER_BYTES = 64 * 1024, /* enough for the header of nearly every file */
    WHOLE_BYTES = 1 << 30     /* of whole files read where it is not */
};

typedef struct probing {
    const stk_loader_config *config;
    const stoke_sample *files; /* NULL: the loader config's set */
    uint64_t count, looked;    /* samples there are, samples that are looked at */
    stk_probe *probe;
    pthread_mutex_t lock; /* of what follows: one whole file is in memory at a time */
    stk_mem_buffer whole;
    uint64_t whole_left;
    int missed; /* a header was not found: nothing is known about that picture */
} probing;

typedef struct prober {
    stk_reader reader; /* first: see stk_reader_start */
    stk_probe own;
} prober;

static int start(void *context, void *member, stoke_error *err)
{
    if (!stk_buffer_reserve(&((prober *)member)->reader.head, HEADER_BYTES))
        return stk_fail(err, STOKE_E_NOMEM, "no memory to read headers");
    return stk_reader_start(context, member, err);
}

/* Some formats have what matters behind the pixels: the directory of a TIFF, the orientation of a WebP. */
static int head_will_do(const stoke_image_info *info, const uint8_t *head, size_t have, uint64_t size)
{
    enum { VP8X_FLAGS = 20, HAS_EXIF = 8 };
    if (have == size || info->format != STOKE_FORMAT_WEBP) return 1;
    return have <= VP8X_FLAGS || memcmp(head + 12, "VP8X", 4) != 0 || !(head[VP8X_FLAGS] & HAS_EXIF);
}

static int probe_whole(probing *all, prober *p, const stoke_blob *blob, uint64_t size, stoke_image_info *info)
{
    size_t read;
    pthread_mutex_lock(&all->lock);
    const int affordable = size <= all->whole_left;
    if (affordable) all->whole_left -= size;
    all->missed |= !affordable;
    const int found = affordable && !stk_blob_read(blob, blob->path, size, &all->whole, &read, NULL) &&
                      !stoke_decoder_probe(p->reader.decoder, all->whole.data, read, info, NULL);
    pthread_mutex_unlock(&all->lock);
    return found;
}

/* 1: a picture that will be decoded. */
static int probe_file(probing *all, prober *p, const stoke_blob *blob, stoke_image_info *info, uint64_t *size)
{
    const size_t have = stk_blob_head(blob, p->reader.head.data, HEADER_BYTES, size);
    if (*size > STK_FILE_LIMIT) *size = 0; /* refused unread */
    if (!have || !*size) return 0;
    if (stoke_decoder_probe(p->reader.decoder, p->reader.head.data, have, info, NULL) ||
        !head_will_do(info, p->reader.head.data, have, *size)) {
        if (have == *size || !probe_whole(all, p, blob, *size, info)) return 0;
    }
    return (uint64_t)info->width * info->height <= all->config->image_decode.max_pixels;
}

static void note_size(stk_probe *probe, uint32_t width, uint32_t height)
{
    if ((uint64_t)width * height <= (uint64_t)probe->largest_width * probe->largest_height) return;
    probe->largest_width = width;
    probe->largest_height = height;
}

/* A target is made when its image is done, in the same buffers. */
static void probe_target(probing *all, prober *p, const stoke_sample *sample)
{
    stoke_image_info info;
    uint64_t size = 0;
    const stk_scratch_bytes need = probe_file(all, p, &sample->target, &info, &size)
                                       ? stk_scratch_need(all->config->target, &info, size, NULL, 0)
                                       : stk_scratch_need_files(size, 0);
    stk_row_need_raise(&p->own.most, &need);
}

static void probe_sample(probing *all, prober *p, const stoke_sample *sample)
{
    stoke_image_info image, mask;
    uint64_t image_size = 0, mask_size = 0;
    const int has_image = probe_file(all, p, &sample->image, &image, &image_size);
    const int has_mask = sample->mask_path && probe_file(all, p, &sample->mask, &mask, &mask_size);
    /* Bad files are found when they are loaded, and that takes their bytes. */
    const stk_scratch_bytes need =
        has_image ? stk_scratch_need(all->config, &image, image_size, has_mask ? &mask : NULL, mask_size)
                  : stk_scratch_need_files(image_size, mask_size);
    stk_row_need_raise(&p->own.most, &need);
    /* Prediction reads the pictures of a set and leaves its targets alone. */
    if (sample->target_path && all->config->target) probe_target(all, p, sample);
    if (!has_image) return;
    if (image.width > p->own.longest_side) p->own.longest_side = image.width;
    if (image.height > p->own.longest_side) p->own.longest_side = image.height;
    note_size(&p->own, image.width, image.height);
}

static int probe_chunk(void *context, void *member, uint64_t chunk, stoke_error *err)
{
    probing *all = context;
    prober *p = member;
    const uint64_t end = (chunk + 1) * CHUNK < all->looked ? (chunk + 1) * CHUNK : all->looked;
    for (uint64_t i = chunk * CHUNK; i < end; i++) {
        const uint64_t id = (uint64_t)((unsigned __int128)i * all->count / all->looked);
        const stoke_sample sample =
            all->files ? all->files[id] : stoke_dataset_sample(all->config->dataset, id);
        probe_sample(all, p, &sample);
    }
    return STOKE_OK;
}

static void finish(void *context, void *member)
{
    probing *all = context;
    prober *p = member;
    stk_probe *probe = all->probe;
    stk_row_need_raise(&probe->most, &p->own.most);
    if (p->own.longest_side > probe->longest_side) probe->longest_side = p->own.longest_side;
    note_size(probe, p->own.largest_width, p->own.largest_height);
    stk_reader_finish(NULL, &p->reader);
}

/* As much as a picture can need: turned, deep, in one piece, and as many bytes of a file as pixels. */
static stk_scratch_bytes largest_need(const stk_loader_config *config, int masks)
{
    const uint64_t pixels = config->image_decode.max_pixels;
    const uint32_t side = (uint32_t)ceil(sqrt((double)pixels));
    const stoke_image_info image = { .width = side,
                                     .height = side,
                                     .channels = 4,
                                     .bits = 16,
                                     .orientation = 6,
                                     .scratch_bytes = pixels * 8 + 65536 };
    stoke_image_info mask = image;
    mask.scratch_bytes = pixels * 2 + 65536;
    return stk_scratch_need(config, &image, pixels / 6, masks ? &mask : NULL, pixels / 6);
}

static int run(probing *all, int masks, stoke_error *err)
{
    stk_probe *probe = all->probe;
    *probe = (stk_probe){ 0 };
    all->looked = probe->looked = all->count < PROBES ? all->count : PROBES;
    const stk_parallel_job job = {
        (all->looked + CHUNK - 1) / CHUNK, all, sizeof(prober), start, probe_chunk, finish
    };
    const unsigned cores = stoke_machine_cores().usable;
    const unsigned threads = all->looked <= ALONE ? 1 : cores < MOST_THREADS ? cores : MOST_THREADS;
    all->whole_left = WHOLE_BYTES;
    pthread_mutex_init(&all->lock, NULL);
    const int r = job.count ? stk_parallel_for(&job, threads, NULL, NULL, err) : STOKE_OK;
    pthread_mutex_destroy(&all->lock);
    stk_buffer_free(&all->whole);
    if (r) return r;
    probe->any = probe->most;
    if (all->missed || all->looked < all->count) {
        const stk_scratch_bytes largest = largest_need(all->config, masks);
        stk_row_need_raise(&probe->any, &largest);
        if (all->config->target) {
            const stk_scratch_bytes of_target = largest_need(all->config->target, 0);
            stk_row_need_raise(&probe->any, &of_target);
        }
    }
    return STOKE_OK;
}

int stk_probe_set(stk_probe *probe, const stk_loader_config *config, stoke_error *err)
{
    probing all = { .config = config, .count = stoke_dataset_count(config->dataset), .probe = probe };
    return run(&all, stoke_dataset_has_masks(config->dataset), err);
}

int stk_probe_files(stk_probe *probe, const stk_loader_config *config, const stoke_sample *files,
                    uint64_t count, stoke_error *err)
{
    probing all = { .config = config, .files = files, .count = count, .probe = probe };
    return run(&all, 0, err);
}
