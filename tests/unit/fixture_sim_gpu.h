/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated GPU that runs by a clock of the test: exact, and without waiting.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_SIM_GPU_H
#define STOKE_TESTS_UNIT_FIXTURE_SIM_GPU_H

#include "tests/unit/unit.h"

#include "src/device/sim.h"

enum { US = 1000, MS = 1000000, MIB = 1 << 20 };

typedef struct hand {
    uint64_t now, late; /* every sleep ends so much later than it should */
    unsigned sleeps;
} hand;

static inline uint64_t hand_now(void *context)
{
    return ((hand *)context)->now;
}

static inline void hand_sleep(void *context, uint64_t until)
{
    hand *h = context;
    if (until > h->now) h->now = until;
    h->now += h->late;
    h->sleeps++;
}

static inline stoke_device *open_card(const char *name, int contents)
{
    stoke_device_params params = stoke_device_defaults();
    stoke_device *device = NULL;
    stoke_error err;
    params.contents = contents;
    if (stoke_device_open(&device, name, &params, &err)) fail_msg("%s", err.message);
    return device;
}

/* 10 GB/s for pinned memory, 4 for ordinary: copies take round times. */
static inline stoke_device *open_by_hand(hand *h, int contents)
{
    stoke_device_params params = stoke_device_defaults();
    stoke_device *device = NULL;
    stoke_error err;
    params.contents = contents;
    params.pinned_gb_s = 10;
    params.pageable_gb_s = 4;
    params.memory_gb_s = 1000;
    params.launch_us = 5;
    if (stoke_device_open(&device, "sim", &params, &err)) fail_msg("%s", err.message);
    *h = (hand){ .now = 1000 * (uint64_t)MS };
    stk_sim_set_clock(device, &(stk_sim_clock){ hand_now, hand_sleep, h });
    return device;
}

static inline void ok(int status, const stoke_error *err)
{
    if (status) fail_msg("%s", err->message);
}

static inline stk_device_stream *new_stream(stoke_device *device)
{
    stk_device_stream *stream = NULL;
    stoke_error err;
    ok(stk_stream_create(&stream, device, &err), &err);
    return stream;
}

/* An event behind what the stream holds now. */
static inline stk_device_event *mark(stk_device_stream *stream)
{
    stk_device_event *event = NULL;
    stoke_error err;
    ok(stk_event_create(&event, *(stoke_device **)stream, &err), &err);
    ok(stk_event_record(event, stream, &err), &err);
    return event;
}

static inline void occupy(stk_device_stream *stream, uint64_t ns)
{
    stoke_error err;
    ok(stk_stream_occupy(stream, ns, &err), &err);
}

static inline void wait_for(stk_device_stream *stream, stk_device_event *event)
{
    stoke_error err;
    ok(stk_stream_wait(stream, event, &err), &err);
}

static inline void copy(stk_device_stream *stream, const stk_device_block *to, const stk_device_block *from,
                        size_t bytes)
{
    stoke_error err;
    ok(stk_stream_copy(stream, to, 0, from, 0, bytes, &err), &err);
}

static inline void new_block(stk_device_block *block, stoke_device *device, stk_device_memory_kind kind,
                             size_t bytes)
{
    stoke_error err;
    ok(stk_block_create(block, device, kind, bytes, &err), &err);
}

/* When it happened, in ns after `since`; waits, and lets go of the event. */
static inline uint64_t time_of(stk_device_event *event, uint64_t since)
{
    stoke_error err;
    uint64_t ns = 0;
    ok(stk_event_finish(event, &err), &err);
    ok(stk_event_time(event, &ns, &err), &err);
    stk_event_destroy(&event);
    assert_true(ns >= since);
    return ns - since;
}

static inline stk_sim_counts counts_of(stoke_device *device)
{
    stk_sim_counts counts;
    stk_sim_count(device, &counts);
    return counts;
}

/* ---- a kernel ---- */

static inline void add_one(void *const *arguments, const uint32_t from[3], const uint32_t to[3])
{
    uint8_t *bytes = arguments[0];
    for (uint32_t x = from[0]; x < to[0]; x++)
        bytes[x] = (uint8_t)(bytes[x] + *(const uint8_t *)arguments[1]);
}

static const stk_program adding = {
    .name = "adding",
    .text = "",
    .kernels = (const char *const[]){ "add" },
    .arguments = (const uint8_t[]){ 2 },
    .host = (stk_host_kernel *const[]){ add_one },
    .n_kernels = 1,
};

static inline int launch_add(stk_device_stream *stream, stk_device_module *module,
                             const stk_device_block *block, uint8_t value, uint64_t traffic, stoke_error *err)
{
    const stk_device_argument arguments[] = { { .block = block },
                                              { .value = &value, .bytes = sizeof value } };
    const stk_device_launch launch = {
        .grid = { (uint32_t)block->bytes, 1, 1 }, .arguments = arguments, .n_arguments = 2, .traffic = traffic
    };
    return stk_stream_launch(stream, module, &launch, err);
}

#endif
