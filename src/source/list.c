/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample's name is its image path as written, without extension. The first record is a header, and passed
 * over, when its first field has neither a dot nor a slash.
 */
#include "src/source/list.h"

#include <limits.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/source/csv.h"
#include "src/source/scan.h"

/* A gigabyte of list is some ten million samples. */
#define LIST_LIMIT (UINT64_C(1) << 30)

static const char *full_path(stk_string_arena *arena, const char *list, const char *path)
{
    const char *slash = strrchr(list, '/');
    if (path[0] == '/' || !slash) return stk_string_arena_copy(arena, path, strlen(path));
    /* Two lengths below PATH_MAX: the sum may be refused by the file system, not here. */
    char joined[2 * PATH_MAX];
    size_t folder = (size_t)(slash - list) + 1, n = strlen(path);
    if (folder + n >= sizeof joined) return NULL;
    memcpy(joined, list, folder);
    memcpy(joined + folder, path, n);
    return stk_string_arena_copy(arena, joined, folder + n);
}

static int add_record(stoke_dataset *dataset, const stk_csv *csv, const char *list, stoke_error *err)
{
    const char *image = csv->field[0], *mask = csv->field[1];
    unsigned long long line = csv->line;
    if (!*image) return stk_fail(err, STOKE_E_FORMAT, "%s:%llu: no image path", list, line);
    if (dataset->count == 0) dataset->has_masks = *mask != 0;
    if (dataset->has_masks != (*mask != 0))
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
