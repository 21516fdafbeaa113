/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a dataset, for the files that fill it.
 */
#ifndef STOKE_SRC_SOURCE_DATASET_INTERNAL_H
#define STOKE_SRC_SOURCE_DATASET_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include <stoke/data.h>
#include <stoke/dataset.h>
#include <sys/types.h>

#include "src/base/mem.h"

/* Walking a folder: every readable picture below it, by its name alone. */

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

struct stoke_dataset {
    stk_string_arena arena; /* all names, paths and details */
    stoke_sample *samples;
    size_t count, capacity;
    stoke_note *notes;
    size_t n_notes, notes_capacity;
    uint64_t fingerprint;
    int paired;             /* samples have masks; or targets, where the set restores */
    int restores;           /* task restore */
    int prefixed;           /* names begin with "train/", "val/" or "test/", the parts they come from */
    stk_scan_unread unread; /* pictures beside the samples that no decoder reads */
    const char *test;       /* the images of a test part that was left alone; NULL: there is none */
};

/* All keep the strings they are given: these must live in the arena or be constants. A remark without a % is
 * kept as it is, any other printed into the arena. */
/* partner: the mask, or the target where the set restores; NULL: none. */
int stk_dataset_add(stoke_dataset *dataset, const char *name, const char *image, const char *partner,
                    stoke_error *err);
int stk_dataset_add_sample(stoke_dataset *dataset, const stoke_sample *sample, stoke_error *err);
int stk_dataset_remark(stoke_dataset *dataset, stoke_error *err, stoke_note_kind kind, const char *path,
                       const char *format, ...) STOKE_PRINTF(5, 6);
int stk_dataset_no_memory(stoke_error *err);

/* Sorts samples[from..] by name. Those that share a name are noted and left out. */
int stk_dataset_settle(stoke_dataset *dataset, size_t from, stoke_error *err);

/* Where images and masks lie below the root of a set (params.data): the folder names people use. */

/* A pair of folders. A set with its own split has two of them. */
typedef struct stk_layout_part {
    const char *images, *masks;             /* masks, or targets; NULL: zeros */
    const char *prefix;                     /* of sample names: "", "train/", "val/" or "test/" */
    const char *image_suffix, *mask_suffix; /* what `auto` means here; NULL = nothing special */
    stoke_split split;                      /* ALL: no ready-made split */
    int bare;                               /* pictures found in the root itself: are they all images? */
} stk_layout_part;

enum { STK_MAX_PARTS = 2, STK_SPLITS = STOKE_SPLIT_TEST + 1 };

/* Finds the parts of the set below `root`; strings go to the arena. Order: train before val. Of task auto it
 * tells which it is: masks come before targets, and these before images alone. Errors: STOKE_E_NOTFOUND with
 * what was looked for, STOKE_E_INVALID when two layouts fit. */
int stk_layout_find(const char *root, stoke_task *task, stk_string_arena *arena,
                    stk_layout_part parts[STK_MAX_PARTS], size_t *n_parts, stoke_error *err);
/* The part to test on, which the others leave alone. STOKE_E_NOTFOUND: there is none. */
int stk_layout_find_test(const char *root, stoke_task *task, stk_string_arena *arena, stk_layout_part *part,
                         stoke_error *err);

/* Which mask (or target) belongs to which image. */

/* Reads the folders of a part and adds its samples, sorted. `image_suffix` and `mask_suffix` are the user's
 * ("auto" or an exact text); scale tells the suffix of images that were made smaller (x2). STOKE_E_NOTFOUND
 * when nothing matches; the message shows a stem of each side. */
int stk_match_part(stoke_dataset *dataset, const stk_layout_part *part, const char *image_suffix,
                   const char *mask_suffix, int64_t scale, stoke_error *err);

/* ---- csv ---- */

/* Records of a CSV text (RFC 4180) in memory: quotes, doubled quotes, CRLF or LF, a byte order mark, blank
 * lines and lines that start with `#`. Works in fixed memory on hostile input. */

enum { STK_CSV_FIELDS = 2, STK_CSV_FIELD_BYTES = 4096 };

typedef struct stk_csv {
    const char *text, *end;
    const char *origin; /* the file's name, for messages */
    uint64_t line;      /* of the record last returned, from 1 */
    uint64_t next_line;
    unsigned n_fields;
    char field[STK_CSV_FIELDS][STK_CSV_FIELD_BYTES]; /* NUL-terminated; unused ones are "" */
} stk_csv;

void stk_csv_start(stk_csv *csv, const char *origin, const void *bytes, size_t size);

/* STOKE_OK with a record, STOKE_E_END after the last one, STOKE_E_FORMAT with "origin:line: reason". */
int stk_csv_next(stk_csv *csv, stoke_error *err);

/* ---- lists and shards ---- */

/* Samples from a CSV list: an image path and, optionally, a mask path per line; where the set restores, a
 * target's path, which must be there. */

/* Reads the file and adds its samples. The files named are not looked at. */
int stk_list_read(stoke_dataset *dataset, const char *path, stoke_error *err);

/* The same from memory; `path` gives the folder that relative paths start from, and the name in messages. */
int stk_list_parse(stoke_dataset *dataset, const char *path, const void *bytes, size_t size,
                   stoke_error *err);

/* Tar shards as a source: which files they are, and which of their members make samples. */

typedef struct stk_shard {
    const char *path;
    stoke_split split; /* by its name: train-000000.tar, val-000000.tar */
} stk_shard;

typedef struct stk_shard_list {
    stk_shard *items; /* in natural order of their paths */
    size_t count, capacity;
} stk_shard_list;

/* What `data` names as shards: a file, a pattern such as "shards/train-{000000..000009}.tar", or a folder
 * with
 * *.tar in it and no images in folders of the usual names. None of these: no shards, and no error. Free with
 * stk_free(shards->items); paths go to the arena. */
int stk_shards_find(const char *data, stk_string_arena *arena, stk_shard_list *shards, stoke_error *err);

/* The shards as parts of a set (images = its first shard): train and val, or one part for all. */
int stk_shards_parts(const stk_shard_list *shards, stk_layout_part parts[STK_MAX_PARTS], size_t *n_parts,
                     stoke_error *err);

/* Reads the shards of a part and adds its samples, sorted. Sets dataset->paired. STOKE_E_NOTFOUND when
 * nothing makes a sample; the message shows what there is. */
int stk_shards_read(stoke_dataset *dataset, const stk_shard_list *shards, const stk_layout_part *part,
                    stoke_error *err);

/* The patterns: appends every path that `pattern` stands for. {000..123} counts, with the zeros of the first
 * number; {a,b} lists. */
int stk_shards_expand(const char *pattern, stk_string_arena *arena, stk_shard_list *shards, stoke_error *err);

/* Natural order: img2 before img10. A total order on byte strings: numbers by value, then bytes; only strings
 * that are the same under that rule (img2, img02) fall back to fewer leading zeros first.
 */

/* <0, 0, >0 like memcmp. 0 only for equal strings. Digits beyond any integer type are fine. */
int stk_natural_compare(const char *a, size_t a_length, const char *b, size_t b_length);

/* The beginning of a string as a number: where two keys differ, they are in the natural order of the strings;
 * where they are equal, compare. Strings must not contain NUL. */
uint64_t stk_natural_key(const char *text, size_t length);

#endif
