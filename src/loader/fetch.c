/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes in: both files of a sample, whole; what their headers say; and whether the memory they will take is
 * there.
 */
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/loader/job.h"
#include "src/loader/sample.h"

/* What will be held for a file: nothing when it cannot be read or is refused for its size. */
static uint64_t held_bytes(const stoke_blob *blob)
{
    const uint64_t bytes = stk_blob_bytes(blob);
    return bytes <= STK_FILE_LIMIT ? bytes : 0;
}

/* Under a limit the files pass the gate before they are read: a header that says how much the rest needs may
 * be missing, or come too late. */
static int gate_files(stk_job *job, stk_budget *budget)
{
    if (!budget->limit) return STOKE_OK;
    const stk_row_need need =
        stk_bench_need_files(held_bytes(&job->sample.image), held_bytes(&job->sample.mask));
    return stk_job_in_file(job, job->sample.image_path, stk_bench_gate(job->bench, budget, &need, job->err));
}

static int read_files(stk_job *job, stk_budget *budget)
{
    stk_bench *bench = job->bench;
    const stoke_sample *sample = &job->sample;
    int r = gate_files(job, budget);
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
    int r = stoke_decoder_probe(bench->mask_decoder, bench->mask_file.data, job->mask_bytes, &job->mask_info,
                                job->err);
    if (r) return r;
    uint32_t width, height;
    stk_shown_size(&job->mask_info, &job->recipe->mask_decode, &width, &height);
    if (width == job->width && height == job->height) return STOKE_OK;
    return stk_fail(job->err, STOKE_E_SIZE, "the mask is %ux%u (width x height), its image %s is %ux%u",
                    width, height, job->sample.image_path, job->width, job->height);
}

static int probe_files(stk_job *job)
{
    stk_bench *bench = job->bench;
    int r = stoke_decoder_probe(bench->image_decoder, bench->image_file.data, job->image_bytes,
                                &job->image_info, job->err);
    if (r) return stk_job_in_file(job, job->sample.image_path, r);
    stk_shown_size(&job->image_info, &job->recipe->image_decode, &job->width, &job->height);
    return job->sample.mask_path ? stk_job_in_file(job, job->sample.mask_path, probe_mask(job)) : STOKE_OK;
}

static int gate_pixels(stk_job *job, stk_budget *budget)
{
    const stoke_image_info *image = &job->image_info;
    /* Larger ones are refused by the decoder, with that reason; their size could overflow the sum. */
    if ((uint64_t)image->width * image->height > job->recipe->image_decode.max_pixels) return STOKE_OK;
    const stk_row_need need = stk_bench_need(job->recipe, image, job->image_bytes,
                                             job->sample.mask_path ? &job->mask_info : NULL, job->mask_bytes);
    return stk_job_in_file(job, job->sample.image_path, stk_bench_gate(job->bench, budget, &need, job->err));
}

int stk_fetch(stk_job *job, stk_budget *budget)
{
    int r = read_files(job, budget);
    stk_job_stamp(job, STOKE_STAGE_READ);
    if (!r) r = probe_files(job);
    if (!r) r = gate_pixels(job, budget);
    return r;
}
