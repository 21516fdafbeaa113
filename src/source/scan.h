/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking a folder: every readable picture below it, by its name alone.
 */
#ifndef STOKE_SRC_SOURCE_SCAN_H
#define STOKE_SRC_SOURCE_SCAN_H

#include <sys/types.h>

#include "src/base/string_arena.h"

/* A file: the full path, and where its stem (path below the root, without extension) lies in it. */
typedef struct stk_scan_file {
    const char *path;
    uint16_t stem, stem_length; /* paths are shorter than PATH_MAX = 4096 */
} stk_scan_file;

/* Pictures in formats that are not read, by their endings. */
enum { STK_SCAN_ENDINGS = 16 };
typedef struct stk_scan_unread {
    uint64_t count[STK_SCAN_ENDINGS];
} stk_scan_unread;
/* "3 .bmp, 1 .gif"; "" where there is none. */
const char *stk_scan_unread_text(const stk_scan_unread *unread, char *text, size_t size);

typedef struct stk_scan_file_list {
    stk_scan_file *items;
    size_t count, capacity;
    stk_scan_unread unread;
} stk_scan_file_list;

static inline const char *stk_found_stem(const stk_scan_file *file)
{
    return file->path + file->stem;
}

/* What a folder is, however its path is spelled. */
typedef struct stk_scan_folder_id {
    dev_t device;
    ino_t node;
} stk_scan_folder_id;

/* STOKE_E_NOTFOUND when there is no such path, STOKE_E_INVALID when it is no folder. */
int stk_folder_identify(const char *path, stk_scan_folder_id *id, stoke_error *err);

/* Appends the files below `root` whose extension the library reads, in no particular order. Hidden entries
 * are passed over, links are followed, no folder is walked twice (so links cannot make a loop or a flood),
 * and the folder `skip` (may be NULL) is left out. A folder that cannot be read is an error: silence would
 * lose samples. */
int stk_scan(const char *root, const stk_scan_folder_id *skip, stk_string_arena *arena,
             stk_scan_file_list *found, stoke_error *err);

/* Natural order of the stems; files with one stem by their paths. */
int stk_found_compare(const stk_scan_file *a, const stk_scan_file *b);
/* Sorts by it. 0 = no memory, the order is as before. */
int stk_found_sort(stk_scan_file_list *found);

/* Length of a path without its extension: the part from the last dot of the last component, if that is not
 * its first character. */
size_t stk_stem_length(const char *path, size_t length);

typedef struct stk_scan_name_list {
    const char **items;
    size_t count, capacity;
    stk_scan_unread unread;
} stk_scan_name_list;

/* Names of the folders directly in `path` (links followed, hidden ones not), sorted by bytes; *has_files
 * tells whether a readable picture lies directly in it, names->unread which others do. Free with
 * stk_free(names->items). */
int stk_list_folders(const char *path, stk_string_arena *arena, stk_scan_name_list *names, int *has_files,
                     stoke_error *err);

#endif
