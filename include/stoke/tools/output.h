/* SPDX-License-Identifier: Apache-2.0
 *
 * The one rule of writing: what exists is left as it is, unless it is ours or the user says so.
 *
 *   - A picture or page that we drew carries STOKE_OUTPUT_MARK, and is drawn again under the same name.
 *   - Everything else that exists (tables, settings, states, somebody's own pictures) is refused; `force`
 *     replaces it, and who replaces says what.
 *   - A folder of ours carries a marker, the file .stokehold; one that is not empty and does not is refused.
 */
#ifndef STOKE_TOOLS_OUTPUT_H
#define STOKE_TOOLS_OUTPUT_H

#include <stdio.h>

#include <stoke/common.h>

/* Within the first 128 bytes of a file: it may be replaced. In a PNG it is the first text chunk ("Comment"),
 * in SVG and HTML a comment at the top, in JSON one of the first strings. To keep such a file, rename it. */
#define STOKE_OUTPUT_MARK "Made by Stokehold, which may replace this file."

/* Whether a file of this name may be written: before the work, not after an hour of it. STOKE_E_STATE: it
 * exists and is not ours. STOKE_E_IO: it is no regular file. *replaces = 1: with `force` a file of somebody
 * will be gone. A symbolic link is judged by what it leads to. */
STOKE_API int stoke_output_check(const char *path, int force, int *replaces, stoke_error *err);

/* A file that appears whole or not at all: write to `stream` (its descriptor can be read, too), then commit
 * (flush, fsync, rename, fsync of the folder) or drop it (nothing is left). A symbolic link is followed: what
 * it points to is replaced. Devices, pipes and folders are refused, since the rename would put a file in
 * their place. */
typedef struct stoke_output {
    FILE *stream;
    char *path; /* of what will be replaced */
    /* Set it after opening to leave out both fsyncs: for a file that is checked when it is read and made
     * again when it is damaged, as a power cut may then leave it. */
    int expendable;
    void *temporary; /* the library's */
} stoke_output;
STOKE_API int stoke_output_open(stoke_output *output, const char *path, stoke_error *err);
STOKE_API int stoke_output_commit(stoke_output *output, stoke_error *err); /* drops it on failure */
STOKE_API void stoke_output_drop(stoke_output *output);                    /* accepts a zeroed struct */

/* mkdir -p. */
STOKE_API int stoke_make_folders(const char *path, stoke_error *err);

/* For a program that must end now, whatever its threads are at: removes the files that this process has begun
 * and not finished. Those appear whole or not at all anyway; this takes away what they were called meanwhile.
 * Call _exit next: no output can be begun or finished afterwards. */
STOKE_API void stoke_output_abandon(void);

#endif
