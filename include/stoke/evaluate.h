/* SPDX-License-Identifier: Apache-2.0
 *
 * How good a trained network is on a set: `stoke eval` as a function.
 *
 *   stoke_eval_params params = stoke_eval_defaults();
 *   stoke_trained_settings(trained, &params.network);          // <stoke/predict.h>
 *   stoke_evaluate_set(&data, &params, NULL, NULL, &report, &err);
 *   printf("%f\n", report.scores.miou);
 *   stoke_eval_report_free(&report);
 */
#ifndef STOKE_EVALUATE_H
#define STOKE_EVALUATE_H

#include <stoke/metrics.h>
#include <stoke/predict.h>

enum { STOKE_EVAL_WORST = 16 };

typedef struct stoke_eval_params {
    uint32_t struct_size;
    stoke_predict_params
        network; /* weights, size, batch, precision, threads; mode, overlap, flip and augment */
    /* 1: at each mask's own size, each picture as `stoke predict` labels it with such a mode. 0: the same if
     * mode is slide; resize brings pictures and masks to the network's size; auto does as validation during
     * training: slide where the network learned from windows at the pictures' own scale (augment) and one of
     * the pictures is more than 1.5 times its size in height or width, else resize. So figures are those of
     * the training log. */
    int original;
    const char *picture; /* PNG of the worst pictures with truth and prediction; NULL: none */
    /* Hears what will be taken of memory, before it is; may be NULL. data->memory_limit holds for the sum. */
    void (*planned)(void *context, const stoke_memory_sum *sum);
    void *planned_context;
} stoke_eval_params;
STOKE_API stoke_eval_params stoke_eval_defaults(void);

typedef struct stoke_eval_worst {
    char *name;            /* of the sample */
    double miou, accuracy; /* of this picture alone */
    double psnr, ssim;     /* restored pictures: in place of them, */
    double input_psnr;     /* and of the picture as it came; NaN: it is smaller */
} stoke_eval_worst;

typedef struct stoke_eval_report {
    int task;                   /* stoke_task: whose scores they are */
    stoke_confusion *confusion; /* NULL: restored pictures */
    stoke_scores scores;
    stoke_scores input; /* restored pictures: of them as they came; NaN where targets are larger */
    uint32_t classes;   /* of the matrix: 0 of restored pictures, 2 for a network with one (foreground against
                           background) */
    char **class_names; /* `classes` of them, NULL where none is known: config.json's, else the label map's */
    double loss;  /* cross-entropy, mean over the samples; NaN where one was resized and scored at its own
                     size.  Restored pictures: charbonnier */
    int mode;     /* how pictures were looked at: stoke_predict_mode; auto: each as `stoke predict` does */
    int original; /* scored at the masks' own size */
    uint64_t samples;      /* that counted */
    uint64_t windows;      /* the network looked at, without mirror images; 0: at its own size */
    uint64_t bad;          /* that could not be read */
    char first_bad[512];   /* one of them and why; "" = none */
    char unrecorded[1024]; /* of them that data->quarantine lacks, and why; "" = none; also after a failure */
    uint32_t height, width; /* of what the network saw */
    stoke_net_plan plan;
    stoke_memory_sum memory;
    double seconds;                           /* of the evaluation, without opening the network and drawing */
    double images_per_s;                      /* over these */
    double waited_seconds;                    /* of these, for pictures */
    stoke_eval_worst worst[STOKE_EVAL_WORST]; /* ascending miou; pictures without a pixel that counts are not
                                                 listed */
    size_t n_worst;
} stoke_eval_report;

/* Of a network that restores pictures the set has targets, and every picture is taken whole, at its own size:
 * `original`, ways to look at it and sizes do not matter.
 *
 * Settings of `data` that change pictures are set aside: no augmentation, in order, every sample once.
 * STOKE_E_INVALID: the set has no masks, or data->classes is given and not the network's. A mask with a class
 * beyond those of the network is a bad file; data->max_bad of them end it. They are recorded in
 * data->quarantine where that is not the name of stoke_data_defaults(). STOKE_E_CANCELLED when progress
 * (samples done of all; may be NULL) asks. Free the report in every case. */
STOKE_API int stoke_evaluate_set(const stoke_data_params *data, const stoke_eval_params *params,
                                 stoke_progress_fn progress, void *context, stoke_eval_report *report,
                                 stoke_error *err);
STOKE_API void stoke_eval_report_free(stoke_eval_report *report); /* accepts a zeroed struct */

#endif
