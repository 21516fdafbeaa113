/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of SVG and other markup as text. After unit.h.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_MARKUP_H
#define STOKE_TESTS_UNIT_FIXTURE_MARKUP_H

#include "tests/unit/unit.h"

static inline size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

/* Tags are opened and closed in order, quotes are closed, no bare & and no script: what an XML reader needs.
 */
static inline void assert_well_formed(const char *text)
{
    char open[64][16];
    int depth = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '&') assert_true(strchr(p, ';') && strchr(p, ';') - p < 7);
        if (*p != '<') continue;
        if (!strncmp(p, "<!--", 4)) { /* the mark of output.h */
            p = strstr(p, "-->");
            assert_non_null(p);
            p += 2;
            continue;
        }
        char name[16];
        const int closing = p[1] == '/';
        sscanf(p + 1 + closing, "%15[a-z]", name);
        int quoted = 0;
        const char *start = p;
        for (p++; *p && (quoted || *p != '>'); p++) {
            if (*p == '"') quoted = !quoted;
            assert_true(*p != '<');
        }
        assert_true(*p == '>');
        if (closing) {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (p[-1] != '/') {
            assert_true(depth < 64 && start);
            strcpy(open[depth++], name);
        }
    }
    assert_int_equal(depth, 0);
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
}

#endif
