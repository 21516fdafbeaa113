/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing takes two passes over the list: the header is measured, padded and written, then the data follow
 * straight from where they lie, so that saving needs no second copy of the weights.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/net/files/safetensors.h"

static uint64_t width_of(const stk_safetensors_source *source)
{
    return source->type == STK_TENSOR_I64 ? 8 : 4;
}

static uint64_t bytes_of(const stk_safetensors_source *source)
{
    uint64_t bytes = width_of(source);
    for (uint32_t i = 0; i < source->dims; i++) bytes *= source->shape[i];
    return bytes;
}

static int by_width_and_name(const void *a, const void *b)
{
    const stk_safetensors_source *x = a, *y = b;
    if (width_of(x) != width_of(y)) return width_of(x) > width_of(y) ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* To `stream`, or nowhere when it is NULL. Returns the length: what is measured is what is written. */
static uint64_t entry(FILE *stream, const stk_safetensors_source *source, uint64_t begin)
{
    static const char *const names[] = { [STK_TENSOR_F32] = "F32", [STK_TENSOR_I64] = "I64" };
    char text[512];
    int n = snprintf(text, sizeof text, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", source->name,
                     names[source->type]);
    for (uint32_t i = 0; i < source->dims; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%" PRIu32, i ? "," : "", source->shape[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
                  begin + bytes_of(source));
    if (stream) fwrite(text, 1, (size_t)n, stream);
    return (uint64_t)n;
}

static uint64_t put(FILE *stream, const char *text)
{
    if (stream) fputs(text, stream);
    return strlen(text);
}

/* With the escapes of serde_json, which the package is made of: short ones where JSON has them, all other
 * characters from the blank on as they are. */
static uint64_t quoted(FILE *stream, const char *text)
{
    uint64_t length = put(stream, "\"");
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        char escape[8] = { '\\', text[0] };
        switch (c) {
        case '"':
        case '\\': break;
        case '\b': escape[1] = 'b'; break;
        case '\f': escape[1] = 'f'; break;
        case '\n': escape[1] = 'n'; break;
        case '\r': escape[1] = 'r'; break;
        case '\t': escape[1] = 't'; break;
        default:
            if (c < 0x20)
                snprintf(escape, sizeof escape, "\\u%04x", c);
            else
                escape[0] = *text, escape[1] = 0;
        }
        length += put(stream, escape);
    }
    return length + put(stream, "\"");
}

static uint64_t header(FILE *stream, const stk_safetensors_source *list, size_t count,
                       const stk_safetensors_note *notes, size_t note_count)
{
    uint64_t begin = 0, length = put(stream, "{\"__metadata__\":{");
    for (size_t i = 0; i < note_count; i++) {
        length += put(stream, i ? "," : "");
        length += quoted(stream, notes[i].key);
        length += put(stream, ":");
        length += quoted(stream, notes[i].text);
    }
    length += put(stream, "}");
    for (size_t i = 0; i < count; i++) {
        length += entry(stream, &list[i], begin);
        begin += bytes_of(&list[i]);
    }
    return length + put(stream, "}");
}

int stk_safetensors_write(FILE *stream, stk_safetensors_source *list, size_t count,
                          const stk_safetensors_note *notes, size_t note_count)
{
    if (count) qsort(list, count, sizeof *list, by_width_and_name);
    const uint64_t length = header(NULL, list, count, notes, note_count), padded = (length + 7) / 8 * 8;
    for (int i = 0; i < 8; i++) fputc((int)(padded >> 8 * i & 0xff), stream);
    header(stream, list, count, notes, note_count);
    for (uint64_t i = length; i < padded; i++) fputc(' ', stream);
    for (size_t i = 0; i < count && !ferror(stream); i++) fwrite(list[i].data, 1, bytes_of(&list[i]), stream);
    return !ferror(stream);
}
