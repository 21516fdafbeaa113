/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over the headers. A header may be preceded by others that lengthen its name or size: pax records
 * ('x'), GNU long names ('L', 'K'); they are kept in the scan until the member they belong to arrives.
 */
#include "src/source/tar.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

typedef stk_tar_header header;

enum {
    /* Of pax records before one member. Attributes and ACLs are the largest there are, at most 64 KiB each.
     */
    PAX_LIMIT = 1 << 20,
    /* Zeros behind the end mark: archives are padded to records, and the largest people use are 1 MiB. */
    PADDING_LIMIT = 16 << 20
};

typedef struct scan {
    stk_tar_index *index;
    const stk_tar_input *input;
    stoke_error *err;
    uint64_t at;     /* of the header being looked at */
    uint64_t number; /* of the member it belongs to, from 1 */
    header head;
    stk_mem_buffer text; /* of a pax header */
    /* from headers before the member's own */
    int has_name, has_size, extended;
    char name[STK_TAR_NAME];
    uint64_t size;
} scan;

static int bad(scan *s, int code, const char *format, ...) STOKE_PRINTF(3, 4);

static int bad(scan *s, int code, const char *format, ...)
{
    char reason[512];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return stk_fail(s->err, code, "%s: member %llu at byte %llu: %s", s->input->path,
                    (unsigned long long)s->number, (unsigned long long)s->at, reason);
}

static int read_at(scan *s, uint64_t offset, void *bytes, size_t n)
{
    int number = s->input->read(s->input, offset, bytes, n);
    return number ? stk_fail_errno(s->err, STOKE_E_IO, number, "%s: cannot read", s->input->path) : STOKE_OK;
}

/* ---- numbers ---- */

/* Octal text between blanks, as all fields but large sizes are. Blank is 0. */
static int parse_octal(const char *field, size_t n, uint64_t *value)
{
    size_t i = 0;
    while (i < n && field[i] == ' ') i++;
    for (*value = 0; i < n && field[i] >= '0' && field[i] <= '7'; i++) {
        if (*value >> 60) return 0;
        *value = *value << 3 | (uint64_t)(field[i] - '0');
    }
    while (i < n && (field[i] == ' ' || field[i] == 0)) i++;
    return i == n;
}

/* A size: octal, or GNU's base 256 where the first bit is set. NULL, or what is wrong with it. */
static const char *parse_size(const char field[12], uint64_t *value)
{
    const unsigned char *byte = (const unsigned char *)field;
    if (!(byte[0] & 0x80)) return parse_octal(field, 12, value) ? NULL : "its size is not a number";
    if (byte[0] & 0x40) return "its size is negative";
    *value = byte[0] & 0x3f;
    for (int i = 1; i < 12; i++) {
        if (*value >> 55) return "its size is beyond 2^63";
        *value = *value << 8 | byte[i];
    }
    return NULL;
}

static int checksum_fits(const header *head)
{
    const unsigned char *byte = (const unsigned char *)head;
    uint64_t stored, sum = 0;
    int64_t signed_sum = 0; /* as historic programs with signed chars have it */
    for (size_t i = 0; i < sizeof *head; i++) {
        int blank = i >= offsetof(header, checksum) && i < offsetof(header, type);
        sum += blank ? ' ' : byte[i];
        signed_sum += blank ? ' ' : (signed char)byte[i];
    }
    return parse_octal(head->checksum, sizeof head->checksum, &stored) &&
           (stored == sum || (int64_t)stored == signed_sum);
}

static int is_zero(const void *bytes, size_t n)
{
    const char *p = bytes;
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* ---- names ---- */

const char *stk_tar_clean_name(char *name)
{
    if (*name == '/') return "its name is absolute";
    size_t to = 0;
    for (const char *from = name; *from;) {
        size_t n = strcspn(from, "/");
        if (n == 2 && memcmp(from, "..", 2) == 0) return "its name climbs out of the archive by \"..\"";
        if (n > 1 || (n == 1 && *from != '.')) {
            if (to) name[to++] = '/';
            memmove(name + to, from, n);
            to += n;
        }
        from += n + (from[n] == '/');
    }
    name[to] = 0;
    return to ? NULL : "its name is empty";
}

/* The name in the header's own fields. */
static void header_name(const header *head, char name[STK_TAR_NAME])
{
    size_t prefix = 0, n = strnlen(head->name, sizeof head->name);
    if (memcmp(head->magic, "ustar\0", 6) == 0) prefix = strnlen(head->prefix, sizeof head->prefix);
    memcpy(name, head->prefix, prefix);
    if (prefix) name[prefix++] = '/';
    memcpy(name + prefix, head->name, n);
    name[prefix + n] = 0;
}

/* ---- headers before a member ---- */

static int set_name(scan *s, const char *text, size_t n)
{
    if (n >= sizeof s->name)
        return bad(s, STOKE_E_LIMIT, "its name is longer than %zu bytes", sizeof s->name - 1);
    if (memchr(text, 0, n)) return bad(s, STOKE_E_FORMAT, "its name has a NUL in it");
    if (s->has_name) return bad(s, STOKE_E_FORMAT, "the headers before it give it two names");
    memcpy(s->name, text, n);
    s->name[n] = 0;
    s->has_name = 1;
    return STOKE_OK;
}

static int set_size(scan *s, const char *text, size_t n)
{
    uint64_t value = 0;
    size_t i = 0;
    for (; i < n && text[i] >= '0' && text[i] <= '9' && value <= (INT64_MAX - 9) / 10; i++)
        value = value * 10 + (uint64_t)(text[i] - '0');
    if (n == 0 || i < n)
        return bad(s, STOKE_E_FORMAT, "its pax size \"%.*s\" is no size", n < 40 ? (int)n : 40, text);
    if (s->has_size) return bad(s, STOKE_E_FORMAT, "the headers before it give it two sizes");
    s->size = value;
    s->has_size = 1;
    return STOKE_OK;
}

/* One record, "key=value". Only what changes where bytes lie and how they are called matters. */
static int take_record(scan *s, const char *text, size_t n, int global)
{
    const char *equals = memchr(text, '=', n);
    if (!equals || equals == text) return bad(s, STOKE_E_FORMAT, "a pax record without key and value");
    size_t key = (size_t)(equals - text), length = n - key - 1;
    int path = key == 4 && memcmp(text, "path", 4) == 0, size = key == 4 && memcmp(text, "size", 4) == 0;
    if (key > 11 && memcmp(text, "GNU.sparse.", 11) == 0)
        return bad(s, STOKE_E_UNSUPPORTED,
                   "a sparse file, which is not stored as it is: pack without --sparse");
    if (global && (path || size))
        return bad(s, STOKE_E_FORMAT, "a global header gives all members one %s", path ? "name" : "size");
    return path ? set_name(s, equals + 1, length) : size ? set_size(s, equals + 1, length) : STOKE_OK;
}

/* Records "LENGTH key=value\n"; LENGTH counts all of the record, itself included. */
static int take_pax(scan *s, const char *text, size_t n, int global)
{
    int r = STOKE_OK;
    for (size_t at = 0; r == STOKE_OK && at < n;) {
        size_t length = 0, digits = 0;
        while (at + digits < n && digits < 8 && text[at + digits] >= '0' && text[at + digits] <= '9')
            length = length * 10 + (size_t)(text[at + digits++] - '0');
        if (!digits || at + digits >= n || text[at + digits] != ' ' || length < digits + 2 ||
            length > n - at || text[at + length - 1] != '\n')
            return bad(s, STOKE_E_FORMAT, "its pax records are damaged");
        r = take_record(s, text + at + digits + 1, length - digits - 2, global);
        at += length;
    }
    return r;
}

/* Reads the contents of a header of headers, at most `limit` bytes. */
static int read_text(scan *s, uint64_t size, size_t limit)
{
    if (size > limit)
        return bad(s, STOKE_E_LIMIT, "a header of type '%c' of %llu bytes, more than %zu", s->head.type,
                   (unsigned long long)size, limit);
    if (!stk_buffer_reserve(&s->text, (size_t)size + 1))
        return stk_fail(s->err, STOKE_E_NOMEM, "%s: no memory for its headers", s->input->path);
    return read_at(s, s->at + STK_TAR_BLOCK, s->text.data, (size_t)size);
}

/* pax records and GNU's long names. */
static int take_extension(scan *s, uint64_t size)
{
    const int pax = s->head.type == 'x' || s->head.type == 'g';
    int r = read_text(s, size, pax ? PAX_LIMIT : STK_TAR_NAME);
    if (r != STOKE_OK) return r;
    if (s->head.type != 'g') s->extended = 1;
    if (pax) return take_pax(s, s->text.data, (size_t)size, s->head.type == 'g');
    /* 'K' is where a link leads, which is nobody's business here; 'L' ends in a NUL that belongs to it */
    if (s->head.type == 'K') return STOKE_OK;
    const char *text = s->text.data;
    return set_name(s, text, size && text[size - 1] == 0 ? (size_t)size - 1 : (size_t)size);
}

/* ---- members ---- */

int stk_tar_add(stk_tar_index *index, const char *name, size_t length, uint64_t offset, uint64_t size,
                stk_tar_kind kind, stoke_error *err)
{
    const char *copy = stk_string_arena_copy(&index->names, name, length);
    if (!copy ||
        !stk_grow((void **)&index->members, &index->capacity, index->count + 1, sizeof *index->members))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the index of an archive");
    index->members[index->count++] = (stk_tar_member){ copy, offset, size, kind };
    return STOKE_OK;
}

static int take_member(scan *s, uint64_t size)
{
    enum { FOLDER = -1 }; /* is not listed */
    int kind;
    switch (s->head.type) {
    case 0:
    case '0':
    case '7': kind = STK_TAR_FILE; break; /* 7: contiguous, for systems that had such files */
    case '1':
    case '2': kind = STK_TAR_LINK; break;
    case '3':
    case '4':
    case '6': kind = STK_TAR_DEVICE; break;
    case '5':
    case 'V': kind = FOLDER; break; /* V: GNU's name of a volume, without contents too */
    case 'D': return STOKE_OK;      /* GNU's list of a folder's files */
    case 'S':
        return bad(s, STOKE_E_UNSUPPORTED,
                   "a sparse file, which is not stored as it is: pack without --sparse");
    case 'M': return bad(s, STOKE_E_UNSUPPORTED, "the rest of a file from another volume");
    default:
        return bad(s, STOKE_E_UNSUPPORTED, "a member of the unknown type 0x%02x",
                   (unsigned char)s->head.type);
    }
    if (!s->has_name) header_name(&s->head, s->name);
    /* V7 has no type for folders */
    const size_t n = strlen(s->name);
    if (kind == STK_TAR_FILE && n && s->name[n - 1] == '/') kind = FOLDER;
    /* Programs disagree whether such bytes are there: what follows could be read in two ways. */
    if (kind != STK_TAR_FILE && size)
        return bad(s, STOKE_E_FORMAT, "a link, folder or device with %llu bytes of contents",
                   (unsigned long long)size);
    if (kind == FOLDER) return STOKE_OK;
    const char *wrong = stk_tar_clean_name(s->name);
    if (wrong) return bad(s, STOKE_E_FORMAT, "%s", wrong);
    return stk_tar_add(s->index, s->name, strlen(s->name), s->at + STK_TAR_BLOCK, size, (stk_tar_kind)kind,
                       s->err);
}

/* ---- the archive ---- */

static int refuse_compressed(scan *s)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *name;
    } known[] = { { "\x1f\x8b", 2, "gzip" },
                  { "\x28\xb5\x2f\xfd", 4, "zstd" },
                  { "\xfd"
                    "7zXZ",
                    5, "xz" },
                  { "BZh", 3, "bzip2" } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (memcmp(&s->head, known[i].bytes, known[i].n) == 0)
            return stk_fail(
                s->err, STOKE_E_UNSUPPORTED,
                "%s: compressed (%s) archives are not supported: unpack it, or make shards with `stoke "
                "pack`; pictures are compressed already",
                s->input->path, known[i].name);
    return STOKE_OK;
}

static int check_header(scan *s)
{
    if (s->at == 0) {
        int r = refuse_compressed(s);
        if (r != STOKE_OK) return r;
    }
    if (!checksum_fits(&s->head))
        return s->at == 0 ? stk_fail(s->err, STOKE_E_FORMAT, "%s: not a tar archive", s->input->path)
                          : bad(s, STOKE_E_FORMAT, "its header is damaged (the checksum does not fit)");
    if (memcmp(s->head.magic, "ustar", 5) != 0 && !is_zero(s->head.magic, sizeof s->head.magic))
        return bad(s, STOKE_E_UNSUPPORTED, "a kind of archive that is neither ustar, pax, GNU nor V7");
    return STOKE_OK;
}

/* Two blocks of zeros, then nothing but zeros. */
static int check_end(scan *s)
{
    char bytes[16 * STK_TAR_BLOCK];
    uint64_t at = s->at, rest = s->input->size - at;
    if (s->extended) return bad(s, STOKE_E_FORMAT, "the archive ends after a header that announces a member");
    if (rest < 2 * STK_TAR_BLOCK)
        return bad(s, STOKE_E_FORMAT, "half of the end mark is missing: the archive was cut short");
    if (rest > PADDING_LIMIT)
        return bad(s, STOKE_E_FORMAT, "%llu bytes follow the end of the archive", (unsigned long long)rest);
    for (; at < s->input->size; at += rest) {
        rest = s->input->size - at < sizeof bytes ? s->input->size - at : sizeof bytes;
        int r = read_at(s, at, bytes, (size_t)rest);
        if (r != STOKE_OK) return r;
        if (!is_zero(bytes, (size_t)rest))
            return bad(s, STOKE_E_FORMAT,
                       "something follows the end of the archive; archives cannot be joined by cat");
    }
    return STOKE_OK;
}

/* The header at s->at and what belongs to it; moves on to the next. *end = the end mark was there. */
static int take_header(scan *s, int *end)
{
    const uint64_t left = s->input->size - s->at;
    if (left < STK_TAR_BLOCK)
        return left ? bad(s, STOKE_E_FORMAT,
                          "%llu bytes where a header of 512 should be: the archive was cut short",
                          (unsigned long long)left)
                    : bad(s, STOKE_E_FORMAT, "the end mark is missing: the archive was cut short");
    int r = read_at(s, s->at, &s->head, sizeof s->head);
    if (r != STOKE_OK) return r;
    if (is_zero(&s->head, sizeof s->head)) {
        *end = 1;
        return check_end(s);
    }
    r = check_header(s);
    if (r != STOKE_OK) return r;
    const char type = s->head.type;
    const int extension = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    uint64_t size;
    const char *wrong = parse_size(s->head.size, &size);
    if (!extension && s->has_size) wrong = NULL, size = s->size;
    if (wrong) return bad(s, STOKE_E_FORMAT, "%s", wrong);
    if (size > left - STK_TAR_BLOCK)
        return bad(s, STOKE_E_FORMAT, "it has %llu bytes, but the archive ends %llu bytes after its header",
                   (unsigned long long)size, (unsigned long long)(left - STK_TAR_BLOCK));
    /* no overflow: the size is at most the file's */
    const uint64_t step = STK_TAR_BLOCK + ((size + STK_TAR_BLOCK - 1) & ~(uint64_t)(STK_TAR_BLOCK - 1));
    if (step > left)
        return bad(s, STOKE_E_FORMAT, "the archive ends within its last block: it was cut short");
    r = extension ? take_extension(s, size) : take_member(s, size);
    if (!extension) {
        s->has_name = s->has_size = s->extended = 0;
        s->number++;
    }
    s->at += step;
    return r;
}

int stk_tar_scan(stk_tar_index *index, const stk_tar_input *input, stoke_error *err)
{
    if (input->size == 0) return stk_fail(err, STOKE_E_FORMAT, "%s: empty file", input->path);
    scan *s = stk_calloc(1, sizeof *s);
    if (!s) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", input->path);
    s->index = index, s->input = input, s->err = err, s->number = 1;
    int r = STOKE_OK, end = 0;
    while (r == STOKE_OK && !end) r = take_header(s, &end);
    stk_buffer_free(&s->text);
    stk_free(s);
    return r;
}

int stk_tar_has(const stk_tar_input *input, const stk_tar_member *member)
{
    header head;
    uint64_t size;
    if (member->offset < STK_TAR_BLOCK || member->offset > input->size ||
        input->read(input, member->offset - STK_TAR_BLOCK, &head, sizeof head) || !checksum_fits(&head) ||
        parse_size(head.size, &size))
        return 0;
    /* eleven octal digits at most; beyond, a pax record has the size */
    return size == member->size || member->size >> 33;
}

void stk_tar_close(stk_tar_index *index)
{
    stk_free(index->members);
    stk_string_arena_free(&index->names);
    *index = (stk_tar_index){ 0 };
}

static int read_memory(const stk_tar_input *input, uint64_t offset, void *bytes, size_t n)
{
    memcpy(bytes, (const char *)input->memory + offset, n);
    return 0;
}

stk_tar_input stk_tar_memory(const char *path, const void *bytes, size_t size)
{
    return (stk_tar_input){ .path = path, .size = size, .read = read_memory, .memory = bytes, .fd = -1 };
}
