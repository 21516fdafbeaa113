/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear whole or not at all, folders, and a temporary folder that is gone at the end.
 */
#ifndef STOKE_CLI_LIB_OUTPUT_H
#define STOKE_CLI_LIB_OUTPUT_H

#include <stdio.h>

#include "cli/lib/command.h"
#include <stoke/tools/chart.h>

/* The one rule of writing (<stoke/tools/output.h>), for every file the user names, before the work is done:
 * what exists and is not ours is refused, `force` replaces it and this says so. path NULL: nothing to write.
 */
int cli_may_write(const cli_call *call, const char *path, int force, stoke_error *err);
/* The option of commands that do not have one by that name themselves. */
#define CLI_FORCE                                                                                            \
    CLI_FLAG(force, "Replace a file that is there already and is not a picture or page of stoke's own, "     \
                    "which are replaced anyway (see `stoke help files`)")

/* A .npy file (format 1.0, C order): `rows` rows of row_bytes each, `stride` bytes apart. `descr` is NumPy's
 * type, e.g. "|u1"; `shape` the tuple as text, e.g. "(4, 3, 16, 16)". */
int cli_write_npy(const char *path, const char *descr, const char *shape, const void *data, size_t rows,
                  size_t row_bytes, size_t stride, stoke_error *err);

/* A chart as an SVG file. */
int cli_write_chart(const stoke_chart *chart, const char *path, stoke_error *err);

/* An empty folder below $TMPDIR or /tmp; `path` must have room for CLI_PATH bytes. */
enum { CLI_PATH = 4096 };
int cli_temp_folder(char *path, stoke_error *err);
/* Removes it with everything in it; "" is none. `path` as it was filled: the same memory. */
void cli_end_temp_folder(const char *path);
/* Removes a file, or a folder with everything in it. */
void cli_remove_folder(const char *path);

#endif
