/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation: of a loader in batches, or picture by picture at the masks' own size.
 */
#ifndef STOKE_SRC_TRAIN_EVALUATE_H
#define STOKE_SRC_TRAIN_EVALUATE_H

#include "src/base/mem.h"
#include "src/pix/pix.h"
#include "src/source/pairs.h"
#include "src/source/quarantine.h"
#include "src/train/predict.h"
#include <stoke/dataset.h>
#include <stoke/loader.h>
#include <stoke/net.h>
#include <stoke/predict.h>
#include <stoke/tools/metrics.h>
#include <stoke/train.h>

/* ---- plan of an eval ---- */

/* How a validation set is looked at, and what that takes. A network that learned from windows at the
 * pictures' own scale is to be measured on such windows; one that learned from whole pictures on whole
 * pictures. */

enum {
    STK_EVAL_MEMORY = 128 << 20, /* stoke_predict_job.memory of a run's validation */
    STK_EVAL_SIDE = 512,         /* of whole pictures that are kept to look at, at most */
    STK_EVAL_PART = 256          /* of restored ones */
};

typedef struct stk_eval_plan {
    int mode;          /* resize (at the network's size) or slide (at the pictures' own) */
    int own_scale;     /* samples of training are windows at the pictures' own scale */
    double most_shown; /* see stk_pipeline_most_shown */
    double windows;   /* of a picture, in the mean; 1 with resize. Restored: its size over that of a sample */
    double larger;    /* than what the network sees, in height or width, a picture is at most */
    uint32_t width;   /* of the widest; 0: no header could be read */
    uint32_t height;  /* of the tallest */
    int restores;     /* pictures: slide takes them whole, by exact tiles */
    uint64_t pixels;  /* of the largest */
    uint64_t reading; /* see stk_whole_reading; 0: not looked at */
    stk_predict_raster raster;
} stk_eval_plan;

const char *stk_eval_mode_name(int mode);

/* wanted: stoke_predict_mode. auto slides where training looks at windows at the pictures' own scale
 * (augment) and one of the pictures is more than stk_much_larger times data->size: what
 * `stoke predict` does with that one. STOKE_E_INVALID: slide with windows that are no multiples of what the
 * network asks for (raster.unit). */
int stk_eval_plan_make(stk_eval_plan *plan, const stk_pairs *pairs, uint64_t count,
                       const stoke_data_params *data, const stoke_net_plan *net, int wanted,
                       stoke_error *err);

/* Bytes that an evaluation by this plan takes besides the network, at most: pictures and masks on their way,
 * windows, sums of logits, the pictures that are kept to look at. With resize the loader's own plan says it,
 * and this is 0. */
uint64_t stk_eval_plan_bytes(const stk_eval_plan *plan, const stoke_net_params *net, uint32_t pictures);

/* ---- in batches of a loader ---- */

/* One pass over a validation set: loss, matrix of counts, the worst pictures, pictures to look at. */

typedef struct stk_evaluate_worst {
    const char *name; /* the dataset's */
    uint64_t id;
    double miou, accuracy; /* of this picture alone */
    double psnr, ssim;     /* restore: in place of them */
    double input_psnr;     /* and of the picture as it came; NaN: it is smaller */
} stk_evaluate_worst;
enum { STK_WORST = 16 };

/* Pictures kept during an evaluation: `wanted` samples evenly spread over the set, the same ones every time.
 */
typedef struct stk_evaluate_gallery stk_evaluate_gallery;
int stk_gallery_create(stk_evaluate_gallery **out, uint64_t samples, uint32_t wanted, uint32_t height,
                       uint32_t width, stoke_error *err);
void stk_gallery_destroy(stk_evaluate_gallery **gallery);
/* How the loader made floats of pictures, where that is not ImageNet's normalisation. */
void stk_gallery_undo(stk_evaluate_gallery *gallery, const stk_pix_writer *writer);
/* Keeps the rows of this batch that are wanted: pictures back to bytes from their normalised floats. */
void stk_gallery_take(stk_evaluate_gallery *gallery, const stoke_batch *batch, const uint16_t *predicted);
/* Scores for the caption of a sample. */
void stk_gallery_score(stk_evaluate_gallery *gallery, uint64_t id, double miou, double accuracy);
/* The same for restored pictures: of each the part in the middle, up to STK_EVAL_PART on a side, at its own
 * scale, where noise and edges can be seen. */
int stk_gallery_create_restored(stk_evaluate_gallery **out, uint64_t samples, uint32_t wanted,
                                stoke_error *err);
struct stk_restored_item;
void stk_gallery_take_restored(stk_evaluate_gallery *gallery, const stk_evaluate_worst *own,
                               const struct stk_restored_item *item);
/* Keeps a whole picture of any size, if it is wanted: image RGB u8, masks u8 or u16; scaled down to the
 * gallery's height and width, with its proportions. own: whose it is, and the scores for its caption. */
int stk_gallery_show(stk_evaluate_gallery *gallery, const stk_evaluate_worst *own, const stoke_image *image,
                     const stoke_image *truth, const stoke_image *predicted, stoke_error *err);
/* What a process knows of a picture it keeps, and its pixels: `bytes` of them, the same number in every
 * gallery of such a size. A gallery that got the pixels of another accepts the picture. */
typedef struct stk_gallery_note {
    int32_t seen;
    uint32_t width, height, image_width, image_height;
    double miou, accuracy, psnr, ssim, input_psnr;
} stk_gallery_note;
uint32_t stk_gallery_count(const stk_evaluate_gallery *gallery); /* NULL: 0 */
stk_gallery_note stk_gallery_note_of(const stk_evaluate_gallery *gallery, uint32_t i);
void *stk_gallery_pixels(const stk_evaluate_gallery *gallery, uint32_t i, size_t *bytes);
void stk_gallery_accept(stk_evaluate_gallery *gallery, uint32_t i, const stk_gallery_note *note,
                        const stoke_dataset *dataset);
/* 1: a picture was taken since it was created. Where all that are wanted were bad files there is none. */
int stk_gallery_has_any(const stk_evaluate_gallery *gallery);
int stk_gallery_write(const stk_evaluate_gallery *gallery, const char *path, const char *title,
                      int64_t ignore_index, const char *const *class_names, uint32_t classes,
                      stoke_error *err);

/* Samples that could not be used. */
typedef struct stk_evaluate_bad {
    uint64_t replaced, left_out;  /* rows of a loader's batches, in all passes; else pictures, in this one */
    uint64_t place;               /* in the set, of the first picture that was left out, and why: */
    char first[STOKE_ERROR_TEXT]; /* "": none, or a loader's, whose list has it */
} stk_evaluate_bad;

typedef struct stk_evaluate_result {
    double loss; /* mean over the samples */
    stoke_scores scores;
    stoke_scores input; /* restore: of the pictures as they came; NaN where targets are larger */
    uint64_t samples;
    uint64_t windows; /* the network looked at; 0: pictures were resized to its size */
    double seconds, data_seconds;
    stk_evaluate_worst worst[STK_WORST]; /* ascending miou; restore: psnr */
    size_t n_worst;
    stk_evaluate_bad bad; /* told of a pass that failed, too */
} stk_evaluate_result;

/* How processes share a pass (eval_share.h); NULL: one process does it all. */
typedef struct stk_eval_share stk_eval_share;

/* Runs the loader's epoch to its end and sets it back to the start (stoke_loader_set_epoch(loader, 0)).
 * `confusion` is reset first; it is NULL where pictures are restored. gallery may be NULL. Every sample
 * counts once: rows that stand in for bad files do not. STOKE_E_CANCELLED when progress asks. With a share,
 * which the loader follows, all ranks call it, and rank 0 has the result (stk_eval_sums_finish). */
int stk_evaluate(stoke_net *net, stoke_loader *loader, const stk_eval_share *share,
                 stoke_confusion *confusion, stk_evaluate_gallery *gallery, stk_evaluate_result *result,
                 stoke_progress_fn progress, void *context, stoke_error *err);

/* The counts of a matrix, and how many there are. */
uint64_t *stk_confusion_cells(stoke_confusion *confusion, size_t *cells);

/* ---- restored pictures (evaluate_restored.c) ---- */

/* What their scores are made of: sums over pictures. */
typedef struct stk_restored_sum {
    double squares, ssim, psnr;
    uint64_t values, pixels, pictures;
} stk_restored_sum;
void stk_restored_put(stoke_restored *restored, const stk_restored_sum *sum);
/* Of all since it was last taken; it is reset. */
stk_restored_sum stk_restored_take(stoke_restored *restored);

/* Their scores, added up; and of the pictures as they came, where these are as large. */
typedef struct stk_restored_sums {
    stoke_restored *output, *input;
    stk_mem_buffer clipped; /* an output, its values clipped to 0 .. 1 */
} stk_restored_sums;
int stk_restored_sums_create(stk_restored_sums *r, stoke_error *err);
void stk_restored_sums_free(stk_restored_sums *r); /* accepts a zeroed struct */

/* A picture of width x height as the network wrote it, its target, and what it was made of (of
 * image_width x image_height): scores go into `own` and the sums, the three into the gallery, if it is wanted
 * there. */
typedef struct stk_restored_item {
    uint32_t width, height, image_width, image_height;
    stoke_restored_picture output, target, image; /* f32, 0 .. 1; output: whatever the network gave */
} stk_restored_item;
/* Three channels of f32 as a loader writes them: planes of so many floats, or interleaved. */
stoke_restored_picture stk_float_picture(const float *data, int planar, uint32_t width, size_t plane);
int stk_restored_sums_add(stk_restored_sums *r, const stk_restored_item *item, stk_evaluate_worst *own,
                          stk_evaluate_gallery *gallery, stoke_error *err);
void stk_restored_sums_scores(const stk_restored_sums *r, stk_evaluate_result *result);
/* Puts a picture on the list (room for STK_WORST) if it belongs there: by miou, or psnr where `restored`. Of
 * equal ones that with the lower id first, so that the list does not depend on who comes when. */
void stk_worst_note(stk_evaluate_result *result, const stk_evaluate_worst *picture, int restored);

/* ---- at the original size ---- */

/* A pass over a set at its pictures' own size: what `stoke predict` would write, compared with the masks as
 * they are. A run validates with it where its samples are windows of the pictures, `stoke eval` where that
 * was so, or when told. */

typedef struct stk_original {
    stoke_predictor *predictor;
    const stoke_dataset *dataset;
    const stoke_labels *labels;
    const stoke_data_params *data; /* decoding, policy, max_bad, ignore_index */
    stk_quarantine *quarantine;    /* gets what is bad; kept from pass to pass, it has every sample once */
    const stk_eval_share *share;   /* of the pictures; NULL: one process */
    stk_evaluate_gallery *gallery; /* may be NULL */
    int loss;                      /* restore: stoke_loss_kind */
    uint64_t memory;               /* see stoke_predict_job; 0: the usual */
    uint32_t helpers;              /* likewise */
} stk_original;

/* As stk_evaluate; pictures that are restored go whole. result->loss: the mean over pictures of what their
 * windows lost, NaN unless all were slid over. The scores depend neither on threads nor on who comes when,
 * nor does the loss; nor on how many processes share it. */
int stk_evaluate_original(const stk_original *set, stoke_confusion *confusion, stk_evaluate_result *result,
                          stoke_progress_fn progress, void *context, stoke_error *err);

/* A sample that cannot be used: `policy` and `max_bad` say how far a set may be bad, as to a loader. The
 * message names the file. Noted in `bad`. */
int stk_original_bad(const stk_original *set, uint64_t id, const stoke_error *why, stk_evaluate_bad *bad,
                     stoke_error *err);

/* STOKE_E_TOO_BAD: not one sample could be used. */
int stk_original_any(const stk_original *set, const stk_evaluate_result *result, stoke_error *err);

/* The same of pictures that are restored (evaluate_restored.c), one after the other. */
int stk_evaluate_whole(const stk_original *set, stk_evaluate_result *result, stoke_progress_fn progress,
                       void *context, stoke_error *err);
/* Bytes that the largest image and the largest target take until they are pixels. Reads headers. */
int stk_whole_reading(uint64_t *bytes, const stoke_dataset *dataset, const stoke_data_params *data,
                      stoke_error *err);
/* Bytes that this takes besides the network, with so many pictures that are kept to look at. */
uint64_t stk_whole_bytes(const stk_eval_plan *plan, uint32_t scale, uint32_t pictures);
/* The settings of a network that takes whole pictures in tiles: that of a run, for inference. */
stoke_net_params stk_whole_net(const stk_eval_plan *plan, const stoke_net_params *net,
                               const stoke_net_plan *trained);

#endif
