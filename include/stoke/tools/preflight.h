/* SPDX-License-Identifier: Apache-2.0
 *
 * Before a training starts: what of its settings does not go with this machine and these data. A line is
 * pass, warn, fail or n/a; what could not be seen is n/a with the reason, never a pass.
 */
#ifndef STOKE_TOOLS_PREFLIGHT_H
#define STOKE_TOOLS_PREFLIGHT_H

#include <stoke/tools/advise.h>

typedef enum stoke_verdict {
    STOKE_VERDICT_PASS = 0,
    STOKE_VERDICT_NA,   /* could not be seen */
    STOKE_VERDICT_WARN, /* it will run, slower than it could */
    STOKE_VERDICT_FAIL, /* it will stop, or not start */
    STOKE_VERDICTS
} stoke_verdict;
/* "pass", "n/a", "warn", "fail". */
STOKE_API const char *stoke_verdict_name(int verdict);

typedef struct stoke_preflight_line {
    const char *key, *title; /* "pin_memory", "pinned memory" */
    int verdict;             /* stoke_verdict */
    int source;              /* stoke_source of the figure */
    char figure[384];        /* what was found, with units; n/a: why it was not */
    char fix[1024];          /* a command, or what to change; "" where nothing is wrong */
} stoke_preflight_line;

enum { STOKE_PREFLIGHT_UNSAID = -2 };

typedef struct stoke_preflight_params {
    uint32_t struct_size;
    const char *config;     /* stoke.yaml or train.yaml, or a PyTorch trainer's in one of the dialects */
    const char *const *map; /* as stoke_config_find; may be NULL */
    /* What the file does not say, or to be taken instead. */
    const char *data, *model;
    uint32_t size[2], classes; /* 0 = as the file says */
    int64_t ignore_index;      /* as stoke_data_params; STOKE_PREFLIGHT_UNSAID = as the file says */
    uint32_t ranks;            /* processes that share this machine's cores */
    uint32_t gpu;              /* which of the cards seen here */
    /* The card that is meant, where it is in another machine: its name as in stoke_recommend_params, or its
     * memory, or both. One of that name that is seen here is taken instead. NULL and 0 = the one seen here.
     */
    const char *card;
    uint64_t card_memory;
    uint32_t cores; /* of the machine that trains; 0 = those usable here, unless the card is elsewhere */
    const char *nvml, *root; /* as stoke_gpus_params */
    /* What joins the processes that a launcher started, "auto" as training's `comm`; NULL: each checks for
     * itself. */
    const char *comm;
} stoke_preflight_params;
STOKE_API stoke_preflight_params stoke_preflight_defaults(void);

enum { STOKE_PREFLIGHT_LINES = 32 };
/* To be read only. */
typedef struct stoke_preflight {
    stoke_preflight_line line[STOKE_PREFLIGHT_LINES];
    size_t n, count[STOKE_VERDICTS]; /* in all; with each verdict */
    char no_card[384];   /* why no card is seen, where one would matter; "" = one is, or was named, or none is
                            needed */
    stoke_engine engine; /* that the file is for */
    const char *dialect; /* "flat", ..., "stoke.yaml" */
    /* Of the processes that checked together: rank 0 has the lines about all, and the others have nothing to
     * tell. world 0: it was checked alone. */
    uint32_t rank, world;
} stoke_preflight;
/* Reads the file, looks at machine and data (directory entries, no pixels), and judges. What is wrong with
 * them is a line; an error is a file that cannot be understood, or parameters that contradict. */
STOKE_API int stoke_preflight_run(stoke_preflight **out, const stoke_preflight_params *params,
                                  stoke_error *err);
STOKE_API void stoke_preflight_destroy(stoke_preflight **preflight);

#endif
