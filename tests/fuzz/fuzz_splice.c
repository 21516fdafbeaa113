/* SPDX-License-Identifier: Apache-2.0
 *
 * The YAML splice on any bytes: some of the values there are get new ones, and some mappings a new key. A
 * result that is handed out must read back as every value that was set, and as the old value everywhere else.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoke/tools/optimize.h>

enum { CHANGES = 8 };

typedef struct change {
    char path[512];
    const char *value;
} change;

static const char *const texts[CHANGES] = { "32", "3e-4", "on", "a: b # c", "中,]}", "", "true", "it's\n" };

/* Numbers with an exponent are written with a point: both forms are right. */
static int is_value(const char *got, const char *wanted)
{
    return !strcmp(got, wanted) || (!strcmp(wanted, "3e-4") && !strcmp(got, "3.0e-4"));
}

static void set(stoke_yaml *yaml, change *changes, size_t *n, const char *path, const char *value)
{
    stoke_error err = { 0 };
    snprintf(changes[*n].path, sizeof changes[*n].path, "%s", path);
    changes[*n].value = value;
    const int r = stoke_yaml_set(yaml, path, value, &err);
    if (r && !err.message[0]) abort();
    if (!r) ++*n;
}

/* Plans a change of every third value, and a new key beside every fifth. */
static size_t plan(stoke_yaml *yaml, change *changes)
{
    const char *path;
    stoke_yaml_value value;
    size_t n = 0;
    for (size_t i = 0; n < CHANGES && stoke_yaml_at(yaml, i, &path, &value); i++) {
        if (i % 3 == 0) set(yaml, changes, &n, path, texts[n]);
        const char *dot = strrchr(path, '.');
        char beside[512];
        if (i % 5 || n == CHANGES || (dot && strchr(path, '"'))) continue;
        snprintf(beside, sizeof beside, "%.*s%snew_key", dot ? (int)(dot - path) : 0, path, dot ? "." : "");
        if (!stoke_yaml_get(yaml, beside, &value)) set(yaml, changes, &n, beside, texts[n]);
    }
    return n;
}

static const change *last_of(const change *changes, size_t n, const char *path)
{
    while (n--)
        if (!strcmp(changes[n].path, path)) return &changes[n];
    return NULL;
}

static void compare(const stoke_yaml *old, const stoke_yaml *new, const change *changes, size_t n)
{
    const char *path;
    stoke_yaml_value a, b;
    for (size_t i = 0; i < n; i++)
        if (!stoke_yaml_get(new, changes[i].path, &b) ||
            !is_value(b.text, last_of(changes, n, changes[i].path)->value))
            abort();
    for (size_t i = 0; i < 256 && stoke_yaml_at(old, i, &path, &a); i++) {
        if (last_of(changes, n, path)) continue;
        if (!stoke_yaml_get(new, path, &b) || strcmp(a.text, b.text) != 0) abort();
    }
}

FUZZ_TARGET(splice)
{
    stoke_yaml *yaml, *again;
    stoke_error err = { 0 };
    if (stoke_yaml_parse(&yaml, (const char *)bytes, size, "fuzz", &err)) {
        if (yaml || !err.message[0]) abort();
        return 0;
    }
    static const char *const settings[] = { "batch_size", "mixed_precision", "grad_clip", "base_channels" };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *path;
        int exists;
        stoke_error why = { 0 };
        stoke_yaml_value value;
        const int r = stoke_config_find(yaml, settings[i], NULL, &path, &exists, &why);
        if (r ? path || !why.message[0] : !path || stoke_yaml_get(yaml, path, &value) < exists) abort();
    }
    static change changes[CHANGES];
    const size_t n = plan(yaml, changes);
    stoke_yaml_proof proof;
    const char *text;
    size_t length;
    const int r = stoke_yaml_text(yaml, &text, &length, &proof, &err);
    if (r && (text || !err.message[0])) abort();
    if (!r) {
        if (!proof.bytes_equal || !proof.tree_equal || proof.bytes_after != length) abort();
        if (stoke_yaml_parse(&again, text, length, "again", &err)) abort();
        compare(yaml, again, changes, n);
        stoke_yaml_close(&again);
    }
    stoke_yaml_close(&yaml);
    return 0;
}
