/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/rng.h"

static void philox_known_answers(void **state)
{
    const uint32_t zero[4] = { 0 }, ones[4] = { ~0u, ~0u, ~0u, ~0u };
    const uint32_t pi[4] = { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
                   key[2] = { 0xa4093822, 0x299f31d0 };
    const stk_rng a = { { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } };
    const stk_rng b = { { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } };
    const stk_rng c = { { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } };
    stk_rng r = stk_philox_block(zero, zero);
    assert_memory_equal(&r, &a, sizeof r);
    r = stk_philox_block(ones, ones);
    assert_memory_equal(&r, &b, sizeof r);
    r = stk_philox_block(pi, key);
    assert_memory_equal(&r, &c, sizeof r);
}

static void errors_name_file_and_reason(void **state)
{
    stoke_error err;
    assert_int_equal(stk_fail_errno(&err, STOKE_E_IO, ENOENT, "%s: cannot open", "a.png"), STOKE_E_IO);
    assert_string_equal(err.message, "a.png: cannot open: No such file or directory");
    stk_fail(&err, STOKE_E_FORMAT, "bad CRC");
    stk_error_prefix(&err, "x/y.png");
    assert_string_equal(err.message, "x/y.png: bad CRC");
    char path[3000];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = 0;
    stk_fail(&err, STOKE_E_FORMAT, "the reason");
    stk_error_prefix(&err, path);
    assert_non_null(strstr(err.message, ": the reason"));
    stk_fail(&err, STOKE_E_TOO_BAD, "bad files:");
    while (stk_error_add_entry(&err, "a/picture/of/some/length.png: its reason")) continue;
    stk_error_prefix(&err, "the masks do not fit the network");
    const char *last = strrchr(err.message, '\n');
    assert_string_equal(last, "\n  a/picture/of/some/length.png: its reason");
    assert_int_equal(stk_fail(NULL, STOKE_E_LABEL, "x"), STOKE_E_LABEL);
    assert_string_equal(stoke_status_name(STOKE_E_LABEL), "label");
    assert_string_equal(stoke_status_name(-999), "unknown");
}

static void read_refuses_what_is_no_file(void **state)
{
    const char *folder = unit_folder(state);
    stk_mem_buffer buffer = { 0 };
    size_t size = 0;
    stoke_error err;
    assert_int_equal(stk_file_read(folder, 100, &buffer, &size, &err), STOKE_E_IO);
    assert_int_equal(stk_file_read(unit_path(state, "none"), 100, &buffer, &size, &err), STOKE_E_NOTFOUND);
    assert_int_equal(mkfifo(unit_path(state, "fifo"), 0600), 0);
    assert_int_equal(stk_file_read(unit_path(state, "fifo"), 100, &buffer, &size, &err), STOKE_E_IO);
    unit_write(unit_path(state, "empty"), "", 0);
    assert_int_equal(stk_file_read(unit_path(state, "empty"), 100, &buffer, &size, &err), STOKE_E_FORMAT);
    unit_write(unit_path(state, "five"), "12345", 5);
    assert_int_equal(stk_file_read(unit_path(state, "five"), 4, &buffer, &size, &err), STOKE_E_LIMIT);
    assert_int_equal(stk_file_read(unit_path(state, "five"), 5, &buffer, &size, &err), STOKE_OK);
    assert_int_equal(size, 5);
    assert_memory_equal(buffer.data, "12345", 5);
    stk_buffer_free(&buffer);
}

static void blob_is_a_part_of_a_file(void **state)
{
    const char *path = unit_path(state, "ten");
    stk_mem_buffer buffer = { 0 };
    size_t size = 0;
    uint64_t whole = 0;
    char head[4];
    stoke_error err;
    unit_write(path, "0123456789", 10);
    const stoke_blob part = { path, 3, 4 }, tail = { path, 10, 0 }, past = { path, 7, 4 },
                     far = { path, UINT64_MAX - 1, UINT64_MAX }, none = { 0 };
    assert_int_equal(stk_blob_read(&part, "ten:m", 4, &buffer, &size, &err), STOKE_OK);
    assert_int_equal(size, 4);
    assert_memory_equal(buffer.data, "3456", 4);
    assert_int_equal(stk_blob_read(&part, "ten:m", 3, &buffer, &size, &err), STOKE_E_LIMIT);
    assert_int_equal(stk_blob_read(&tail, "ten:m", 100, &buffer, &size, &err), STOKE_E_FORMAT);
    assert_string_equal(err.message, "ten:m: empty file");
    assert_int_equal(stk_blob_read(&past, "ten:m", 100, &buffer, &size, &err), STOKE_E_FORMAT);
    assert_non_null(strstr(err.message, "ten:m: 4 bytes at byte 7"));
    assert_non_null(strstr(err.message, path));
    assert_int_equal(stk_blob_read(&far, "ten:m", 100, &buffer, &size, &err), STOKE_E_FORMAT);
    assert_int_equal(stk_blob_bytes(&part), 4);
    assert_int_equal(stk_blob_bytes(&past), 0);
    assert_int_equal(stk_blob_bytes(&far), 0);
    assert_int_equal(stk_blob_bytes(&none), 0);
    assert_int_equal(stk_blob_head(&part, head, 2, &whole), 2);
    assert_int_equal(whole, 4);
    assert_memory_equal(head, "34", 2);
    assert_int_equal(stk_blob_head(&past, head, 4, &whole), 0);
    stk_buffer_free(&buffer);
}

static void atomic_file_is_whole_or_absent(void **state)
{
    const char *path = unit_path(state, "a/b/out.txt");
    stoke_error err;
    stoke_output file;
    assert_int_equal(stoke_output_open(&file, path, &err), STOKE_E_IO);
    assert_int_equal(stoke_make_folders(unit_path(state, "a/b"), &err), STOKE_OK);
    path = unit_path(state, "a/b/out.txt");
    assert_int_equal(stoke_output_open(&file, path, &err), STOKE_OK);
    fputs("half", file.stream);
    assert_int_not_equal(access(path, F_OK), 0);
    stoke_output_drop(&file);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(stoke_output_open(&file, path, &err), STOKE_OK);
    fputs("whole", file.stream);
    assert_int_equal(stoke_output_commit(&file, &err), STOKE_OK);
    stk_mem_buffer buffer = { 0 };
    size_t size;
    assert_int_equal(stk_file_read(path, 100, &buffer, &size, &err), STOKE_OK);
    assert_int_equal(size, 5);
    stk_buffer_free(&buffer);
    assert_int_equal(stoke_make_folders(unit_path(state, "a/b/out.txt/c"), &err), STOKE_E_IO);
}

static void sweeps_up_after_the_killed(void **state)
{
    stoke_error err;
    stoke_output file, other;
    assert_int_equal(stoke_output_open(&file, unit_path(state, "a"), &err), STOKE_OK);
    assert_int_equal(stoke_output_open(&other, unit_path(state, "a"), &err), STOKE_OK);
    static const char *const ours[] = { "a", "b", "c", "[0-9][0-9].png", NULL };
    static const char *const kept[] = { "b",
                                        "b.tmp-12345",
                                        "b.tmp-1234567",
                                        "b.tmp-12345G",
                                        ".tmp-123456",
                                        "b.tmp-123456.c",
                                        "c.tmp-abcdef",
                                        "notes.tmp-123456",
                                        "1.png.tmp-123456" };
    enum { KEPT = sizeof kept / sizeof *kept, FOLDER = 6 };
    for (int i = 0; i < KEPT; i++)
        if (i != FOLDER) unit_write(unit_path(state, kept[i]), "x", 1);
    assert_int_equal(mkdir(unit_path(state, kept[FOLDER]), 0777), 0);
    unit_write(unit_path(state, "07.png.tmp-123456"), "x", 1);
    assert_int_equal(stk_atomic_sweep(unit_folder(state), ours), 3);
    for (int i = 0; i < KEPT; i++) assert_int_equal(access(unit_path(state, kept[i]), F_OK), 0);
    assert_int_equal(stk_atomic_sweep(unit_folder(state), ours), 0);
    assert_int_equal(stk_atomic_sweep(unit_path(state, "nowhere"), ours), 0);
    stoke_output_drop(&file);
    stoke_output_drop(&other);
}

/* The rename at the end must never put a file in the place of a device, a pipe or a link. */
static void atomic_file_spares_what_is_no_file(void **state)
{
    stoke_error err;
    stoke_output file;
    struct stat st;
    assert_int_equal(mkfifo(unit_path(state, "fifo"), 0600), 0);
    assert_int_equal(stoke_output_open(&file, unit_path(state, "fifo"), &err), STOKE_E_IO);
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_int_equal(stat(unit_path(state, "fifo"), &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(stoke_output_open(&file, "", &err), STOKE_E_INVALID);
    assert_int_equal(stoke_make_folders("", &err), STOKE_E_INVALID);
    assert_int_equal(symlink("nothing", unit_path(state, "dangling")), 0);
    assert_int_equal(stoke_output_open(&file, unit_path(state, "dangling"), &err), STOKE_E_IO);
    unit_write(unit_path(state, "target"), "old", 3);
    assert_int_equal(symlink("target", unit_path(state, "link")), 0);
    assert_int_equal(stoke_output_open(&file, unit_path(state, "link"), &err), STOKE_OK);
    fputs("newer", file.stream);
    assert_int_equal(stoke_output_commit(&file, &err), STOKE_OK);
    assert_int_equal(lstat(unit_path(state, "link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(unit_path(state, "target"), &st), 0);
    assert_int_equal(st.st_size, 5);
}

static void allocation_can_fail_on_request(void **state)
{
    stk_mem_fail_after(1);
    void *first = stk_alloc(8), *second = stk_alloc(8), *third = stk_calloc(1, 8);
    stk_mem_fail_after(-1);
    assert_non_null(first);
    assert_null(second);
    assert_null(third);
    stk_free(first);
    size_t r;
    assert_int_equal(stk_mul(SIZE_MAX, 2, &r), 0);
    assert_int_equal(stk_add(SIZE_MAX, 1, &r), 0);
    uint64_t before = stk_mem_count().calls;
    stk_free(stk_alloc(1));
    assert_int_equal(stk_mem_count().calls, before + 1);
}

static void pages_begin_at_a_page_and_hold_what_was_asked_for(void **state)
{
    static const size_t sizes[] = { 0, 1, 4096, (2 << 20) - 1, 2 << 20, (5 << 20) + 13 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t before = stk_mem_count().calls;
        unsigned char *pages = stk_alloc_pages(sizes[i]);
        assert_non_null(pages);
        assert_int_equal((uintptr_t)pages % 4096, 0);
        assert_int_equal(stk_mem_count().calls, before + 1);
        memset(pages, 0x5a, sizes[i]);
        if (sizes[i]) assert_int_equal(pages[sizes[i] - 1], 0x5a);
        stk_free_pages(pages, sizes[i]);
    }
    stk_free_pages(NULL, 4096);
    stk_free_pages(NULL, 5 << 20);
}

static void pages_can_fail(void **state)
{
    static const size_t sizes[] = { 1, 5 << 20 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        stk_mem_fail_after(0);
        void *pages = stk_alloc_pages(sizes[i]);
        stk_mem_fail_after(-1);
        assert_null(pages);
    }
    assert_null(stk_alloc_pages(SIZE_MAX));
    assert_null(stk_alloc_pages(SIZE_MAX - 4096));
    const stoke_allocator allocator = stoke_allocator_pages();
    assert_null(allocator.alloc(allocator.context, 64, 8192));
    void *block = allocator.alloc(allocator.context, 100, 64);
    assert_non_null(block);
    allocator.release(allocator.context, block, 100);
}

UNIT_GROUP(base)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(errors_name_file_and_reason),
        unit_test_with_folder(read_refuses_what_is_no_file),
        unit_test_with_folder(blob_is_a_part_of_a_file),
        unit_test_with_folder(atomic_file_is_whole_or_absent),
        unit_test_with_folder(sweeps_up_after_the_killed),
        unit_test_with_folder(atomic_file_spares_what_is_no_file),
        cmocka_unit_test(allocation_can_fail_on_request),
        cmocka_unit_test(pages_begin_at_a_page_and_hold_what_was_asked_for),
        cmocka_unit_test(pages_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
