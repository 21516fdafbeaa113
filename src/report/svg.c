/* SPDX-License-Identifier: Apache-2.0
 *
 * No script, no font. Colours are CSS variables of the element, with a second set for dark mode.
 */
#include "src/report/chart.h"

#include <stdarg.h>
#include <string.h>

#include "src/base/utf8.h"
#include <stoke/tools/output.h>

/* Colours by Okabe and Ito, whom colour-blind people can follow, brightened for dark paper. */
static const char style[] =
    "<style>.stk-chart{--paper:#fff;--ink:#1c202a;--faded:#686f7d;--rule:#e3e6ec;--frame:#b9bfca;"
    "--s0:#0b6bcb;--s1:#d1495b;--s2:#00876c;--s3:#c77700;--s4:#8b4fc4;--s5:#4c5b70;"
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:12px}"
    "@media (prefers-color-scheme:dark){.stk-chart{--paper:#171a21;--ink:#e8eaf0;--faded:#9aa2b1;"
    "--rule:#2a2f3a;--frame:#4a5160;--s0:#5aa9ff;--s1:#ff7b8b;--s2:#3ecfa8;--s3:#ffb347;--s4:#c597ff;"
    "--s5:#a8b3c7}}"
    "@media print{.stk-chart{--paper:#fff;--ink:#000;--faded:#444;--rule:#ddd;--frame:#888;--s0:#0b6bcb;"
    "--s1:#d1495b;--s2:#00876c;--s3:#c77700;--s4:#8b4fc4;--s5:#4c5b70}}"
    ".stk-chart text{fill:var(--ink)}.stk-chart .t{font-size:15px;font-weight:600}"
    ".stk-chart .f{fill:var(--faded)}.stk-chart .g{stroke:var(--rule);stroke-width:1}"
    ".stk-chart .x{stroke:var(--frame);stroke-width:1}"
    ".stk-chart .m{stroke:var(--faded);stroke-width:1;stroke-dasharray:4 3}"
    ".stk-chart .k{stroke:var(--paper);stroke-width:4;stroke-linejoin:round;paint-order:stroke}"
    ".stk-chart path{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
    ".stk-chart path.a{stroke-width:1;opacity:.5}"
    "</style>\n";

void stk_svg_begin(FILE *out, uint32_t width, uint32_t height, const char *label)
{
    stk_html_print(out,
                   "<!-- " STOKE_OUTPUT_MARK " -->\n"
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"stk-chart\" viewBox=\"0 0 %u %u\" "
                   "width=\"%u\" height=\"%u\" role=\"img\" aria-label=\"%s\">\n",
                   width, height, width, height, label);
    fputs(style, out);
    fputs("<rect width=\"100%\" height=\"100%\" style=\"fill:var(--paper)\"/>\n", out);
}

void stk_svg_end(FILE *out)
{
    fputs("</svg>\n", out);
}

size_t stk_svg_letters(const char *text)
{
    size_t n = 0;
    for (; text && *text; n++) stk_utf8_next(&text);
    return n;
}

void stk_svg_text(FILE *out, double x, double y, const char *anchor, const char *class, const char *text)
{
    if (!text || !*text) return;
    stk_html_print(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"", x, y, anchor);
    if (class) stk_html_print(out, " class=\"%s\"", class);
    stk_html_print(out, ">%s</text>\n", text);
}

void stk_svg_line(FILE *out, const char *class, double x1, double y1, double x2, double y2)
{
    stk_html_print(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x1,
                   y1, x2, y2);
}

/* ---- HTML ---- */

/* What XML, which SVG is, takes as a character; of the control characters none. */
static int is_text(uint32_t code)
{
    return code >= 0x20 && !(code >= 0x7f && code < 0xa0) && !(code >= STK_UTF8_BAD && code <= 0xffff);
}

void stk_html_text(FILE *out, const char *text)
{
    if (text) stk_html_bytes(out, text, strlen(text));
}

void stk_html_bytes(FILE *out, const char *text, size_t size)
{
    for (const char *end = text + size; text < end;) {
        const char *start = text;
        const uint32_t code = stk_utf8_next(&text);
        switch (code) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        case '\n':
        case '\t': fputc((int)code, out); break;
        default:
            if (is_text(code))
                fwrite(start, 1, (size_t)(text - start), out);
            else
                fputs("\xef\xbf\xbd", out);
        }
    }
}

void stk_html_print(FILE *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    for (const char *at; (at = strchr(format, '%')); format = at + 1) {
        char number[32];
        int decimals = 0, longs = 0;
        fwrite(format, 1, (size_t)(at++ - format), out);
        if (*at == '.') decimals = at[1] - '0', at += 2;
        for (; *at == 'l'; at++) longs++;
        switch (*at) {
        case 's': stk_html_text(out, va_arg(args, const char *)); break;
        case 'f': fputs(stk_text_fixed(va_arg(args, double), decimals, number, sizeof number), out); break;
        case 'u': fprintf(out, "%lu", longs ? va_arg(args, unsigned long) : va_arg(args, unsigned)); break;
        case 'd': fprintf(out, "%ld", longs ? va_arg(args, long) : va_arg(args, int)); break;
        default: fputc('%', out);
        }
    }
    fputs(format, out);
    va_end(args);
}

void stk_html_begin(FILE *out, const char *title, const char *about, const char *css)
{
    stk_html_print(out,
                   "<!doctype html>\n<!-- " STOKE_OUTPUT_MARK " -->\n<html lang=\"en\"><head><meta "
                   "charset=\"utf-8\"><meta name=\"viewport\" "
                   "content=\"width=device-width,initial-scale=1\">\n<title>%s%s</title>\n<style>\n",
                   title, about);
    fputs(css, out);
    fputs("</style></head>\n<body><main>\n", out);
}

void stk_html_base64(FILE *out, const void *bytes, size_t size)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t three =
            (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0u);
        fputc(letters[three >> 18], out);
        fputc(letters[three >> 12 & 63], out);
        fputc(left > 1 ? letters[three >> 6 & 63] : '=', out);
        fputc(left > 2 ? letters[three & 63] : '=', out);
    }
}
