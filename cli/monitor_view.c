/* SPDX-License-Identifier: Apache-2.0
 *
 * The live view. A frame is made whole in memory, cut to the window and written with one call, so nothing
 * flickers; the alternate screen leaves what was on the terminal before as it was.
 */
#include "cli/monitor_view.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/common.h"

#define ENTER  "\033[?1049h\033[?25l\033[H\033[2J"
#define RED    "\033[31m"
#define GREEN  "\033[32m"
#define YELLOW "\033[33m"
#define LEAVE  "\033[?25h\033[?1049l"

enum {
    FRAME_BYTES = 1 << 16,
    LINE_BYTES = 2048,
    BAR_COLUMNS = 20,
    LABEL_COLUMNS = 10,
    FIGURE_COLUMNS = 24 /* "12.3 GB of 25.8 GB" and room */
};

static volatile sig_atomic_t resized;

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

/* Ctrl-Z: the shell gets its screen back, and we take ours again when we go on. */
static void on_stop(int number)
{
    (void)number;
    if (write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1) < 0) return;
    raise(SIGSTOP);
    resized = 1;
    if (write(STDOUT_FILENO, ENTER, sizeof ENTER - 1) < 0) return;
}

int monitor_view_possible(void)
{
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static int knows_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < CLI_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return 0;
}

static void measure_window(monitor_view *view)
{
    struct winsize size = { 0 };
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col) {
        size.ws_row = 24;
        size.ws_col = 80;
    }
    view->rows = size.ws_row;
    view->columns = size.ws_col;
}

void monitor_view_begin(monitor_view *view, const stoke_monitor *monitor, int colour)
{
    const char *none = getenv("NO_COLOR");
    const double limit = view->limit;
    *view = (monitor_view){ .monitor = monitor, .limit = limit, .blocks = knows_utf8() };
    view->colour = colour && !(none && *none);
    struct sigaction action = { .sa_handler = on_resize };
    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL); /* without SA_RESTART: it ends the wait for the next reading */
    action.sa_handler = on_stop;
    sigaction(SIGTSTP, &action, NULL);
    fputs(ENTER, stdout);
    fflush(stdout);
}

void monitor_view_end(void)
{
    signal(SIGTSTP, SIG_DFL);
    fputs(LEAVE, stdout);
    fflush(stdout);
}

int monitor_view_resized(void)
{
    return resized;
}

/* ---- a frame ---- */

typedef struct frame {
    const monitor_view *view;
    char text[FRAME_BYTES];
    size_t used;
    int rows, left_out; /* lines written; lines there was no room for */
} frame;

/* Puts as many bytes of `text` as fill `columns` columns: sequences of colour take none, and a character of
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

static const char *plain_again(const monitor_view *view)
{
    return view->colour ? "\033[0m" : "";
}

STOKE_PRINTF(2, 3)
static void put_line(frame *f, const char *format, ...)
{
    char line[LINE_BYTES];
    /* The last row is for the line that says what is missing. */
    if (f->rows >= f->view->rows - 1) {
        f->left_out++;
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* The row is wiped before it is written: after a full one the cursor stands on its last character. */
    const int n = (int)cut(line, f->view->columns);
    if (f->used + (size_t)n + 16 > sizeof f->text) return;
    f->used += (size_t)snprintf(f->text + f->used, sizeof f->text - f->used, "\033[K%.*s%s\r\n", n, line,
                                plain_again(f->view));
    f->rows++;
}

/* Full is good news of a card that is paid for by the hour, and bad news of what feeds it or has no room
 * left.
 */
static const char *colour_of(const monitor_view *view, stoke_monitor_series series, double percent)
{
    if (!view->colour) return "";
    if (series == STOKE_SERIES_GPU) return percent >= 90 ? GREEN : percent >= 60 ? YELLOW : RED;
    return percent >= 90 ? RED : percent >= 60 ? YELLOW : GREEN;
}

static void make_bar(const monitor_view *view, stoke_monitor_series series, stoke_figure percent, char *out,
                     size_t size)
{
    const double share = percent.value < 0 ? 0 : percent.value > 100 ? 1 : percent.value / 100;
    const int full = percent.source ? (int)(share * BAR_COLUMNS + 0.5) : 0;
    int n = snprintf(out, size, "[%s", colour_of(view, series, percent.value));
    for (int i = 0; i < BAR_COLUMNS; i++)
        n += snprintf(out + n, size - (size_t)n, "%s", i >= full ? " " : view->blocks ? "█" : "#");
    snprintf(out + n, size - (size_t)n, "%s]", plain_again(view));
}

/* One column per second, the newest on the right. */
static void make_history(const monitor_view *view, stoke_monitor_series series, size_t gpu, int columns,
                         char *out, size_t size)
{
    static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const letters[] = { "_", ".", "-", "=", "+", "*", "%", "#" };
    size_t n = 0;
    *out = 0;
    for (int i = columns - 1; i >= 0 && n + 4 < size; i--) {
        const stoke_figure mean =
            stoke_monitor_history(view->monitor, series, gpu, (size_t)i * MONITOR_RATE, MONITOR_RATE);
        int level = (int)(mean.value * 8 / 100);
        level = level < 0 ? 0 : level > 7 ? 7 : level;
        const char *mark = !mean.source ? " " : view->blocks ? blocks[level] : letters[level];
        n += (size_t)snprintf(out + n, size - n, "%s", mark);
    }
}

/* label [bar] figure (source) history */
static void put_series(frame *f, const char *label, stoke_monitor_series series, size_t gpu, const char *text)
{
    char bar[256], history[1024], figure[96];
    const stoke_figure now = stoke_monitor_history(f->view->monitor, series, gpu, 0, MONITOR_RATE);
    const int columns = f->view->columns - LABEL_COLUMNS - BAR_COLUMNS - 4 - FIGURE_COLUMNS - 9;
    make_bar(f->view, series, now, bar, sizeof bar);
    make_history(f->view, series, gpu,
                 columns < 0     ? 0
                 : columns > 300 ? 300
                                 : columns,
                 history, sizeof history);
    if (text)
        snprintf(figure, sizeof figure, "%s", text);
    else
        monitor_number(now, " %", figure, sizeof figure);
    put_line(f, "%-*s%s %-*s%-9s%s", LABEL_COLUMNS, label, bar, FIGURE_COLUMNS, figure,
             now.source ? stoke_source_name(now.source) : "", history);
}

static const char *part_of(stoke_figure part, stoke_figure whole, char *text, size_t size)
{
    char a[32], b[32];
    snprintf(text, size, "%s of %s", monitor_bytes(part, a, sizeof a), monitor_bytes(whole, b, sizeof b));
    return text;
}

static void put_machine(frame *f)
{
    const stoke_load *load = stoke_monitor_load(f->view->monitor);
    char text[96], a[32], b[32];
    put_series(f, "processor", STOKE_SERIES_CPU, 0, NULL);
    put_series(f, "memory", STOKE_SERIES_MEMORY, 0,
               part_of(load->memory_used, load->memory_total, text, sizeof text));
    put_series(f, "disk", STOKE_SERIES_DISK, 0, NULL);
    put_line(f, "%-*s%s: read %s/s, write %s/s (%s)", LABEL_COLUMNS, "",
             *load->disk ? load->disk : "disk n/a", monitor_bytes(load->disk_read, a, sizeof a),
             monitor_bytes(load->disk_write, b, sizeof b), stoke_source_name(load->disk_read.source));
}

static void put_processes(frame *f, const stoke_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->n_processes; i++) {
        const stoke_gpu_process *process = &gpu->process[i];
        char a[32], b[32];
        put_line(f, "%-*s%8u %-28s %10s %6s %s", LABEL_COLUMNS, i ? "" : "programs", process->pid,
                 *process->name ? process->name : "(in another container)",
                 monitor_bytes(process->memory_bytes, a, sizeof a),
                 monitor_number(process->busy_percent, " %", b, sizeof b), process->own ? "(this one)" : "");
    }
    if (!gpu->n_processes) put_line(f, "%-*snone seen", LABEL_COLUMNS, "programs");
    if (gpu->more_processes) put_line(f, "%-*sand %u more", LABEL_COLUMNS, "", gpu->more_processes);
}

static void put_card(frame *f, size_t index)
{
    const stoke_gpu *gpu = stoke_monitor_gpu(f->view->monitor, index);
    char text[256], a[32], b[32], c[32], d[32];
    put_line(f, "%s", "");
    put_line(f, "gpu%zu %s %s%s%s", index, gpu->name, gpu->pci, gpu->lost ? " LOST" : "",
             gpu->mig ? " MIG" : "");
    if (*gpu->problem) put_line(f, "%-*s%s", LABEL_COLUMNS, "problem", gpu->problem);
    if (gpu->lost) return;
    put_series(f, "busy", STOKE_SERIES_GPU, index, NULL);
    put_series(f, "memory", STOKE_SERIES_GPU_MEMORY, index,
               part_of(gpu->memory_used, gpu->memory_total, text, sizeof text));
    put_line(f, "%-*s%s of %s, %s, PCIe %s x%s (%s)", LABEL_COLUMNS, "power",
             monitor_number(gpu->power_watt, " W", a, sizeof a),
             monitor_number(gpu->power_limit_watt, " W", b, sizeof b),
             monitor_number(gpu->temperature, " C", c, sizeof c),
             monitor_number(gpu->pcie_generation, "", d, sizeof d),
             monitor_number(gpu->pcie_width, "", text, sizeof text),
             stoke_source_name(gpu->power_watt.source));
    put_line(f, "%-*s%s of %s, memory %s; held down by: %s", LABEL_COLUMNS, "clock",
             monitor_number(gpu->clock_sm_mhz, " MHz", a, sizeof a),
             monitor_number(gpu->clock_sm_max_mhz, " MHz", b, sizeof b),
             monitor_number(gpu->clock_memory_mhz, " MHz", c, sizeof c),
             monitor_reasons(gpu->clocks_reasons, text, sizeof text));
    put_processes(f, gpu);
}

/* A sentence over as many lines as it needs. */
static void put_text(frame *f, const char *text)
{
    const size_t width = f->view->columns > 20 ? (size_t)f->view->columns : 20;
    while (*text) {
        size_t n = strlen(text);
        if (n > width)
            for (n = width; n > 1 && text[n] != ' ';) n--;
        if (n <= 1) n = width; /* a word longer than the window */
        put_line(f, "%.*s", (int)n, text);
        text += n;
        while (*text == ' ') text++;
    }
}

void monitor_view_draw(monitor_view *view, double seconds)
{
    static frame f; /* 64 kB, and one view at a time */
    resized = 0;
    measure_window(view);
    view->seconds = seconds;
    f.view = view;
    f.rows = f.left_out = 0;
    f.used = (size_t)snprintf(f.text, sizeof f.text, "\033[H");
    if (view->limit > 0)
        put_line(&f, "stoke monitor: %.0f of %.0f s; Ctrl-C: summary; a mark of the history is 1 s", seconds,
                 view->limit);
    else
        put_line(&f, "stoke monitor: %.0f s; Ctrl-C: summary; a mark of the history is 1 s", seconds);
    put_line(&f, "%s", "");
    put_machine(&f);
    for (size_t i = 0; i < stoke_monitor_gpus(view->monitor); i++) put_card(&f, i);
    if (*stoke_monitor_why(view->monitor)) {
        put_line(&f, "%s", "");
        put_text(&f, "What cannot be seen:");
        put_text(&f, stoke_monitor_why(view->monitor));
    }
    /* Without a newline: one in the last row would scroll. */
    if (f.left_out) {
        char note[96];
        snprintf(note, sizeof note, "%d more lines: make the window taller", f.left_out);
        f.used += (size_t)snprintf(f.text + f.used, sizeof f.text - f.used, "\033[K%.*s",
                                   (int)cut(note, view->columns), note);
    }
    f.used += (size_t)snprintf(f.text + f.used, sizeof f.text - f.used, "\033[J");
    fwrite(f.text, 1, f.used, stdout);
    fflush(stdout);
}
