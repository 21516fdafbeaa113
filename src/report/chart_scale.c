/* SPDX-License-Identifier: Apache-2.0
 *
 * Axes: a range around the values, ticks at 1, 2 or 5 times a power of ten, their labels.
 */
#include "src/report/chart.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/number.h"

/* Beyond it differences overflow; a loss there is as good as infinite. */
static const double far_out = 1e300;

stoke_chart stoke_chart_defaults(void)
{
    return (stoke_chart){
        .struct_size = sizeof(stoke_chart), .y_min = NAN, .y_max = NAN, .width = 720, .height = 360
    };
}

int stk_chart_take(stoke_chart *c, const stoke_chart *chart, stoke_error *err)
{
    *c = stoke_chart_defaults();
    if (chart->struct_size != sizeof *chart) return stk_fail_struct(err, "stoke_chart_defaults");
    *c = *chart;
    for (size_t i = 0; i < c->n_series; i++)
        if (c->series[i].count && (!c->series[i].x || !c->series[i].y))
            return stk_fail(err, STOKE_E_INVALID, "a chart's series %zu has no values", i);
    if (c->width < 240 || c->height < 160 || c->width > 10000 || c->height > 10000)
        return stk_fail(err, STOKE_E_INVALID,
                        "a chart of %u x %u: 240 x 160 is the least, 10000 x 10000 the most",
                        (unsigned)c->width, (unsigned)c->height);
    return STOKE_OK;
}

/* ---- numbers ---- */

const char *stk_text_fixed(double value, int decimals, char *text, size_t size)
{
    int64_t unit = 1;
    for (int i = 0; i < decimals && i < 15; i++) unit *= 10;
    if (!isfinite(value)) {
        snprintf(text, size, "n/a");
    } else if (fabs(value) * (double)unit > 9e18) {
        char real[STK_REAL_TEXT];
        snprintf(text, size, "%s", stk_format_real(value, real));
    } else {
        const int64_t whole = (int64_t)llround(value * (double)unit);
        const uint64_t size_of = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
        const uint64_t above = size_of / (uint64_t)unit, below = size_of % (uint64_t)unit;
        if (decimals > 0)
            snprintf(text, size, "%s%" PRIu64 ".%0*" PRIu64, whole < 0 ? "-" : "", above,
                     decimals < 15 ? decimals : 15, below);
        else
            snprintf(text, size, "%s%" PRIu64, whole < 0 ? "-" : "", above);
    }
    return text;
}

/* 3.2e-5, with at most so many decimals before the e: no zeros at their end. */
static void scientific(double value, int exponent, int decimals, char *text, size_t size)
{
    char mantissa[STK_REAL_TEXT];
    stk_text_fixed(value / pow(10, exponent), decimals, mantissa, sizeof mantissa);
    size_t n = strlen(mantissa);
    while (strchr(mantissa, '.') && (mantissa[n - 1] == '0' || mantissa[n - 1] == '.')) mantissa[--n] = 0;
    snprintf(text, size, "%.12se%d", mantissa, exponent);
}

static int exponent_of(double value)
{
    return (int)floor(log10(fabs(value)) + 1e-9);
}

const char *stk_text_brief(double value, char *text, size_t size)
{
    if (!isfinite(value) || value == 0) return stk_text_fixed(value, 0, text, size);
    const int exponent = exponent_of(value);
    if (exponent < -2 || exponent > 8) {
        scientific(value, exponent, 2, text, size);
        return text;
    }
    return stk_text_fixed(value, exponent >= 2 ? 0 : 2 - exponent, text, size);
}

/* A tick's text: decimals as the step between ticks needs them, the same unit along the axis. */
static void label_tick(stk_chart_axis *axis, size_t i, double step)
{
    static const struct {
        double unit;
        const char *letter;
    } units[] = { { 1e9, "G" }, { 1e6, "M" }, { 1e3, "k" }, { 1, "" } };
    const double value = axis->tick[i], largest = fmax(fabs(axis->low), fabs(axis->high));
    char *text = axis->label[i];
    const int fine = exponent_of(step);
    if (value == 0) {
        snprintf(text, STK_TICK_TEXT, "0");
    } else if (largest >= 1e12 || (axis->log ? fabs(value) < 9e-4 : largest < 1e-2)) {
        const int exponent = exponent_of(value);
        scientific(value, exponent, exponent > fine ? exponent - fine : 0, text, STK_TICK_TEXT);
    } else {
        size_t u = 0;
        while (units[u].unit > 1 && largest < 10 * units[u].unit) u++;
        const int places = fine - exponent_of(units[u].unit);
        char number[STK_REAL_TEXT];
        stk_text_fixed(value / units[u].unit, places < 0 ? -places : 0, number, sizeof number);
        snprintf(text, STK_TICK_TEXT, "%.16s%s", number, units[u].letter);
    }
}

/* ---- ticks ---- */

static int has_place(double value, int log)
{
    return fabs(value) <= far_out && (!log || value >= 1 / far_out); /* false for NaN */
}

double stk_chart_axis_at(const stk_chart_axis *axis, double value)
{
    if (!has_place(value, axis->log)) return NAN;
    if (axis->log) return (log10(value) - log10(axis->low)) / (log10(axis->high) - log10(axis->low));
    return (value - axis->low) / (axis->high - axis->low);
}

static void add_tick(stk_chart_axis *axis, double value, double step)
{
    const double place = stk_chart_axis_at(axis, value);
    if (axis->count == STK_TICKS || !(place >= -1e-9 && place <= 1 + 1e-9)) return;
    axis->tick[axis->count++] = value;
    label_tick(axis, axis->count - 1, step);
}

/* The least of 1, 2, 5 times a power of ten that is not below `least`. */
static double round_step(double least)
{
    const double power = pow(10, floor(log10(least)));
    for (int i = 0; i < 3; i++) {
        static const double factor[] = { 1, 2, 5 };
        if (factor[i] * power >= least * (1 - 1e-9)) return factor[i] * power;
    }
    return 10 * power;
}

static void linear_ticks(stk_chart_axis *axis, unsigned most)
{
    const double step = round_step((axis->high - axis->low) / most);
    const double first = ceil(axis->low / step - 1e-9);
    /* Counted in steps: adding up would drift, and not move at all far from 0. */
    for (unsigned i = 0; i <= most + 1; i++) {
        double value = (first + i) * step;
        if (fabs(value) < step * 1e-9) value = 0;
        add_tick(axis, value, step);
    }
}

/* Powers of ten; with 2 and 5 times them between when there are few, only some of them when there are many.
 */
static void log_ticks(stk_chart_axis *axis, unsigned most)
{
    const int first = (int)floor(log10(axis->low)), last = (int)ceil(log10(axis->high));
    const int every = (last - first) / (int)most + 1, few = last - first <= (int)most / 3;
    for (int e = first; e <= last; e += every)
        for (int i = 0; i < (few ? 3 : 1); i++) {
            static const double factor[] = { 1, 2, 5 };
            const double value = factor[i] * pow(10, e);
            add_tick(axis, value, value);
        }
    if (axis->count >= 2) return;
    axis->count = 0;
    linear_ticks(axis, most);
}

void stk_axis_make(stk_chart_axis *axis, double low, double high, int log, unsigned ticks)
{
    *axis = (stk_chart_axis){ .log = log };
    if (!has_place(low, log) || !has_place(high, log) || low > high) {
        low = log ? 0.1 : 0;
        high = 1;
    }
    /* One value, or several that a chart cannot tell apart: room on both sides. */
    if (log && high / low < 1 + 1e-6) {
        low /= 2;
        high *= 2;
    } else if (!log && high - low <= fmax(fabs(low), fabs(high)) * 1e-9) {
        const double room = fabs(low) > 1e-290 ? fabs(low) / 10 : 1;
        low -= room;
        high += room;
    }
    axis->low = low;
    axis->high = high;
    if (ticks < 2) ticks = 2;
    if (ticks > STK_TICKS - 2) ticks = STK_TICKS - 2;
    if (log)
        log_ticks(axis, ticks);
    else
        linear_ticks(axis, ticks);
}

static void widen(double value, double *low, double *high)
{
    if (!(value >= *low)) *low = value; /* also when *low is NaN */
    if (!(value <= *high)) *high = value;
}

void stk_chart_axes(const stoke_chart *chart, unsigned x_ticks, unsigned y_ticks, stk_chart_axis *x,
                    stk_chart_axis *y)
{
    double range[4] = { NAN, NAN, NAN, NAN };
    for (size_t s = 0; s < chart->n_series; s++)
        for (size_t i = 0; i < chart->series[s].count; i++) {
            const double px = chart->series[s].x[i], py = chart->series[s].y[i];
            if (!has_place(px, chart->log_x) || !has_place(py, chart->log_y)) continue;
            widen(px, &range[0], &range[1]);
            widen(py, &range[2], &range[3]);
        }
    for (size_t i = 0; i < chart->n_marks; i++)
        if (has_place(chart->marks[i].x, chart->log_x)) widen(chart->marks[i].x, &range[0], &range[1]);
    stk_axis_make(x, range[0], range[1], chart->log_x, x_ticks);
    /* A little room above and below, so that no curve lies on the frame; a bound that was asked for stays. */
    double low = range[2], high = range[3];
    if (chart->log_y) {
        low *= 0.9;
        high *= 1.1;
    } else {
        const double room = (high - low) * 0.04;
        high += room;
        low = low >= 0 && low < room ? 0 : low - room;
    }
    if (has_place(chart->y_min, chart->log_y)) low = chart->y_min;
    if (has_place(chart->y_max, chart->log_y)) high = chart->y_max;
    if (!isfinite(high)) high = low + 1; /* a bound alone, and no value */
    if (!isfinite(low)) low = chart->log_y ? high / 10 : high - 1;
    stk_axis_make(y, low, high, chart->log_y, y_ticks);
}
