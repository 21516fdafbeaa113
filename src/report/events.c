/* SPDX-License-Identifier: Apache-2.0
 *
 * A record is
 *
 *   u64 length | u32 masked CRC of the length | length bytes: one Event | u32 masked CRC of the bytes
 *
 * and an Event, of TensorFlow's event.proto, the fields
 *
 *   1 double wall_time   2 int64 step   3 string file_version   5 Summary   7 SessionLog
 *   Summary      1 repeated Value { 1 string tag   2 float simple_value   4 Image }
 *   Image        1 height   2 width   3 colorspace (3: RGB)   4 bytes of the file
 *   SessionLog   1 status (1: START)
 *
 * written in the order of their numbers and zeros left out, as protobuf's own writer does: the bytes are
 * equal to TensorBoard's (tests/unit/test_events.c). Nested messages are preceded by their length, so what is
 * inside is measured first and written second, by the same code: a `sink` without room only counts.
 *
 * A record goes out in one write(2). A process that is killed leaves at most one half record, at the end of
 * its file, where TensorBoard stops reading; the next session begins another file.
 */
#include "src/report/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/retry.h"

/* ---- CRC-32C ---- */

/* Four bits at a time: a table of 16 words that can be read and checked here, and no state to set up. A
 * megabyte, a large picture of predictions, takes 5 ms on an EPYC core: nothing beside the evaluation that
 * drew it. */

/* Remainders of 0 .. 15 under the polynomial 0x1EDC6F41, bits reversed. */
static const uint32_t remainders[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t stk_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ remainders[crc & 15];
        crc = crc >> 4 ^ remainders[crc & 15];
    }
    return ~crc;
}

/* ---- files ---- */

enum {
    HEAD = 12, /* of a record: length and its CRC */
    TAIL = 4,
    PICTURE_BYTES = 64 << 20 /* of a picture at most: TensorBoard reads records whole */
};

struct stk_events {
    char *path;
    int fd;
    uint64_t end; /* of the last whole record */
    double (*now)(void);
    stk_mem_buffer record, picture;
};

/* ---- protocol buffers ---- */

typedef struct sink {
    uint8_t *bytes; /* NULL: only count */
    size_t used;
} sink;

static void put_bytes(sink *s, const void *bytes, size_t size)
{
    if (s->bytes && size) memcpy(s->bytes + s->used, bytes, size);
    s->used += size;
}

static void put_varint(sink *s, uint64_t value)
{
    do {
        const uint8_t byte = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
        put_bytes(s, &byte, 1);
        value >>= 7;
    } while (value);
}

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_key(sink *s, unsigned field, unsigned type)
{
    put_varint(s, field << 3 | type);
}

static void put_number(sink *s, unsigned field, uint64_t value)
{
    if (!value) return;
    put_key(s, field, VARINT);
    put_varint(s, value);
}

static void put_little(sink *s, uint64_t value, unsigned size)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < size; i++) bytes[i] = (uint8_t)(value >> 8 * i);
    put_bytes(s, bytes, size);
}

static void put_blob(sink *s, unsigned field, const void *bytes, size_t size)
{
    put_key(s, field, BYTES);
    put_varint(s, size);
    put_bytes(s, bytes, size);
}

/* ---- one event ---- */

typedef struct picture {
    uint32_t height, width;
    const void *bytes;
    size_t size;
} picture;

/* What one event says: any of these may be absent. */
typedef struct event {
    double time;
    uint64_t step;
    const char *version;
    const char *const *tags;
    const double *values; /* of the tags; NULL: `image` is the value of the only tag */
    size_t count;
    picture image;
    int start;
} event;

/* A message within one: its length, then itself. */
static void put_message(sink *s, unsigned field, void (*put)(sink *, const event *, size_t), const event *e,
                        size_t index)
{
    sink measure = { 0 };
    put(&measure, e, index);
    put_key(s, field, BYTES);
    put_varint(s, measure.used);
    put(s, e, index);
}

static void put_image(sink *s, const event *e, size_t unused)
{
    put_number(s, 1, e->image.height);
    put_number(s, 2, e->image.width);
    put_number(s, 3, 3);
    put_blob(s, 4, e->image.bytes, e->image.size);
}

static void put_value(sink *s, const event *e, size_t index)
{
    put_blob(s, 1, e->tags[index], strlen(e->tags[index]));
    if (e->values) {
        const float value = (float)e->values[index];
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        put_key(s, 2, FIXED32);
        put_little(s, bits, 4);
    } else {
        put_message(s, 4, put_image, e, index);
    }
}

static void put_summary(sink *s, const event *e, size_t unused)
{
    for (size_t i = 0; i < e->count; i++) put_message(s, 1, put_value, e, i);
}

static void put_event(sink *s, const event *e)
{
    uint64_t bits;
    memcpy(&bits, &e->time, sizeof bits);
    put_key(s, 1, FIXED64);
    put_little(s, bits, 8);
    put_number(s, 2, e->step);
    if (e->version) put_blob(s, 3, e->version, strlen(e->version));
    if (e->count) put_message(s, 5, put_summary, e, 0);
    if (e->start) put_blob(s, 7, "\x08\x01", 2); /* SessionLog { status: START } */
}

/* ---- records ---- */

/* A CRC over data that holds CRCs is weak; the format's mask is against that. */
static uint32_t masked_crc(const void *bytes, size_t size)
{
    const uint32_t crc = stk_crc32c(0, bytes, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static int write_whole(stk_events *events, const uint8_t *bytes, size_t size, stoke_error *err)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = write(events->fd, bytes + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            const int number = n ? errno : ENOSPC;
            /* Readers give up at a half record: take it back. */
            if (ftruncate(events->fd, (off_t)events->end) == 0)
                lseek(events->fd, (off_t)events->end, SEEK_SET);
            return stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot write", events->path);
        }
        done += (size_t)n;
    }
    events->end += size;
    return STOKE_OK;
}

static int write_event(stk_events *events, const event *e, stoke_error *err)
{
    sink measure = { 0 };
    put_event(&measure, e);
    const size_t length = measure.used;
    uint8_t *bytes = stk_buffer_reserve(&events->record, HEAD + length + TAIL);
    if (!bytes) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for an event", events->path);
    sink s = { bytes, 0 };
    put_little(&s, length, 8);
    put_little(&s, masked_crc(bytes, 8), 4);
    put_event(&s, e);
    put_little(&s, masked_crc(bytes + HEAD, length), 4);
    return write_whole(events, bytes, s.used, err);
}

/* ---- files ---- */

static double wall_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* TensorBoard reads the files of a folder in the order of their names: seconds come first, with ten digits.
 */
static int open_file(stk_events *events, const char *folder, stoke_error *err)
{
    static atomic_uint made;
    char host[64] = "";
    if (gethostname(host, sizeof host - 1) || !*host) strcpy(host, "localhost");
    for (char *p = host; *p; p++)
        if (*p == '/') *p = '_';
    const size_t size = strlen(folder) + 160;
    events->path = stk_alloc(size);
    if (!events->path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for its events", folder);
    snprintf(events->path, size, "%s/events.out.tfevents.%010llu.%s.%ld.%u", folder,
             (unsigned long long)events->now(), host, (long)getpid(), atomic_fetch_add(&made, 1));
    events->fd = stoke_open(events->path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (events->fd < 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot write", events->path);
    return STOKE_OK;
}

int stk_events_open_at(stk_events **out, const char *folder, const uint64_t *after, double (*now)(void),
                       stoke_error *err)
{
    *out = NULL;
    stk_events *events = stk_calloc(1, sizeof *events);
    if (!events) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory for its events", folder);
    events->fd = -1;
    events->now = now;
    int r = open_file(events, folder, err);
    if (!r) {
        const event version = { .time = now(), .version = "brain.Event:2" };
        r = write_event(events, &version, err);
    }
    if (!r && after) {
        /* Steps from this one on are purged. */
        const event start = { .time = now(), .step = *after + 1, .start = 1 };
        r = write_event(events, &start, err);
    }
    if (r)
        stk_events_close(&events);
    else
        *out = events;
    return r;
}

int stk_events_open(stk_events **out, const char *folder, const uint64_t *after, stoke_error *err)
{
    return stk_events_open_at(out, folder, after, wall_clock, err);
}

void stk_events_close(stk_events **events)
{
    stk_events *e = *events;
    if (!e) return;
    if (e->fd >= 0) close(e->fd);
    stk_buffer_free(&e->record);
    stk_buffer_free(&e->picture);
    stk_free(e->path);
    stk_free(e);
    *events = NULL;
}

int stk_events_scalars(stk_events *events, uint64_t step, const char *const *tags, const double *values,
                       size_t count, stoke_error *err)
{
    const event e = { .time = events->now(), .step = step, .tags = tags, .values = values, .count = count };
    return count ? write_event(events, &e, err) : STOKE_OK;
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int stk_events_png(stk_events *events, uint64_t step, const char *tag, const char *path, stoke_error *err)
{
    size_t size;
    int r = stk_file_read(path, PICTURE_BYTES, &events->picture, &size, err);
    if (r) return r;
    const uint8_t *bytes = events->picture.data;
    if (size < 24 || memcmp(bytes, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16) != 0)
        return stk_fail(err, STOKE_E_FORMAT, "%s: not a PNG file", path);
    const event e = { .time = events->now(),
                      .step = step,
                      .tags = &tag,
                      .count = 1,
                      .image = { big_endian(bytes + 20), big_endian(bytes + 16), bytes, size } };
    return write_event(events, &e, err);
}
