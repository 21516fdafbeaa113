/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files of /proc and /sys.
 */
#include "src/tune/machine/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/machine.h"

stoke_figure stk_figure(double value, int source)
{
    return (stoke_figure){ value, source };
}

static int put_path(char path[STK_TREE_PATH], const char *root, const char *format, va_list arguments)
{
    int n = snprintf(path, STK_TREE_PATH, "%s/", root);
    if (n < 0 || n >= STK_TREE_PATH) return 0;
    const size_t room = STK_TREE_PATH - (size_t)n;
    const int m = vsnprintf(path + n, room, format, arguments);
    return m >= 0 && (size_t)m < room;
}

int stk_tree_path(char path[STK_TREE_PATH], const char *root, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int fits = put_path(path, root, format, arguments);
    va_end(arguments);
    return fits;
}

int stk_tree_text(char *text, size_t size, const char *root, const char *format, ...)
{
    char path[STK_TREE_PATH];
    va_list arguments;
    va_start(arguments, format);
    const int fits = put_path(path, root, format, arguments);
    va_end(arguments);
    if (!fits || !stk_machine_read_text(path, text, size)) return 0;
    for (size_t n = strlen(text); n && (text[n - 1] == '\n' || text[n - 1] == ' ');) text[--n] = 0;
    return *text != 0;
}

stoke_figure stk_tree_figure(const char *folder, const char *name, double scale, int source)
{
    char text[64], *end;
    if (!stk_tree_text(text, sizeof text, folder, "%s", name)) return stk_figure(0, STOKE_SOURCE_NA);
    const double value = strtod(text, &end);
    return end == text ? stk_figure(0, STOKE_SOURCE_NA) : stk_figure(value * scale, source);
}
