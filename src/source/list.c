/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample's name is its image path as written, without extension. The first record is a header, and passed
 * over, when its first field has neither a dot nor a slash.
 */
#include "src/source/dataset_internal.h"

#include <limits.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"

static int malformed(const stk_csv *csv, const char *reason, stoke_error *err)
{
    return stk_fail(err, STOKE_E_FORMAT, "%s:%llu: %s", csv->origin, (unsigned long long)csv->line, reason);
}

void stk_csv_start(stk_csv *csv, const char *origin, const void *bytes, size_t size)
{
    csv->text = bytes;
    csv->end = csv->text + size;
    csv->origin = origin;
    csv->line = 0;
    csv->next_line = 1;
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) csv->text += 3;
}

/* 1 and past it when a line ends here (LF, CRLF or the end of the text). */
static int line_ends(stk_csv *csv)
{
    const char *p = csv->text;
    if (p == csv->end) return 1;
    if (*p == '\r' && p + 1 < csv->end && p[1] == '\n') p++;
    if (*p != '\n') return 0;
    csv->text = p + 1;
    csv->next_line++;
    return 1;
}

static int put(stk_csv *csv, char *field, size_t *used, char c, stoke_error *err)
{
    if (c == 0) return malformed(csv, "a NUL byte; is this a text file?", err);
    if (*used + 1 >= STK_CSV_FIELD_BYTES) return malformed(csv, "a field is longer than 4095 bytes", err);
    field[(*used)++] = c;
    return STOKE_OK;
}

static int read_quoted(stk_csv *csv, char *field, size_t *used, stoke_error *err)
{
    for (csv->text++; csv->text < csv->end; csv->text++) {
        char c = *csv->text;
        if (c == '"') {
            if (csv->text + 1 == csv->end || csv->text[1] != '"') {
                csv->text++;
                return STOKE_OK;
            }
            csv->text++;
        }
        if (c == '\n') csv->next_line++;
        int r = put(csv, field, used, c, err);
        if (r != STOKE_OK) return r;
    }
    return malformed(csv, "a quote is opened and never closed", err);
}

/* One field, up to but not including the comma or line end. */
static int read_field(stk_csv *csv, char *field, stoke_error *err)
{
    size_t used = 0;
    int r = STOKE_OK, quoted = csv->text < csv->end && *csv->text == '"';
    if (quoted) r = read_quoted(csv, field, &used, err);
    while (r == STOKE_OK && csv->text < csv->end && *csv->text != ',' && *csv->text != '\n') {
        if (*csv->text == '\r' && csv->text + 1 < csv->end && csv->text[1] == '\n') break;
        if (quoted) return malformed(csv, "text after a closing quote", err);
        r = put(csv, field, &used, *csv->text++, err);
    }
    field[used] = 0;
    return r;
}

static int read_record(stk_csv *csv, stoke_error *err)
{
    for (unsigned i = 0; i < STK_CSV_FIELDS; i++) csv->field[i][0] = 0;
    csv->n_fields = 0;
    for (;;) {
        if (csv->n_fields == STK_CSV_FIELDS) return malformed(csv, "more than two fields", err);
        int r = read_field(csv, csv->field[csv->n_fields++], err);
        if (r != STOKE_OK) return r;
        if (line_ends(csv)) return STOKE_OK;
        csv->text++; /* the comma */
    }
}

int stk_csv_next(stk_csv *csv, stoke_error *err)
{
    while (csv->text < csv->end) {
        csv->line = csv->next_line;
        if (line_ends(csv)) continue;
        if (*csv->text != '#') return read_record(csv, err);
        while (csv->text < csv->end && *csv->text != '\n') csv->text++;
        line_ends(csv);
    }
    return STOKE_E_END;
}

/* A gigabyte of list is some ten million samples. */
#define LIST_LIMIT (UINT64_C(1) << 30)

static const char *full_path(stk_string_arena *arena, const char *list, const char *path)
{
    const char *slash = strrchr(list, '/');
    if (path[0] == '/' || !slash) return stk_string_arena_copy(arena, path, strlen(path));
    return stk_string_arena_print(arena, "%.*s%s", (int)(slash - list) + 1, list, path);
}

static int add_record(stoke_dataset *dataset, const stk_csv *csv, const char *list, stoke_error *err)
{
    const char *image = csv->field[0], *mask = csv->field[1];
    unsigned long long line = csv->line;
    if (!*image) return stk_fail(err, STOKE_E_FORMAT, "%s:%llu: no image path", list, line);
    if (dataset->restores && !*mask)
        return stk_fail(err, STOKE_E_FORMAT, "%s:%llu: no target path, and restoring needs one in every line",
                        list, line);
    if (dataset->count == 0) dataset->paired = *mask != 0;
    if (dataset->paired != (*mask != 0))
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s:%llu: this line has %s mask, the lines before have %s; either all or none", list,
                        line, *mask ? "a" : "no", *mask ? "none" : "one");
    const char *name = stk_string_arena_copy(&dataset->arena, image, stk_stem_length(image, strlen(image)));
    const char *image_path = full_path(&dataset->arena, list, image);
    const char *mask_path = *mask ? full_path(&dataset->arena, list, mask) : NULL;
    if (!name || !image_path || (*mask && !mask_path)) return stk_dataset_no_memory(err);
    return stk_dataset_add(dataset, name, image_path, mask_path, err);
}

int stk_list_parse(stoke_dataset *dataset, const char *path, const void *bytes, size_t size, stoke_error *err)
{
    if (strlen(path) >= PATH_MAX)
        return stk_fail(err, STOKE_E_LIMIT, "%.200s...: the path is too long", path);
    stk_csv *csv = stk_alloc(sizeof *csv);
    if (!csv) return stk_dataset_no_memory(err);
    stk_csv_start(csv, path, bytes, size);
    int r;
    for (int first = 1; (r = stk_csv_next(csv, err)) == STOKE_OK; first = 0) {
        if (first && !strpbrk(csv->field[0], "./")) continue;
        r = add_record(dataset, csv, path, err);
        if (r != STOKE_OK) break;
    }
    stk_free(csv);
    if (r != STOKE_E_END) return r;
    if (dataset->count == 0) return stk_fail(err, STOKE_E_NOTFOUND, "%s: the list names no image", path);
    return stk_dataset_settle(dataset, 0, err);
}

int stk_list_read(stoke_dataset *dataset, const char *path, stoke_error *err)
{
    stk_mem_buffer buffer = { 0 };
    size_t size = 0;
    int r = stk_file_read(path, LIST_LIMIT, &buffer, &size, err);
    if (r == STOKE_OK) r = stk_list_parse(dataset, path, buffer.data, size, err);
    stk_buffer_free(&buffer);
    return r;
}
