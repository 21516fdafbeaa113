/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a run, shared by its files:
 *
 *   trainer.c           opening and closing: settings, folder, network, loaders, the state to go on from
 *   trainer_folder.c    runs/NAME: where it lies, whose it is, what it may hold already
 *   trainer_loop.c      steps, epochs, when to evaluate, save and leave
 *   trainer_save.c      what the caller hears; evaluation, checkpoints, the report; what the run holds of a
 *                       longer one and must not lose, and what it can do without
 *   trainer_together.c  the batches of a step whose lanes have one batch norm
 *   lanes.c, ranks.c    how processes share a step, and how they agree on everything else
 *   audit.c             whether what they computed has the same bits
 *   bad_share.c         how they count bad samples
 *   eval_share.c        how they share an evaluation
 *   rank_log.c          what one process of several notes of its steps
 *   rank_watch.c        what rank 0 keeps of the steps of all: who was last, and why
 *   identity.c          which files and settings it is the run of
 *
 * What a checkpoint holds is `now`, the network and the identity; everything else here can be made again.
 * Nothing that the weights depend on is read from the clock, the cadences or the number of threads.
 */
#ifndef STOKE_SRC_TRAIN_TRAINER_H
#define STOKE_SRC_TRAIN_TRAINER_H

#include <limits.h>

#include "src/base/remarks.h"
#include "src/train/bad_share.h"
#include "src/train/checkpoint.h"
#include "src/train/eval_share.h"
#include "src/train/evaluate.h"
#include "src/train/lanes.h"
#include "src/train/log_writer.h"
#include "src/train/rank_log.h"
#include "src/train/rank_watch.h"
#include "src/train/ranks.h"
#include <stoke/dataset.h>
#include <stoke/tools/live.h>
#include <stoke/tools/train.h>

/* ---- files seen ---- */

/* Whether files changed under their names. Names and order tell one set from another; size and time tell, at
 * the price of a stat for each, whether somebody has worked on the pictures since. */

/* 1: some changed after a moment of CLOCK_REALTIME; `text` says how many, each counted once, and names the
 * first. */
int stk_files_newer_text(const stk_setup *setup, int64_t since_ns, char *text, size_t size);

/* ---- whole paths of a run ---- */

/* Where a run lies, and where what its settings name lay when they were written. config.yaml has whole paths,
 * so that a run goes on from any working directory and after it was moved; the marker of its folder
 * (src/base/ours.h) has the folder's own path as its second line, so that what was moved together with the
 * run is found again. See also stoke_run_follow in <stoke/train.h>. */

/* Replaces every setting that names a file by its whole path, which the arena has. What cannot be made whole
 * stays as it is. */
void stk_run_whole_paths(stk_string_arena *strings, stoke_data_params *data, stoke_train_params *params);

/* What `path` is called after what lay around `was` came to lie around `now` (both whole paths of a run): its
 * new name in `moved`, or 0 when it did not lie around it. Pure text. */
int stk_run_place_map(const char *path, const char *was, const char *now, char *moved, size_t size);

/* ---- trainer ---- */

enum {
    STK_NAMES = 8,         /* of a step's pictures, for messages */
    STK_SKIPS = 20,        /* fp16: steps in a row whose gradients overflow before the run is given up */
    STK_SAVE_SECONDS = 600 /* save_every auto: no more work than this is lost */
};
/* ... and where a step takes longer than this, so long that a request to end may not wait for it, as often as
 * saving takes 2 % of the time: 15 s for a b0 that is saved in 0.3 s. */
#define STK_LONG_STEP     1.0
#define STK_SAVES_PER_GAP 50

/* Lanes with one batch norm have their batches on their way together: one of each own lane. */
typedef struct stk_trainer_together {
    const stoke_batch **batches;
    stoke_net_batch *rows;
    double *losses;
} stk_trainer_together;

/* A step that is on its way. */
typedef struct stk_trainer_step {
    stk_ranks_step all;
    stk_rank_moments moments;
} stk_trainer_step;

/* Sums that fade: about the last twenty steps. */
typedef struct stk_trainer_lately {
    double images, seconds, data_seconds;
} stk_trainer_lately;

/* What a run can do without: the files of its journal (stk_log_file), and ... */
typedef enum stk_trainer_extra {
    STK_EXTRA_PICTURES = STK_LOG_FILES,
    STK_EXTRA_REPORT,
    STK_EXTRAS
} stk_trainer_extra;

typedef struct stk_trainer_missing {
    uint64_t times;
    char why[512]; /* the first time */
} stk_trainer_missing;

struct stoke_trainer {
    stk_setup setup;
    stoke_train_fn event;
    void *context;
    int asked;      /* to stop: what the callback said */
    int stops;      /* what all ranks have agreed on: the largest of what any of them was asked */
    stk_comm *comm; /* NULL: one process */
    stk_ranks ranks;
    stk_rank_log rank_log;
    stk_rank_watch watch;

    char *folder;
    int folder_fd;  /* holds the lock on the folder; -1: none */
    int is_new;     /* the folder was made for this run */
    int is_alone;   /* and all that is in it */
    int useless;    /* the run failed before its first step */
    int resumed;    /* from a checkpoint */
    int new_scores; /* forced: those of the checkpoint were measured otherwise */
    char *identity;
    stoke_net *net;
    stk_lanes lanes; /* how a step's batches are added up */
    stk_trainer_together together;
    stoke_loader *train;
    stoke_loader *val;    /* validates at the network's size; NULL: no validation, or ... */
    stoke_net *viewer;    /* takes whole pictures, with the weights of `net`; NULL: not needed */
    stk_original sight;   /* ... at the pictures' own; its predictor is NULL otherwise */
    stk_eval_share share; /* of the validation set */
    stk_bad_share bad;    /* samples of the training set */
    stoke_labels *labels;
    stoke_confusion *confusion;
    stk_evaluate_gallery *gallery; /* NULL: no pictures */
    stk_log_writer *log;           /* NULL: rank 0 writes it */
    stoke_live *live;              /* NULL: the page could not be made */
    stk_trainer_missing missing[STK_EXTRAS];

    stk_remarks remarks; /* said before the log began, to be written then; of ranks above 0: for rank 0 */
    size_t untold;       /* of those ranks: the first that rank 0 has not heard */
    enum { STK_LOG_LATER, STK_LOG_OPEN, STK_LOG_ENDED } log_state;

    stk_checkpoint_progress now;
    stk_evaluate_result found; /* by the last evaluation; rank 0 has that of all */
    uint64_t eval_began_ns;    /* when it began */
    stoke_scores scores;       /* of the last evaluation of this session */
    int evaluated;             /* there was one */
    int saves;                 /* after this step: the last checkpoint is long ago */
    int said_cost;             /* that evaluations take long */
    int stopped_early;
    int reported; /* the last report was written */

    /* the clock of this session */
    uint64_t began_ns, saved_ns;
    double earlier;              /* seconds of the sessions before */
    uint64_t session;            /* steps of this one */
    double step_seconds;         /* of those but the first, which waits for everything to start */
    double wait_seconds;         /* of step_seconds: for data */
    double eval_seconds;         /* of the last evaluation, with what is saved after it */
    double last_step, last_save; /* seconds that each took */
    stk_trainer_lately lately;
    uint64_t waited_ns, stepped_ns; /* by all steps: for data; otherwise */
    double last_loss, lr, gradient_norm, loss_scale;

    stk_log_step_note note; /* what the next line of the log will say: sums since the last */
    double note_loss;       /* sum of the finite losses, and how many */
    uint64_t note_steps, note_losses;

    const char *names[STK_NAMES]; /* of the pictures of the step being taken */
    uint64_t n_names;             /* how many there are, named or not */
};

/* trainer_save.c */
double stk_trainer_clock(const stoke_trainer *trainer); /* seconds since the run began, over all sessions */
/* An event with everything that is known of the run; send passes it on and notes whether to stop. */
stoke_train_event stk_trainer_event(const stoke_trainer *trainer, stoke_train_event_kind kind);
void stk_trainer_send(stoke_trainer *trainer, const stoke_train_event *event);
/* Tells of so much of something; 1: stop. */
int stk_trainer_count(stoke_trainer *trainer, stoke_train_event_kind kind, uint64_t done, uint64_t total);
void stk_trainer_remark(stoke_trainer *trainer, const char *format, ...) STOKE_PRINTF(2, 3);
/* The log has begun: writes the remarks of before into it. */
void stk_trainer_log_remarks(stoke_trainer *trainer);

/* One of them could not be made: a remark the first time, counted after that. */
void stk_trainer_without(stoke_trainer *trainer, stk_trainer_extra what, const char *why);
/* The same for what the journal has lost: stk_log_lost_fn. */
void stk_trainer_lost(void *trainer, stk_log_file file, const char *why);
/* At the end: what is missing, and why. */
void stk_trainer_say_missing(stoke_trainer *trainer);

/* trainer.c: what others can see of it while it runs */
/* Writes it. */
void stk_trainer_live(stoke_trainer *trainer, stoke_live_phase phase);

/* trainer_loop.c: where the training loader stands after the last step, as stoke_loader_state. */
void stk_trainer_place(const stoke_trainer *trainer, char text[static STK_LOADER_STATE]);

/* trainer_loop.c, of a step's batches: the next one; it is one of the step's, as the network takes it; a loss
 * that is not finite, with its pictures; all agree, before gradients of which none can fail. */
int stk_trainer_next_batch(stoke_trainer *trainer, const stoke_batch **batch, double *waited,
                           stoke_error *err);
void stk_trainer_took(stoke_trainer *trainer, const stoke_batch *batch, stoke_net_batch *rows,
                      uint64_t *images);
int stk_trainer_check_loss(stoke_trainer *trainer, const stoke_batch *batch, double loss, stoke_error *err);
int stk_trainer_agree_on_step(stoke_trainer *trainer, int r, stk_trainer_step *step, stoke_error *err);
/* trainer_together.c; take: all gradients of a step. */
int stk_trainer_together_open(stoke_trainer *trainer, stoke_error *err);
void stk_trainer_together_close(stoke_trainer *trainer);
int stk_trainer_together_take(stoke_trainer *trainer, stk_trainer_step *step, stoke_error *err);

/* trainer_folder.c */
/* Names the folder and sees whether it can be used; writes nothing. */
int stk_trainer_find_folder(stoke_trainer *trainer, stoke_error *err);
/* Makes it, locks it. */
int stk_trainer_claim_folder(stoke_trainer *trainer, stoke_error *err);
/* Removes a folder that was made for a run without a step, so that its name is free again: the files that a
 * run begins with, and the folder where nothing else is in it. */
void stk_trainer_discard_folder(const stoke_trainer *trainer);
/* config.yaml. Not before the state was taken over: that of a run that cannot go on like this must stay. */
int stk_trainer_write_config(const stoke_trainer *trainer, stoke_error *err);

/* "FOLDER/NAME"; STOKE_E_LIMIT where that is too long. */
int stk_trainer_path(const stoke_trainer *trainer, char path[static PATH_MAX], const char *name,
                     stoke_error *err);

/* Of a run to be resumed, both before anything is written: whether it may begin again, as there is no state;
 * whether it may go on from the state that was found (in `now`). STOKE_E_STATE: that would cost the networks
 * of a longer run, and `force` was not given. */
int stk_trainer_begins_again(stoke_trainer *trainer, stoke_error *err);
int stk_trainer_goes_back(stoke_trainer *trainer, stoke_error *err);

/* trainer_save.c */
/* Into `found`, by all ranks; they agree on what became of it. */
int stk_trainer_measure(stoke_trainer *trainer, stoke_error *err);
/* What rank 0 makes of `found`: scores, best/, a picture, the line of the log. */
int stk_trainer_evaluate(stoke_trainer *trainer, stoke_error *err);
int stk_trainer_save(stoke_trainer *trainer, stoke_error *err);
/* best or last alone. */
int stk_trainer_save_network(stoke_trainer *trainer, const char *name, stoke_error *err);
/* The line of the log with the sums since the last one; nothing when no step came since. */
void stk_trainer_write_note(stoke_trainer *trainer);

#endif
