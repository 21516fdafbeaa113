/* SPDX-License-Identifier: Apache-2.0 */
#include "src/net/files/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "kernels/half.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/terminal.h"

/* ---- reading ---- */

static const struct {
    const char *name;
    uint32_t bytes;
    stk_safetensors_type type;
} DTYPES[] = {
    { "F32", 4, STK_TENSOR_F32 },       { "F16", 2, STK_TENSOR_F16 },
    { "BF16", 2, STK_TENSOR_BF16 },     { "F64", 8, STK_TENSOR_F64 },
    { "I64", 8, STK_TENSOR_I64 },       { "BOOL", 1, STK_TENSOR_OTHER },
    { "U8", 1, STK_TENSOR_OTHER },      { "I8", 1, STK_TENSOR_OTHER },
    { "F8_E4M3", 1, STK_TENSOR_OTHER }, { "F8_E5M2", 1, STK_TENSOR_OTHER },
    { "F8_E8M0", 1, STK_TENSOR_OTHER }, { "I16", 2, STK_TENSOR_OTHER },
    { "U16", 2, STK_TENSOR_OTHER },     { "I32", 4, STK_TENSOR_OTHER },
    { "U32", 4, STK_TENSOR_OTHER },     { "U64", 8, STK_TENSOR_OTHER },
    { "C64", 8, STK_TENSOR_OTHER },
};

int stk_safetensors_length(const uint8_t first[static 8], uint64_t file_size, uint64_t *length,
                           stoke_error *err)
{
    memcpy(length, first, sizeof *length);
    if (*length > STK_SAFETENSORS_HEADER)
        return stk_fail(err, STOKE_E_FORMAT,
                        "not a safetensors file: its first 8 bytes would mean a header of %llu bytes, more "
                        "than the %d of the format",
                        (unsigned long long)*length, STK_SAFETENSORS_HEADER);
    if (file_size < 8 || *length > file_size - 8)
        return stk_fail(err, STOKE_E_FORMAT, "cut off: a header of %llu bytes in a file of %llu",
                        (unsigned long long)*length, (unsigned long long)file_size);
    return STOKE_OK;
}

/* The dtype's size in bytes; 0: not one of the format, or smaller than a byte. */
static uint32_t look_up_dtype(stk_safetensors_tensor *tensor)
{
    for (size_t i = 0; i < sizeof DTYPES / sizeof *DTYPES; i++) {
        if (strcmp(DTYPES[i].name, tensor->dtype)) continue;
        tensor->type = DTYPES[i].type;
        return DTYPES[i].bytes;
    }
    return 0;
}

static int parse_shape(stk_safetensors_tensor *tensor, const stk_json *json, const stk_json_value *shape,
                       stoke_error *err)
{
    tensor->count = 1;
    if (!shape || shape->kind != STK_JSON_ARRAY)
        return stk_fail(err, STOKE_E_FORMAT, "%.200s: \"shape\" is not an array", tensor->name);
    if (shape->count > STK_TENSOR_DIMS)
        return stk_fail(err, STOKE_E_UNSUPPORTED, "%.200s: more than %d dimensions", tensor->name,
                        STK_TENSOR_DIMS);
    for (const stk_json_value *v = stk_json_first(json, shape); v; v = stk_json_next(json, v)) {
        uint64_t *size = &tensor->shape[tensor->dims++];
        if (!stk_json_uint(json, v, size))
            return stk_fail(err, STOKE_E_FORMAT, "%.200s: \"shape\" holds what is no size", tensor->name);
        if (__builtin_mul_overflow(tensor->count, *size, &tensor->count))
            return stk_fail(err, STOKE_E_FORMAT, "%.200s: more elements than 64 bits count", tensor->name);
    }
    return STOKE_OK;
}

static int parse_tensor(stk_safetensors_tensor *tensor, const stk_json *json, const stk_json_value *entry,
                        stoke_error *err)
{
    tensor->name = stk_json_key(json, entry);
    if (!stk_terminal_plain(tensor->name))
        return stk_fail(err, STOKE_E_FORMAT, "%.200s: the name of a tensor holds control characters",
                        tensor->name);
    const stk_json_value *dtype = stk_json_find(json, entry, "dtype");
    const stk_json_value *offsets = stk_json_find(json, entry, "data_offsets");
    if (entry->kind != STK_JSON_OBJECT || entry->count != 3 || !dtype || dtype->kind != STK_JSON_STRING)
        return stk_fail(err, STOKE_E_FORMAT, "%.200s: not {\"dtype\", \"shape\", \"data_offsets\"}",
                        tensor->name);
    tensor->dtype = stk_json_text(json, dtype);
    const uint32_t size = look_up_dtype(tensor);
    if (!size)
        return stk_fail(err, STOKE_E_UNSUPPORTED, "%.200s: no dtype \"%.40s\" is known", tensor->name,
                        tensor->dtype);
    const int status = parse_shape(tensor, json, stk_json_find(json, entry, "shape"), err);
    if (status) return status;
    const stk_json_value *begin = stk_json_first(json, offsets);
    uint64_t end, wanted;
    if (!offsets || offsets->kind != STK_JSON_ARRAY || offsets->count != 2 ||
        !stk_json_uint(json, begin, &tensor->begin) ||
        !stk_json_uint(json, stk_json_next(json, begin), &end) || end < tensor->begin)
        return stk_fail(err, STOKE_E_FORMAT, "%.200s: \"data_offsets\" are not a begin and an end",
                        tensor->name);
    tensor->bytes = end - tensor->begin;
    if (__builtin_mul_overflow(tensor->count, size, &wanted) || wanted != tensor->bytes)
        return stk_fail(err, STOKE_E_FORMAT, "%.200s: %llu elements of %s do not take %llu bytes",
                        tensor->name, (unsigned long long)tensor->count, tensor->dtype,
                        (unsigned long long)tensor->bytes);
    return STOKE_OK;
}

static int check_metadata(const stk_json *json, const stk_json_value *metadata, stoke_error *err)
{
    int good = metadata->kind == STK_JSON_OBJECT;
    for (const stk_json_value *v = stk_json_first(json, metadata); v; v = stk_json_next(json, v))
        good &= v->kind == STK_JSON_STRING;
    return good ? STOKE_OK : stk_fail(err, STOKE_E_FORMAT, "__metadata__ holds more than strings");
}

/* Empty tensors come before the one that starts at the same byte. */
static int by_place(const void *a, const void *b)
{
    const stk_safetensors_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int check_places(stk_safetensors *file, uint64_t data_size, stoke_error *err)
{
    uint64_t end = 0;
    if (file->count) qsort(file->list, file->count, sizeof *file->list, by_place);
    for (size_t i = 0; i < file->count; i++) {
        const stk_safetensors_tensor *t = &file->list[i];
        if (t->begin != end)
            return stk_fail(err, STOKE_E_FORMAT, "%.200s: starts at byte %llu of the data, but %llu is next",
                            t->name, (unsigned long long)t->begin, (unsigned long long)end);
        end += t->bytes; /* begin + bytes came from one 64-bit number */
    }
    if (end != data_size)
        return stk_fail(err, STOKE_E_FORMAT, "%s: the tensors take %llu bytes, the file holds %llu",
                        end > data_size ? "cut off" : "bytes behind the last tensor", (unsigned long long)end,
                        (unsigned long long)data_size);
    return STOKE_OK;
}

static int parse_entries(stk_safetensors *file, uint64_t data_size, stoke_error *err)
{
    const stk_json *json = &file->json;
    const stk_json_value *root = &json->values[0];
    if (root->kind != STK_JSON_OBJECT)
        return stk_fail(err, STOKE_E_FORMAT, "the header is not a JSON object");
    file->list = stk_calloc(root->count, sizeof *file->list);
    if (!file->list) return stk_fail(err, STOKE_E_NOMEM, "no memory for %u tensors", (unsigned)root->count);
    for (const stk_json_value *v = stk_json_first(json, root); v; v = stk_json_next(json, v)) {
        const int metadata = strcmp(stk_json_key(json, v), "__metadata__") == 0;
        const int status =
            metadata ? check_metadata(json, v, err) : parse_tensor(&file->list[file->count++], json, v, err);
        if (status) return status;
    }
    return check_places(file, data_size, err);
}

int stk_safetensors_parse(stk_safetensors *file, const char *header, size_t length, uint64_t data_size,
                          stoke_error *err)
{
    *file = (stk_safetensors){ .fd = -1 };
    /* The format lets the header start with the brace only, so that a file has one meaning. */
    if (!length || *header != '{')
        return stk_fail(err, STOKE_E_FORMAT, "not a safetensors file: the header does not start with {");
    int status = stk_json_read(&file->json, header, length, STK_JSON_VALUES, err);
    if (!status) status = parse_entries(file, data_size, err);
    if (status) stk_safetensors_close(file);
    return status;
}

static int read_at(int fd, void *bytes, size_t size, uint64_t offset, stoke_error *err)
{
    const int number = stk_pread(fd, bytes, size, offset);
    if (number == STK_ENDED) return stk_fail(err, STOKE_E_IO, "became shorter while it was read");
    return number ? stk_fail_errno(err, STOKE_E_IO, number, "cannot read") : STOKE_OK;
}

static int read_header(stk_safetensors *file, int fd, stoke_error *err)
{
    struct stat st;
    uint8_t first[8];
    uint64_t length;
    if (stoke_fstat(fd, &st) != 0) return stk_fail_errno(err, STOKE_E_IO, errno, "cannot stat");
    if (!S_ISREG(st.st_mode)) return stk_fail(err, STOKE_E_IO, "not a regular file");
    if (st.st_size < 8) return stk_fail(err, STOKE_E_FORMAT, "not a safetensors file: under 8 bytes");
    int status = read_at(fd, first, sizeof first, 0, err);
    if (!status) status = stk_safetensors_length(first, (uint64_t)st.st_size, &length, err);
    if (status) return status;
    char *header = stk_alloc(length);
    if (!header)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a header of %llu bytes",
                        (unsigned long long)length);
    status = read_at(fd, header, length, 8, err);
    if (!status) status = stk_safetensors_parse(file, header, length, (uint64_t)st.st_size - 8 - length, err);
    stk_free(header);
    if (!status) file->data = 8 + length;
    return status;
}

int stk_safetensors_open(stk_safetensors *file, const char *path, stoke_error *err)
{
    *file = (stk_safetensors){ .fd = -1 };
    const int fd = stoke_open(path, O_RDONLY, 0);
    if (fd < 0)
        return stk_fail_errno(err, errno == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, errno, "%s: cannot open",
                              path);
    const int status = read_header(file, fd, err);
    if (status) {
        if (err) stk_error_prefix(err, path);
        close(fd);
        return status;
    }
    file->fd = fd;
    file->path = stk_strdup(path);
    if (file->path) return STOKE_OK;
    stk_safetensors_close(file);
    return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
}

void stk_safetensors_close(stk_safetensors *file)
{
    if (file->fd >= 0) close(file->fd);
    stk_json_free(&file->json);
    stk_free(file->list);
    stk_free(file->path);
    *file = (stk_safetensors){ .fd = -1 };
}

/* The chunk is aligned, whatever the tensor's place in the file. */
static void convert(stk_safetensors_type type, const void *chunk, float *values, size_t count)
{
    const uint16_t *halves = chunk;
    const double *doubles = chunk;
    if (type == STK_TENSOR_F16)
        for (size_t i = 0; i < count; i++) values[i] = k_from_f16(halves[i]);
    else if (type == STK_TENSOR_BF16)
        for (size_t i = 0; i < count; i++) values[i] = k_from_bf16(halves[i]);
    else
        for (size_t i = 0; i < count; i++) values[i] = (float)doubles[i];
}

static int read_floats(const stk_safetensors *file, const stk_safetensors_tensor *tensor, float *values,
                       stoke_error *err)
{
    union {
        uint8_t bytes[65536];
        double aligned;
    } chunk;
    const uint64_t start = file->data + tensor->begin;
    if (tensor->type == STK_TENSOR_F32) return read_at(file->fd, values, (size_t)tensor->bytes, start, err);
    const size_t width = tensor->type == STK_TENSOR_F64 ? 8 : 2;
    for (uint64_t done = 0; done < tensor->bytes;) {
        const uint64_t rest = tensor->bytes - done;
        const size_t part = rest < sizeof chunk ? (size_t)rest : sizeof chunk;
        const int status = read_at(file->fd, &chunk, part, start + done, err);
        if (status) return status;
        convert(tensor->type, &chunk, values + done / width, part / width);
        done += part;
    }
    return STOKE_OK;
}

int stk_safetensors_floats(const stk_safetensors *file, const stk_safetensors_tensor *tensor, float *values,
                           stoke_error *err)
{
    if (tensor->type > STK_TENSOR_F64)
        return stk_fail(err, STOKE_E_UNSUPPORTED, "%s: %.200s has dtype %s: F32, F16, BF16 and F64 are read",
                        file->path, tensor->name, tensor->dtype);
    const int status = read_floats(file, tensor, values, err);
    if (status && err) stk_error_prefix(err, file->path);
    return status;
}

int stk_safetensors_integer(const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                            uint64_t *value, stoke_error *err)
{
    int64_t read;
    if (tensor->type != STK_TENSOR_I64 || tensor->count != 1)
        return stk_fail(err, STOKE_E_FORMAT, "%s: %.200s is not one I64", file->path, tensor->name);
    const int status = read_at(file->fd, &read, sizeof read, file->data + tensor->begin, err);
    if (status) {
        if (err) stk_error_prefix(err, file->path);
        return status;
    }
    if (read < 0) return stk_fail(err, STOKE_E_FORMAT, "%s: %.200s is negative", file->path, tensor->name);
    *value = (uint64_t)read;
    return STOKE_OK;
}

int stk_safetensors_bytes(const stk_safetensors *file, const stk_safetensors_tensor *tensor, uint64_t from,
                          void *bytes, size_t size, stoke_error *err)
{
    const int status = read_at(file->fd, bytes, size, file->data + tensor->begin + from, err);
    if (status && err) stk_error_prefix(err, file->path);
    return status;
}

const char *stk_safetensors_metadata(const stk_safetensors *file, const char *key)
{
    const stk_json *json = &file->json;
    const stk_json_value *all = stk_json_find(json, &json->values[0], "__metadata__");
    return stk_json_text(json, stk_json_find(json, all, key));
}

/* ---- writing ---- */

/* Writing takes two passes over the list: the header is measured, padded and written, then the data follow
 * straight from where they lie, so that saving needs no second copy of the weights. */

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
