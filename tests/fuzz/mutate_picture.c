/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer's changes to picture files, so that they keep their form: a chunk, a segment, an entry is
 * changed, doubled or left out, and lengths and sums around it are put right. Plain changes of bytes hardly
 * ever pass those.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

/* libFuzzer's own, of plain bytes: the new size, at most `most`. */
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed);

enum { PARTS = 64, PIXELS = 1 << 16 };

/* A chunk or segment: all of it, and what it holds. */
typedef struct part {
    size_t start, end, body, body_end;
} part;

typedef struct file {
    uint8_t *bytes;
    size_t size, most;
    part parts[PARTS];
    size_t n;
    unsigned random;
} file;

/* How a format lies in parts, and how one of them is made whole after its body has changed its size. */
typedef struct form {
    void (*walk)(file *f);
    void (*mend)(uint8_t *start, size_t head, size_t body);
    size_t most; /* bytes of a body: JPEG has 16 bits for a length */
} form;

static unsigned draw(file *f, unsigned below)
{
    f->random = f->random * 1664525u + 1013904223u;
    return (f->random >> 8) % below;
}

static uint32_t big(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_big(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void put_little(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> 8 * i);
}

static void add_part(file *f, size_t start, size_t head, size_t body, size_t end)
{
    if (f->n < PARTS) f->parts[f->n++] = (part){ start, end, start + head, start + head + body };
}

/* ---- PNG: length, name, data, CRC ---- */

static void walk_png(file *f)
{
    for (size_t at = 8; f->size - at >= 12;) {
        const uint32_t body = big(f->bytes + at);
        if (body > f->size - at - 12) return;
        add_part(f, at, 8, body, at + 12 + body);
        at += 12 + (size_t)body;
    }
}

static void mend_png(uint8_t *start, size_t head, size_t body)
{
    put_big(start, (uint32_t)body);
    put_big(start + head + body, (uint32_t)crc32(0, start + 4, (uInt)(body + 4)));
}

/* ---- JPEG: marker, length, data; what follows a scan's header up to the next marker is a separate part
 * ---- */

static size_t scan_end(const file *f, size_t at)
{
    while (at + 1 < f->size &&
           !(f->bytes[at] == 0xff && f->bytes[at + 1] && (f->bytes[at + 1] & 0xf8) != 0xd0))
        at++;
    return at + 1 < f->size ? at : f->size;
}

static void walk_jpeg(file *f)
{
    for (size_t at = 2; at + 4 <= f->size && f->bytes[at] == 0xff;) {
        const size_t length = (size_t)f->bytes[at + 2] << 8 | f->bytes[at + 3];
        if (length < 2 || length > f->size - at - 2) return;
        add_part(f, at, 4, length - 2, at + 2 + length);
        const int scan = f->bytes[at + 1] == 0xda;
        at += 2 + length;
        if (!scan) continue;
        const size_t end = scan_end(f, at);
        add_part(f, at, 0, end - at, end);
        at = end;
    }
}

/* Data of a scan have no length. */
static void mend_jpeg(uint8_t *start, size_t head, size_t body)
{
    if (!head) return;
    start[2] = (uint8_t)((body + 2) >> 8);
    start[3] = (uint8_t)(body + 2);
}

/* ---- WebP: name, length, data, to an even size ---- */

static void walk_webp(file *f)
{
    for (size_t at = 12; f->size - at >= 8;) {
        const uint8_t *p = f->bytes + at + 4;
        const size_t body = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        if (body > f->size - at - 8) return;
        const size_t end = at + 8 + body;
        add_part(f, at, 8, body, end + (body & 1) <= f->size ? end + (body & 1) : end);
        at = end + (body & 1) <= f->size ? end + (body & 1) : end;
    }
}

static void mend_webp(uint8_t *start, size_t head, size_t body)
{
    (void)head;
    put_little(start + 4, (uint32_t)body);
}

/* ---- changes to parts ---- */

/* Everything behind `end` moves to `to`. */
static void move_rest(file *f, size_t end, size_t to)
{
    memmove(f->bytes + to, f->bytes + end, f->size - end);
    f->size = f->size - end + to;
}

/* Another body of a part; 1 when there was room. */
static int put_body(file *f, const form *form, const part *p, const uint8_t *body, size_t size)
{
    const size_t tail = p->end - p->body_end, end = p->body + size + tail;
    if (end > p->end && end - p->end > f->most - f->size) return 0;
    move_rest(f, p->end, end);
    memcpy(f->bytes + p->body, body, size);
    memset(f->bytes + p->body + size, 0, tail);
    form->mend(f->bytes + p->start, p->body - p->start, size);
    return 1;
}

static int change_body(file *f, const form *form, const part *p)
{
    static uint8_t body[PIXELS];
    const size_t size = p->body_end - p->body;
    if (!size || size > sizeof body / 2) return 0;
    memcpy(body, f->bytes + p->body, size);
    size_t room = size + (f->most - f->size);
    if (room > form->most) room = form->most;
    return size <= room && put_body(f, form, p, body, LLVMFuzzerMutate(body, size, room));
}

/* Rows of a PNG: changed as they come out of zlib, and packed again. */
static int change_rows(file *f, const form *form, const part *p)
{
    static uint8_t rows[PIXELS], packed[PIXELS + 1024];
    uLongf size = sizeof rows / 2, packed_size = sizeof packed;
    if (memcmp(f->bytes + p->start + 4, "IDAT", 4) != 0) return 0;
    const int r = uncompress(rows, &size, f->bytes + p->body, (uLong)(p->body_end - p->body));
    if ((r != Z_OK && r != Z_BUF_ERROR) || !size) return 0;
    const size_t changed = LLVMFuzzerMutate(rows, size, sizeof rows);
    if (compress2(packed, &packed_size, rows, (uLong)changed, 1) != Z_OK) return 0;
    return put_body(f, form, p, packed, packed_size);
}

static int leave_out(file *f, const part *p)
{
    move_rest(f, p->end, p->start);
    return 1;
}

/* Before another one. */
static int double_part(file *f, const part *p, const part *before)
{
    static uint8_t copy[PIXELS];
    const size_t size = p->end - p->start;
    if (size > sizeof copy || size > f->most - f->size) return 0;
    memcpy(copy, f->bytes + p->start, size);
    move_rest(f, before->start, before->start + size);
    memcpy(f->bytes + before->start, copy, size);
    return 1;
}

static int change_part(file *f, const form *form)
{
    f->n = 0;
    form->walk(f);
    if (!f->n) return 0;
    const part *p = &f->parts[draw(f, (unsigned)f->n)];
    switch (draw(f, 8)) {
    case 0: return leave_out(f, p);
    case 1: return double_part(f, p, &f->parts[draw(f, (unsigned)f->n)]);
    case 2:
    case 3:
        if (form->mend == mend_png && change_rows(f, form, p)) return 1;
        /* fallthrough */
    default: return change_body(f, form, p);
    }
}

/* ---- TIFF: 12 bytes an entry: tag, type, count, value or where it is ---- */

static uint32_t number(const file *f, size_t at, int bytes)
{
    uint32_t value = 0;
    const int little = f->bytes[0] == 'I';
    for (int i = 0; i < bytes; i++)
        value |= (uint32_t)f->bytes[at + (size_t)i] << 8 * (little ? i : bytes - 1 - i);
    return value;
}

static void put_number(file *f, size_t at, int bytes, uint32_t value)
{
    const int little = f->bytes[0] == 'I';
    for (int i = 0; i < bytes; i++)
        f->bytes[at + (size_t)i] = (uint8_t)(value >> 8 * (little ? i : bytes - 1 - i));
}

static int change_entry(file *f)
{
    /* Sizes, bits, compression, strips and tiles, planes, predictor, orientation, palette, extra samples,
     * JPEG. */
    static const uint16_t tags[] = { 256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 284,
                                     317, 320, 322, 323, 324, 325, 338, 339, 347, 530, 532 };
    static const uint32_t values[] = { 0,  1,  2,  3,   4,     5,     6,       7,        8,
                                       16, 17, 32, 255, 32773, 65535, 1 << 16, 1u << 31, ~0u };
    if (f->size < 14) return 0;
    const uint32_t at = number(f, 4, 4);
    if (at > f->size - 2) return 0;
    const uint32_t entries = number(f, at, 2), room = (uint32_t)(f->size - at - 2) / 12;
    if (!entries || !room) return 0;
    const size_t entry = at + 2 + 12 * (size_t)draw(f, entries < room ? entries : room);
    const uint32_t value = values[draw(f, sizeof values / sizeof *values)];
    switch (draw(f, 5)) {
    case 0: put_number(f, entry, 2, tags[draw(f, sizeof tags / sizeof *tags)]); break;
    case 1: put_number(f, entry + 2, 2, draw(f, 14)); break;
    case 2: put_number(f, entry + 4, 4, draw(f, 2) ? value : draw(f, 9)); break;
    case 3: put_number(f, entry + 8, 4, draw(f, (unsigned)f->size)); break;
    default: /* a short one stands in the upper half where the byte order is big */
        put_number(f, entry + 8, number(f, entry + 2, 2) == 3 ? 2 : 4, value);
    }
    return 1;
}

/* 0: the bytes have no form that is known, or it could not be changed. */
static size_t change_picture(uint8_t *bytes, size_t size, size_t most, unsigned seed)
{
    static const form png = { walk_png, mend_png, PIXELS }, jpeg = { walk_jpeg, mend_jpeg, 65533 },
                      webp = { walk_webp, mend_webp, PIXELS };
    file f = { .bytes = bytes, .size = size, .most = most, .random = seed };
    int changed = 0;
    if (size > most || size < 16) return 0;
    if (!memcmp(bytes, "\x89PNG\r\n\x1a\n", 8))
        changed = change_part(&f, &png);
    else if (!memcmp(bytes, "\xff\xd8\xff", 3))
        changed = change_part(&f, &jpeg);
    else if (!memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WEBP", 4)) {
        changed = change_part(&f, &webp);
        put_little(bytes + 4, (uint32_t)f.size - 8);
    } else if (!memcmp(bytes, "II*\0", 4) || !memcmp(bytes, "MM\0*", 4))
        changed = change_entry(&f);
    return changed ? f.size : 0;
}

/* Every fourth time as if there were no form: the checks of sums and lengths are code too. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned seed)
{
    const size_t changed = seed % 4 ? change_picture(bytes, size, most, seed) : 0;
    return changed ? changed : LLVMFuzzerMutate(bytes, size, most);
}
