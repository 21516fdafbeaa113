/* SPDX-License-Identifier: Apache-2.0
 *
 * What predicting many files takes besides the network, from their headers.
 */
#ifndef STOKE_SRC_TRAIN_PREDICT_MEMORY_H
#define STOKE_SRC_TRAIN_PREDICT_MEMORY_H

#include <stoke/labels.h>
#include <stoke/memory.h>
#include <stoke/predict.h>

#include "src/loader/memory_plan.h"

typedef struct stk_predict_work {
    uint32_t height, width, classes; /* of the network */
    uint32_t batch, views;           /* rows of a pass, of which a picture takes so many */
    int mode;                        /* stoke_predict_mode; auto: both may come */
    double overlap;
    uint64_t files;
    uint32_t helpers;
    uint64_t memory; /* of the job */
    int images;
    uint32_t ids, values; /* bytes of a pixel of masks that are read too: as class ids, in files; 0: none */
    uint32_t own_bytes;   /* of a pixel, by who takes the masks */
} stk_predict_work;

/* Masks of such labels are read too. */
void stk_predict_work_read(stk_predict_work *work, const stoke_labels *labels);
stk_predict_work stk_predict_work_of(const stoke_predictor *predictor, const stoke_predict_job *job);

/* What is booked of job.memory for one picture. */
typedef struct stk_predict_booking {
    uint64_t slot;    /* from decoding to handing over: pixels, masks, what the taker of masks adds */
    uint64_t reading; /* besides, while it is decoded, and then its mask */
} stk_predict_booking;
/* whole: its pixels are wanted at its own size. need: of a bench for it, or for the largest of many. */
stk_predict_booking stk_predict_book(const stk_predict_work *work, uint64_t pixels, int whole,
                                     const stk_scratch_bytes *need);

/* Threads of a job that wants `helpers` (0: chosen). */
uint32_t stk_predict_helpers(uint32_t helpers);
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

#endif
