/* SPDX-License-Identifier: Apache-2.0
 *
 * A device as the rest of the library sees it: memory, streams, events, copies, kernels. One table of
 * functions a kind; nobody outside this room sees a vendor's type.
 *
 *   device.c         what all kinds have in common: arguments checked, failures kept, memory counted
 *   device_open.c    names, and what there is
 *   device_memory.c  pinned memory for loaders, buffers for callers
 *   program.c        the kernels, as text and as C
 *   host.c, opencl.c, cuda.c, sim.c   a kind each
 *
 * Streams run their work in order; work of two streams is ordered by events only. Everything here may be
 * called from any thread, one thread at a time for one stream. After STOKE_E_DEVICE the device is lost: every
 * call fails with the first message, destroying still frees everything. Everything is destroyed before its
 * device, in any order: streams and events also with work under way, which is carried out first; blocks and
 * modules when the work that uses them has passed.
 */
#ifndef STOKE_SRC_DEVICE_DEVICE_H
#define STOKE_SRC_DEVICE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stoke/device.h>

/* A program: kernels as text for compilers at run time, as PTX where nvcc was there at build time, and as C.
 */

/* Runs the work items from[] .. to[] - 1 of a kernel. arguments[i] is the address of the block, or of the
 * value. */
typedef void stk_host_kernel(void *const *arguments, const uint32_t from[3], const uint32_t to[3]);

typedef struct stk_program_ptx {
    uint32_t architecture; /* 80: compute_80 */
    const char *text;      /* ends with a zero */
    size_t bytes;
} stk_program_ptx;

typedef struct stk_program {
    const char *name;
    const char *text; /* OpenCL C and CUDA C at once; includes resolved; ends with a zero */
    size_t text_bytes;
    const char *const *kernels; /* names */
    const uint8_t *arguments;   /* of each, the shape included */
    stk_host_kernel *const *host;
    uint32_t n_kernels;         /* at most STK_KERNELS */
    const stk_program_ptx *ptx; /* by rising architecture; n_ptx 0: none was made */
    uint32_t n_ptx;
} stk_program;

/* The kernels of kernels/, in the order of kernels.def. */
enum stk_program_kernel {
#define KERNEL(name, arguments) STK_KERNEL_##name,
#include "kernels/kernels.def"
#undef KERNEL
    STK_KERNELS
};
extern const stk_program stk_augment_program;

typedef enum stk_device_memory_kind {
    STK_MEMORY_PAGEABLE, /* ordinary host memory */
    STK_MEMORY_PINNED,   /* pinned: copies from it are asynchronous and faster */
    STK_MEMORY_DEVICE
} stk_device_memory_kind;

typedef struct stk_device_block {
    stoke_device *device;
    stk_device_memory_kind kind;
    size_t bytes;
    void *host;       /* its address on the host; NULL for device memory that the host cannot see */
    uintptr_t handle; /* of device memory: the kind's own (address, cl_mem) */
    void *own;        /* what else the kind keeps */
} stk_device_block;

/* Each kind has its own, which begin with `stoke_device *device`; a module, which is a program compiled, goes
 * on with `const stk_program *program`. */
typedef struct stk_device_stream stk_device_stream;
typedef struct stk_device_event stk_device_event;
typedef struct stk_device_module stk_device_module;

/* Arguments of a launch: device blocks, none of them missing, then the shape by value. */
typedef struct stk_device_argument {
    const stk_device_block *block; /* NULL: by value, the last one only */
    const void *value;
    size_t bytes;
} stk_device_argument;

/* Of one kernel: arguments, and the bytes of one by value. */
enum { STK_ARGUMENTS_MAX = 16, STK_VALUE_MAX = 256 };

typedef struct stk_device_launch {
    uint32_t kernel;  /* index in the program */
    uint32_t grid[3]; /* work items; none may be 0 */
    const stk_device_argument *arguments;
    uint32_t n_arguments;
    uint64_t traffic; /* bytes read and written, for the model of simulated GPUs; others ignore it */
} stk_device_launch;

/* What a kind implements. Arguments have been checked; `err` is never NULL but for `enter`. A function that
 * fails cleans up after itself. Streams, events and modules come zeroed but for their first members. */
typedef struct stk_device_fns {
    const char *kind;
    size_t stream_bytes, event_bytes, module_bytes;
    /* Appends what there is to a list (stk_device_list_add), or the kind with a problem. Never fails. */
    void (*discover)(stoke_device_list *list);
    /* `which` is what follows the colon: "", "0", "rtx3090". Fills device->info and device->own. */
    int (*open)(stoke_device *device, const char *which, const stoke_device_params *params, stoke_error *err);
    void (*close)(stoke_device *device); /* also after a failed open */
    /* The functions below are called between these two; NULL: they need nothing. err NULL: for destroying.
     * What cannot be entered for that goes with the device. */
    int (*enter)(stoke_device *device, stoke_error *err);
    void (*leave)(stoke_device *device);
    int (*memory)(stoke_device *device, uint64_t *free_bytes, uint64_t *total_bytes, stoke_error *err);

    /* Pinned or device memory; device, kind, bytes are set. */
    int (*block_create)(stk_device_block *block, stoke_error *err);
    void (*block_destroy)(stk_device_block *block);

    int (*stream_create)(stk_device_stream *stream, stoke_error *err);
    void (*stream_destroy)(stk_device_stream *stream); /* waits for its work, unless it is someone else's */
    /* Someone else's stream (CUstream) as ours; NULL: the kind has none. */
    int (*stream_wrap)(stk_device_stream *stream, void *native, stoke_error *err);
    int (*stream_finish)(stk_device_stream *stream, stoke_error *err);
    /* Later work of the stream waits for the event. An event never recorded holds nothing up. */
    int (*stream_wait)(stk_device_stream *stream, stk_device_event *event, stoke_error *err);

    int (*event_create)(stk_device_event *event, stoke_error *err); /* NULL: a zeroed one will do */
    void (*event_destroy)(stk_device_event *event);
    int (*event_record)(stk_device_event *event, stk_device_stream *stream,
                        stoke_error *err);                          /* again and again */
    int (*event_finish)(stk_device_event *event, stoke_error *err); /* the host waits */
    int (*event_done)(stk_device_event *event, int *done, stoke_error *err);
    /* When it happened, on the host's CLOCK_MONOTONIC; only after it has. */
    int (*event_time)(stk_device_event *event, uint64_t *ns, stoke_error *err);

    /* Never 0 bytes, never overlapping. Host blocks may be made by the caller around memory it has
     * (device, kind, bytes, host). */
    int (*copy)(stk_device_stream *stream, const stk_device_block *to, size_t to_at,
                const stk_device_block *from, size_t from_at, size_t bytes, stoke_error *err);

    int (*module_create)(stk_device_module *module, stoke_error *err); /* both NULL: nothing to do */
    void (*module_destroy)(stk_device_module *module);
    int (*launch)(stk_device_stream *stream, stk_device_module *module, const stk_device_launch *launch,
                  stoke_error *err);

    /* The stream is busy computing for so long: a simulated training step. NULL: the kind has to compute for
     * it (`spin`). */
    int (*occupy)(stk_device_stream *stream, uint64_t ns, stoke_error *err);
} stk_device_fns;

extern const stk_device_fns stk_device_host, stk_device_opencl, stk_device_cuda, stk_device_sim;
/* All of them in the order of lists; NULL ends it. */
extern const stk_device_fns *const stk_device_kinds[];

struct stoke_device {
    const stk_device_fns *fns;
    stoke_device_info info;
    void *own; /* of the kind, which looks at nothing below */

    pthread_mutex_t lock;
    atomic_int is_lost;        /* set once, after `lost` */
    stoke_error lost;          /* the first STOKE_E_DEVICE */
    uint64_t limit;            /* of device memory; 0 = the kind decides */
    uint64_t taken;            /* device memory of this process */
    stoke_error pinned_failed; /* of the allocator; code 0: none did */
};

/* device.c: the calls for the rest of the library. They check, keep the first STOKE_E_DEVICE, count memory
 * against params.memory_limit (STOKE_E_NOMEM with the arithmetic), and accept err NULL. */
int stk_block_create(stk_device_block *block, stoke_device *device, stk_device_memory_kind kind, size_t bytes,
                     stoke_error *err);
void stk_block_destroy(stk_device_block *block); /* zeroed afterwards; zeroed blocks are fine */
int stk_stream_create(stk_device_stream **out, stoke_device *device, stoke_error *err);
int stk_stream_wrap(stk_device_stream **out, stoke_device *device, void *native, stoke_error *err);
void stk_stream_destroy(stk_device_stream **stream);
int stk_stream_finish(stk_device_stream *stream, stoke_error *err);
int stk_stream_wait(stk_device_stream *stream, stk_device_event *event, stoke_error *err);
int stk_stream_copy(stk_device_stream *stream, const stk_device_block *to, size_t to_at,
                    const stk_device_block *from, size_t from_at, size_t bytes, stoke_error *err);
int stk_stream_launch(stk_device_stream *stream, stk_device_module *module, const stk_device_launch *launch,
                      stoke_error *err);
/* STOKE_E_UNSUPPORTED where the kind has none. */
int stk_stream_occupy(stk_device_stream *stream, uint64_t ns, stoke_error *err);
int stk_event_create(stk_device_event **out, stoke_device *device, stoke_error *err);
void stk_event_destroy(stk_device_event **event);
int stk_event_record(stk_device_event *event, stk_device_stream *stream, stoke_error *err);
int stk_event_finish(stk_device_event *event, stoke_error *err);
int stk_event_done(stk_device_event *event, int *done, stoke_error *err);
int stk_event_time(stk_device_event *event, uint64_t *ns, stoke_error *err);
int stk_module_create(stk_device_module **out, stoke_device *device, const stk_program *program,
                      stoke_error *err);
void stk_module_destroy(stk_device_module **module);

/* For `discover`: what there is, or with err what is wrong with it. */
int stk_device_list_add(stoke_device_list *list, const stoke_device_info *info, const stoke_error *err);
/* Ordinary memory, which is the same for every kind. */
int stk_block_pageable(stk_device_block *block, stoke_error *err);

#endif
