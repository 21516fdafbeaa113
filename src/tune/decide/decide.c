/* SPDX-License-Identifier: Apache-2.0 */
#include "src/tune/decide/decide.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoke/tools/report.h>

/* Cores of one process; none of several has less than one. */
static uint32_t share(uint32_t cores, uint32_t ranks)
{
    const uint32_t each = ranks > 1 ? cores / ranks : cores;
    return each ? each : 1;
}

uint32_t stk_decide_workers(uint32_t cores, uint32_t ranks)
{
    const uint64_t each = share(cores, ranks);
    const uint64_t workers = (2 * each + 1) / 3;
    return workers ? (uint32_t)workers : 1;
}

uint32_t stk_decide_workers_most(uint32_t cores, uint32_t ranks, int slow_files)
{
    const uint32_t each = share(cores, ranks);
    return slow_files && each <= UINT32_MAX / 4 ? each * 4 : each;
}

const char *stk_decide_range(const stoke_estimate *estimate, char *text, size_t size)
{
    char low[32], high[32];
    stoke_text_memory(estimate->low, low, sizeof low);
    stoke_text_memory(estimate->high, high, sizeof high);
    const char *unit = strchr(low, ' '), *other = strchr(high, ' ');
    const int same = unit && other && !strcmp(unit, other);
    if (!strcmp(low, high))
        snprintf(text, size, "%s", low);
    else
        snprintf(text, size, "%.*s to %s", same ? (int)(unit - low) : (int)strlen(low), low, high);
    return text;
}

stk_decide_verdict stk_decide_fit(const stoke_estimate *estimate, double room)
{
    const double spare = (double)STK_SPARE_BYTES;
    return (double)estimate->high + spare <= room  ? STK_FITS
           : (double)estimate->low + spare <= room ? STK_FITS_PERHAPS
                                                   : STK_FITS_NOT;
}

int stk_decide_busy(double had, double wanted)
{
    return wanted > 0 && had < 0.7 * wanted;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stk_sort_reals(double *values, size_t n)
{
    if (n) qsort(values, n, sizeof *values, by_value);
}

double stk_median(double *values, size_t n)
{
    if (!n) return NAN;
    stk_sort_reals(values, n);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}
