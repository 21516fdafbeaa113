/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for a terminal and as CSV.
 */
#include <inttypes.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/base/terminal.h"
#include <stoke/tools/report.h>

/* ---- numbers as text ---- */

/* Quantities for people. Whole-number arithmetic: the decimal point is a point in every locale, and rounding
 * up to the next unit ("1.0 MB", never "1000.0 kB") is decided on the figure that is printed. */

const char *stoke_text_bytes(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = { "kB", "MB", "GB", "TB", "PB", "EB" };
    if (bytes < 1000) {
        snprintf(text, size, "%" PRIu64 " B", bytes);
        return text;
    }
    uint64_t unit = 1000, tenths = bytes / 100 + (bytes % 100 >= 50);
    int i = 0;
    while (tenths >= 10000 && i < 5) {
        unit *= 1000;
        i++;
        tenths = bytes / (unit / 10) + (bytes % (unit / 10) >= unit / 20);
    }
    snprintf(text, size, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, units[i]);
    return text;
}

const char *stoke_text_memory(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes / 1024;
    size_t i = 0;
    if (bytes < 1024) {
        snprintf(text, size, "%" PRIu64 " B", bytes);
        return text;
    }
    for (; value >= 1023.95 && i < 3; i++) value /= 1024; /* 1023.95 would be shown as 1024.0 */
    snprintf(text, size, "%.1f %s", value, units[i]);
    return text;
}

const char *stoke_text_seconds(double seconds, char *text, size_t size)
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    double scale = 1e9;
    if (!(seconds >= 0 && seconds < 1e12)) { /* also not a number */
        snprintf(text, size, "n/a");
        return text;
    }
    for (int i = 0; i < 4; i++, scale /= 1000) {
        if (seconds * scale > 2e9) continue; /* before it becomes an integer: 10^12 s in ns is beyond any */
        uint64_t tenths = (uint64_t)(seconds * scale * 10 + 0.5), limit = i == 3 ? 600 : 10000;
        if (tenths >= limit) continue;
        if (i == 0)
            snprintf(text, size, "%" PRIu64 " ns", (tenths + 5) / 10);
        else
            snprintf(text, size, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, units[i]);
        if (seconds == 0) snprintf(text, size, "0 s");
        return text;
    }
    uint64_t s = (uint64_t)(seconds + 0.5);
    if (s < 3600)
        snprintf(text, size, "%" PRIu64 " min %02" PRIu64 " s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, size, "%" PRIu64 " h %02" PRIu64 " min", s / 3600, s / 60 % 60);
    else
        snprintf(text, size, "%" PRIu64 " d %02" PRIu64 " h", s / 86400, s / 3600 % 24);
    return text;
}

/* ---- tables ---- */

struct stoke_table {
    size_t columns, rows, capacity;
    const char **cells; /* row by row, the headings first; NULL = n/a */
    stk_string_arena strings;
    size_t lost; /* rows there was no memory for */
};

static int add_row(stoke_table *table, const char *const *cells)
{
    if (!stk_grow((void **)&table->cells, &table->capacity, (table->rows + 1) * table->columns,
                  sizeof(char *)))
        return 0;
    const char **row = table->cells + table->rows * table->columns;
    for (size_t c = 0; c < table->columns; c++) {
        row[c] = cells[c] ? stk_string_arena_copy(&table->strings, cells[c], strlen(cells[c])) : NULL;
        if (cells[c] && !row[c]) return 0;
    }
    table->rows++;
    return 1;
}

stoke_table *stoke_table_create(const char *const *headings, size_t columns)
{
    stoke_table *table = stk_calloc(1, sizeof *table);
    if (!table) return NULL;
    table->columns = columns;
    if (!add_row(table, headings)) stoke_table_destroy(&table);
    return table;
}

void stoke_table_row(stoke_table *table, const char *const *cells)
{
    if (table && !add_row(table, cells)) table->lost++;
}

void stoke_table_destroy(stoke_table **table)
{
    if (!*table) return;
    stk_string_arena_free(&(*table)->strings);
    stk_free((*table)->cells);
    stk_free(*table);
    *table = NULL;
}

static const char *cell(const stoke_table *table, size_t row, size_t column)
{
    const char *text = table->cells[row * table->columns + column];
    return text ? text : "n/a";
}

/* A column of numbers ("12", "-0.5", "1.2 ms", n/a) is set to the right, everything else to the left. */
static int is_numeric(const stoke_table *table, size_t column)
{
    int numbers = 0;
    for (size_t r = 1; r < table->rows; r++) {
        const char *text = table->cells[r * table->columns + column];
        if (!text) continue;
        if (*text == '-' || *text == '+') text++;
        if (*text < '0' || *text > '9') return 0;
        numbers++;
    }
    return numbers > 0;
}

static void pad(FILE *out, char c, size_t count)
{
    while (count--) fputc(c, out);
}

static void print_row(const stoke_table *table, size_t row, const size_t *widths, const char *right,
                      FILE *out)
{
    for (size_t c = 0; c < table->columns; c++) {
        const char *text = cell(table, row, c);
        size_t gap = widths[c] - stk_terminal_columns(text);
        if (right[c]) pad(out, ' ', gap);
        stoke_text_print(out, "%s", text);  /* cells can hold names of files */
        if (c + 1 == table->columns) break; /* no blanks at the end of a line */
        pad(out, ' ', (right[c] ? 0 : gap) + 2);
    }
    fputc('\n', out);
}

void stoke_table_print(const stoke_table *table, FILE *out)
{
    size_t *widths = table ? stk_calloc(table->columns, sizeof *widths + 1) : NULL;
    if (!widths) {
        fputs("(no memory for the table)\n", out);
        return;
    }
    char *right = (char *)(widths + table->columns);
    for (size_t c = 0; c < table->columns; c++) {
        right[c] = (char)is_numeric(table, c);
        for (size_t r = 0; r < table->rows; r++) {
            size_t width = stk_terminal_columns(cell(table, r, c));
            if (width > widths[c]) widths[c] = width;
        }
    }
    print_row(table, 0, widths, right, out);
    for (size_t c = 0; c < table->columns; c++) {
        pad(out, '-', widths[c]);
        pad(out, ' ', c + 1 < table->columns ? 2 : 0);
    }
    fputc('\n', out);
    for (size_t r = 1; r < table->rows; r++) print_row(table, r, widths, right, out);
    if (table->lost) fprintf(out, "(%zu rows missing: out of memory)\n", table->lost);
    stk_free(widths);
}

/* RFC 4180: CRLF, quotes where needed and doubled inside. A missing value is an empty field. */
void stoke_table_csv(const stoke_table *table, FILE *out)
{
    for (size_t i = 0; table && i < table->rows * table->columns; i++) {
        const char *text = table->cells[i] ? table->cells[i] : "";
        int quote = text[strcspn(text, ",\"\r\n")] != 0;
        if (quote) fputc('"', out);
        for (; *text; text++) {
            if (*text == '"') fputc('"', out);
            fputc(*text, out);
        }
        if (quote) fputc('"', out);
        fputs((i + 1) % table->columns ? "," : "\r\n", out);
    }
}
