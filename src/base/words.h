/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a word is in a list, or at the end of a text. Lists are texts with a blank between words: "true yes
 * on".
 */
#ifndef STOKE_SRC_BASE_WORDS_H
#define STOKE_SRC_BASE_WORDS_H

#include <string.h>
#include <strings.h>

/* The first `length` bytes of `word`, compared by `same` (strncmp, strncasecmp). Nothing is in no list. */
static inline int stk_is_listed(const char *word, size_t length, const char *list,
                                int (*same)(const char *, const char *, size_t))
{
    for (size_t n; *list; list += n + (list[n] == ' ')) {
        n = strcspn(list, " ");
        if (n == length && n && !same(word, list, n)) return 1;
    }
    return 0;
}

static inline int stk_is_one_of(const char *word, const char *list)
{
    return stk_is_listed(word, strlen(word), list, strncmp);
}

/* Capital letters are as good as small ones. */
static inline int stk_is_one_of_any_case(const char *word, const char *list)
{
    return stk_is_listed(word, strlen(word), list, strncasecmp);
}

static inline int stk_ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* For qsort, of texts. */
static inline int stk_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* `-` and `_` are the same letter. */
static inline int stk_same_word(const char *a, const char *b)
{
    while (*a && (*a == *b || (*a == '-' && *b == '_') || (*a == '_' && *b == '-'))) a++, b++;
    return !*a && !*b;
}

#endif
