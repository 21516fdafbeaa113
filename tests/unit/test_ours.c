/* SPDX-License-Identifier: Apache-2.0
 *
 * What is not provably ours stays: folders without our marker, files without our mark.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <stoke/tools/output.h>

#include "src/base/ours.h"
#include "src/base/file.h"
#include "src/cache/cache.h"
#include "src/cache/layout.h"

static const stk_ours_kind thing = { .name = "thing", .line = "Things." };

static int claim(const char *folder, const stk_ours_kind *kind, stoke_error *err)
{
    int unwritable;
    const int r = stk_ours_claim(folder, kind, &unwritable, err);
    if (!r) assert_int_equal(unwritable, 0);
    return r;
}

static void put(const char *path, const char *text)
{
    unit_write(path, text, strlen(text));
}

static void expect(const char *path, const char *text)
{
    char found[4096] = { 0 };
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is gone", path);
    const size_t n = fread(found, 1, sizeof found - 1, f);
    fclose(f);
    assert_int_equal(n, strlen(text));
    assert_string_equal(found, text);
}

/* ---- folders ---- */

static void an_empty_folder_becomes_ours(void **state)
{
    stoke_error err = { 0 };
    const char *folder = unit_path(state, "new");
    mkdir(folder, 0777);
    assert_false(stk_ours_marked(folder, &thing));
    assert_int_equal(claim(folder, &thing, &err), STOKE_OK);
    assert_true(stk_ours_marked(folder, &thing));
    expect(unit_path(state, "new/" STK_OURS_MARKER), "Stokehold thing, version 1\nThings.\n");
    put(unit_path(state, "new/anything"), "x");
    assert_int_equal(claim(folder, &thing, &err), STOKE_OK); /* whatever else is in it by now */
    const stk_ours_kind other = { .name = "other", .line = "Others." };
    assert_int_equal(claim(folder, &other, &err), STOKE_E_STATE);
}

static void what_a_killed_claim_left_does_not_count(void **state)
{
    stoke_error err = { 0 };
    put(unit_path(state, "c/" STK_OURS_MARKER ".tmp-0123ab"), "Stok");
    mkdir(unit_path(state, "c/lost+found"), 0777); /* of a new file system */
    assert_int_equal(claim(unit_path(state, "c"), &thing, &err), STOKE_OK);
}

static void a_folder_of_others_is_refused(void **state)
{
    stoke_error err = { 0 };
    put(unit_path(state, "home/thesis.tex"), "precious");
    assert_int_equal(claim(unit_path(state, "home"), &thing, &err), STOKE_E_STATE);
    assert_non_null(strstr(err.message, "thesis.tex"));
    assert_non_null(strstr(err.message, "name a new folder"));
    assert_int_not_equal(access(unit_path(state, "home/" STK_OURS_MARKER), F_OK), 0);
    /* A file of the marker's name is not yet a marker. */
    put(unit_path(state, "home/" STK_OURS_MARKER), "Stokehold thing, version 2\n");
    assert_int_equal(claim(unit_path(state, "home"), &thing, &err), STOKE_E_STATE);
    expect(unit_path(state, "home/" STK_OURS_MARKER), "Stokehold thing, version 2\n");
}

static void *claim_and_fill(void *folder)
{
    stoke_error err = { 0 };
    int unwritable;
    char name[4096];
    const int r = stk_ours_claim(folder, &thing, &unwritable, &err);
    snprintf(name, sizeof name, "%s/%lx", (char *)folder, (unsigned long)pthread_self());
    FILE *f = fopen(name, "wb");
    if (f) fclose(f);
    return r ? (void *)1 : NULL;
}

static void many_claim_one_folder(void **state)
{
    enum { THREADS = 8, ROUNDS = 20 };
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        char name[16];
        snprintf(name, sizeof name, "%d", round);
        const char *folder = unit_path(state, name);
        mkdir(folder, 0777);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, claim_and_fill, (void *)folder), 0);
        for (int i = 0; i < THREADS; i++) {
            void *refused;
            pthread_join(threads[i], &refused);
            assert_null(refused);
        }
    }
}

/* ---- the cache's folder ---- */

static int open_cache(const char *folder, stk_cache **cache, stoke_error *err)
{
    const stk_cache_settings settings = { folder, 1 << 20, 0 };
    return stk_cache_open(cache, &settings, err);
}

static void a_cache_leaves_a_folder_of_others_alone(void **state)
{
    stk_cache *cache = NULL;
    stoke_error err = { 0 };
    put(unit_path(state, "proj/tmp/thesis.tex"), "precious");
    put(unit_path(state, "proj/memo"), "notes");
    put(unit_path(state, "proj/usage"), "mine");
    assert_int_equal(open_cache(unit_path(state, "proj"), &cache, &err), STOKE_E_STATE);
    assert_null(cache);
    expect(unit_path(state, "proj/tmp/thesis.tex"), "precious");
    expect(unit_path(state, "proj/memo"), "notes");
    expect(unit_path(state, "proj/usage"), "mine");
    /* nor is a folder called tmp the beginning of a cache */
    put(unit_path(state, "half/tmp/1-2-0123456789abcdef"), "x");
    assert_int_equal(open_cache(unit_path(state, "half"), &cache, &err), STOKE_E_STATE);
    expect(unit_path(state, "half/tmp/1-2-0123456789abcdef"), "x");
}

static void files_put_into_a_cache_stay(void **state)
{
    stk_cache *cache = NULL;
    stoke_error err = { 0 };
    assert_int_equal(open_cache(unit_path(state, "c"), &cache, &err), STOKE_OK);
    stk_cache_close(&cache);
    put(unit_path(state, "c/tmp/thesis.tex"), "precious");
    put(unit_path(state, "c/tmp/1-2"), "x");
    put(unit_path(state, "c/tmp/2026-11-17"), "x");
    put(unit_path(state, "c/tmp/1-2-0123456789abcdef"), "left by a killed process");
    assert_int_equal(symlink("thesis.tex", unit_path(state, "c/tmp/4-5-0123456789abcdef")), 0);
    put(unit_path(state, "c/memo"), "notes, longer than any magic number");
    put(unit_path(state, "c/usage"), "mine");
    assert_int_equal(open_cache(unit_path(state, "c"), &cache, &err), STOKE_OK);
    assert_non_null(stk_cache_warning(cache));
    assert_non_null(strstr(stk_cache_warning(cache), "usage"));
    stk_cache_close(&cache);
    expect(unit_path(state, "c/memo"), "notes, longer than any magic number");
    expect(unit_path(state, "c/usage"), "mine");
    unlink(unit_path(state, "c/usage"));
    assert_int_equal(open_cache(unit_path(state, "c"), &cache, &err), STOKE_OK);
    assert_null(stk_cache_warning(cache));
    stk_cache_close(&cache);
    expect(unit_path(state, "c/tmp/thesis.tex"), "precious");
    expect(unit_path(state, "c/tmp/1-2"), "x");
    expect(unit_path(state, "c/tmp/2026-11-17"), "x");
    expect(unit_path(state, "c/tmp/4-5-0123456789abcdef"), "precious");
    expect(unit_path(state, "c/memo"), "notes, longer than any magic number");
    assert_int_not_equal(access(unit_path(state, "c/tmp/1-2-0123456789abcdef"), F_OK), 0);
}

/* Of version 0.1: no marker. */
static void an_old_cache_is_adopted(void **state)
{
    static const char entry[] = "ab0123456789abcdef0123456789abcdef.stk";
    stk_cache *cache = NULL;
    stoke_error err = { 0 };
    char name[128];
    assert_true(stk_cache_is_entry("ab", "ab0123456789abcdef0123456789abcd.stk"));
    assert_false(stk_cache_is_entry("ab", entry)); /* 34 digits */
    assert_false(stk_cache_is_entry("ac", "ab0123456789abcdef0123456789abcd.stk"));
    snprintf(name, sizeof name, "old/ab/ab0123456789abcdef0123456789abcd.stk");
    put(unit_path(state, name), "entry");
    put(unit_path(state, "old/usage"), "skusage1........................");
    put(unit_path(state, "old/memo"), "");
    mkdir(unit_path(state, "old/tmp"), 0777);
    put(unit_path(state, "old/" STK_OURS_MARKER ".tmp-012345"), ""); /* adopting it was tried, and killed */
    mkdir(unit_path(state, "old/lost+found"), 0777);
    assert_int_equal(open_cache(unit_path(state, "old"), &cache, &err), STOKE_OK);
    stk_cache_close(&cache);
    assert_true(stk_ours_marked(unit_path(state, "old"), &stk_cache_kind));
    /* one file that is not of a cache, anywhere, and it is somebody's */
    static const char *const foreign[] = { "x", "ab/notes.txt", "tmp/thesis.tex", "cd" };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        unlink(unit_path(state, "old/" STK_OURS_MARKER));
        snprintf(name, sizeof name, "old/%s", foreign[i]);
        put(unit_path(state, name), "x");
        assert_int_equal(open_cache(unit_path(state, "old"), &cache, &err), STOKE_E_STATE);
        unlink(unit_path(state, name));
    }
    assert_int_equal(open_cache(unit_path(state, "old"), &cache, &err), STOKE_OK);
    stk_cache_close(&cache);
}

/* ---- files ---- */

static void a_file_that_is_there_is_refused(void **state)
{
    stoke_error err = { 0 };
    int replaces = 7;
    assert_int_equal(stoke_output_check(unit_path(state, "new.png"), 0, &replaces, &err), STOKE_OK);
    assert_int_equal(replaces, 0);
    put(unit_path(state, "photo.png"), "\x89PNG somebody's");
    assert_int_equal(stoke_output_check(unit_path(state, "photo.png"), 0, &replaces, &err), STOKE_E_STATE);
    assert_non_null(strstr(err.message, "photo.png"));
    assert_int_equal(stoke_output_check(unit_path(state, "photo.png"), 1, &replaces, &err), STOKE_OK);
    assert_int_equal(replaces, 1);
    put(unit_path(state, "empty"), "");
    assert_int_equal(stoke_output_check(unit_path(state, "empty"), 0, &replaces, &err), STOKE_E_STATE);
}

static void a_file_with_our_mark_is_replaced(void **state)
{
    stoke_error err = { 0 };
    int replaces = 7;
    put(unit_path(state, "a.svg"), "<svg><!-- " STOKE_OUTPUT_MARK " --></svg>");
    assert_int_equal(stoke_output_check(unit_path(state, "a.svg"), 0, &replaces, &err), STOKE_OK);
    assert_int_equal(replaces, 0);
    assert_int_equal(symlink("a.svg", unit_path(state, "link")), 0);
    assert_int_equal(stoke_output_check(unit_path(state, "link"), 0, &replaces, &err), STOKE_OK);
    char far[512];
    memset(far, ' ', sizeof far);
    memcpy(far + 100, STOKE_OUTPUT_MARK, sizeof STOKE_OUTPUT_MARK - 1); /* quoted somewhere in a text */
    unit_write(unit_path(state, "notes.md"), far, sizeof far);
    assert_int_equal(stoke_output_check(unit_path(state, "notes.md"), 0, &replaces, &err), STOKE_E_STATE);
}

static void what_is_no_file_is_refused_with_force_too(void **state)
{
    stoke_error err = { 0 };
    int replaces;
    assert_int_equal(mkfifo(unit_path(state, "pipe"), 0600), 0);
    mkdir(unit_path(state, "folder"), 0777);
    assert_int_equal(symlink("nowhere", unit_path(state, "dangling")), 0);
    assert_int_equal(stoke_output_check(unit_path(state, "pipe"), 1, &replaces, &err), STOKE_E_IO);
    assert_int_equal(stoke_output_check(unit_path(state, "folder"), 1, &replaces, &err), STOKE_E_IO);
    assert_int_equal(stoke_output_check(unit_path(state, "dangling"), 1, &replaces, &err), STOKE_E_IO);
    assert_int_equal(stoke_output_check("", 1, &replaces, &err), STOKE_E_INVALID);
}

/* ---- files being written, and fork ---- */

static atomic_int busy_ends;

static void *note_and_forget(void *unused)
{
    stk_temporary noted;
    while (!atomic_load(&busy_ends)) {
        stk_temporary_note(&noted, AT_FDCWD, "/nowhere/at-all");
        stk_temporary_forget(&noted);
    }
    return unused;
}

/* What a thread had noted lies in its stack, which in the child belongs to whoever comes next. */
static _Noreturn void be_child(stk_temporary *inherited, stk_temporary *reused)
{
    stk_temporary own;
    alarm(10);
    memset(reused, 0xff, sizeof *reused);
    stk_temporary_note(&own, AT_FDCWD, "/nowhere/at-all");
    stk_temporary_forget(inherited);
    stk_temporary_forget(&own);
    stoke_output_abandon();
    _exit(0);
}

static void a_child_has_no_files_of_its_parent(void **state)
{
    enum { FORKS = 50 };
    stk_temporary first, second;
    pthread_t thread;
    put(unit_path(state, "first"), "one");
    put(unit_path(state, "second"), "two");
    char *names[] = { strdup(unit_path(state, "first")), strdup(unit_path(state, "second")) };
    stk_temporary_note(&first, AT_FDCWD, names[0]);
    stk_temporary_note(&second, AT_FDCWD, names[1]);
    assert_int_equal(pthread_create(&thread, NULL, note_and_forget, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        int status = -1;
        const pid_t pid = fork();
        if (pid == 0) be_child(i & 1 ? &first : &second, i & 1 ? &second : &first);
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    atomic_store(&busy_ends, 1);
    pthread_join(thread, NULL);
    stk_temporary_forget(&first);
    stk_temporary_forget(&second);
    expect(names[0], "one");
    expect(names[1], "two");
    free(names[0]);
    free(names[1]);
}

UNIT_GROUP(ours)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(an_empty_folder_becomes_ours),
        unit_test_with_folder(what_a_killed_claim_left_does_not_count),
        unit_test_with_folder(a_folder_of_others_is_refused),
        unit_test_with_folder(many_claim_one_folder),
        unit_test_with_folder(a_cache_leaves_a_folder_of_others_alone),
        unit_test_with_folder(files_put_into_a_cache_stay),
        unit_test_with_folder(an_old_cache_is_adopted),
        unit_test_with_folder(a_file_that_is_there_is_refused),
        unit_test_with_folder(a_file_with_our_mark_is_replaced),
        unit_test_with_folder(what_is_no_file_is_refused_with_force_too),
        unit_test_with_folder(a_child_has_no_files_of_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
