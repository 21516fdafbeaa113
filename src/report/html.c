/* SPDX-License-Identifier: Apache-2.0 */
#include "src/report/chart.h"

#include <string.h>

#include "src/base/utf8.h"

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
