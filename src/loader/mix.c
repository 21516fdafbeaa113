/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/mix.h"

#include <string.h>

#include "src/base/error.h"
#include "src/pix/pix_table.h"

/* One row, or what was kept of one. */
typedef struct row {
    uint8_t *image, *mask;
} row;

static row row_of(const stk_slot *slot, uint32_t i)
{
    return (row){ stk_slot_image_row(slot, i), stk_slot_mask_row(slot, i) };
}

/* A box of `height` lines, `pixel` bytes a pixel, from one picture of `width` pixels a line to another. */
static void paste_box(uint8_t *to, const uint8_t *from, size_t width, size_t pixel, const stoke_box *box)
{
    size_t at = (box->y * width + box->x) * pixel;
    for (uint32_t y = 0; y < box->height; y++, at += width * pixel)
        memcpy(to + at, from + at, box->width * pixel);
}

static void cut(const stoke_batch *batch, row own, row other, const stoke_box *box)
{
    const size_t element = stoke_dtype_bytes(batch->image_dtype);
    const size_t plane = (size_t)batch->width * batch->height * element;
    if (batch->layout == STOKE_LAYOUT_HWC)
        paste_box(own.image, other.image, batch->width, 3 * element, box);
    else
        for (size_t c = 0; c < 3; c++)
            paste_box(own.image + c * plane, other.image + c * plane, batch->width, element, box);
    paste_box(own.mask, other.mask, batch->width, stoke_dtype_bytes(batch->mask_dtype), box);
}

/* `other` is the row before, not mixed yet. */
static void mix_row(stk_slot *slot, uint32_t i, row other)
{
    const stoke_batch *batch = &slot->batch;
    const stk_slot_row_mix *mix = &slot->mix[i];
    const row own = row_of(slot, i);
    const size_t elements = (size_t)batch->width * batch->height * 3;
    if (mix->kind == STOKE_MIX_UP)
        stk_pix()->mix[batch->image_dtype](own.image, other.image, elements, mix->lambda);
    if (mix->kind == STOKE_MIX_CUT) cut(batch, own, other, &mix->box);
    if (!batch->masks_b) return;
    slot->lambda[i] = mix->kind == STOKE_MIX_UP ? mix->lambda : 1.0f;
    memcpy(stk_slot_mask_b_row(slot, i), mix->kind == STOKE_MIX_UP ? other.mask : own.mask,
           batch->mask_row_bytes);
}

uint64_t stk_mix_scratch(const stoke_batch *shape)
{
    return shape->image_row_bytes + shape->mask_row_bytes;
}

/* Row 0 is mixed last of all, when the last row is no longer what it was. */
static int keep_last(const stk_slot *slot, stk_mem_buffer *copy, row *kept, stoke_error *err)
{
    const stoke_batch *batch = &slot->batch;
    const row last = row_of(slot, batch->count - 1);
    kept->image = stk_buffer_reserve(copy, stk_mix_scratch(batch));
    if (!kept->image) return stk_fail(err, STOKE_E_NOMEM, "no memory to mix the rows of a batch");
    kept->mask = kept->image + batch->image_row_bytes;
    memcpy(kept->image, last.image, batch->image_row_bytes);
    memcpy(kept->mask, last.mask, batch->mask_row_bytes);
    return STOKE_OK;
}

int stk_slot_mix(stk_slot *slot, stk_mem_buffer *copy, stoke_error *err)
{
    const uint32_t count = slot->batch.count;
    if (!count) return STOKE_OK;
    row last = row_of(slot, 0);
    if (count > 1 && slot->mix[0].kind != STOKE_MIX_NONE) {
        int r = keep_last(slot, copy, &last, err);
        if (r) return r;
    }
    /* From the end on, so that the row before is still as it was. */
    for (uint32_t i = count - 1; i > 0; i--) mix_row(slot, i, row_of(slot, i - 1));
    if (count == 1) slot->mix[0].kind = STOKE_MIX_NONE;
    mix_row(slot, 0, last);
    return STOKE_OK;
}
