/* SPDX-License-Identifier: Apache-2.0
 *
 * Pinned memory as a loader's allocator. A loader knows pointers, a device knows blocks: what is known of a
 * block is kept right before the memory that is handed out.
 */
#include <stoke/tools/device.h>

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/device/device.h"

static void *pinned_alloc(void *context, size_t bytes, size_t alignment)
{
    stoke_device *device = context;
    stk_device_block block;
    stoke_error err;
    size_t room;
    int r = STOKE_E_NOMEM;
    if (!alignment || !stk_add(bytes, alignment - 1, &room) || !stk_add(room, sizeof block, &room))
        stk_fail(&err, r, "%s: no room for %zu bytes of pinned memory", device->info.name, bytes);
    else
        r = stk_block_create(&block, device, STK_MEMORY_PINNED, room, &err);
    if (r) {
        pthread_mutex_lock(&device->lock);
        device->pinned_failed = err;
        pthread_mutex_unlock(&device->lock);
        return NULL;
    }
    char *pointer = (char *)block.host + sizeof block;
    pointer += (alignment - (uintptr_t)pointer % alignment) % alignment;
    memcpy(pointer - sizeof block, &block, sizeof block);
    return pointer;
}

static void pinned_release(void *context, void *pointer, size_t bytes)
{
    stk_device_block block;
    memcpy(&block, (char *)pointer - sizeof block, sizeof block);
    stk_block_destroy(&block);
}

stoke_allocator stoke_device_pinned(stoke_device *device)
{
    return (stoke_allocator){ pinned_alloc, pinned_release, device };
}

int stoke_device_pinned_failed(stoke_device *device, stoke_error *err)
{
    pthread_mutex_lock(&device->lock);
    const stoke_error failed = device->pinned_failed;
    pthread_mutex_unlock(&device->lock);
    if (failed.code && err) *err = failed;
    return failed.code;
}

/* Device memory for callers of the library: a block, and a stream to fill it and to read it by. */

struct stoke_device_buffer {
    stk_device_block block;
    stk_device_stream *stream;
};

int stoke_device_buffer_create(stoke_device_buffer **out, stoke_device *device, size_t bytes,
                               stoke_error *err)
{
    *out = NULL;
    stoke_device_buffer *buffer = stk_calloc(1, sizeof *buffer);
    if (!buffer) return stk_fail(err, STOKE_E_NOMEM, "no memory for a buffer");
    int r = stk_block_create(&buffer->block, device, STK_MEMORY_DEVICE, bytes, err);
    if (!r) r = stk_stream_create(&buffer->stream, device, err);
    if (r)
        stoke_device_buffer_destroy(&buffer);
    else
        *out = buffer;
    return r;
}

void stoke_device_buffer_destroy(stoke_device_buffer **pointer)
{
    stoke_device_buffer *buffer = *pointer;
    if (!buffer) return;
    *pointer = NULL;
    stk_stream_destroy(&buffer->stream);
    stk_block_destroy(&buffer->block);
    stk_free(buffer);
}

uint64_t stoke_device_buffer_address(const stoke_device_buffer *buffer)
{
    return buffer->block.handle;
}

int stoke_device_buffer_read(stoke_device_buffer *buffer, void *to, size_t bytes, stoke_error *err)
{
    if (!bytes || bytes > buffer->block.bytes)
        return stk_fail(err, STOKE_E_INVALID, "%zu bytes of a buffer of %zu", bytes, buffer->block.bytes);
    const stk_device_block near = {
        .device = buffer->block.device, .kind = STK_MEMORY_PAGEABLE, .bytes = bytes, .host = to
    };
    const int r = stk_stream_copy(buffer->stream, &near, 0, &buffer->block, 0, bytes, err);
    return r ? r : stk_stream_finish(buffer->stream, err);
}
