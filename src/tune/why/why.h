/* SPDX-License-Identifier: Apache-2.0
 *
 * The three steps of an answer: gather what the run wrote down and what the machine has, look for the causes
 * of one trouble, put those that were found first. Looking takes no step outside what was gathered.
 */
#ifndef STOKE_SRC_TUNE_WHY_WHY_H
#define STOKE_SRC_TUNE_WHY_WHY_H

#include "src/train/run_report.h"
#include "src/tune/preflight/preflight.h"
#include <stoke/tools/live.h>
#include <stoke/tools/optimize.h>
#include <stoke/tools/why.h>

typedef enum stk_why_run_state {
    STK_RUN_NONE,   /* no run is named */
    STK_RUN_GOING,  /* its process is there */
    STK_RUN_ENDED,  /* the log has its last line, which says why */
    STK_RUN_KILLED, /* it has not, and the process is gone */
    STK_RUN_SILENT  /* it has not, and nothing tells whether the process is there */
} stk_why_run_state;

/* What is known. Without a run the log is zeros; without a settings file the wish is that of nobody. */
typedef struct stk_why_evidence {
    stk_why_run_state state;
    int has_config;
    char why_no_config[300]; /* of a run whose settings cannot be read */
    char run[400];           /* as a word of a command; "" = none */
    stk_run_log log;
    int has_page; /* the live page was read */
    stoke_live_data page;
    stoke_live_rates rates; /* of it, since the job began */
    stk_run_config config;
    stk_preflight_surroundings here;
    stoke_preflight list;
    stoke_yaml *yaml;         /* of a PyTorch trainer; NULL = none, or it cannot be opened */
    stoke_optimization *plan; /* what optimize would change in that file; NULL = none */
    uint64_t kills;           /* oom_kill of the control group; 0 = none, or not known */
    stoke_figure load;        /* /proc/loadavg, of the last minute */
} stk_why_evidence;

/* The next reason, with its evidence. The remedy (NULL or "": none) is told unless the cause is not there. */
stoke_reason *stk_reason(stoke_answer *answer, int found, double weight, const char *cause,
                         const char *remedy, const char *evidence, ...) STOKE_PRINTF(6, 7);
/* One that a line of the pre-flight check tells of; nothing when the list has no such line. */
void stk_reason_line(stoke_answer *answer, const stk_why_evidence *evidence, const char *key,
                     const char *cause, double weight);
/* Those of the settings (NULL-terminated) of a PyTorch trainer's file that are not as they should be: that
 * optimize would change, or that by themselves say so. */
void stk_reason_settings(stoke_answer *answer, const stk_why_evidence *evidence, const char *const *settings);

/* A command with more behind it. Its text lives as long as the expression it stands in. */
stk_preflight_command stk_with(stk_preflight_command command, const char *more, ...) STOKE_PRINTF(2, 3);
#define STK_REMEDY(...) stk_with((stk_preflight_command){ "" }, __VA_ARGS__)
/* "stoke train --config FILE", to which a flag is added: repeats the run, or does what the file asks. */
stk_preflight_command stk_train_again(const stk_why_evidence *evidence);
#define STK_AGAIN(evidence, ...) stk_with(stk_train_again(evidence), __VA_ARGS__).text
/* The same for a run that can go on: `stoke train --resume RUN`. */
stk_preflight_command stk_go_on(const stk_why_evidence *evidence);
/* `stoke diagnose` of the file that is asked about, which there is. */
stk_preflight_command stk_diagnose_it(const stk_why_evidence *evidence);

/* What steps lost by waiting for batches, 0 to 1; NaN = too few steps to tell. */
double stk_waited(const stk_why_evidence *evidence);

/* What of the settings makes a training unstable as a rule: where no run tells more. */
void stk_why_settings(stoke_answer *answer, const stk_why_evidence *evidence);

void stk_why_oom(stoke_answer *answer, const stk_why_evidence *evidence);
void stk_why_slow(stoke_answer *answer, const stk_why_evidence *evidence);
void stk_why_unstable(stoke_answer *answer, const stk_why_evidence *evidence);
void stk_why_loading(stoke_answer *answer, const stk_why_evidence *evidence);

#endif
