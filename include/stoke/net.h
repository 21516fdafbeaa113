/* SPDX-License-Identifier: Apache-2.0
 *
 * SegFormer b0..b5 as Hugging Face computes it, and a small residual network and a U-Net at full resolution,
 * for masks or for pictures: forward, loss, backward, update, on the processor.
 *
 *   stoke_net_params p = stoke_net_defaults();
 *   p.model = "b0"; p.classes = 19; p.batch = 4; p.height = p.width = 256;
 *   stoke_net_open(&net, &p, &err);                  // or p.weights = "mit-b0", a folder on disk
 *   stoke_net_backward(net, &batch, 1, &loss, &err); // forward, loss, gradients (added up over calls)
 *   stoke_net_step(net, &update, &report, &err);     // clip, AdamW; gradients start again
 *   stoke_net_save(net, "out", 0, &err);             // from_pretrained("out") loads it
 *
 * The same seed gives the same weights, bit for bit, for any number of threads; between CPU tables they agree
 * to rounding. One network is used by one thread at a time (it has its own team). After opening, no call but
 * save allocates.
 */
#ifndef STOKE_NET_H
#define STOKE_NET_H

#include <stoke/data.h>

typedef struct stoke_net stoke_net;

/* auto: bf16 where the processor multiplies it natively (AMX), else fp32. */
typedef enum stoke_precision {
    STOKE_PRECISION_FP32 = 0,
    STOKE_PRECISION_BF16 = 1, /* activations and inputs of products in bf16, sums and masters in fp32 */
    STOKE_PRECISION_FP16 = 2, /* the same with fp16 and a loss scale that follows overflows */
    STOKE_PRECISION_AUTO = 3
} stoke_precision;
/* "fp32", "bf16", "fp16", "auto". */
STOKE_API const char *stoke_precision_name(int precision);

/* What is kept for the backward pass: more of it is computed again from mode to mode. */
typedef enum stoke_memory_mode {
    STOKE_MEMORY_PLAIN = 0, /* nothing large is computed twice */
    STOKE_MEMORY_LEAN = 1,  /* convolution and GELU of the MLP again; at full resolution, the first of each
                               pair of convolutions */
    STOKE_MEMORY_MIN = 2    /* its first layer and the attention's projections too */
} stoke_memory_mode;

/* STOKE_LOSS_CE, STOKE_LOSS_L1 and so on: <stoke/losses.def> says what each is. */
typedef enum stoke_loss_kind {
#define STOKE_LOSS(id, value, task, word) STOKE_LOSS_##id = value,
#include <stoke/losses.def>
#undef STOKE_LOSS
    STOKE_LOSS_KINDS
} stoke_loss_kind;

typedef struct stoke_loss {
    stoke_loss_kind kind;
    double ce_weight, dice_weight; /* of the sum; 1, 1 */
    double focal_gamma;            /* 2 */
    double label_smoothing;        /* 0 .. 1, cross-entropy only */
    double dice_smooth;            /* added above and below; 0 */
    const float *class_weights; /* NULL, or `classes` factors: as torch.nn.functional.cross_entropy, the mean
                                   is over the weights of the pixels that count */
    int64_t ignore_index;       /* pixels that do not count; 255 */
} stoke_loss;

typedef struct stoke_net_params {
    uint32_t struct_size;
    const char *model;   /* "b0" .. "b5", "resnet", ...; NULL with weights: what their config.json says */
    const char *weights; /* NULL: initialised from the seed; else a folder or file as save_pretrained writes
                            it, or an encoder alone (mit-b*) */
    uint32_t classes;    /* 0 with weights: as many as they have; task restore: 3 */
    int task;            /* stoke_task; auto: segment, with weights theirs */
    /* Of networks at full resolution; 0: what the model or the weights say. */
    uint32_t base_channels, num_blocks;
    uint32_t scale;                /* task restore: sides of the output per side of the input, 1 to 4 */
    uint32_t batch, height, width; /* the largest batch, 2^31 pixels at most (else STOKE_E_LIMIT); pictures of
                                      exactly this size, up to 32768 x 32768: from 29 x 29 on, resnet 1 x 1,
                                      unet 16 x 16 and multiples of 16 */
    int training;                  /* 0: forward only, less memory */
    int precision;                 /* stoke_precision */
    int memory;                    /* stoke_memory_mode */
    uint32_t threads;              /* 0: all usable cores */
    uint64_t seed;                 /* weights that are not loaded, dropout, drop path */
    double dropout, drop_path;     /* 0.1, 0.1 as Hugging Face; drop path grows linearly with depth */
    stoke_loss loss;
    int freeze_encoder;
    int average;   /* 1: keep an exponential moving average of the weights */
    int optimizer; /* stoke_optimizer: decides how many moments are kept */
    /* Tensors of `weights` that have no counterpart of the same name and shape here are left out, and those
     * here without one there initialised, instead of refused; a remark says how many were carried over.
     * `model` may be another than that of the weights. */
    int partial;
    /* Names for config.json, as many as there are classes; a NULL name becomes LABEL_3. NULL: those of the
     * weights, where there are as many. Copied. */
    const char *const *class_names;
    /* Task restore: files of a frozen network by whose features, too, a restored picture is held against its
     * target. NULL: none. VGG11, 13, 16 or 19 as torchvision names its tensors (the last ReLU of each of the
     * first four blocks), or a SegFormer or its encoder (the four stages). The loss is
     *
     *   loss(output, target) + perceptual_weight * sum of mean |f(output) - f(target)|
     *
     * over these maps f, of both pictures with ImageNet's mean taken off and its deviation divided out. */
    const char *perceptual;
    double perceptual_weight; /* 0: as without; 0.1 */
    /* Training: so many batches can be on their way at once, for a batch norm over all of them
     * (<stoke/tools/net.h>); each takes memory for its activations. 0: that is not asked for. */
    uint32_t joint;
} stoke_net_params;
/* Batch 1 of 512 x 512, training, precision auto, memory plain, all cores, seed 0, dropout 0.1, drop path
 * 0.1, cross-entropy with ignore_index 255, AdamW; no model, no classes: these are yours to say. */
STOKE_API stoke_net_params stoke_net_defaults(void);

/* Where memory will go, in bytes. */
typedef struct stoke_net_plan {
    uint64_t parameters;  /* masters, gradients, moments, average; a frozen network's weights */
    uint64_t packed;      /* weights as the kernels want them */
    uint64_t activations; /* kept for the backward pass */
    uint64_t workspace;   /* shared by operations, and each thread's own */
    uint64_t process;     /* what the process holds already */
    uint64_t total;
    uint64_t parameter_count;
    /* Of one batch: 2 per multiply-add, what is really computed (folded head). */
    double forward_flops, step_flops;
    int precision;      /* auto resolved */
    const char *model;  /* "b0": what the weights hold when none was named; lives as long as the library */
    const char *family; /* "SegFormer", for people; as long */
    uint32_t classes;
    int task;                           /* stoke_task: segment or restore */
    uint32_t base_channels, num_blocks; /* 0: the model has none */
    uint32_t scale;                     /* sides of a restored picture per side of the input */
    uint32_t stride; /* pixels of the input from one element of the logits to the next, where scale is 1 */
    uint32_t side_multiple; /* sides of pictures are multiples of it */
    uint32_t reach; /* pixels beyond its own place that an output depends on; 0: all of the picture's */
    int normalize;  /* stoke_normalize: how its pictures come */
    uint32_t threads;
    uint64_t trained_floats, statistics; /* of one array of gradients; numbers that a batch norm learns of a
                                            batch, 0: there is none */
    const char *features;      /* the frozen network of the perceptual loss, "VGG16", "b0"; NULL: none */
    uint32_t tensors, carried; /* carried: of them, what params.partial takes from params.weights; else 0 */
} stoke_net_plan;
/* Arithmetic only: nothing large is allocated, no thread started. */
STOKE_API int stoke_net_plan_of(const stoke_net_params *params, stoke_net_plan *plan, stoke_error *err);

/* STOKE_E_NOMEM: the system, or the process's control group, has less memory than the plan says; the message
 * has both. */
STOKE_API int stoke_net_open(stoke_net **out, const stoke_net_params *params, stoke_error *err);
STOKE_API void stoke_net_close(stoke_net **net);
/* What opening did that is worth saying, one sentence each ("the classifier has 150 classes in the file and
 * 19 here: initialised"); NULL after the last. */
STOKE_API const char *stoke_net_remark(const stoke_net *net, size_t index);
STOKE_API const stoke_net_plan *stoke_net_plan_used(const stoke_net *net);

struct stoke_batch;
/* A batch of at most params.batch rows. */
typedef struct stoke_net_batch {
    uint32_t count;
    const float *images; /* (value / 255 - mean) / std per channel; mean 0.485 0.456 0.406, std 0.229 0.224
                            0.225 (red, green, blue): ImageNet's, with which the encoders were trained. Task
                            restore: value / 255 (`normalize` of the plan) */
    stoke_layout layout;
    size_t image_row_floats;     /* from picture to picture */
    const void *masks, *masks_b; /* classes, or loss.ignore_index; forward and predict need none */
    const float *lambda;         /* share of masks, the rest is masks_b's; masks_b NULL: none of the two */
    stoke_dtype mask_dtype;      /* u8, u16, i32, i64 */
    size_t mask_row_bytes;
    /* Task restore, in place of masks: what the images should become, normalised and laid out like them,
     * `scale` times as high and wide. */
    const float *targets;
    size_t target_row_floats;
} stoke_net_batch;
/* A batch of the loader (<stoke/loader.h>) with normalize as plan.normalize says and dtype f32, as it lies
 * there: valid until the batch is released. */
STOKE_API stoke_net_batch stoke_net_batch_of(const struct stoke_batch *batch);

/* Logits of a batch in inference mode (running statistics, no dropout): f32, [count][rows][columns][stride],
 * at the size over plan.stride (SegFormer: a quarter). Task restore: the pictures themselves, normalised as
 * the input is, `scale` times its size. The array is the network's, until the next call. */
typedef struct stoke_logits {
    const float *data;
    uint32_t height, width, classes;
    size_t stride; /* floats from pixel to pixel, >= classes */
} stoke_logits;
STOKE_API int stoke_net_forward(stoke_net *net, const stoke_net_batch *batch, stoke_logits *logits,
                                stoke_error *err);
/* The class of every pixel in full resolution, [count][height][width]. */
STOKE_API int stoke_net_predict(stoke_net *net, const stoke_net_batch *batch, uint16_t *classes,
                                stoke_error *err);
/* Loss without gradients, in inference mode, the perceptual part included; classes (as stoke_net_predict's)
 * from the same pass, or NULL. Only here, and in training, must params.loss be one of restored pictures. */
STOKE_API int stoke_net_evaluate(stoke_net *net, const stoke_net_batch *batch, double *loss,
                                 uint16_t *classes, stoke_error *err);

/* Forward in training mode, loss, backward. Gradients add up over the calls between two steps, each divided
 * by `of`: `of` equal batches give the gradient of the large one. loss may be NULL. Of a batch with a NaN in
 * it nothing stays but its gradients, over which the step stumbles (`skipped`): running statistics are kept
 * as they were. */
STOKE_API int stoke_net_backward(stoke_net *net, const stoke_net_batch *batch, uint32_t of, double *loss,
                                 stoke_error *err);

typedef enum stoke_optimizer { STOKE_OPTIMIZER_ADAMW = 0, STOKE_OPTIMIZER_SGD = 1 } stoke_optimizer;

typedef struct stoke_update {
    double lr;
    double beta1, beta2, eps; /* AdamW; SGD: momentum = beta1 */
    double weight_decay;      /* not for norms, as the paper */
    double head_lr;           /* factor for the decode head; 10 as the paper. At full resolution, for the last
                                 convolution, which wants 1 */
    double clip_norm;         /* 0: no clipping */
    double average_decay;     /* of the moving average; 0.999 */
    int nesterov;
} stoke_update;
/* lr 6e-5, beta1 0.9, beta2 0.999, eps 1e-8, weight_decay 0.01, head_lr 10, no clipping, average_decay 0.999,
 * no nesterov. */
STOKE_API stoke_update stoke_update_defaults(void);

typedef struct stoke_step_report {
    uint64_t step; /* updates done, this one included */
    double gradient_norm;
    double loss_scale; /* fp16; 1 otherwise */
    int skipped;       /* gradients were not finite: nothing was updated; fp16: the scale was halved */
} stoke_step_report;
/* Clip and update; gradients start again. update NULL: the defaults. report may be NULL. */
STOKE_API int stoke_net_step(stoke_net *net, const stoke_update *update, stoke_step_report *report,
                             stoke_error *err);

/* Parameters and buffers, a SegFormer's by Hugging Face's (old) names, in the order of its state_dict. */
typedef struct stoke_net_tensor {
    const char *name;
    uint32_t dims, shape[4];
    uint64_t count;
    float *values;    /* may be written; then call stoke_net_touched */
    float *gradients; /* NULL for buffers and frozen parameters; fp16: times the loss scale */
    float *average;   /* NULL without one */
    float *moments[2];
    int trainable;
} stoke_net_tensor;
STOKE_API size_t stoke_net_tensor_count(const stoke_net *net);
STOKE_API int stoke_net_tensor_at(const stoke_net *net, size_t index, stoke_net_tensor *tensor);

/* config.json, model.safetensors, preprocessor_config.json into `folder` (made if absent), each whole or not
 * at all. average 1: the moving average instead of the weights; STOKE_E_STATE when none was kept. */
STOKE_API int stoke_net_save(const stoke_net *net, const char *folder, int average, stoke_error *err);

#endif
