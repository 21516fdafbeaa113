/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic data: scenes of textured shapes with exact masks, photographic noise. The embedded default set of
 * demos, tests and benchmarks. The pixels of scene i depend on (seed, i, size, classes) only, on every
 * machine: integer arithmetic and IEEE add, multiply, divide, square root throughout.
 */
#ifndef STOKE_TOOLS_SYNTH_H
#define STOKE_TOOLS_SYNTH_H

#include <stoke/image.h>
#include <stoke/memory.h>

/* What a worse camera does to the pictures of pairs (task restore). */
typedef enum stoke_degrade {
    STOKE_DEGRADE_NOISE = 0,
    STOKE_DEGRADE_BLUR,
    STOKE_DEGRADE_DARK,
    STOKE_DEGRADE_MIX, /* one, two or all three of them, drawn for every scene */
    STOKE_DEGRADE_NONE /* fewer pixels only (scale) */
} stoke_degrade;

typedef struct stoke_synth_params {
    uint32_t struct_size;
    uint64_t count;         /* 64 scenes */
    uint32_t height, width; /* 512 x 512; 16 .. 16384 */
    uint32_t classes;       /* 6; 2 .. 255, class 0 is background */
    uint64_t seed;          /* 0 */
    int jpeg_quality;       /* 90; 1 .. 100; of images with masks */
    int restore;            /* 0; 1: pairs of a degraded picture and the clean one, instead of masks */
    int degrade;            /* stoke_degrade */
    uint32_t scale;         /* 1; 1 .. 4: degraded pictures are so many times smaller than height x width */
    int force;              /* write into a folder that is not from here, see stoke_synth_write */
    uint64_t memory_limit;  /* 0 = none; else fewer threads, and STOKE_E_LIMIT when one is too many */
    /* Hears what writing will take of memory, before it does; may be NULL. */
    void (*planned)(void *context, const stoke_memory_sum *sum);
    void *planned_context;
} stoke_synth_params;

STOKE_API stoke_synth_params stoke_synth_defaults(void);

/* Draws scene `index`: image 3 channels u8, mask 1 channel u8, both of params' size, memory by the caller. */
STOKE_API int stoke_synth_draw(const stoke_synth_params *params, uint64_t index, stoke_image *image,
                               stoke_image *mask, stoke_error *err);

/* Draws pair `index` (restore): target 3 channels u8 of params' size, without noise; image the same, degraded
 * and `scale` times smaller. */
STOKE_API int stoke_synth_draw_pair(const stoke_synth_params *params, uint64_t index, stoke_image *image,
                                    stoke_image *target, stoke_error *err);

/* Writes DIR/images/NNNNNN.jpg and DIR/masks/NNNNNN.png, or, with restore, DIR/images/NNNNNN.png and
 * DIR/targets/NNNNNN.png, with `threads` threads (0 = auto). STOKE_E_STATE: DIR has pairs of the other kind.
 * The folder is made and marked (.stokehold); in one that was made here before, pictures that are still as
 * they were written are replaced, atomically: each holds a hash of itself. STOKE_E_STATE: the folder is not
 * empty and not from here, or a file of such a name is somebody's. With `force` both are written to all the
 * same. All other files are left alone. */
STOKE_API int stoke_synth_write(const stoke_synth_params *params, const char *folder, unsigned threads,
                                stoke_progress_fn progress, void *context, stoke_error *err);

/* How many files of the names that stoke_synth_write would write exist and are not as it writes them. With
 * any, STOKE_E_STATE, and the message names the first. progress is asked now and then whether to go on. */
STOKE_API int stoke_synth_others(const stoke_synth_params *params, const char *folder,
                                 stoke_progress_fn progress, void *context, uint64_t *count,
                                 stoke_error *err);

#endif
