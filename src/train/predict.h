/* SPDX-License-Identifier: Apache-2.0
 *
 * A predictor, and the way of a picture through it:
 *
 *   predict.c          opens the network, with what the files beside it and its training say; one picture
 *   predict_slide.c    rows through the network, their logits to classes; a picture window by window
 *   predict_restore.c  a picture restored, tile by tile
 *   predict_files.c    many files: helpers read (picture.c) and hand over while the network works
 */
#ifndef STOKE_SRC_TRAIN_PREDICT_H
#define STOKE_SRC_TRAIN_PREDICT_H

#include "src/base/mem.h"
#include "src/loader/memory_plan.h"
#include "src/loader/sample.h"
#include "src/pix/pix.h"
#include <stoke/dataset.h>
#include <stoke/image.h>
#include <stoke/labels.h>
#include <stoke/memory.h>
#include <stoke/predict.h>

enum {
    STK_PREDICT_SIDE = 1 << 24, /* of a picture, at most: whatever is computed from it fits 32 bits */
    STK_PREDICT_BATCH = 256     /* rows of a pass, at most */
};

/* What a network's logits and windows are bound to. */
typedef struct stk_predict_raster {
    uint32_t stride; /* pixels from one element of the logits to the next */
    uint32_t unit;   /* windows begin and end at multiples of it; one of `stride` */
} stk_predict_raster;

stk_predict_raster stk_predict_raster_of(const stoke_net_plan *net);
/* Whether windows can be of such a size. */
static inline int stk_raster_has(stk_predict_raster raster, uint32_t height, uint32_t width)
{
    return height % raster.unit == 0 && width % raster.unit == 0;
}

/* Where windows lie along one side of a picture. */
typedef struct stk_predict_windows {
    stk_predict_raster raster;
    uint32_t window, step; /* pixels, multiples of raster.unit */
    uint32_t length;       /* of the side, continued to a multiple of raster.unit and at least `window` */
    uint32_t count;
} stk_predict_windows;

/* overlap: share of a window that the next one sees too. */
stk_predict_windows stk_windows_of(uint32_t side, uint32_t window, stk_predict_raster raster, double overlap);

struct stoke_predictor {
    stoke_net *net;
    int borrowed;                /* the network is another's, who closes it */
    stoke_predict_params params; /* strings are NULL: they were the caller's */
    uint32_t height, width;      /* of the network's pictures */
    stk_predict_raster raster;
    uint32_t classes;
    size_t stride; /* floats of an element of the grid */
    uint32_t batch;
    int own_scale;
    int restores; /* task restore: height and width are those of a tile, at most */
    const char *size_from;
    uint16_t *swap; /* class -> its mirror image; NULL: nothing to swap */
    stk_pix_writer writer;
    stk_pix_resizer *resizer;
    float *rows;                        /* batch pictures as the network takes them */
    stk_mem_buffer fitted, window;      /* pixels */
    stk_mem_buffer truth;               /* the mask of a window */
    stk_mem_buffer sums;                /* logits of windows and mirror images, averaged */
    stk_mem_buffer shares, merged;      /* of windows; one element per thread */
    stk_mem_buffer labels, taps, lines; /* classes as the network gives them; of interpolation; confidence */
};

/* Logits on a grid: height x width elements of predictor->stride floats. */
typedef struct stk_predict_grid {
    const float *data;
    uint32_t height, width;
} stk_predict_grid;

/* ---- predict_slide.c: rows through the network ---- */

/* Rows a picture or window takes: 2 with its mirror image. */
uint32_t stk_predict_views(const stoke_predictor *predictor);
/* Writes a picture of the network's size as item `item` of the next pass. */
void stk_predict_put(stoke_predictor *predictor, uint32_t item, const stoke_image *pixels);
/* Runs `items` of them; *logits are the network's. */
int stk_predict_pass(stoke_predictor *predictor, uint32_t items, stoke_logits *logits, stoke_error *err);

/* Where the logits of a pass go: items side by side (or over each other) in a band of the sums. */
typedef struct stk_predict_sums {
    float *data;                /* of the band's line that is the items' first */
    uint32_t width;             /* elements of a line */
    const float *across, *down; /* factors of a column of the band, of a line of the items; NULL: 1 */
} stk_predict_sums;
/* Adds item i at column columns[i] (elements), its mirror image merged into it. */
void stk_predict_add(stoke_predictor *predictor, const stoke_logits *logits, uint32_t items,
                     const uint32_t *columns, const stk_predict_sums *sums);

/* ---- and from the grid to classes ---- */

/* The classes of height x width pixels that the grid covers, [height][width] u16, the predictor's until the
 * next call; NULL: no memory. */
const uint16_t *stk_grid_classes(stoke_predictor *predictor, const stk_predict_grid *grid, uint32_t width,
                                 uint32_t height, stoke_error *err);
/* Lines of classes, `stride` elements apart, into lines of the mask from `first` on. */
void stk_grid_copy(const uint16_t *classes, size_t stride, uint32_t lines, const stoke_image *mask,
                   uint32_t first);
/* Sum of the probabilities of the winners over lines x columns of the grid. NaN: no memory. */
double stk_grid_confidence(stoke_predictor *predictor, const stk_predict_grid *grid, uint32_t lines,
                           uint32_t columns);

typedef struct stk_predict_preset {
    uint32_t height, width;       /* 0: nothing was said */
    double mean[3], deviation[3]; /* deviation[0] 0: nothing was said */
} stk_predict_preset;
/* preprocessor_config.json of a folder; all 0 where there is none. It is hostile input. */
int stk_preset_read(const char *weights, stk_predict_preset *preset, stoke_error *err);

/* ---- predict.c ---- */

/* auto slides over pictures larger than this many times what the network sees, in height or width. */
extern const double stk_much_larger;

/* Whether weights restore pictures; 0 too where they cannot be read. */
int stk_predict_restores(const char *weights);

/* A predictor that slides with a network that somebody else has, in passes of up to its batch: what a run
 * validates with. augment: as in stoke_predict_params. */
int stk_predictor_borrow(stoke_predictor **out, stoke_net *net, const char *augment, stoke_error *err);

/* stoke_predictor_run; truth (may be NULL) has the picture's size, 1 channel of u8 or u16: of a picture that
 * is slid over, about->loss is then measured. */
int stk_predictor_run(stoke_predictor *predictor, const stoke_image *image, const stoke_image *truth,
                      const stoke_image *mask, stoke_prediction *about, stoke_progress_fn progress,
                      void *context, stoke_error *err);

int stk_predict_check_image(const stoke_image *image, stoke_error *err);
int stk_predict_check_mask(const stoke_predictor *predictor, uint32_t width, uint32_t height,
                           const stoke_image *mask, stoke_error *err);
/* Classes of one item of a pass over resized pictures, into the mask. */
int stk_predict_resized(stoke_predictor *predictor, const stoke_logits *logits, uint32_t item,
                        const stoke_image *mask, stoke_prediction *about, stoke_error *err);

/* ---- and windows over a picture at its own scale ---- */

/* Bytes of the band that goes down a picture, of windows of that height: sums, and the classes they come to.
 */
uint64_t stk_slide_band(const stk_predict_windows *across, uint32_t height, uint32_t classes);
/* Bytes it will hold for such a picture, and how many windows there are. */
uint64_t stk_slide_bytes(const stoke_predictor *predictor, uint32_t width, uint32_t height,
                         uint64_t *windows);
/* The same before there is a network: overlap as stoke_predict_params has it by default. */
uint64_t stk_slide_windows(uint32_t width, uint32_t height, uint32_t window_width, uint32_t window_height,
                           stk_predict_raster raster);
/* truth may be NULL: then there is no about->loss. */
int stk_slide(stoke_predictor *predictor, const stoke_image *image, const stoke_image *truth,
              const stoke_image *mask, stoke_prediction *about, stoke_progress_fn progress, void *context,
              stoke_error *err);

/* The pixels of a window that begins inside the image: a view where it ends there too, else a copy in `room`,
 * continued by the mirror image. */
int stk_predict_window(const stoke_image *image, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                       stk_mem_buffer *room, stoke_image *pixels, stoke_error *err);

/* ---- predict_restore.c ---- */

/* The usual side of a tile, and the least that one may have. */
uint32_t stk_restore_tile(const stoke_net_plan *net);
uint32_t stk_restore_least(const stoke_net_plan *net);
/* Bytes besides network, picture and result; most: height and width of a tile. count (may be NULL): tiles. */
uint64_t stk_restore_bytes(const stoke_net_plan *net, const uint32_t most[2], uint32_t width, uint32_t height,
                           uint64_t *count);
/* Whether such a picture can be restored into that; restored NULL: into nothing yet. */
int stk_restore_check(const stoke_predictor *predictor, uint32_t width, uint32_t height,
                      const stoke_image *restored, stoke_error *err);

/* ---- train_memory.c ---- */

/* What predicting many files takes besides the network, from their headers. */

typedef struct stk_predict_work {
    uint32_t height, width, classes; /* of the network */
    stk_predict_raster raster;
    const stoke_net_plan *restores; /* task restore: what by; else NULL */
    uint32_t batch, views;          /* rows of a pass, of which a picture takes so many */
    int mode;                       /* stoke_predict_mode; auto: both may come */
    double overlap;
    uint64_t files;
    uint32_t helpers;
    uint64_t memory; /* of the job */
    int images;
    uint32_t ids, values; /* bytes of a pixel of masks that are read too: as class ids, in files; 0: none */
    uint32_t own_bytes;   /* of a pixel, by who takes the masks */
} stk_predict_work;

stk_predict_work stk_predict_work_of(const stoke_predictor *predictor, const stoke_predict_job *job);

/* What is booked of job.memory for one picture. */
typedef struct stk_predict_booking {
    uint64_t slot;    /* from decoding to handing over: pixels, masks, what the taker of masks adds */
    uint64_t reading; /* besides, while it is decoded, and then its mask */
} stk_predict_booking;
/* Of what a worker of a loader would need: a picture is decoded whole, so its file comes twice at most. */
uint64_t stk_predict_reading(const stk_scratch_bytes *need);
/* whole: its pixels are wanted at its own size. need: of a bench for it, or for the largest of many. */
stk_predict_booking stk_predict_book(const stk_predict_work *work, uint64_t pixels, int whole,
                                     const stk_scratch_bytes *need);

/* Slots for pictures on their way: one in the hands of each helper, two passes of the network. */
uint32_t stk_predict_slots(const stk_predict_work *work);
/* Bytes that a helper's reader may keep between two files. */
uint64_t stk_predict_kept(const stk_predict_work *work);

/* No more `memory` than is of use: every helper has a picture in hands, or as many small ones wait as make a
 * pass. Pictures so large that this is little keep helpers longer than the network. */
void stk_predict_settle(stk_predict_work *work, const stk_probe *probe);
/* Adds pictures on their way, helpers and what the predictor holds. */
void stk_predict_add_memory(stoke_memory_sum *sum, const stk_predict_work *work, const stk_probe *probe);
/* Lowers `memory`, then the helpers, until that is no more than so many bytes. 0: the least, which it is then
 * set to, is more. */
int stk_predict_squeeze(stk_predict_work *work, const stk_probe *probe, uint64_t bytes);

/* ---- picture.c ---- */

/* Pictures from files, as the loader makes them: its own decoding, windows of 16-bit values and resize, so
 * that a network sees in prediction what it saw in validation. */

/* The settings of all readers, as if each picture were a sample; stk_loader_config_destroy it in any case. */
int stk_pictures_config(stk_loader_config *config, const stoke_data_params *data, uint32_t height,
                        uint32_t width, stoke_error *err);

/* One per thread. Its scratch is created and destroyed by who has it; pixels live there until the next call.
 */
typedef struct stk_picture_reader {
    const stk_loader_config *config;
    stk_scratch scratch;
    stk_sample_ctx ctx; /* width and height are those of the picture as it will be shown */
} stk_picture_reader;

/* Reads the file and applies its orientation. The message of a failure names the file. */
int stk_picture_read(stk_picture_reader *reader, const stoke_sample *file, stoke_error *err);
/* Its stored orientation: 0: there is none, 1: applied, -1: left alone. */
int stk_picture_turned(const stk_picture_reader *reader);
/* Then: its pixels at a size, 3 channels, u8 or, from 16-bit files, u16. */
int stk_picture_decode(stk_picture_reader *reader, uint32_t width, uint32_t height, stoke_image *image,
                       stoke_error *err);
/* From pixels one has, at the size of the settings. */
int stk_picture_fit(stk_picture_reader *reader, const stoke_image *whole, stoke_image *image,
                    stoke_error *err);

#endif
