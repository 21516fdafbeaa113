/* SPDX-License-Identifier: Apache-2.0
 *
 * Bench subject: decoding JPEGs whole, or only a box of half their width and height (256x256 of 512x512), as
 * a random crop needs. The bytes are in memory and one thread works: the decoder alone is measured.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

enum { MAX_FILES = 64, FILE_LIMIT = 64 << 20 };

typedef struct region_file {
    uint8_t *bytes;
    size_t size;
    stoke_image_info info;
} region_file;

typedef struct region_state {
    stoke_decoder *decoder;
    region_file files[MAX_FILES];
    size_t count;
    int region;
    uint32_t draw; /* where the next box is: the same sequence in every run */
} region_state;

/* Keeps the file when it is a good JPEG; what is wrong with others is verify's business. */
static void load(region_state *state, const stoke_blob *blob)
{
    region_file *file = &state->files[state->count];
    size_t capacity = 0;
    file->bytes = NULL;
    if (!cli_read_blob(blob, FILE_LIMIT, &file->bytes, &capacity, &file->size)) return;
    stoke_image out;
    stoke_decode_params params = stoke_decode_defaults();
    int r = stoke_decoder_probe(state->decoder, file->bytes, file->size, &file->info, NULL);
    if (!r && file->info.format == STOKE_FORMAT_JPEG && file->info.width > 1 && file->info.height > 1 &&
        !stoke_decoder_decode(state->decoder, file->bytes, file->size, &params, &out, NULL))
        state->count++;
    else
        free(file->bytes);
}

static int open_region(void **out, const bench_case *job, bench_answer *answer, stoke_error *err)
{
    region_state *state = *out = cli_alloc(1, sizeof *state);
    state->region = job->region;
    int r = stoke_decoder_create(&state->decoder, err);
    uint64_t n = stoke_dataset_count(job->dataset);
    for (uint64_t i = 0; i < n && state->count < MAX_FILES && !r; i++) {
        const stoke_sample sample = stoke_dataset_sample(job->dataset, i);
        load(state, &sample.image);
    }
    if (!r && !state->count) r = cli_error(err, STOKE_E_NOTFOUND, "no JPEG of the set can be decoded");
    return r;
}

static uint32_t draw(region_state *state, uint32_t below)
{
    state->draw = state->draw * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)state->draw * below >> 32);
}

static int measure_region(void *opaque, uint64_t passes, bench_answer *answer, stoke_error *err)
{
    region_state *state = opaque;
    stoke_image out;
    stoke_decode_params params = stoke_decode_defaults();
    uint64_t wall = stoke_machine_now_ns(), cpu = stoke_machine_cpu_ns();
    int r = STOKE_OK;
    for (uint64_t i = 0; i < passes * state->count && !r && !cli_interrupted(); i++) {
        const region_file *file = &state->files[i % state->count];
        uint32_t width = file->info.width / 2, height = file->info.height / 2;
        if (state->region)
            params.region = (stoke_box){ draw(state, file->info.width - width + 1),
                                         draw(state, file->info.height - height + 1), width, height };
        r = stoke_decoder_decode(state->decoder, file->bytes, file->size, &params, &out, err);
        answer->samples++;
    }
    answer->wall_ns = stoke_machine_now_ns() - wall;
    answer->cpu_ns = stoke_machine_cpu_ns() - cpu;
    return r;
}

static void close_region(void **opaque)
{
    region_state *state = *opaque;
    for (size_t i = 0; i < state->count; i++) free(state->files[i].bytes);
    stoke_decoder_destroy(&state->decoder);
    free(state);
    *opaque = NULL;
}

const bench_subject bench_region = { open_region, measure_region, close_region };
