/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as Hugging Face keeps them: a folder with config.json and model.safetensors (or an index and
 * shards), or a bare .safetensors file. Old and new tensor names, F32, F16 and BF16.
 */
#ifndef STOKE_SRC_NET_FILES_PRETRAINED_H
#define STOKE_SRC_NET_FILES_PRETRAINED_H

#include <stdio.h>

#include "src/base/json_read.h"
#include "src/base/remarks.h"
#include "src/net/files/safetensors.h"
#include "src/net/network.h"

/* What config.json says, or, without one, what the shapes in the file say. classes 0: an encoder alone. */
int stk_pretrained_config(const char *path, stk_network_config *config, stoke_error *err);

/* Told once per thing worth saying: "the file is an encoder alone: the decode head was initialised". */

typedef struct stk_pretrained_how {
    uint64_t seed;
    int partial;
    stk_say_fn *remark; /* may be NULL */
    void *context;
} stk_pretrained_how;

/* Reads every tensor there is into `values`; the rest is initialised from `seed`, and said so. Only the head
 * as a whole (encoder files) and the output (another number of classes) may be missing or of another shape:
 * anything else is STOKE_E_FORMAT, naming file and tensor. partial: the file may hold any model, and what has
 * not the same name and shape there is initialised. *batches_tracked may be NULL. */
int stk_pretrained_load(const char *path, const stk_network_config *config, const stk_parameters *parameters,
                        const stk_pretrained_how *how, float *values, uint64_t *batches_tracked,
                        stoke_error *err);
/* How many tensors such a partial load takes from the file. */
int stk_pretrained_carried(const char *path, const stk_network *network, const stk_parameters *parameters,
                           uint32_t *tensors, stoke_error *err);
/* Every tensor of the list from the files, by the names that `name` makes of theirs; what else there is, is
 * passed over. STOKE_E_FORMAT: one is missing, of another shape, or not finite. */
int stk_pretrained_take(const char *path, int (*name)(const char *given, char declared[static STK_NAME]),
                        const stk_parameters *parameters, float *values, stoke_error *err);
/* A copy of `classes` names, LABEL_3 for one that is NULL. One block, to be freed with stk_free; NULL: no
 * memory. */
char **stk_pretrained_copy_labels(const char *const *names, uint32_t classes);
/* The names of `classes` classes in the folder's config.json ("id2label"); NULL: there are not as many, or
 * none. One block, to be freed with stk_free. */
int stk_pretrained_labels(const char *folder, uint32_t classes, char ***labels, stoke_error *err);

/* What is saved besides parameters. */
typedef struct stk_pretrained_notes {
    uint64_t batches_tracked;
    uint32_t height, width; /* of pictures, for preprocessor_config.json */
    char *const *labels;    /* names of the classes; NULL: LABEL_0, LABEL_1, ... */
} stk_pretrained_notes;
/* config.json, preprocessor_config.json, model.safetensors (written last), each by temp + fsync + rename. */
int stk_pretrained_save(const char *folder, const stk_network_config *config,
                        const stk_parameters *parameters, const float *values,
                        const stk_pretrained_notes *notes, stoke_error *err);

/* The contents of a JSON file of at most 16 MB. STOKE_E_NOTFOUND: there is none. */
int stk_pretrained_json(const char *path, stk_json *json, stoke_error *err);
/* folder/name; NULL: no memory. Free with stk_free. */
char *stk_pretrained_path(const char *folder, const char *name);

/* ---- between its files ---- */

/* What the files of pretrained.h share: names, which files a path stands for, what they hold. */

/* Called for every tensor of every file that `path` stands for; what it returns ends the visit unless it is
 * STOKE_OK. One file is open at a time. */
typedef int stk_pretrained_fn(void *context, const stk_safetensors *file,
                              const stk_safetensors_tensor *tensor, stoke_error *err);
int stk_pretrained_visit(const char *path, stk_pretrained_fn *fn, void *context, stoke_error *err);

/* The members "id2label" and "label2id" of config.json; labels NULL: LABEL_0, LABEL_1, ... STOKE_E_NOMEM. */
int stk_pretrained_write_labels(FILE *out, char *const *labels, uint32_t classes);

/* stk_pretrained_config with remarks. `remark` may be NULL. */
int stk_pretrained_check(const char *path, stk_network_config *config, stk_say_fn *remark, void *context,
                         stoke_error *err);

/* config.json, while it is read. */
typedef struct stk_config_json {
    const char *path;
    const stk_json *json;
    stoke_error *err;
} stk_config_json;

enum { STK_CONFIG_TEXT = 160 }; /* bytes for what a message quotes */

/* NULL: it is not there, or null. */
const stk_json_value *stk_config_field(const stk_config_json *r, const char *key);
const char *stk_config_text(const stk_config_json *r, const stk_json_value *v,
                            char text[static STK_CONFIG_TEXT]);
/* STOKE_E_UNSUPPORTED: it is there and says something else. */
int stk_config_expect_text(const stk_config_json *r, const char *key, const char *wanted);
int stk_config_expect_number(const stk_config_json *r, const char *key, double wanted);

#endif
