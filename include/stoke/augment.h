/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to a sample, decided before a pixel is touched.
 *
 * A pipeline is a list of ops (src/augment/ops.def). Drawing it for (seed, epoch, position) gives a plan
 * (augment_plan.h): pure numbers, the same on every machine and for any number of threads. The decoder reads
 * the plan's box before it decodes.
 *
 * The order of the list is the order of what is done to the picture, with two exceptions: geometry comes
 * before colour (it is one resample), and a crop comes before other geometry (it says which part of the
 * source is looked at; what is then turned in from outside the window is real picture where there is one).
 */
#ifndef STOKE_AUGMENT_H
#define STOKE_AUGMENT_H

#include <stoke/augment_plan.h>

typedef struct stoke_pipeline stoke_pipeline;

/* `spec` is one of
 *   a preset:  none, light, crop, standard, strong, face, medical   (stoke_preset_at lists them)
 *   a list:    "random_crop,hflip(p=0.3),rotate(degrees=-10..10)"
 *   a file:    has a '/' or ends in .yaml/.yml; a list of ops under `augment:`
 * NULL = "none". */
STOKE_API int stoke_pipeline_create(stoke_pipeline **out, const char *spec, stoke_error *err);
STOKE_API void stoke_pipeline_destroy(stoke_pipeline **pipeline);

/* What a draw depends on. */
typedef struct stoke_draw {
    uint64_t seed, epoch, position;
    uint32_t source_width, source_height; /* at least 1, as all sizes here */
    uint32_t out_width, out_height;
    const uint32_t *focus; /* x, y in the source, for the second draw of a plan that wants_focus; else NULL */
    uint32_t
        scale; /* of a target that is laid out by the same plan: its finer pixels reach farther; 0 is 1 */
} stoke_draw;

/* Draws the plan of one sample. Thread-safe. */
STOKE_API void stoke_pipeline_draw(const stoke_pipeline *pipeline, const stoke_draw *draw,
                                   stoke_augment_plan *plan);

/* The pipeline as a list that stoke_pipeline_create reads back to the same pipeline, e.g.
 * "random_crop,hflip(p=0.5)". Belongs to the pipeline. */
STOKE_API const char *stoke_pipeline_text(const stoke_pipeline *pipeline);

/* ---- what there is ---- */

typedef struct stoke_op_info {
    const char *name, *summary;
    const char *group;                  /* "geometry", "colour", "mix" */
    const struct stoke_option *options; /* <stoke/tools/options.h> */
    size_t n_options;
} stoke_op_info;
/* Returns 0 past the last one. */
STOKE_API int stoke_op_at(size_t index, stoke_op_info *info);

typedef struct stoke_preset_info {
    const char *name, *summary;
    const char *list; /* what it stands for, as a list */
} stoke_preset_info;
STOKE_API int stoke_preset_at(size_t index, stoke_preset_info *info);

#endif
