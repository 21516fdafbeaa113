/* SPDX-License-Identifier: Apache-2.0
 *
 * The card's bandwidth: SegFormer in eager mode reads and writes its maps more than it computes. It is
 * emulated, and its errors are those of a simulation: fit for the logic of a search and for comparing
 * models, not for a promise.
 */
#include "src/tune/batch/sim_time.h"

#include <string.h>
#include <stoke/tools/device.h>

#include "src/net/segformer/segformer.h"

/* A map is written and read by the forward pass, read twice by the backward one, its gradient written and
 * read: six times its bytes cross the memory, and about as much again for what is not kept. */
static const double PASSES = 12;
/* Kernels of a block's forward and backward pass, and of everything around the blocks. */
static const double BLOCK_KERNELS = 110, OTHER_KERNELS = 260;

static double blocks_of(const stoke_estimate_params *p)
{
    stk_segformer_config config;
    double blocks = 0;
    if (!strcmp(p->model, "smallnet")) return p->num_blocks;
    if (stk_config_of(&config, p->model, p->classes, NULL)) return 0;
    for (int i = 0; i < STK_CONFIG_STAGES; i++) blocks += config.depths[i];
    return blocks;
}

int stk_sim_step_ms(double *ms, const stoke_estimate_params *params, const stoke_card *card, stoke_error *err)
{
    stoke_estimate_params p = *params;
    stoke_estimate one;
    p.batch = 1;
    const int r = stoke_estimate_make(&one, STOKE_ENGINE_TORCH, &p, err);
    if (r) return r;
    const double maps = (double)(one.bytes[STOKE_TERM_ACTIVATIONS] + one.bytes[STOKE_TERM_LOGITS]);
    const double state = (double)(one.bytes[STOKE_TERM_WEIGHTS] + one.bytes[STOKE_TERM_GRADIENTS] +
                                  one.bytes[STOKE_TERM_OPTIMIZER]);
    const double per_ms = card->memory_gb_s * 1e6;
    const double launches = (BLOCK_KERNELS * blocks_of(&p) + OTHER_KERNELS) * card->launch_us / 1000;
    *ms = launches + 2 * state / per_ms + params->batch * PASSES * maps / per_ms;
    return STOKE_OK;
}
