/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from files cannot reach a terminal as anything but text; words survive a shell.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stoke/tools/terminal.h>

#include "src/base/error.h"
#include "src/base/terminal.h"

static const struct {
    const char *text, *shown;
} cases[] = {
    { "", "" },
    { "plain /path.jpg", "plain /path.jpg" },
    { "\xe8\xbf\x90\xe8\xa1\x8c \xe4\xb8\x80", "\xe8\xbf\x90\xe8\xa1\x8c \xe4\xb8\x80" }, /* Chinese */
    { "\xc3\xbc\xf0\x9f\x8d\x8e", "\xc3\xbc\xf0\x9f\x8d\x8e" },
    { "a\033[31mRED\033]0;pwned\a", "a\\x1b[31mRED\\x1b]0;pwned\\x07" },
    { "one\ntwo\r\tthree", "one\\ntwo\\r\\tthree" },
    { "\x7f", "\\x7f" },
    { "\xc2\x9b"
      "2J",
      "\\u009b2J" },
    { "x\xe2\x80\xaegpj.exe", "x\\u202egpj.exe" },
    { "\xe2\x81\xa6\xe2\x81\xa9\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "\\u2066\\u2069\\u200e\\u200f\\u061c" },
    { "\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029" },
    { "a\xff\xfe", "a\\xff\\xfe" },
    { "\x9b"
      "31m",
      "\\x9b31m" },                            /* C1 as a byte */
    { "\xe2\x80", "\\xe2\\x80" },              /* cut off */
    { "\xc0\x9b", "\\xc0\\x9b" },              /* overlong ESC */
    { "\xef\xbf\xbd", "\xef\xbf\xbd" },        /* U+FFFD itself */
    { "back\\slash\\x1b", "back\\slash\\x1b" } /* passes twice unchanged */
};

static void strings_are_shown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[128], again[128];
        const int n = stoke_text_format(out, sizeof out, "%s", cases[i].text);
        assert_string_equal(out, cases[i].shown);
        assert_int_equal(n, (int)strlen(out));
        stoke_text_format(again, sizeof again, "%s", out);
        assert_string_equal(again, out);
        assert_int_equal(stk_terminal_plain(cases[i].text), !strcmp(cases[i].text, cases[i].shown));
    }
}

static void the_format_itself_is_ours(void **state)
{
    char out[64];
    (void)state;
    stoke_text_format(out, sizeof out, "\033[Ka\n%s\tb", "c\nd");
    assert_string_equal(out, "\033[Ka\nc\\nd\tb");
}

/* Everything that has no string in it is printf's own business. */
#define SAME(...)                                                                                            \
    do {                                                                                                     \
        char ours[1024], theirs[1024];                                                                       \
        assert_int_equal(stoke_text_format(ours, sizeof ours, __VA_ARGS__),                                  \
                         snprintf(theirs, sizeof theirs, __VA_ARGS__));                                      \
        assert_string_equal(ours, theirs);                                                                   \
    } while (0)

static void as_printf_does(void **state)
{
    int here;
    (void)state;
    SAME("nothing");
    SAME("%%, %d %i %5d|%-5d|%05d|%+d|% d", 1, -2, 3, 4, 5, 6, 7);
    SAME("%u %x %X %#x %o", 1u, 0xabcu, 0xabcu, 0xabcu, 8u);
    SAME("%hhd %hd %ld %lld %jd %zd %td", (signed char)-1, (short)-2, -3L, -4LL, (intmax_t)-5, (ssize_t)-6,
         (ptrdiff_t)-7);
    SAME("%hhu %hu %lu %llu %ju %zu", (unsigned char)255, (unsigned short)65535, ULONG_MAX, ULLONG_MAX,
         UINTMAX_MAX, SIZE_MAX);
    SAME("%" PRIu64 " %" PRId64 " %" PRIx64, UINT64_MAX, INT64_MIN, UINT64_MAX);
    SAME("%f %.2f %8.3f|%-8.1f|%+.0f %e %g %G %.17g %a", 1.5, 2.345, 3.0, 4.0, 5.0, 6e10, 7e-10, 8e20, 0.1,
         1.0);
    SAME("%f", 1e308);
    SAME("%*d|%-*d|%*d|%.*f|%.*f", 5, 1, 5, 2, -5, 3, 2, 4.567, -1, 5.678);
    SAME("%10s|%-10s|%.3s|%10.3s|%.*s|%*s|%-*s|", "abc", "abc", "abcdef", "abcdef", 2, "abcdef", 6, "ab", 6,
         "ab");
    SAME("%c%c", 'a', 'z');
    SAME("%p", (void *)&here);
}

static void nothing_is_cut_in_the_middle(void **state)
{
    char out[8];
    (void)state;
    assert_int_equal(stoke_text_format(out, sizeof out, "%s", "abc\033d"), 8);
    assert_string_equal(out, "abc\\x1b");
    assert_int_equal(stoke_text_format(out, sizeof out, "%s", "abcd\033"), 8);
    assert_string_equal(out, "abcd"); /* 4 more would need 9 with the end */
    stoke_text_format(out, sizeof out, "%s", "abcde\xe8\xbf\x90");
    assert_string_equal(out, "abcde");
    stoke_text_format(out, sizeof out, "%.4s", "abc\xe8\xbf\x90");
    assert_string_equal(out, "abc");
    stoke_text_format(out, sizeof out, "123456789");
    assert_string_equal(out, "1234567");
    assert_int_equal(stoke_text_format(NULL, 0, "%s-%d", "abc", 12), 6);
}

/* Where the next page may not be read, as where a file was mapped. */
static void nothing_is_read_behind_a_precision(void **state)
{
    static const struct {
        const char *bytes, *shown;
    } ends[] = {
        { "abc\xe8\xbf", "abc" },
        { "abc\xe8", "abc" },
        { "ab\xf0\x9f\x8d", "ab" },
        { "a\xc3", "a" },
        { "\xe8\xbf\x90", "\xe8\xbf\x90" },
        { "\xf0\x9f\x8d\x8e", "\xf0\x9f\x8d\x8e" },
        { "a\xff", "a\\xff" },
        { "\xbf\xbf", "\\xbf\\xbf" },
        { "\xe8", "" },
        { "a\xbf\xbf\xbf\xbf", "a\\xbf\\xbf\\xbf\\xbf" },
    };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char out[64], *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(ends[i].bytes);
        memcpy(pages + page - n, ends[i].bytes, n);
        stoke_text_format(out, sizeof out, "%.*s", (int)n, pages + page - n);
        assert_string_equal(out, ends[i].shown);
    }
    munmap(pages, 2 * page);
}

static void widths_are_columns(void **state)
{
    char out[64];
    (void)state;
    stoke_text_format(out, sizeof out, "%-4s|%4s|", "\xe8\xbf\x90", "\n");
    assert_string_equal(out, "\xe8\xbf\x90  |  \\n|"); /* a Chinese letter has two */
    assert_int_equal(stk_terminal_columns("\xe8\xbf\x90\n"), 4);
    assert_int_equal(stk_terminal_columns("\xc3\xa9\xe2\x86\x92\xed\x95\x9c"), 4); /* é→한 */
}

static void streams_take_long_lines(void **state)
{
    static char longest[9000];
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    (void)state;
    memset(longest, '\n', sizeof longest - 1);
    stoke_text_print(out, "%s;\n", longest);
    fclose(out);
    assert_int_equal(size, 2 * (sizeof longest - 1) + 2);
    assert_int_equal(strcspn(text, "\n"), size - 1);
    free(text);
}

static void messages_are_safe(void **state)
{
    stoke_error err, copy;
    (void)state;
    stk_fail(&err, STOKE_E_IO, "%s: two lines:\n  second", "a\nforged\033[2J");
    assert_string_equal(err.message, "a\\nforged\\x1b[2J: two lines:\n  second");
    assert_int_equal(stk_fail_again(&copy, STOKE_E_LIMIT, err.message), STOKE_E_LIMIT);
    assert_string_equal(copy.message, err.message);
    stk_error_prefix(&copy, "dir\033/");
    assert_string_equal(copy.message, "dir\\x1b/: a\\nforged\\x1b[2J: two lines:\n  second");
    stk_fail_errno(&err, STOKE_E_IO, ENOENT, "%s: cannot open", "x\xc2\x9b");
    assert_string_equal(err.message, "x\\u009b: cannot open: No such file or directory");
    stk_fail(&err, STOKE_E_UNSUPPORTED, "refused:");
    stk_error_add_lines(&err, "line 1\n\nstoke: forged\033\n", 22);
    assert_string_equal(err.message, "refused:\n  line 1\n  stoke: forged\\x1b");
}

/* A list ends with a whole entry, whatever its length. */
static void entries_stay_whole(void **state)
{
    (void)state;
    for (size_t length = 1; length < 1200; length += 7) {
        char entry[1200] = "";
        stoke_error err;
        size_t n = 0;
        memset(entry, 'x', length - 1);
        entry[length - 1] = '$';
        entry[length] = 0;
        stk_fail(&err, STOKE_E_TOO_BAD, "100 are bad:");
        while (n < 100 && stk_error_add_entry(&err, entry)) n++;
        stk_error_add(&err, "\n  ... and %zu more", 100 - n);
        assert_non_null(strstr(err.message, " more"));
        for (const char *line = strchr(err.message, '\n'); line; line = strchr(line + 1, '\n'))
            assert_true(line[3] == '.' || line[2 + length] == '$');
    }
}

static void a_shell_reads_words_back(void **state)
{
    static const struct {
        const char *word, *quoted;
    } plain[] = { { "configs/x_1.yaml", "configs/x_1.yaml" },
                  { "it's; rm", "'it'\\''s; rm'" },
                  { "", "''" },
                  { "=ls", "'=ls'" },
                  { "\xe8\xbf\x90\xe8\xa1\x8c", "\xe8\xbf\x90\xe8\xa1\x8c" },
                  { "\xe8\xbf\x90 \xe4\xb8\x80", "'\xe8\xbf\x90 \xe4\xb8\x80'" },
                  { "a\033[31m'\\", "$'a\\x1b[31m\\'\\\\'" } };
    char word[512], command[1024], back[512];
    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        assert_string_equal(stoke_text_word(plain[i].word, word, sizeof word), plain[i].quoted);
    if (system("command -v bash >/dev/null")) unit_skip("no bash");
    const char *const hard[] = { "a;touch PWN", "$(id)", "`id`",           "a b",      "~",
                                 "*",           "a\\b",  "new\nline",      "\033[2J'", "\xe2\x80\xae",
                                 "\xff\x80 z",  "!x",    "\xe8\xbf\x90\n", "#",        "a\"b",
                                 "{a,b}",       "[a]",   "x&y|z<q>" };
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++) {
        /* Printed as text, too: what is pasted is what was shown. */
        stoke_text_format(command, sizeof command, "exec bash -c \"$(cat <<'END'\nprintf %%s. %s\nEND\n)\"",
                          stoke_text_word(hard[i], word, sizeof word));
        assert_true(stk_terminal_plain(word));
        FILE *pipe = popen(command, "r");
        assert_non_null(pipe);
        const size_t n = fread(back, 1, sizeof back - 1, pipe);
        assert_int_equal(pclose(pipe), 0);
        assert_true(n > 0);
        back[n - 1] = 0; /* the point */
        assert_string_equal(back, hard[i]);
    }
}

static void words_are_never_halves(void **state)
{
    char word[16];
    (void)state;
    assert_string_equal(stoke_text_word("fifteen_letters", word, sizeof word), "fifteen_letters");
    assert_string_equal(stoke_text_word("sixteen__letters", word, sizeof word), "");
    assert_string_equal(stoke_text_word("fourteen char", word, sizeof word), "'fourteen char'");
    assert_string_equal(stoke_text_word("fourteen chars", word, sizeof word), "");
}

static void numbers_of_things(void **state)
{
    (void)state;
    assert_string_equal(STOKE_COUNT(1, "pair"), "1 pair");
    assert_string_equal(STOKE_COUNT(0, "bad sample"), "0 bad samples");
    assert_string_equal(STOKE_COUNT(2, "class"), "2 classes");
    assert_string_equal(STOKE_COUNT(1, "class"), "1 class");
    assert_string_equal(STOKE_COUNT(16, "batch"), "16 batches");
}

UNIT_GROUP(terminal)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_shown),        cmocka_unit_test(the_format_itself_is_ours),
        cmocka_unit_test(as_printf_does),           cmocka_unit_test(nothing_is_cut_in_the_middle),
        cmocka_unit_test(widths_are_columns),       cmocka_unit_test(streams_take_long_lines),
        cmocka_unit_test(messages_are_safe),        cmocka_unit_test(entries_stay_whole),
        cmocka_unit_test(a_shell_reads_words_back), cmocka_unit_test(words_are_never_halves),
        cmocka_unit_test(numbers_of_things),        cmocka_unit_test(nothing_is_read_behind_a_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
