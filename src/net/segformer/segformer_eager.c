/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch keeps of a picture while Hugging Face's SegFormer trains in eager mode, in fp32 and by the
 * rules of CUDA's autocast. Both agree with what saved-tensor hooks see within 2 %
 * (tests/parity/memory_live.py), and with peaks of live tensors within 6 % (b0 to b5; the points stand in
 * tests/unit/test_estimate.c).
 */
#include "src/base/mem.h"
#include "src/net/segformer/segformer.h"

/* Of one picture, in units of N C: the inputs of both norms; the norms' results, q and the context as inputs
 * of products; three of the MLP, four times as wide. Autocast casts the first norm's result once for each
 * product that takes it: query and reduction, or query, key and value. */
static uint64_t block_bytes(const stk_segformer *s, int stage, stk_network_widths w)
{
    const stk_conv_patches *map = &s->stage[stage].reduced;
    const uint64_t tokens = (uint64_t)map->height * map->width, channels = map->channels,
                   keys = (uint64_t)map->out_height * map->out_width;
    const int reduces = map->kernel > 1;
    const uint64_t copies = !w.autocast ? 1 : reduces ? 2 : 3;
    const uint64_t wide = 2 * w.kept + (copies + 3 + 12) * w.product;
    const uint64_t statistics = 4 * 4; /* mean and deviation of both norms, always fp32 */
    /* Softmax keeps its result in fp32; under autocast the product with v keeps a copy of it too. */
    const uint64_t scores = w.kept + (w.autocast ? w.product : 0);
    uint64_t bytes = tokens * (channels * wide + statistics) +
                     s->config.heads[stage] * tokens * keys * scores + 2 * keys * channels * w.product;
    if (reduces) /* the norm's input, and its result for key and value */
        bytes += keys * (channels * (w.kept + (w.autocast ? 2 : 1) * w.product) + 2 * 4);
    return bytes;
}

uint64_t stk_segformer_eager_bytes(void *segformer, const stk_network_settings *how, stk_network_widths w)
{
    stk_segformer *s = segformer;
    uint64_t features = 0, largest = 0, all = 0;
    stk_segformer_shape(s, how->height, how->width);
    for (int i = 0; i < STK_STAGES; i++) {
        const stk_conv_patches *map = &s->stage[i].reduced;
        const uint64_t tokens = (uint64_t)map->height * map->width, block = block_bytes(s, i, w);
        largest = stk_most(largest, block);
        features += tokens * map->channels * w.product;
        /* the inputs of both norms; the feature as the input of the next stage and of the head */
        all += tokens * (map->channels * (2 * w.kept + 2 * w.product) + 4 * 4) + s->config.depths[i] * block;
    }
    /* Eight maps of the decoder's width at a quarter of the size: four concatenated, then norm, ReLU, dropout
     * and classifier. Two more are gradients on their way: that is what measured peaks lie above the saved
     * tensors, 28 to 33 MiB a picture for 768 channels at 288 x 288. */
    const stk_conv_patches *largest_map = &s->stage[0].reduced;
    const uint64_t head =
        (8 + 2) * (uint64_t)s->config.decoder * largest_map->height * largest_map->width * w.product;
    /* A frozen encoder keeps nothing but its features; one block at a time passes through. */
    return (how->freeze_encoder ? features + largest : all) + head;
}
