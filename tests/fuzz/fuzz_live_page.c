/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of statistics is a file that anyone may write: any bytes are refused with a reason, or give data
 * that can be printed and figures that are finite or n/a. The sum is set right for a second try.
 */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/loader/live_page.h"

static void check_rate(double rate)
{
    if (!isnan(rate) && !(rate >= 0)) abort();
}

static void take(const stk_live_page *page, size_t size)
{
    stoke_live_data data, before = stoke_live_defaults();
    stoke_live_rates rates;
    stoke_error err = { 0 };
    if (stk_live_take(page, size, "fuzz", &data, &err)) {
        if (strncmp(err.message, "fuzz: ", 6) != 0) abort();
        return;
    }
    if (!memchr(data.what, 0, sizeof data.what)) abort();
    if (!*stoke_live_phase_name((int)data.phase)) abort();
    for (int i = 0; i < 2; i++) {
        stoke_live_between(i ? &before : NULL, &data, &rates);
        check_rate(rates.steps_s);
        check_rate(rates.samples_s);
        check_rate(rates.read_bytes_s);
        check_rate(rates.data_wait);
        check_rate(rates.cache_hits);
    }
}

FUZZ_TARGET(live_page)
{
    stk_live_page page;
    const size_t n = size < sizeof page ? size : sizeof page;
    memset(&page, 0xa5, sizeof page); /* what a short file leaves of the one before */
    if (n) memcpy(&page, bytes, n);
    take(&page, n);
    if (n < offsetof(stk_live_content, data) || page.content.bytes > sizeof page.content.data) return 0;
    page.content.magic = STK_LIVE_MAGIC;
    page.content.checksum = stk_live_checksum(&page);
    take(&page, n);
    return 0;
}
