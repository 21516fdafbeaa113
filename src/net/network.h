/* SPDX-License-Identifier: Apache-2.0
 *
 * What tells one network from another. Its own file declares the layers with their parameters and records the
 * tape; memory, work, execution, checkpoints and lists are read off these two. A new network is one such file
 * and a line in networks.def.
 */
#ifndef STOKE_SRC_NET_NETWORK_H
#define STOKE_SRC_NET_NETWORK_H

#include <stdio.h>

#include "src/base/json_read.h"
#include "src/base/remarks.h"
#include "src/net/parameters.h"
#include "src/net/tape.h"

enum {
    STK_NET_CLASSES = 65535, /* predictions are 16 bits wide */
    STK_NET_BATCH = 65536,   /* the loader's limit too */
    STK_NET_SIDE_MAX = 32768,
    STK_NET_CHANNELS = 1024, /* of base_channels and num_blocks: far beyond what is trained */
    STK_NET_BLOCKS = 256,
    STK_NET_SCALE = 4
};

/* The pixels of a batch, at most: 1.4 TB of a b0's training, 8192 pictures of 512 x 512. Numbers of rows and
 * tasks fit 32 bits below it, and the plan, which looks at batches of every size, is made in a blink. */
#define STK_NET_PIXELS (UINT64_C(1) << 31)

/* Which network, and its sizes. */
typedef struct stk_network_config {
    const struct stk_network *network;
    const char *model; /* one of the network's, a literal: "b0" */
    int task;          /* STOKE_TASK_SEGMENT, STOKE_TASK_RESTORE */
    uint32_t classes;  /* channels of the output; 0: weights of an encoder alone */
    uint32_t base_channels, num_blocks;
    uint32_t scale; /* sides of the output per side of the input; 1 but in super-resolution */
} stk_network_config;

/* What a recording depends on. */
typedef struct stk_network_settings {
    uint32_t height, width;
    int training, freeze_encoder; /* a frozen encoder works as in inference */
    int memory;                   /* STOKE_MEMORY_*: what is kept for the backward pass */
    stk_float type;               /* of the run */
    double drop_path;
} stk_network_settings;

/* Bytes of a value that PyTorch keeps: the result of a product, and what autocast leaves in or brings to
 * fp32. */
typedef struct stk_network_widths {
    uint64_t product, kept;
    int autocast;
} stk_network_widths;

typedef struct stk_network {
    const char *family;        /* for people: "SegFormer" */
    const char *const *models; /* words of --model, the smallest first; ends with NULL */
    int restores;              /* 1: knows the task restore, too */
    uint32_t side_min;         /* the smallest side of a picture */
    uint32_t side_multiple;    /* sides are multiples of it */
    uint32_t side_chosen;      /* and of this, where nobody says one; 0: no more than that */
    uint32_t stride;           /* pixels of the input from one element of the logits to the next */
    double head_lr;            /* factor of the learning rate that suits a new head on pretrained weights */
    int pretrained;            /* 1: encoders of it are published, so that one can be frozen */

    /* Sizes that are 0 become the model's; others are checked. NULL: it has none. */
    int (*settle)(stk_network_config *config, stoke_error *err);
    /* The layers, released by stk_free, and the list of their parameters (zeroed before). NULL: no memory. */
    void *(*create)(const stk_network_config *config, stk_parameters *parameters);
    void (*record)(void *layers, const stk_network_settings *how, stk_tape *tape);
    /* Pixels beyond its own place that a pixel of the output depends on; 0: all of the picture's. */
    uint32_t (*reach)(const stk_network_config *config);
    /* Blocks that follow one another, for an estimate of a step's kernels. NULL: config's num_blocks. */
    uint32_t (*blocks)(const stk_network_config *config);
    /* What PyTorch holds of one picture at the peak of a step: tensors that its autograd keeps, counted
     * operation by operation in eager mode, and gradients on their way. Pictures, logits and their gradient
     * are not among it. NULL: there is no torch module that everybody has. */
    uint64_t (*eager_bytes)(void *layers, const stk_network_settings *how, stk_network_widths widths);

    const char *model_type; /* in config.json */
    /* A tensor's name as it is declared here, whatever version wrote it. 0: it is no name of this network. */
    int (*name)(const char *name, char declared[static STK_NAME]);
    /* A layer's name, cut down to what tells it from others of the same model: "stage 1 query". NULL: none.
     */
    void (*title)(char name[static STK_NAME]);
    /* What a file holds: model, sizes, classes, from the shapes of its tensors and config.json, which is NULL
     * when there is none and must agree. */
    int (*read)(const char *path, const stk_json *config_json, stk_network_config *config, stk_say_fn *remark,
                void *context, stoke_error *err);
    /* The members of config.json, those for the names of classes excepted. */
    void (*write_config)(FILE *out, const stk_network_config *config);
    const char *processor; /* image_processor_type of preprocessor_config.json */
} stk_network;

/* stk_resnet_network and so on. */
#define STK_NETWORK(name) extern const stk_network stk_##name##_network;
#include "src/net/networks.def"
#undef STK_NETWORK

/* The network behind a model's name, with the sizes that the model has. STOKE_E_NOTFOUND: no such model; the
 * message lists them. */
int stk_network_find(stk_network_config *config, const char *model, uint32_t classes, stoke_error *err);
/* The one that the number `index` of all models belongs to, and its name; NULL after the last. */
const stk_network *stk_network_at(size_t index, const char **model);
/* Which one has such tensors: by config.json's model_type, else by names; the first one when none has. */
const stk_network *stk_network_of_type(const char *model_type);
const stk_network *stk_network_of_tensor(const char *name);

/* What the settings ask for, in its order: model and sizes as told, else as the weights have them. */
int stk_network_configure(stk_network_config *config, const stoke_net_params *params, stoke_error *err);

/* How pictures come: mean and deviation of ImageNet for segmentation, 0 .. 1 for pictures that are restored.
 */
static inline stoke_normalize stk_network_normalize(int task)
{
    return task == STOKE_TASK_RESTORE ? STOKE_NORMALIZE_UNIT : STOKE_NORMALIZE_IMAGENET;
}

/* A batch of pictures within the limits of the network, or STOKE_E_INVALID, STOKE_E_LIMIT. */
int stk_network_check_batch(const stk_network *network, uint32_t batch, uint32_t height, uint32_t width,
                            stoke_error *err);

#endif
