/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a CSV text (RFC 4180) in memory: quotes, doubled quotes, CRLF or LF, a byte order mark, blank
 * lines and lines that start with `#`. Works in fixed memory on hostile input.
 */
#ifndef STOKE_SRC_SOURCE_CSV_H
#define STOKE_SRC_SOURCE_CSV_H

#include <stddef.h>
#include <stdint.h>
#include <stoke/common.h>

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

#endif
