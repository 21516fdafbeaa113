/* SPDX-License-Identifier: Apache-2.0
 *
 * From pictures of any size to masks of the same size, or to restored pictures.
 *
 *   stoke_trained_open(&trained, "runs/first", &err);          // or a folder in Hugging Face's format
 *   stoke_predict_params params = stoke_predict_defaults();
 *   stoke_trained_settings(trained, &params);                  // weights, size, augmentation, precision
 *   stoke_predictor_open(&predictor, &params, &err);
 *   stoke_predictor_run(predictor, &picture, &mask, NULL, NULL, NULL, &err);
 *
 * Two ways to fit a picture to the network's size:
 *
 *   resize   The whole picture is resized to the network's size, with the loader's own resize: the pixels are
 *            those that validation sees. Logits (that size over plan.stride) are interpolated bilinearly
 *            (align_corners = false) to the picture's size and the largest wins, as Hugging Face's
 *            post_process_semantic_segmentation does it.
 *   slide    Windows of the network's size at the picture's own scale. Where they overlap, logits are
 *            averaged: interpolation is linear, so that it may come after, once; and up to a constant that no
 *            argmax sees, an average of logits is one of log probabilities. Windows begin on the grid of the
 *            logits (plan.stride) and at multiples of plan.side_multiple: 4 of a SegFormer. At the right and
 * below, and where the picture is smaller than a window, it is continued by its mirror image.
 *
 * auto takes slide where the network was trained on windows at the source's own scale (random_crop,
 * center_crop, foreground_crop) and the picture is more than 1.5 times the network's size in height or width:
 * resized, things would be smaller than any the network has seen. In all other cases it takes resize: one
 * pass, and what validation measured.
 *
 * flip: the mirror image is predicted too and the probabilities of the two are averaged, on the grid of the
 * logits; what is interpolated is their logarithm, so that two views which agree give the mask of one.
 * Classes that change places in a mirror image (hflip's swap) do so here.
 */
#ifndef STOKE_PREDICT_H
#define STOKE_PREDICT_H

#include <stoke/dataset.h>
#include <stoke/image.h>
#include <stoke/labels.h>
#include <stoke/memory.h>
#include <stoke/net.h>

typedef enum stoke_predict_mode {
    STOKE_PREDICT_AUTO = 0,
    STOKE_PREDICT_RESIZE = 1,
    STOKE_PREDICT_SLIDE = 2
} stoke_predict_mode;

typedef struct stoke_predict_params {
    uint32_t struct_size;
    const char *weights; /* a folder in Hugging Face's format, or a .safetensors file */
    uint32_t size[2];    /* height, width of what the network sees; 0: what preprocessor_config.json says, or
                            512 x 512. Task restore: of a tile at most */
    int mode;            /* stoke_predict_mode; task restore: not resize */
    double overlap;      /* of neighbouring windows, as a share of their side: 0 .. 0.9; 0.5 */
    int flip;
    int confidence;      /* 1: stoke_prediction.confidence is wanted; costs an exp per class and 16 pixels */
    const char *augment; /* what the network was trained with, for auto and flip; NULL: nothing known */
    uint32_t batch;      /* windows or pictures in one pass; 0: chosen by the size. Task restore: one tile */
    int precision;       /* stoke_precision; auto */
    uint32_t threads;    /* 0: all usable cores */
} stoke_predict_params;
STOKE_API stoke_predict_params stoke_predict_defaults(void);

/* ---- what a path stands for ---- */

/* A run folder (its best/, else its last/), a folder with config.json and model.safetensors in it (best/ or
 * last/ of a run too), or a .safetensors file. */
typedef struct stoke_trained stoke_trained;
STOKE_API int stoke_trained_open(stoke_trained **out, const char *path, stoke_error *err);
STOKE_API void stoke_trained_close(stoke_trained **trained);
/* Folder or file for stoke_net_params.weights. */
STOKE_API const char *stoke_trained_weights(const stoke_trained *trained);
/* Sets weights, size, augment and precision of the params. */
STOKE_API void stoke_trained_settings(const stoke_trained *trained, stoke_predict_params *params);

/* ---- one picture ---- */

typedef struct stoke_predictor stoke_predictor;

/* Opens the network for inference. One thread at a time may use it. */
STOKE_API int stoke_predictor_open(stoke_predictor **out, const stoke_predict_params *params,
                                   stoke_error *err);
STOKE_API void stoke_predictor_close(stoke_predictor **predictor);

typedef struct stoke_predictor_info {
    uint32_t height, width; /* of what the network sees */
    uint32_t classes;       /* 1: foreground against background, masks have 0 and 1 */
    uint32_t batch;
    int own_scale;         /* it was trained on windows at the source's own scale */
    const char *size_from; /* for people: where height and width come from */
    const stoke_net_plan *plan;
} stoke_predictor_info;
STOKE_API stoke_predictor_info stoke_predictor_about(const stoke_predictor *predictor);
/* Name of a class from config.json; NULL: it has none. */
STOKE_API const char *stoke_predictor_class(const stoke_predictor *predictor, uint32_t id);
STOKE_API const char *stoke_predictor_remark(const stoke_predictor *predictor, size_t index);

typedef struct stoke_prediction {
    int mode; /* resize or slide */
    uint64_t windows;
    /* Mean probability of the winning class over the grid of the logits; NaN: not asked for. */
    double confidence;
    /* Of the windows against the mask, in the mean over their pixels that count; NaN: the mask was not read,
     * or the picture was resized. */
    double loss;
} stoke_prediction;
/* image: 3 channels, u8 or u16, at its full size. mask: the same width and height, 1 channel, u8 (up to 256
 * classes) or u16; filled with class ids, the lowest at a tie. about may be NULL. progress (may be NULL)
 * counts windows. STOKE_E_LIMIT: longer than 2^24 pixels, or windows over it would take more memory than
 * there is. */
STOKE_API int stoke_predictor_run(stoke_predictor *predictor, const stoke_image *image,
                                  const stoke_image *mask, stoke_prediction *about,
                                  stoke_progress_fn progress, void *context, stoke_error *err);

/* ---- a picture restored ---- */

/* Of networks of the task restore. restored: 3 channels of u8, plan.scale times as wide and high as the
 * image; values are clamped to 0 .. 1 and rounded to bytes, halves to even. planes: [3][height][width] of
 * that size, 0 .. 1 as the network gives them, neither clamped nor rounded. Either may be NULL, about, too.
 *
 * The picture goes through in tiles of `size` (0: 512 x 512, more where the network looks further), which
 * need not fit: where the plan has a reach the result is that of one pass over the whole picture, to
 * rounding. Without one tiles are blended over a quarter of their side. progress counts tiles. With flip the
 * mean of the picture and of its mirror image is taken. STOKE_E_LIMIT as above, of the result. */
STOKE_API int stoke_predictor_restore(stoke_predictor *predictor, const stoke_image *image,
                                      const stoke_image *restored, float *planes, stoke_prediction *about,
                                      stoke_progress_fn progress, void *context, stoke_error *err);

/* ---- many files ---- */

/* One of them is done. */
typedef struct stoke_predicted {
    uint64_t index;           /* in the list */
    const stoke_sample *file; /* of the list */
    int status;          /* 0, or why there is no mask: a file that is no picture is no end of the rest */
    const char *message; /* for people; "" without a failure */
    const stoke_image *image;    /* RGB u8 at its full size; NULL unless asked for, and without a mask */
    const stoke_image *mask;     /* u8, or u16 for more than 256 classes; the function may alter its pixels */
    const stoke_image *restored; /* task restore, in place of a mask: RGB u8 */
    const stoke_image *truth;    /* the file's own mask as class ids, u8 or u16; NULL unless asked for */
    stoke_prediction about;
} stoke_predicted;
/* Called from several threads at once, in no particular order. A result other than 0 ends the whole. */
typedef int (*stoke_predicted_fn)(void *context, const stoke_predicted *predicted, stoke_error *err);

typedef struct stoke_predict_job {
    uint32_t struct_size;
    const stoke_sample
        *files; /* name, image_path and image are looked at; with labels mask_path and mask too */
    uint64_t count;
    /* How pictures are decoded: decode, orientation, alpha, window, max_pixels. */
    const stoke_data_params *data;
    int images; /* 1: `predicted` wants the pictures too */
    /* Not NULL: the masks of the files are read too, by `data` and these: `predicted` wants to compare. A
     * mask that cannot be used, or has another size than its picture, is a failure of its file. Task restore:
     * NULL. */
    const stoke_labels *labels;
    /* Bytes of pictures being decoded or on their way, and of their masks: 512 MiB. One is let through in any
     * case. Between files helpers keep an eighth of that at most. */
    uint64_t memory;
    uint32_t helpers;   /* threads that decode and call `predicted`; 0: chosen */
    uint32_t own_bytes; /* for each pixel, that `predicted` takes while it is called: for the plan */
    stoke_predicted_fn predicted;
    stoke_progress_fn progress; /* files done of all; may be NULL */
    /* While sliding over a large one: its windows done, of all; may be NULL. */
    void (*windows)(void *context, const stoke_sample *file, uint64_t done, uint64_t total);
    void *context; /* of all three */
} stoke_predict_job;
STOKE_API stoke_predict_job stoke_predict_job_defaults(void);

typedef struct stoke_predict_report {
    uint64_t done, bad;     /* masks or pictures made; files that gave none */
    uint64_t resized, slid; /* slid: all that were restored, too */
    double seconds;
    double network_seconds; /* of these the network and the masks were at work */
    uint64_t turned,
        lying; /* pictures whose stored orientation (EXIF) was applied; was not, though there is one */
    uint32_t low16,
        high16; /* values of 16-bit pictures, after the window if there is one; low > high: none */
} stoke_predict_report;
/* While the network works on some pictures, helpers read the next and hand over the last. STOKE_E_CANCELLED
 * when progress asked to stop: what `predicted` was called for has been finished. */
STOKE_API int stoke_predict_files(stoke_predictor *predictor, const stoke_predict_job *job,
                                  stoke_predict_report *report, stoke_error *err);

#endif
