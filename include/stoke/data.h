/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of the data path, in one struct with one option table: what `stoke` takes as flags, what
 * stoke.yaml holds, what stoke_dataset_open and stoke_loader_create read.
 */
#ifndef STOKE_DATA_H
#define STOKE_DATA_H

#include <stoke/common.h>

typedef enum stoke_dtype {
    STOKE_DTYPE_U8 = 0,
    STOKE_DTYPE_F32,
    STOKE_DTYPE_F16,
    STOKE_DTYPE_BF16,
    STOKE_DTYPE_U16,
    STOKE_DTYPE_I32,
    STOKE_DTYPE_I64
} stoke_dtype;

/* Bytes per element. */
STOKE_API size_t stoke_dtype_bytes(stoke_dtype dtype);
/* NumPy's name: "uint8", "float32", "float16", "bfloat16", ... */
STOKE_API const char *stoke_dtype_name(stoke_dtype dtype);

typedef enum stoke_layout { STOKE_LAYOUT_CHW = 0, STOKE_LAYOUT_HWC = 1 } stoke_layout;
typedef enum stoke_policy {
    STOKE_POLICY_REPLACE = 0,
    STOKE_POLICY_SKIP = 1,
    STOKE_POLICY_STOP = 2
} stoke_policy;
typedef enum stoke_split {
    STOKE_SPLIT_ALL = 0, /* train and val */
    STOKE_SPLIT_TRAIN = 1,
    STOKE_SPLIT_VAL = 2,
    STOKE_SPLIT_TEST = 3 /* the test folder of a set that has one; in no other part */
} stoke_split;
/* How values reach the consumer: none = 0..255 as they are, unit = [0,1], imagenet = (unit - mean) / std. */
typedef enum stoke_normalize {
    STOKE_NORMALIZE_UNIT = 0,
    STOKE_NORMALIZE_IMAGENET = 1,
    STOKE_NORMALIZE_NONE = 2
} stoke_normalize;
typedef enum stoke_order_kind {
    STOKE_ORDER_SHUFFLE = 0,    /* keyed permutation: each sample exactly once per epoch */
    STOKE_ORDER_SEQUENTIAL = 1, /* position = sample */
    STOKE_ORDER_WEIGHTED = 2,   /* with replacement, by weight; an independent draw per position */
    STOKE_ORDER_BALANCED = 3    /* the same, with weights from the classes in the masks */
} stoke_order_kind;
/* What is learned from an image: its mask, or another picture that it should become. */
typedef enum stoke_task {
    STOKE_TASK_AUTO = 0, /* restore where targets are named or lie beside the images, else segment */
    STOKE_TASK_SEGMENT = 1,
    STOKE_TASK_RESTORE = 2
} stoke_task;
/* Which pictures of a pair the color ops change (restore): geometry is always that of both. */
typedef enum stoke_photometric { STOKE_PHOTOMETRIC_INPUT = 0, STOKE_PHOTOMETRIC_BOTH = 1 } stoke_photometric;
/* What batches may hold: image elements, mask elements (auto: u8, or u16 where class ids need it). */
typedef enum stoke_image_dtype {
    STOKE_IMAGE_DTYPE_F32 = 0,
    STOKE_IMAGE_DTYPE_F16,
    STOKE_IMAGE_DTYPE_BF16,
    STOKE_IMAGE_DTYPE_U8
} stoke_image_dtype;
typedef enum stoke_mask_dtype {
    STOKE_MASK_DTYPE_AUTO = 0,
    STOKE_MASK_DTYPE_U8,
    STOKE_MASK_DTYPE_U16,
    STOKE_MASK_DTYPE_I32,
    STOKE_MASK_DTYPE_I64
} stoke_mask_dtype;

/* Every field, its default and its meaning stand in the table (src/source/data_options.c) and so in
 * `stoke help data`; the comments here only add what a programmer must know. */
typedef struct stoke_data_params {
    uint32_t struct_size;
    /* where samples come from */
    const char *data, *images, *masks, *list;
    const char *image_suffix, *mask_suffix; /* mask_suffix "auto": _mask _gt _label ... are tried */
    int split;                              /* stoke_split */
    double val_split;
    int64_t split_seed; /* apart from seed, so that changing the training seed keeps the split */
    /* pairs of picture and picture */
    int task;            /* stoke_task */
    const char *targets; /* folder of the pictures that `images` should become, as `masks` is one of masks */
    int64_t scale;       /* 1 .. 4: targets are so many times as high and wide as the images */
    int photometric;     /* stoke_photometric */
    /* what masks mean */
    int64_t classes;      /* 0: not checked */
    int64_t ignore_index; /* -1: none */
    const char *label_map;
    const char *names; /* of classes: a list or a file; NULL: those beside the set, if there are any */
    /* decoding */
    int decode;         /* stoke_decode_mode */
    int orientation;    /* stoke_orientation */
    int alpha;          /* stoke_alpha */
    const char *window; /* 16-bit images: "none", "LO:HI" or "pLO:pHI" (percentiles) */
    int64_t max_pixels;
    /* geometry and values of a batch */
    uint32_t size[2];    /* height, width; 0 = size of the first sample */
    const char *augment; /* preset, list of ops or YAML file, see augment.h */
    int dtype;           /* stoke_image_dtype */
    int mask_dtype;      /* stoke_mask_dtype */
    int layout;          /* stoke_layout */
    int normalize;       /* stoke_normalize */
    int64_t batch;       /* -1 = auto: training chooses, a loader takes 8 */
    /* order */
    int order; /* stoke_order_kind */
    const char *weights;
    int64_t seed, epoch, rank, world;
    int drop_last;
    /* running */
    int64_t workers;        /* -1 = auto */
    int64_t consumer_cores; /* cores left free by workers = auto; -1 = 1 */
    int64_t prefetch;
    int64_t nice;
    uint64_t memory_limit;  /* 0 = none */
    int policy;             /* stoke_policy */
    const char *max_bad;    /* "1%" or a count */
    const char *quarantine; /* file, "" = none */
    /* keeping decoded samples */
    const char *cache;              /* folder, "" = none on disk */
    uint64_t cache_disk, cache_ram; /* byte budgets; disk 0 = no limit, ram 0 = none */
} stoke_data_params;

STOKE_API stoke_data_params stoke_data_defaults(void);

/* Fills them from a settings file of any dialect (docs/configuration.md): the data settings it has, the rest
 * stays. A bad file changes nothing; the message carries "file:line:". Strings live in *storage, which is
 * made where it is NULL. */
STOKE_API int stoke_data_load_yaml(stoke_data_params *params, const char *path,
                                   stoke_option_storage **storage, stoke_error *err);

#endif
