/* SPDX-License-Identifier: Apache-2.0
 *
 * The option table of training: names, types, defaults, ranges and the words of `--help`. No name is one of
 * the data path's, since both stand in one file and on one command line; test_train_options checks that, and
 * that the order of every `choices` text is the order of the enum it fills.
 */
#include <stoke/tools/train.h>

#include <stddef.h>

#define ANY 0x1p63 /* no upper limit worth telling */

/* A row: its field, which has the option's name, default, range or words, help. */
#define ROW(field, kind, standard, words, ...)                                                               \
    { #field, STOKE_OPT_##kind, .offset = offsetof(stoke_train_params, field), .default_text = standard,     \
      .help = words, __VA_ARGS__ },
#define NUMBER(kind, field, standard, low, high, value, words)                                               \
    ROW(field, kind, standard, words, .min = low, .max = high, .argument = value)
#define INT(...)                                NUMBER(INT, __VA_ARGS__)
#define AUTO_INT(...)                           NUMBER(AUTO_INT, __VA_ARGS__)
#define REAL(...)                               NUMBER(REAL, __VA_ARGS__)
#define FLAG(field, standard, words)            ROW(field, FLAG, standard, words, .min = 0)
#define CHOICE(field, standard, options, words) ROW(field, CHOICE, standard, words, .choices = options)
#define STRING(field, standard, value, words)   ROW(field, STRING, standard, words, .argument = value)

/* clang-format off: one entry, one paragraph */
static const char METRICS[] =
#define STOKE_SCORE(id, task, name, title, metric, charted) metric "|"
#include <stoke/scores.def>
#undef STOKE_SCORE
    "loss";
static const char LOSSES[] =
#define STOKE_LOSS(id, value, task, word) word "|"
#include <stoke/losses.def>
#undef STOKE_LOSS
    "auto";

static const stoke_option table[] = {
    /* the network */
    STRING(model, NULL, "b0..b5|resnet|unet",
           "A SegFormer, from b0 (3.7 million parameters) to b5 (84 million); resnet, a small residual "
           "network at full resolution; or unet, a U-Net. Left out, what --pretrained holds, else b0, and "
           "resnet for --task restore")
    STRING(pretrained, NULL, "DIR|FILE",
           "Weights to start from, as Hugging Face stores them: the folder of a whole network or of an "
           "encoder (mit-b0), or the best/ folder of another run. Left out, weights start random, from --seed")
    FLAG(partial, "false",
         "Take from --pretrained the tensors that fit and draw the others, instead of refusing weights of "
         "another shape")
    CHOICE(precision, "auto", "fp32|bf16|fp16|auto",
           "Numbers that the network computes with; auto is bf16 where the processor has native bf16 "
           "products (AMX), else fp32. Weights are kept in fp32 always")
    CHOICE(memory, "plain", "plain|lean|min",
           "Activations kept from the forward pass for the backward pass; lean and min keep fewer and "
           "compute them again, for larger batches in the same memory")
    INT(threads, "0", 0, 1024, "N",
        "Threads of the network; 0 takes all cores the process may use. Results do not depend on it")
    REAL(dropout, "0.1", 0, 0.99, "PART", "Share of the head's values that are set to 0 in training")
    REAL(drop_path, "0.1", 0, 0.99, "PART",
         "Share of samples for which the last block of the encoder is passed over in training; it grows "
         "from 0 at the first block")
    FLAG(freeze_encoder, "false",
         "Train the head alone (of resnet its last layer): faster, for few pictures and good pretrained "
         "weights")
    INT(base_channels, "0", 0, 1024, "N",
        "Of resnet and unet: channels at full resolution; 0 takes those of --pretrained, else 32 and 16")
    INT(num_blocks, "0", 0, 256, "N",
        "Of resnet: residual blocks, of two layers each; 0 takes those of --pretrained, else 4")
    INT(patch_size, "0", 0, 32768, "N",
        "Train on patches of NxN: sets --size and, unless --augment says otherwise, takes them at random "
        "places, mirrored at random. 0 leaves --size as it is; for --task restore without --size it chooses: "
        "the pictures' smaller side, up to 192")
    /* how long */
    INT(epochs, "50", 1, ANY, "N", "How often training goes over the set")
    INT(steps, "0", 0, ANY, "N", "Updates of the weights in all; above 0 it counts instead of --epochs")
    INT(accumulate, "1", 1, 65536, "N",
        "Batches per step: the gradients of N batches are added up, which equals one batch N times as "
        "large in the memory of one")
    AUTO_INT(replicas, "auto", 1, 4096, "N|auto",
        "Lanes of a step, of --accumulate batches each, that processes share: weights have the same bits for any "
        "number of processes up to N. A step takes batch x accumulate x N pictures. auto: as many as there are "
        "processes")
    CHOICE(compress, "none", "none|bf16",
        "Numbers to which the gradients of each lane are rounded before lanes are added up: bf16 halves what "
        "processes of one lane each send, and changes the weights, by any number of processes alike")
    CHOICE(batch_norm, "local", "local|sync",
           "Of SegFormer's head: local normalises each batch by itself; sync normalises the batches of all lanes "
           "together, as NVIDIA trained SegFormer. A process then keeps the activations of a batch of each of its "
           "lanes")
    STRING(comm, "auto", "NAME|PATH",
           "What carries bytes between the processes that a launcher started (mpirun, srun, torchrun): auto by the "
           "launcher, none, mpi, c10d, or the path of a plugin")
    REAL(comm_timeout, "600", 0, 86400, "SECONDS",
         "How long one process is waited for before all end; 0: for ever")
    INT(audit_every, "0", 0, ANY, "N",
        "Of several processes: every N steps each computes one lane of the next process once more, and the run ends "
        "before the update where the bits of two differ: a processor, memory or disk that fails without a word. "
        "Such a step takes one lane longer: with a lane per process twice as long, so 100 costs 1 % and no memory. "
        "Weights do not depend on it. 0 never does")
    /* loss */
    CHOICE(loss, "auto", LOSSES,
           "Of masks cross-entropy, Dice, their sum, or focal loss; pixels of --ignore-index count in none. Of "
           "restored pictures |d|, sqrt(d^2 + 0.001^2) or d^2. auto is ce, or charbonnier")
    REAL(label_smoothing, "0", 0, 1, "PART",
         "Share of the target that is spread over all classes; cross-entropy only")
    REAL(focal_gamma, "2", 0, 100, "X",
         "Of focal loss: how strongly pixels that are right already count less")
    REAL(ce_weight, "1", 0, 1000, "X", "Factor of cross-entropy in ce_dice")
    REAL(dice_weight, "1", 0, 1000, "X", "Factor of Dice in ce_dice")
    STRING(class_weights, "none", "none|balanced|LIST",
           "How much a pixel of each class counts: none (all the same), balanced (rare classes more, by "
           "the pixels in the masks, up to 50 times the mean), or a list such as 1,2.5,1")
    CHOICE(loss_mean, "batches", "batches|pixels",
           "What a step of several batches (--accumulate, --replicas) follows: the mean of its batches' means, as "
           "accumulation and data-parallel training usually do, or one mean over all its labelled pixels (by their "
           "class weights), as one large batch would give; pixels is for ce and focal")
    STRING(perceptual, NULL, "DIR|FILE",
           "Of restored pictures: weights of a frozen network by whose features, too, a picture is held against "
           "its target. VGG11 to VGG19 of torchvision, saved as safetensors, or a SegFormer. Left out, the loss "
           "is that of pixels alone")
    REAL(perceptual_weight, "0.1", 0, 1000, "X",
         "Factor of the distance of these features in the loss; 0 leaves them out")
    /* optimiser */
    CHOICE(optimizer, "adamw", "adamw|sgd", "Rule by which gradients change the weights")
    REAL(lr, "0", 0, 1000, "X",
         "Learning rate at its highest; 0 chooses: adamw 6e-5 with --pretrained and 1e-3 without (1e-3 and "
         "4e-3 of resnet and unet), sgd 0.01. `stoke find-lr` suggests one for your data")
    REAL(head_lr, "0", 0, 1000, "X",
         "Factor of the learning rate for the head, which is not pretrained; 0 chooses: 10 with "
         "--pretrained, 1 without, and of resnet and unet")
    REAL(beta1, "0.9", 0, 0.999999, "X", "Of adamw: decay of the mean of gradients")
    REAL(beta2, "0.999", 0, 0.999999, "X", "Of adamw: decay of the mean of their squares")
    REAL(eps, "1e-8", 1e-30, 1, "X", "Of adamw: added to the divisor")
    REAL(momentum, "0.9", 0, 0.999999, "X", "Of sgd: share of the last change that the next one keeps")
    FLAG(nesterov, "false", "Of sgd: Nesterov's momentum")
    REAL(weight_decay, "0.01", 0, 1000, "X", "How strongly weights are pulled towards 0; those of norms are not")
    REAL(clip_norm, "1", 0, ANY, "X",
         "Gradients whose norm is larger are scaled down to it; 0 leaves them as they are")
    CHOICE(schedule, "poly", "poly|cosine|constant",
           "How the learning rate falls after the warm-up: (1 - t)^power, half a cosine, or not at all")
    REAL(warmup, "0.1", 0, ANY, "PART|N",
         "The learning rate rises linearly over this share of all steps, or, from 1 on, over this many "
         "steps")
    REAL(power, "1", 0, 100, "X", "Of poly: 1 is a straight line")
    REAL(lr_end, "0", 0, 1, "PART", "Where the schedule ends, as a share of --lr")
    REAL(average, "0", 0, 0.999999, "X",
         "Decay of a moving average of the weights (EMA), such as 0.999, which is then evaluated and saved "
         "in place of the weights; 0 keeps none")
    /* evaluation */
    AUTO_INT(eval_every, "auto", 0, ANY, "N|auto",
             "Steps between evaluations on the val part; auto is once per epoch, but every 50 steps at the "
             "most, and less often where --eval-mode slide would take more time than the steps. 0 never "
             "evaluates: then all of --split is trained on")
    CHOICE(eval_mode, "auto", "auto|resize|slide",
           "How validation looks at a picture: resize brings it to --size; slide moves windows of --size "
           "over it at its own scale and scores it at its own size; auto slides where training cuts such "
           "windows (crop, medical, random_crop ...) and pictures are more than 1.5 times as large, as "
           "`stoke predict` does. A run that goes on keeps what it had")
    CHOICE(metric, "miou", METRICS,
           "What decides which network is kept in best/: the score on val that is highest (miou: mean IoU; "
           "f1: mean F1 of the classes; accuracy: share of right pixels; ...), or the lowest loss. Networks that "
           "restore pictures have psnr, which stands for miou there, and ssim")
    INT(patience, "0", 0, ANY, "N",
        "Stop after N evaluations in a row without a better one; 0 goes on to the end")
    /* the run folder */
    STRING(runs, "runs", "DIR", "Folder in which each run has its own")
    STRING(name, NULL, "NAME", "Name of the run and its folder; left out, model, date and time")
    STRING(resume, NULL, "DIR",
           "Go on with the run in this folder, exactly where its last checkpoint was taken; settings are "
           "read from its config.yaml")
    { "continue", STOKE_OPT_FLAG, .offset = offsetof(stoke_train_params, go_on), .default_text = "false",
      .help = "Go on with the run --name in --runs if there is one, or else begin it: the same line starts a run "
              "and starts it again, as batch systems and torchrun do" },
    FLAG(force, "false",
         "Resume although the data or settings have changed since, or although the state is gone: then the "
         "run begins again and replaces its best/ and last/")
    INT(stop_after, "0", 0, ANY, "N",
        "Save and stop after N more steps, to be resumed later; 0 goes on to the end")
    AUTO_INT(save_every, "auto", 1, ANY, "N|auto",
             "Steps between checkpoints; auto is at every evaluation and at least every 10 minutes")
    AUTO_INT(log_every, "auto", 1, ANY, "N|auto",
             "Steps between lines of the log and points of the curves; auto is 200 points per run, but "
             "every 20 steps at least")
    FLAG(rank_logs, "false",
         "Of several processes: each writes its own steps, and how long it waited for data and for the others, to "
         "log.rankN.jsonl, if it sees the run's folder")
    FLAG(pictures, "true", "Draw some predictions at every evaluation")
    FLAG(tensorboard, "true", "Write events for TensorBoard beside the log")
};
/* clang-format on */

stoke_option_group stoke_train_options(stoke_train_params *params)
{
    return (stoke_option_group){ "training", table, sizeof table / sizeof *table, params };
}

stoke_train_params stoke_train_defaults(void)
{
    stoke_train_params params = { .struct_size = sizeof params };
    stoke_option_group group = stoke_train_options(&params);
    stoke_options_defaults(&group);
    return params;
}
