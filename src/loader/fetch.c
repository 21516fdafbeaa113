/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes in: both files of a sample, whole; what their headers say; and whether the memory they will take is
 * there.
 */
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/loader/job.h"
#include "src/loader/sample.h"
#include "src/source/pairs.h"

/* What will be held for a file: nothing when it cannot be read or is refused for its size. */
static uint64_t held_bytes(const stoke_blob *blob)
{
    const uint64_t bytes = stk_blob_bytes(blob);
    return bytes <= STK_FILE_LIMIT ? bytes : 0;
}

static int gate_files(stk_job *job, stk_gate *gate)
{
    if (!gate || !stk_gate_guards_files(gate)) return STOKE_OK;
    const stk_row_need need =
        stk_bench_need_files(held_bytes(&job->sample.image), held_bytes(&job->sample.mask));
    return stk_job_in_file(job, job->sample.image_path, stk_gate_pass(gate, job->bench, &need, job->err));
}

static int read_files(stk_job *job, stk_gate *gate)
{
    stk_bench *bench = job->bench;
    const stoke_sample *sample = &job->sample;
    int r = gate_files(job, gate);
    if (!r)
        r = stk_blob_read(&sample->image, sample->image_path, STK_FILE_LIMIT, &bench->image_file,
                          &job->image_bytes, job->err);
    if (!r && sample->mask_path)
        r = stk_blob_read(&sample->mask, sample->mask_path, STK_FILE_LIMIT, &bench->mask_file,
                          &job->mask_bytes, job->err);
    if (!r) bench->bytes_read = job->image_bytes + job->mask_bytes;
    return r;
}

static int probe_mask(stk_job *job)
{
    stk_bench *bench = job->bench;
    const int r = stoke_decoder_probe(bench->mask_decoder, bench->mask_file.data, job->mask_bytes,
                                      &job->mask_info, job->err);
    job->knows_mask = !r;
    return r ? r
             : stk_pair_sizes(job->recipe->orientation, &job->image_info, &job->mask_info,
                              job->sample.image_path, job->err);
}

static int probe_files(stk_job *job)
{
    stk_bench *bench = job->bench;
    int r = stoke_decoder_probe(bench->image_decoder, bench->image_file.data, job->image_bytes,
                                &job->image_info, job->err);
    if (r) return stk_job_in_file(job, job->sample.image_path, r);
    if (job->sample.mask_path) r = stk_job_in_file(job, job->sample.mask_path, probe_mask(job));
    if (r) return r;
    job->orientation =
        stk_recipe_orientation(job->recipe, &job->image_info, job->knows_mask ? &job->mask_info : NULL);
    stk_size_shown(&job->image_info, job->orientation, &job->width, &job->height);
    return STOKE_OK;
}

static int gate_pixels(stk_job *job, stk_gate *gate)
{
    const stoke_image_info *image = &job->image_info;
    if (!gate) return STOKE_OK;
    /* Larger ones are refused by the decoder, with that reason; their size could overflow the sum. */
    if ((uint64_t)image->width * image->height > job->recipe->image_decode.max_pixels) return STOKE_OK;
    const stk_row_need need = stk_bench_need(job->recipe, image, job->image_bytes,
                                             job->sample.mask_path ? &job->mask_info : NULL, job->mask_bytes);
    return stk_job_in_file(job, job->sample.image_path, stk_gate_pass(gate, job->bench, &need, job->err));
}

int stk_fetch(stk_job *job, stk_gate *gate)
{
    int r = read_files(job, gate);
    stk_job_stamp(job, STOKE_STAGE_READ);
    if (!r) r = probe_files(job);
    if (!r) r = gate_pixels(job, gate);
    return r;
}
