/* SPDX-License-Identifier: Apache-2.0
 *
 * An op: one const struct in op_*.c, one line in ops.def. It draws its random choice into the draft of a
 * plan; it never sees pixels. The loader (decode_fit.c, render.c) carries the finished plan out in one go.
 */
#ifndef STOKE_SRC_AUGMENT_OP_H
#define STOKE_SRC_AUGMENT_OP_H

#include <stoke/augment.h>
#include <stoke/common.h>
#include <stoke/tools/options.h>

#include "src/base/rng.h"

/* The draft of a plan, while ops draw into it: geometry as one map in doubles, everything else straight in
 * the plan. stk_draft_settle turns the map into what the plan says.
 *
 * The frame is the output before any geometry but the crop. Where the crop keeps the source's own scale (and
 * where the fit does, because source and output have the same size), the canvas is the whole source and the
 * frame a window on it: what a rotation brings in from outside the window is real picture. After a resize the
 * canvas is the fitted picture, and outside of it is fill.
 */

typedef struct stk_draft {
    const stoke_draw *draw;
    stoke_augment_plan *plan; /* color steps, mix, focus and elastic go straight in */
    /* From an output pixel to the frame: x = map[0] * column + map[1] * row + map[2], y = map[3] * ... */
    double map[6];
    int at_own_scale;           /* 1: the frame is a window on the source */
    int64_t window_x, window_y; /* where it begins; negative = the source begins inside */
    stoke_box part;             /* else: the part of the source that is stretched to the frame */
    int mirrored;               /* parity of flips */
    int mixed;                  /* a mix op has acted */
    stoke_color_step beyond; /* of an op that adds more than it declares, to a full plan: not carried out */
} stk_draft;

/* No crop, identity map, empty plan. */
void stk_draft_begin(stk_draft *draft, const stoke_draw *draw, stoke_augment_plan *plan);

/* The frame begins at (x, y) of the source, at its own scale. */
void stk_draft_window(stk_draft *draft, int64_t x, int64_t y);
/* The frame is this part of the source, resized. */
void stk_draft_part(stk_draft *draft, stoke_box part);

/* One more op, given as its map from its result to what it is applied to (what sampling needs). */
void stk_draft_map(stk_draft *draft, const double step[6]);
/* The same for a map about the centre c of the output: source = c + linear * (result - c - shift). */
void stk_draft_about_center(stk_draft *draft, const double linear[4], double shift_x, double shift_y);

/* Appends a step of a kind that the op declares (color_steps): by those a pipeline is refused that could
 * append more than a plan holds. */
stoke_color_step *stk_draft_color(stk_draft *draft, stoke_color_kind kind);

/* Writes box, size, place, flips or matrix. */
void stk_draft_settle(stk_draft *draft);

/* The plan of a pair's target, `scale` times as high and wide as the image that the plan was drawn for: the
 * same places, exact to the pixel where nothing is resampled. Its elastic step goes on counting pixels of the
 * image (stk_elastic_place), and so does what a blur counts. colors 0: without color steps. */
void stk_plan_enlarge(stoke_augment_plan *plan, uint32_t scale, int colors);

enum {
    STK_OP_ARGS_BYTES = 128, /* room for any op's argument struct */
    STK_SWAP_PAIRS = 64,
    STK_BACKGROUND_CLASSES = 64
};

/* The random numbers of one op of one sample: word(k) is a pure function of k. Word 0 of the first draw
 * decides whether the op acts at all, and it is drawn whatever p is: changing p moves no other number. */
typedef struct stk_op_random {
    const struct stk_op *op;
    uint64_t seed, epoch, position;
    uint32_t stream;
    stk_rng first; /* draw 0 */
} stk_op_random;

/* Draw number k, four 32-bit words. */
static inline stk_rng stk_op_draw(const stk_op_random *random, uint32_t k)
{
    return stk_philox(random->seed, random->position, random->epoch, random->stream, k);
}

/* Whether an op acts: its share p, which its arguments begin with, is never met for 0 and always for 1. */
static inline int stk_op_hits(const stk_op_random *random, const void *args)
{
    return stk_unit(random->first.word[0]) < *(const double *)args;
}

/* Uniform in [range[0], range[1]). */
static inline double stk_op_uniform(const double range[2], uint32_t word)
{
    return range[0] + (range[1] - range[0]) * stk_unit(word);
}

/* What kind of thing an op does: the loader sizes its memory by the sum over a pipeline. */
enum stk_op_trait {
    STK_TRAIT_CROP =
        1, /* chooses the part of the source that is looked at and then fitted: it is cut first */
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
    /* NULL = nothing to draw: the op is a constant of the pipeline. Of a sample that the op's p passes over
     * it is not called; ops that crop have none, or ask for it themselves. */
    void (*draw)(const void *args, const stk_op_random *random, stk_draft *draft);
} stk_op;

/* Rows of option tables. `type` is the op's argument struct; a field is called like its setting, unless it
 * says otherwise. */
#define STK_SETTING(type, setting, field, kind, standard, low, high, placeholder, text)                      \
    {                                                                                                        \
        setting, STOKE_OPT_##kind, offsetof(type, field), standard, NULL, low, high, placeholder, text       \
    }
#define STK_P(type, standard)                                                                                \
    STK_SETTING(type, "p", p, REAL, standard, 0, 1, "P", "Share of samples it acts on")
#define STK_REAL(type, field, standard, low, high, text)                                                     \
    STK_SETTING(type, #field, field, REAL, standard, low, high, "X", text)
#define STK_RANGE(type, field, standard, low, high, text)                                                    \
    STK_SETTING(type, #field, field, RANGE, standard, low, high, "A..B", text)
#define STK_SPREAD(type, field, standard, low, high, text)                                                   \
    STK_SETTING(type, #field, field, SPREAD, standard, low, high, "X|A..B", text)
#define STK_TEXT(type, field, standard, placeholder, text)                                                   \
    STK_SETTING(type, #field, field, STRING, standard, 0, 0, placeholder, text)
#define STK_OPTIONS(table) .options = table, .n_options = sizeof(table) / sizeof((table)[0])

#define STK_OP(name) extern const stk_op stk_op_##name;
#include "src/augment/ops.def"
#undef STK_OP

/* Of random_resized_crop's settings: the largest share of the source it shows. */
double stk_resized_crop_most(const void *args);

/* NULL when there is no such op. */
const stk_op *stk_op_find(const char *name);

/* Settings of ops that hold several values in one text: "0.485,0.456,0.406", "0,255", "2-3,4-5". */

enum { STK_CLASS_MAX = 65535 }; /* masks are 16 bits at most */

/* Exactly `count` numbers within [low, high], or one that stands for all. `name` is the setting's. */
int stk_op_numbers(const char *name, const char *text, double low, double high, double *values, size_t count,
                   stoke_error *err);
/* Up to `limit` class ids (per 1), or pairs A-B (per 2) with no id twice; an empty text is an empty list. */
int stk_op_ids(const char *name, const char *text, size_t per, uint32_t *ids, size_t limit, size_t *count,
               stoke_error *err);

/* A random rectangle by torchvision's rule: up to ten tries of an area (share of the whole, uniform in
 * `scale`) and a ratio a / b (log-uniform in `ratio`) until it fits into `whole` = { a, b }, then a uniform
 * place. `slack` is 1 when it must be smaller than the whole in both directions. Uses the draws from
 * `first_draw` on. 0 when none of the tries fits. */
int stk_random_rectangle(const stk_op_random *random, uint32_t first_draw, const double scale[2],
                         const double ratio[2], const uint32_t whole[2], uint32_t slack, uint32_t start[2],
                         uint32_t size[2]);

#endif
