/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/predict.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_PREDICT_H
#define STOKE_TOOLS_PREDICT_H

#include <stoke/predict.h>

/* The run's config.yaml; NULL: the network belongs to no run. */
STOKE_API const char *stoke_trained_config(const stoke_trained *trained);

/* The data settings of the run, from its config.yaml; the defaults without a run. Strings live as long as
 * `trained`. */
STOKE_API const stoke_data_params *stoke_trained_data(const stoke_trained *trained);

/* How the run validated (eval_mode of its config.yaml): what an evaluation takes for its figures to be those
 * of the run. auto without a run, and of runs from before there was a choice. */
STOKE_API stoke_predict_mode stoke_trained_eval_mode(const stoke_trained *trained);

/* What a picture of a size will take. */
typedef struct stoke_predict_plan {
    int mode;         /* auto resolved */
    uint64_t windows; /* the network looks at, without mirror images */
    uint64_t bytes;   /* besides network, picture and mask */
} stoke_predict_plan;
STOKE_API stoke_predict_plan stoke_predictor_plan(const stoke_predictor *predictor, uint32_t width,
                                                  uint32_t height);

/* What stoke_predict_files takes of memory, network and process included. Reads the headers of all files, and
 * lowers job->memory to what is of use for them. limit (0: none) lowers it further, then job->helpers;
 * STOKE_E_LIMIT, with the least that would do, when even one picture at a time needs more. */
STOKE_API int stoke_predict_memory(const stoke_predictor *predictor, stoke_predict_job *job, uint64_t limit,
                                   stoke_memory_sum *sum, stoke_error *err);

#endif
