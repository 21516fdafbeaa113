/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/retry.h"

static const char magic[16] = { 's', 't', 'o', 'k', 'e', '-', 't', 'a',
                                'r', '-', 'i', 'd', 'x', '-', '1', '\n' };
enum { HEAD_BYTES = 40, MEMBER_BYTES = 24, SUM_BYTES = 8 };
/* 24 bytes and a name for each member: some ten million of them, far more than a shard has. */
#define INDEX_LIMIT (UINT64_C(1) << 30)

static void put(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)from[i] << 8 * i;
    return value;
}

/* ---- writing ---- */

/* The whole file in one block, to be summed and written; stk_free it. */
static uint8_t *serialize(const stk_tar_index *index, const stk_tar_stamp *stamp, size_t *size)
{
    size_t total = HEAD_BYTES + SUM_BYTES + index->count * MEMBER_BYTES;
    for (size_t i = 0; i < index->count; i++) total += strlen(index->members[i].name);
    uint8_t *bytes = stk_alloc(total), *p = bytes + HEAD_BYTES, *names = p + index->count * MEMBER_BYTES;
    if (!bytes) return NULL;
    memcpy(bytes, magic, sizeof magic);
    put(bytes + 16, stamp->size, 8);
    put(bytes + 24, (uint64_t)stamp->mtime_ns, 8);
    put(bytes + 32, index->count, 8);
    for (size_t i = 0; i < index->count; i++, p += MEMBER_BYTES) {
        const stk_tar_member *m = &index->members[i];
        const size_t n = strlen(m->name);
        put(p, m->offset, 8);
        put(p + 8, m->size, 8);
        put(p + 16, n, 4);
        put(p + 20, (uint64_t)m->kind, 4);
        memcpy(names, m->name, n);
        names += n;
    }
    put(names, XXH3_64bits(bytes, total - SUM_BYTES), SUM_BYTES);
    *size = total;
    return bytes;
}

int stk_tar_index_write(const stk_tar_index *index, const stk_tar_stamp *stamp, const char *path,
                        stoke_error *err)
{
    size_t size;
    uint8_t *bytes = serialize(index, stamp, &size);
    if (!bytes) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    stoke_output file;
    int r = stoke_output_open(&file, path, err);
    if (r == STOKE_OK) {
        file.expendable = 1; /* it has a sum; thousands of shards would wait seconds for the disk */
        fwrite(bytes, 1, size, file.stream); /* commit tells whether it arrived */
        r = stoke_output_commit(&file, err);
    }
    stk_free(bytes);
    return r;
}

/* ---- reading ---- */

/* One member, checked as a scan would: a file with a right sum may still have been made to mislead. */
static int take_member(stk_tar_index *index, const stk_tar_stamp *stamp, const uint8_t *record,
                       const char *name, stoke_error *err)
{
    const uint64_t offset = get(record, 8), size = get(record + 8, 8), kind = get(record + 20, 4);
    const size_t n = (size_t)get(record + 16, 4);
    char copy[STK_TAR_NAME];
    if (offset > stamp->size || size > stamp->size - offset || offset < STK_TAR_BLOCK ||
        offset % STK_TAR_BLOCK || kind > STK_TAR_DEVICE || (kind != STK_TAR_FILE && size) ||
        memchr(name, 0, n))
        return stk_fail(err, STOKE_E_FORMAT, "a member that cannot be");
    memcpy(copy, name, n);
    copy[n] = 0;
    if (stk_tar_clean_name(copy) || strlen(copy) != n)
        return stk_fail(err, STOKE_E_FORMAT, "a name that cannot be");
    return stk_tar_add(index, copy, n, offset, size, (stk_tar_kind)kind, err);
}

int stk_tar_index_parse(stk_tar_index *index, const stk_tar_stamp *stamp, const void *bytes, size_t size,
                        stoke_error *err)
{
    const uint8_t *p = bytes;
    if (size < HEAD_BYTES + SUM_BYTES || memcmp(p, magic, sizeof magic) != 0)
        return stk_fail(err, STOKE_E_FORMAT, "not an index of this version");
    if (get(p + size - SUM_BYTES, 8) != XXH3_64bits(p, size - SUM_BYTES))
        return stk_fail(err, STOKE_E_FORMAT, "the index is damaged");
    if (get(p + 16, 8) != stamp->size || (int64_t)get(p + 24, 8) != stamp->mtime_ns)
        return stk_fail(err, STOKE_E_STATE, "the index belongs to another archive");
    const uint64_t count = get(p + 32, 8);
    size_t left = size - HEAD_BYTES - SUM_BYTES;
    if (count > left / MEMBER_BYTES) return stk_fail(err, STOKE_E_FORMAT, "the index is cut short");
    left -= (size_t)count * MEMBER_BYTES;
    const uint8_t *record = p + HEAD_BYTES;
    const char *name = (const char *)record + count * MEMBER_BYTES;
    int r = STOKE_OK;
    for (uint64_t i = 0; r == STOKE_OK && i < count; i++, record += MEMBER_BYTES) {
        const size_t n = (size_t)get(record + 16, 4);
        if (n > left || n >= STK_TAR_NAME) {
            r = stk_fail(err, STOKE_E_FORMAT, "the names are cut short");
            break;
        }
        r = take_member(index, stamp, record, name, err);
        name += n, left -= n;
    }
    if (r == STOKE_OK && left) r = stk_fail(err, STOKE_E_FORMAT, "something follows the names");
    if (r != STOKE_OK) stk_tar_close(index);
    return r;
}

/* ---- archives on disk ---- */

static int read_file(const stk_tar_input *input, uint64_t offset, void *bytes, size_t n)
{
    const int number = stk_pread(input->fd, bytes, n, offset);
    return number == STK_ENDED ? EIO : number; /* it became shorter meanwhile */
}

stk_tar_input stk_tar_file(const char *path, int fd, uint64_t size)
{
    return (stk_tar_input){ .path = path, .size = size, .read = read_file, .fd = fd };
}

static stk_tar_stamp stamp_of(const struct stat *st)
{
    return (stk_tar_stamp){ (uint64_t)st->st_size,
                            (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec };
}

/* Size and time may be an earlier archive's: GNU tar pads to 10 KiB, and reproducible builds set all times to
 * one. A few members are looked up, the first and the last among them, since a change before a member moves
 * it. All of them would be a scan. */
static int still_there(const stk_tar_index *index, const stk_tar_input *input)
{
    enum { LOOKED_UP = 8 };
    for (size_t i = 0; i < LOOKED_UP && index->count; i++)
        if (!stk_tar_has(input, &index->members[(index->count - 1) * i / (LOOKED_UP - 1)])) return 0;
    return 1;
}

/* Whoever opens a set only wants to read it: a link may lead anywhere, and other programs write files of this
 * name too. An empty file is what a power cut may leave. */
int stk_tar_index_is_ours(const char *index_path)
{
    struct stat st;
    char head[sizeof magic - 2]; /* without the number of the version */
    if (stoke_lstat(index_path, &st) != 0) return errno == ENOENT;
    if (!S_ISREG(st.st_mode)) return 0;
    if (st.st_size == 0) return 1;
    uint64_t size;
    const stoke_blob whole = { index_path, 0, UINT64_MAX };
    return stk_blob_head(&whole, head, sizeof head, &size) == sizeof head &&
           !memcmp(head, magic, sizeof head);
}

static int scan_file(stk_tar_index *index, int fd, const char *path, const char *index_path, stoke_error *err)
{
    struct stat st, after;
    if (stoke_fstat(fd, &st) != 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot stat", path);
    if (!S_ISREG(st.st_mode)) return stk_fail(err, STOKE_E_IO, "%s: not a regular file", path);
    const stk_tar_stamp stamp = stamp_of(&st);
    stk_mem_buffer buffer = { 0 };
    size_t size;
    int r = stk_file_read(index_path, INDEX_LIMIT, &buffer, &size, NULL);
    if (r == STOKE_OK) r = stk_tar_index_parse(index, &stamp, buffer.data, size, NULL);
    stk_buffer_free(&buffer);
    const stk_tar_input input = stk_tar_file(path, fd, stamp.size);
    if (r == STOKE_OK && still_there(index, &input)) return r;
    stk_tar_close(index);
    r = stk_tar_scan(index, &input, err);
    if (r != STOKE_OK) return r;
    /* An archive that is still being written has no index that could stay right. A folder that cannot be
     * written is no fault either: the index is then made every time. */
    const stk_tar_stamp now = stoke_fstat(fd, &after) == 0 ? stamp_of(&after) : (stk_tar_stamp){ 0 };
    if (now.size == stamp.size && now.mtime_ns == stamp.mtime_ns && stk_tar_index_is_ours(index_path))
        stk_tar_index_write(index, &stamp, index_path, NULL);
    return STOKE_OK;
}

int stk_tar_open(stk_tar_index *index, const char *path, stoke_error *err)
{
    char index_path[PATH_MAX + sizeof STK_TAR_INDEX_SUFFIX];
    *index = (stk_tar_index){ 0 };
    if (strlen(path) >= PATH_MAX)
        return stk_fail(err, STOKE_E_LIMIT, "%.200s...: the path is too long", path);
    snprintf(index_path, sizeof index_path, "%s" STK_TAR_INDEX_SUFFIX, path);
    int fd = stoke_open(path, O_RDONLY, 0);
    if (fd < 0)
        return stk_fail_errno(err, errno == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, errno, "%s: cannot open",
                              path);
    int r = scan_file(index, fd, path, index_path, err);
    close(fd);
    if (r != STOKE_OK) stk_tar_close(index);
    return r;
}

#define OCTAL_LIMIT (UINT64_C(1) << 33) /* eleven octal digits */

/* Where to cut a name into prefix and name: the slash, or 0 for a name that fits whole, -1 when there is
 * none.
 */
static long cut_of(const char *name, size_t length)
{
    const stk_tar_header *head = NULL;
    if (length <= sizeof head->name) return 0;
    for (size_t i = length - sizeof head->name - 1; i <= sizeof head->prefix && i + 1 < length; i++)
        if (i && name[i] == '/') return (long)i;
    return -1;
}

static void write_block(uint8_t *block, const char *name, size_t length, long cut, uint64_t size, char type)
{
    stk_tar_header head = { .mode = "0000644", .uid = "0000000", .gid = "0000000", .mtime = "00000000000" };
    if (cut > 0) {
        memcpy(head.prefix, name, (size_t)cut);
        name += cut + 1, length -= (size_t)cut + 1;
    }
    memcpy(head.name, name, length);
    snprintf(head.size, sizeof head.size, "%011" PRIo64, size < OCTAL_LIMIT ? size : 0);
    memset(head.checksum, ' ', sizeof head.checksum);
    head.type = type;
    memcpy(head.magic,
           "ustar\0"
           "00",
           8);
    memcpy(block, &head, sizeof head);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof head; i++) sum += block[i];
    /* six digits, NUL; the blank behind it stays */
    snprintf((char *)block + offsetof(stk_tar_header, checksum), 7, "%06o", sum);
}

/* "LENGTH key=value\n", where LENGTH counts its own digits too. */
static size_t write_record(char *to, const char *key, const char *value)
{
    const size_t rest = strlen(key) + strlen(value) + 3; /* blank, equals sign, newline */
    size_t digits = 1;
    for (size_t limit = 10; rest + digits >= limit; limit *= 10) digits++;
    return (size_t)sprintf(to, "%zu %s=%s\n", rest + digits, key, value);
}

size_t stk_tar_write_head(const char *name, uint64_t size, uint8_t head[STK_TAR_HEAD_BYTES])
{
    const size_t length = strlen(name);
    if (length >= STK_TAR_NAME) return 0;
    const long cut = cut_of(name, length);
    size_t at = 0;
    if (cut < 0 || size >= OCTAL_LIMIT) {
        char *records = (char *)head + STK_TAR_BLOCK, number[24];
        size_t n = 0;
        if (cut < 0) n += write_record(records, "path", name);
        snprintf(number, sizeof number, "%" PRIu64, size);
        if (size >= OCTAL_LIMIT) n += write_record(records + n, "size", number);
        write_block(head, "PaxHeaders/member", 17, 0, n, 'x');
        memset(records + n, 0, stk_tar_padding(n));
        at = STK_TAR_BLOCK + n + stk_tar_padding(n);
    }
    /* No part of a name that does not fit: cut at the wrong place it might climb out by "..". */
    static const char stand_in[] = "a-name-for-pax";
    if (cut < 0)
        write_block(head + at, stand_in, sizeof stand_in - 1, 0, size, '0');
    else
        write_block(head + at, name, length, cut, size, '0');
    return at + STK_TAR_BLOCK;
}
