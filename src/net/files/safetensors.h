/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of named arrays as Hugging Face keeps weights: 8 bytes length of the header (little-endian), the
 * header as JSON, the data. A file is hostile until its header was checked: sizes multiply without overflow,
 * the tensors lie one after the other without gap or overlap and end where the file ends, so that no tensor
 * can reach outside, and no byte is hidden.
 */
#ifndef STOKE_SRC_NET_FILES_SAFETENSORS_H
#define STOKE_SRC_NET_FILES_SAFETENSORS_H

#include <stdio.h>

#include "src/base/json_read.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the format is little-endian, and so are the machines this was written for"
#endif

enum {
    STK_TENSOR_DIMS = 8,
    STK_SAFETENSORS_HEADER = 100000000 /* bytes: the limit of the format */
};

/* Only these are read into floats; the others of the format are known by their size alone. */
typedef enum stk_safetensors_type {
    STK_TENSOR_F32,
    STK_TENSOR_F16,
    STK_TENSOR_BF16,
    STK_TENSOR_F64,
    STK_TENSOR_I64,
    STK_TENSOR_OTHER
} stk_safetensors_type;

typedef struct stk_safetensors_tensor {
    const char *name, *dtype; /* as in the file; they live as long as the stk_safetensors */
    stk_safetensors_type type;
    uint32_t dims;
    uint64_t shape[STK_TENSOR_DIMS];
    uint64_t count;        /* elements: 1 for a scalar, 0 when a dimension is 0 */
    uint64_t begin, bytes; /* in the data */
} stk_safetensors_tensor;

typedef struct stk_safetensors {
    stk_json json;
    stk_safetensors_tensor *list; /* in the order of the data */
    size_t count;
    uint64_t data; /* where the data starts in the file */
    int fd;        /* -1: only parsed */
    char *path;
} stk_safetensors;

/* The length of the header from the first 8 bytes of a file of file_size bytes. */
int stk_safetensors_length(const uint8_t first[static 8], uint64_t file_size, uint64_t *length,
                           stoke_error *err);
/* The header; data_size: how much follows it. On failure there is nothing to close. */
int stk_safetensors_parse(stk_safetensors *file, const char *header, size_t length, uint64_t data_size,
                          stoke_error *err);

int stk_safetensors_open(stk_safetensors *file, const char *path, stoke_error *err);
void stk_safetensors_close(stk_safetensors *file); /* accepts what a failed call left */

/* Reads a tensor of F32, F16, BF16 or F64 into tensor->count floats; STOKE_E_UNSUPPORTED for other types. */
int stk_safetensors_floats(const stk_safetensors *file, const stk_safetensors_tensor *tensor, float *values,
                           stoke_error *err);
/* An I64 of one element that is not negative. */
int stk_safetensors_integer(const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                            uint64_t *value, stoke_error *err);

/* Bytes `from` .. `from` + `size` of a tensor's data as they stand in the file; they must lie within it. */
int stk_safetensors_bytes(const stk_safetensors *file, const stk_safetensors_tensor *tensor, uint64_t from,
                          void *bytes, size_t size, stoke_error *err);
/* The text under a key of `__metadata__`; NULL when there is none. It lives as long as the file. */
const char *stk_safetensors_metadata(const stk_safetensors *file, const char *key);

/* What to write: F32 or I64. Names are plain ASCII without quotes and backslashes. */
typedef struct stk_safetensors_source {
    const char *name;
    stk_safetensors_type type;
    uint32_t dims;
    const uint32_t *shape;
    const void *data;
} stk_safetensors_source;

/* An entry of `__metadata__`: valid UTF-8. */
typedef struct stk_safetensors_note {
    const char *key, *text;
} stk_safetensors_note;

/* The whole file to `stream`, straight from the arrays, byte for byte as the safetensors package does: the
 * list is sorted (wide types first, then by name), the header padded with blanks to a multiple of 8. There is
 * at least one note; several come in the order given, where the package's order is that of a hash table. 0: a
 * write failed, errno tells why. */
int stk_safetensors_write(FILE *stream, stk_safetensors_source *list, size_t count,
                          const stk_safetensors_note *notes, size_t note_count);

#endif
