/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice: the documents' tables word by word, names of cards, and what is cut for memory and cores.
 */
#include "tests/unit/unit.h"

#include "src/tune/advice/advice_tables.h"
#include <stoke/advise.h>
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
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const stk_advice_name found = stk_advice_card(names[i].typed);
        if (!found.card) fail_msg("%s is not found", names[i].typed);
        assert_string_equal(found.card->name, names[i].card);
        assert_int_equal(found.gb, names[i].gb);
        assert_int_equal(found.portable, 0);
    }
    assert_int_equal(stk_advice_card("NVIDIA GeForce RTX 4090 Laptop GPU").portable, 1);
    assert_null(stk_advice_card("").card);
    assert_null(stk_advice_card("309").card);
    assert_null(stk_advice_card("RTX 3090 Ultra").card);
    assert_string_equal(stk_advice_card("RTX 3091").nearest, "RTX 3090");
}

/* What the documents say of a card stands in the advice, or the line says why not. */
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
            snprintf(says, sizeof says, "says %u with %s", (unsigned)rows[i].batch, rows[i].model);
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
    assert_string_equal(value(&a, "prefetch"), "8");
    p = params_of(NULL, GB(7));
    a = advise(&p);
    assert_string_equal(value(&a, "image_size"), "256");
    assert_string_equal(value(&a, "prefetch"), "2");
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
        e.prefetch = count(&a, "prefetch");
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
    assert_non_null(strstr(a.remark, "12 GB"));
    /* A driver keeps some for itself (24564 MiB): still the card of the table, not the row of 16 GB. */
    p = params_of("NVIDIA GeForce RTX 3090", UINT64_C(24564) << 20);
    a = advise(&p);
    assert_string_equal(value(&a, "batch_size"), "24");
    assert_string_equal(value(&a, "prefetch"), "8");
    p = params_of("NVIDIA GeForce RTX 4090 Laptop GPU", GB(16));
    a = advise(&p);
    assert_non_null(strstr(a.subject, "Laptop"));
    assert_null(strstr(find(&a, "batch_size")->why, "RTX 4090"));
}

static void workers_by_cores(void **state)
{
    static const struct {
        uint32_t cores, ranks, workers;
        int source;
    } cases[] = {
        { 64, 1, 16, STOKE_SOURCE_TABLE },   { 12, 1, 11, STOKE_SOURCE_TABLE },
        { 4, 1, 3, STOKE_SOURCE_MEASURED },  { 64, 4, 15, STOKE_SOURCE_TABLE },
        { 16, 4, 3, STOKE_SOURCE_MEASURED }, { 1, 1, 0, STOKE_SOURCE_MEASURED },
        { 2, 4, 0, STOKE_SOURCE_MEASURED },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_recommend_params p = params_of("RTX 3060", 0);
        p.cores = cases[i].cores;
        p.ranks = cases[i].ranks;
        const stoke_advice a = advise(&p);
        assert_int_equal(count(&a, "num_workers"), cases[i].workers);
        assert_int_equal(find(&a, "num_workers")->source, cases[i].source);
        assert_true(cases[i].workers * cases[i].ranks + 1 <= cases[i].cores || !cases[i].workers);
        /* PyTorch refuses both without workers. */
        assert_int_equal(!!find(&a, "persistent_workers"), cases[i].workers > 0);
        assert_int_equal(!!find(&a, "prefetch_factor"), cases[i].workers > 0);
    }
    stoke_recommend_params p = params_of("RTX 3060", 0);
    p.host_memory = GB(4);
    const stoke_advice a = advise(&p);
    assert_int_equal(find(&a, "num_workers")->source, STOKE_SOURCE_ESTIMATED);
    assert_true(count(&a, "num_workers") < 8);
}

static void small_network(void **state)
{
    (void)state;
    stoke_recommend_params p = params_of("RTX 4090", 0);
    p.task = "smallnet";
    stoke_advice a = advise(&p);
    assert_string_equal(value(&a, "base_channels"), "128");
    assert_string_equal(value(&a, "num_blocks"), "12");
    assert_string_equal(value(&a, "patch_size"), "256");
    assert_string_equal(value(&a, "num_workers"), "12");
    assert_null(find(&a, "model"));
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
    p.gpu = NULL;
    stoke_error err = { 0 };
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_UNSUPPORTED);
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
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "RTX 3090"));
    p.gpu = "RTX 4090 Laptop";
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "laptop"));
    p = params_of(NULL, GB(8));
    p.task = "yolo";
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "smallnet"));
    p = params_of(NULL, GB(8));
    p.ranks = 0;
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_INVALID);
    p.struct_size = 0;
    assert_int_equal(stoke_recommend(&a, &p, &err), STOKE_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_by_any_name), cmocka_unit_test(tables_word_by_word),
        cmocka_unit_test(advice_fits),       cmocka_unit_test(memory_goes_before_the_name),
        cmocka_unit_test(workers_by_cores),  cmocka_unit_test(small_network),
        cmocka_unit_test(processor_alone),   cmocka_unit_test(wrong_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
