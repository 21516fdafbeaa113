/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs for NVIDIA cards. PTX that was made at build time is tried first; where there is none that fits,
 * or the driver is older than it, NVRTC makes it from the text. Either way the driver turns PTX into the
 * card's own code and keeps that on disk (~/.nv/ComputeCache), so nothing is cached here.
 *
 * a * b + c must stay a product and a sum: --fmad=false makes the compiler write mul.rn and add.rn, which the
 * driver may not join. Quotients and roots are correctly rounded unless asked otherwise.
 */
#include "src/device/cuda.h"

#include <stdio.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"

#define CALL STK_CUDA_CALL

enum { LOG_BYTES = 4096 };

/* Puts what a compiler had to say behind the message, whose end is lost when it is too long. */
static void add_log(stoke_error *err, const char *log)
{
    if (*log) stk_error_add(err, ":");
    stk_error_add_lines(err, log, strlen(log));
}

/* Hands PTX to the driver. */
static int load(stk_device_module *module, const char *ptx, stoke_error *err)
{
    stk_cuda *cuda = module->device->own;
    char log[LOG_BYTES] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)(uintptr_t)(sizeof log - 1) };
    int r = CALL(cuda, cuModuleLoadDataEx, &module->handle, ptx, 2, options, values);
    if (r) add_log(err, log);
    return r;
}

/* ---- NVRTC ---- */

typedef struct compilation {
    stk_cuda *cuda;
    stk_cuda_nvrtc nvrtc;
    const stk_program *program;
    nvrtcProgram handle;
    stoke_error *err;
} compilation;

/* A call of the compiler as a status, with its name in the message. */
#define COMPILER(c, function, ...) compiler_status(c, (c)->nvrtc.function(__VA_ARGS__), #function)

static int compiler_status(const compilation *c, nvrtcResult result, const char *call)
{
    if (result == NVRTC_SUCCESS) return STOKE_OK;
    return stk_fail(c->err, result == NVRTC_ERROR_OUT_OF_MEMORY ? STOKE_E_NOMEM : STOKE_E_UNSUPPORTED,
                    "%s: program %s: %s of NVRTC %d.%d says %s", c->cuda->name, c->program->name, call,
                    c->nvrtc.major, c->nvrtc.minor, c->nvrtc.nvrtcGetErrorString(result));
}

/* The newest architecture that both the compiler and the card know. */
static int choose_architecture(const compilation *c, int *chosen)
{
    const int card = (int)c->cuda->architecture;
    int known[128], count = 0;
    int r = COMPILER(c, nvrtcGetNumSupportedArchs, &count);
    if (r) return r;
    if (count < 1 || count > (int)(sizeof known / sizeof *known))
        return stk_fail(c->err, STOKE_E_UNSUPPORTED, "%s: NVRTC %d.%d says it knows %d architectures",
                        c->cuda->name, c->nvrtc.major, c->nvrtc.minor, count);
    r = COMPILER(c, nvrtcGetSupportedArchs, known);
    if (r) return r;
    int lowest = known[0];
    *chosen = 0;
    for (int i = 0; i < count; i++) {
        if (known[i] < lowest) lowest = known[i];
        if (known[i] > *chosen && known[i] <= card) *chosen = known[i];
    }
    if (*chosen) return STOKE_OK;
    return stk_fail(c->err, STOKE_E_UNSUPPORTED,
                    "%s: the card is of compute capability %d.%d, NVRTC %d.%d compiles for %d.%d and newer: "
                    "install an older one (12.x goes down to 5.0)",
                    c->cuda->name, card / 10, card % 10, c->nvrtc.major, c->nvrtc.minor, lowest / 10,
                    lowest % 10);
}

/* *ptx is for stk_free. */
static int compile_for(const compilation *c, int architecture, char **ptx)
{
    char target[48];
    snprintf(target, sizeof target, "--gpu-architecture=compute_%d", architecture);
    const char *options[] = { target, "--fmad=false" };
    size_t bytes = 0;
    int r = COMPILER(c, nvrtcCompileProgram, c->handle, 2, options);
    if (r) {
        const int has_log = c->nvrtc.nvrtcGetProgramLogSize(c->handle, &bytes) == NVRTC_SUCCESS && bytes >= 2;
        char *log = has_log ? stk_alloc(bytes) : NULL;
        if (log && c->nvrtc.nvrtcGetProgramLog(c->handle, log) == NVRTC_SUCCESS) add_log(c->err, log);
        stk_free(log);
        return r;
    }
    r = COMPILER(c, nvrtcGetPTXSize, c->handle, &bytes);
    if (r) return r;
    *ptx = stk_alloc(bytes);
    if (!*ptx) return stk_fail(c->err, STOKE_E_NOMEM, "no memory for a program of %zu bytes", bytes);
    return COMPILER(c, nvrtcGetPTX, c->handle, *ptx);
}

static int load_text(stk_device_module *module, stoke_error *err)
{
    stk_cuda *cuda = module->device->own;
    const stk_program *program = module->program;
    compilation c = { .cuda = cuda, .program = program, .err = err };
    char *ptx = NULL;
    int architecture = 0, r = stk_nvrtc_open(&c.nvrtc, cuda->driver.version, err);
    if (r) return r;
    r = choose_architecture(&c, &architecture);
    if (!r) r = COMPILER(&c, nvrtcCreateProgram, &c.handle, program->text, program->name, 0, NULL, NULL);
    if (!r) r = compile_for(&c, architecture, &ptx);
    if (c.handle) c.nvrtc.nvrtcDestroyProgram(&c.handle);
    stk_nvrtc_close(&c.nvrtc);
    if (!r) r = load(module, ptx, err);
    stk_free(ptx);
    return r;
}

/* ---- the module ---- */

/* PTX at hand, the newest that the card can run, else the text. When neither does, both reasons count: the
 * first is what is to be mended. */
static int load_either(stk_device_module *module, stoke_error *err)
{
    const stk_cuda *cuda = module->device->own;
    const stk_program *program = module->program;
    const stk_program_ptx *ptx = NULL;
    for (uint32_t i = 0; i < program->n_ptx && program->ptx[i].architecture <= cuda->architecture; i++)
        ptx = &program->ptx[i];
    if (!ptx) return load_text(module, err);
    int r = load(module, ptx->text, err);
    if (r != STOKE_E_UNSUPPORTED) return r;
    stoke_error second;
    r = load_text(module, &second);
    if (r == STOKE_E_DEVICE) *err = second;
    if (!r || r == STOKE_E_DEVICE) return r;
    const size_t line = strcspn(second.message, "\n"); /* a log may follow */
    stk_error_add(err, "; and from the text: %.*s", (int)line, second.message);
    stk_error_add_lines(err, second.message + line, strlen(second.message + line));
    return err->code;
}

int stk_cuda_module_create(stk_device_module *module, stoke_error *err)
{
    stk_cuda *cuda = module->device->own;
    const stk_program *program = module->program;
    int r = load_either(module, err);
    for (uint32_t i = 0; !r && i < program->n_kernels; i++) {
        r = CALL(cuda, cuModuleGetFunction, &module->kernels[i], module->handle, program->kernels[i]);
        if (r) stk_error_add(err, "; kernel %s of program %s", program->kernels[i], program->name);
    }
    if (r && module->handle) cuda->driver.cuModuleUnload(module->handle);
    return r;
}

void stk_cuda_module_destroy(stk_device_module *module)
{
    stk_cuda *cuda = module->device->own;
    cuda->driver.cuCtxSynchronize(); /* its kernels may still be in a stream */
    cuda->driver.cuModuleUnload(module->handle);
}

/* When an event happened, on the host's clock. The driver only tells how much later than another event it
 * was, in a float of milliseconds; so an event is put into an idle stream now and then, waited for, and its
 * time on the host noted: a mark. Other events are counted from a mark.
 */

enum {
    /* A float of 8192 ms has steps of 1 us, and clocks of cards and boards that are 20 ppm apart are 160 us
     * apart by then. */
    MARK_LIFE_MS = 8192,
    /* The event happened between its recording and the end of the wait: 10 to 20 us on an idle card. */
    MARK_WINDOW_US = 50,
    MARK_TRIES = 8
};

static int take_mark(stk_cuda *cuda, stk_cuda_mark *mark, stoke_error *err)
{
    for (int i = 0; i < MARK_TRIES; i++) {
        const uint64_t before = stk_now_ns();
        int r = STK_CUDA_CALL(cuda, cuEventRecord, mark->event, cuda->clock.stream);
        if (!r) r = STK_CUDA_CALL(cuda, cuEventSynchronize, mark->event);
        if (r) return r;
        const uint64_t window = stk_now_ns() - before;
        mark->ns = before + window / 2;
        if (window < MARK_WINDOW_US * 1000u) break;
    }
    return STOKE_OK;
}

int stk_cuda_clock_create(stk_cuda *cuda, stoke_error *err)
{
    stk_cuda_clock *clock = &cuda->clock;
    if (pthread_mutex_init(&clock->lock, NULL)) return stk_fail(err, STOKE_E_NOMEM, "no memory for a lock");
    clock->has_lock = 1;
    int r = STK_CUDA_CALL(cuda, cuStreamCreate, &clock->stream, CU_STREAM_NON_BLOCKING);
    /* Not CU_EVENT_BLOCKING_SYNC: a thread that has to be woken would widen the window. */
    for (int i = 0; !r && i < 2; i++)
        r = STK_CUDA_CALL(cuda, cuEventCreate, &clock->marks[i].event, CU_EVENT_DEFAULT);
    for (int i = 0; !r && i < 2; i++) r = take_mark(cuda, &clock->marks[i], err);
    return r;
}

void stk_cuda_clock_destroy(stk_cuda *cuda)
{
    stk_cuda_clock *clock = &cuda->clock;
    for (int i = 0; i < 2; i++)
        if (clock->marks[i].event) cuda->driver.cuEventDestroy(clock->marks[i].event);
    if (clock->stream) cuda->driver.cuStreamDestroy(clock->stream);
    if (clock->has_lock) pthread_mutex_destroy(&clock->lock);
}

/* Takes a mark when the latest is too old to count from. The event has happened: it is before the new one. */
static int elapsed_before(stk_cuda *cuda, stk_device_event *event, uint64_t *ns, stoke_error *err)
{
    stk_cuda_clock *clock = &cuda->clock;
    const stk_cuda_mark oldest = clock->marks[0];
    clock->marks[0] = clock->marks[1];
    clock->marks[1] = oldest;
    float ms = 0;
    int r = take_mark(cuda, &clock->marks[1], err);
    if (!r) r = STK_CUDA_CALL(cuda, cuEventElapsedTime, &ms, event->handle, clock->marks[1].event);
    if (!r) *ns = clock->marks[1].ns - (uint64_t)(int64_t)((double)ms * 1e6);
    return r;
}

/* Counts from the latest mark that is before the event: what the driver says about events in reverse is
 * written nowhere. */
static int elapsed_since(stk_cuda *cuda, stk_device_event *event, uint64_t *ns, stoke_error *err)
{
    const stk_cuda_mark *mark = &cuda->clock.marks[cuda->clock.marks[1].ns <= event->recorded_ns];
    float ms = 0;
    int r = STK_CUDA_CALL(cuda, cuEventElapsedTime, &ms, mark->event, event->handle);
    if (!r) *ns = mark->ns + (uint64_t)(int64_t)((double)ms * 1e6);
    return r;
}

int stk_cuda_event_time(stk_device_event *event, uint64_t *ns, stoke_error *err)
{
    stk_cuda *cuda = event->device->own;
    const CUresult done =
        event->recorded_ns ? cuda->driver.cuEventQuery(event->handle) : CUDA_ERROR_NOT_READY;
    if (done == CUDA_ERROR_NOT_READY)
        return stk_fail(err, STOKE_E_STATE, "%s: the event has not happened yet: wait for it first",
                        cuda->name);
    int r = stk_cuda_check(cuda, done, "cuEventQuery", err);
    if (r) return r;
    pthread_mutex_lock(&cuda->clock.lock);
    if (stk_now_ns() - cuda->clock.marks[1].ns < MARK_LIFE_MS * 1000000ull)
        r = elapsed_since(cuda, event, ns, err);
    else
        r = elapsed_before(cuda, event, ns, err);
    pthread_mutex_unlock(&cuda->clock.lock);
    /* Marks are good to some 20 us; this much is certain. */
    const uint64_t now = stk_now_ns();
    if (!r && *ns < event->recorded_ns) *ns = event->recorded_ns;
    if (!r && *ns > now) *ns = now;
    return r;
}
