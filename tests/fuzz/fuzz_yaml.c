/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings files: the YAML reader on any bytes. What it accepts must be written and read back to the same
 * text; what it refuses must leave the settings alone and say why.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/settings/read.h"

typedef struct settings {
    int flag, choice;
    int64_t number, workers;
    double real;
    const char *text, *name;
    uint64_t bytes;
    uint32_t size[2];
} settings;

#define FIELD(f) offsetof(settings, f)
static const stoke_option table[] = {
    { "flag", STOKE_OPT_FLAG, FIELD(flag), "true", NULL, 0, 0, NULL, "A flag" },
    { "choice", STOKE_OPT_CHOICE, FIELD(choice), "b", "a|b|c", 0, 0, NULL, "A choice" },
    { "number", STOKE_OPT_INT, FIELD(number), "3", NULL, -1000, 1000, NULL, "A number" },
    { "workers", STOKE_OPT_AUTO_INT, FIELD(workers), "auto", NULL, 0, 64, NULL, "A number or auto" },
    { "real", STOKE_OPT_REAL, FIELD(real), "0.5", NULL, 0, 0, NULL, "A real" },
    { "data", STOKE_OPT_STRING, FIELD(text), NULL, NULL, 0, 0, NULL, "A text" },
    { "long_name", STOKE_OPT_STRING, FIELD(name), "x", NULL, 0, 0, NULL, "Another text" },
    { "bytes", STOKE_OPT_BYTES, FIELD(bytes), "1.5G", NULL, 0, 0, NULL, "A number of bytes" },
    { "size", STOKE_OPT_SIZE, FIELD(size), "384x512", NULL, 0, 0, NULL, "A size" },
};
static const char *const foreign[] = { "augment", NULL };

static char *written(const stoke_option_group *group, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out) abort();
    stoke_options_write_yaml(group, 1, out);
    fclose(out);
    return text;
}

static int read_settings(const stoke_option_group *group, const void *bytes, size_t size,
                         stoke_option_storage **storage, stoke_error *err)
{
    stoke_yaml *yaml = NULL;
    *storage = NULL;
    int r = stk_yaml_read(&yaml, bytes, size, "fuzz", err);
    if (!r) r = stk_own_read(yaml, group, 1, foreign, storage, err);
    stoke_yaml_close(&yaml);
    return r;
}

FUZZ_TARGET(yaml)
{
    settings first, second;
    stoke_option_group a = { "Fuzz", table, sizeof table / sizeof *table, &first }, b = a;
    stoke_option_storage *storage, *again;
    stoke_error err = { 0 };
    memset(&first, 0, sizeof first);
    stoke_options_defaults(&a);
    b.target = &second;
    second = first;
    if (read_settings(&a, bytes, size, &storage, &err)) {
        if (storage || !err.message[0] || memcmp(&first, &second, sizeof first)) abort();
        return 0;
    }
    size_t text_size, copy_size;
    char *text = written(&a, &text_size);
    if (read_settings(&b, text, text_size, &again, &err)) abort();
    char *copy = written(&b, &copy_size);
    if (strcmp(text, copy)) abort();
    free(text);
    free(copy);
    stoke_options_free_storage(&storage);
    stoke_options_free_storage(&again);
    return 0;
}
