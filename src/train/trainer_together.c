/* SPDX-License-Identifier: Apache-2.0
 *
 * The batches of a step whose lanes have one batch norm: one of each own lane is held until its gradients are
 * there. A rank that fails tells the others where they exchange what the norm needs, and why where all agree.
 */
#include "src/train/trainer.h"

#include <stoke/tools/loader.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"

int stk_trainer_together_open(stoke_trainer *t, stoke_error *err)
{
    stk_trainer_together *own = &t->together;
    const uint32_t lanes = stk_lanes_joint(&t->lanes);
    if (!lanes) return STOKE_OK;
    own->batches = stk_calloc(lanes, sizeof *own->batches);
    own->rows = stk_calloc(lanes, sizeof *own->rows);
    own->losses = stk_calloc(lanes, sizeof *own->losses);
    if (own->batches && own->rows && own->losses) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOMEM, "no memory for %u batches that are on their way", (unsigned)lanes);
}

void stk_trainer_together_close(stoke_trainer *t)
{
    stk_free(t->together.batches);
    stk_free(t->together.rows);
    stk_free(t->together.losses);
    t->together = (stk_trainer_together){ 0 };
}

/* Forward passes and losses of the `a`-th batches of own lanes. */
static int look(stoke_trainer *t, uint32_t a, stk_ranks_step *all, stoke_error *err)
{
    stk_trainer_together *own = &t->together;
    const uint32_t lanes = stk_lanes_joint(&t->lanes);
    int r = STOKE_OK;
    for (uint32_t j = 0; !r && j < lanes; j++) {
        r = stk_trainer_next_batch(t, &own->batches[j], &all->waited, err);
        if (!r) stk_trainer_took(t, own->batches[j], &own->rows[j], &all->images);
    }
    r = stk_lanes_look_together(&t->lanes, a, own->rows, r, own->losses, err);
    for (uint32_t j = 0; !r && !t->lanes.sync.halted && j < lanes; j++)
        if (stk_lanes_is_to_blame(&t->lanes, j))
            r = stk_trainer_check_loss(t, own->batches[j], own->losses[j], err);
    return r;
}

static void release(stoke_trainer *t)
{
    for (uint32_t j = 0; j < stk_lanes_joint(&t->lanes); j++)
        stoke_batch_release(t->train, &t->together.batches[j]);
}

int stk_trainer_together_take(stoke_trainer *t, stk_trainer_step *step, stoke_error *err)
{
    const uint32_t rounds = t->lanes.shape.accumulate;
    int r = STOKE_OK, agreed = 0;
    t->lanes.sync.waited = 0;
    for (uint32_t a = 0; !agreed && !r && a < rounds; a++) {
        r = look(t, a, &step->all, err);
        step->moments.met = t->lanes.sync.waited;
        if (a + 1 == rounds && !t->lanes.sync.halted) {
            r = stk_trainer_agree_on_step(t, r, step, err);
            agreed = 1;
        }
        /* Others wait for this one in the exchange, unless all know already. */
        if (!t->lanes.sync.halted && !(agreed && r))
            r = stk_lanes_learn_together(&t->lanes, a, t->together.rows, r, err);
        release(t);
        if (t->lanes.sync.halted) break;
    }
    if (!agreed) r = stk_trainer_agree_on_step(t, r, step, err);
    step->moments.met_after = t->lanes.sync.waited - step->moments.met;
    return r;
}
