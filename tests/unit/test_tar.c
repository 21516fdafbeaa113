/* SPDX-License-Identifier: Apache-2.0
 *
 * Archives of every kind that is read, and of every kind that is refused; the index file; names of keys.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>

#include <xxhash.h>

#include "tests/unit/fixture_archive.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/source/shard_name.h"
#include "src/source/dataset_internal.h"
#include "src/source/tar.h"

/* Each test has an empty archive and an index. */
typedef struct trial {
    archive archive;
    stk_tar_index index;
    stoke_error err;
} trial;

static int begin(void **state)
{
    *state = calloc(1, sizeof(trial));
    return *state ? 0 : -1;
}

static int end(void **state)
{
    stk_tar_close(&((trial *)*state)->index);
    free(*state);
    return 0;
}

static int scan(trial *t)
{
    /* a copy of exactly its size: a read behind the end is seen by the sanitizer */
    void *copy = malloc(t->archive.size + 1);
    memcpy(copy, t->archive.bytes, t->archive.size);
    const stk_tar_input input = stk_tar_memory("x.tar", copy, t->archive.size);
    stk_tar_close(&t->index);
    memset(&t->err, 0, sizeof t->err);
    int r = stk_tar_scan(&t->index, &input, &t->err);
    free(copy);
    return r;
}

static void expect(trial *t, int code, const char *words)
{
    int r = scan(t);
    if (r != code || !strstr(t->err.message, words))
        fail_msg("%d, not %d: %s (wanted: %s)", r, code, t->err.message, words);
}

static void expect_member(const trial *t, size_t i, const char *name, uint64_t offset, uint64_t size)
{
    assert_true(i < t->index.count);
    assert_string_equal(t->index.members[i].name, name);
    assert_int_equal(t->index.members[i].offset, offset);
    assert_int_equal(t->index.members[i].size, size);
}

/* ---- what is read ---- */

static void members_of_ustar(void **state)
{
    trial *t = *state;
    archive *a = &t->archive;
    archive_file(a, "./a/b.jpg", "hello");
    archive_member(a, "a/", '5', "", 0);
    archive_file(a, "empty.png", "");
    size_t at = archive_file(a, "name", "12");
    memcpy(a->bytes + at + 345, "some/prefix", 11);
    archive_sum(a, at);
    archive_member(a, "link.jpg", '2', "", 0);
    archive_member(a, "hard.jpg", '1', "", 0);
    archive_member(a, "pipe.jpg", '6', "", 0);
    archive_end(a);
    assert_int_equal(scan(t), STOKE_OK);
    assert_int_equal(t->index.count, 6);
    expect_member(t, 0, "a/b.jpg", 512, 5);
    expect_member(t, 1, "empty.png", 2048, 0);
    expect_member(t, 2, "some/prefix/name", 2560, 2);
    assert_int_equal(t->index.members[2].kind, STK_TAR_FILE);
    assert_int_equal(t->index.members[3].kind, STK_TAR_LINK);
    assert_int_equal(t->index.members[4].kind, STK_TAR_LINK);
    assert_int_equal(t->index.members[5].kind, STK_TAR_DEVICE);
}

static void members_of_pax(void **state)
{
    trial *t = *state;
    archive *a = &t->archive;
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    archive_pax(a, 'g', "comment", "of git archive");
    archive_pax(a, 'x', "path", name);
    archive_file(a, "short", "1234");
    archive_pax(a, 'x', "size", "3");
    archive_header(a, "sized", '0', 0); /* ustar's own size is not used then */
    archive_bytes(a, "abc", 3);
    archive_pax(a, 'x', "mtime", "1.5");
    archive_file(a, "plain", "x"); /* neither name nor size stay over */
    archive_end(a);
    expect(t, STOKE_OK, "");
    assert_int_equal(t->index.count, 3);
    assert_string_equal(t->index.members[0].name, name);
    assert_int_equal(t->index.members[1].size, 3);
    assert_string_equal(t->index.members[1].name, "sized");
    assert_string_equal(t->index.members[2].name, "plain");
    assert_int_equal(t->index.members[2].size, 1);
}

static void members_of_gnu_and_v7(void **state)
{
    trial *t = *state;
    archive *a = &t->archive;
    char name[200];
    memset(name, 'g', sizeof name - 1);
    name[sizeof name - 1] = 0;
    size_t at = archive_member(a, "././@LongLink", 'L', name, sizeof name);
    memcpy(a->bytes + at + 257, "ustar  ", 8);
    archive_sum(a, at);
    archive_member(a, "././@LongLink", 'K', "a/b", 4);
    at = archive_file(a, "ggg", "data");
    memcpy(a->bytes + at + 257, "ustar  ", 8);
    memcpy(a->bytes + at + 345, "this is no prefix in GNU's", 20);
    archive_sum(a, at);
    at = archive_header(a, "base256", '0', 0); /* five bytes, in base 256 */
    memset(a->bytes + at + 124, 0, 12);
    a->bytes[at + 124] = 0x80, a->bytes[at + 135] = 5;
    archive_sum(a, at);
    archive_bytes(a, "12345", 5);
    at = archive_member(a, "v7", 0, "v", 1);
    memset(a->bytes + at + 257, 0, 255);
    archive_sum(a, at);
    at = archive_member(a, "folder/", 0, "", 0);
    memset(a->bytes + at + 257, 0, 255);
    archive_sum(a, at);
    archive_end(a);
    expect(t, STOKE_OK, "");
    assert_int_equal(t->index.count, 3);
    assert_string_equal(t->index.members[0].name, name);
    assert_int_equal(t->index.members[1].size, 5);
    assert_string_equal(t->index.members[2].name, "v7");
}

static void padding_behind_the_end(void **state)
{
    trial *t = *state;
    archive_file(&t->archive, "a.jpg", "x");
    archive_end(&t->archive);
    memset(t->archive.bytes + t->archive.size, 0, 8192 + 7);
    t->archive.size += 8192 + 7;
    expect(t, STOKE_OK, "");
    t->archive.bytes[t->archive.size - 1] = 1;
    expect(t, STOKE_E_FORMAT, "x.tar: member 2 at byte 1024: something follows the end");
}

static void sums_of_signed_bytes(void **state)
{
    trial *t = *state;
    size_t at = archive_file(&t->archive, "\xc3\xa4.jpg", "x");
    int sum = 0;
    memset(t->archive.bytes + at + 148, ' ', 8);
    for (size_t i = 0; i < 512; i++) sum += (signed char)t->archive.bytes[at + i];
    snprintf((char *)t->archive.bytes + at + 148, 8, "%06o", (unsigned)sum);
    archive_end(&t->archive);
    expect(t, STOKE_OK, "");
    assert_string_equal(t->index.members[0].name, "\xc3\xa4.jpg");
}

/* ---- what is refused ---- */

static void refuses_what_is_no_archive(void **state)
{
    trial *t = *state;
    expect(t, STOKE_E_FORMAT, "x.tar: empty file");
    memset(t->archive.bytes, 'x', 2000);
    t->archive.size = 2000;
    expect(t, STOKE_E_FORMAT, "x.tar: not a tar archive");
    memcpy(t->archive.bytes, "\x1f\x8b\x08", 3);
    expect(t, STOKE_E_UNSUPPORTED, "gzip");
    memcpy(t->archive.bytes, "\x28\xb5\x2f\xfd", 4);
    expect(t, STOKE_E_UNSUPPORTED, "zstd");
    t->archive.size = 100;
    expect(t, STOKE_E_FORMAT, "100 bytes where a header of 512 should be");
    archive_header(memset(&t->archive, 0, sizeof t->archive), "a", '0', 0);
    memcpy(t->archive.bytes + 257, "strange", 7);
    archive_sum(&t->archive, 0);
    expect(t, STOKE_E_UNSUPPORTED, "neither ustar");
}

static void refuses_what_was_cut(void **state)
{
    trial *t = *state;
    archive_file(&t->archive, "a.jpg", "first");
    archive_file(&t->archive, "b.jpg", "second");
    const size_t whole = t->archive.size;
    expect(t, STOKE_E_FORMAT, "x.tar: member 3 at byte 2048: the end mark is missing");
    t->archive.size = whole - 1;
    expect(t, STOKE_E_FORMAT, "x.tar: member 2 at byte 1024: the archive ends within its last block");
    t->archive.size = whole - 510;
    expect(t, STOKE_E_FORMAT, "member 2 at byte 1024: it has 6 bytes, but the archive ends 2 bytes after");
    t->archive.size = whole - 600;
    expect(t, STOKE_E_FORMAT, "member 2 at byte 1024: 424 bytes where a header");
    t->archive.size = whole;
    archive_end(&t->archive);
    t->archive.size -= 512;
    expect(t, STOKE_E_FORMAT, "half of the end mark");
    t->archive.size = whole;
    archive_pax(&t->archive, 'x', "path", "c");
    archive_end(&t->archive);
    expect(t, STOKE_E_FORMAT, "announces a member");
    /* and wherever it is cut, there is an error */
    for (size_t n = t->archive.size; n-- > 0;) {
        t->archive.size = n;
        assert_int_not_equal(scan(t), STOKE_OK);
        assert_true(strncmp(t->err.message, "x.tar: ", 7) == 0);
    }
}

static void refuses_damage(void **state)
{
    trial *t = *state;
    archive_file(&t->archive, "a.jpg", "first");
    archive_file(&t->archive, "b.jpg", "second");
    archive_end(&t->archive);
    expect(t, STOKE_OK, "");
    t->archive.bytes[1024 + 3] ^= 1;
    expect(t, STOKE_E_FORMAT, "x.tar: member 2 at byte 1024: its header is damaged");
    t->archive.bytes[1024 + 3] ^= 1;
    memset(t->archive.bytes + 1024, 0, 512); /* a lone block of zeros among the members */
    expect(t, STOKE_E_FORMAT, "something follows the end");
}

/* A header whose size field is `field`; 12 bytes. */
static void expect_size(trial *t, const char *field, const char *words)
{
    memset(&t->archive, 0, sizeof t->archive);
    archive_header(&t->archive, "a.jpg", '0', 0);
    memcpy(t->archive.bytes + 124, field, 12);
    archive_sum(&t->archive, 0);
    archive_end(&t->archive);
    expect(t, STOKE_E_FORMAT, words);
}

static void refuses_sizes(void **state)
{
    trial *t = *state;
    expect_size(t, "77777777777", "but the archive ends 1024 bytes after");
    expect_size(t, "0000000008\0", "not a number");
    expect_size(t, "-0000000001", "not a number");
    expect_size(t, "00000 00001", "not a number");
    expect_size(t, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "negative");
    expect_size(t, "\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", "beyond 2^63");
    expect_size(t, "\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "beyond 2^63");
    expect_size(t, "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", "but the archive ends");
    static const char *const pax[] = { "", "-1", "+1", "1x", "99999999999999999999", "9223372036854775808" };
    for (size_t i = 0; i < sizeof pax / sizeof *pax; i++) {
        memset(&t->archive, 0, sizeof t->archive);
        archive_pax(&t->archive, 'x', "size", pax[i]);
        archive_file(&t->archive, "a", "x");
        archive_end(&t->archive);
        expect(t, STOKE_E_FORMAT, "is no size");
    }
    memset(&t->archive, 0, sizeof t->archive);
    archive_pax(&t->archive, 'x', "size", "922337203685477580");
    archive_file(&t->archive, "a", "x");
    archive_end(&t->archive);
    expect(t, STOKE_E_FORMAT, "but the archive ends");
}

static void refuses_names(void **state)
{
    static const struct {
        const char *name, *words;
    } cases[] = { { "/etc/passwd", "absolute" }, { "../a.jpg", "climbs" }, { "a/../../b.jpg", "climbs" },
                  { "a/..", "climbs" },          { ".", "empty" },         { "", "empty" } };
    trial *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int link = 0; link < 2; link++) {
            memset(&t->archive, 0, sizeof t->archive);
            archive_member(&t->archive, cases[i].name, link ? '2' : '0', "", 0);
            archive_end(&t->archive);
            expect(t, STOKE_E_FORMAT, cases[i].words);
        }
    char name[PATH_MAX + 10];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    memset(&t->archive, 0, sizeof t->archive);
    archive_pax(&t->archive, 'x', "path", name);
    archive_file(&t->archive, "a", "x");
    expect(t, STOKE_E_LIMIT, "longer than");
    memset(&t->archive, 0, sizeof t->archive);
    archive_member(&t->archive, "l", 'L', name, sizeof name);
    archive_file(&t->archive, "a", "x");
    expect(t, STOKE_E_LIMIT, "more than");
    memset(&t->archive, 0, sizeof t->archive);
    archive_member(&t->archive, "l", 'L', "a\0b", 3);
    archive_file(&t->archive, "a", "x");
    expect(t, STOKE_E_FORMAT, "NUL");
    memset(&t->archive, 0, sizeof t->archive);
    archive_pax(&t->archive, 'x', "path", "one");
    archive_pax(&t->archive, 'x', "path", "two");
    archive_file(&t->archive, "a", "x");
    expect(t, STOKE_E_FORMAT, "two names");
}

static void refuses_kinds(void **state)
{
    trial *t = *state;
    archive_member(&t->archive, "a.jpg", 'S', "x", 1);
    archive_end(&t->archive);
    expect(t, STOKE_E_UNSUPPORTED, "sparse");
    memset(&t->archive, 0, sizeof t->archive);
    archive_pax(&t->archive, 'x', "GNU.sparse.major", "1");
    archive_file(&t->archive, "a", "x");
    archive_end(&t->archive);
    expect(t, STOKE_E_UNSUPPORTED, "sparse");
    memset(&t->archive, 0, sizeof t->archive);
    archive_member(&t->archive, "a.jpg", 'M', "x", 1);
    expect(t, STOKE_E_UNSUPPORTED, "another volume");
    memset(&t->archive, 0, sizeof t->archive);
    archive_member(&t->archive, "a.jpg", 'Z', "x", 1);
    expect(t, STOKE_E_UNSUPPORTED, "unknown type 0x5a");
    for (const char *type = "1235"; *type; type++) {
        memset(&t->archive, 0, sizeof t->archive);
        archive_member(&t->archive, "a.jpg", *type, "x", 1);
        archive_end(&t->archive);
        expect(t, STOKE_E_FORMAT, "with 1 bytes of contents");
    }
}

static void refuses_pax_tricks(void **state)
{
    static const char *const damaged[] = { "x",       "5 a=b",   "99 a=b\n", "6 a=b\n\n",
                                           "5 a=b\n", "0 a=b\n", "6 aaa\n",  "6  =b\n\n" };
    trial *t = *state;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        memset(&t->archive, 0, sizeof t->archive);
        archive_member(&t->archive, "p", 'x', damaged[i], strlen(damaged[i]));
        archive_file(&t->archive, "a", "x");
        archive_end(&t->archive);
        expect(t, STOKE_E_FORMAT, "pax record");
    }
    memset(&t->archive, 0, sizeof t->archive);
    archive_pax(&t->archive, 'g', "size", "1");
    archive_file(&t->archive, "a", "x");
    expect(t, STOKE_E_FORMAT, "gives all members one size");
    memset(&t->archive, 0, sizeof t->archive);
    archive_header(&t->archive, "p", 'x', 1 << 21);
    t->archive.size = sizeof t->archive.bytes;
    expect(t, STOKE_E_FORMAT, "but the archive ends");
}

/* Any change of one byte gives another index, the same, or an error; never a member that lies outside. */
static void survives_any_byte(void **state)
{
    trial *t = *state;
    archive_pax(&t->archive, 'x', "path", "long/name.jpg");
    archive_file(&t->archive, "a.jpg", "first");
    archive_member(&t->archive, "l", 'L', "gnu/name.png", 13);
    archive_file(&t->archive, "b.png", "second");
    const size_t members = t->archive.size;
    archive_end(&t->archive);
    for (size_t i = 0; i < t->archive.size; i++) {
        const unsigned char kept = t->archive.bytes[i];
        const int in_header = i < members && i / 512 % 2 == 0; /* each has one block of contents behind it */
        t->archive.bytes[i] = (unsigned char)stk_mix64(i);
        if (in_header) archive_sum(&t->archive, i / 512 * 512);
        if (scan(t) == STOKE_OK)
            for (size_t m = 0; m < t->index.count; m++)
                assert_true(t->index.members[m].offset + t->index.members[m].size <= t->archive.size);
        t->archive.bytes[i] = kept;
        if (in_header) archive_sum(&t->archive, i / 512 * 512);
    }
    expect(t, STOKE_OK, "");
}

static void memory_may_run_out(void **state)
{
    trial *t = *state;
    archive_pax(&t->archive, 'x', "path", "long/name.jpg");
    archive_file(&t->archive, "a.jpg", "first");
    archive_end(&t->archive);
    int r = STOKE_E_NOMEM;
    for (int after = 0; r == STOKE_E_NOMEM && after < 50; after++) {
        stk_mem_fail_after(after);
        r = scan(t);
        stk_mem_fail_after(-1);
    }
    assert_int_equal(r, STOKE_OK);
}

/* ---- writing ---- */

static void written_headers_are_read(void **state)
{
    static const size_t lengths[] = { 1, 99, 100, 101, 155, 200, 255, 256, 257, 300, 4000, 4095 };
    trial *t = *state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t slash = 0; slash < 300; slash += 49) {
            char name[STK_TAR_NAME];
            uint8_t head[STK_TAR_HEAD_BYTES];
            memset(name, 'n', lengths[i]);
            name[lengths[i]] = 0;
            if (slash && slash + 1 < lengths[i]) name[slash] = '/';
            t->archive.size = stk_tar_write_head(name, 5, head);
            assert_true(t->archive.size % 512 == 0 && t->archive.size >= 512);
            memcpy(t->archive.bytes, head, t->archive.size);
            const size_t at = t->archive.size;
            archive_bytes(&t->archive, "12345", 5);
            archive_end(&t->archive);
            expect(t, STOKE_OK, "");
            assert_int_equal(t->index.count, 1);
            expect_member(t, 0, name, at, 5);
        }
    char name[STK_TAR_NAME + 1];
    uint8_t head[STK_TAR_HEAD_BYTES];
    memset(name, 'n', STK_TAR_NAME);
    name[STK_TAR_NAME] = 0;
    assert_int_equal(stk_tar_write_head(name, 5, head), 0);
    /* 8 GiB need pax; the archive ends too early to hold them, which the size in the message shows */
    t->archive.size = stk_tar_write_head("big", UINT64_C(1) << 33, head);
    memcpy(t->archive.bytes, head, t->archive.size);
    expect(t, STOKE_E_FORMAT, "it has 8589934592 bytes");
}

/* ---- the index file ---- */

static const stk_tar_stamp stamp = { 4096, 1234567890123456789 };

static void *index_bytes(void **state, size_t *size)
{
    stk_tar_index index = { 0 };
    stk_mem_buffer buffer = { 0 };
    const char *path = unit_path(state, "x.idx");
    assert_int_equal(stk_tar_add(&index, "a/b.jpg", 7, 512, 100, STK_TAR_FILE, NULL), STOKE_OK);
    assert_int_equal(stk_tar_add(&index, "link.png", 8, 1536, 0, STK_TAR_LINK, NULL), STOKE_OK);
    assert_int_equal(stk_tar_add(&index, "b.png", 5, 2048, 2048, STK_TAR_FILE, NULL), STOKE_OK);
    assert_int_equal(stk_tar_index_write(&index, &stamp, path, NULL), STOKE_OK);
    assert_int_equal(stk_file_read(path, 10000, &buffer, size, NULL), STOKE_OK);
    void *copy = memcpy(malloc(*size), buffer.data, *size);
    stk_buffer_free(&buffer);
    stk_tar_close(&index);
    return copy;
}

static void index_is_read_as_written(void **state)
{
    size_t size;
    stk_tar_index index = { 0 };
    stoke_error err;
    uint8_t *bytes = index_bytes(state, &size);
    assert_int_equal(stk_tar_index_parse(&index, &stamp, bytes, size, &err), STOKE_OK);
    assert_int_equal(index.count, 3);
    assert_string_equal(index.members[0].name, "a/b.jpg");
    assert_int_equal(index.members[1].kind, STK_TAR_LINK);
    assert_int_equal(index.members[2].offset, 2048);
    stk_tar_close(&index);
    const stk_tar_stamp other[] = { { 4097, stamp.mtime_ns }, { 4096, stamp.mtime_ns + 1 } };
    for (int i = 0; i < 2; i++)
        assert_int_equal(stk_tar_index_parse(&index, &other[i], bytes, size, &err), STOKE_E_STATE);
    for (size_t n = 0; n < size; n++)
        assert_int_equal(stk_tar_index_parse(&index, &stamp, bytes, n, &err), STOKE_E_FORMAT);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x40;
        assert_int_equal(stk_tar_index_parse(&index, &stamp, bytes, size, &err), STOKE_E_FORMAT);
        assert_int_equal(index.count, 0);
        bytes[i] ^= 0x40;
    }
    free(bytes);
}

/* A right sum does not make it true. */
static void index_that_misleads_is_refused(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } lies[] = { { 32, 4 },    { 32, 2 },    { 39, 0x80 },               /* members */
                 { 40, 1 },    { 41, 0 },    { 41, 0x20 }, { 47, 0x80 }, /* offset of the first */
                 { 49, 0x80 }, { 55, 0xff },                             /* size */
                 { 56, 6 },    { 56, 0xff }, { 59, 0xff }, { 60, 9 },    /* name's length, kind */
                 { 60, 1 },    { 112, '/' }, { 112, 0 },   { 113, 0 } };
    size_t size;
    stk_tar_index index = { 0 };
    stoke_error err;
    uint8_t *bytes = index_bytes(state, &size);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        uint8_t kept = bytes[lies[i].at];
        bytes[lies[i].at] = lies[i].value;
        uint64_t sum = XXH3_64bits(bytes, size - 8);
        for (int b = 0; b < 8; b++) bytes[size - 8 + (size_t)b] = (uint8_t)(sum >> 8 * b);
        if (stk_tar_index_parse(&index, &stamp, bytes, size, &err) != STOKE_E_FORMAT)
            fail_msg("byte %zu = %u was believed", lies[i].at, lies[i].value);
        bytes[lies[i].at] = kept;
    }
    free(bytes);
}

static void write_archive(const char *path, const char *first)
{
    archive *a = calloc(1, sizeof *a);
    archive_file(a, first, "x");
    archive_end(a);
    unit_write(path, a->bytes, a->size);
    free(a);
}

static void expect_first(const char *path, const char *name)
{
    stk_tar_index index;
    stoke_error err;
    assert_int_equal(stk_tar_open(&index, path, &err), STOKE_OK);
    assert_string_equal(index.members[0].name, name);
    stk_tar_close(&index);
}

static void index_file_follows_the_archive(void **state)
{
    const char *path = unit_path(state, "s.tar"), *beside = unit_path(state, "s.tar.idx");
    struct stat st;
    write_archive(path, "one.jpg");
    expect_first(path, "one.jpg");
    assert_int_equal(stat(beside, &st), 0);
    expect_first(path, "one.jpg");
    /* same size, other time */
    write_archive(path, "two.jpg");
    const struct timespec times[2] = { { 5, 0 }, { 5, 1 } };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    expect_first(path, "two.jpg");
    /* proof that it is used: an index that is as old as the archive and says something else */
    stk_tar_index lie = { 0 };
    assert_int_equal(stk_tar_add(&lie, "lie.jpg", 7, 512, 1, STK_TAR_FILE, NULL), STOKE_OK);
    assert_int_equal(stk_tar_index_write(&lie, &(stk_tar_stamp){ 2048, 5000000001 }, beside, NULL), STOKE_OK);
    stk_tar_close(&lie);
    expect_first(path, "lie.jpg");
    /* damaged: passed over, and made again */
    unit_write(beside, "stoke-tar-idx-0\nrubbish", 23);
    expect_first(path, "two.jpg");
    assert_int_equal(stat(beside, &st), 0);
    assert_true(st.st_size > 23);
    stk_tar_index index;
    stoke_error err;
    assert_int_equal(stk_tar_open(&index, unit_path(state, "none.tar"), &err), STOKE_E_NOTFOUND);
    assert_int_equal(stk_tar_open(&index, unit_folder(state), &err), STOKE_E_IO);
}

/* Opening is reading: what is not an index of ours is neither used nor replaced, nor what a link leads to. */
static void index_file_replaces_nothing_else(void **state)
{
    const char *path = unit_path(state, "s.tar"), *beside = unit_path(state, "s.tar.idx");
    const char *other = unit_path(state, "precious");
    char text[16];
    write_archive(path, "one.jpg");
    for (int linked = 0; linked < 2; linked++) {
        unlink(beside);
        unit_write(linked ? other : beside, "not yours", 9);
        if (linked) assert_int_equal(symlink("precious", beside), 0);
        expect_first(path, "one.jpg");
        FILE *file = fopen(beside, "rb");
        assert_int_equal(fread(text, 1, sizeof text, file), 9);
        fclose(file);
        assert_memory_equal(text, "not yours", 9);
    }
    unlink(beside);
    assert_int_equal(symlink("nowhere", beside), 0);
    expect_first(path, "one.jpg");
    assert_int_not_equal(access(unit_path(state, "nowhere"), F_OK), 0);
    /* what a power cut leaves */
    unlink(beside);
    unit_write(beside, "", 0);
    expect_first(path, "one.jpg");
    struct stat st;
    assert_int_equal(stat(beside, &st), 0);
    assert_true(st.st_size > 0);
}

/* Size and time of the archive before it, but the members lie elsewhere. */
static void index_of_a_twin_is_noticed(void **state)
{
    const char *path = unit_path(state, "s.tar");
    const struct timespec times[2] = { { 5, 0 }, { 5, 0 } };
    char long_text[700];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    for (int turn = 0; turn < 2; turn++) {
        archive *a = calloc(1, sizeof *a);
        archive_file(a, turn ? "b.jpg" : "a.jpg", turn ? "x" : long_text);
        archive_file(a, turn ? "b.png" : "a.png", turn ? long_text : "x");
        archive_end(a);
        unit_write(path, a->bytes, a->size);
        free(a);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        expect_first(path, turn ? "b.jpg" : "a.jpg");
        expect_first(path, turn ? "b.jpg" : "a.jpg");
    }
}

/* ---- names ---- */

static void keys_are_taken_back(void **state)
{
    static const struct {
        const char *sample, *key;
    } cases[] = { { "a", "a" },
                  { "a/b", "a/b" },
                  { "a.b", "a%2Eb" },
                  { "a.b/c", "a.b/c" },
                  { "100%", "100%25" },
                  { "%2E", "%252E" },
                  { "../x/y", "%2E./x/y" },
                  { "/abs/x", "%2Fabs/x" },
                  { "a//b", "a/%2Fb" },
                  { "./a", "%2E/a" },
                  { ".h/a", "%2Eh/a" },
                  { "a\nb", "a%0Ab" },
                  { "x.y/", "x%2Ey%2F" },
                  { "\xc3\xa4.", "\xc3\xa4%2E" } };
    char text[64], name[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(stk_shard_key(cases[i].sample, text, sizeof text));
        assert_string_equal(text, cases[i].key);
        assert_int_equal(stk_shard_sample(text, strlen(text), name), strlen(cases[i].sample));
        assert_string_equal(name, cases[i].sample);
    }
    static const char *const literal[] = { "a%2eb", "50%", "a%41", "%00", "a%2", "x%2E/y" };
    for (size_t i = 0; i < sizeof literal / sizeof *literal; i++) {
        stk_shard_sample(literal[i], strlen(literal[i]), name);
        assert_string_equal(name, literal[i]);
    }
    assert_false(stk_shard_key("12345", text, 5));
    assert_true(stk_shard_key("1234", text, 5));
    assert_false(stk_shard_key("", text, 5));
}

/* Any name comes back, its key is a clean name with one component's worth before the first dot. */
static void keys_of_any_name(void **state)
{
    static const char letters[] = "a./%2E\n-";
    const uint64_t seed = 20;
    print_message("# seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < 20000; i++) {
        char sample[16], key[64], back[64], member[80];
        const uint64_t bits = stk_mix64(seed + i);
        const size_t n = 1 + bits % 12;
        for (size_t k = 0; k < n; k++) sample[k] = letters[bits >> (4 + 3 * k) & 7];
        sample[n] = 0;
        assert_true(stk_shard_key(sample, key, sizeof key));
        stk_shard_sample(key, strlen(key), back);
        assert_string_equal(back, sample);
        snprintf(member, sizeof member, "%s.jpg", key);
        assert_null(stk_tar_clean_name(member));
        const stk_shard_name name = stk_shard_name_parse(member);
        if (name.key != strlen(key) || name.role != STK_FIELD_PICTURE) fail_msg("%s -> %s", sample, member);
    }
}

static void fields_have_roles(void **state)
{
    static const struct {
        const char *name;
        size_t key;
        stk_shard_field_role role;
    } cases[] = { { "a.jpg", 1, STK_FIELD_PICTURE },
                  { "d.e/a.JPEG", 5, STK_FIELD_PICTURE },
                  { "a.image.webp", 1, STK_FIELD_IMAGE },
                  { "a.IMG.tif", 1, STK_FIELD_IMAGE },
                  { "a.mask.png", 1, STK_FIELD_MASK },
                  { "a.seg.png", 1, STK_FIELD_MASK },
                  { "a.label.tiff", 1, STK_FIELD_MASK },
                  { "a.gt.png", 1, STK_FIELD_MASK },
                  { "a.ann.png", 1, STK_FIELD_MASK },
                  { "a.depth.png", 1, STK_FIELD_OTHER },
                  { "a.json", 1, STK_FIELD_OTHER },
                  { "a.mask", 1, STK_FIELD_OTHER },
                  { "a", 1, STK_FIELD_OTHER },
                  { "d/.a.jpg", 2, STK_FIELD_OTHER },
                  { ".d/a.jpg", 4, STK_FIELD_OTHER },
                  { "a.x.mask.png", 1, STK_FIELD_OTHER },
                  { "d.jpg/a", 7, STK_FIELD_OTHER } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stk_shard_name name = stk_shard_name_parse(cases[i].name);
        if (name.role != cases[i].role || name.key != cases[i].key)
            fail_msg("%s: key %zu, role %d", cases[i].name, name.key, (int)name.role);
    }
}

static void patterns_expand(void **state)
{
    stk_string_arena arena = { 0 };
    stk_shard_list list = { 0 };
    stoke_error err;
    assert_int_equal(stk_shards_expand("s/{train,val}-{08..11}.tar", &arena, &list, &err), STOKE_OK);
    assert_int_equal(list.count, 8);
    assert_string_equal(list.items[0].path, "s/train-08.tar");
    assert_string_equal(list.items[2].path, "s/train-10.tar");
    assert_string_equal(list.items[7].path, "s/val-11.tar");
    assert_int_equal(list.items[0].split, STOKE_SPLIT_TRAIN);
    assert_int_equal(list.items[7].split, STOKE_SPLIT_VAL);
    list.count = 0;
    assert_int_equal(stk_shards_expand("a{1..0}", &arena, &list, &err), STOKE_E_INVALID);
    assert_int_equal(stk_shards_expand("a{0..99999999}", &arena, &list, &err), STOKE_E_INVALID);
    assert_int_equal(stk_shards_expand("{0..9999}{0..9999}", &arena, &list, &err), STOKE_E_LIMIT);
    assert_int_equal(stk_shards_expand("{a}{a}{a}{a}{a}{a}{a}{a}{a}", &arena, &list, &err), STOKE_E_INVALID);
    list.count = 0;
    assert_int_equal(stk_shards_expand("x{,-y}{z", &arena, &list, &err), STOKE_OK);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[0].path, "x{z");
    assert_string_equal(list.items[1].path, "x-y{z");
    stk_free(list.items);
    stk_string_arena_free(&arena);
}

#define WITH_ARCHIVE(f) cmocka_unit_test_setup_teardown(f, begin, end)

UNIT_GROUP(tar)
{
    const struct CMUnitTest tests[] = {
        WITH_ARCHIVE(members_of_ustar),
        WITH_ARCHIVE(members_of_pax),
        WITH_ARCHIVE(members_of_gnu_and_v7),
        WITH_ARCHIVE(padding_behind_the_end),
        WITH_ARCHIVE(sums_of_signed_bytes),
        WITH_ARCHIVE(refuses_what_is_no_archive),
        WITH_ARCHIVE(refuses_what_was_cut),
        WITH_ARCHIVE(refuses_damage),
        WITH_ARCHIVE(refuses_sizes),
        WITH_ARCHIVE(refuses_names),
        WITH_ARCHIVE(refuses_kinds),
        WITH_ARCHIVE(refuses_pax_tricks),
        WITH_ARCHIVE(survives_any_byte),
        WITH_ARCHIVE(memory_may_run_out),
        WITH_ARCHIVE(written_headers_are_read),
        unit_test_with_folder(index_is_read_as_written),
        unit_test_with_folder(index_that_misleads_is_refused),
        unit_test_with_folder(index_file_follows_the_archive),
        unit_test_with_folder(index_file_replaces_nothing_else),
        unit_test_with_folder(index_of_a_twin_is_noticed),
        cmocka_unit_test(keys_are_taken_back),
        cmocka_unit_test(keys_of_any_name),
        cmocka_unit_test(fields_have_roles),
        cmocka_unit_test(patterns_expand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
