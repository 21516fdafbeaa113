/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that come while the forward pass goes on, and gradients that are taken while the backward pass
 * does: the same bits as when all are there before, and none is taken too early.
 */
#include "tests/unit/fixture_small_net.h"

#include <math.h>
#include <string.h>

typedef struct marked_case {
    const char *model;
    int memory, frozen;
} marked_case;

static const marked_case cases[] = {
    { "b0", STOKE_MEMORY_PLAIN, 0 }, { "b0", STOKE_MEMORY_LEAN, 0 },      { "b0", STOKE_MEMORY_MIN, 0 },
    { "b0", STOKE_MEMORY_PLAIN, 1 }, { "resnet", STOKE_MEMORY_PLAIN, 0 }, { "unet", STOKE_MEMORY_PLAIN, 0 },
};
enum { CASES = sizeof cases / sizeof *cases };

static stoke_net *open_case(const marked_case *c)
{
    stoke_net_params p = small_params();
    p.model = c->model;
    p.memory = c->memory;
    p.freeze_encoder = c->frozen;
    p.height = p.width = 32;
    p.training = 1;
    return open_net(&p);
}

static stoke_net_batch batch_of(const sample_batch *b)
{
    stoke_net_batch batch = view(b, 2);
    batch.image_row_floats = 3 * 32 * 32;
    batch.mask_row_bytes = 32 * 32;
    return batch;
}

/* ---- gradients ---- */

typedef struct taking {
    const stoke_net *net;
    float *taken;
    uint32_t done;
    size_t early; /* floats that were taken in the first half */
    uint32_t operations;
} taking;

/* Of each tensor what is there as soon as it is said to be complete. */
static void take(void *context, uint32_t done)
{
    taking *t = context;
    const stk_parameters *parameters = &t->net->parameters;
    assert_int_equal(done, ++t->done);
    for (size_t i = 0; i < parameters->count; i++) {
        const stk_parameter *p = &parameters->list[i];
        if (!p->trainable) continue;
        const uint32_t after = stoke_net_final_after(t->net, p->offset, p->offset + p->count);
        if (after != done) continue;
        memcpy(t->taken + p->offset, t->net->gradients + p->offset, p->count * sizeof(float));
        if (2 * done < t->operations) t->early += p->count;
    }
}

static void gradients_are_complete_when_it_is_said(void **state)
{
    (void)state;
    sample_batch *b = make_batch(3);
    const stoke_net_batch batch = batch_of(b);
    for (int i = 0; i < CASES; i++) {
        stoke_net *net = open_case(&cases[i]);
        const stoke_net_arrays a = stoke_net_arrays_of(net);
        taking t = { .net = net, .taken = calloc(a.trained, sizeof(float)) };
        t.operations = net->tape.backward.end - net->tape.backward.begin;
        for (int add = 0; add < 2; add++) {
            t.done = 0;
            t.early = 0;
            stoke_net_after_backward(net, take, &t);
            assert_int_equal(stoke_net_leaf(net, &batch, 1, 0, add, NULL, NULL, NULL), STOKE_OK);
            assert_int_equal(t.done, t.operations);
            assert_memory_equal(t.taken, a.gradients, a.trained * sizeof(float));
        }
        if (!cases[i].frozen) assert_true(t.early > 0); /* or they could all leave at the end */
        assert_int_equal(stoke_net_final_after(net, 0, a.trained) > 0, 1);
        free(t.taken);
        stoke_net_close(&net);
    }
    free(b);
}

static void frozen_gradients_are_complete_at_once(void **state)
{
    (void)state;
    const marked_case frozen = { "b0", STOKE_MEMORY_PLAIN, 1 };
    stoke_net *net = open_case(&frozen);
    const stk_parameter *first = &net->parameters.list[0];
    assert_int_equal(stoke_net_final_after(net, first->offset, first->offset + first->count), 0);
    stoke_net_close(&net);
}

/* ---- weights ---- */

typedef struct bringing {
    stoke_net *net;
    const float *right;
    uint32_t done;
    size_t late; /* floats that came in the second half */
} bringing;

/* Each tensor at the last moment, and nobody is told any more when all have come. */
static void bring(void *context, uint32_t done)
{
    bringing *t = context;
    const stk_parameters *parameters = &t->net->parameters;
    uint32_t last = 0;
    t->done = done;
    for (size_t i = 0; i < parameters->count; i++) {
        const stk_parameter *p = &parameters->list[i];
        if (!p->trainable) continue;
        const uint32_t after = stoke_net_read_after(t->net, p->offset, p->offset + p->count);
        if (after > last) last = after;
        if (after != done) continue;
        memcpy(t->net->values + p->offset, t->right + p->offset, p->count * sizeof(float));
        if (2 * done > t->net->tape.forward.end) t->late += p->count;
    }
    if (done >= last) stoke_net_before_forward(t->net, NULL, NULL);
}

static void weights_may_come_when_they_are_read(void **state)
{
    (void)state;
    sample_batch *b = make_batch(3);
    const stoke_net_batch batch = batch_of(b);
    for (int i = 0; i < CASES; i++) {
        stoke_net *plain = open_case(&cases[i]), *net = open_case(&cases[i]);
        const stoke_net_arrays a = stoke_net_arrays_of(net), right = stoke_net_arrays_of(plain);
        double loss[2];
        assert_int_equal(stoke_net_leaf(plain, &batch, 1, 0, 0, &loss[0], NULL, NULL), STOKE_OK);
        bringing t = { .net = net, .right = right.values };
        for (size_t k = 0; k < a.trained; k++) a.values[k] = NAN;
        stoke_net_before_forward(net, bring, &t);
        for (int again = 0; again < 2; again++) { /* then without, with what was packed */
            assert_int_equal(stoke_net_leaf(net, &batch, 1, 0, 0, &loss[1], NULL, NULL), STOKE_OK);
            assert_true(loss[0] == loss[1]);
            assert_memory_equal(a.gradients, right.gradients, a.trained * sizeof(float));
        }
        assert_true(t.late > 0);
        stoke_net_close(&plain);
        stoke_net_close(&net);
    }
    free(b);
}

UNIT_GROUP(marks)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_complete_when_it_is_said),
        cmocka_unit_test(frozen_gradients_are_complete_at_once),
        cmocka_unit_test(weights_may_come_when_they_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
