/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be overwritten or removed: only what is provably ours. A folder is, when it carries our marker; a
 * file is, when it says so itself or begins with our magic number. All else belongs to somebody, whatever its
 * name, and stays as it is until the user says `force`.
 */
#ifndef STOKE_SRC_BASE_OURS_H
#define STOKE_SRC_BASE_OURS_H

#include <stddef.h>
#include <stoke/common.h>

/* ---- folders ---- */

/* The marker: a file of one line that says what the folder is, and one for people. */
#define STK_OURS_MARKER ".stokehold"

typedef struct stk_ours_kind {
    const char *name; /* "cache": in the marker's first line, and in messages */
    const char *line; /* the marker's second line: what the files are, and who may remove them */
    /* Whether a folder without a marker, and not empty, holds nothing but what a version before markers left
     * there. NULL: there was none. */
    int (*is_older)(int folder);
} stk_ours_kind;

/* Makes an existing folder ours, or finds that it is: one that carries the marker; an empty one (which gets
 * it, before anything else is written); an older one. Any other is STOKE_E_STATE with the sentence that says
 * what to do. A marker that cannot be written is no error: *unwritable is then errno's number, else 0. Safe
 * against others that claim the same folder at the same time. */
int stk_ours_claim(const char *folder, const stk_ours_kind *kind, int *unwritable, stoke_error *err);
/* 1: the folder carries the marker of this kind. */
int stk_ours_marked(const char *folder, const stk_ours_kind *kind);
/* Writes the marker into a folder that is known to be ours by other means, in place of an older one. */
int stk_ours_mark(const char *folder, const stk_ours_kind *kind, int *unwritable, stoke_error *err);
/* The marker's second line, without its end; 0 when there is no marker of this kind, or no room. */
int stk_ours_note(const char *folder, const stk_ours_kind *kind, char *line, size_t size);

/* ---- files ---- */

/* 1: the open file is regular and begins with these bytes; or has none; or has zeros in their place, as a
 * power cut may leave it. */
int stk_ours_begins(int fd, const void *magic, size_t bytes);

/* A name that says nothing about whose folder it is in: what is in every folder, or was left by somebody who
 * was killed writing the marker. A new file system has lost+found. */
int stk_ours_is_nothing(const char *name);

#endif
