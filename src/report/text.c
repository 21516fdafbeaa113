/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantities for people. Whole-number arithmetic: the decimal point is a point in every locale, and rounding
 * up to the next unit ("1.0 MB", never "1000.0 kB") is decided on the figure that is printed.
 */
#include <inttypes.h>

#include <stoke/tools/report.h>

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
