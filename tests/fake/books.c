/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/books.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const fake_cuda_settings usual = { .version = 12040,
                                          .cards = 1,
                                          .broken_card = -1,
                                          .architecture = 86,
                                          .ptx_max = 990,
                                          .memory_bytes = 256u << 20 };
fake_cuda_settings fake_settings;
struct CUctx_st fake_contexts[FAKE_CARDS];
fake_object *fake_objects;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char faults[8192], leaks[8192];
static unsigned long calls, fail_at;
static int fail_code, initialised, rules_of_call, is_told;
static const char *failed = "";
static CUresult lost;

/* ---- what went wrong ---- */

static void note(char *text, size_t size, const char *format, va_list arguments)
{
    size_t used = strlen(text);
    used += (size_t)vsnprintf(text + used, size - used, format, arguments);
    if (used + 1 < size) memcpy(text + used, "\n", 2);
}

void fake_fault(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    note(faults, sizeof faults, format, arguments);
    va_end(arguments);
}

void fake_leak(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    note(leaks, sizeof leaks, format, arguments);
    va_end(arguments);
}

/* ---- calls ---- */

/* Errors after which a context answers nothing else. */
static int is_sticky(int code)
{
    return code == CUDA_ERROR_ECC_UNCORRECTABLE || code == CUDA_ERROR_UNKNOWN ||
           (code >= CUDA_ERROR_ILLEGAL_ADDRESS && code <= CUDA_ERROR_LAUNCH_FAILED && code != 701);
}

void fake_lose(CUresult result)
{
    if (!lost) lost = result;
}

CUresult fake_lost(void)
{
    return lost;
}

void fake_set_initialised(void)
{
    initialised = 1;
}

static CUresult made_to_fail(const char *call)
{
    if (++calls != fail_at) return CUDA_SUCCESS;
    failed = call;
    if (is_sticky(fail_code)) fake_lose(fail_code);
    return fail_code;
}

CUresult fake_begin(const char *call, int rules, CUresult *late)
{
    pthread_mutex_lock(&lock);
    *late = CUDA_SUCCESS;
    if (!(rules & FAKE_ANYTIME) && !initialised) {
        fake_fault("%s before cuInit", call);
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    const CUresult before = lost;
    CUresult result = made_to_fail(call);
    rules_of_call = rules;
    if (before && !(rules & FAKE_ASKS)) {
        if (is_told && !(rules & (FAKE_ENDS | FAKE_WAITS)))
            fake_fault("%s after the device was lost (%d)", call, before);
        result = before;
    }
    if (rules & FAKE_ENDS) {
        *late = result;
        result = CUDA_SUCCESS;
    }
    if (!result && (rules & FAKE_CONTEXT) && !fake_current()) {
        fake_fault("%s without a context", call);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return result;
}

CUresult fake_end(CUresult result)
{
    if (lost && result == lost && !(rules_of_call & (FAKE_ENDS | FAKE_ASKS | FAKE_UNHEARD))) is_told = 1;
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- contexts ---- */

static _Thread_local struct CUctx_st *stack[16];
static _Thread_local int depth;

struct CUctx_st *fake_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

int fake_push(struct CUctx_st *context)
{
    if (depth == (int)(sizeof stack / sizeof *stack)) {
        fake_fault("contexts are pushed and never popped");
        return 0;
    }
    stack[depth++] = context;
    return 1;
}

struct CUctx_st *fake_pop(void)
{
    return depth ? stack[--depth] : NULL;
}

int fake_depth(void)
{
    return depth;
}

static const char *kind_name(fake_kind kind)
{
    static const char *const names[] = { "device memory", "pinned memory", "stream",
                                         "event",         "module",        "function" };
    return names[kind];
}

void fake_end_context(struct CUctx_st *context)
{
    for (fake_object *object = fake_objects; object; object = object->next) {
        if (!object->alive || object->context != context) continue;
        if (object->kind != FAKE_FUNCTION)
            fake_leak("%s of card %d (%zu bytes)", kind_name(object->kind), context->card, object->size);
        fake_drop_work(object);
        fake_end_object(object);
    }
    if (fake_current() == context)
        fake_fault("the context of card %d is released while current", context->card);
}

/* ---- objects ---- */

fake_object *fake_add(fake_kind kind)
{
    fake_object *object = calloc(1, sizeof *object);
    if (!object) abort();
    object->kind = kind;
    object->alive = 1;
    object->context = fake_current();
    object->next = fake_objects;
    fake_objects = object;
    return object;
}

fake_object *fake_find(const void *handle, fake_kind kind, const char *call)
{
    for (fake_object *object = fake_objects; object; object = object->next) {
        if ((const void *)object != handle) continue;
        if (object->kind != kind) break;
        if (object->alive) return object;
        fake_fault("%s: the %s was destroyed before", call, kind_name(kind));
        return NULL;
    }
    fake_fault("%s: %p is no %s", call, handle, kind_name(kind));
    return NULL;
}

fake_object *fake_memory_at(uintptr_t address, fake_kind kind)
{
    for (fake_object *object = fake_objects; object; object = object->next)
        if (object->kind == kind && address >= object->address && address - object->address < object->size)
            if (kind == FAKE_MEMORY || object->alive) return object;
    return NULL;
}

void *fake_reach(uintptr_t address, size_t bytes, const char *call)
{
    fake_object *memory = fake_memory_at(address, FAKE_MEMORY);
    if (!memory) {
        fake_fault("%s: %#zx is no address of device memory", call, (size_t)address);
        return NULL;
    }
    const size_t at = address - memory->address;
    if (!memory->alive)
        fake_fault("%s: the device memory was freed before", call);
    else if (bytes > memory->size - at)
        fake_fault("%s: %zu bytes at %zu of a block of %zu", call, bytes, at, memory->size);
    else
        return memory->bytes + at;
    return NULL;
}

size_t fake_memory_used(int card)
{
    size_t used = 0;
    for (fake_object *object = fake_objects; object; object = object->next)
        if (object->kind == FAKE_MEMORY && object->alive && object->context->card == card)
            used += object->size;
    return used;
}

/* The addresses of device memory stay taken: nothing else may get them. */
void fake_end_object(fake_object *object)
{
    object->alive = 0;
    free(object->bytes);
    free(object->text);
    object->bytes = NULL;
    object->text = NULL;
}

/* ---- controls ---- */

static void reset(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FAKE_CARDS; i++) fake_contexts[i] = (struct CUctx_st){ .card = i };
    while (fake_objects) {
        fake_object *object = fake_objects;
        fake_objects = object->next;
        fake_drop_work(object);
        if (object->kind == FAKE_MEMORY) munmap((void *)object->address, object->size);
        fake_end_object(object);
        free(object);
    }
    fake_settings = usual;
    *faults = *leaks = 0;
    calls = fail_at = 0;
    failed = "";
    lost = CUDA_SUCCESS;
    initialised = is_told = depth = 0;
    pthread_mutex_unlock(&lock);
}

static void set_fail_at(unsigned long call, int code)
{
    pthread_mutex_lock(&lock);
    calls = 0;
    fail_at = call;
    fail_code = code;
    failed = "";
    pthread_mutex_unlock(&lock);
}

static unsigned long get_calls(void)
{
    return calls;
}

static const char *get_failed(void)
{
    return failed;
}

static const char *get_faults(void)
{
    return faults;
}

static const char *get_leaks(void)
{
    return leaks;
}

static int get_contexts(void)
{
    int held = 0;
    for (int i = 0; i < FAKE_CARDS; i++) held += fake_contexts[i].holders != 0;
    return held;
}

static uint64_t get_happened(const void *event)
{
    return ((const fake_object *)event)->time_ns;
}

extern const fake_cuda_control fake_cuda;
const fake_cuda_control fake_cuda = { .reset = reset,
                                      .settings = &fake_settings,
                                      .fail_at = set_fail_at,
                                      .calls = get_calls,
                                      .failed = get_failed,
                                      .faults = get_faults,
                                      .leaks = get_leaks,
                                      .contexts = get_contexts,
                                      .depth = fake_depth,
                                      .happened = get_happened };

__attribute__((constructor)) static void start(void)
{
    reset();
    const char *wish = getenv("STOKE_FAKE_CUDA_FAIL");
    unsigned long call;
    int code;
    if (wish && sscanf(wish, "%lu:%d", &call, &code) == 2) set_fail_at(call, code);
}

__attribute__((destructor)) static void stop(void)
{
    for (int i = 0; i < FAKE_CARDS; i++)
        if (fake_contexts[i].holders) fake_leak("the context of card %d", i);
    /* A thread that is refused the context cannot end what is in it. */
    if (!strcmp(failed, "cuCtxPushCurrent_v2")) *leaks = 0;
    if (!getenv("STOKE_FAKE_CUDA_STRICT") || (!*faults && !*leaks)) return;
    fprintf(stderr, "fake driver: done wrong:\n%sleft behind:\n%s", faults, leaks);
    fflush(NULL);
    _exit(99);
}
