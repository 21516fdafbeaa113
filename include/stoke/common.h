/* SPDX-License-Identifier: Apache-2.0
 *
 * What every other header needs: export mark, status codes, errors, the allocator hook.
 *
 * Conventions of the whole API
 *   - Functions return 0 (STOKE_OK) or a negative STOKE_E_*; counts and sizes are never errors.
 *   - A `stoke_error *err` argument may be NULL. Whoever detects a fault writes the message once;
 *     nobody rewrites it on the way up. There is no global or thread-local error.
 *   - `create`/`open` gives an object, `destroy`/`close` takes `&object`, sets it to NULL and accepts
 *     NULL and half-built objects.
 *   - Params structs start with `struct_size`, set by their `_defaults()`; strings in them are borrowed
 *     and need to live until the call that takes the struct returns.
 *   - The library never prints, exits or aborts.
 */
#ifndef STOKE_COMMON_H
#define STOKE_COMMON_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define STOKE_EXPORT            __attribute__((visibility("default")))
#define STOKE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define STOKE_EXPORT
#define STOKE_PRINTF(fmt, args)
#endif

/* Stands before every function of these headers. */
#ifdef __cplusplus
#define STOKE_API extern "C" STOKE_EXPORT
#else
#define STOKE_API STOKE_EXPORT
#endif

#define STOKE_VERSION_MAJOR 0
#define STOKE_VERSION_MINOR 1
#define STOKE_VERSION_PATCH 0

/* "0.1.0": the version of the library that is linked, which may be newer than the header. */
STOKE_API const char *stoke_version(void);

/* Values are pinned: a new code gets a new number, an old number never changes its meaning. */
enum stoke_status {
    STOKE_OK = 0,
    STOKE_E_INVALID = -1,     /* an argument or setting is out of range or contradicts another     */
    STOKE_E_NOMEM = -2,       /* the allocator said no                                             */
    STOKE_E_IO = -3,          /* open, read, write, rename failed; the message has errno's text    */
    STOKE_E_FORMAT = -4,      /* bytes are not what they claim to be: truncated, damaged, hostile  */
    STOKE_E_UNSUPPORTED = -5, /* well-formed, but a kind this library does not read                */
    STOKE_E_LIMIT = -6,       /* more pixels, bytes or memory than the limit in force              */
    STOKE_E_LABEL = -7,       /* a mask value that is no class and not ignore_index                */
    STOKE_E_SIZE = -8,        /* mask and image differ in size                                     */
    STOKE_E_NOTFOUND = -9,    /* nothing by that name                                              */
    STOKE_E_TOO_BAD = -10,    /* more bad samples than max_bad allows                              */
    STOKE_E_STATE = -11,      /* saved state does not fit the data or settings; or wrong call order */
    STOKE_E_STARVED = -12,    /* every slot is held by the caller: release a batch first           */
    STOKE_E_CANCELLED = -13,  /* a progress callback asked to stop                                 */
    STOKE_E_END = -14,        /* not a failure: the epoch has no more batches                      */
    STOKE_E_DEVICE = -15,     /* a device or its driver failed or was lost; the position is kept   */
    STOKE_E_TIMEOUT = -16,    /* not a failure: not ready by the time given; ask again             */
    STOKE_E_RESOURCES = -17   /* descriptors, threads or locks are used up: no file's fault        */
};

/* Short stable name of a code for logs and JSON, e.g. "format". Unknown codes give "unknown". */
STOKE_API const char *stoke_status_name(int status);

enum { STOKE_ERROR_TEXT = 1024 };

/* Filled only on failure. The message names the file and the reason and ends without a newline. */
typedef struct stoke_error {
    int code;
    char message[STOKE_ERROR_TEXT];
} stoke_error;

/* Where large buffers (batch slots) come from; pinned memory is plugged in here.
 * `alloc` returns NULL on failure. Called from the thread that creates or destroys the loader. */
typedef struct stoke_allocator {
    void *(*alloc)(void *context, size_t bytes, size_t alignment);
    void (*release)(void *context, void *pointer, size_t bytes);
    void *context;
} stoke_allocator;
/* What is used where none is given: pages of their own, huge ones if the kernel has them, aligned to a page
 * and given back to the kernel on release. The alignment asked for may be up to 4096. Any thread. */
STOKE_API stoke_allocator stoke_allocator_pages(void);

/* Called now and then from the calling thread during long work; total 0 = unknown.
 * A non-zero return asks to stop: the call then returns STOKE_E_CANCELLED. */
typedef int (*stoke_progress_fn)(void *context, uint64_t done, uint64_t total);

/* Where bytes lie: a file, or a part of one (a member of a tar shard). */
typedef struct stoke_blob {
    const char *path;
    uint64_t offset, size; /* size UINT64_MAX: the whole file */
} stoke_blob;

/* Strings that settings point to after they were read from a file. Free it after their last use. */
typedef struct stoke_option_storage stoke_option_storage;
STOKE_API void stoke_options_free_storage(stoke_option_storage **storage);

#endif
