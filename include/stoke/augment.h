/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to a sample, decided before a pixel is touched.
 *
 * A pipeline is a list of ops (src/augment/ops.def). Drawing it for (seed, epoch, position) gives a plan:
 * pure numbers, the same on every machine and for any number of threads. The decoder reads the plan's box
 * before it decodes; the executor cuts, fits and flips by it.
 */
#ifndef STOKE_AUGMENT_H
#define STOKE_AUGMENT_H

#include <stoke/image.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The source part `box` is resized to width x height (image antialiased bilinear, mask nearest-exact), placed
 * at (place_x, place_y) of the output row; what it does not cover is fill / ignore_index; then mirrored. */
typedef struct stoke_plan {
    stoke_box box;
    uint32_t width, height;
    uint32_t place_x, place_y;
    uint8_t hflip;
} stoke_plan;

typedef struct stoke_pipeline stoke_pipeline;

/* preset name ("none", "light", "crop") or path of a YAML file (has a '/' or ends in .yaml/.yml); see `stoke
 * help data`. NULL = "none". */
STOKE_API int stoke_pipeline_create(stoke_pipeline **out, const char *spec, stoke_error *err);
STOKE_API void stoke_pipeline_destroy(stoke_pipeline **pipeline);

/* Draws the plan of one sample. Thread-safe. */
STOKE_API void stoke_pipeline_draw(const stoke_pipeline *pipeline, uint64_t seed, uint64_t epoch,
                                   uint64_t position, uint32_t source_width, uint32_t source_height,
                                   uint32_t out_width, uint32_t out_height, stoke_plan *plan);

/* Canonical text of the pipeline, e.g. "random_crop,hflip(p=0.5)". Belongs to the pipeline. */
STOKE_API const char *stoke_pipeline_text(const stoke_pipeline *pipeline);

#ifdef __cplusplus
}
#endif
#endif
