/* SPDX-License-Identifier: Apache-2.0
 *
 * Bench subject: bare decoding, the reference. What a careful C programmer gets from libjpeg-turbo and
 * libspng with nothing around them: threads that take the next file, read it into a buffer they keep, decode
 * it with a handle they keep (spng wants a context per file) to where a batch would be. JPEG to RGB with the
 * library's default flags, PNG as stored. No fit, no labels, no order, no batch bookkeeping.
 *
 * Other formats and CMYK JPEGs have no such plain way; our decoder does them here too, and they are counted
 * as not comparable.
 */
#include <pthread.h>
#include <spng.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "cli/bench/bench.h"

/* Where pixels go: rows of a batch are not in the cache when they are written, so one small buffer would
 * flatter. */
typedef struct ring {
    uint8_t *data;
    size_t capacity, at;
} ring;

typedef struct peer_thread {
    struct peer_state *peer;
    pthread_t thread;
    tjhandle jpeg;
    stoke_decoder *other;
    uint8_t *file;
    size_t file_capacity;
    ring rows;
    uint64_t samples, not_comparable, failed;
} peer_thread;

typedef struct peer_state {
    const bench_case *job;
    peer_thread *threads;
    atomic_ullong next;
    uint64_t end; /* samples of all passes of this measurement */
} peer_state;

enum { RING_LIMIT = 256 << 20 };

static uint8_t *place(peer_thread *t, size_t bytes)
{
    ring *r = &t->rows;
    if (bytes > r->capacity) {
        size_t rows = (size_t)t->peer->job->data.batch, wanted = bytes * rows;
        if (wanted / rows != bytes || wanted > RING_LIMIT) wanted = bytes;
        uint8_t *grown = realloc(r->data, wanted);
        if (!grown) return NULL;
        r->data = grown, r->capacity = wanted, r->at = 0;
    }
    if (bytes > r->capacity - r->at) r->at = 0;
    uint8_t *p = r->data + r->at;
    r->at += bytes;
    return p;
}

static int within_limit(const peer_thread *t, uint64_t width, uint64_t height)
{
    return width && height && width * height <= (uint64_t)t->peer->job->data.max_pixels;
}

/* 1 decoded, 0 bad, -1 a colour space turbojpeg does not give as RGB. */
static int decode_jpeg(peer_thread *t, size_t size)
{
    int width, height, sampling, space;
    if (tjDecompressHeader3(t->jpeg, t->file, size, &width, &height, &sampling, &space) != 0) return 0;
    if (space == TJCS_CMYK || space == TJCS_YCCK) return -1;
    if (!within_limit(t, (uint64_t)width, (uint64_t)height)) return 0;
    uint8_t *row = place(t, (size_t)width * (size_t)height * 3);
    return row && tjDecompress2(t->jpeg, t->file, size, row, width, 0, height, TJPF_RGB, 0) == 0;
}

static int decode_png(peer_thread *t, size_t size)
{
    struct spng_ihdr head;
    size_t bytes;
    int ok = 0;
    spng_ctx *png = spng_ctx_new(0);
    if (!png) return 0;
    if (spng_set_png_buffer(png, t->file, size) == 0 && spng_get_ihdr(png, &head) == 0 &&
        within_limit(t, head.width, head.height) && spng_decoded_image_size(png, SPNG_FMT_PNG, &bytes) == 0) {
        uint8_t *row = place(t, bytes);
        ok = row && spng_decode_image(png, row, bytes, SPNG_FMT_PNG, 0) == 0;
    }
    spng_ctx_free(png);
    return ok;
}

static int decode_file(peer_thread *t, const stoke_blob *blob, stoke_purpose purpose)
{
    size_t size = 0;
    if (!cli_read_blob(blob, SIZE_MAX, &t->file, &t->file_capacity, &size)) return 0;
    if (size > 8 && t->file[0] == 0xff && t->file[1] == 0xd8) {
        int r = decode_jpeg(t, size);
        if (r >= 0) return r;
    } else if (size > 8 && !memcmp(t->file, "\x89PNG", 4)) {
        return decode_png(t, size);
    }
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    params.purpose = purpose;
    params.max_pixels = (uint64_t)t->peer->job->data.max_pixels;
    t->not_comparable++;
    return stoke_decoder_decode(t->other, t->file, size, &params, &out, NULL) == STOKE_OK;
}

static void *work(void *opaque)
{
    peer_thread *t = opaque;
    peer_state *peer = t->peer;
    uint64_t count = stoke_dataset_count(peer->job->dataset);
    for (;;) {
        uint64_t i = atomic_fetch_add_explicit(&peer->next, 1, memory_order_relaxed);
        if (i >= peer->end || cli_interrupted()) return NULL;
        stoke_sample sample = stoke_dataset_sample(peer->job->dataset, i % count);
        int ok = decode_file(t, &sample.image, STOKE_PURPOSE_IMAGE);
        if (ok && sample.mask_path) ok = decode_file(t, &sample.mask, STOKE_PURPOSE_MASK);
        if (ok)
            t->samples++;
        else
            t->failed++;
    }
}

static int open_peer(void **out, const bench_case *job, bench_answer *answer, stoke_error *err)
{
    (void)answer;
    peer_state *peer = *out = cli_alloc(1, sizeof *peer);
    peer->job = job;
    peer->threads = cli_alloc(job->threads, sizeof *peer->threads);
    for (unsigned i = 0; i < job->threads; i++) {
        peer_thread *t = &peer->threads[i];
        t->peer = peer;
        t->jpeg = tjInitDecompress();
        if (!t->jpeg) return cli_error(err, STOKE_E_NOMEM, "turbojpeg: %s", tjGetErrorStr2(NULL));
        int r = stoke_decoder_create(&t->other, err);
        if (r) return r;
    }
    return STOKE_OK;
}

static int measure_peer(void *opaque, uint64_t passes, bench_answer *answer, stoke_error *err)
{
    peer_state *peer = opaque;
    unsigned n = peer->job->threads, started = 0;
    atomic_store(&peer->next, 0);
    peer->end = passes * stoke_dataset_count(peer->job->dataset);
    uint64_t wall = stoke_machine_now_ns(), cpu = stoke_machine_cpu_ns();
    int number = 0;
    for (; started < n && !number; started += !number) {
        peer_thread *t = &peer->threads[started];
        t->samples = t->not_comparable = t->failed = 0;
        number = pthread_create(&t->thread, NULL, work, t);
    }
    for (unsigned i = 0; i < started; i++) pthread_join(peer->threads[i].thread, NULL);
    answer->wall_ns = stoke_machine_now_ns() - wall;
    answer->cpu_ns = stoke_machine_cpu_ns() - cpu;
    for (unsigned i = 0; i < started; i++) {
        answer->samples += peer->threads[i].samples;
        answer->not_comparable += peer->threads[i].not_comparable;
        answer->failed += peer->threads[i].failed;
    }
    answer->not_comparable /= passes;
    answer->failed /= passes;
    if (cli_interrupted()) return cli_error(err, STOKE_E_CANCELLED, "interrupted");
    return number ? cli_error(err, STOKE_E_NOMEM, "cannot start a thread: %s", strerror(number)) : STOKE_OK;
}

static void close_peer(void **opaque)
{
    peer_state *peer = *opaque;
    for (unsigned i = 0; i < peer->job->threads; i++) {
        peer_thread *t = &peer->threads[i];
        tjDestroy(t->jpeg);
        stoke_decoder_destroy(&t->other);
        free(t->file), free(t->rows.data);
    }
    free(peer->threads);
    free(peer);
    *opaque = NULL;
}

const bench_subject bench_peer = { open_peer, measure_peer, close_peer };
