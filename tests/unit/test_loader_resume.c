/* SPDX-License-Identifier: Apache-2.0
 *
 * Resuming: a state of a few bytes, restored with another number of workers, another prefetch depth, other
 * ranks.
 */
#include "tests/unit/fixture_pairs.h"

#include "src/loader/loader.h"

enum { MOST = 64, COUNT = 50 };

static void open_both(const stoke_data_params *params, stoke_dataset **dataset, stoke_loader **loader)
{
    stoke_error err = { 0 };
    if (stoke_dataset_open(dataset, params, &err)) fail_msg("%s", err.message);
    if (stoke_loader_create(loader, *dataset, params, NULL, &err)) fail_msg("%s", err.message);
}

static void close_both(stoke_dataset **dataset, stoke_loader **loader)
{
    stoke_loader_destroy(loader);
    stoke_dataset_close(dataset);
}

/* Every third batch of the run from the second on, as one process of three takes them, to the 26th. */
static uint64_t every_third(const void *context, uint64_t k)
{
    const uint64_t number = *(const uint64_t *)context + 3 * k;
    return number < 26 ? number : UINT64_MAX;
}

/* Of two epochs of 13 batches, whatever the workers. */
static void a_route_goes_over_epochs(void **state)
{
    pairs_write(state, COUNT, 32, 32);
    stoke_data_params params = pairs_params(state);
    params.augment = "crop";
    pairs_digest whole[2][MOST], part[MOST];
    for (params.epoch = 0; params.epoch < 2; params.epoch++)
        assert_int_equal(pairs_epoch(&params, whole[params.epoch], MOST), 13);
    params.epoch = 1; /* a route begins where it says */
    for (params.workers = 0; params.workers < 3; params.workers++)
        for (uint64_t first = 0; first < 3; first++) {
            stoke_dataset *dataset;
            stoke_loader *loader;
            int status;
            open_both(&params, &dataset, &loader);
            if (first) pairs_take(loader, part, 2, &status);
            stk_loader_follow(loader, &(stk_loader_route){ every_third, &first });
            const size_t n = pairs_take(loader, part, MOST, &status);
            assert_int_equal(status, STOKE_E_END);
            assert_int_equal(n, (26 - first + 2) / 3);
            for (size_t k = 0; k < n; k++) {
                const uint64_t number = first + 3 * k;
                const pairs_digest *same = &whole[number / 13][number % 13];
                assert_int_equal(part[k].epoch, number / 13);
                assert_int_equal(part[k].index, same->index);
                assert_int_equal(part[k].position, same->position);
                assert_int_equal(part[k].count, same->count);
                assert_memory_equal(part[k].digest, same->digest, 16);
            }
            close_both(&dataset, &loader);
        }
}

static void resume_in_the_middle_goes_on_exactly(void **state)
{
    pairs_write(state, COUNT, 32, 32);
    stoke_data_params params = pairs_params(state);
    params.augment = "crop";
    params.epoch = 3;
    pairs_digest whole[MOST], rest[MOST];
    const size_t n = pairs_epoch(&params, whole, MOST);
    assert_int_equal(n, 13);
    for (size_t taken = 0; taken <= n; taken++) {
        char text[256];
        int status;
        stoke_dataset *dataset;
        stoke_loader *loader;
        params.workers = (int)(taken % 3);
        params.prefetch = 1 + (int)(taken % 4);
        open_both(&params, &dataset, &loader);
        pairs_take(loader, rest, taken, &status);
        assert_in_range(stoke_loader_state(loader, text, sizeof text), 50, 255);
        close_both(&dataset, &loader);

        params.workers = 2 - (int)(taken % 3);
        params.prefetch = 4 - (int)(taken % 4);
        params.epoch = 0; /* the state knows better */
        open_both(&params, &dataset, &loader);
        assert_int_equal(stoke_loader_restore(loader, text, NULL), 0);
        assert_int_equal(stoke_loader_remaining(loader), n - taken);
        assert_int_equal(stoke_loader_batches(loader), n);
        assert_int_equal(pairs_take(loader, rest, MOST, &status), n - taken);
        assert_int_equal(status, STOKE_E_END);
        for (size_t i = 0; i < n - taken; i++) {
            assert_int_equal(rest[i].index, whole[taken + i].index);
            assert_memory_equal(rest[i].digest, whole[taken + i].digest, 16);
        }
        stoke_loader_set_epoch(loader, 4); /* the next epoch is a whole one */
        assert_int_equal(pairs_take(loader, rest, MOST, &status), n);
        close_both(&dataset, &loader);
        params.epoch = 3;
    }
}

static void resume_with_other_ranks(void **state)
{
    pairs_write(state, COUNT, 32, 32);
    stoke_data_params params = pairs_params(state);
    pairs_digest whole[MOST], part[MOST];
    const size_t n = pairs_epoch(&params, whole, MOST);
    char text[256];
    int status;
    stoke_dataset *dataset;
    stoke_loader *loader;
    params.world = 2; /* two ranks take two batches each: global batches 0..3 */
    params.rank = 1;
    open_both(&params, &dataset, &loader);
    pairs_take(loader, part, 2, &status);
    assert_int_equal(part[1].index, 3);
    stoke_loader_state(loader, text, sizeof text);
    close_both(&dataset, &loader);
    uint32_t seen = 0;
    params.world = 3;
    for (params.rank = 0; params.rank < 3; params.rank++) {
        open_both(&params, &dataset, &loader);
        assert_int_equal(stoke_loader_restore(loader, text, NULL), 0);
        const size_t m = pairs_take(loader, part, MOST, &status);
        assert_int_equal(m, 3);
        for (size_t i = 0; i < m; i++) {
            if (part[i].position >= COUNT) continue;
            assert_memory_equal(part[i].digest, whole[part[i].index].digest, 16);
            seen |= 1u << part[i].index;
        }
        close_both(&dataset, &loader);
    }
    assert_int_equal(seen, ((1u << n) - 1) & ~0xfu);
}

static void foreign_states_are_refused(void **state)
{
    pairs_write(state, 8, 32, 32);
    stoke_data_params params = pairs_params(state);
    stoke_dataset *dataset;
    stoke_loader *loader;
    stoke_error err;
    open_both(&params, &dataset, &loader);
    char good[256], text[300];
    stoke_loader_state(loader, good, sizeof good);
    static const struct {
        const char *from, *to, *expected;
    } changes[] = {
        { "\"version\":1", "\"version\":9", "version 9" },
        { "\"seed\":0", "\"seed\":5", "saved with seed 5" },
        { "\"count\":8", "\"count\":9", "saved with 9 samples" },
        { "\"position\":0", "\"position\":99", "past the last sample" },
        { "\"position\":0", "\"position\":-1", "not a whole number" },
        { "\"position\":0", "\"position\":99999999999999999999", "not a whole number" },
        { "\"position\":0,", "", "\"position\" is missing" },
        { "shuffle", "weighted", "saved with order weighted" },
        { "fingerprint\":\"", "fingerprint\":\"0", "names differ" },
        { "{", "", "byte 9: more text" },
        { "}", "", "byte " },
        { "}", "}}", "more text after" },
        { "\"epoch\":0", "\"epoch\":0,\"epoch\":1", "stands twice" },
        { "\"epoch\":0", "\"epoch\":[0]", "not a whole number" },
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *at = strstr(good, changes[i].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, changes[i].to,
                 at + strlen(changes[i].from));
        if (stoke_loader_restore(loader, text, &err) == 0 || !strstr(err.message, changes[i].expected))
            fail_msg("case %zu: %s", i, err.message);
    }
    assert_int_equal(stoke_loader_restore(loader, good, &err), 0);
    close_both(&dataset, &loader);
}

UNIT_GROUP(loader_resume)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(resume_in_the_middle_goes_on_exactly),
        unit_test_with_folder(a_route_goes_over_epochs),
        unit_test_with_folder(resume_with_other_ranks),
        unit_test_with_folder(foreign_states_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
