/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack's structs (https://dmlc.github.io/dlpack). They are the protocol: their layout is fixed.
 */
#ifndef STOKE_PYTHON_SRC_DLPACK_H
#define STOKE_PYTHON_SRC_DLPACK_H

#include <stdint.h>

typedef struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t dims;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

/* Before version 1. */
typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };
enum { DL_FLAG_COPIED = 1 << 1 };

/* Names of a capsule that nobody took yet. */
#define PY_DLPACK_PLAIN     "dltensor"
#define PY_DLPACK_VERSIONED "dltensor_versioned"

#endif
