/* SPDX-License-Identifier: Apache-2.0
 *
 * What a settings file of any dialect asks for, as one structure: the start of check, why, diagnose,
 * find-batch and optimize.
 */
#ifndef STOKE_SRC_TUNE_PREFLIGHT_RUN_CONFIG_H
#define STOKE_SRC_TUNE_PREFLIGHT_RUN_CONFIG_H

#include <stoke/tools/config.h>
#include <stoke/dataset.h>
#include <stoke/net.h>
#include <stoke/tools/preflight.h>
#include <stoke/train.h>
#include <stoke/upload.h>

/* Not in the file, nor by the default of whoever reads it; or auto. */
enum { STK_UNSAID = -1, STK_DEFAULTS = 16 };

typedef struct stk_run_config {
    char config[384], data_name[384]; /* as words of a command */
    char data_flag[400];              /* " --data DIR" where the file does not name it; "" = it does */
    const char *dialect;
    stoke_engine engine;
    stoke_framework framework;            /* of other dialects */
    const char *by_default[STK_DEFAULTS]; /* settings that the file does not say: the framework's counts */
    size_t n_by_default;
    char model[32]; /* b0 .. b5, resnet or unet; "" = not said, or none that the estimate knows */
    char model_said[64];
    int64_t batch, height, width, classes, base_channels, num_blocks, epochs;
    int64_t workers, prefetch, ranks, accumulate;
    /* What stands there and is no number that can be read; "" = nothing such. */
    char workers_said[64], batch_said[64];
    int64_t pin_memory, persistent_workers, mixed_precision, drop_last; /* 0, 1 or STK_UNSAID */
    int64_t gpu_augmentation, prefetcher;                               /* the same */
    int64_t log_every;
    int perceptual;           /* 1: other dialects: the loss has a frozen network, which is not estimated */
    int64_t cards;            /* that the file asks for; -1: all there are; 0: it does not say */
    char devices[32];         /* the same as it stands there; "" = it does not */
    char augment[64];         /* of other dialects, as it stands there; "" = not said */
    stoke_data_params data;   /* strings are in storage */
    stoke_train_params train; /* of our own files; of others what is known of it */
    int has_data;
    int size_seen;              /* 1: the size of pictures is that of the set, not one that is said */
    stoke_upload_params upload; /* of our own files */
    stoke_option_storage *storage;
} stk_run_config;
/* config NULL: nothing but what is said beside it, for our own engine. After an error too, free with
 * stk_run_config_free. */
int stk_run_config_read(stk_run_config *config, const stoke_preflight_params *params, stoke_error *err);
void stk_run_config_free(stk_run_config *config);
/* Where a file of another dialect says no size of pictures: that of the largest that is seen in the set it
 * names. It stays unsaid where that cannot be read. */
void stk_run_config_see_size(stk_run_config *config);
/* Whose default a setting has, "TrainingArguments'"; NULL: the file says it, or nobody does. */
const char *stk_run_config_default(const stk_run_config *config, const char *setting);
/* "on", "off", "not said, so on" of one that is 0 or 1. */
const char *stk_run_config_switch(const stk_run_config *config, const char *setting, int64_t value);
/* Whether PyTorch makes no workers. What the file has computed where it runs may be any number. */
int stk_run_config_no_workers(const stk_run_config *config);
/* STOKE_TASK_*; auto: nothing in the file tells. */
int stk_run_config_task(const stk_run_config *config);
/* What the file says into `params`, whose model is set. What it does not say stays as it is: returns which
 * that is, STOKE_ASSUMED_* */
unsigned stk_run_config_take(stoke_estimate_params *params, const stk_run_config *config);
/* Cards that a settings file asks for (`devices: 2`, [0, 1], "0,1"), as stk_run_config has them. */
int64_t stk_cards_asked(const stoke_yaml *yaml, char said[32]);
/* What the estimate is asked. NULL, or what the file does not say: "model", "batch", "size of pictures". */
const char *stk_run_config_estimate(const stk_run_config *config, stoke_estimate_params *params);

#endif
