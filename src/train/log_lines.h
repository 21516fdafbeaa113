/* SPDX-License-Identifier: Apache-2.0
 *
 * A text file line by line, in bounded memory, whatever stands in it.
 */
#ifndef STOKE_SRC_TRAIN_LOG_LINES_H
#define STOKE_SRC_TRAIN_LOG_LINES_H

#include <stdio.h>

#include "src/base/mem.h"
#include <stoke/common.h>

/* A line of an evaluation of 64 classes has about 45 kB. What is longer than this is no line of ours. */
enum { STK_LINE_BYTES = 4 << 20 };

typedef struct stk_lines {
    FILE *stream;
    const char *path; /* borrowed */
    char *text;       /* the line, zero-terminated, without its end; may hold zeros itself */
    size_t length, capacity;
    int whole; /* it ended with a line break: the last line of a process that was killed does not */
    int cut;   /* it was longer than STK_LINE_BYTES; `text` has its beginning */
} stk_lines;

/* STOKE_E_NOTFOUND when there is no such file; folders, fifos and devices are refused. */
int stk_lines_open(stk_lines *lines, const char *path, stoke_error *err);
/* 1: a line; 0: no more; negative: it cannot be read. */
int stk_lines_next(stk_lines *lines, stoke_error *err);
void stk_lines_close(stk_lines *lines); /* accepts a zeroed struct */

#endif
