/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams. Work waits until somebody waits for it, then what it depends on is done first and nothing more:
 * whoever counts on work that he has not waited for finds old bytes.
 */
#include "tests/fake/books.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"

fake_object *fake_stream(CUstream handle, const char *call)
{
    if (handle) return fake_find(handle, FAKE_STREAM, call);
    struct CUctx_st *context = fake_current();
    for (fake_object *object = fake_objects; object; object = object->next)
        if (object->is_default && object->context == context) return object;
    fake_object *stream = fake_add(FAKE_STREAM);
    stream->is_default = 1;
    stream->alive = 0; /* nobody destroys it */
    return stream;
}

void fake_give(fake_object *stream, const fake_work *work)
{
    fake_work *own = malloc(sizeof *own);
    if (!own) abort();
    *own = *work;
    own->next = NULL;
    if (stream->first)
        stream->last->next = own;
    else
        stream->first = own;
    stream->last = own;
    stream->given++;
    if (fake_settings.eager) fake_run((fake_point){ stream, stream->given });
}

int fake_is_done(fake_point point)
{
    return !point.stream || point.stream->done >= point.number;
}

/* Pinned memory that was freed meanwhile is a fault; other host memory is not known here. */
static void *reach(uintptr_t address, size_t bytes)
{
    return fake_memory_at(address, FAKE_MEMORY) ? fake_reach(address, bytes, "a copy") : (void *)address;
}

static void copy(const fake_work *work)
{
    void *to = reach(work->to, work->bytes),
         *from = work->staged ? work->staged : reach(work->from, work->bytes);
    if (to && from)
        memcpy(to, from, work->bytes);
    else
        fake_lose(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void run_kernel(const fake_work *work)
{
    const uint32_t kernel = work->object->kernel, from[3] = { 0, 0, 0 };
    const char *name = stk_augment_program.kernels[kernel];
    void *arguments[STK_ARGUMENTS_MAX];
    const int last = stk_augment_program.arguments[kernel] - 1;
    for (int i = 0; i < last; i++) {
        arguments[i] = fake_reach(work->blocks[i], 1, name);
        if (!arguments[i]) fake_lose(CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    arguments[last] = (void *)&work->shape;
    if (fake_settings.bad_kernel && !strcmp(fake_settings.bad_kernel, name))
        fake_lose(CUDA_ERROR_ILLEGAL_ADDRESS);
    if (!fake_lost()) stk_augment_program.host[kernel](arguments, from, work->items);
}

void fake_run_one(fake_object *stream)
{
    fake_work *work = stream->first;
    if (!work) return;
    stream->first = work->next;
    if (work->kind == FAKE_WAIT) fake_run(work->until);
    const uint64_t number = stream->done + 1;
    if (!fake_lost()) {
        fake_object *event = work->object;
        if (work->kind == FAKE_COPY) copy(work);
        if (work->kind == FAKE_LAUNCH) run_kernel(work);
        if (work->kind == FAKE_RECORD && event->recorded.stream == stream && event->recorded.number == number)
            event->time_ns = stk_now_ns();
    }
    stream->done = number;
    free(work->staged);
    free(work);
}

void fake_run(fake_point until)
{
    while (!fake_is_done(until)) fake_run_one(until.stream);
}

void fake_run_all(struct CUctx_st *context)
{
    for (fake_object *object = fake_objects; object; object = object->next)
        if (object->kind == FAKE_STREAM && object->context == context)
            fake_run((fake_point){ object, object->given });
}

void fake_drop_work(fake_object *stream)
{
    while (stream->first) {
        fake_work *work = stream->first;
        stream->first = work->next;
        free(work->staged);
        free(work);
        stream->done++;
    }
}

static int is_inside(uintptr_t address, const fake_object *memory)
{
    return memory->kind == FAKE_PINNED && address >= memory->address &&
           address - memory->address < memory->size;
}

int fake_is_needed(const fake_object *object)
{
    if (fake_lost()) return 0; /* nothing runs any more */
    for (const fake_object *stream = fake_objects; stream; stream = stream->next)
        for (const fake_work *work = stream->first; work; work = work->next) {
            if (work->kind == FAKE_COPY && !work->staged && is_inside(work->from, object)) return 1;
            if (work->kind == FAKE_COPY && is_inside(work->to, object)) return 1;
            if (work->kind == FAKE_LAUNCH && work->object->module == object) return 1;
        }
    return 0;
}
