/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated GPU: losses, a host without memory, threads.
 */
#include "tests/unit/fixture_sim_gpu.h"

#include <pthread.h>

#include "src/base/clock.h"
#include "src/base/mem.h"

/* Everything a device can be asked for, until something fails. */
static int all_calls(stoke_device *device, stoke_error *err)
{
    stk_device_block host = { 0 }, ordinary = { 0 }, there = { 0 };
    stk_device_stream *a = NULL, *b = NULL;
    stk_device_event *event = NULL;
    stk_device_module *module = NULL;
    uint64_t left, all, ns;
    int done, s = stoke_device_memory(device, &left, &all, err);
    if (!s) s = stk_block_create(&host, device, STK_MEMORY_PINNED, 1000, err);
    if (!s) s = stk_block_create(&ordinary, device, STK_MEMORY_PAGEABLE, 1000, err);
    if (!s) s = stk_block_create(&there, device, STK_MEMORY_DEVICE, 1000, err);
    if (!s) s = stk_stream_create(&a, device, err);
    if (!s) s = stk_stream_create(&b, device, err);
    if (!s) s = stk_event_create(&event, device, err);
    if (!s) s = stk_module_create(&module, device, &adding, err);
    if (!s) s = stk_stream_copy(a, &there, 0, &host, 0, 1000, err);
    if (!s) s = launch_add(a, module, &there, 1, 1000, err);
    if (!s) s = stk_event_record(event, a, err);
    if (!s) s = stk_stream_wait(b, event, err);
    if (!s) s = stk_stream_occupy(b, 100 * US, err);
    if (!s) s = stk_stream_copy(b, &ordinary, 0, &there, 0, 1000, err);
    if (!s) s = stk_event_done(event, &done, err);
    if (!s) s = stk_event_finish(event, err);
    if (!s) s = stk_event_time(event, &ns, err);
    if (!s) s = stk_stream_occupy(a, 100 * MS, err);
    if (!s) s = stk_event_record(event, a, err);
    if (!s) s = stk_stream_wait(b, event, err);
    if (!s) s = stk_stream_finish(b, err);
    stk_event_destroy(&event); /* before what records it */
    stk_stream_destroy(&b);
    stk_stream_destroy(&a);
    stk_block_destroy(&host);
    stk_block_destroy(&there);
    stk_block_destroy(&ordinary);
    stk_module_destroy(&module);
    return s;
}

static void a_device_may_be_lost_at_any_call(void **state)
{
    stoke_error err;
    uint64_t calls = 1;
    for (uint64_t n = 0; n <= calls; n++) {
        hand h;
        stoke_device *device = open_by_hand(&h, 1);
        const uint64_t before = h.now;
        stk_sim_lose_after(device, n);
        const int status = all_calls(device, &err);
        if (!status) { /* once round: that many calls there are */
            assert_true(n >= 20);
            assert_int_equal(counts_of(device).calls, n);
            stoke_device_close(&device);
            return;
        }
        assert_int_equal(status, STOKE_E_DEVICE);
        assert_non_null(strstr(err.message, "sim:rtx3090 (emulated) was lost"));
        /* For good, with the same words. Nobody waits for work that will never be done. */
        stoke_error again;
        uint64_t left, all;
        assert_int_equal(stoke_device_memory(device, &left, &all, &again), STOKE_E_DEVICE);
        assert_string_equal(again.message, err.message);
        assert_true(h.now < before + 100 * MS);
        assert_int_equal(counts_of(device).allocated_bytes, 0);
        stoke_device_close(&device);
        calls++;
    }
    fail_msg("it never went through");
}

static void host_memory_may_run_out_at_any_call(void **state)
{
    stoke_error err;
    for (int64_t n = 0; n < 200; n++) {
        hand h;
        stoke_device *device = open_by_hand(&h, 1);
        stk_mem_fail_after(n);
        const int status = all_calls(device, &err);
        stk_mem_fail_after(-1);
        assert_int_equal(counts_of(device).allocated_bytes, 0);
        stoke_device_close(&device);
        if (!status) {
            assert_true(n > 8);
            return;
        }
        assert_int_equal(status, STOKE_E_NOMEM);
    }
    fail_msg("it never went through");
}

/* Steps, copies and kernels for ever cost the host no memory. */
static void steady_work_allocates_nothing(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *a = new_stream(device), *b = new_stream(device);
    stk_device_event *event = mark(a), *other = mark(b);
    stoke_error err;
    uint64_t calls = 0;
    for (int i = 0; i < 200; i++) {
        if (i == 100) calls = stk_mem_count().calls;
        occupy(a, 1 * MS);
        ok(stk_event_record(event, a, &err), &err);
        wait_for(b, event);
        occupy(b, 1 * MS);
        ok(stk_event_record(other, b, &err), &err);
        wait_for(a, other);
        if (i % 10 == 9) ok(stk_event_finish(other, &err), &err);
    }
    assert_int_equal(stk_mem_count().calls, calls);
    stk_event_destroy(&event);
    stk_event_destroy(&other);
    stk_stream_destroy(&a);
    stk_stream_destroy(&b);
    stoke_device_close(&device);
}

/* ---- the real clock, and threads ---- */

typedef struct runner {
    stoke_device *device;
    stk_device_event *mine, *other;
    uint64_t last;
} runner;

static void *run(void *context)
{
    runner *r = context;
    stk_device_stream *s = NULL;
    stk_device_block host = { 0 }, there = { 0 };
    stoke_error err;
    int done, status = stk_stream_create(&s, r->device, &err);
    if (!status) status = stk_block_create(&host, r->device, STK_MEMORY_PINNED, 4096, &err);
    if (!status) status = stk_block_create(&there, r->device, STK_MEMORY_DEVICE, 4096, &err);
    for (int i = 0; i < 50 && !status; i++) {
        status = stk_stream_copy(s, &there, 0, &host, 0, 4096, &err);
        if (!status) status = stk_stream_wait(s, r->other, &err);
        if (!status) status = stk_stream_occupy(s, 20 * US, &err);
        if (!status) status = stk_event_record(r->mine, s, &err);
        if (!status) status = stk_event_done(r->other, &done, &err);
        if (!status && i % 10 == 0) status = stk_event_finish(r->mine, &err);
    }
    if (!status) status = stk_stream_finish(s, &err);
    if (!status) status = stk_event_time(r->mine, &r->last, &err);
    stk_block_destroy(&host);
    stk_block_destroy(&there);
    stk_stream_destroy(&s);
    return status ? context : NULL;
}

static void threads_share_a_device(void **state)
{
    stoke_device *device = open_card("sim", 1);
    stk_device_event *events[2] = { NULL };
    stoke_error err;
    for (int i = 0; i < 2; i++) ok(stk_event_create(&events[i], device, &err), &err);
    runner r[2] = { { device, events[0], events[1], 0 }, { device, events[1], events[0], 0 } };
    pthread_t thread[2];
    const uint64_t before = stk_now_ns();
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, run, &r[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    /* A finished stream has finished by the real clock too. */
    for (int i = 0; i < 2; i++) assert_true(r[i].last > before && r[i].last <= stk_now_ns());
    assert_int_equal(counts_of(device).busy_ns[STK_ENGINE_COMPUTE], 2 * 50 * 20 * US);
    for (int i = 0; i < 2; i++) stk_event_destroy(&events[i]);
    stoke_device_close(&device);
}

UNIT_GROUP(sim_faults)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_may_be_lost_at_any_call),
        cmocka_unit_test(host_memory_may_run_out_at_any_call),
        cmocka_unit_test(steady_work_allocates_nothing),
        cmocka_unit_test(threads_share_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
