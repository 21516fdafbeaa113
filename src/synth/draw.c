/* SPDX-License-Identifier: Apache-2.0
 *
 * One scene into the caller's memory.
 */
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/synth/synth.h"

stoke_synth_params stoke_synth_defaults(void)
{
    return (stoke_synth_params){ .struct_size = sizeof(stoke_synth_params),
                                 .count = 64,
                                 .height = 512,
                                 .width = 512,
                                 .classes = 6,
                                 .jpeg_quality = 90 };
}

int stk_synth_check(const stoke_synth_params *p, stoke_error *err)
{
    if (p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_synth_defaults");
    if (p->width < 16 || p->width > 16384 || p->height < 16 || p->height > 16384)
        return stk_fail(err, STOKE_E_INVALID, "a scene of %u x %u: sides must be 16 to 16384",
                        (unsigned)p->height, (unsigned)p->width);
    if (p->classes < 2 || p->classes > 255)
        return stk_fail(err, STOKE_E_INVALID, "%u classes: must be 2 to 255", (unsigned)p->classes);
    if (p->jpeg_quality < 1 || p->jpeg_quality > 100)
        return stk_fail(err, STOKE_E_INVALID, "jpeg quality %d: must be 1 to 100", p->jpeg_quality);
    return STOKE_OK;
}

static int fits(const stoke_image *image, const stoke_synth_params *p, uint8_t channels)
{
    return image->data && image->width == p->width && image->height == p->height &&
           image->channels == channels && image->depth == 1 && image->stride >= (size_t)p->width * channels;
}

int stoke_synth_draw(const stoke_synth_params *params, uint64_t index, stoke_image *image, stoke_image *mask,
                     stoke_error *err)
{
    int status = stk_synth_check(params, err);
    if (status) return status;
    if (!fits(image, params, 3) || !fits(mask, params, 1))
        return stk_fail(err, STOKE_E_INVALID, "image and mask must be u8, 3 and 1 channels, %u x %u",
                        (unsigned)params->height, (unsigned)params->width);
    stk_synth_scene *scene = stk_alloc(sizeof *scene);
    if (!scene) return stk_fail(err, STOKE_E_NOMEM, "out of memory for a scene");
    stk_scene_invent(scene, params, index);
    /* The mask holds indices of shapes until the picture is rendered, then their classes. */
    stk_scene_paint(scene, mask);
    status = stk_photo_render(scene, mask, image, err);
    for (uint32_t y = 0; !status && y < mask->height; y++) {
        uint8_t *row = (uint8_t *)mask->data + y * mask->stride;
        for (uint32_t x = 0; x < mask->width; x++) row[x] = scene->shapes[row[x]].class_id;
    }
    stk_free(scene);
    return status;
}
