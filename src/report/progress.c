/* SPDX-License-Identifier: Apache-2.0
 *
 * How far the work is. On a terminal one line that is redrawn in place, elsewhere (a log file) a plain line
 * now and then. Short work shows nothing at all.
 */
#include "src/report/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/mem.h"
#include <stoke/tools/terminal.h>

#define SECOND UINT64_C(1000000000)
static const uint64_t bar_delay = SECOND;        /* shorter work needs no bar */
static const uint64_t bar_period = SECOND / 10;  /* faster cannot be read and flickers */
static const uint64_t pace_is_lost = 2 * SECOND; /* no sooner: work in chunks has pauses */
static const uint64_t line_period = 10 * SECOND; /* a log of an hour has 360 lines */

enum { BAR_MIN = 10, BAR_MAX = 40, LINE_MAX_LENGTH = 512 };

struct stoke_progress {
    FILE *out;
    char label[64], unit[32], note[128];
    int terminal; /* file descriptor, -1 = not one */
    int drawn;    /* a bar is on the screen */
    uint64_t start, last;
    uint64_t done;             /* so far, */
    uint64_t changed, longest; /* since when, and the longest that took */
    int left_is_told;
    double left; /* then: what the caller said */
    uint64_t (*now)(void);
};

stoke_progress *stoke_progress_create(FILE *out, const char *label, const char *unit)
{
    stoke_progress *p = stk_calloc(1, sizeof *p);
    if (!p) return NULL;
    const char *term = getenv("TERM");
    int fd = fileno(out);
    p->terminal = fd >= 0 && isatty(fd) && !(term && !strcmp(term, "dumb")) ? fd : -1;
    p->out = out;
    stoke_text_format(p->label, sizeof p->label, "%s", label ? label : "");
    snprintf(p->unit, sizeof p->unit, "%s", unit ? unit : "");
    stk_progress_set_clock(p, stk_now_ns);
    return p;
}

void stk_progress_set_clock(stoke_progress *p, uint64_t (*now)(void))
{
    p->now = now;
    p->start = p->last = p->changed = now();
}

void stoke_progress_note(stoke_progress *p, const char *text)
{
    if (p) stoke_text_format(p->note, sizeof p->note, "%s", text ? text : "");
}

void stoke_progress_left(stoke_progress *p, double seconds)
{
    if (!p) return;
    p->left_is_told = !(seconds < 0);
    p->left = seconds;
}

void stoke_progress_label(stoke_progress *p, const char *label)
{
    if (p) stoke_text_format(p->label, sizeof p->label, "%s", label ? label : "");
}

void stoke_progress_pause(stoke_progress *p)
{
    if (!p || !p->drawn) return;
    fputs("\r\033[K", p->out);
    fflush(p->out);
    p->last -= bar_period;
}

/* How much of the unit to print for a number: "1 sample", "1 pass", "1 batch". */
static int unit_length(const char *unit, uint64_t number)
{
    const size_t n = strlen(unit);
    if (number != 1 || n < 2 || unit[n - 1] != 's') return (int)n;
    return (int)n - (n > 4 && (!strcmp(unit + n - 4, "sses") || !strcmp(unit + n - 4, "ches")) ? 2 : 1);
}

/* "1234/3000 samples", or "1234 samples" when the total is unknown. */
static void count_text(const stoke_progress *p, uint64_t done, uint64_t total, char *text, size_t size)
{
    if (total)
        snprintf(text, size, "%" PRIu64 "/%" PRIu64 " %.*s", done, total, unit_length(p->unit, total),
                 p->unit);
    else
        snprintf(text, size, "%" PRIu64 " %.*s", done, unit_length(p->unit, done), p->unit);
}

/* The caller's note, or the average rate since the start; then what is left. `gap` parts them. */
static void speed_text(const stoke_progress *p, uint64_t done, uint64_t total, double elapsed,
                       const char *gap, char *text, size_t size)
{
    char left[48];
    int n;
    uint64_t tenths = (uint64_t)((double)done / elapsed * 10 + 0.5);
    if (*p->note)
        n = snprintf(text, size, "%s%s", gap, p->note);
    else
        n = snprintf(text, size, "%s%" PRIu64 ".%" PRIu64 " %s/s", gap, tenths / 10, tenths % 10, p->unit);
    if (n < 0 || (size_t)n >= size) return;
    /* One that takes twice as long as any before says that the pace of those does not hold: a time left by it
     * would only grow. */
    const uint64_t gap_ns = p->last - p->changed;
    const int is_stuck = gap_ns > pace_is_lost && gap_ns > 2 * p->longest;
    if (p->left_is_told ? isnan(p->left) : !done || done >= total || is_stuck) return;
    stoke_text_seconds(p->left_is_told ? p->left : elapsed / (double)done * (double)(total - done), left,
                       sizeof left);
    snprintf(text + n, size - (size_t)n, "%s%s left", gap, left);
}

static int percent_of(uint64_t done, uint64_t total)
{
    return done >= total ? 100 : (int)((double)done / (double)total * 100);
}

/* "decode  [=====>    ] 42 %  1234/3000 samples  512.3 samples/s  3.4 s left", one write. The bar takes what
 * the texts leave; on a narrow terminal it goes first, then the count, which the percentage tells too, then
 * the end of the line. */
static void draw_bar(stoke_progress *p, uint64_t done, uint64_t total, double elapsed)
{
    char count[80], speed[224], bar[BAR_MAX + 1] = "", line[LINE_MAX_LENGTH];
    struct winsize size;
    const int known = ioctl(p->terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    int columns = (known ? size.ws_col : 80) - 1; /* the last column would wrap on some terminals */
    count_text(p, done, total, count, sizeof count);
    speed_text(p, done, total, elapsed, "  ", speed, sizeof speed);
    int percent = total ? percent_of(done, total) : 0;
    int room = columns - (int)(strlen(p->label) + strlen(count) + strlen(speed)) - 12; /* "  [" "] 100 %  " */
    int width = room > BAR_MAX ? BAR_MAX : room;
    int n = snprintf(line, sizeof line, "\r%s", p->label);
    if (total && width >= BAR_MIN) {
        int full = percent * width / 100;
        memset(bar, ' ', (size_t)width);
        memset(bar, '=', (size_t)full);
        if (full < width) bar[full] = '>';
        n += snprintf(line + n, sizeof line - (size_t)n, "  [%s]", bar);
    }
    if (total) n += snprintf(line + n, sizeof line - (size_t)n, " %3d %%", percent);
    if (total && n - 1 + 2 + (int)(strlen(count) + strlen(speed)) > columns)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s", speed);
    else
        n += snprintf(line + n, sizeof line - (size_t)n, "  %s%s", count, speed);
    if (n > columns + 1) n = columns + 1;
    fprintf(p->out, "%.*s\033[K", n, line);
    fflush(p->out);
    p->drawn = 1;
}

static void print_line(const stoke_progress *p, uint64_t done, uint64_t total, double elapsed)
{
    if (p->out == stderr) fflush(stdout); /* as stoke_text_vprint: one pipe may be both */
    char count[80], speed[224];
    count_text(p, done, total, count, sizeof count);
    speed_text(p, done, total, elapsed, ", ", speed, sizeof speed);
    if (total)
        fprintf(p->out, "%s: %s (%d %%)%s\n", p->label, count, percent_of(done, total), speed);
    else
        fprintf(p->out, "%s: %s%s\n", p->label, count, speed);
    fflush(p->out);
}

int stoke_progress_update(void *progress, uint64_t done, uint64_t total)
{
    stoke_progress *p = progress;
    if (!p) return 0;
    uint64_t now = p->now(), wait = p->terminal < 0 ? line_period : p->drawn ? bar_period : bar_delay;
    if (done != p->done) {
        p->longest = stk_most(p->longest, now - p->changed);
        p->done = done;
        p->changed = now;
    }
    if (now - p->last >= wait) {
        p->last = now;
        double elapsed = (double)(now - p->start) / 1e9;
        if (p->terminal >= 0)
            draw_bar(p, done, total, elapsed);
        else
            print_line(p, done, total, elapsed);
    }
    return 0;
}

void stoke_progress_destroy(stoke_progress **progress)
{
    stoke_progress *p = *progress;
    if (!p) return;
    stoke_progress_pause(p);
    stk_free(p);
    *progress = NULL;
}
