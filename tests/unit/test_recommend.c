/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice: the tables row by row, names of cards, and what is cut for memory and cores.
 */
#include "tests/unit/unit.h"

#include "src/tune/advice/advice.h"
#include <stoke/tools/advise.h>
#include <stoke/net.h>

#define GB(n) ((uint64_t)(n) << 30)

static stoke_recommend_params params_of(const char *gpu, uint64_t memory)
{
    stoke_recommend_params p = stoke_recommend_defaults();
    p.gpu = gpu;
    p.memory = memory;
    p.cores = 32;
    p.host_memory = GB(64);
    return p;
}

static stoke_advice advise(const stoke_recommend_params *p)
{
    stoke_advice advice;
    stoke_error err = { 0 };
    if (stoke_recommend(&advice, p, &err)) fail_msg("%s", err.message);
    return advice;
}

static const stoke_recommendation *find(const stoke_advice *advice, const char *key)
{
    for (size_t i = 0; i < advice->n; i++)
        if (!strcmp(advice->line[i].key, key)) return &advice->line[i];
    return NULL;
}

static const char *value(const stoke_advice *advice, const char *key)
{
    const stoke_recommendation *r = find(advice, key);
    return r ? r->value : "";
}

static uint32_t count(const stoke_advice *advice, const char *key)
{
    return (uint32_t)strtoul(value(advice, key), NULL, 10);
}

static void cards_by_any_name(void **state)
{
    static const struct {
        const char *typed, *card;
        uint32_t gb;
    } names[] = {
        { "NVIDIA GeForce RTX 3090", "RTX 3090", 0 },
        { "rtx3090", "RTX 3090", 0 },
        { "RTX-3090", "RTX 3090", 0 },
        { "3090", "RTX 3090", 0 },
        { "3090 ti", "RTX 3090 Ti", 0 },
        { "NVIDIA GeForce RTX 4080 SUPER", "RTX 4080 SUPER", 0 },
        { "Tesla T4", "T4", 0 },
        { "GeForce GTX 1650", "GTX 1650", 0 },
        { "NVIDIA A100-SXM4-40GB", "A100", 40 },
        { "NVIDIA A100 80GB PCIe", "A100", 80 },
        { "NVIDIA H100 80GB HBM3", "H100", 80 },
        { "RTX 3050 4 GB", "RTX 3050", 4 },
        { "RTX 3050 4GB", "RTX 3050", 4 },
        { "NVIDIA GeForce GTX 1660 Ti", "GTX 1660 Ti", 0 },
        { "MX450", "MX450", 0 },
        { "NVIDIA GeForce MX450", "MX450", 0 },
        { "Tesla V100-SXM2-16GB", "V100", 16 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const stk_gpu_name found = stk_gpu_named(names[i].typed);
        if (!found.gpu) fail_msg("%s is not found", names[i].typed);
        assert_string_equal(found.gpu->name, names[i].card);
        assert_int_equal(found.gb, names[i].gb);
        assert_int_equal(found.portable, 0);
    }
    assert_int_equal(stk_gpu_named("NVIDIA GeForce RTX 4090 Laptop GPU").portable, 1);
    assert_null(stk_gpu_named("").gpu);
    assert_null(stk_gpu_named("309").gpu);
    assert_null(stk_gpu_named("RTX 3090 Ultra").gpu);
    assert_string_equal(stk_gpu_named("RTX 3091").nearest, "RTX 3090");
}

/* What the table says of a card stands in the advice, or the line says why not. */
static void tables_word_by_word(void **state)
{
    static const struct {
        const char *card, *model;
        uint32_t gb, batch;
    } rows[] = {
        { "RTX 4090", "b5", 24, 32 }, { "RTX 3090", "b5", 24, 24 }, { "RTX 3080", "b4", 10, 8 },
        { "RTX 3060", "b4", 12, 8 },  { "RTX 3050", "b2", 8, 4 },   { "GTX 1650", "b0", 4, 2 },
        { "T4", "b5", 16, 16 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const stoke_recommend_params p = params_of(rows[i].card, 0);
        const stoke_advice a = advise(&p);
        const stoke_recommendation *batch = find(&a, "batch_size");
        assert_int_equal(a.memory, GB(rows[i].gb));
        print_message("# %s: %s, batch %s (%s)\n", a.subject, value(&a, "model"), batch->value, batch->why);
        if (batch->source == STOKE_SOURCE_TABLE) {
            assert_string_equal(value(&a, "model"), rows[i].model);
            assert_int_equal(count(&a, "batch_size"), rows[i].batch);
            assert_non_null(strstr(batch->why, rows[i].card));
        } else {
            char says[32];
            snprintf(says, sizeof says, "are %u, but with %s", (unsigned)rows[i].batch, rows[i].model);
            assert_int_equal(batch->source, STOKE_SOURCE_ESTIMATED);
            assert_non_null(strstr(batch->why, says));
            assert_non_null(strstr(a.remark, "disagree"));
        }
    }
    stoke_recommend_params p = params_of("T4", 0);
    stoke_advice a = advise(&p);
    assert_string_equal(value(&a, "num_workers"), "2");
    p = params_of(NULL, GB(4));
    a = advise(&p);
    assert_string_equal(value(&a, "model"), "b0");
    assert_string_equal(value(&a, "image_size"), "224");
    assert_string_equal(value(&a, "learning_rate"), "2.0e-4");
    assert_string_equal(value(&a, "epochs"), "50");
    assert_string_equal(value(&a, "accumulate"), "4");
    assert_string_equal(value(&a, "scheduler"), "none");
    p = params_of(NULL, GB(2)); /* the row's batch of 2 does not fit: its 4 times become 8 */
    a = advise(&p);
    assert_string_equal(value(&a, "batch_size"), "1");
    assert_string_equal(value(&a, "accumulate"), "8");
    p = params_of(NULL, GB(48));
    a = advise(&p);
    assert_string_equal(value(&a, "batch_size"), "32");
    assert_string_equal(value(&a, "learning_rate"), "3.0e-4");
    assert_string_equal(value(&a, "prefetch_factor"), "8");
    p = params_of(NULL, GB(7));
    a = advise(&p);
    assert_string_equal(value(&a, "image_size"), "256");
    assert_string_equal(value(&a, "prefetch_factor"), "2");
}

/* What is usual for the memory, whatever card has it. */
static void tiers_of_named_cards(void **state)
{
    static const struct {
        const char *card, *model, *batch, *lr, *epochs, *scheduler, *prefetch;
    } rows[] = {
        { "A100", "b5", "32", "3.0e-4", "100", "cosine", "8" },
        { "RTX 4070", "b4", "8", "3.0e-4", "100", "cosine", "4" },
        { "RTX 3060", "b4", "8", "3.0e-4", "100", "cosine", "4" },
        { "RTX 2060", "b2", "4", "3.0e-4", "100", "cosine", "2" },
        { "GTX 1660 Ti", "b2", "4", "3.0e-4", "100", "cosine", "2" },
        { "RTX 3050 4 GB", "b0", "2", "2.0e-4", "50", "none", "2" },
        { "MX450", "b0", "2", "2.0e-4", "50", "none", "2" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const stoke_recommend_params p = params_of(rows[i].card, 0);
        const stoke_advice a = advise(&p);
        assert_string_equal(value(&a, "model"), rows[i].model);
        assert_string_equal(value(&a, "batch_size"), rows[i].batch);
        assert_string_equal(value(&a, "learning_rate"), rows[i].lr);
        assert_string_equal(value(&a, "epochs"), rows[i].epochs);
        assert_string_equal(value(&a, "scheduler"), rows[i].scheduler);
        assert_string_equal(value(&a, "prefetch_factor"), rows[i].prefetch);
    }
}

/* Beside the settings, never among them. */
static void what_to_expect(void **state)
{
    static const struct {
        const char *card, *epoch, *f1;
    } rows[] = {
        { "RTX 4090", "1 to 2 min", "0.95 to 0.96" },  { "RTX 3080", "2 to 3 min", "0.93 to 0.95" },
        { "RTX 3060", "3 to 4 min", "0.93 to 0.95" },  { "RTX 3050", "5 to 7 min", "0.91 to 0.93" },
        { "GTX 1650", "7 to 10 min", "0.88 to 0.91" }, { NULL, "30 to 40 min", "0.85 to 0.88" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const stoke_recommend_params p = params_of(rows[i].card, 0);
        const stoke_advice a = advise(&p);
        assert_int_equal(a.n_expected, 3);
        assert_string_equal(a.expected[0].value, rows[i].epoch);
        assert_string_equal(a.expected[2].value, rows[i].f1);
        assert_int_equal(a.expected[2].source, STOKE_SOURCE_TABLE);
    }
    stoke_recommend_params p = params_of("RTX 4080", 0);
    assert_int_equal(advise(&p).n_expected, 0); /* nobody told of it */
    p.task = "resnet";
    const stoke_advice a = advise(&p);
    assert_string_equal(a.expected[0].value, "80 %");
    assert_string_equal(a.expected[1].value, "2 to 4 times");
}

static const stoke_model_choice *chosen(stoke_model_choice choices[STOKE_MODELS], const char *gpu,
                                        uint64_t memory, uint32_t samples, double hours)
{
    stoke_choose_params p = stoke_choose_defaults();
    stoke_error err = { 0 };
    p.gpu = gpu;
    p.memory = memory;
    p.samples = samples;
    p.hours = hours;
    if (stoke_choose_model(choices, &p, &err)) fail_msg("%s", err.message);
    for (size_t i = 0; i < STOKE_MODELS; i++) {
        assert_true(*choices[i].why);
        if (choices[i].chosen) return &choices[i];
    }
    return NULL;
}

static void which_model(void **state)
{
    stoke_model_choice c[STOKE_MODELS];
    (void)state;
    assert_string_equal(chosen(c, NULL, GB(24), 0, 0)->model, "b5");
    assert_string_equal(chosen(c, NULL, GB(12), 0, 0)->model, "b4");
    assert_string_equal(chosen(c, NULL, GB(8), 0, 0)->model, "b2");
    assert_string_equal(chosen(c, NULL, GB(4), 0, 0)->model, "b0");
    assert_null(chosen(c, NULL, GB(1), 0, 0));
    /* Few pictures are learnt by heart. */
    assert_string_equal(chosen(c, NULL, GB(24), 100, 0)->model, "b1");
    assert_non_null(strstr(c[5].why, "100 pictures"));
    assert_string_equal(chosen(c, NULL, GB(24), 1000, 0)->model, "b2");
    assert_string_equal(chosen(c, NULL, GB(24), 100000, 0)->model, "b5");
    /* Time, where the GPU can be simulated. */
    const stoke_model_choice *slow = chosen(c, "RTX 3090", 0, 20000, 0);
    assert_string_equal(slow->model, "b5");
    assert_true(c[0].hours > 0 && c[0].hours < c[4].hours && c[4].hours < c[5].hours);
    const double enough_for_b2 = c[2].hours * 1.01;
    assert_string_equal(chosen(c, "RTX 3090", 0, 20000, enough_for_b2)->model, "b2");
    assert_non_null(strstr(c[5].why, "longer than"));
    stoke_choose_params p = stoke_choose_defaults();
    p.gpu = "abacus";
    assert_int_equal(stoke_choose_model(c, &p, NULL), STOKE_E_INVALID);
}

/* Whatever the memory: what is advised fits, or the remark says that nothing does. */
static void advice_fits(void **state)
{
    (void)state;
    for (uint32_t gb = 1; gb <= 24; gb++) {
        const stoke_recommend_params p = params_of(NULL, GB(gb));
        const stoke_advice a = advise(&p);
        stoke_estimate_params e = stoke_estimate_defaults();
        stoke_estimate estimate;
        e.model = value(&a, "model");
        e.batch = count(&a, "batch_size");
        e.height = e.width = count(&a, "image_size");
        e.precision = STOKE_PRECISION_FP16;
        assert_int_equal(stoke_estimate_make(&estimate, STOKE_ENGINE_TORCH, &e, NULL), 0);
        const uint32_t times = find(&a, "accumulate") ? count(&a, "accumulate") : 1;
        assert_true(e.batch * times >= stk_tier_of(GB(gb))->batch); /* what a step sees is not cut */
        const int fits = estimate.high + GB(1) <= GB(gb);
        assert_int_equal(fits, !strstr(a.remark, "Not even batch 1"));
    }
}

/* A card that loses memory keeps its name, not its row. */
static void memory_goes_before_the_name(void **state)
{
    (void)state;
    stoke_recommend_params p = params_of("NVIDIA GeForce RTX 3060", GB(8));
    stoke_advice a = advise(&p);
    assert_string_equal(value(&a, "model"), "b2");
    /* A driver keeps some for itself (24564 MiB): still the card of the table, not the row of 16 GB. */
    p = params_of("NVIDIA GeForce RTX 3090", UINT64_C(24564) << 20);
    a = advise(&p);
    assert_string_equal(value(&a, "batch_size"), "24");
    assert_string_equal(value(&a, "prefetch_factor"), "8");
    p = params_of("NVIDIA GeForce RTX 4090 Laptop GPU", GB(16));
    a = advise(&p);
    assert_non_null(strstr(a.subject, "Laptop"));
    assert_null(strstr(find(&a, "batch_size")->why, "RTX 4090"));
}

static void workers_by_cores(void **state)
{
    static const struct {
        uint32_t cores, ranks;
        int from;
        uint32_t workers;
        int source;
    } cases[] = {
        { 64, 1, STOKE_SOURCE_MEASURED, 16, STOKE_SOURCE_TABLE },
        { 12, 1, STOKE_SOURCE_MEASURED, 8, STOKE_SOURCE_MEASURED },
        { 6, 1, STOKE_SOURCE_MEASURED, 4, STOKE_SOURCE_MEASURED },
        { 6, 1, STOKE_SOURCE_GIVEN, 4, STOKE_SOURCE_GIVEN },
        { 24, 4, STOKE_SOURCE_GIVEN, 4, STOKE_SOURCE_GIVEN },
        { 1, 1, STOKE_SOURCE_MEASURED, 1, STOKE_SOURCE_MEASURED },
        { 2, 4, STOKE_SOURCE_MEASURED, 1, STOKE_SOURCE_MEASURED },
        { 2, 1, STOKE_SOURCE_NA, 8, STOKE_SOURCE_TABLE }, /* of another machine: these two say nothing */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_recommend_params p = params_of("RTX 3060", 0);
        p.cores = cases[i].cores;
        p.ranks = cases[i].ranks;
        p.cores_source = cases[i].from;
        const stoke_advice a = advise(&p);
        assert_int_equal(count(&a, "num_workers"), cases[i].workers);
        assert_int_equal(find(&a, "num_workers")->source, cases[i].source);
        assert_non_null(find(&a, "persistent_workers"));
        assert_non_null(find(&a, "prefetch_factor"));
    }
    stoke_recommend_params p = params_of("RTX 3060", 0);
    p.host_memory = GB(4);
    const stoke_advice a = advise(&p);
    assert_int_equal(find(&a, "num_workers")->source, STOKE_SOURCE_ESTIMATED);
    assert_true(count(&a, "num_workers") < 8);
}

/* A card is meant, and nobody says which: all but what its memory decides. */
static void some_card(void **state)
{
    (void)state;
    for (int small = 0; small < 2; small++) {
        stoke_recommend_params p = params_of(NULL, 0);
        p.some_card = 1;
        p.task = small ? "smallnet" : "segformer";
        const stoke_advice a = advise(&p);
        assert_null(find(&a, "batch_size"));
        assert_null(find(&a, "model"));
        assert_string_equal(value(&a, "pin_memory"), "true");
        assert_string_equal(value(&a, "mixed_precision"), "true");
        assert_string_equal(value(&a, "compile"), "true");
        assert_string_equal(value(&a, "prefetch_factor"), "4");
        assert_string_equal(value(&a, "grad_clip"), "1.0");
        assert_non_null(strstr(a.remark, "memory"));
    }
}

static void small_network(void **state)
{
    (void)state;
    stoke_recommend_params p = params_of("RTX 4090", 0);
    p.task = "resnet";
    stoke_advice a = advise(&p);
    assert_string_equal(value(&a, "base_channels"), "128");
    assert_string_equal(value(&a, "num_blocks"), "12");
    assert_string_equal(value(&a, "patch_size"), "256");
    assert_string_equal(value(&a, "num_workers"), "12");
    assert_string_equal(value(&a, "use_perceptual"), "true");
    assert_string_equal(value(&a, "model"), "resnet");
    p.gpu = "GTX 1080";
    a = advise(&p);
    assert_string_equal(value(&a, "batch_size"), "16");
    assert_string_equal(value(&a, "base_channels"), "64");
    assert_string_equal(value(&a, "num_blocks"), "6");
    assert_string_equal(value(&a, "patch_size"), "128");
    assert_string_equal(value(&a, "use_perceptual"), "false");
    assert_string_equal(value(&a, "compile"), "false");
    p.gpu = "RTX 4080";
    a = advise(&p);
    assert_string_equal(value(&a, "base_channels"), "96");
    assert_non_null(strstr(find(&a, "patch_size")->why, "RTX 4070"));
    p.gpu = NULL; /* what needs no card is told, and what does is not made up */
    a = advise(&p);
    assert_null(find(&a, "batch_size"));
    assert_string_equal(value(&a, "pin_memory"), "true");
}

static void processor_alone(void **state)
{
    (void)state;
    stoke_recommend_params p = params_of(NULL, 0);
    stoke_advice a = advise(&p);
    assert_string_equal(value(&a, "model"), "b0");
    assert_string_equal(value(&a, "batch_size"), "1");
    assert_string_equal(value(&a, "epochs"), "5");
    assert_string_equal(value(&a, "num_workers"), "4");
    assert_string_equal(value(&a, "mixed_precision"), "false");
    assert_null(find(&a, "pin_memory"));
    assert_int_equal(a.memory, 0);
    assert_non_null(
        strstr(a.remark, "not measured here: left alone, `stoke train` takes batches of up to 8"));
    p.host_memory = UINT64_MAX; /* n/a */
    a = advise(&p);
    assert_null(strstr(find(&a, "batch_size")->why, "machine"));
}

static void wrong_parameters(void **state)
{
    (void)state;
    stoke_recommend_params p = params_of("RTX 3091", 0);
    stoke_advice a;
    stoke_error err = { 0 };
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "RTX 3090"));
    p.gpu = "RTX 4090 Laptop";
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "laptop"));
    p = params_of(NULL, GB(8));
    p.task = "yolo";
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "resnet"));
    p = params_of(NULL, GB(8));
    p.ranks = 0;
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_INVALID);
    p.struct_size = 0;
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_INVALID);
}

UNIT_GROUP(recommend)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_by_any_name),    cmocka_unit_test(tables_word_by_word),
        cmocka_unit_test(advice_fits),          cmocka_unit_test(memory_goes_before_the_name),
        cmocka_unit_test(workers_by_cores),     cmocka_unit_test(small_network),
        cmocka_unit_test(processor_alone),      cmocka_unit_test(wrong_parameters),
        cmocka_unit_test(tiers_of_named_cards), cmocka_unit_test(what_to_expect),
        cmocka_unit_test(which_model),          cmocka_unit_test(some_card),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
