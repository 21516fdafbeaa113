/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear whole or not at all, folders, and a temporary folder that is gone at the end.
 */
#ifndef STOKE_CLI_OUTPUT_H
#define STOKE_CLI_OUTPUT_H

#include <stdio.h>
#include <stoke/common.h>

/* Write to `stream`, then commit (flush, fsync, rename) or abandon (nothing is left). A symbolic link stays
 * and what it leads to is replaced; what exists and is no regular file is refused: a rename would put a file
 * in the place of the device or pipe. */
typedef struct cli_output {
    FILE *stream;
    const char *path; /* borrowed; what the user called it */
    char *target;     /* the same with links followed */
    char *temporary;  /* beside the target */
} cli_output;
int cli_output_open(cli_output *output, const char *path, stoke_error *err);
int cli_output_commit(cli_output *output, stoke_error *err); /* abandons on failure */
void cli_output_abandon(cli_output *output);                 /* accepts a zeroed struct */

/* A .npy file (format 1.0, C order): `rows` rows of row_bytes each, `stride` bytes apart. `descr` is NumPy's
 * type, e.g. "|u1"; `shape` the tuple as text, e.g. "(4, 3, 16, 16)". */
int cli_write_npy(const char *path, const char *descr, const char *shape, const void *data, size_t rows,
                  size_t row_bytes, size_t stride, stoke_error *err);

/* mkdir -p. */
int cli_make_folders(const char *path, stoke_error *err);

/* An empty folder below $TMPDIR or /tmp; `path` must have room for CLI_PATH bytes. */
enum { CLI_PATH = 4096 };
int cli_temp_folder(char *path, stoke_error *err);
/* Removes it with everything in it. */
void cli_remove_folder(const char *path);

#endif
