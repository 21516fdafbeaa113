/* SPDX-License-Identifier: Apache-2.0
 *
 * What every unit test includes: cmocka with its preconditions, a temporary folder per test, data from
 * outside.
 */
#ifndef STOKE_TESTS_UNIT_UNIT_H
#define STOKE_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Ends the test as skipped. cmocka 1.1.5 then prints "not ok 3 # SKIP name": a failure in Meson's eyes, and
 * without the reason. tests/unit/tap puts both right with the help of the line printed here. */
#define unit_skip(reason)                                                                                    \
    do {                                                                                                     \
        print_message("# skipping: %s\n", reason);                                                           \
        _skip(__FILE__, __LINE__);                                                                           \
    } while (0)
#undef skip
#define skip() unit_skip("what it needs is not here: data (STOKE_TEST_DATA) or rights")

/* 1: a sanitizer watches every access, and arithmetic takes many times as long. Tests that are long for the
 * figures they judge do less then, and judge what is left. */
#if defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNIT_SANITIZER
#endif
#if __has_feature(thread_sanitizer)
#define UNIT_THREAD_SANITIZER
#endif
#endif
#if defined(UNIT_SANITIZER) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { UNIT_SANITIZED = 1 };
#else
enum { UNIT_SANITIZED = 0 };
#endif

/* How often something is tried that is tried many times: `few` in `make test`, `full` where STOKE_TEST_ROUNDS
 * is set (tests/tap.py says to what). */
static inline int unit_rounds(int few, int full)
{
    const char *rounds = getenv("STOKE_TEST_ROUNDS");
    return rounds && *rounds ? full : few;
}

#if defined(UNIT_THREAD_SANITIZER) || defined(__SANITIZE_THREAD__)
enum { UNIT_RACES_SOUGHT = 1 };
#else
enum { UNIT_RACES_SOUGHT = 0 };
#endif
/* In the list of a group: a test that has one thread and is long, not run where races are looked for; one
 * that judges what a sanitizer changes, run under none. cmocka passes over what has no name. */
#define UNIT_ONE_THREAD(test)                                                                                \
    {                                                                                                        \
        .name = UNIT_RACES_SOUGHT ? NULL : #test, .test_func = (test)                                        \
    }
#define UNIT_PLAIN(test)                                                                                     \
    {                                                                                                        \
        .name = UNIT_SANITIZED ? NULL : #test, .test_func = (test)                                           \
    }

/* STOKE_TEST_PART=2/3 runs the second of three parts of a group, as tests/tap.py does for programs. */
static inline int unit_run_tests(const char *group, const struct CMUnitTest *tests, size_t count,
                                 CMFixtureFunction setup, CMFixtureFunction teardown)
{
    const char *part = getenv("STOKE_TEST_PART");
    unsigned number = 1, parts = 1;
    struct CMUnitTest chosen[256] = { { 0 } };
    if (part && (sscanf(part, "%u/%u", &number, &parts) != 2 || !number || number > parts)) return 1;
    if (count > sizeof chosen / sizeof *chosen) return 1;
    for (size_t i = number - 1; i < count; i += parts) chosen[i] = tests[i];
    return _cmocka_run_group_tests(group, chosen, count, setup, teardown);
}
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown)                                                       \
    unit_run_tests(#tests, tests, sizeof(tests) / sizeof(tests)[0], setup, teardown)

/* One test_NAME.c is one group, and the groups of a room are one program (groups.c): `unit_loader
 * loader_faults` runs the group of test_loader_faults.c. UNIT_GROUP(NAME) stands where main would, and
 * returns what it would. */
typedef struct unit_group {
    const char *name;
    int (*run)(void);
    struct unit_group *next;
} unit_group;

void unit_group_enter(unit_group *group);

#define UNIT_GROUP(NAME)                                                                                     \
    static int unit_run_##NAME(void);                                                                        \
    __attribute__((constructor)) static void unit_enter_##NAME(void)                                         \
    {                                                                                                        \
        static unit_group group = { #NAME, unit_run_##NAME, NULL };                                          \
        unit_group_enter(&group);                                                                            \
    }                                                                                                        \
    static int unit_run_##NAME(void)

typedef struct unit_place {
    char folder[64];
    char path[8][4096]; /* unit_path results stay valid for eight more calls */
    unsigned next;
} unit_place;

static inline int unit_folder_setup(void **state)
{
    unit_place *place = calloc(1, sizeof *place);
    strcpy(place->folder, "/tmp/stoke-test-XXXXXX");
    *state = place;
    return mkdtemp(place->folder) ? 0 : -1;
}

static inline int unit_folder_teardown(void **state)
{
    unit_place *place = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", place->folder);
    int r = system(command);
    free(place);
    return r;
}

/* A test that gets a fresh folder, removed afterwards. */
#define unit_test_with_folder(f) cmocka_unit_test_setup_teardown(f, unit_folder_setup, unit_folder_teardown)

static inline const char *unit_folder(void **state)
{
    return ((unit_place *)*state)->folder;
}

/* Path of a file in the test's folder. */
static inline const char *unit_path(void **state, const char *name)
{
    unit_place *place = *state;
    char *path = place->path[place->next++ % 8], folder[sizeof place->folder];
    memcpy(folder, place->folder, sizeof folder);
    snprintf(path, sizeof place->path[0], "%s/%s", folder, name);
    return path;
}

/* Writes a file, making its folders. */
static inline void unit_write(const char *path, const void *bytes, size_t size)
{
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *p = copy + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(copy, 0777);
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* A whole file; the caller frees it. */
static inline uint8_t *unit_read(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

/* Path inside the real data (STOKE_TEST_DATA, default ../shared/data), or NULL when it is absent: then
 * skip(). */
static inline const char *unit_data(const char *name)
{
    static char path[4096];
    const char *root = getenv("STOKE_TEST_DATA");
    snprintf(path, sizeof path, "%s/%s", root ? root : "../shared/data", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

#endif
