/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers to the four questions people ask: out of memory, slow, unstable, loading. From what the run itself
 * wrote down (config.yaml, log.jsonl, its live page) and from the machine, each with the evidence and the
 * command to run.
 */
#ifndef STOKE_TOOLS_WHY_H
#define STOKE_TOOLS_WHY_H

#include <stoke/tools/probe.h>

typedef enum stoke_trouble {
    STOKE_TROUBLE_OOM = 0,  /* it ran out of memory, or will */
    STOKE_TROUBLE_SLOW,     /* the device, or the processor that trains, is not busy */
    STOKE_TROUBLE_UNSTABLE, /* the loss jumps, does not fall, is not finite */
    STOKE_TROUBLE_LOADING   /* batches come slowly */
} stoke_trouble;
STOKE_API const char *stoke_trouble_name(int trouble); /* "oom", "slow", "unstable", "loading" */

/* One possible cause, the likeliest first. */
typedef struct stoke_reason {
    double weight;   /* how much of the trouble it explains, 0 to 1: what is found is sorted by it */
    int found;       /* 1: the evidence shows it; 0: looked for and not there; -1: cannot be told from here */
    char cause[224]; /* "batches of 16 need 9.1 GB, the card has 8.0 GB" */
    char evidence[512]; /* the figures, with where they are from: "log.jsonl step 40-80: data wait 61 %" */
    char remedy[1024];  /* a command, or a setting and its value; "" = none needed */
} stoke_reason;

typedef struct stoke_why_params {
    uint32_t struct_size;
    int trouble;
    const char *run;         /* a run folder; NULL = none: config and machine only */
    const char *config;      /* a settings file of any dialect; NULL = that of the run */
    uint32_t gpu;            /* which of the cards seen here */
    const char *card;        /* the card that is meant, by name; NULL = the one seen here */
    uint64_t card_memory;    /* of it, in bytes; 0 = by its name, or that of the one seen here */
    uint32_t cores;          /* as stoke_preflight_params */
    const char *nvml, *root; /* as stoke_gpus_params, for tests */
} stoke_why_params;
STOKE_API stoke_why_params stoke_why_defaults(void);

enum { STOKE_REASONS = 32 };
/* To be read only. */
typedef struct stoke_answer {
    char text[400]; /* in a sentence: the first cause that was found, or that none was */
    stoke_reason reason[STOKE_REASONS];
    size_t n;
} stoke_answer;
STOKE_API int stoke_why(stoke_answer **out, const stoke_why_params *params, stoke_error *err);
STOKE_API void stoke_answer_free(stoke_answer **answer);

#endif
