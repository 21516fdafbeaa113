/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory for callers of the library: a block, and a stream to fill it and to read it by.
 */
#include <stoke/tools/device.h>
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/device/device.h"

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

static int move(stoke_device_buffer *buffer, void *host, size_t bytes, int up, stoke_error *err)
{
    if (!bytes || bytes > buffer->block.bytes)
        return stk_fail(err, STOKE_E_INVALID, "%zu bytes of a buffer of %zu", bytes, buffer->block.bytes);
    const stk_device_block near = {
        .device = buffer->block.device, .kind = STK_MEMORY_PAGEABLE, .bytes = bytes, .host = host
    };
    const int r = up ? stk_stream_copy(buffer->stream, &buffer->block, 0, &near, 0, bytes, err)
                     : stk_stream_copy(buffer->stream, &near, 0, &buffer->block, 0, bytes, err);
    return r ? r : stk_stream_finish(buffer->stream, err);
}

int stoke_device_buffer_write(stoke_device_buffer *buffer, const void *from, size_t bytes, stoke_error *err)
{
    return move(buffer, (void *)from, bytes, 1, err);
}

int stoke_device_buffer_read(stoke_device_buffer *buffer, void *to, size_t bytes, stoke_error *err)
{
    return move(buffer, to, bytes, 0, err);
}
