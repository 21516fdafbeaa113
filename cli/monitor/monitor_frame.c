/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/monitor/monitor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <stoke/tools/terminal.h>

#define RED    "\033[31m"
#define GREEN  "\033[32m"
#define YELLOW "\033[33m"

enum {
    LINE_BYTES = 2048,
    BAR_COLUMNS = 20,
    FIGURE_COLUMNS = 24, /* "12.3 GB of 25.8 GB" and room */
    SOURCE_COLUMNS = 9,
    HISTORY_MOST = 300
};

void monitor_frame_begin(monitor_frame *frame)
{
    struct winsize size = { 0 };
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col) {
        size.ws_row = 24;
        size.ws_col = 80;
    }
    frame->rows = size.ws_row;
    frame->columns = size.ws_col;
    frame->lines = frame->left_out = 0;
    frame->used = (size_t)snprintf(frame->text, sizeof frame->text, "\033[H");
}

/* As many bytes of `text` as fill `columns` columns: sequences of colour take none, and a character of
 * several bytes takes one. */
static size_t cut(const char *text, int columns)
{
    size_t i = 0;
    while (text[i]) {
        if (text[i] == '\033') {
            const size_t n = strcspn(text + i, "m");
            if (!text[i + n]) break;
            i += n + 1;
            continue;
        }
        if (columns-- == 0) break;
        for (i++; ((unsigned char)text[i] & 0xc0) == 0x80;) i++;
    }
    return i;
}

static const char *plain_again(const monitor_frame *frame)
{
    return frame->colour ? "\033[0m" : "";
}

/* A line that may hold sequences of colour. */
static void put_line(monitor_frame *frame, const char *line)
{
    /* The last row is for the line that says what is missing. */
    if (frame->lines >= frame->rows - 1) {
        frame->left_out++;
        return;
    }
    /* The row is wiped before it is written: after a full one the cursor stands on its last character. */
    const int n = (int)cut(line, frame->columns);
    if (frame->used + (size_t)n + 16 > sizeof frame->text) return;
    frame->used += (size_t)snprintf(frame->text + frame->used, sizeof frame->text - frame->used,
                                    "\033[K%.*s%s\r\n", n, line, plain_again(frame));
    frame->lines++;
}

void monitor_frame_line(monitor_frame *frame, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    stoke_text_vformat(line, sizeof line, format, arguments);
    va_end(arguments);
    put_line(frame, line);
}

void monitor_frame_text(monitor_frame *frame, const char *text)
{
    const size_t width = frame->columns > 20 ? (size_t)frame->columns : 20;
    while (*text) {
        size_t n = strlen(text);
        if (n > width)
            for (n = width; n > 1 && text[n] != ' ';) n--;
        if (n <= 1) n = width; /* a word longer than the window */
        monitor_frame_line(frame, "%.*s", (int)n, text);
        text += n;
        while (*text == ' ') text++;
    }
}

/* ---- a series ---- */

static const char *colour_of(const monitor_frame *frame, monitor_meaning meaning, double percent)
{
    if (!frame->colour) return "";
    if (meaning == MONITOR_FULL_IS_GOOD) return percent >= 90 ? GREEN : percent >= 60 ? YELLOW : RED;
    if (meaning == MONITOR_ANY_IS_BAD) return percent >= 25 ? RED : percent >= 10 ? YELLOW : GREEN;
    return percent >= 90 ? RED : percent >= 60 ? YELLOW : GREEN;
}

static void make_bar(const monitor_frame *frame, const monitor_series *series, char *out, size_t size)
{
    const double percent = series->percent.value;
    const double share = percent < 0 ? 0 : percent > 100 ? 1 : percent / 100;
    const int full = series->percent.source ? (int)(share * BAR_COLUMNS + 0.5) : 0;
    int n = snprintf(out, size, "[%s", colour_of(frame, series->meaning, percent));
    for (int i = 0; i < BAR_COLUMNS; i++)
        n += snprintf(out + n, size - (size_t)n, "%s", i >= full ? " " : frame->blocks ? "█" : "#");
    snprintf(out + n, size - (size_t)n, "%s]", plain_again(frame));
}

/* One column per second, the newest on the right. */
static void make_history(const monitor_frame *frame, const monitor_series *series, char *out, size_t size)
{
    static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const letters[] = { "_", ".", "-", "=", "+", "*", "%", "#" };
    int columns = frame->columns - MONITOR_LABEL_COLUMNS - BAR_COLUMNS - 4 - FIGURE_COLUMNS - SOURCE_COLUMNS;
    if (columns > HISTORY_MOST) columns = HISTORY_MOST;
    size_t n = 0;
    *out = 0;
    for (int i = columns - 1; series->at && i >= 0 && n + 4 < size; i--) {
        const stoke_figure mean = series->at(series->context, (size_t)i);
        int level = (int)(mean.value * 8 / 100);
        level = level < 0 ? 0 : level > 7 ? 7 : level;
        const char *mark = !mean.source ? " " : frame->blocks ? blocks[level] : letters[level];
        n += (size_t)snprintf(out + n, size - n, "%s", mark);
    }
}

void monitor_frame_series(monitor_frame *frame, const monitor_series *series)
{
    char bar[256], history[4 * HISTORY_MOST], figure[96], label[64], line[LINE_BYTES];
    make_bar(frame, series, bar, sizeof bar);
    make_history(frame, series, history, sizeof history);
    if (series->text)
        stoke_text_format(figure, sizeof figure, "%-*s", FIGURE_COLUMNS, series->text);
    else
        cli_figure_text(series->percent, CLI_UNIT_PERCENT, figure, sizeof figure);
    stoke_text_format(label, sizeof label, "%-*s", MONITOR_LABEL_COLUMNS, series->label);
    snprintf(line, sizeof line, "%s%s %-*s%-*s%s", label, bar, FIGURE_COLUMNS, figure, SOURCE_COLUMNS,
             series->percent.source ? stoke_source_name(series->percent.source) : "", history);
    put_line(frame, line);
}

void monitor_frame_show(monitor_frame *frame)
{
    /* Without a newline: one in the last row would scroll. */
    if (frame->left_out) {
        char note[96];
        snprintf(note, sizeof note, "%s: make the window taller", STOKE_COUNT(frame->left_out, "more line"));
        frame->used += (size_t)snprintf(frame->text + frame->used, sizeof frame->text - frame->used,
                                        "\033[K%.*s", (int)cut(note, frame->columns), note);
    }
    frame->used += (size_t)snprintf(frame->text + frame->used, sizeof frame->text - frame->used, "\033[J");
    fwrite(frame->text, 1, frame->used, stdout);
    fflush(stdout);
}
