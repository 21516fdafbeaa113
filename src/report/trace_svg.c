/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace as a picture.
 *
 *   title
 *   # step  # copy  # wait                           what the colours stand for
 *   host                                        idle
 *   worker 1     ████ ██████ ███ ████            12 %
 *   device
 *   compute      ██████████████████████████     0.3 %
 *                |        |        |
 *                0       100      200  ms
 *
 * Spans that are too narrow to be seen are joined: a lane has at most some thousand bars, whatever happened
 * on it.
 */
#include "src/report/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <stoke/tools/report.h>

#include "src/base/file.h"
#include "src/report/chart.h"

enum {
    WIDTH = 1200,
    MARGIN = 14,
    TITLE_LINE = 26,
    LEGEND_LINE = 22,
    GROUP_LINE = 26,
    ROW = 20,        /* of a lane */
    BAR = 16,        /* in a row */
    LANE_GAP = 6,    /* between lanes */
    RIGHT = 64,      /* the column of idle shares */
    BELOW = 62,      /* the lanes: ticks, their unit, remarks */
    NAME_MOST = 260, /* pixels for names of lanes */
    WORDS_MOST = 32  /* kinds of spans that have an entry */
};
static const double visible = 1.5; /* narrower bars are joined with what is near */
static const double near_by = 0.75;
static const double seam = 0.6; /* left free at the end of a bar, so that two of a kind are two */

typedef struct picture {
    FILE *out;
    const stk_trace_sheet *sheet;
    const char *title;
    uint64_t start, end; /* of the window; start < end */
    const char *words[WORDS_MOST];
    uint32_t n_words;
    int any_wait;
    double left, width; /* of the lanes */
} picture;

/* ---- what spans are ---- */

/* Waiting is not work: drawn pale, and idle. */
static int is_waiting(const char *what)
{
    return strncmp(what, "wait", 4) == 0;
}

/* Colours of words that every run has, so that they look alike in all pictures: by how they begin. */
static const struct {
    const char *word, *fill;
} usual[] = {
    { "read", "fill:var(--s5)" }, { "decode mask", "fill:#4f9fe8" }, { "decode", "fill:var(--s0)" },
    { "fit", "fill:var(--s1)" },  { "augment", "fill:var(--s4)" },   { "copy", "fill:var(--s3)" },
    { "step", "fill:var(--s2)" }, { "wait", "fill:var(--rule)" },
};
enum { USUAL = sizeof usual / sizeof *usual };

static const char *usual_fill(const char *what)
{
    for (int i = 0; i < USUAL; i++)
        if (strncmp(what, usual[i].word, strlen(usual[i].word)) == 0) return usual[i].fill;
    return NULL;
}

/* Of a kind of span. The others take colours of classes that are unlike the usual ones, cyan, pink, light
 * green, brown and light pink, then what the palette gives. */
static const char *fill_of(const picture *p, const char *what, char text[40])
{
    static const uint8_t further[] = { 5, 4, 8, 10, 11 };
    uint32_t before = 0;
    uint8_t rgb[3];
    if (usual_fill(what)) return usual_fill(what);
    for (uint32_t i = 0; i < p->n_words && strcmp(p->words[i], what) != 0; i++)
        before += !usual_fill(p->words[i]);
    stoke_class_color(before < sizeof further ? further[before] : before + 9, rgb);
    snprintf(text, 40, "fill:#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
    return text;
}

/* Of the whole trace, so that all windows of it have the same colours. */
static void collect_words(picture *p)
{
    for (size_t i = 0; i < p->sheet->count; i++) {
        const char *what = p->sheet->spans[i].what;
        uint32_t k = 0;
        if (is_waiting(what)) {
            p->any_wait = 1;
            continue;
        }
        while (k < p->n_words && strcmp(p->words[k], what) != 0) k++;
        if (k == p->n_words && k < WORDS_MOST) p->words[p->n_words++] = what;
    }
}

/* ---- time ---- */

static double place_of(const picture *p, uint64_t time)
{
    if (time <= p->start) return p->left;
    if (time >= p->end) return p->left + p->width;
    return p->left + (double)(time - p->start) / (double)(p->end - p->start) * p->width;
}

/* Of the spans first .. last - 1 of one lane: ns of the window in which something other than waiting ran. */
static uint64_t busy_of(const picture *p, size_t first, size_t last)
{
    uint64_t busy = 0, until = p->start;
    for (size_t i = first; i < last; i++) {
        const stk_trace_span *s = &p->sheet->spans[i];
        if (is_waiting(s->what)) continue;
        const uint64_t from = s->start > until ? s->start : until, to = s->end < p->end ? s->end : p->end;
        if (to <= from) continue;
        busy += to - from;
        until = to;
    }
    return busy;
}

/* ---- bars ---- */

static void put_bar(const picture *p, double x, double y, double width, const char *what, double opacity)
{
    char fill[40];
    stk_html_print(p->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" style=\"%s\"", x, y,
                   width, BAR, fill_of(p, what, fill));
    if (opacity < 0.995) stk_html_print(p->out, " opacity=\"%.2f\"", opacity);
}

/* Its name and number where there is room; the rest for a resting pointer. */
static void put_span(const picture *p, const stk_trace_span *s, double x, double y, double width)
{
    char number[32] = "", text[96];
    put_bar(p, x, y, width - seam, s->what, 1);
    if (s->number >= 0) snprintf(number, sizeof number, "%" PRId64, s->number);
    stk_html_print(p->out, "><title>%s%s%s: %s, %s after the start</title></rect>\n", s->what,
                   *number ? ", batch " : "", number, STOKE_SECONDS((double)(s->end - s->start) / 1e9),
                   STOKE_SECONDS((double)(s->start - p->sheet->start) / 1e9));
    snprintf(text, sizeof text, "%.60s%s%s", s->what, *number ? " " : "", number);
    const double room = (width - 6) / STK_SVG_LETTER;
    const char *shown = room >= (double)stk_svg_letters(text) ? text : number;
    if (room >= (double)stk_svg_letters(shown))
        stk_svg_text(p->out, x + width / 2, y + BAR - 4, "middle", is_waiting(s->what) ? "f" : "b", shown);
}

/* Narrow spans side by side, as one bar: of the kind that took most of it, the paler the emptier it is. */
typedef struct run {
    double from, to, filled; /* pixels */
    const char *what;
    double most; /* pixels of the widest one */
} run;

static void end_run(const picture *p, run *r, double y)
{
    if (!r->what) return;
    const double width = fmax(r->to - r->from, 0.6), share = fmin(1, r->filled / width);
    put_bar(p, r->from, y, width, r->what, 0.35 + 0.65 * share);
    fputs("/>\n", p->out);
    r->what = NULL;
}

static void extend_run(run *r, const char *what, double from, double to)
{
    if (!r->what) *r = (run){ .from = from, .to = from, .what = what };
    if (to - from > r->most) {
        r->most = to - from;
        r->what = what;
    }
    r->to = fmax(r->to, to);
    r->filled += to - from;
}

static void put_row(const picture *p, size_t first, size_t last, uint32_t row, double y)
{
    run r = { 0 };
    for (size_t i = first; i < last; i++) {
        const stk_trace_span *s = &p->sheet->spans[i];
        if (s->row != row || s->end < p->start || s->start > p->end) continue;
        const double from = place_of(p, s->start), to = place_of(p, s->end);
        if (r.what && (to - from >= visible || from - r.to > near_by)) end_run(p, &r, y);
        if (to - from < visible)
            extend_run(&r, s->what, from, to);
        else
            put_span(p, s, from, y, to - from);
    }
    end_run(p, &r, y);
}

/* ---- around them ---- */

/* draw 0: only counts the lines. All waits are one entry. */
static int put_legend(const picture *p, int draw)
{
    const uint32_t entries = p->n_words + (p->any_wait ? 1 : 0);
    double x = MARGIN;
    int lines = entries ? 1 : 0;
    for (uint32_t i = 0; i < entries; i++) {
        const char *word = i < p->n_words ? p->words[i] : "waiting";
        const double width = 20 + (double)stk_svg_letters(word) * STK_SVG_LETTER + 16;
        if (x > MARGIN && x + width > WIDTH - MARGIN) {
            x = MARGIN;
            lines++;
        }
        if (draw) {
            char fill[40];
            const double y = MARGIN + TITLE_LINE + LEGEND_LINE * lines - 8;
            stk_html_print(p->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" style=\"%s\"/>\n",
                           x, y - 10, fill_of(p, word, fill));
            stk_svg_text(p->out, x + 18, y, "start", NULL, word);
        }
        x += width;
    }
    return lines;
}

static int begins_group(const stk_trace_sheet *sheet, uint32_t lane)
{
    return !lane || strcmp(sheet->lanes[lane].group, sheet->lanes[lane - 1].group) != 0;
}

static void lane_text(const stk_trace_lane *lane, char *text, size_t size)
{
    snprintf(text, size, "%.100s%s", lane->name, lane->emulated ? " (emulated)" : "");
}

static void put_axis(const picture *p, double top, double bottom)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = { { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 } }, *unit = units;
    const double length = (double)(p->end - p->start);
    char text[96];
    stk_chart_axis axis;
    while (unit->ns > 1 && length < 10 * unit->ns) unit++;
    stk_axis_make(&axis, 0, length / unit->ns, 0, (unsigned)(p->width / 90));
    for (size_t i = 0; i < axis.count; i++) {
        const double x = p->left + stk_chart_axis_at(&axis, axis.tick[i]) * p->width;
        stk_svg_line(p->out, "g", x, top, x, bottom);
        stk_svg_line(p->out, "x", x, bottom, x, bottom + 4);
        stk_svg_text(p->out, x, bottom + 17, "middle", "f", axis.label[i]);
    }
    stk_svg_line(p->out, "x", p->left, bottom, p->left + p->width, bottom);
    if (p->start > p->sheet->start)
        snprintf(text, sizeof text, "%s, from %s after the start", unit->name,
                 STOKE_SECONDS((double)(p->start - p->sheet->start) / 1e9));
    else
        snprintf(text, sizeof text, "%s", unit->name);
    stk_svg_text(p->out, p->left + p->width / 2, bottom + 34, "middle", "f", text);
}

/* Whose times are not measured, and what is missing. */
static void put_remarks(const picture *p, double y)
{
    char text[160] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < p->sheet->n_lanes && !used; i++)
        if (p->sheet->lanes[i].emulated)
            used = (size_t)snprintf(text, sizeof text, "emulated: times of a model, not measured. ");
    if (p->sheet->dropped)
        snprintf(text + used, sizeof text - used, "%zu spans did not fit into the trace and are missing.",
                 p->sheet->dropped);
    stk_svg_text(p->out, MARGIN, y, "start", "f", text);
}

static void put_lanes(const picture *p, double y)
{
    const stk_trace_sheet *sheet = p->sheet;
    size_t first = 0;
    for (uint32_t i = 0; i < sheet->n_lanes; i++) {
        size_t last = first;
        char text[128], idle[40];
        while (last < sheet->count && sheet->spans[last].lane == i) last++;
        if (begins_group(sheet, i)) {
            stk_svg_text(p->out, MARGIN, y + 17, "start", "h", sheet->lanes[i].group);
            if (!i) stk_svg_text(p->out, WIDTH - MARGIN, y + 17, "end", "f", "idle");
            y += GROUP_LINE;
        }
        lane_text(&sheet->lanes[i], text, sizeof text);
        stk_svg_text(p->out, MARGIN, y + BAR - 4, "start", NULL, text);
        for (uint32_t row = 0; row < sheet->rows[i]; row++) put_row(p, first, last, row, y + ROW * row);
        stk_text_fixed(100 - 100 * (double)busy_of(p, first, last) / (double)(p->end - p->start), 1, idle,
                       sizeof idle - 3);
        strcat(idle, " %");
        stk_svg_text(p->out, WIDTH - MARGIN, y + BAR - 4, "end", "f", idle);
        y += ROW * sheet->rows[i] + LANE_GAP;
        first = last;
    }
}

static void put_picture(picture *p)
{
    const stk_trace_sheet *sheet = p->sheet;
    double widest = 60, lanes = sheet->n_lanes ? 0 : GROUP_LINE;
    collect_words(p);
    for (uint32_t i = 0; i < sheet->n_lanes; i++) {
        char text[128];
        lane_text(&sheet->lanes[i], text, sizeof text);
        widest = fmax(widest, (double)stk_svg_letters(text) * STK_SVG_LETTER);
        lanes += (begins_group(sheet, i) ? GROUP_LINE : 0) + ROW * sheet->rows[i] + LANE_GAP;
    }
    p->left = MARGIN + fmin(widest, NAME_MOST) + 12;
    p->width = WIDTH - MARGIN - RIGHT - p->left;
    const double top = MARGIN + TITLE_LINE + LEGEND_LINE * put_legend(p, 0), bottom = top + lanes;
    stk_svg_begin(p->out, WIDTH, (uint32_t)(bottom + BELOW), p->title);
    fputs("<style>.stk-chart .h{font-weight:600}.stk-chart .b{fill:var(--paper)}</style>\n", p->out);
    stk_svg_text(p->out, MARGIN, MARGIN + 13, "start", "t", p->title);
    put_legend(p, 1);
    put_axis(p, top, bottom);
    put_lanes(p, top);
    if (!sheet->count)
        stk_svg_text(p->out, p->left + p->width / 2, top + 17, "middle", "f", "nothing was recorded");
    put_remarks(p, bottom + 52);
    stk_svg_end(p->out);
}

int stoke_trace_write_svg(const stoke_trace *trace, const char *path, const char *title, uint64_t start_ns,
                          uint64_t length_ns, stoke_error *err)
{
    stk_trace_sheet sheet;
    stoke_output file;
    int status = stk_sheet_make(&sheet, trace, err);
    if (status) return status;
    picture p = { .sheet = &sheet, .title = title && *title ? title : "timeline", .start = sheet.start };
    if (start_ns > p.start) p.start = start_ns;
    p.end = length_ns && length_ns < UINT64_MAX - p.start ? p.start + length_ns : sheet.end;
    if (p.end <= p.start) { /* nothing, or all of it at one moment */
        p.start -= p.start == UINT64_MAX;
        p.end = p.start + 1;
    }
    status = stoke_output_open(&file, path, err);
    if (!status) {
        p.out = file.stream;
        put_picture(&p);
        status = stoke_output_commit(&file, err);
    }
    stk_sheet_free(&sheet);
    return status;
}
