/* SPDX-License-Identifier: Apache-2.0
 *
 * An op: one const struct in op_*.c, one line in ops.def. It draws its random choice into the draft of a
 * plan; it never sees pixels. The executor (src/loader/sample.c) carries the finished plan out in one go.
 */
#ifndef STOKE_SRC_AUGMENT_OP_H
#define STOKE_SRC_AUGMENT_OP_H

#include <stoke/augment.h>
#include <stoke/tools/options.h>

#include "src/augment/draft.h"
#include "src/base/rng.h"

enum {
    STK_OP_ARGS_BYTES = 128, /* room for any op's argument struct */
    STK_SWAP_PAIRS = 64,
    STK_BACKGROUND_CLASSES = 64
};

/* The random numbers of one op of one sample: word(k) is a pure function of k. Draw 0, word 0 decides by
 * convention whether the op acts at all, and it is drawn whatever p is: changing p moves no other number. */
typedef struct stk_op_random {
    uint64_t seed, epoch, position;
    uint32_t stream;
} stk_op_random;

/* Draw number k, four 32-bit words. */
static inline stk_rng stk_op_draw(const stk_op_random *random, uint32_t k)
{
    return stk_philox(random->seed, random->position, random->epoch, random->stream, k);
}

/* Whether an op of probability p acts, by the first word of its first draw. Never for 0, always for 1. */
static inline int stk_op_hits(stk_rng first, double p)
{
    return stk_unit(first.word[0]) < p;
}

/* Uniform in [range[0], range[1]). */
static inline double stk_op_uniform(const double range[2], uint32_t word)
{
    return range[0] + (range[1] - range[0]) * stk_unit(word);
}

/* What kind of thing an op does: the executor sizes its memory by the sum over a pipeline. */
enum stk_op_trait {
    STK_TRAIT_CROP = 1,    /* chooses the part of the source that is looked at */
    STK_TRAIT_WARP = 2,    /* its maps are not flips only */
    STK_TRAIT_ELASTIC = 4, /* needs the plan's one displacement field */
    STK_TRAIT_FOCUS = 8,   /* may want to look at the mask first */
    STK_TRAIT_MIXUP = 16,
    STK_TRAIT_CUTMIX = 32,
    STK_TRAIT_NORMALIZE = 64
};

/* What is the same for every sample of a pipeline. */
typedef struct stk_op_constants {
    uint32_t swap[STK_SWAP_PAIRS][2]; /* classes that change places in a mirror image */
    size_t n_swap;
    uint32_t background[STK_BACKGROUND_CLASSES]; /* classes a foreground crop does not look for */
    size_t n_background;
    uint32_t blur_taps;     /* of all blurs together */
    uint32_t clahe_tiles;   /* of all CLAHE steps together */
    int erases_masks;       /* an op makes parts of masks ignore_index */
    double mean[3], std[3]; /* of STK_TRAIT_NORMALIZE, on the scale 0..1 */
} stk_op_constants;

typedef struct stk_op {
    const char *name, *summary;
    const char *group;           /* "geometry", "colour", "mix" */
    const stoke_option *options; /* fields of the argument struct */
    size_t n_options;
    unsigned traits; /* stk_op_trait */
    unsigned
        color_steps; /* kinds of steps it may add to one plan, each at most once: bits of stoke_color_kind */
    /* Called once when the settings are complete; NULL = nothing that the option table does not check. Fills
     * what it has computed into args and constants. */
    int (*check)(void *args, stk_op_constants *constants, stoke_error *err);
    /* NULL = nothing to draw: the op is a constant of the pipeline. */
    void (*draw)(const void *args, const stk_op_random *random, stk_draft *draft);
} stk_op;

/* Rows of option tables. `type` is the op's argument struct; a field is called like its setting. */
#define STK_P(type, standard)                                                                                \
    {                                                                                                        \
        "p", STOKE_OPT_REAL, offsetof(type, p), standard, NULL, 0, 1, "P", "Share of samples it acts on"     \
    }
#define STK_REAL(type, field, standard, low, high, text)                                                     \
    {                                                                                                        \
#field, STOKE_OPT_REAL, offsetof(type, field), standard, NULL, low, high, "X", text                  \
    }
#define STK_INT(type, field, standard, low, high, text)                                                      \
    {                                                                                                        \
#field, STOKE_OPT_INT, offsetof(type, field), standard, NULL, low, high, "N", text                   \
    }
#define STK_RANGE(type, field, standard, low, high, text)                                                    \
    {                                                                                                        \
#field, STOKE_OPT_RANGE, offsetof(type, field), standard, NULL, low, high, "A..B", text              \
    }
#define STK_SPREAD(type, field, standard, low, high, text)                                                   \
    {                                                                                                        \
#field, STOKE_OPT_SPREAD, offsetof(type, field), standard, NULL, low, high, "X|A..B", text           \
    }
#define STK_TEXT(type, field, standard, placeholder, text)                                                   \
    {                                                                                                        \
#field, STOKE_OPT_STRING, offsetof(type, field), standard, NULL, 0, 0, placeholder, text             \
    }
#define STK_OPTIONS(table) .options = table, .n_options = sizeof(table) / sizeof((table)[0])

#define STK_OP(name) extern const stk_op stk_op_##name;
#include "src/augment/ops.def"
#undef STK_OP

/* Of random_resized_crop's settings: the largest share of the source it shows. */
double stk_resized_crop_most(const void *args);

/* NULL when there is no such op. */
const stk_op *stk_op_find(const char *name);
/* Op number i, NULL past the last. */
const stk_op *stk_op_at(size_t i);

#endif
