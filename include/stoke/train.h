/* SPDX-License-Identifier: Apache-2.0
 *
 * Training as a whole: from a folder of images and masks to a network, curves, pictures and a report.
 *
 *   stoke_data_params data = stoke_data_defaults();
 *   stoke_train_params params = stoke_train_defaults();
 *   data.data = "my_set";
 *   stoke_trainer_open(&trainer, &data, &params, on_event, context, &err); // settles what is auto
 *   stoke_trainer_run(trainer, &err); // trains, evaluates, saves; on_event may ask it to stop
 *   stoke_trainer_close(&trainer);
 *
 * Everything lands in one run folder:
 *
 *   config.yaml       the settings as used, nothing left auto: `stoke train --config` repeats the run
 *   log.jsonl         a line per logged step, evaluation, checkpoint (see src/train/log_writer.h)
 *   metrics.csv       a line per evaluation
 *   events.out.*      the same for TensorBoard
 *   best/ last/       the network in Hugging Face's format
 *   live              what it is doing now, for `stoke monitor --attach` (see live.h)
 *   state.safetensors everything a resumed run needs, in one file that is whole or not there
 *   curves/ predictions/ report.html
 */
#ifndef STOKE_TRAIN_H
#define STOKE_TRAIN_H

#include <stoke/memory.h>
#include <stoke/metrics.h>
#include <stoke/net.h>

typedef enum stoke_schedule_kind {
    STOKE_SCHEDULE_POLY = 0, /* lr * (1 - t)^power: the paper's */
    STOKE_SCHEDULE_COSINE = 1,
    STOKE_SCHEDULE_CONSTANT = 2
} stoke_schedule_kind;

/* What the loss of a step is the mean of. */
typedef enum stoke_loss_mean {
    STOKE_LOSS_MEAN_BATCHES = 0, /* its batches' means */
    STOKE_LOSS_MEAN_PIXELS = 1   /* all pixels that count in it, as of one large batch */
} stoke_loss_mean;

/* Whose batches a batch norm takes its statistics from. */
typedef enum stoke_batch_norm {
    STOKE_BATCH_NORM_LOCAL = 0, /* those of one lane */
    STOKE_BATCH_NORM_SYNC = 1   /* those of all lanes */
} stoke_batch_norm;

enum { STOKE_TRAIN_LOSS_AUTO = STOKE_LOSS_KINDS };

/* Numbers in which a lane's gradients are kept: half the bytes of those that processes send as they are. */
typedef enum stoke_compress { STOKE_COMPRESS_NONE = 0, STOKE_COMPRESS_BF16 = 1 } stoke_compress;

/* Every field, its default and its meaning stand in the table (src/train/options.c) and so in
 * `stoke help train`; the comments here only add what a programmer must know. The seed is the data's. */
typedef struct stoke_train_params {
    uint32_t struct_size;
    /* the network */
    const char *model;      /* NULL: what `pretrained` holds, else b0 */
    const char *pretrained; /* folder or file; NULL: initialised from the seed */
    int partial;            /* tensors of `pretrained` that do not fit are initialised instead of refused */
    int precision;          /* stoke_precision */
    int memory;             /* stoke_memory_mode */
    int64_t threads;        /* 0: all usable cores */
    double dropout, drop_path;
    int freeze_encoder;
    int64_t base_channels, num_blocks; /* of networks at full resolution; 0: the model's own */
    int64_t patch_size; /* 0: none; else `size` of the data, and, where it has no augmentation, random crops
                           of that size with mirrors */
    /* how long: steps > 0 wins over epochs */
    int64_t epochs, steps;
    int64_t accumulate;  /* batches per step */
    const char *comm;    /* engine: "auto", "none", "mpi", "c10d", or a plugin's path */
    double comm_timeout; /* seconds that one rank may be waited for; 0: for ever */
    int compress;        /* stoke_compress: of every lane's gradients, before they are added up */
    int64_t replicas; /* times as many, in lanes that processes share; -1: as many as there are processes */
    int64_t audit_every; /* steps; 0: never: every so often each process computes a lane of another, too, and
                            STOKE_E_STATE says who does not have the same bits */
    int batch_norm;   /* stoke_batch_norm */
    /* loss */
    int loss; /* stoke_loss_kind, or STOKE_TRAIN_LOSS_AUTO: cross-entropy, of restored pictures charbonnier */
    double label_smoothing, focal_gamma, ce_weight, dice_weight;
    const char *class_weights; /* "none", "balanced" (from the masks), or a list "1,2.5,1" */
    int loss_mean;             /* stoke_loss_mean */
    /* Of restored pictures; NULL: none; "true": asked for without a file, which is said and then none. */
    const char *perceptual;
    double perceptual_weight;
    /* optimiser */
    int optimizer;  /* stoke_optimizer */
    double lr;      /* 0: chosen, by network: 6e-5 with pretrained weights, more without */
    double head_lr; /* factor of the head; 0: chosen, by network: 10 with pretrained weights, 1 without */
    double beta1, beta2, eps, momentum, weight_decay, clip_norm;
    int nesterov;
    int schedule;   /* stoke_schedule_kind */
    double warmup;  /* steps when >= 1, else share of all steps */
    double power;   /* of poly */
    double lr_end;  /* where the schedule ends, as a share of lr */
    double average; /* decay of the moving average of the weights (EMA); 0: none */
    /* evaluation */
    int64_t eval_every; /* steps; -1 auto: once per epoch, but not more often than every 50 steps, nor so
                           often that evaluations take more time than steps */
    int64_t patience;   /* evaluations without gain before stopping; 0: never */
    int metric;         /* stoke_metric_kind */
    int eval_mode; /* stoke_predict_mode: how validation looks at pictures, see stoke_eval_params.original */
    /* the run folder */
    const char *runs, *name; /* runs/NAME; name NULL: model and date */
    const char *resume;      /* a run folder to go on with; NULL: a new run */
    int go_on;          /* `continue`, the command's: whether `resume` is set to runs/NAME if that is there */
    int64_t log_every;  /* steps; -1 auto */
    int64_t save_every; /* steps between checkpoints besides those at evaluations; -1 auto: when 10 minutes
                           have passed without one, less where a step takes seconds; bits do not depend on
                           it */
    int64_t stop_after; /* leave, with a checkpoint, after this many steps of this session; 0: never */
    int pictures;       /* draw predictions at evaluations */
    int tensorboard;
    int rank_logs; /* log.rankN.jsonl of each of several processes */
    int force;     /* resume although data or settings changed, or the state is gone */
} stoke_train_params;

STOKE_API stoke_train_params stoke_train_defaults(void);

typedef enum stoke_train_event_kind {
    STOKE_TRAIN_REMARK = 0, /* text: something was chosen or is odd; a sentence */
    STOKE_TRAIN_SETTLING,   /* done of total masks read while settling what is auto */
    STOKE_TRAIN_READY, /* settled, memory planned; text: the memory plan. Before large memory is taken and
                          before anything is written: a non-zero return leaves no trace of the run */
    STOKE_TRAIN_STEP,  /* after every step */
    STOKE_TRAIN_EVALUATING, /* done of total samples */
    STOKE_TRAIN_EVALUATED,
    STOKE_TRAIN_SAVED,
    STOKE_TRAIN_EPOCH, /* an epoch is over */
    STOKE_TRAIN_DONE   /* text: why */
} stoke_train_event_kind;

/* What a run will do. The pointers are good until the callback returns. */
typedef struct stoke_train_outlook {
    const stoke_data_params *data;    /* as settled: nothing is auto any more */
    const stoke_train_params *params; /* the same */
    const stoke_net_plan *plan;
    const stoke_memory_sum *memory; /* of the whole run: network, loaders, pictures, process */
    const char *folder;
    uint64_t train_samples, val_samples;
    int resumes;         /* 1: goes on from a checkpoint, at `step` */
    double eval_windows; /* the network looks at for a picture of validation, in the mean; 1 at its own size;
                            NaN: there is no validation */
} stoke_train_outlook;

typedef struct stoke_train_event {
    stoke_train_event_kind kind;
    uint32_t rank, world; /* of the processes that train together: 0 of 1 is alone */
    const char *text;
    uint64_t done, total;
    uint64_t step, steps; /* done so far, in all */
    uint64_t epoch, epochs, step_in_epoch, steps_per_epoch;
    double loss; /* mean over the epoch so far; EVALUATED: of validation */
    double last_loss, lr, gradient_norm;
    double images_per_s;
    double data_wait;                   /* share of the time that steps waited for data, lately */
    double seconds_left;                /* NaN: not known yet */
    const stoke_scores *scores;         /* of the last evaluation; NULL before */
    int best;                           /* EVALUATED: better than all before */
    double seconds;                     /* EVALUATED, SAVED: how long it took */
    const stoke_train_outlook *outlook; /* READY; NULL otherwise */
    /* Of several processes the rank that waits for data more than twice as long as the others do in the mean,
     * and its share of the time; 0: there is none. */
    double worst_wait;
    uint32_t worst_rank;
} stoke_train_event;
/* Called from the thread that called open or run. A non-zero return asks to stop: the run saves and run()
 * returns STOKE_E_CANCELLED. Of several processes each has its own callback, and any may ask. */
typedef int (*stoke_train_fn)(void *context, const stoke_train_event *event);

typedef struct stoke_trainer stoke_trainer;

/* ---- where a run lies ---- */

/* ---- a run ---- */

/* Settles what is auto, opens data and network, makes the run folder (or reads the one to resume). What was
 * chosen comes as remarks. STOKE_E_STATE: data or settings are not those of the run to resume; the message
 * says which. STOKE_E_TIMEOUT: another process of the run does not answer; *out may then be there. */
STOKE_API int stoke_trainer_open(stoke_trainer **out, const stoke_data_params *data,
                                 const stoke_train_params *params, stoke_train_fn event, void *context,
                                 stoke_error *err);
STOKE_API void stoke_trainer_close(stoke_trainer **trainer);
STOKE_API const char *stoke_trainer_folder(const stoke_trainer *trainer);
/* 0 when all steps are done or it stopped early; STOKE_E_CANCELLED when the callback asked, with everything
 * saved; STOKE_E_STATE for a loss that is not finite (message: step, names of the batch, what to try);
 * STOKE_E_TIMEOUT when another process has not answered for `comm_timeout`. Of several processes that of rank
 * 0 has the message of a failure, whoever's it was; on the others it is empty. */
STOKE_API int stoke_trainer_run(stoke_trainer *trainer, stoke_error *err);

typedef struct stoke_train_summary {
    int asked; /* to stop: what the callback returned, on whichever rank; 0: it was not */
    uint64_t step, best_step;
    double best;         /* value of the metric; NaN without evaluation */
    stoke_scores scores; /* of the best evaluation */
    double seconds, data_seconds, eval_seconds, save_seconds; /* of all sessions; data: waiting for batches */
    uint64_t images;
    int stopped_early;
    int reported; /* report.html is there, and of this session's end */
} stoke_train_summary;
STOKE_API stoke_train_summary stoke_trainer_summary(const stoke_trainer *trainer);

/* Curves and report.html of a run folder, made again from its log.jsonl and pictures. STOKE_E_STATE: a file
 * of such a name is there and was not drawn here (<stoke/tools/output.h>); nothing is written then, unless
 * `force`.
 */
STOKE_API int stoke_run_report(const char *folder, int force, stoke_error *err);

#endif
