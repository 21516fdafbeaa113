/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/csv.h"

#include <string.h>

#include "src/base/error.h"

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
