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

/* ---- copies ---- */

enum { ROOM = 70001, PAD = 0x5a };

/* Device memory is filled and read by way of `stage`. */
typedef struct copying {
    stk_device_stream *stream;
    stk_device_block from, to, stage;
    uint8_t *sent, *wanted; /* ROOM bytes each */
} copying;

static void copying_end(copying *c)
{
    stk_stream_destroy(&c->stream);
    stk_block_destroy(&c->from);
    stk_block_destroy(&c->to);
    stk_block_destroy(&c->stage);
    stk_free(c->sent);
    stk_free(c->wanted);
}

/* Puts bytes into a block of any kind, and waits. */
static int put(copying *c, const stk_device_block *block, const uint8_t *bytes, stoke_error *err)
{
    if (block->kind != STK_MEMORY_DEVICE) {
        memcpy(block->host, bytes, ROOM);
        return STOKE_OK;
    }
    memcpy(c->stage.host, bytes, ROOM);
    const int r = stk_stream_copy(c->stream, block, 0, &c->stage, 0, ROOM, err);
    return r ? r : stk_stream_finish(c->stream, err);
}

/* Where the bytes of a block can be looked at. */
static int get(copying *c, const stk_device_block *block, const void **bytes, stoke_error *err)
{
    const int far = block->kind == STK_MEMORY_DEVICE;
    int r = far ? stk_stream_copy(c->stream, &c->stage, 0, block, 0, ROOM, err) : STOKE_OK;
    if (!r) r = stk_stream_finish(c->stream, err);
    *bytes = far ? c->stage.host : block->host;
    return r;
}

/* One copy; what lies around it must stay as it was. */
static int copy_once(copying *c, size_t to_at, size_t from_at, size_t bytes, stoke_selftest_line *line,
                     stoke_error *err)
{
    const void *got;
    stk_selftest_fill(c->sent, ROOM, bytes);
    memset(c->wanted, PAD, ROOM);
    int r = put(c, &c->to, c->wanted, err);
    if (!r) r = put(c, &c->from, c->sent, err);
    if (!r) r = stk_stream_copy(c->stream, &c->to, to_at, &c->from, from_at, bytes, err);
    if (!r) r = get(c, &c->to, &got, err);
    if (r) return r;
    memcpy(c->wanted + to_at, c->sent + from_at, bytes);
    stk_selftest_compare(line, got, c->wanted, ROOM);
    return STOKE_OK;
}

static int copy_all(copying *c, stoke_selftest_line *line, stoke_error *err)
{
    static const struct {
        size_t to_at, from_at, bytes;
    } cases[] = { { 0, 0, ROOM },  { 0, 0, 1 },         { ROOM - 1, 3, 1 }, { 7, 1, 3 },
                  { 1, 64, 4095 }, { 4095, 17, 65537 }, { 128, 4096, 512 }, { 33, 33, 0 } };
    int r = STOKE_OK;
    for (size_t i = 0; !r && i < sizeof cases / sizeof *cases; i++)
        r = copy_once(c, cases[i].to_at, cases[i].from_at, cases[i].bytes, line, err);
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
    copying c = { 0 };
    line->name = paths[which].name;
    line->against = "the bytes sent";
    c.sent = stk_alloc(ROOM);
    c.wanted = stk_alloc(ROOM);
    int r = c.sent && c.wanted ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for a copy");
    if (!r) r = stk_stream_create(&c.stream, device, err);
    if (!r) r = stk_block_create(&c.from, device, paths[which].from, ROOM, err);
    if (!r) r = stk_block_create(&c.to, device, paths[which].to, ROOM, err);
    if (!r) r = stk_block_create(&c.stage, device, STK_MEMORY_PAGEABLE, ROOM, err);
    if (!r) r = copy_all(&c, line, err);
    copying_end(&c);
    return r;
}

/* ---- order ---- */

enum { ROUNDS = 16, PIECE = 1 << 17 };

/* One stream brings numbers up, the other takes them down; one block in between, two events. */
typedef struct relay {
    stk_device_stream *up, *down;
    stk_device_event *full, *empty;
    stk_device_block source, between, target;
} relay;

/* Without the events rounds would overwrite each other: the host waits for nothing until the end. */
static int relay_rounds(relay *y, stoke_error *err)
{
    int r = STOKE_OK;
    for (uint32_t i = 0; !r && i < ROUNDS; i++) {
        const size_t at = (size_t)i * PIECE;
        r = stk_stream_wait(y->up, y->empty, err);
        if (!r) r = stk_stream_copy(y->up, &y->between, 0, &y->source, at, PIECE, err);
        if (!r) r = stk_event_record(y->full, y->up, err);
        if (!r) r = stk_stream_wait(y->down, y->full, err);
        if (!r) r = stk_stream_copy(y->down, &y->target, at, &y->between, 0, PIECE, err);
        if (!r) r = stk_event_record(y->empty, y->down, err);
    }
    return r ? r : stk_event_finish(y->empty, err);
}

static int relay_create(relay *y, stoke_device *device, stoke_error *err)
{
    int r = stk_stream_create(&y->up, device, err);
    if (!r) r = stk_stream_create(&y->down, device, err);
    if (!r) r = stk_event_create(&y->full, device, err);
    if (!r) r = stk_event_create(&y->empty, device, err);
    if (!r) r = stk_block_create(&y->source, device, STK_MEMORY_PINNED, (size_t)ROUNDS * PIECE, err);
    if (!r) r = stk_block_create(&y->target, device, STK_MEMORY_PINNED, (size_t)ROUNDS * PIECE, err);
    return r ? r : stk_block_create(&y->between, device, STK_MEMORY_DEVICE, PIECE, err);
}

static void relay_destroy(relay *y)
{
    stk_stream_destroy(&y->up);
    stk_stream_destroy(&y->down);
    stk_event_destroy(&y->full);
    stk_event_destroy(&y->empty);
    stk_block_destroy(&y->source);
    stk_block_destroy(&y->target);
    stk_block_destroy(&y->between);
}

int stk_selftest_order(stoke_device *device, unsigned which, stoke_selftest_line *line, stoke_error *err)
{
    relay y = { 0 };
    line->name = "events: two streams take turns";
    line->against = "the bytes sent";
    int r = relay_create(&y, device, err);
    if (!r) {
        stk_selftest_fill(y.source.host, y.source.bytes, 1);
        memset(y.target.host, PAD, y.target.bytes);
        r = relay_rounds(&y, err);
    }
    if (!r) stk_selftest_compare(line, y.target.host, y.source.host, y.source.bytes);
    relay_destroy(&y);
    return r;
}

/* Times of a stream's events never go back, and an event that was waited for has happened. */
static int check_times(stk_device_stream *stream, stk_device_event *const event[2],
                       const stk_device_block *device, const stk_device_block *host,
                       stoke_selftest_line *line, stoke_error *err)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t ns[2] = { 0 };
        int done = 0, r = stk_event_record(event[0], stream, err);
        if (!r) r = stk_stream_copy(stream, device, 0, host, 0, host->bytes, err);
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
    stk_device_stream *stream = NULL;
    stk_device_event *event[2] = { NULL };
    stk_device_block far = { 0 }, near = { 0 };
    line->name = "events: times in order";
    line->against = "the order of the calls";
    int r = stk_stream_create(&stream, device, err);
    for (int i = 0; !r && i < 2; i++) r = stk_event_create(&event[i], device, err);
    if (!r) r = stk_block_create(&far, device, STK_MEMORY_DEVICE, ROOM, err);
    if (!r) r = stk_block_create(&near, device, STK_MEMORY_PINNED, ROOM, err);
    if (!r) memset(near.host, PAD, ROOM);
    if (!r) r = check_times(stream, event, &far, &near, line, err);
    stk_stream_destroy(&stream);
    for (int i = 0; i < 2; i++) stk_event_destroy(&event[i]);
    stk_block_destroy(&far);
    stk_block_destroy(&near);
    return r;
}

/* ---- kernels that no batch shows ---- */

enum { WORDS = 1021 }; /* a prime: no group of work items divides it */

/* Runs a kernel of one block of words on the device and as C. */
static int run_words(stk_device_stream *stream, stk_device_module *module, uint32_t kernel,
                     const stk_device_block *far, const stk_device_block *near, k_u32 *wanted,
                     stoke_error *err)
{
    k_shape shape = { .width = WORDS - 3, .round = 5 };
    static const uint32_t first[3];
    const uint32_t grid[3] = { WORDS, 1, 1 };
    const stk_device_argument arguments[] = { { .block = far }, { .value = &shape, .bytes = sizeof shape } };
    const stk_device_launch launch = { .kernel = kernel,
                                       .grid = { WORDS, 1, 1 },
                                       .arguments = arguments,
                                       .n_arguments = 2,
                                       .traffic = 2 * near->bytes };
    int r = stk_stream_copy(stream, far, 0, near, 0, near->bytes, err);
    if (!r) r = stk_stream_launch(stream, module, &launch, err);
    if (!r) r = stk_stream_copy(stream, near, 0, far, 0, near->bytes, err);
    if (!r) r = stk_stream_finish(stream, err);
    stk_augment_program.host[kernel]((void *[]){ wanted, &shape }, first, grid);
    return r;
}

int stk_selftest_words(stoke_device *device, unsigned which, stoke_selftest_line *line, stoke_error *err)
{
    static const uint32_t kernels[] = { STK_KERNEL_clear, STK_KERNEL_spin };
    if (which >= sizeof kernels / sizeof *kernels) return STOKE_E_END;
    k_u32 wanted[WORDS];
    stk_device_stream *stream = NULL;
    stk_device_module *module = NULL;
    stk_device_block far = { 0 }, near = { 0 };
    line->name = stk_augment_program.kernels[kernels[which]];
    int r = stk_stream_create(&stream, device, err);
    if (!r) r = stk_module_create(&module, device, &stk_augment_program, err);
    if (!r) r = stk_block_create(&far, device, STK_MEMORY_DEVICE, sizeof wanted, err);
    if (!r) r = stk_block_create(&near, device, STK_MEMORY_PINNED, sizeof wanted, err);
    if (!r) {
        stk_selftest_fill(near.host, sizeof wanted, which);
        memcpy(wanted, near.host, sizeof wanted);
        r = run_words(stream, module, kernels[which], &far, &near, wanted, err);
    }
    if (!r) stk_selftest_compare(line, near.host, wanted, sizeof wanted);
    stk_stream_destroy(&stream);
    stk_module_destroy(&module);
    stk_block_destroy(&far);
    stk_block_destroy(&near);
    return r;
}

/* ---- a memory that is too small ---- */

/* A block beyond the limit is refused and harms nothing: the one that fits still carries bytes. */
static int refuse_and_go_on(stoke_device *device, stoke_selftest_line *line, stoke_error *err)
{
    copying c = { 0 };
    stk_device_block first = { 0 };
    stoke_error refused = { 0 };
    int r = stk_block_create(&first, device, STK_MEMORY_DEVICE, 6 * ROOM, err);
    if (!r && stk_block_create(&c.to, device, STK_MEMORY_DEVICE, 6 * ROOM, &refused) != STOKE_E_NOMEM)
        r = stk_fail(err, STOKE_E_STATE, "a block beyond memory_limit was not refused");
    stk_block_destroy(&first);
    c.sent = stk_alloc(ROOM);
    c.wanted = stk_alloc(ROOM);
    if (!r && (!c.sent || !c.wanted)) r = stk_fail(err, STOKE_E_NOMEM, "no memory for a copy");
    if (!r) r = stk_stream_create(&c.stream, device, err);
    if (!r) r = stk_block_create(&c.to, device, STK_MEMORY_DEVICE, 6 * ROOM, err);
    if (!r) r = stk_block_create(&c.from, device, STK_MEMORY_PINNED, ROOM, err);
    if (!r) r = stk_block_create(&c.stage, device, STK_MEMORY_PAGEABLE, ROOM, err);
    if (!r) r = copy_once(&c, 1, 2, 4097, line, err);
    copying_end(&c);
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
