/* SPDX-License-Identifier: Apache-2.0
 *
 * The three steps of a pre-flight check: what the file asks for, what there is, what the one says to the
 * other. The last takes no look at anything, so that tests can script every machine.
 */
#ifndef STOKE_SRC_TUNE_PREFLIGHT_PREFLIGHT_H
#define STOKE_SRC_TUNE_PREFLIGHT_PREFLIGHT_H

#include "src/tune/preflight/run_config.h"
#include <stoke/tools/optimize.h>

/* What there is. */
typedef struct stk_preflight_surroundings {
    stoke_machine_facts machine;
    size_t n_gpus, index;
    stoke_gpu gpu; /* the chosen one, or what the tables say of the one that is meant; else zeros */
    int meant;     /* 1: the card is in another machine (n_gpus is 0) */
    char why_no_gpu[384];
    char card_flag[96];   /* of commands about the same card: " --gpu 'RTX 4090'"; "" = none is known */
    uint32_t cores_given; /* of the machine that trains; 0 = nobody said */
    int data_there;       /* 1: opened; 0: not, and why */
    char why_no_data[512];
    uint64_t pairs, left_out, train_pairs;
    char first_left_out[256];
    int has_partners; /* masks, or targets */
    stoke_figure data_bytes;
    uint64_t names_digest, sizes_digest; /* of the set: its names; the sizes that were asked for */
    stoke_disk_facts disk;
    char why_no_disk[256];
    const char *omp_threads;              /* of the environment; NULL = not set */
    stoke_figure cpus_allowed, cpus_near; /* to this process; of them, at the memory node of the card */
    char huge_pages[16];                  /* always, madvise, never; "" = n/a */
} stk_preflight_surroundings;

/* Looks at the machine, at the data that the wish names and, for PyTorch, at the cards. */
int stk_look_around(stk_preflight_surroundings *here, const stk_run_config *config,
                    const stoke_preflight_params *params, stoke_error *err);
/* Memory nodes and large pages of the machine below `root`; the card has been looked at. */
void stk_look_at_nodes(stk_preflight_surroundings *here, const char *root);
/* What the host can still give: the smaller of what is free and the group's limit. */
stoke_figure stk_host_free(const stoke_machine_facts *machine);

/* Fills in all of the list. */
void stk_preflight_judge(stoke_preflight *list, const stk_run_config *config,
                         const stk_preflight_surroundings *here);

/* Whether anything is known of the card: it is seen, or it was named. */
int stk_has_card(const stk_preflight_surroundings *here);
/* What of the card's memory counts for a batch: all of it, as for optimize. What other programs hold just
 * now, a training that already runs among them, is said beside it. */
stoke_figure stk_card_memory(const stk_preflight_surroundings *here);
/* Cores of the machine that trains; n/a when it is another one and nobody said. */
stoke_figure stk_cores(const stk_preflight_surroundings *here);
/* Whether files come from something slower than a local disk without moving parts, so far as the system
 * says. */
int stk_slow_files(const stk_preflight_surroundings *here);

/* Commands that are printed: `stoke optimize --config FILE` and `stoke estimate` for the card that is meant,
 * the latter with everything of the file that the estimate depends on. */
typedef struct stk_preflight_command {
    char text[640];
} stk_preflight_command;
stk_preflight_command stk_optimize_command(const stk_run_config *config,
                                           const stk_preflight_surroundings *here);
stk_preflight_command stk_estimate_command(const stk_run_config *config, int64_t batch, double room);

/* How many processes train, one for each card, where the file says it (`devices: -1` is all that are seen)
 * and nobody said otherwise beside it. */
void stk_resolve_ranks(stk_run_config *config, const stk_preflight_surroundings *here);

/* The next line of the list, n/a until said otherwise. */
stoke_preflight_line *stk_check_add(stoke_preflight *list, const char *key, const char *title);
/* The remedy for settings that `stoke optimize` changes. */
void stk_how_to_optimize(stoke_preflight_line *line, const stk_run_config *config,
                         const stk_preflight_surroundings *here);
/* Lines about the card: preflight_card.c. */
void stk_check_card(stoke_preflight *list, const stk_run_config *config,
                    const stk_preflight_surroundings *here);

#define STK_SAY(field, ...) snprintf((field), sizeof(field), __VA_ARGS__)

#endif
