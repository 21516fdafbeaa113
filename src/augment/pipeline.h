/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline while it is made, and what the loader asks of one.
 */
#ifndef STOKE_SRC_AUGMENT_PIPELINE_H
#define STOKE_SRC_AUGMENT_PIPELINE_H

#include "src/augment/op.h"
#include <stoke/tools/config.h>

enum {
    STK_PIPELINE_OPS = 32,
    STK_PIPELINE_STRINGS = 4096, /* all text settings of a pipeline together */
    STK_PIPELINE_TEXT = 24576    /* 32 ops of 7 settings of 70 letters, and the strings */
};

typedef struct stk_pipeline_step {
    const stk_op *op;
    union {
        unsigned char bytes[STK_OP_ARGS_BYTES];
        double align;
        const char *align_pointer;
    } args;
} stk_pipeline_step;

struct stoke_pipeline {
    stk_pipeline_step steps[STK_PIPELINE_OPS];
    size_t n_steps;
    unsigned traits;                         /* stk_op_trait of all ops together */
    uint32_t color_steps[STOKE_COLOR_KINDS]; /* steps of every kind that a plan may have */
    stk_op_constants constants;
    uint64_t given; /* bit per setting of the op that is being read: which are set */
    char strings[STK_PIPELINE_STRINGS];
    size_t strings_used;
    char text[STK_PIPELINE_TEXT];
};

/* ---- making one: add an op, set its settings, close it ---- */

/* Appends an op with its defaults. STOKE_E_NOTFOUND: the message has the name that was meant, or all. */
int stk_pipeline_add(stoke_pipeline *pipeline, const char *name, stoke_error *err);
/* Sets an argument of the op added last; text is copied. */
int stk_pipeline_set(stoke_pipeline *pipeline, const char *name, const char *value, stoke_error *err);
/* The settings of the op added last are complete: checks them, and the op against those before it. */
int stk_pipeline_close(stoke_pipeline *pipeline, stoke_error *err);
/* A name alone: an op with its defaults, or all ops of a preset. */
int stk_pipeline_add_name(stoke_pipeline *pipeline, const char *name, stoke_error *err);

/* Reads "random_crop,hflip(p=0.3)". */
int stk_pipeline_read_list(stoke_pipeline *pipeline, const char *list, stoke_error *err);
typedef enum stk_pipeline_yaml_take {
    STK_YAML_ALL,  /* a file of ops: the key must be there, as a list or as text */
    STK_YAML_LISTS /* a file of settings: only a list is ours, text is the option table's */
} stk_pipeline_yaml_take;
/* Reads what stands under "augment:" of a settings file. Its other keys are passed over. */
int stk_pipeline_read_tree(stoke_pipeline *pipeline, const stoke_yaml *yaml, stk_pipeline_yaml_take take,
                           stoke_error *err);
/* Has a '/' or ends in .yaml or .yml. */
int stk_pipeline_is_file(const char *spec);
/* Writes pipeline->text. */
void stk_pipeline_describe(stoke_pipeline *pipeline);

/* What a preset stands for, as a list; NULL when there is none of this name. */
const char *stk_preset_find(const char *name);

/* STOKE_E_NOTFOUND, with the nearest name or all there are. */
int stk_unknown_name(const char *name, stoke_error *err);
int stk_unknown_setting(const stk_op *op, const char *name, stoke_error *err);

/* ---- what is asked of one, beside its traits, colour steps and constants ---- */

/* Name of the op that cuts windows of the output's size at the source's own scale; NULL: none does. */
const char *stk_pipeline_own_scale(const stoke_pipeline *pipeline);
/* The largest share of the source's area that a sample may show: below 1 where random_resized_crop always
 * cuts something off, else 1. Windows at the source's own scale are not meant. */
double stk_pipeline_most_shown(const stoke_pipeline *pipeline);
/* How many steps of all kinds one plan may have. */
uint32_t stk_pipeline_color_steps(const stoke_pipeline *pipeline);
/* 1 when the pipeline says how to normalise, and then how, on the scale 0..1. */
int stk_pipeline_normalize(const stoke_pipeline *pipeline, double mean[3], double std[3]);

#endif
