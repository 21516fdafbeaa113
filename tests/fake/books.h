/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the fake driver share.
 *
 *   books.c     objects, faults, contexts; failures on request
 *   queue.c     streams: work that is put off and then done
 *   libcuda.c   the driver's functions
 */
#ifndef STOKE_TESTS_FAKE_BOOKS_H
#define STOKE_TESTS_FAKE_BOOKS_H

#include <stdint.h>

#include "kernels/tables.h"
#include "src/device/cuda.h"
#include "src/device/device.h"
#include "tests/fake/fake_cuda.h"

enum { FAKE_CARDS = 2 };

typedef enum fake_kind {
    FAKE_MEMORY,
    FAKE_PINNED,
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_FUNCTION
} fake_kind;

struct CUctx_st {
    int card, holders; /* 0 = not there */
};

/* A place in a stream. */
typedef struct fake_point {
    struct fake_object *stream; /* NULL = nowhere */
    uint64_t number;            /* of the work there, from 1 */
} fake_point;

typedef enum fake_work_kind { FAKE_COPY, FAKE_LAUNCH, FAKE_RECORD, FAKE_WAIT } fake_work_kind;

typedef struct fake_work {
    struct fake_work *next;
    fake_work_kind kind;
    struct fake_object *object; /* event, function */
    fake_point until;           /* FAKE_WAIT */
    uintptr_t to, from;         /* FAKE_COPY: addresses as given */
    void *staged;               /* what was at `from` in pageable memory */
    size_t bytes;
    CUdeviceptr blocks[STK_ARGUMENTS_MAX]; /* FAKE_LAUNCH */
    k_shape shape;
    uint32_t items[3];
} fake_work;

/* Everything a handle can point to. Objects stay in the books when they are destroyed: that is how a use
 * afterwards is found. */
typedef struct fake_object {
    struct fake_object *next;
    fake_kind kind;
    int alive;
    struct CUctx_st *context;
    /* memory */
    uintptr_t address; /* of pinned memory: the bytes themselves */
    unsigned char *bytes;
    size_t size;
    /* streams */
    fake_work *first, *last;
    uint64_t given, done; /* numbers of work */
    int is_default;
    /* events */
    unsigned flags;
    fake_point recorded;
    uint64_t time_ns;
    /* modules and their functions */
    char *text;
    struct fake_object *module;
    uint32_t kernel; /* of stk_augment_program */
} fake_object;

/* ---- books.c ---- */

extern fake_cuda_settings fake_settings;
extern struct CUctx_st fake_contexts[FAKE_CARDS];
extern fake_object *fake_objects;

enum {
    FAKE_ANYTIME = 1, /* does not need cuInit */
    FAKE_CONTEXT = 2, /* needs a current context */
    FAKE_ENDS =
        4, /* destroys, pops, releases: does so also when made to fail, and after the device is lost */
    FAKE_WAITS = 8,   /* may be tried after the device is lost, and reports that */
    FAKE_ASKS = 16,   /* has nothing to do with a loss */
    FAKE_UNHEARD = 32 /* who ends things has no use for what it returns */
};

/* Every function of the driver begins with begin, which locks, and ends with end, which gives `result` back.
 * begin returns what the call must return at once, or 0; *late is what it must return after having worked. */
CUresult fake_begin(const char *call, int rules, CUresult *late);
CUresult fake_end(CUresult result);
void fake_set_initialised(void);
/* From now on every call returns it. A program that was told, by a call whose result matters, may not go on.
 */
void fake_lose(CUresult result);
CUresult fake_lost(void);

void fake_fault(const char *format, ...) STOKE_PRINTF(1, 2);
void fake_leak(const char *format, ...) STOKE_PRINTF(1, 2);

fake_object *fake_add(fake_kind kind); /* in the current context */
/* The living object of a kind behind a handle, or NULL after writing down a fault. */
fake_object *fake_find(const void *handle, fake_kind kind, const char *call);
/* Memory of a kind that holds the address; NULL = none. Dead memory too. */
fake_object *fake_memory_at(uintptr_t address, fake_kind kind);
/* Where `bytes` of device memory at an address really are, or NULL after writing down a fault. */
void *fake_reach(uintptr_t address, size_t bytes, const char *call);
size_t fake_memory_used(int card);
void fake_end_object(fake_object *object);

struct CUctx_st *fake_current(void);
int fake_push(struct CUctx_st *context);
struct CUctx_st *fake_pop(void);
int fake_depth(void);
/* A context goes: what it still has is leaked. */
void fake_end_context(struct CUctx_st *context);

/* ---- queue.c ---- */

/* The stream of a handle, which may be NULL for the default one; or NULL after a fault. */
fake_object *fake_stream(CUstream handle, const char *call);
/* Puts a copy of the work at the end of a stream. */
void fake_give(fake_object *stream, const fake_work *work);
void fake_run(fake_point until);
void fake_run_one(fake_object *stream); /* the next one */
void fake_run_all(struct CUctx_st *context);
int fake_is_done(fake_point point);
void fake_drop_work(fake_object *stream);
/* 1: work that is still to be done uses the object. */
int fake_is_needed(const fake_object *object);

#endif
