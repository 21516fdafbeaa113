/* SPDX-License-Identifier: Apache-2.0
 *
 * What people call a setting: the names that PyTorch, Lightning, Hugging Face and hand-written trainers have
 * for what an option of ours says. Capital letters and hyphens are the same (BATCH_SIZE, batch-size).
 */
#include "src/settings/keys.h"

#include <string.h>

/* Its name, where it stands, our option, its key in a file with sections, how it is read, whether the first
 * of several counts, and the names. */
#define SETTING(name, group, own, sections, reading, first, ...)                                             \
    {                                                                                                        \
        name, STK_KEY_##group, own, sections, STK_READ_##reading, first,                                     \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

const stk_setting stk_settings[] = {
    SETTING("batch_size", LOADING, "batch", NULL, WHOLE, 0, "batch_size", "batch", "train_batch_size",
            "per_device_train_batch_size", "per_gpu_batch_size", "per_gpu_train_batch_size",
            "samples_per_gpu"),
    SETTING("num_workers", LOADING, "workers", NULL, WHOLE, 0, "num_workers", "workers", "n_workers",
            "dataloader_num_workers", "workers_per_gpu"),
    SETTING("pin_memory", LOADING, NULL, NULL, NOT, 0, "pin_memory", "dataloader_pin_memory"),
    SETTING("persistent_workers", LOADING, NULL, NULL, NOT, 0, "persistent_workers",
            "dataloader_persistent_workers"),
    SETTING("prefetch_factor", LOADING, "prefetch", NULL, WHOLE, 0, "prefetch_factor",
            "dataloader_prefetch_factor"),
    SETTING("non_blocking", LOADING, NULL, NULL, NOT, 0, "non_blocking", "async_copy", "async_transfer"),
    SETTING("device_prefetch", LOADING, "transfer", NULL, NOT, 0, "cuda_prefetch", "use_prefetcher",
            "gpu_prefetch", "prefetch_to_gpu", "prefetch_to_device", "data_prefetcher"),
    SETTING("mixed_precision", TRAINING, "precision", "use_amp", PRECISION, 1, "use_mixed_precision",
            "mixed_precision", "use_amp", "amp", "enable_amp", "use_fp16", "precision", "fp16", "bf16",
            "use_bf16"),
    SETTING("grad_clip", TRAINING, "clip_norm", NULL, NORM, 0, "grad_clip", "gradient_clip",
            "gradient_clip_val", "clip_grad", "clip_grad_norm", "clip_norm", "grad_clip_norm",
            "max_grad_norm", "gradient_clip_norm", "gradient_clipping"),
    SETTING("compile", TRAINING, NULL, NULL, NOT, 0, "compile", "use_compile", "torch_compile",
            "compile_model"),
    SETTING("benchmark", TRAINING, NULL, NULL, NOT, 1, "benchmark"),
    SETTING("gpu_augmentation", TRAINING, "placement", NULL, PLACEMENT, 0, "use_gpu_augmentation",
            "gpu_augmentation", "gpu_augment", "use_gpu_augment"),
    SETTING("learning_rate", TRAINING, "lr", NULL, REAL, 0, "learning_rate", "lr", "base_lr", "init_lr",
            "initial_lr"),
    SETTING("accumulate", TRAINING, "accumulate", NULL, WHOLE, 0, "accumulate", "gradient_accumulation_steps",
            "accumulation_steps", "accumulate_grad_batches", "grad_accum_steps", "grad_accumulation",
            "gradient_accumulation"),
    SETTING("log_every", TRAINING, "log_every", NULL, WHOLE, 0, "log_every", "log_interval", "log_freq",
            "print_freq", "log_every_n_steps", "logging_steps", "print_every"),
    SETTING("epochs", TRAINING, "epochs", NULL, WHOLE, 0, "epochs", "num_epochs", "max_epochs",
            "num_train_epochs", "n_epochs", "total_epochs"),
    SETTING("base_channels", MODEL, "base_channels", NULL, NOT, 0, "base_channels"),
    SETTING("num_blocks", MODEL, "num_blocks", NULL, NOT, 0, "num_blocks", "n_blocks"),
    SETTING("patch_size", MODEL, "patch_size", NULL, NOT, 0, "patch_size"),
    SETTING("use_perceptual", MODEL, "perceptual", NULL, PATH, 0, "use_perceptual", "use_perceptual_loss"),
    SETTING("perceptual_weight", TRAINING, "perceptual_weight", NULL, REAL, 0, "perceptual_weight",
            "perceptual_loss_weight", "lambda_perceptual", "vgg_weight"),
    /* Read, and changed by nothing. */
    SETTING("model", MODEL, "model", NULL, MODEL, 1, "model_name", "model_name_or_path", "backbone",
            "variant", "encoder", "encoder_name", "model_type", "model.name", "model.type", "arch",
            "architecture", "model", "network", "pretrained_model", "pretrained_model_name_or_path",
            "pretrained", "checkpoint"),
    SETTING("pretrained", MODEL, "pretrained", NULL, PATH, 1, "pretrained", "pretrained_weights",
            "pretrained_path", "pretrained_model", "init_checkpoint"),
    SETTING("image_size", DATA, "size", NULL, SIZE, 1, "image_size", "img_size", "input_size", "image_shape",
            "crop_size", "train_size", "resize", "size", "patch_size"),
    SETTING("num_classes", DATA, "classes", NULL, WHOLE, 1, "num_classes", "n_classes", "classes",
            "num_labels"),
    SETTING("class_names", DATA, "names", NULL, TEXT, 1, "class_names", "names", "label_names"),
    SETTING("ignore_index", DATA, "ignore_index", NULL, WHOLE, 1, "ignore_index", "ignore_label",
            "semantic_loss_ignore_index"),
    SETTING("data_root", DATA, "data", NULL, PATH, 1, "data_root", "data_dir", "dataset_dir", "dataset_root",
            "data_path", "dataset_path", "root_dir", "root", "train_dir", "train_data_dir", "data_folder",
            "data", "dataset_name"),
    SETTING("images_dir", DATA, "images", NULL, PATH, 1, "images_dir", "image_dir", "img_dir", "train_images",
            "train_image_dir", "images", "dataroot_lq", "lq_dir", "lr_dir", "noisy_dir"),
    SETTING("masks_dir", DATA, "masks", NULL, PATH, 1, "masks_dir", "mask_dir", "ann_dir", "labels_dir",
            "label_dir", "train_masks", "train_mask_dir", "masks"),
    SETTING("targets_dir", DATA, "targets", NULL, PATH, 1, "targets_dir", "target_dir", "gt_dir",
            "dataroot_gt", "hq_dir", "hr_dir", "clean_dir", "targets"),
    SETTING("scale", DATA, "scale", NULL, WHOLE, 1, "upscale", "upscale_factor", "sr_scale"),
    SETTING("mask_suffix", DATA, "mask_suffix", NULL, TEXT, 1, "mask_suffix", "seg_map_suffix"),
    SETTING("val_split", DATA, "val_split", NULL, REAL, 1, "val_split", "val_ratio", "validation_split",
            "val_fraction", "valid_ratio", "validation_ratio"),
    SETTING("seed", TRAINING, "seed", NULL, WHOLE, 1, "seed", "random_seed", "manual_seed",
            "seed_everything"),
    SETTING("shuffle", LOADING, "order", NULL, ORDER, 1, "shuffle"),
    SETTING("drop_last", LOADING, "drop_last", NULL, TRUTH, 1, "drop_last", "dataloader_drop_last"),
    SETTING("augment", TRAINING, "augment", NULL, AUGMENT, 1, "augment", "augmentation", "augmentations",
            "use_augmentation", "use_augment", "data_augmentation"),
    SETTING("steps", TRAINING, "steps", NULL, WHOLE, 1, "max_steps", "steps", "num_steps", "total_steps",
            "max_iters", "train_steps"),
    SETTING("optimizer", TRAINING, "optimizer", NULL, OPTIMIZER, 1, "optimizer", "optim", "optimizer_name",
            "optimizer_type", "optimizer.name", "optimizer.type", "optim.name", "optim.type"),
    SETTING("weight_decay", TRAINING, "weight_decay", NULL, REAL, 1, "weight_decay", "wd"),
    SETTING("momentum", TRAINING, "momentum", NULL, REAL, 1, "momentum"),
    SETTING("beta1", TRAINING, "beta1", NULL, REAL, 1, "beta1", "adam_beta1"),
    SETTING("beta2", TRAINING, "beta2", NULL, REAL, 1, "beta2", "adam_beta2"),
    SETTING("epsilon", TRAINING, "eps", NULL, REAL, 1, "eps", "adam_epsilon", "adam_eps"),
    SETTING("schedule", TRAINING, "schedule", NULL, SCHEDULE, 1, "lr_scheduler_type", "lr_scheduler",
            "scheduler", "scheduler_type", "scheduler_name", "lr_schedule", "schedule", "scheduler.name",
            "scheduler.type", "lr_scheduler.name", "lr_scheduler.type", "use_scheduler"),
    SETTING("warmup", TRAINING, "warmup", NULL, WARMUP, 1, "warmup_ratio", "warmup_steps", "num_warmup_steps",
            "warmup_iters", "warmup_epochs", "warmup"),
    SETTING("loss", TRAINING, "loss", NULL, LOSS, 1, "loss", "loss_fn", "loss_function", "loss_type",
            "loss_name", "criterion", "loss.name", "loss.type"),
    SETTING("label_smoothing", TRAINING, "label_smoothing", NULL, REAL, 1, "label_smoothing",
            "label_smoothing_factor"),
    SETTING("class_weights", TRAINING, "class_weights", NULL, TEXT, 1, "class_weights", "class_weight"),
    SETTING("dropout", MODEL, "dropout", NULL, REAL, 1, "dropout", "classifier_dropout_prob",
            "dropout_ratio"),
    SETTING("freeze_encoder", MODEL, "freeze_encoder", NULL, TRUTH, 1, "freeze_encoder", "freeze_backbone"),
    SETTING("patience", TRAINING, "patience", NULL, WHOLE, 1, "patience", "early_stopping_patience"),
    SETTING("eval_every", TRAINING, "eval_every", NULL, WHOLE, 1, "eval_every", "eval_steps"),
    SETTING("save_every", TRAINING, "save_every", NULL, WHOLE, 1, "save_every", "save_steps"),
    SETTING("runs", TRAINING, "runs", NULL, TEXT, 1, "runs", "output_dir", "save_dir", "checkpoint_dir",
            "work_dir"),
    SETTING("amp_dtype", TRAINING, NULL, NULL, NOT, 1, "amp_dtype", "autocast_dtype"),
    SETTING("mixup", TRAINING, NULL, NULL, NOT, 1, "use_mixup", "mixup"),
    SETTING("cutmix", TRAINING, NULL, NULL, NOT, 1, "use_cutmix", "cutmix"),
    SETTING("mixup_alpha", TRAINING, NULL, NULL, NOT, 1, "mixup_alpha"),
    SETTING("cutmix_alpha", TRAINING, NULL, NULL, NOT, 1, "cutmix_alpha"),
    SETTING("mixup_prob", TRAINING, NULL, NULL, NOT, 1, "mixup_prob", "mixup_p"),
    SETTING("cutmix_prob", TRAINING, NULL, NULL, NOT, 1, "cutmix_prob", "cutmix_p"),
    SETTING("devices", TRAINING, NULL, NULL, NOT, 1, "devices", "num_gpus", "n_gpus", "gpus"),
    SETTING("strategy", TRAINING, NULL, NULL, NOT, 1, "strategy", "distributed_backend"),
    SETTING("accelerator", TRAINING, NULL, NULL, NOT, 1, "accelerator"),
};

const size_t stk_settings_count = sizeof stk_settings / sizeof *stk_settings;

const stk_setting *stk_setting_named(const char *name)
{
    for (size_t i = 0; i < stk_settings_count; i++)
        if (!strcmp(stk_settings[i].name, name)) return &stk_settings[i];
    return NULL;
}
