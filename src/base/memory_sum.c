/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/memory_sum.h"

#include <math.h>
#include <stdio.h>

#include "src/base/error.h"

void stoke_memory_add(stoke_memory_sum *sum, const char *name, uint64_t count, uint64_t bytes)
{
    if (!count || !bytes) return;
    if (sum->count < STOKE_MEMORY_SHARES) {
        sum->share[sum->count++] = (stoke_memory_share){ name, count, bytes };
        return;
    }
    stoke_memory_share *last = &sum->share[STOKE_MEMORY_SHARES - 1];
    *last = (stoke_memory_share){ "other", 1, last->count * last->bytes + count * bytes };
}

uint64_t stoke_memory_total(const stoke_memory_sum *sum)
{
    uint64_t total = 0;
    for (size_t i = 0; i < sum->count; i++) total += sum->share[i].count * sum->share[i].bytes;
    return total;
}

/* "586.0 MB": each number in a unit that shows it, or 3 x 35 kB beside 12 GB would be nothing. */
static const char *bytes_text(double bytes, char text[static 24])
{
    const double scale = bytes < 5e4 ? 1e-3 : bytes < 1e10 ? 1e-6 : bytes < 1e13 ? 1e-9 : 1e-12;
    const char *unit = bytes < 5e4 ? "kB" : bytes < 1e10 ? "MB" : bytes < 1e13 ? "GB" : "TB";
    snprintf(text, 24, "%.1f %s", bytes * scale, unit);
    return text;
}

int stoke_memory_text(const stoke_memory_sum *sum, char *text, size_t size)
{
    const double total = (double)stoke_memory_total(sum);
    char bytes[24];
    int n = 0;
    for (size_t i = 0; i <= sum->count; i++) {
        const stoke_memory_share *share = &sum->share[i];
        const size_t at = (size_t)n < size ? (size_t)n : size;
        char *to = size ? text + at : text;
        if (i == sum->count)
            n += snprintf(to, size - at, " = %s", bytes_text(total, bytes));
        else if (share->count == 1)
            n += snprintf(to, size - at, "%s%s %s", i ? " + " : "", share->name,
                          bytes_text((double)share->bytes, bytes));
        else
            n += snprintf(to, size - at, "%s%s %llu x %s", i ? " + " : "", share->name,
                          (unsigned long long)share->count, bytes_text((double)share->bytes, bytes));
    }
    return n;
}

int stk_memory_refuse(const stoke_memory_sum *least, const char *who, const char *instead, stoke_error *err)
{
    /* What the process itself holds differs from one start to the next: by 0.3 MiB among 60. */
    enum { UNSTEADY = 3 << 17 };
    char text[768];
    const double total = (double)stoke_memory_total(least);
    const double will_do = ceil((total * 1.005 + UNSTEADY) / (1 << 20) * 10) / 10;
    stoke_memory_text(least, text, sizeof text);
    return stk_fail(err, STOKE_E_LIMIT,
                    "memory_limit is %.1f MB, but %s at least %s. Set memory_limit to %.1fM or more, or %s",
                    (double)least->limit_bytes / 1e6, who, text, will_do, instead);
}
