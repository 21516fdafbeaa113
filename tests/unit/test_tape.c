/* SPDX-License-Identifier: Apache-2.0
 *
 * Tapes of every model in every mode: nothing is read before it is written, tensors that live at the same
 * time share no memory, the plan is hardly larger than what lives at once, no operation touches a tensor
 * outside its life, and the work is that of the shapes.
 */
#include "tests/unit/fixture_small_net.h"

#include "src/base/mem.h"

enum { PICTURES = 4 };

typedef struct recording {
    void *layers;
    stk_parameters parameters;
    stk_tape tape;
} recording;

static recording record(const char *model, const stk_network_settings *how, uint32_t batch)
{
    recording r = { 0 };
    stk_network_config config;
    assert_int_equal(stk_network_find(&config, model, 19, NULL), STOKE_OK);
    r.layers = config.network->create(&config, &r.parameters);
    assert_non_null(r.layers);
    config.network->record(r.layers, how, &r.tape);
    assert_null(r.tape.unwritten);
    assert_int_equal(stk_tape_place(&r.tape, batch, NULL), STOKE_OK);
    return r;
}

static void forget(recording *r)
{
    stk_tape_free(&r->tape);
    stk_parameters_free(&r->parameters);
    stk_free(r->layers);
}

static stk_network_settings training(int memory)
{
    return (stk_network_settings){
        .height = 256, .width = 256, .training = 1, .memory = memory, .type = STK_F32, .drop_path = 0.1
    };
}

/* Bytes that live while operation `at` runs. */
static size_t alive(const stk_tape *tape, uint32_t at)
{
    size_t sum = 0;
    for (size_t i = STK_TAPE_PICTURES + 1; i < tape->tensor_count; i++)
        if (!tape->tensors[i].of && tape->tensors[i].first <= at && tape->tensors[i].last >= at)
            sum += tape->tensors[i].bytes;
    return sum;
}

static void check_places(const stk_tape *tape, const char *model)
{
    for (size_t i = STK_TAPE_PICTURES + 1; i < tape->tensor_count; i++) {
        const stk_tape_tensor *a = &tape->tensors[i];
        assert_true(a->first <= a->last && a->last < tape->op_count);
        if (a->of) { /* columns of another one */
            const stk_tape_tensor *whole = &tape->tensors[a->of];
            assert_true(a->at == whole->at + a->column * stk_float_bytes(a->type));
            assert_true(a->column + a->width <= whole->width && a->stride == whole->stride);
            assert_true(whole->first <= a->first && whole->last >= a->last);
            continue;
        }
        assert_true(a->at % 64 == 0 && a->at + a->bytes <= tape->bytes);
        for (size_t k = i + 1; k < tape->tensor_count; k++) {
            const stk_tape_tensor *b = &tape->tensors[k];
            if (b->of || a->last < b->first || b->last < a->first) continue;
            if (a->at < b->at + b->bytes && b->at < a->at + a->bytes)
                fail_msg("%s: %s and %s live at the same time and share memory", model, a->name, b->name);
        }
    }
}

static void tensors_lie_apart(void **state)
{
    (void)state;
    static const char *const models[] = { "b0", "b2", "b5", "resnet", "unet" };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int mode = STOKE_MEMORY_PLAIN; mode <= STOKE_MEMORY_MIN; mode++)
            for (int how = 0; how < 3; how++) {
                stk_network_settings s = training(mode);
                s.training = how != 2;
                s.freeze_encoder = how == 1;
                s.type = mode ? STK_BF16 : STK_F32;
                recording r = record(models[m], &s, PICTURES);
                size_t most = 0;
                check_places(&r.tape, models[m]);
                for (uint32_t i = 0; i < r.tape.op_count; i++)
                    if (alive(&r.tape, i) > most) most = alive(&r.tape, i);
                assert_true(r.tape.bytes >= most);
                assert_true((double)r.tape.bytes < 1.05 * (double)most); /* unet: 1.04 */
                assert_true(s.training ? r.tape.kept > 0 && r.tape.kept <= most : r.tape.kept == 0);
                forget(&r);
            }
}

/* Added up by hand from the shapes of b0 at 4 x 256 x 256 with 19 classes. */
static void work_is_that_of_the_shapes(void **state)
{
    (void)state;
    stk_network_settings s = training(STOKE_MEMORY_PLAIN);
    recording r = record("b0", &s, PICTURES);
    const stk_tape_span all = { 0, (uint32_t)r.tape.op_count };
    assert_true(stk_tape_flops(&r.tape, all, PICTURES) == 17033068544.0);
    /* the first convolution: 64 x 64 tokens of 7 x 7 x 3 into 32 */
    const stk_tape_op *first = NULL;
    for (size_t i = 0; i < r.tape.op_count && !first; i++)
        if (r.tape.ops[i].kind == STK_TAPE_LINEAR) first = &r.tape.ops[i];
    assert_non_null(first);
    assert_true(stk_tape_op_flops(first, PICTURES) == 2.0 * PICTURES * 64 * 64 * 7 * 7 * 3 * 32);
    forget(&r);
    s = training(STOKE_MEMORY_LEAN);
    r = record("b0", &s, PICTURES);
    assert_true(stk_tape_flops(&r.tape, (stk_tape_span){ 0, (uint32_t)r.tape.op_count }, PICTURES) ==
                17179344896.0);
    forget(&r);
}

static void what_nobody_wrote_is_refused(void **state)
{
    (void)state;
    stoke_error err;
    stk_tape tape = { 0 };
    const stk_layernorm norm = { .channels = 8 };
    const stk_tape_id x = stk_tape_declare(&tape, "x", 4, 8, STK_F32),
                      stats = stk_tape_declare(&tape, "stats", 4, 2, STK_F32);
    stk_tape_add(&tape,
                 (stk_tape_op){ .kind = STK_TAPE_NORM, .layer = &norm, .in = { x }, .out = { stats } });
    assert_string_equal(tape.unwritten, "x");
    assert_int_equal(stk_tape_place(&tape, 1, &err), STOKE_E_STATE);
    assert_non_null(strstr(err.message, "reads \"x\" before anything writes it"));
    stk_tape_free(&tape);
}

static void survives_without_memory(void **state)
{
    (void)state;
    const stk_network_settings s = training(STOKE_MEMORY_MIN);
    int status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        recording r = { 0 };
        stk_network_config config;
        assert_int_equal(stk_network_find(&config, "b0", 3, NULL), STOKE_OK);
        r.layers = config.network->create(&config, &r.parameters);
        stk_mem_fail_after(after);
        config.network->record(r.layers, &s, &r.tape);
        status = stk_tape_place(&r.tape, PICTURES, NULL);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || (status == STOKE_E_NOMEM && after < 30));
        forget(&r);
    }
}

/* One operation at a time; memory in which nothing lives is full of NaN. */
static void run_span(stoke_net *net, stk_tape_span span, const stoke_net_batch *batch)
{
    const stk_tape *tape = &net->tape;
    for (uint32_t i = span.begin; i < span.end; i++) {
        stk_net_execute(net, (stk_tape_span){ i, i + 1 }, batch);
        for (size_t k = STK_TAPE_PICTURES + 1; k < tape->tensor_count; k++)
            if (tape->tensors[k].last == i && !tape->tensors[k].of)
                memset(stk_net_tensor(net, (stk_tape_id)k), 0xff, tape->tensors[k].bytes);
    }
}

/* A sum over all gradients of a step, carried out as it is, or with dead memory spoilt. */
static double sum_of_gradients(const stoke_net_params *p, const sample_batch *b, int spoilt)
{
    stoke_net *net = open_net(p);
    const stoke_net_batch batch = view(b, BATCH);
    const stk_tape *tape = &net->tape;
    double sum = 0;
    assert_int_equal(stoke_net_backward(net, &batch, 1, NULL, NULL), 0); /* packs, and draws from now on */
    net->run.accumulate = 0;
    if (spoilt) memset(net->maps, 0xff, tape->bytes);
    if (spoilt)
        run_span(net, tape->forward, &batch);
    else
        stk_net_execute(net, tape->forward, &batch);
    const stk_tape_tensor *t = &tape->tensors[tape->d_logits];
    float *d_logits = stk_net_tensor(net, tape->d_logits);
    for (size_t i = 0; i < t->rows * BATCH * t->width; i++)
        d_logits[i] = i % t->width < CLASSES ? (float)(i % 13) / 100 - 0.06f : 0;
    if (spoilt)
        run_span(net, tape->backward, &batch);
    else
        stk_net_execute(net, tape->backward, &batch);
    for (size_t i = 0; i < net->parameters.trainable; i++) sum += net->gradients[i] * (double)(1 + i % 97);
    stoke_net_close(&net);
    return sum;
}

static void lives_of(const char *model, uint32_t height, uint32_t width)
{
    sample_batch *b = make_batch(1);
    stoke_net_params p = small_params();
    p.model = model;
    p.height = height;
    p.width = width;
    for (p.memory = STOKE_MEMORY_PLAIN; p.memory <= STOKE_MEMORY_MIN; p.memory++)
        for (p.precision = STOKE_PRECISION_FP32; p.precision <= STOKE_PRECISION_FP16; p.precision++) {
            const double wanted = sum_of_gradients(&p, b, 0), got = sum_of_gradients(&p, b, 1);
            if (!(got == wanted))
                fail_msg("%s, memory mode %d, precision %d: %.17g with dead memory spoilt, %.17g without",
                         model, p.memory, p.precision, got, wanted);
        }
    free(b);
}

static void lives_cover_what_is_touched(void **state)
{
    (void)state;
    lives_of("b0", HEIGHT, WIDTH);
    lives_of("resnet", HEIGHT, WIDTH);
    lives_of("unet", 32, 32);
}

UNIT_GROUP(tape)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_lie_apart),          cmocka_unit_test(lives_cover_what_is_touched),
        cmocka_unit_test(work_is_that_of_the_shapes), cmocka_unit_test(what_nobody_wrote_is_refused),
        cmocka_unit_test(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
