/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of the six models, the list of their tensors and what they are filled with.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "src/base/mem.h"
#include "src/net/segformer/segformer.h"
#include "tests/unit/fixture_parameters.h"

static stk_parameters list_of(const char *model, uint32_t classes)
{
    stk_network_config config;
    stk_parameters p;
    assert_int_equal(stk_network_find(&config, model, classes, NULL), STOKE_OK);
    assert_int_equal(list_parameters(&p, &config, NULL), STOKE_OK);
    return p;
}

static void configs_have_names(void **state)
{
    (void)state;
    stk_network_config config;
    stoke_error err;
    assert_int_equal(stk_network_find(&config, "b6", 2, &err), STOKE_E_NOTFOUND);
    assert_string_equal(err.message,
                        "no model is called \"b6\": there are b0, b1, b2, b3, b4, b5, resnet and unet");
    assert_int_equal(stk_network_find(&config, "b0", 0, &err), STOKE_E_INVALID);
    assert_int_equal(stk_network_find(&config, "b0", 65536, &err), STOKE_E_INVALID);
    assert_int_equal(stk_network_find(&config, "b0", 65535, &err), STOKE_OK);
    for (int i = 0; i < 6; i++) {
        stk_segformer_config like;
        assert_int_equal(stk_network_find(&config, (char[]){ 'b', (char)('0' + i), 0 }, 7, &err), STOKE_OK);
        stk_segformer_config sizes = stk_segformer_sizes(config.model, 7);
        assert_true(stk_segformer_like(&like, sizes.hidden, sizes.depths));
        assert_string_equal(like.model, config.model);
        assert_int_equal(like.classes, 0);
        sizes.depths[3]++;
        assert_false(stk_segformer_like(&like, sizes.hidden, sizes.depths));
    }
}

/* Counted by torch in Hugging Face's networks; num_batches_tracked is not in our list. */
static void counts_are_hugging_faces(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        uint64_t elements[3]; /* 150, 19, 2 classes */
        size_t tensors;
    } cases[] = {
        { "b0", { 3752694, 3719027, 3714658 }, 208 },    { "b1", { 13715798, 13682131, 13677762 }, 208 },
        { "b2", { 27461974, 27361235, 27348162 }, 380 }, { "b3", { 47337814, 47237075, 47224002 }, 644 },
        { "b4", { 64108374, 64007635, 63994562 }, 930 }, { "b5", { 84708694, 84607955, 84594882 }, 1172 },
    };
    static const uint32_t classes[] = { 150, 19, 2 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int c = 0; c < 3; c++) {
            stk_parameters p = list_of(cases[i].model, classes[c]);
            assert_int_equal(p.elements, cases[i].elements[c]);
            assert_int_equal(p.count, cases[i].tensors - 1);
            stk_parameters_free(&p);
        }
}

static void places_are_aligned_and_apart(void **state)
{
    (void)state;
    stk_parameters p = list_of("b3", 19);
    size_t end = 0;
    int trainable = 1;
    for (size_t i = 0; i < p.count; i++) {
        const stk_parameter *one = &p.list[i];
        assert_int_equal(one->offset % 16, 0);
        assert_true(one->offset >= end && one->offset < end + 16);
        end = one->offset + one->count;
        if (trainable && !one->trainable) assert_int_equal(one->offset, p.trainable);
        assert_true(trainable || !one->trainable); /* no trainable one behind the others */
        trainable = one->trainable;
        assert_ptr_equal(stk_parameters_find(&p, one->name), one);
    }
    assert_true(p.floats >= end && p.floats < end + 16 && p.floats % 16 == 0);
    assert_null(stk_parameters_find(&p, "decode_head.batch_norm.num_batches_tracked"));
    stk_parameters_free(&p);
}

static void order_is_that_of_the_modules(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "segformer.encoder.patch_embeddings.0.proj.weight",
        "segformer.encoder.patch_embeddings.0.proj.bias",
        "segformer.encoder.patch_embeddings.0.layer_norm.weight",
    };
    static const char *const block[] = {
        "layer_norm_1.weight",
        "layer_norm_1.bias",
        "attention.self.query.weight",
        "attention.self.query.bias",
        "attention.self.key.weight",
        "attention.self.key.bias",
        "attention.self.value.weight",
        "attention.self.value.bias",
        "attention.self.sr.weight",
        "attention.self.sr.bias",
        "attention.self.layer_norm.weight",
        "attention.self.layer_norm.bias",
        "attention.output.dense.weight",
        "attention.output.dense.bias",
        "layer_norm_2.weight",
        "layer_norm_2.bias",
        "mlp.dense1.weight",
        "mlp.dense1.bias",
        "mlp.dwconv.dwconv.weight",
        "mlp.dwconv.dwconv.bias",
        "mlp.dense2.weight",
        "mlp.dense2.bias",
    };
    static const char *const tails[] = {
        "decode_head.linear_c.3.proj.bias",    "decode_head.linear_fuse.weight",
        "decode_head.batch_norm.weight",       "decode_head.batch_norm.bias",
        "decode_head.classifier.weight",       "decode_head.classifier.bias",
        "decode_head.batch_norm.running_mean", "decode_head.batch_norm.running_var",
    };
    stk_parameters p = list_of("b0", 19);
    for (size_t i = 0; i < 3; i++) assert_string_equal(p.list[i].name, heads[i]);
    for (size_t i = 0; i < 22; i++) {
        char name[STK_NAME];
        snprintf(name, sizeof name, "segformer.encoder.block.0.0.%s", block[i]);
        assert_string_equal(p.list[16 + i].name, name);
    }
    /* The last stage reduces nothing. */
    assert_null(stk_parameters_find(&p, "segformer.encoder.block.3.0.attention.self.sr.weight"));
    for (size_t i = 0; i < 8; i++) assert_string_equal(p.list[p.count - 8 + i].name, tails[i]);
    stk_parameters_free(&p);
}

static void marks_are_right(void **state)
{
    (void)state;
    stk_parameters p = list_of("b0", 19);
    size_t heads = 0, norms = 0;
    for (size_t i = 0; i < p.count; i++) {
        heads += (size_t)p.list[i].head;
        norms += (size_t)p.list[i].norm;
        /* what is neither norm nor bias has at least two dimensions */
        assert_int_equal(p.list[i].dims == 1, p.list[i].norm || strstr(p.list[i].name, ".bias") != NULL);
    }
    assert_int_equal(heads, 15); /* 4 x 2, fuse, batch norm 4, classifier 2 */
    assert_int_equal(norms, 2 * (4 + 8 * 2 + 6 + 4) + 4);
    const stk_parameter *sr = stk_parameters_find(&p, "segformer.encoder.block.1.1.attention.self.sr.weight");
    assert_int_equal(sr->dims, 4);
    assert_memory_equal(sr->shape, ((uint32_t[]){ 64, 64, 4, 4 }), sizeof sr->shape);
    stk_parameters_free(&p);
}

/* FNV-1a of the bytes. */
static uint64_t sum_of(const void *bytes, size_t size)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) sum = (sum ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* All of it by so many threads; NaN first, so that gaps must be written too. */
static void initialise(const stk_parameters *p, float *values, uint64_t seed, uint32_t threads)
{
    stk_threadpool *team;
    assert_int_equal(stk_threadpool_create(&team, threads, NULL), STOKE_OK);
    memset(values, 0xff, p->floats * sizeof *values);
    stk_parameters_initialise(p, values, seed, team);
    stk_threadpool_destroy(&team);
}

/* The first values are the same on every machine: this number was got on one and holds on all. */
static void first_values_are_pinned(void **state)
{
    (void)state;
    stk_parameters p = list_of("b0", 19);
    float *a = stk_alloc(p.floats * sizeof *a), *b = stk_alloc(p.floats * sizeof *b);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        initialise(&p, a, 1, threads);
        assert_true(sum_of(a, p.floats * sizeof *a) == UINT64_C(0xa1cab4868c21ccea));
    }
    /* a tensor alone gets the same, and nothing else is touched */
    const stk_parameter *one = stk_parameters_find(&p, "decode_head.classifier.weight");
    memset(b, 0x55, p.floats * sizeof *b);
    stk_parameter_initialise(one, b, 1);
    assert_memory_equal(a + one->offset, b + one->offset, one->count * sizeof *b);
    assert_true(sum_of(b + one->offset - 1, 4) == sum_of("UUUU", 4));
    assert_true(sum_of(b + one->offset + one->count, 4) == sum_of("UUUU", 4));
    stk_parameter_initialise(one, b, 2);
    assert_memory_not_equal(a + one->offset, b + one->offset, one->count * sizeof *b);
    stk_free(a);
    stk_free(b);
    stk_parameters_free(&p);
}

/* normal(0, 0.02): mean, deviation, fourth moment (3 for a normal), and neighbours that know nothing of each
 * other; limits at five deviations of what so many draws give. */
static void weights_are_normal(void **state)
{
    (void)state;
    stk_parameters p = list_of("b0", 19);
    float *values = stk_alloc(p.floats * sizeof *values);
    initialise(&p, values, 3, 2);
    for (size_t i = 0; i < p.count; i++) {
        const stk_parameter *one = &p.list[i];
        const float *v = values + one->offset;
        const int weight = strstr(one->name, ".weight") != NULL;
        if (!weight || one->norm) {
            const float wanted = weight || strstr(one->name, "running_var") ? 1 : 0;
            for (size_t k = 0; k < one->count; k++) assert_true(v[k] == wanted);
            continue;
        }
        double m1 = 0, m2 = 0, m4 = 0, next = 0;
        const double n = (double)one->count;
        for (size_t k = 0; k < one->count; k++) {
            const double x = v[k] / 0.02;
            m1 += x;
            m2 += x * x;
            m4 += x * x * x * x;
            if (k) next += x * v[k - 1] / 0.02;
        }
        assert_true(fabs(m1) < 5 * sqrt(n));
        assert_true(fabs(m2 - n) < 5 * sqrt(2 * n));
        assert_true(fabs(m4 - 3 * n) < 5 * sqrt(96 * n));
        assert_true(fabs(next) < 5 * sqrt(n));
    }
    /* two tensors of one shape share nothing */
    const stk_parameter *q =
        stk_parameters_find(&p, "segformer.encoder.block.3.0.attention.self.query.weight");
    const stk_parameter *k = stk_parameters_find(&p, "segformer.encoder.block.3.0.attention.self.key.weight");
    double both = 0;
    for (size_t i = 0; i < q->count; i++) both += values[q->offset + i] * values[k->offset + i] / 0.0004;
    assert_true(fabs(both) < 5 * sqrt((double)q->count));
    stk_free(values);
    stk_parameters_free(&p);
}

static void survives_without_memory(void **state)
{
    (void)state;
    stk_network_config config;
    assert_int_equal(stk_network_find(&config, "b1", 3, NULL), STOKE_OK);
    int status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        stk_parameters p;
        stk_mem_fail_after(after);
        status = list_parameters(&p, &config, NULL);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || (status == STOKE_E_NOMEM && !p.list && after < 30));
        stk_parameters_free(&p);
    }
}

UNIT_GROUP(parameters)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configs_have_names),
        cmocka_unit_test(counts_are_hugging_faces),
        cmocka_unit_test(places_are_aligned_and_apart),
        cmocka_unit_test(order_is_that_of_the_modules),
        cmocka_unit_test(marks_are_right),
        cmocka_unit_test(first_values_are_pinned),
        cmocka_unit_test(weights_are_normal),
        cmocka_unit_test(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
