/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes in: both files of a sample, whole; what their headers say; and whether the memory they will take is
 * there.
 */
#include "src/base/error.h"
#include "src/base/file.h"
#include "src/loader/sample_ctx.h"
#include "src/loader/sample.h"
#include "src/source/pairs.h"

/* What will be held for a file: nothing when it cannot be read or is refused for its size. */
static uint64_t held_bytes(const stoke_blob *blob)
{
    const uint64_t bytes = stk_blob_bytes(blob);
    return bytes <= STK_FILE_LIMIT ? bytes : 0;
}

static int gate_files(stk_sample_ctx *ctx, stk_memory_gate *gate)
{
    if (!gate || !stk_memory_gate_guards_files(gate)) return STOKE_OK;
    const stk_scratch_bytes need =
        stk_scratch_need_files(held_bytes(&ctx->sample.image), held_bytes(&ctx->sample.mask));
    return stk_sample_ctx_in_file(ctx, ctx->sample.image_path,
                                  stk_memory_gate_pass(gate, ctx->scratch, &need, ctx->err));
}

static int read_files(stk_sample_ctx *ctx, stk_memory_gate *gate)
{
    stk_scratch *scratch = ctx->scratch;
    const stoke_sample *sample = &ctx->sample;
    int r = gate_files(ctx, gate);
    if (!r)
        r = stk_blob_read(&sample->image, sample->image_path, STK_FILE_LIMIT, &scratch->image_file,
                          &ctx->image_bytes, ctx->err);
    if (!r && sample->mask_path)
        r = stk_blob_read(&sample->mask, sample->mask_path, STK_FILE_LIMIT, &scratch->mask_file,
                          &ctx->mask_bytes, ctx->err);
    if (!r) scratch->bytes_read = ctx->image_bytes + ctx->mask_bytes;
    return r;
}

static int probe_mask(stk_sample_ctx *ctx)
{
    stk_scratch *scratch = ctx->scratch;
    const int r = stoke_decoder_probe(scratch->mask_decoder, scratch->mask_file.data, ctx->mask_bytes,
                                      &ctx->mask_info, ctx->err);
    ctx->knows_mask = !r;
    return r ? r
             : stk_pair_sizes(ctx->config->orientation, &ctx->image_info, &ctx->mask_info,
                              ctx->sample.image_path, ctx->err);
}

static int probe_files(stk_sample_ctx *ctx)
{
    stk_scratch *scratch = ctx->scratch;
    int r = stoke_decoder_probe(scratch->image_decoder, scratch->image_file.data, ctx->image_bytes,
                                &ctx->image_info, ctx->err);
    if (r) return stk_sample_ctx_in_file(ctx, ctx->sample.image_path, r);
    if (ctx->sample.mask_path) r = stk_sample_ctx_in_file(ctx, ctx->sample.mask_path, probe_mask(ctx));
    if (r) return r;
    ctx->orientation = stk_loader_config_orientation(ctx->config, &ctx->image_info,
                                                     ctx->knows_mask ? &ctx->mask_info : NULL);
    stk_size_shown(&ctx->image_info, ctx->orientation, &ctx->width, &ctx->height);
    return STOKE_OK;
}

static int gate_pixels(stk_sample_ctx *ctx, stk_memory_gate *gate)
{
    const stoke_image_info *image = &ctx->image_info;
    if (!gate) return STOKE_OK;
    /* Larger ones are refused by the decoder, with that reason; their size could overflow the sum. */
    if ((uint64_t)image->width * image->height > ctx->config->image_decode.max_pixels) return STOKE_OK;
    const stk_scratch_bytes need =
        stk_scratch_need(ctx->config, image, ctx->image_bytes, ctx->sample.mask_path ? &ctx->mask_info : NULL,
                         ctx->mask_bytes);
    return stk_sample_ctx_in_file(ctx, ctx->sample.image_path,
                                  stk_memory_gate_pass(gate, ctx->scratch, &need, ctx->err));
}

int stk_fetch(stk_sample_ctx *ctx, stk_memory_gate *gate)
{
    int r = read_files(ctx, gate);
    stk_sample_ctx_stamp(ctx, STOKE_STAGE_READ);
    if (!r) r = probe_files(ctx);
    if (!r) r = gate_pixels(ctx, gate);
    return r;
}
