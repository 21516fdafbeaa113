/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: what every kind promises, run on each that is here; names, limits, losses.
 */
#include "tests/unit/fixture_devices.h"

#include <pthread.h>
#include <stoke/tools/device.h>

#include "kernels/tables.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/device/sim.h"

enum { BYTES = 5003 };

static stk_device_block make(on_device *on, stk_device_memory_kind kind, size_t bytes)
{
    stk_device_block block;
    devices_ok(stk_block_create(&block, on->device, kind, bytes, err));
    if (kind != STK_MEMORY_DEVICE) memset(block.host, 0x11, bytes);
    return block;
}

/* ---- every kind ---- */

static void describes_itself(on_device *on)
{
    const stoke_device_info *info = stoke_device_describe(on->device);
    uint64_t free_bytes, total;
    assert_string_equal(info->problem, "");
    assert_string_not_equal(info->title, "");
    assert_memory_equal(info->name, on->device->fns->kind, strlen(on->device->fns->kind));
    assert_int_equal(info->emulated, !strcmp(on->device->fns->kind, "sim"));
    devices_ok(stoke_device_memory(on->device, &free_bytes, &total, err));
    assert_true(free_bytes <= total);
    stoke_device *again; /* its own name leads back to it */
    const stoke_device_params params = devices_params();
    devices_ok(stoke_device_open(&again, info->name, &params, err));
    assert_string_equal(stoke_device_describe(again)->name, info->name);
    stoke_device_close(&again);
}

/* Kernels of a stream run one after the other: past the first batches there is nothing new for a sanitizer
 * of threads to see, which takes 20 times as long for them. */
#ifdef __SANITIZE_THREAD__
enum { LINES = 15 };
#else
enum { LINES = 1000 };
#endif

static int fail_with_line(void *context, const stoke_selftest_line *line)
{
    if (!line->passed)
        fail_msg("%s: %llu of %llu differ, by %g at most (%g allowed) %s", line->name,
                 (unsigned long long)line->different, (unsigned long long)line->compared, line->largest,
                 line->tolerance, line->problem);
    return ++*(unsigned *)context == LINES;
}

static void passes_the_selftest(on_device *on)
{
    unsigned lines = 0;
    stoke_error why = { 0 };
    const int r = stoke_device_selftest(on->device, fail_with_line, &lines, &why);
    if (lines != LINES && r) fail_msg("%s", why.message);
    assert_true(lines == LINES || lines > 50);
}

static int stop_at_third(void *context, const stoke_selftest_line *line)
{
    return ++*(unsigned *)context == 3;
}

static void stops_the_selftest(on_device *on)
{
    unsigned lines = 0;
    assert_int_equal(stoke_device_selftest(on->device, stop_at_third, &lines, NULL), STOKE_E_CANCELLED);
    assert_int_equal(lines, 3);
}

/* Every refusal is STOKE_E_INVALID, names the device, and harms nothing: the copy at the end arrives. */
#define refused(call, word)                                                                                  \
    do {                                                                                                     \
        stoke_error refusal = { 0 };                                                                         \
        stoke_error *const err = &refusal;                                                                   \
        assert_int_equal(call, STOKE_E_INVALID);                                                             \
        assert_non_null(strstr(refusal.message, word));                                                      \
        assert_int_equal(call, STOKE_E_INVALID);                                                             \
    } while (0)

static void checks_copies(on_device *on)
{
    stk_device_block far = make(on, STK_MEMORY_DEVICE, BYTES), near = make(on, STK_MEMORY_PAGEABLE, BYTES);
    stk_device_block back = make(on, STK_MEMORY_PINNED, BYTES), lost = near, foreign = near;
    stk_device_stream *s = on->stream;
    lost.host = NULL;
    foreign.device = NULL;
    refused(stk_stream_copy(s, &far, 1, &near, 0, BYTES, err), "outside the block copied to");
    refused(stk_stream_copy(s, &far, 0, &near, BYTES, 1, err), "outside the block copied from");
    refused(stk_stream_copy(s, &far, SIZE_MAX, &near, 0, 2, err), "outside");
    refused(stk_stream_copy(s, &far, 2, &near, 0, SIZE_MAX, err), "outside");
    refused(stk_stream_copy(s, &far, 0, &far, 10, 11, err), "overlaps");
    refused(stk_stream_copy(s, &far, 10, &far, 0, 11, err), "overlaps");
    refused(stk_stream_copy(s, &far, 0, &lost, 0, 1, err), "no address");
    refused(stk_stream_copy(s, &far, 0, &foreign, 0, 1, err), "another device");
    devices_ok(stk_stream_copy(s, &far, BYTES, &near, BYTES, 0, err));
    devices_ok(stk_stream_copy(s, &far, 0, &near, 0, BYTES, err));
    devices_ok(stk_stream_copy(s, &far, 0, &far, 10, 10, err));
    memset(back.host, 0x22, BYTES);
    devices_ok(stk_stream_copy(s, &back, 0, &far, 0, BYTES, err));
    devices_ok(stk_stream_finish(s, err));
    assert_memory_equal(back.host, near.host, BYTES);
    stk_block_destroy(&far);
    stk_block_destroy(&near);
    stk_block_destroy(&back);
    stk_block_destroy(&back); /* zeroed: nothing happens */
    refused(stk_block_create(&far, on->device, STK_MEMORY_DEVICE, 0, err), "at least one byte");
    refused(stk_block_create(&far, on->device, (stk_device_memory_kind)7, 1, err), "memory that there is");
}

static void checks_launches(on_device *on)
{
    stk_device_module *module;
    stk_device_stream *s = on->stream;
    stk_device_block words = make(on, STK_MEMORY_DEVICE, 64), near = make(on, STK_MEMORY_PINNED, 64);
    k_shape shape = { .width = 15 };
    char large[STK_VALUE_MAX + 1] = { 0 };
    devices_ok(stk_module_create(&module, on->device, &stk_augment_program, err));
    stk_device_argument arguments[] = { { .block = &words },
                                        { .value = &shape, .bytes = sizeof shape },
                                        { 0 } };
    const stk_device_launch good = {
        .kernel = STK_KERNEL_clear, .grid = { 16, 1, 1 }, .arguments = arguments, .n_arguments = 2
    };
    stk_device_launch l = good;
    l.kernel = STK_KERNELS;
    refused(stk_stream_launch(s, module, &l, err), "kernels");
    for (int axis = 0; axis < 3; axis++) {
        l = good;
        l.grid[axis] = 0;
        refused(stk_stream_launch(s, module, &l, err), "nothing to do");
    }
    l = good;
    l.n_arguments = 1;
    refused(stk_stream_launch(s, module, &l, err), "takes 2 arguments, not 1");
    l.n_arguments = 3;
    refused(stk_stream_launch(s, module, &l, err), "takes 2 arguments, not 3");
    arguments[0].block = &near;
    refused(stk_stream_launch(s, module, &good, err), "not in device memory");
    arguments[0].block = NULL;
    refused(stk_stream_launch(s, module, &good, err), "must be a block");
    arguments[0].block = arguments[1].block = &words;
    refused(stk_stream_launch(s, module, &good, err), "must be a value");
    arguments[1] = (stk_device_argument){ .value = large, .bytes = sizeof large };
    refused(stk_stream_launch(s, module, &good, err), "bytes");
    arguments[1] = (stk_device_argument){ .value = &shape, .bytes = sizeof shape };
    devices_ok(stk_stream_copy(s, &words, 0, &near, 0, 64, err));
    devices_ok(stk_stream_launch(s, module, &good, err));
    shape.width = 0; /* was copied at the call */
    devices_ok(stk_stream_copy(s, &near, 0, &words, 0, 64, err));
    devices_ok(stk_stream_finish(s, err));
    for (int i = 0; i < 64; i++) assert_int_equal(((char *)near.host)[i], i < 60 ? 0 : 0x11);
    stk_module_destroy(&module);
    stk_block_destroy(&words);
    stk_block_destroy(&near);
}

static void keeps_events(on_device *on)
{
    stk_device_event *event, *later;
    stk_device_stream *other;
    uint64_t first, second;
    int done = 0;
    stk_device_block far = make(on, STK_MEMORY_DEVICE, BYTES), near = make(on, STK_MEMORY_PINNED, BYTES);
    devices_ok(stk_event_create(&event, on->device, err));
    devices_ok(stk_event_create(&later, on->device, err));
    devices_ok(stk_stream_create(&other, on->device, err));
    /* Never recorded: holds nothing up, has no time. */
    devices_ok(stk_stream_wait(other, event, err));
    devices_ok(stk_event_finish(event, err));
    devices_ok(stk_event_done(event, &done, err));
    assert_int_equal(done, 1);
    assert_int_equal(stk_event_time(event, &first, NULL), STOKE_E_STATE);
    for (int i = 0; i < 50; i++) { /* again and again, on one stream and on the other */
        stk_device_stream *s = i % 3 ? on->stream : other;
        devices_ok(stk_event_record(event, s, err));
        devices_ok(stk_stream_copy(s, &far, 0, &near, 0, BYTES, err));
        devices_ok(stk_event_record(later, s, err));
        devices_ok(stk_stream_wait(i % 3 ? other : on->stream, later, err));
    }
    devices_ok(stk_event_finish(later, err));
    devices_ok(stk_event_done(event, &done, err));
    assert_int_equal(done, 1);
    devices_ok(stk_event_time(event, &first, err));
    devices_ok(stk_event_time(later, &second, err));
    assert_true(first && first <= second);
    devices_ok(stk_stream_finish(other, err)); /* the block's work has passed */
    devices_ok(stk_stream_finish(on->stream, err));
    stk_event_destroy(&event);
    stk_event_destroy(&later);
    stk_stream_destroy(&other);
    stk_block_destroy(&far);
    stk_block_destroy(&near);
}

/* Streams and events with work under way, in every order. */
static void ends_in_every_order(on_device *on)
{
    stk_device_block far[2], near[2]; /* of each stream its own: only the event joins them */
    for (int i = 0; i < 2; i++) {
        far[i] = make(on, STK_MEMORY_DEVICE, BYTES);
        near[i] = make(on, STK_MEMORY_PINNED, BYTES);
    }
    for (unsigned order = 0; order < 24; order++) {
        stk_device_stream *a, *b;
        stk_device_event *full, *unused;
        devices_ok(stk_stream_create(&a, on->device, err));
        devices_ok(stk_stream_create(&b, on->device, err));
        devices_ok(stk_event_create(&full, on->device, err));
        devices_ok(stk_event_create(&unused, on->device, err));
        for (int i = 0; i < 4; i++) {
            devices_ok(stk_stream_copy(a, &far[0], 0, &near[0], 0, BYTES, err));
            devices_ok(stk_event_record(full, a, err));
            devices_ok(stk_stream_wait(b, full, err));
            devices_ok(stk_stream_copy(b, &near[1], 0, &far[1], 0, BYTES, err));
        }
        unsigned left = order, taken = 0;
        for (unsigned n = 4; n; n--) { /* the order's next of those that are left */
            unsigned skip_over = left % n, which = 0;
            left /= n;
            while (taken >> which & 1 || skip_over--) which++;
            taken |= 1u << which;
            if (which == 0) stk_stream_destroy(&a);
            if (which == 1) stk_stream_destroy(&b);
            if (which == 2) stk_event_destroy(&full);
            if (which == 3) stk_event_destroy(&unused);
        }
        assert_int_equal(taken, 15);
        assert_true(!a && !b && !full && !unused);
    }
    for (int i = 0; i < 2; i++) {
        stk_block_destroy(&near[i]);
        stk_block_destroy(&far[i]);
    }
}

/* More work than any queue holds. */
static void takes_much_work(on_device *on)
{
    stk_device_block far = make(on, STK_MEMORY_DEVICE, 1000), near = make(on, STK_MEMORY_PINNED, 1000),
                     back = make(on, STK_MEMORY_PINNED, 1000);
    for (size_t i = 0; i < 1000; i++) {
        ((uint8_t *)near.host)[i] = (uint8_t)(i * 7);
        devices_ok(stk_stream_copy(on->stream, &far, i, &near, i, 1, err));
        devices_ok(stk_stream_copy(on->stream, &back, 999 - i, &far, i, 1, err));
    }
    devices_ok(stk_stream_finish(on->stream, err));
    for (size_t i = 0; i < 1000; i++) assert_int_equal(((uint8_t *)back.host)[999 - i], (uint8_t)(i * 7));
    stk_block_destroy(&far);
    stk_block_destroy(&near);
    stk_block_destroy(&back);
}

typedef struct one_thread {
    stoke_device *device;
    stk_device_event *shared;
    uint8_t number;
    int failed;
} one_thread;

/* A separate stream, waiting now and then for an event that the main thread records. */
static void *use_from_a_thread(void *argument)
{
    one_thread *t = argument;
    stk_device_stream *stream = NULL;
    stk_device_block far = { 0 }, near = { 0 }, back = { 0 };
    int r = stk_stream_create(&stream, t->device, NULL);
    if (!r) r = stk_block_create(&far, t->device, STK_MEMORY_DEVICE, BYTES, NULL);
    if (!r) r = stk_block_create(&near, t->device, STK_MEMORY_PINNED, BYTES, NULL);
    if (!r) r = stk_block_create(&back, t->device, STK_MEMORY_PAGEABLE, BYTES, NULL);
    if (!r) memset(near.host, t->number, BYTES);
    for (int i = 0; !r && i < 30; i++) {
        r = stk_stream_wait(stream, t->shared, NULL);
        if (!r) r = stk_stream_copy(stream, &far, 0, &near, 0, BYTES, NULL);
        if (!r) r = stk_stream_copy(stream, &back, 0, &far, 0, BYTES, NULL);
        if (!r) r = stk_stream_finish(stream, NULL);
        if (!r) r = memcmp(back.host, near.host, BYTES);
    }
    stk_stream_destroy(&stream);
    stk_block_destroy(&far);
    stk_block_destroy(&near);
    stk_block_destroy(&back);
    t->failed = r;
    return NULL;
}

static void serves_threads(on_device *on)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    one_thread t[THREADS];
    stk_device_event *shared;
    devices_ok(stk_event_create(&shared, on->device, err));
    for (int i = 0; i < THREADS; i++) {
        t[i] = (one_thread){ on->device, shared, (uint8_t)(i + 1), 0 };
        assert_int_equal(pthread_create(&thread[i], NULL, use_from_a_thread, &t[i]), 0);
    }
    for (int i = 0; i < 50; i++) devices_ok(stk_event_record(shared, on->stream, err));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(t[i].failed, 0);
    }
    stk_event_destroy(&shared);
}

static void counts_memory(on_device *on)
{
    stoke_device *device;
    stoke_device_params params = devices_params();
    params.memory_limit = 700000;
    devices_ok(stoke_device_open(&device, on->device->info.name, &params, err));
    stk_device_block first, second, host;
    stoke_error why = { 0 };
    uint64_t free_bytes, total;
    devices_ok(stk_block_create(&first, device, STK_MEMORY_DEVICE, 300000, err));
    devices_ok(stk_block_create(&host, device, STK_MEMORY_PINNED, 600000, err));
    assert_int_equal(stk_block_create(&second, device, STK_MEMORY_DEVICE, 512000, &why), STOKE_E_NOMEM);
    assert_non_null(
        strstr(why.message, "needs 512.0 KB, 300.0 of 700.0 KB are taken by this process: lower"));
    assert_non_null(strstr(why.message, device->info.name));
    devices_ok(stoke_device_memory(device, &free_bytes, &total, err));
    assert_int_equal(free_bytes, 400000);
    assert_int_equal(total, 700000);
    stk_block_destroy(&second); /* was not made */
    stk_block_destroy(&first);
    devices_ok(stk_block_create(&second, device, STK_MEMORY_DEVICE, 700000, err));
    assert_int_equal(stk_block_create(&first, device, STK_MEMORY_DEVICE, 1, NULL), STOKE_E_NOMEM);
    stk_block_destroy(&second);
    stk_block_destroy(&host);
    stoke_device_close(&device);
}

static void locks_pages_for_loaders(on_device *on)
{
    const stoke_allocator allocator = stoke_device_pinned(on->device);
    stoke_error why = { 0 };
    char *piece[6];
    for (int i = 0; i < 6; i++) {
        const size_t alignment = (size_t)64 << 2 * (i % 3);
        piece[i] = allocator.alloc(allocator.context, 1000 + (size_t)i, alignment);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % alignment, 0);
        memset(piece[i], i, 1000 + (size_t)i);
    }
    stk_device_block far = make(on, STK_MEMORY_DEVICE, 1000), back = make(on, STK_MEMORY_PAGEABLE, 1000);
    const stk_device_block slot = {
        .device = on->device, .kind = STK_MEMORY_PINNED, .bytes = 1003, .host = piece[3]
    };
    devices_ok(stk_stream_copy(on->stream, &far, 0, &slot, 2, 1000, err));
    devices_ok(stk_stream_copy(on->stream, &back, 0, &far, 0, 1000, err));
    devices_ok(stk_stream_finish(on->stream, err));
    assert_memory_equal(back.host, piece[3] + 2, 1000);
    stk_block_destroy(&far);
    stk_block_destroy(&back);
    static const int order[] = { 3, 0, 5, 1, 2, 4 };
    for (int i = 0; i < 6; i++) allocator.release(allocator.context, piece[order[i]], 0);
    assert_int_equal(stoke_device_pinned_failed(on->device, &why), STOKE_OK);
    assert_null(allocator.alloc(allocator.context, SIZE_MAX - 8, 64));
    assert_int_equal(stoke_device_pinned_failed(on->device, &why), STOKE_E_NOMEM);
    assert_non_null(strstr(why.message, "pinned"));
}

/* One that its compiler refuses does not harm the device. Kinds that run C have nothing to compile. */
static void refuses_bad_programs(on_device *on)
{
    static const char text[] = "this is no kernel";
    static const char *const names[] = { "missing" };
    static const uint8_t arguments[] = { 1 };
    const stk_program program = { .name = "broken",
                                  .text = text,
                                  .text_bytes = sizeof text - 1,
                                  .kernels = names,
                                  .arguments = arguments,
                                  .host = stk_augment_program.host,
                                  .n_kernels = 1 };
    stk_device_module *module;
    stoke_error why = { 0 };
    const int r = stk_module_create(&module, on->device, &program, &why);
    const char *kind = on->device->fns->kind;
    if (!strcmp(kind, "host") || !strcmp(kind, "sim")) {
        assert_int_equal(r, STOKE_OK);
    } else {
        assert_int_equal(r, STOKE_E_UNSUPPORTED);
        assert_non_null(strstr(why.message, "broken"));
        assert_null(module);
    }
    stk_module_destroy(&module);
    devices_ok(stk_stream_finish(on->stream, err));
}

/* ---- losses, by a kind that breaks ---- */

static int breaks;
static int break_down(stk_device_stream *stream, stoke_error *err)
{
    snprintf(err->message, sizeof err->message, "the device fell off the bus, %d", ++breaks);
    return err->code = STOKE_E_DEVICE;
}

static void keeps_the_first_loss(on_device *on)
{
    stk_device_fns broken = *on->device->fns;
    const stk_device_fns *sound = on->device->fns;
    stoke_error why = { 0 };
    stk_device_block block = make(on, STK_MEMORY_DEVICE, BYTES), other;
    stk_device_event *event, *no_event;
    stk_device_stream *no_stream;
    stk_device_module *no_module;
    uint64_t a, b;
    int done;
    devices_ok(stk_event_create(&event, on->device, err));
    broken.stream_finish = break_down;
    on->device->fns = &broken;
    breaks = 0;
    assert_int_equal(stk_stream_finish(on->stream, NULL), STOKE_E_DEVICE);
    assert_int_equal(breaks, 1);
#define still_lost(call)                                                                                     \
    do {                                                                                                     \
        memset(&why, 0, sizeof why);                                                                         \
        assert_int_equal(call, STOKE_E_DEVICE);                                                              \
        assert_string_equal(why.message, "the device fell off the bus, 1");                                  \
        assert_int_equal(why.code, STOKE_E_DEVICE);                                                          \
    } while (0)
    still_lost(stk_stream_finish(on->stream, &why));
    still_lost(stk_block_create(&other, on->device, STK_MEMORY_DEVICE, 1, &why));
    still_lost(stk_stream_create(&no_stream, on->device, &why));
    still_lost(stk_stream_wrap(&no_stream, on->device, on, &why));
    still_lost(stk_stream_wait(on->stream, event, &why));
    still_lost(stk_stream_copy(on->stream, &block, 0, &block, 5, 1, &why));
    still_lost(stk_stream_launch(on->stream, NULL, NULL, &why));
    still_lost(stk_stream_occupy(on->stream, 1, &why));
    still_lost(stk_event_create(&no_event, on->device, &why));
    still_lost(stk_event_record(event, on->stream, &why));
    still_lost(stk_event_finish(event, &why));
    still_lost(stk_event_done(event, &done, &why));
    still_lost(stk_event_time(event, &a, &why));
    still_lost(stk_module_create(&no_module, on->device, &stk_augment_program, &why));
    still_lost(stoke_device_memory(on->device, &a, &b, &why));
    assert_int_equal(breaks, 1); /* nothing asked the kind again */
    assert_true(!no_stream && !no_event && !no_module);
    on->device->fns = sound;
    stk_event_destroy(&event);
    stk_block_destroy(&block);
}

/* ---- a selftest can fail ---- */

/* A copy engine that forgets the last byte of long copies. */
static int copy_short(stk_device_stream *stream, const stk_device_block *to, size_t to_at,
                      const stk_device_block *from, size_t from_at, size_t bytes, stoke_error *err)
{
    return stk_device_host.copy(stream, to, to_at, from, from_at, bytes - (bytes > 4096), err);
}

/* Which lines failed, by their names, and which may differ a little. */
typedef struct verdicts {
    unsigned lines, failed, tolerant;
    int copies_failed;
} verdicts;

static int judge(void *context, const stoke_selftest_line *line)
{
    verdicts *v = context;
    v->lines++;
    v->failed += !line->passed;
    v->tolerant += line->tolerance > 0;
    if (!strncmp(line->name, "copy ", 5) && !line->passed) {
        v->copies_failed++;
        assert_true(line->different && line->largest > 0 && !*line->problem);
    }
    return 0;
}

static void test_selftest_notices(void **state)
{
    if (LINES < 1000) unit_skip("a whole selftest takes too long under a sanitizer of threads");
    stoke_device *device;
    stoke_error why = { 0 };
    verdicts v = { 0 };
    stk_device_fns wrong = stk_device_host;
    wrong.copy = copy_short;
    devices_ok(stoke_device_open(&device, "host", NULL, err));
    device->fns = &wrong;
    assert_int_equal(stoke_device_selftest(device, judge, &v, &why), STOKE_E_DEVICE);
    assert_int_equal(v.copies_failed, 5);
    /* Those, the two streams, and ids of 16 bits, which end in a pixel that counts; other batches end in a
     * row that stays empty. */
    assert_int_equal(v.failed, 7);
    assert_non_null(strstr(why.message, "host failed"));
    assert_non_null(strstr(why.message, "the first: copy pageable up"));
    stoke_device_close(&device);
}

/* What a driver says is long: its compiler's log, or the arithmetic of a limit. */
static int copy_with_many_words(stk_device_stream *stream, const stk_device_block *to, size_t to_at,
                                const stk_device_block *from, size_t from_at, size_t bytes, stoke_error *err)
{
    (void)stream, (void)to, (void)to_at, (void)from, (void)from_at, (void)bytes;
    return stk_fail(err, STOKE_E_NOMEM, "%0700d, and what to do", 0);
}

static int expect_the_end(void *context, const stoke_selftest_line *line)
{
    ++*(unsigned *)context;
    assert_false(line->passed);
    assert_non_null(strstr(line->problem, "0, and what to do"));
    return 1;
}

static void test_selftest_says_all(void **state)
{
    stoke_device *device;
    unsigned lines = 0;
    stk_device_fns wrong = stk_device_host;
    wrong.copy = copy_with_many_words;
    devices_ok(stoke_device_open(&device, "host", NULL, err));
    device->fns = &wrong;
    assert_int_equal(stoke_device_selftest(device, expect_the_end, &lines, NULL), STOKE_E_CANCELLED);
    assert_int_equal(lines, 1);
    stoke_device_close(&device);
}

/* Without exact roots, only what takes roots may differ. */
static void test_selftest_tolerates(void **state)
{
    if (LINES < 1000) unit_skip("a whole selftest takes too long under a sanitizer of threads");
    stoke_device *device;
    verdicts v = { 0 };
    devices_ok(stoke_device_open(&device, "host", NULL, err));
    device->info.exact_math = 0;
    devices_ok(stoke_device_selftest(device, judge, &v, err));
    assert_true(v.tolerant > 10 && v.tolerant < v.lines / 2);
    stoke_device_close(&device);
}

/* Lines of a selftest on a device that is lost on the way. */
typedef struct losing {
    unsigned lines, failed;
    char problem[768]; /* of the first that failed */
} losing;

static int note_line(void *context, const stoke_selftest_line *line)
{
    losing *l = context;
    if (!line->passed && !l->failed++) snprintf(l->problem, sizeof l->problem, "%s", line->problem);
    if (l->failed) assert_string_equal(line->problem, l->problem); /* from there on all of them, alike */
    return ++l->lines == 14;
}

/* At any call: whoever was under way cleans up, and all that comes later tells the first failure. */
static void test_lost_on_the_way(void **state)
{
    const stoke_device_params params = devices_params();
    unsigned lost = 0;
    for (uint64_t calls = 0; calls < 400; calls += calls / 8 + 1) {
        stoke_device *device;
        losing l = { 0 };
        stoke_error why = { 0 };
        devices_ok(stoke_device_open(&device, "sim", &params, err));
        stk_sim_lose_after(device, calls);
        assert_int_equal(stoke_device_selftest(device, note_line, &l, &why), STOKE_E_CANCELLED);
        if (l.failed) {
            assert_non_null(strstr(l.problem, "lost"));
            lost++;
        }
        stoke_device_close(&device);
    }
    assert_true(lost > 20);
}

/* ---- names ---- */

static void test_names(void **state)
{
    static const struct {
        const char *name, *says;
    } wrong[] = {
        { "hots", "did you mean host?" },
        { "cud:0", "did you mean cuda?" },
        { "", "no device is called ''" },
        { ":", "no device is called ':'" },
        { "gpu", "no device is called 'gpu'" },
        { "host:1", "host" },
        { "opencl:99", "opencl" },
        { "cuda:-1", "" },
        { "opencl:0x", "" },
        { "sim:rtx9999", "rtx9999" },
        { "a name that is much longer than any name of a device could ever be",
          "no device is called 'a name" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        stoke_device *device = (stoke_device *)state;
        stoke_error why = { 0 };
        assert_int_equal(stoke_device_open(&device, wrong[i].name, NULL, &why), STOKE_E_NOTFOUND);
        assert_null(device);
        if (!strcasestr(why.message, wrong[i].says) || !strstr(why.message, "usable here: host"))
            fail_msg("%s: %s", wrong[i].name, why.message);
        assert_int_equal(stoke_device_open(&device, wrong[i].name, NULL, NULL), STOKE_E_NOTFOUND);
    }
    stoke_device *device = NULL;
    stoke_device_params params = { 0 };
    assert_int_equal(stoke_device_open(&device, "host", &params, NULL), STOKE_E_INVALID);
    stoke_device_close(&device);
}

/* The first real one of its own; without any, the host, and never a simulated GPU. */
static void test_auto(void **state)
{
    const char *cuda = getenv("STOKE_LIBCUDA");
    char kept[4096];
    snprintf(kept, sizeof kept, "%s", cuda ? cuda : "");
    for (int i = 0; i < 3; i++) {
        stoke_device *device;
        if (i == 2) setenv("STOKE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
        devices_ok(stoke_device_open(&device, i ? "auto" : NULL, NULL, err));
        const stoke_device_info *info = stoke_device_describe(device);
        assert_false(info->emulated);
        assert_true(!info->shares_cores || !strcmp(info->name, "host"));
        if (*kept && i < 2) assert_string_equal(info->name, "cuda:0");
        stoke_device_close(&device);
    }
    if (cuda)
        setenv("STOKE_LIBCUDA", kept, 1);
    else
        unsetenv("STOKE_LIBCUDA");
}

/* Ordered by kind, each kind there or explained, and what has no problem opens. */
static void test_list(void **state)
{
    static const char *const kinds[] = { "host", "cuda", "opencl", "sim" };
    stoke_device_list *list;
    stoke_device_info info;
    size_t kind = 0, i = 0;
    unsigned seen = 0;
    devices_ok(stoke_device_list_create(&list, err));
    for (; stoke_device_list_at(list, i, &info); i++) {
        while (kind < 4 && strncmp(info.name, kinds[kind], strlen(kinds[kind]))) kind++;
        assert_true(kind < 4);
        seen |= 1u << kind;
        if (*info.problem) continue;
        stoke_device *device;
        const stoke_device_params params = devices_params();
        devices_ok(stoke_device_open(&device, info.name, &params, err));
        assert_memory_equal(stoke_device_describe(device)->name, info.name, strlen(info.name));
        assert_string_equal(stoke_device_describe(device)->title, info.title);
        stoke_device_close(&device);
    }
    assert_int_equal(seen, 15);
    assert_int_equal(stoke_device_list_at(list, i + 1, &info), 0);
    stoke_device_list_destroy(&list);
    stoke_device_list_destroy(&list);
}

/* ---- the host without memory ---- */

static int use_host(void)
{
    stoke_device *device = NULL;
    stk_device_stream *stream = NULL;
    stk_device_event *event = NULL;
    stk_device_module *module = NULL;
    stk_device_block block = { 0 };
    void *piece = NULL;
    int r = stoke_device_open(&device, "host", NULL, NULL);
    if (!r) r = stk_stream_create(&stream, device, NULL);
    if (!r) r = stk_event_create(&event, device, NULL);
    if (!r) r = stk_event_record(event, stream, NULL);
    if (!r) r = stk_module_create(&module, device, &stk_augment_program, NULL);
    if (!r) r = stk_block_create(&block, device, STK_MEMORY_DEVICE, 100, NULL);
    if (!r && !(piece = stoke_device_pinned(device).alloc(device, 100, 64)))
        r = stoke_device_pinned_failed(device, NULL);
    if (piece) stoke_device_pinned(device).release(device, piece, 100);
    stk_block_destroy(&block);
    stk_module_destroy(&module);
    stk_event_destroy(&event);
    stk_stream_destroy(&stream);
    stoke_device_close(&device);
    return r;
}

static void test_no_memory(void **state)
{
    int r = STOKE_E_NOMEM;
    for (int after = 0; r; after++) {
        stk_mem_fail_after(after);
        r = use_host();
        stk_mem_fail_after(-1);
        if (r) assert_int_equal(r, STOKE_E_NOMEM);
        assert_true(after < 50);
    }
    stoke_device_list *list = NULL;
    for (int after = 0; !list; after++) {
        stk_mem_fail_after(after);
        r = stoke_device_list_create(&list, NULL);
        stk_mem_fail_after(-1);
        if (r) assert_int_equal(r, STOKE_E_NOMEM);
        assert_true(after < 500);
    }
    stoke_device_list_destroy(&list);
}

UNIT_GROUP(device)
{
    static const device_test tests[] = {
        { "describes itself", describes_itself },
        { "passes the selftest", passes_the_selftest },
        { "stops the selftest when asked", stops_the_selftest },
        { "checks copies", checks_copies },
        { "checks launches", checks_launches },
        { "keeps events", keeps_events },
        { "ends in every order", ends_in_every_order },
        { "takes much work", takes_much_work },
        { "serves threads", serves_threads },
        { "counts memory", counts_memory },
        { "locks pages for loaders", locks_pages_for_loaders },
        { "refuses bad programs", refuses_bad_programs },
        { "keeps the first loss", keeps_the_first_loss },
    };
    enum { TESTS = sizeof tests / sizeof *tests, OTHERS = 7, KINDS = 4 };
    static device_run runs[TESTS * KINDS];
    static struct CMUnitTest all[TESTS * KINDS + OTHERS] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_lost_on_the_way),
        cmocka_unit_test(test_selftest_notices),
        cmocka_unit_test(test_selftest_says_all),
        cmocka_unit_test(test_selftest_tolerates),
    };
    devices_tests(tests, TESTS, all + OTHERS, runs);
    return cmocka_run_group_tests(all, NULL, NULL);
}
