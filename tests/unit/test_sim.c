/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated GPU: its time, its bytes, its cards.
 */
#include <stoke/tools/device.h>
#include "src/base/gpus.h"
#include "tests/unit/fixture_sim_gpu.h"

/* ---- engines and streams ---- */

static void a_stream_keeps_its_order(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *s = new_stream(device);
    const uint64_t t = h.now;
    occupy(s, 100 * US);
    stk_device_event *first = mark(s);
    occupy(s, 50 * US);
    stk_device_event *second = mark(s);
    assert_int_equal(h.now, t); /* nobody waited */
    assert_int_equal(time_of(second, t), 150 * US);
    assert_int_equal(time_of(first, t), 100 * US);
    assert_int_equal(h.now, t + 150 * US);
    assert_int_equal(h.sleeps, 1);
    assert_int_equal(counts_of(device).busy_ns[STK_ENGINE_COMPUTE], 150 * US);
    stk_stream_destroy(&s);
    stoke_device_close(&device);
}

static void a_stream_of_its_own_hides_copies(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *steps = new_stream(device), *copies = new_stream(device);
    stk_device_block host, there;
    new_block(&host, device, STK_MEMORY_PINNED, 10 * 1000 * 1000);
    new_block(&there, device, STK_MEMORY_DEVICE, host.bytes);
    const uint64_t t = h.now;
    occupy(steps, 5 * MS);
    copy(copies, &there, &host, host.bytes); /* 10 MB at 10 GB/s, and 10 us before the first byte */
    stk_device_event *copied = mark(copies);
    wait_for(steps, copied);
    occupy(steps, 5 * MS);
    stk_device_event *end = mark(steps);
    assert_int_equal(time_of(copied, t), 1010 * US);
    assert_int_equal(time_of(end, t), 10 * MS);
    /* On the stream of the steps the device waits for it. */
    const uint64_t again = h.now;
    occupy(steps, 5 * MS);
    copy(steps, &there, &host, host.bytes);
    occupy(steps, 5 * MS);
    assert_int_equal(time_of(mark(steps), again), 11010 * US);
    assert_int_equal(h.now, again + 11010 * US);
    assert_int_equal(counts_of(device).busy_ns[STK_ENGINE_COMPUTE], 20 * MS);
    assert_int_equal(counts_of(device).busy_ns[STK_ENGINE_UP], 2020 * US);
    stk_block_destroy(&host);
    stk_block_destroy(&there);
    stk_stream_destroy(&steps);
    stk_stream_destroy(&copies);
    stoke_device_close(&device);
}

static void two_streams_share_one_engine(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *a = new_stream(device), *b = new_stream(device);
    const uint64_t t = h.now;
    occupy(a, 3 * MS);
    occupy(b, 4 * MS);
    occupy(a, 1 * MS);
    stk_device_event *end_a = mark(a), *end_b = mark(b);
    /* b has been ready since the beginning, the second work of a since 3 ms. */
    assert_int_equal(time_of(end_b, t), 7 * MS);
    assert_int_equal(time_of(end_a, t), 8 * MS);
    stk_stream_destroy(&a);
    stk_stream_destroy(&b);
    stoke_device_close(&device);
}

static void there_is_a_copy_engine_for_each_way(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 1);
    stk_device_block host, back, there;
    stk_device_stream *up = new_stream(device), *up2 = new_stream(device), *down = new_stream(device);
    new_block(&host, device, STK_MEMORY_PINNED, 100 * 1000);
    new_block(&back, device, STK_MEMORY_PINNED, host.bytes);
    new_block(&there, device, STK_MEMORY_DEVICE, host.bytes);
    memset(host.host, 1, host.bytes);
    const uint64_t t = h.now;
    copy(up, &there, &host, host.bytes); /* 10 us + 10 us */
    copy(up2, &there, &host, host.bytes);
    copy(down, &back, &there, host.bytes);
    stk_device_event *a = mark(up), *b = mark(up2), *c = mark(down);
    assert_int_equal(time_of(a, t), 20 * US);
    assert_int_equal(time_of(b, t), 40 * US);
    assert_int_equal(time_of(c, t), 20 * US);
    stk_block_destroy(&host);
    stk_block_destroy(&back);
    stk_block_destroy(&there);
    stk_stream_destroy(&up);
    stk_stream_destroy(&up2);
    stk_stream_destroy(&down);
    stoke_device_close(&device);
}

/* A slot that becomes free in 50 ms must not keep a step of 1 ms from running now. */
static void what_is_ready_goes_first(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *far = new_stream(device), *near = new_stream(device), *copies = new_stream(device);
    stk_device_block host, there;
    new_block(&host, device, STK_MEMORY_PINNED, 100 * 1000 * 1000);
    new_block(&there, device, STK_MEMORY_DEVICE, host.bytes);
    const uint64_t t = h.now;
    copy(copies, &there, &host, host.bytes); /* 10.01 ms */
    stk_device_event *copied = mark(copies);
    wait_for(far, copied);
    occupy(far, 2 * MS);
    stk_device_event *far_end = mark(far);
    h.now += 4 * MS;
    occupy(near, 8 * MS); /* does not fit before the copy's end, and begins at once all the same */
    stk_device_event *near_end = mark(near);
    assert_int_equal(time_of(near_end, t), 12 * MS);
    assert_int_equal(time_of(far_end, t), 14 * MS);
    stk_event_destroy(&copied);
    stk_block_destroy(&host);
    stk_block_destroy(&there);
    stk_stream_destroy(&far);
    stk_stream_destroy(&near);
    stk_stream_destroy(&copies);
    stoke_device_close(&device);
}

static void waits_are_for_what_was_recorded(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *a = new_stream(device), *b = new_stream(device), *c = new_stream(device);
    stoke_error err;
    stk_device_event *event = NULL;
    int done = 0;
    uint64_t ns;
    const uint64_t t = h.now;
    ok(stk_event_create(&event, device, &err), &err);
    wait_for(b, event); /* never recorded: holds nothing up */
    ok(stk_event_done(event, &done, &err), &err);
    assert_int_equal(done, 1);
    ok(stk_event_finish(event, &err), &err);
    assert_int_equal(stk_event_time(event, &ns, &err), STOKE_E_STATE);
    assert_int_equal(h.now, t);

    occupy(a, 2 * MS);
    ok(stk_event_record(event, a, &err), &err);
    wait_for(b, event);
    wait_for(c, event);
    occupy(a, 10 * MS);
    ok(stk_event_record(event, a, &err), &err); /* again: b and c wait for the first */
    occupy(b, 1 * MS);
    assert_int_equal(time_of(mark(c), t), 2 * MS);
    ok(stk_event_done(event, &done, &err), &err);
    assert_int_equal(done, 0);
    assert_int_equal(stk_event_time(event, &ns, &err), STOKE_E_STATE);
    /* a's second work was ready at 2 ms as b's was, and was asked for first. */
    assert_int_equal(time_of(mark(b), t), 13 * MS);
    stk_event_destroy(&event);
    stk_stream_destroy(&a);
    stk_stream_destroy(&b);
    stk_stream_destroy(&c);
    stoke_device_close(&device);
}

/* What was to be expected does not count once something has come in between. */
static void expectations_are_not_kept(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *a = new_stream(device), *b = new_stream(device), *c = new_stream(device);
    stoke_error err;
    int done = 1;
    const uint64_t t = h.now;
    occupy(a, 10 * MS);
    occupy(a, 10 * MS);
    stk_device_event *of_a = mark(a);
    wait_for(b, of_a);
    stk_device_event *of_b = mark(b);
    ok(stk_event_done(of_b, &done, &err), &err); /* at 20 ms, as things stand */
    assert_int_equal(done, 0);
    h.now += 5 * MS;
    occupy(c, 30 * MS); /* before the second of a */
    h.now += 25 * MS;
    ok(stk_event_done(of_b, &done, &err), &err);
    assert_int_equal(done, 0);
    assert_int_equal(time_of(of_b, t), 50 * MS);
    stk_event_destroy(&of_a);
    stk_stream_destroy(&a);
    stk_stream_destroy(&b);
    stk_stream_destroy(&c);
    stoke_device_close(&device);
}

static void a_record_is_not_before_its_call(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *s = new_stream(device);
    const uint64_t t = h.now;
    occupy(s, 1 * MS);
    h.now += 5 * MS;
    assert_int_equal(time_of(mark(s), t), 5 * MS);
    occupy(s, 1 * MS); /* begins when it was submitted, not when the device fell idle */
    assert_int_equal(time_of(mark(s), t), 6 * MS);
    stk_stream_destroy(&s);
    stoke_device_close(&device);
}

static void only_pageable_copies_hold_up_the_host(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *s = new_stream(device);
    stk_device_block pinned, pageable, there, other;
    new_block(&pinned, device, STK_MEMORY_PINNED, 4 * 1000 * 1000);
    new_block(&pageable, device, STK_MEMORY_PAGEABLE, pinned.bytes);
    new_block(&there, device, STK_MEMORY_DEVICE, pinned.bytes);
    new_block(&other, device, STK_MEMORY_DEVICE, pinned.bytes);
    const uint64_t t = h.now;
    copy(s, &there, &pinned, pinned.bytes); /* 410 us */
    assert_int_equal(h.now, t);
    copy(s, &there, &pageable, pinned.bytes); /* 1010 us at 4 GB/s */
    assert_int_equal(h.now, t + 1420 * US);
    copy(s, &other, &there, 3 * 1000 * 1000); /* within the device: there and back at 750 GB/s */
    assert_int_equal(h.now, t + 1420 * US);
    assert_int_equal(time_of(mark(s), t), 1438 * US);
    stk_block_destroy(&pinned);
    stk_block_destroy(&pageable);
    stk_block_destroy(&there);
    stk_block_destroy(&other);
    stk_stream_destroy(&s);
    stoke_device_close(&device);
}

/* The flaw of emulators that measure their sleep: a host that wakes up late looks like a busy device. */
static void sleeping_too_long_is_idle_time(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *s = new_stream(device);
    stoke_error err;
    const uint64_t t = h.now;
    h.late = 700 * US;
    for (int i = 0; i < 10; i++) {
        occupy(s, 3500 * US);
        ok(stk_stream_finish(s, &err), &err);
    }
    assert_int_equal(counts_of(device).busy_ns[STK_ENGINE_COMPUTE], 35 * MS);
    assert_int_equal(h.now - t, 42 * MS);
    /* Submitted ahead, being late costs nothing. */
    const uint64_t again = h.now;
    stk_device_event *end[10];
    for (int i = 0; i < 10; i++) {
        occupy(s, 3500 * US);
        end[i] = mark(s);
    }
    for (int i = 0; i < 10; i++) assert_int_equal(time_of(end[i], again), (uint64_t)(i + 1) * 3500 * US);
    stk_stream_destroy(&s);
    stoke_device_close(&device);
}

/* ---- any graph of work ---- */

typedef struct job {
    uint64_t begin, end, ready, submitted;
} job;

/* Random steps and kernels on four streams, waiting for each other: whatever comes out must be a timeline
 * that one engine can run, and not be idle while something is ready. */
static void random_work_is_a_valid_timeline(void **state)
{
    enum { STREAMS = 4, JOBS = 60, ROUNDS = 60 };
    unsigned seed = 7;
    for (int round = 0; round < ROUNDS; round++) {
        hand h;
        stoke_device *device = open_by_hand(&h, 0);
        stk_device_stream *stream[STREAMS];
        stk_device_module *module = NULL;
        stk_device_block there;
        stoke_error err;
        stk_device_event *end[JOBS];
        job jobs[JOBS] = { 0 };
        int on[JOBS], waits[JOBS];
        uint64_t duration[JOBS], sum = 0;
        for (int i = 0; i < STREAMS; i++) stream[i] = new_stream(device);
        ok(stk_module_create(&module, device, &adding, &err), &err);
        new_block(&there, device, STK_MEMORY_DEVICE, 16);
        for (int i = 0; i < JOBS; i++) {
            on[i] = rand_r(&seed) % STREAMS;
            waits[i] = i && rand_r(&seed) % 2 ? rand_r(&seed) % i : -1;
            duration[i] = (uint64_t)(rand_r(&seed) % 50) * US;
            if (rand_r(&seed) % 3 == 0) h.now += (uint64_t)(rand_r(&seed) % 100) * US;
            if (waits[i] >= 0) wait_for(stream[on[i]], end[waits[i]]);
            if (rand_r(&seed) % 2) {
                occupy(stream[on[i]], duration[i]);
            } else { /* 5 us, and 750 bytes a ns */
                ok(launch_add(stream[on[i]], module, &there, 1, 750 * duration[i], &err), &err);
                duration[i] += 5 * US;
            }
            end[i] = mark(stream[on[i]]);
            jobs[i].submitted = h.now;
            sum += duration[i];
        }
        for (int i = 0; i < JOBS; i++) {
            jobs[i].end = time_of(end[i], 0);
            jobs[i].begin = jobs[i].end - duration[i];
            jobs[i].ready = jobs[i].submitted;
            for (int k = 0; k < i; k++)
                if ((on[k] == on[i] || k == waits[i]) && jobs[k].end > jobs[i].ready)
                    jobs[i].ready = jobs[k].end;
            assert_true(jobs[i].begin >= jobs[i].ready);
        }
        for (int i = 0; i < JOBS; i++) {
            int prompt = jobs[i].begin == jobs[i].ready;
            for (int k = 0; k < JOBS; k++) {
                if (k == i || !duration[k]) continue;
                prompt |= jobs[k].end == jobs[i].begin;
                if (duration[i]) assert_true(jobs[k].end <= jobs[i].begin || jobs[k].begin >= jobs[i].end);
            }
            assert_true(prompt);
        }
        assert_int_equal(counts_of(device).busy_ns[STK_ENGINE_COMPUTE], sum);
        for (int i = 0; i < STREAMS; i++) stk_stream_destroy(&stream[i]);
        stk_module_destroy(&module);
        stk_block_destroy(&there);
        stoke_device_close(&device);
    }
}

/* ---- kernels and bytes ---- */

static void kernels_take_launch_and_traffic(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *s = new_stream(device);
    stk_device_module *module = NULL;
    stk_device_block there;
    stoke_error err;
    ok(stk_module_create(&module, device, &adding, &err), &err);
    new_block(&there, device, STK_MEMORY_DEVICE, 16);
    const uint64_t t = h.now;
    ok(launch_add(s, module, &there, 1, 0, &err), &err);
    ok(launch_add(s, module, &there, 1, 75 * 1000 * 1000, &err), &err); /* at 750 of 1000 GB/s */
    assert_int_equal(time_of(mark(s), t), 5 * US + 105 * US);
    stk_module_destroy(&module);
    stk_block_destroy(&there);
    stk_stream_destroy(&s);
    stoke_device_close(&device);
}

/* Five kernels are in line when a step ends and the next one is ready: they go first, all of them. One for
 * each step, as they become ready, would make a batch late by five steps. */
static void kernels_of_a_stream_stay_together(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *steps = new_stream(device), *kernels = new_stream(device);
    stk_device_module *module = NULL;
    stk_device_block there;
    stoke_error err;
    ok(stk_module_create(&module, device, &adding, &err), &err);
    new_block(&there, device, STK_MEMORY_DEVICE, 16);
    const uint64_t t = h.now;
    occupy(steps, 100 * MS);
    stk_device_event *first = mark(steps);
    for (int i = 0; i < 5; i++) ok(launch_add(kernels, module, &there, 1, 0, &err), &err);
    stk_device_event *through = mark(kernels);
    occupy(steps, 100 * MS);
    stk_device_event *second = mark(steps);
    h.now += 10 * MS;
    ok(launch_add(kernels, module, &there, 1, 0, &err), &err); /* later, but before they began: the same */
    stk_device_event *last = mark(kernels);
    assert_int_equal(time_of(first, t), 100 * MS);
    assert_int_equal(time_of(through, t), 100 * MS + 25 * US);
    assert_int_equal(time_of(last, t), 100 * MS + 30 * US);
    assert_int_equal(time_of(second, t), 200 * MS + 30 * US);
    stk_module_destroy(&module);
    stk_block_destroy(&there);
    stk_stream_destroy(&steps);
    stk_stream_destroy(&kernels);
    stoke_device_close(&device);
}

static void contents_are_real_when_asked_for(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 1);
    stk_device_stream *a = new_stream(device), *b = new_stream(device);
    stk_device_module *module = NULL;
    stk_device_block pageable, pinned, first, second;
    stoke_error err;
    ok(stk_module_create(&module, device, &adding, &err), &err);
    new_block(&pageable, device, STK_MEMORY_PAGEABLE, 64);
    new_block(&pinned, device, STK_MEMORY_PINNED, 64);
    new_block(&first, device, STK_MEMORY_DEVICE, 64);
    new_block(&second, device, STK_MEMORY_DEVICE, 64);
    assert_null(first.host);
    assert_true(first.handle != second.handle);
    for (int i = 0; i < 64; i++) ((uint8_t *)pageable.host)[i] = (uint8_t)i;

    copy(a, &first, &pageable, 64);
    ok(launch_add(a, module, &first, 5, 0, &err), &err);
    stk_device_event *added = mark(a);
    wait_for(b, added);
    ok(stk_stream_copy(b, &second, 16, &first, 0, 48, &err), &err);
    ok(launch_add(b, module, &second, 1, 0, &err), &err);
    copy(b, &pinned, &second, 64);
    ok(stk_stream_finish(b, &err), &err);
    for (int i = 0; i < 64; i++)
        assert_int_equal(((uint8_t *)pinned.host)[i], i < 16 ? 0xce : i - 16 + 6); /* 0xcd: never written */

    ok(stk_stream_copy(a, &pageable, 0, &pinned, 16, 8, &err), &err); /* between blocks of the host */
    assert_int_equal(((uint8_t *)pageable.host)[0], 6);
    stk_event_destroy(&added);
    stk_module_destroy(&module);
    stk_block_destroy(&pageable);
    stk_block_destroy(&pinned);
    stk_block_destroy(&first);
    stk_block_destroy(&second);
    stk_stream_destroy(&a);
    stk_stream_destroy(&b);
    stoke_device_close(&device);
}

static void without_contents_nothing_comes_back(void **state)
{
    hand h;
    stoke_device *device = open_by_hand(&h, 0);
    stk_device_stream *s = new_stream(device);
    stk_device_block pinned, there;
    stoke_error err;
    new_block(&pinned, device, STK_MEMORY_PINNED, 64);
    new_block(&there, device, STK_MEMORY_DEVICE, (size_t)8 << 30); /* there is none of it */
    copy(s, &there, &pinned, 64);
    assert_int_equal(stk_stream_copy(s, &pinned, 0, &there, 0, 64, &err), STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "contents = 1"));
    ok(stk_stream_finish(s, &err), &err); /* and the device is not lost for it */
    stk_block_destroy(&pinned);
    stk_block_destroy(&there);
    stk_stream_destroy(&s);
    stoke_device_close(&device);
}

/* ---- memory ---- */

static void a_small_card_is_full_soon(void **state)
{
    stoke_device *device = open_card("sim:gtx1650", 0);
    stk_device_block block[4] = { 0 };
    stoke_error err;
    uint64_t left, all;
    ok(stoke_device_memory(device, &left, &all, &err), &err);
    assert_int_equal(all, (uint64_t)4096 * MIB);
    assert_int_equal(left, (uint64_t)3584 * MIB);
    for (int i = 0; i < 3; i++) new_block(&block[i], device, STK_MEMORY_DEVICE, (size_t)1 << 30);
    assert_int_equal(stk_block_create(&block[3], device, STK_MEMORY_DEVICE, (size_t)1 << 30, &err),
                     STOKE_E_NOMEM);
    assert_non_null(strstr(err.message, "sim:gtx1650 (emulated)"));
    assert_non_null(strstr(err.message, "512 MiB are left of 4096 MiB"));
    /* It is not lost for that, and what is given back can be taken. */
    stk_block_destroy(&block[0]);
    new_block(&block[3], device, STK_MEMORY_DEVICE, (size_t)1 << 30);
    assert_int_equal(counts_of(device).allocated_bytes, (uint64_t)3 << 30);
    for (int i = 0; i < 4; i++) stk_block_destroy(&block[i]);
    assert_int_equal(counts_of(device).allocated_bytes, 0);
    assert_int_equal(counts_of(device).peak_reserved_bytes, (uint64_t)3 << 30);
    stk_sim_set_memory(device, (uint64_t)3600 * MIB);
    new_block(&block[0], device, STK_MEMORY_DEVICE, (size_t)1 << 30);
    stk_block_destroy(&block[0]);
    stoke_device_close(&device);
}

/* ---- cards ---- */

static void cards_are_known_by_name(void **state)
{
    static const char *const tables[] = { "rtx4090", "rtx4080", "rtx4070", "rtx3090", "rtx3080",
                                          "rtx3060", "rtx3050", "gtx1650", "gtx1080", "t4" };
    stoke_card card;
    stoke_device *device = NULL;
    stoke_error err;
    uint32_t units;
    for (size_t i = 0; i < stk_gpus_count; i++) {
        char name[32];
        if (!stk_gpus[i].sim) continue;
        assert_int_equal(stk_sim_gpu_find(stk_gpus[i].sim, &card, &units, NULL), STOKE_OK);
        snprintf(name, sizeof name, "sim:%s", card.name);
        device = open_card(name, 0);
        const stoke_device_info *info = stoke_device_describe(device);
        assert_string_equal(info->name, name);
        assert_int_equal(info->emulated, 1);
        assert_non_null(strstr(info->title, "(emulated)"));
        assert_true(info->memory_bytes >= (uint64_t)4 << 30 && info->compute_units > 0);
        assert_true(card.pinned_gb_s > card.pageable_gb_s && card.pageable_gb_s > 0);
        assert_true(card.memory_gb_s > card.pinned_gb_s && card.launch_us > 0);
        stoke_device_close(&device);
    }
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        assert_int_equal(stk_sim_gpu_find(tables[i], &card, &units, NULL), STOKE_OK);
    device = open_card("sim", 0);
    assert_string_equal(stoke_device_describe(device)->title, "NVIDIA GeForce RTX 3090 (emulated)");
    stoke_device_close(&device);

    assert_int_equal(stoke_device_open(&device, "sim:rtx3900", NULL, &err), STOKE_E_NOTFOUND);
    assert_non_null(strstr(err.message, "did you mean \"rtx3090\"?"));
    assert_non_null(strstr(err.message, "rtx4090, rtx5090, t4"));
    assert_int_equal(stoke_device_open(&device, "sim:typewriter", NULL, &err), STOKE_E_NOTFOUND);
    assert_null(strstr(err.message, "did you mean"));
    stoke_device_params params = stoke_device_defaults();
    params.pinned_gb_s = -1;
    assert_int_equal(stoke_device_open(&device, "sim", &params, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "pinned_gb_s"));
}

UNIT_GROUP(sim)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_keeps_its_order),
        cmocka_unit_test(a_stream_of_its_own_hides_copies),
        cmocka_unit_test(two_streams_share_one_engine),
        cmocka_unit_test(there_is_a_copy_engine_for_each_way),
        cmocka_unit_test(what_is_ready_goes_first),
        cmocka_unit_test(waits_are_for_what_was_recorded),
        cmocka_unit_test(expectations_are_not_kept),
        cmocka_unit_test(a_record_is_not_before_its_call),
        cmocka_unit_test(only_pageable_copies_hold_up_the_host),
        cmocka_unit_test(sleeping_too_long_is_idle_time),
        cmocka_unit_test(random_work_is_a_valid_timeline),
        cmocka_unit_test(kernels_take_launch_and_traffic),
        cmocka_unit_test(kernels_of_a_stream_stay_together),
        cmocka_unit_test(contents_are_real_when_asked_for),
        cmocka_unit_test(without_contents_nothing_comes_back),
        cmocka_unit_test(a_small_card_is_full_soon),
        cmocka_unit_test(cards_are_known_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
