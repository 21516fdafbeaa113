/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over a validation set: loss, matrix of counts, the worst pictures, pictures to look at.
 */
#ifndef STOKE_SRC_TRAIN_EVALUATE_H
#define STOKE_SRC_TRAIN_EVALUATE_H

#include <stoke/loader.h>
#include <stoke/train.h>

#include "src/pix/pix.h"

typedef struct stk_evaluate_worst {
    const char *name; /* the dataset's */
    uint64_t id;
    double miou, accuracy; /* of this picture alone */
} stk_evaluate_worst;
enum { STK_WORST = 16 };
/* Puts a picture on the list (room for STK_WORST) if it belongs there. Ascending; of equal ones that with the
 * lower id first, so that the list does not depend on who comes when. */
void stk_worst_note(stk_evaluate_worst *list, size_t *count, const stk_evaluate_worst *picture);

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
/* Scores for the caption of a sample, where those of the pixels that are shown are not the ones that count.
 */
void stk_gallery_score(stk_evaluate_gallery *gallery, uint64_t id, double miou, double accuracy);
/* Keeps a whole picture of any size, if it is wanted: image RGB u8, masks u8 or u16; scaled down to the
 * gallery's height and width, with its proportions. own: whose it is, and the scores for its caption. */
int stk_gallery_show(stk_evaluate_gallery *gallery, const stk_evaluate_worst *own, const stoke_image *image,
                     const stoke_image *truth, const stoke_image *predicted, stoke_error *err);
/* 1: a picture was taken since it was created. Where all that are wanted were bad files there is none. */
int stk_gallery_has_any(const stk_evaluate_gallery *gallery);
int stk_gallery_write(const stk_evaluate_gallery *gallery, const char *path, const char *title,
                      int64_t ignore_index, const char *const *class_names, uint32_t classes,
                      stoke_error *err);

typedef struct stk_evaluate_result {
    double loss; /* mean over the samples */
    stoke_scores scores;
    uint64_t samples;
    uint64_t windows; /* the network looked at; 0: pictures were resized to its size */
    double seconds, data_seconds;
    stk_evaluate_worst worst[STK_WORST]; /* ascending miou */
    size_t n_worst;
} stk_evaluate_result;

/* Runs the loader's epoch to its end and sets it back to the start (stoke_loader_set_epoch(loader, 0)).
 * `confusion` is reset first. gallery may be NULL. Every sample counts once: rows that stand in for bad files
 * do not. STOKE_E_CANCELLED when progress asks. */
int stk_evaluate(stoke_net *net, stoke_loader *loader, stoke_confusion *confusion,
                 stk_evaluate_gallery *gallery, stk_evaluate_result *result, stoke_progress_fn progress,
                 void *context, stoke_error *err);

#endif
