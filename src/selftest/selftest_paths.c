/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the selftest that need no batch: bytes moved, ordered, computed and refused.
 */
#include "src/selftest/selftest.h"

#include <string.h>
#include <stoke/tools/device.h>

#include "kernels/tables.h"
#include "src/base/error.h"
#include "src/base/mem.h"

enum { ROOM = 70001, PAD = 0x5a };

/* What a line works with; none needs all of it. */
typedef struct bench {
    stk_device_stream *stream[2];
    stk_device_event *event[2];
    stk_device_block block[3];
    stk_device_module *module;
    uint8_t *sent, *wanted; /* ROOM bytes each */
} bench;

static int bench_create(bench *b, stoke_device *device, int streams, int events, stoke_error *err)
{
    int r = STOKE_OK;
    *b = (bench){ 0 };
    for (int i = 0; !r && i < streams; i++) r = stk_stream_create(&b->stream[i], device, err);
    for (int i = 0; !r && i < events; i++) r = stk_event_create(&b->event[i], device, err);
    return r;
}

static void bench_destroy(bench *b)
{
    for (int i = 0; i < 2; i++) stk_stream_destroy(&b->stream[i]);
    for (int i = 0; i < 2; i++) stk_event_destroy(&b->event[i]);
    for (int i = 0; i < 3; i++) stk_block_destroy(&b->block[i]);
    stk_module_destroy(&b->module);
    stk_free(b->sent);
    stk_free(b->wanted);
}

/* ---- copies ---- */

/* Of a bench: device memory is filled and read by way of STAGE. */
enum { FROM, TO, STAGE };

static int copying_create(bench *b, stoke_device *device, stk_device_memory_kind from,
                          stk_device_memory_kind to, size_t to_bytes, stoke_error *err)
{
    int r = bench_create(b, device, 1, 0, err);
    if (!r) r = stk_block_create(&b->block[FROM], device, from, ROOM, err);
    if (!r) r = stk_block_create(&b->block[TO], device, to, to_bytes, err);
    if (!r) r = stk_block_create(&b->block[STAGE], device, STK_MEMORY_PAGEABLE, ROOM, err);
    if (r) return r;
    b->sent = stk_alloc(ROOM);
    b->wanted = stk_alloc(ROOM);
    return b->sent && b->wanted ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for a copy");
}

/* Puts bytes into a block of any kind, and waits. */
static int put(bench *b, const stk_device_block *block, const uint8_t *bytes, stoke_error *err)
{
    if (block->kind != STK_MEMORY_DEVICE) {
        memcpy(block->host, bytes, ROOM);
        return STOKE_OK;
    }
    memcpy(b->block[STAGE].host, bytes, ROOM);
    const int r = stk_stream_copy(b->stream[0], block, 0, &b->block[STAGE], 0, ROOM, err);
    return r ? r : stk_stream_finish(b->stream[0], err);
}

/* Where the bytes of a block can be looked at. */
static int get(bench *b, const stk_device_block *block, const void **bytes, stoke_error *err)
{
    const int far = block->kind == STK_MEMORY_DEVICE;
    int r = far ? stk_stream_copy(b->stream[0], &b->block[STAGE], 0, block, 0, ROOM, err) : STOKE_OK;
    if (!r) r = stk_stream_finish(b->stream[0], err);
    *bytes = far ? b->block[STAGE].host : block->host;
    return r;
}

/* One copy; what lies around it must stay as it was. */
static int copy_once(bench *b, size_t to_at, size_t from_at, size_t bytes, stoke_selftest_line *line,
                     stoke_error *err)
{
    const void *got;
    stk_selftest_fill(b->sent, ROOM, bytes);
    memset(b->wanted, PAD, ROOM);
    int r = put(b, &b->block[TO], b->wanted, err);
    if (!r) r = put(b, &b->block[FROM], b->sent, err);
    if (!r) r = stk_stream_copy(b->stream[0], &b->block[TO], to_at, &b->block[FROM], from_at, bytes, err);
    if (!r) r = get(b, &b->block[TO], &got, err);
    if (r) return r;
    memcpy(b->wanted + to_at, b->sent + from_at, bytes);
    stk_selftest_compare(line, got, b->wanted, ROOM);
    return STOKE_OK;
}

static int copy_all(bench *b, stoke_selftest_line *line, stoke_error *err)
{
    static const struct {
        size_t to_at, from_at, bytes;
    } cases[] = { { 0, 0, ROOM },  { 0, 0, 1 },         { ROOM - 1, 3, 1 }, { 7, 1, 3 },
                  { 1, 64, 4095 }, { 4095, 17, 65537 }, { 128, 4096, 512 }, { 33, 33, 0 } };
    int r = STOKE_OK;
    for (size_t i = 0; !r && i < sizeof cases / sizeof *cases; i++)
        r = copy_once(b, cases[i].to_at, cases[i].from_at, cases[i].bytes, line, err);
    return r;
}

int stk_selftest_copy(stoke_device *device, unsigned which, stoke_selftest_line *line, stoke_error *err)
{
    static const struct {
        const char *name;
        stk_device_memory_kind from, to;
    } paths[STK_SELFTEST_COPIES] = {
        { "copy pageable up", STK_MEMORY_PAGEABLE, STK_MEMORY_DEVICE },
        { "copy pageable down", STK_MEMORY_DEVICE, STK_MEMORY_PAGEABLE },
        { "copy pinned up", STK_MEMORY_PINNED, STK_MEMORY_DEVICE },
        { "copy pinned down", STK_MEMORY_DEVICE, STK_MEMORY_PINNED },
        { "copy on the device", STK_MEMORY_DEVICE, STK_MEMORY_DEVICE },
    };
    bench b;
    line->name = paths[which].name;
    line->against = "the bytes sent";
    int r = copying_create(&b, device, paths[which].from, paths[which].to, ROOM, err);
    if (!r) r = copy_all(&b, line, err);
    bench_destroy(&b);
    return r;
}

/* ---- order ---- */

enum { ROUNDS = 16, PIECE = 1 << 17 };

/* One stream brings numbers up, the other takes them down; one block in between, two events. Without the
 * events rounds would overwrite each other: the host waits for nothing until the end. */
static int relay_rounds(bench *b, stoke_error *err)
{
    stk_device_stream *up = b->stream[0], *down = b->stream[1];
    stk_device_event *full = b->event[0], *empty = b->event[1];
    const stk_device_block *source = &b->block[0], *between = &b->block[1], *target = &b->block[2];
    int r = STOKE_OK;
    for (uint32_t i = 0; !r && i < ROUNDS; i++) {
        const size_t at = (size_t)i * PIECE;
        r = stk_stream_wait(up, empty, err);
        if (!r) r = stk_stream_copy(up, between, 0, source, at, PIECE, err);
        if (!r) r = stk_event_record(full, up, err);
        if (!r) r = stk_stream_wait(down, full, err);
        if (!r) r = stk_stream_copy(down, target, at, between, 0, PIECE, err);
        if (!r) r = stk_event_record(empty, down, err);
    }
    return r ? r : stk_event_finish(empty, err);
}

int stk_selftest_order(stoke_device *device, unsigned which, stoke_selftest_line *line, stoke_error *err)
{
    const size_t bytes = (size_t)ROUNDS * PIECE;
    bench b;
    line->name = "events: two streams take turns";
    line->against = "the bytes sent";
    int r = bench_create(&b, device, 2, 2, err);
    if (!r) r = stk_block_create(&b.block[0], device, STK_MEMORY_PINNED, bytes, err);
    if (!r) r = stk_block_create(&b.block[1], device, STK_MEMORY_DEVICE, PIECE, err);
    if (!r) r = stk_block_create(&b.block[2], device, STK_MEMORY_PINNED, bytes, err);
    if (!r) {
        stk_selftest_fill(b.block[0].host, bytes, 1);
        memset(b.block[2].host, PAD, bytes);
        r = relay_rounds(&b, err);
    }
    if (!r) stk_selftest_compare(line, b.block[2].host, b.block[0].host, bytes);
    bench_destroy(&b);
    return r;
}

/* Times of a stream's events never go back, and an event that was waited for has happened. */
static int check_times(bench *b, stoke_selftest_line *line, stoke_error *err)
{
    stk_device_stream *stream = b->stream[0];
    stk_device_event *const *event = b->event;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t ns[2] = { 0 };
        int done = 0, r = stk_event_record(event[0], stream, err);
        if (!r) r = stk_stream_copy(stream, &b->block[TO], 0, &b->block[FROM], 0, ROOM, err);
        if (!r) r = stk_event_record(event[1], stream, err);
        if (!r) r = stk_event_finish(event[1], err);
        if (!r) r = stk_event_done(event[0], &done, err);
        if (!r) r = stk_event_time(event[0], &ns[0], err);
        if (!r) r = stk_event_time(event[1], &ns[1], err);
        if (r) return r;
        line->compared++;
        if (done && ns[0] && ns[0] <= ns[1]) continue;
        line->different++;
        if (ns[0] > ns[1] && (double)(ns[0] - ns[1]) > line->largest) line->largest = (double)(ns[0] - ns[1]);
    }
    return STOKE_OK;
}

int stk_selftest_times(stoke_device *device, unsigned which, stoke_selftest_line *line, stoke_error *err)
{
    bench b;
    line->name = "events: times in order";
    line->against = "the order of the calls";
    int r = bench_create(&b, device, 1, 2, err);
    if (!r) r = stk_block_create(&b.block[FROM], device, STK_MEMORY_PINNED, ROOM, err);
    if (!r) r = stk_block_create(&b.block[TO], device, STK_MEMORY_DEVICE, ROOM, err);
    if (!r) memset(b.block[FROM].host, PAD, ROOM);
    if (!r) r = check_times(&b, line, err);
    bench_destroy(&b);
    return r;
}

/* ---- kernels that no batch shows ---- */

enum { WORDS = 1021 }; /* a prime: no group of work items divides it */

/* Runs a kernel of one block of words on the device and as C. */
static int run_words(bench *b, uint32_t kernel, k_u32 *wanted, stoke_error *err)
{
    const stk_device_block *near = &b->block[FROM], *far = &b->block[TO];
    k_shape shape = { .width = WORDS - 3, .round = 5 };
    static const uint32_t first[3];
    const uint32_t grid[3] = { WORDS, 1, 1 };
    const stk_device_argument arguments[] = { { .block = far }, { .value = &shape, .bytes = sizeof shape } };
    const stk_device_launch launch = { .kernel = kernel,
                                       .grid = { WORDS, 1, 1 },
                                       .arguments = arguments,
                                       .n_arguments = 2,
                                       .traffic = 2 * near->bytes };
    int r = stk_stream_copy(b->stream[0], far, 0, near, 0, near->bytes, err);
    if (!r) r = stk_stream_launch(b->stream[0], b->module, &launch, err);
    if (!r) r = stk_stream_copy(b->stream[0], near, 0, far, 0, near->bytes, err);
    if (!r) r = stk_stream_finish(b->stream[0], err);
    stk_augment_program.host[kernel]((void *[]){ wanted, &shape }, first, grid);
    return r;
}

int stk_selftest_words(stoke_device *device, unsigned which, stoke_selftest_line *line, stoke_error *err)
{
    static const uint32_t kernels[] = { STK_KERNEL_clear, STK_KERNEL_spin };
    if (which >= sizeof kernels / sizeof *kernels) return STOKE_E_END;
    k_u32 wanted[WORDS];
    bench b;
    line->name = stk_augment_program.kernels[kernels[which]];
    int r = bench_create(&b, device, 1, 0, err);
    if (!r) r = stk_module_create(&b.module, device, &stk_augment_program, err);
    if (!r) r = stk_block_create(&b.block[FROM], device, STK_MEMORY_PINNED, sizeof wanted, err);
    if (!r) r = stk_block_create(&b.block[TO], device, STK_MEMORY_DEVICE, sizeof wanted, err);
    if (!r) {
        stk_selftest_fill(b.block[FROM].host, sizeof wanted, which);
        memcpy(wanted, b.block[FROM].host, sizeof wanted);
        r = run_words(&b, kernels[which], wanted, err);
    }
    if (!r) stk_selftest_compare(line, b.block[FROM].host, wanted, sizeof wanted);
    bench_destroy(&b);
    return r;
}

/* ---- a memory that is too small ---- */

/* A block beyond the limit is refused and harms nothing: the one that fits still carries bytes. */
static int refuse_and_go_on(stoke_device *device, stoke_selftest_line *line, stoke_error *err)
{
    bench b = { 0 };
    stk_device_block first = { 0 }, second = { 0 };
    stoke_error refused = { 0 };
    int r = stk_block_create(&first, device, STK_MEMORY_DEVICE, 6 * ROOM, err);
    if (!r && stk_block_create(&second, device, STK_MEMORY_DEVICE, 6 * ROOM, &refused) != STOKE_E_NOMEM)
        r = stk_fail(err, STOKE_E_STATE, "a block beyond memory_limit was not refused");
    stk_block_destroy(&first);
    stk_block_destroy(&second);
    if (!r) r = copying_create(&b, device, STK_MEMORY_PINNED, STK_MEMORY_DEVICE, 6 * ROOM, err);
    if (!r) r = copy_once(&b, 1, 2, 4097, line, err);
    bench_destroy(&b);
    return r;
}

int stk_selftest_limit(stoke_device *device, unsigned which, stoke_selftest_line *line, stoke_error *err)
{
    stoke_device *small;
    stoke_device_params params = stoke_device_defaults();
    line->name = "memory_limit: a block refused, others kept";
    line->against = "the bytes sent";
    params.memory_limit = 10 * ROOM;
    params.contents = 1;
    int r = stoke_device_open(&small, stoke_device_describe(device)->name, &params, err);
    if (r) return r;
    r = refuse_and_go_on(small, line, err);
    stoke_device_close(&small);
    return r;
}
