/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows for 16-bit (medical, microscopy) pictures: the interesting values rarely fill 0..65535.
 */
#include "src/pix/pix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"

enum { VALUES = 65536 };

/* A number that is followed by `end`. strtod takes "inf", "nan" and hexadecimal too; the range check refuses
 * the first two. */
static int parse_bound(const char **text, int percentile, char end, double *value)
{
    if (percentile && *(*text)++ != 'p') return 0;
    char *rest;
    *value = strtod(*text, &rest);
    if (rest == *text || *rest != end) return 0;
    *text = rest + 1;
    return *value >= 0 && *value <= (percentile ? 100.0 : 65535.0);
}

int stk_window_parse(const char *text, stk_pix_window *window, stoke_error *err)
{
    *window = (stk_pix_window){ .mode = STK_WINDOW_NONE };
    if (!text || !strcmp(text, "none")) return STOKE_OK;
    const int percentile = text[0] == 'p';
    const char *p = text;
    stk_pix_window parsed = { .mode = percentile ? STK_WINDOW_PERCENTILE : STK_WINDOW_RANGE };
    if (!parse_bound(&p, percentile, ':', &parsed.lo) || !parse_bound(&p, percentile, 0, &parsed.hi) ||
        parsed.lo >= parsed.hi)
        return stk_fail(
            err, STOKE_E_INVALID,
            "window \"%s\": not none, LO:HI with 0 <= LO < HI <= 65535, or pLO:pHI with percentiles 0..100",
            text);
    *window = parsed;
    return STOKE_OK;
}

static uint16_t *row_of(const stoke_image *image, uint32_t y)
{
    return (uint16_t *)((uint8_t *)image->data + y * image->stride);
}

static void count_values(const stoke_image *image, uint32_t *histogram)
{
    const size_t samples = (size_t)image->width * image->channels;
    memset(histogram, 0, VALUES * sizeof *histogram);
    for (uint32_t y = 0; y < image->height; y++)
        for (size_t i = 0; i < samples; i++) histogram[row_of(image, y)[i]]++;
}

/* Value of the sample with this rank, counted from 0, if all were sorted. */
static double ranked(const uint32_t *histogram, uint64_t rank)
{
    uint64_t below = 0;
    uint32_t value = 0;
    while (value < VALUES - 1 && (below += histogram[value]) <= rank) value++;
    return value;
}

/* NumPy's "linear": between the two samples around rank p / 100 * (n - 1); from the nearer side, as NumPy
 * does it. */
static double percentile_of(const uint32_t *histogram, uint64_t n, double p)
{
    const double position = p / 100.0 * (double)(n - 1), whole = floor(position), part = position - whole;
    const double a = ranked(histogram, (uint64_t)whole);
    const double b = part > 0 ? ranked(histogram, (uint64_t)whole + 1) : a;
    return part < 0.5 ? a + (b - a) * part : b - (b - a) * (1 - part);
}

void stk_window_apply(const stk_pix_window *window, const stoke_image *image, uint32_t *histogram)
{
    if (window->mode == STK_WINDOW_NONE || image->depth != 2) return;
    const size_t samples = (size_t)image->width * image->channels;
    double lo = window->lo, hi = window->hi;
    if (window->mode == STK_WINDOW_PERCENTILE) {
        count_values(image, histogram);
        lo = percentile_of(histogram, (uint64_t)samples * image->height, window->lo);
        hi = percentile_of(histogram, (uint64_t)samples * image->height, window->hi);
    }
    /* From here on the counters are no longer needed: their memory becomes the table value -> stretched
     * value. An even picture (lo == hi) becomes black, with what lies above it white. */
    uint32_t *stretched = histogram;
    for (uint32_t v = 0; v < VALUES; v++)
        stretched[v] = v <= lo ? 0 : v >= hi ? 65535 : (uint32_t)((v - lo) * 65535.0 / (hi - lo) + 0.5);
    for (uint32_t y = 0; y < image->height; y++)
        for (size_t i = 0; i < samples; i++) row_of(image, y)[i] = (uint16_t)stretched[row_of(image, y)[i]];
}
