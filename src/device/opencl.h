/* SPDX-License-Identifier: Apache-2.0
 *
 * An open OpenCL device, shared by
 *
 *   opencl.c          opening, memory, streams, copies
 *   opencl_event.c    events, and their times on the host's clock
 *   opencl_module.c   programs: compiled or from the cache, and launches
 *
 * A stream is an in-order queue with profiling. OpenCL 1.2 calls may come from any thread; the exception,
 * arguments of a kernel, is guarded by the module's lock.
 */
#ifndef STOKE_SRC_DEVICE_OPENCL_H
#define STOKE_SRC_DEVICE_OPENCL_H

#include <pthread.h>
#include <stdatomic.h>

#include "src/base/mem.h"
#include "src/device/device.h"

/* OpenCL as found at run time: the functions of the ICD loader, and the devices behind it with what is wrong
 * with them. Nothing is linked: the headers give types, dlopen gives the rest.
 */

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <stoke/device.h>

/* Each function as its own member name; tests put others in their place. */
typedef struct stk_opencl_driver {
#define OPENCL(name) __typeof__(&name) name;
#include "src/device/opencl_functions.def"
#undef OPENCL
} stk_opencl_driver;

#define STK_OPENCL_LIBRARY "libOpenCL.so.1"
/* STOKE_E_NOTFOUND: no such library; STOKE_E_UNSUPPORTED: it lacks a function. A loaded library stays for the
 * life of the process (drivers keep threads and exit handlers in it), so there is nothing to close. */
int stk_opencl_load(stk_opencl_driver *cl, const char *library, stoke_error *err);

const char *stk_opencl_code_name(cl_int code); /* "CL_INVALID_VALUE"; "an unknown code" */

/* Text of a device, or of a platform when `device` is NULL: cut to fit, blanks tidied; "" when the driver
 * does not say. */
void stk_opencl_text(const stk_opencl_driver *cl, cl_platform_id platform, cl_device_id device, cl_uint what,
                     char *text, size_t size);
/* A number or a set of flags of `size` bytes; zeroed when the driver does not say. */
void stk_opencl_value(const stk_opencl_driver *cl, cl_device_id device, cl_device_info what, void *value,
                      size_t size);

typedef struct stk_opencl_found {
    cl_platform_id platform;
    cl_device_id device; /* NULL: a platform without devices, or no platform at all: info.problem says why */
    unsigned number;     /* of the device, over all platforms */
    stoke_device_info info; /* with info.problem: no use */
} stk_opencl_found;

typedef int stk_opencl_visit(void *context, const stk_opencl_found *found);
/* Visits every device of every platform, usable or not; non-zero from `visit` ends it. A platform that fails
 * is one visit without a device and hides nobody. */
void stk_opencl_walk(const stk_opencl_driver *cl, stk_opencl_visit *visit, void *context);

typedef struct stk_opencl {
    stk_opencl_driver cl;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue chores;   /* for what no stream asked for: maps, first allocations, reading the clock */
    uint64_t total, largest;   /* device memory in all, and of one block */
    _Atomic uint64_t taken;    /* by blocks of ours */
    size_t items_max[3];       /* of a work group, along each axis */
    char options[96];          /* of the compiler */
    char *cache;               /* folder of compiled programs; NULL: none */
    pthread_mutex_t lock;      /* of the clock */
    int64_t clock_offset;      /* host's CLOCK_MONOTONIC less the device's clock, ns */
    int clock_twin;            /* the host's clock that the device's is; -1: none */
    uint64_t clock_checked_ns; /* when the offset was last looked at */
    uint64_t last_device_ns, last_host_ns; /* the latest time that was told, on both clocks */
} stk_opencl;

struct stk_device_stream {
    stoke_device *device;
    cl_command_queue queue;
};

struct stk_device_event {
    stoke_device *device;
    pthread_mutex_t lock;
    cl_event marker; /* NULL: never recorded */
    uint64_t recorded_ns,
        seen_ns; /* on the host: before the record, and once it had happened; 0 = not seen */
};

struct stk_device_module {
    stoke_device *device;
    const stk_program *program;
    cl_program compiled;
    pthread_mutex_t lock; /* arguments are part of a kernel until it is launched */
    cl_kernel kernels[STK_KERNELS];
    size_t limits[STK_KERNELS]; /* work items in a group of each */
};

static inline stk_opencl *stk_opencl_of(const stoke_device *device)
{
    return device->own;
}

/* Opens with functions that are already there: tests bring their own. */
int stk_opencl_start(stoke_device *device, const stk_opencl_driver *cl, const char *which,
                     const stoke_device_params *params, stoke_error *err);

/* STOKE_OK for CL_SUCCESS. Out of memory, by whatever code, is STOKE_E_NOMEM and leaves the device alive; all
 * else is STOKE_E_DEVICE with the call and the name of the code. */
int stk_opencl_check(const stoke_device *device, const char *call, cl_int code, stoke_error *err);
/* The same for calls that wait for the device: there CL_OUT_OF_RESOURCES is how drivers report a kernel that
 * crashed, and nothing is allocated, so that every failure is the device's. */
int stk_opencl_check_wait(const stoke_device *device, const char *call, cl_int code, stoke_error *err);

/* opencl_event.c */
int stk_opencl_event_create(stk_device_event *event, stoke_error *err);
void stk_opencl_event_destroy(stk_device_event *event);
int stk_opencl_event_record(stk_device_event *event, stk_device_stream *stream, stoke_error *err);
int stk_opencl_event_finish(stk_device_event *event, stoke_error *err);
int stk_opencl_event_done(stk_device_event *event, int *done, stoke_error *err);
int stk_opencl_event_time(stk_device_event *event, uint64_t *ns, stoke_error *err);
int stk_opencl_stream_wait(stk_device_stream *stream, stk_device_event *event, stoke_error *err);
/* Looks at the device's clock for the first time. */
int stk_opencl_clock_start(stoke_device *device, stoke_error *err);

/* opencl_module.c */
int stk_opencl_module_create(stk_device_module *module, stoke_error *err);
void stk_opencl_module_destroy(stk_device_module *module);
int stk_opencl_launch(stk_device_stream *stream, stk_device_module *module, const stk_device_launch *launch,
                      stoke_error *err);
/* How work items are grouped: `global` is `grid` rounded up to whole groups `local` of at most `limit`. */
void stk_opencl_groups(const uint32_t grid[3], size_t limit, const size_t items_max[3], size_t global[3],
                       size_t local[3]);

/* Compiled OpenCL programs on disk, one file a program and device: opencl-KEY.bin. Only a shortcut: whatever
 * is not exactly as it was written is passed over and made again. No OpenCL in here.
 *
 * Little-endian:
 *   16 bytes  "stoke-opencl-1\n" and a zero
 *   16 bytes  key
 *   u64       bytes of the binary
 *   binary
 *   16 bytes  XXH3-128 of all that stands before
 */

enum { STK_OPENCL_KEY = 16, STK_OPENCL_CACHE_EXTRA = 56 /* bytes of a file besides the binary */ };

typedef struct stk_opencl_key {
    uint8_t bytes[STK_OPENCL_KEY];
} stk_opencl_key;

/* XXH3-128 of the parts, each with its length, so that no two lists of parts run together alike. 0: no
 * memory. */
int stk_opencl_key_of(stk_opencl_key *key, const char *const *parts, size_t n_parts);

/* The binary within the bytes of a file; NULL: damaged, of another version or another key. */
const void *stk_opencl_cache_parse(const void *file, size_t file_bytes, const stk_opencl_key *key,
                                   size_t *bytes);

/* Where compiled programs are kept: `wanted`, by default $XDG_CACHE_HOME/stokehold or ~/.cache/stokehold.
 * From the heap; NULL: nowhere ("" was wanted, nobody has a home, no memory). */
char *stk_opencl_cache_folder(const char *wanted);
/* "FOLDER/opencl-KEY.SUFFIX" from the heap; NULL: no memory. */
char *stk_opencl_cache_path(const char *folder, const stk_opencl_key *key, const char *suffix);

/* Reads a program into the buffer. A binary is code that the driver will run: only a regular file of this
 * user's that not everybody may write is taken. NULL: there is none that could be used. */
const void *stk_opencl_cache_read(const char *folder, const stk_opencl_key *key, stk_mem_buffer *buffer,
                                  size_t *bytes);
/* Makes the folder and its marker. 0: it cannot be written, or is somebody else's; nothing is kept then. */
int stk_opencl_cache_make(const char *folder);
/* Makes the folder and writes the file, whole or not at all. 0: it could not, which costs a compilation next
 * time and nothing else. */
int stk_opencl_cache_write(const char *folder, const stk_opencl_key *key, const void *binary, size_t bytes);

#endif
