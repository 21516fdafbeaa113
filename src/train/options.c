/* SPDX-License-Identifier: Apache-2.0
 *
 * The option table of training: names, types, defaults, ranges and the words of `--help`. No name is one of
 * the data path's, since both stand in one file and on one command line; test_train_options checks that, and
 * that the order of every `choices` text is the order of the enum it fills.
 */
#include <stoke/tools/train.h>

#include <stddef.h>

#define FIELD(name) .offset = offsetof(stoke_train_params, name)
#define ANY         0x1p63 /* no upper limit worth telling */

/* clang-format off: one entry, one paragraph */
static const char METRICS[] =
#define STOKE_SCORE(id, name, title, metric, charted) metric "|"
#include <stoke/scores.def>
#undef STOKE_SCORE
    "loss";

static const stoke_option table[] = {
    /* the network */
    { "model", STOKE_OPT_STRING, FIELD(model), .argument = "b0..b5",
      .help = "Size of the SegFormer, from b0 (3.7 million parameters) to b5 (84 million); left out, what "
              "--pretrained holds, else b0" },
    { "pretrained", STOKE_OPT_STRING, FIELD(pretrained), .argument = "DIR|FILE",
      .help = "Weights to start from, as Hugging Face stores them: the folder of a whole network or of an "
              "encoder "
              "(mit-b0), or the best/ folder of another run. Left out, weights are drawn from --seed" },
    { "partial", STOKE_OPT_FLAG, FIELD(partial), .default_text = "false",
      .help =
          "Take from --pretrained the tensors that fit and draw the others, instead of refusing weights of "
          "another shape" },
    { "precision", STOKE_OPT_CHOICE, FIELD(precision), .default_text = "auto",
      .choices = "fp32|bf16|fp16|auto",
      .help =
          "Numbers that the network computes with; auto is bf16 where the processor has native bf16 products "
          "(AMX), else fp32. Weights are kept in fp32 always" },
    { "memory", STOKE_OPT_CHOICE, FIELD(memory), .default_text = "plain", .choices = "plain|lean|min",
      .help = "Activations kept from the forward pass for the backward pass; lean and min keep fewer and "
              "compute them again, "
              "for larger batches in the same memory" },
    { "threads", STOKE_OPT_INT, FIELD(threads), .default_text = "0", .min = 0, .max = 1024, .argument = "N",
      .help = "Threads of the network; 0 takes all cores the process may use. Results do not depend on it" },
    { "dropout", STOKE_OPT_REAL, FIELD(dropout), .default_text = "0.1", .min = 0, .max = 0.99,
      .argument = "PART", .help = "Share of the head's values that are set to 0 in training" },
    { "drop_path", STOKE_OPT_REAL, FIELD(drop_path), .default_text = "0.1", .min = 0, .max = 0.99,
      .argument = "PART",
      .help = "Share of samples for which the last block of the encoder is passed over in training; it grows "
              "from 0 at the first block" },
    { "freeze_encoder", STOKE_OPT_FLAG, FIELD(freeze_encoder), .default_text = "false",
      .help = "Train the head alone: faster, for few pictures and good pretrained weights" },
    /* how long */
    { "epochs", STOKE_OPT_INT, FIELD(epochs), .default_text = "50", .min = 1, .max = ANY, .argument = "N",
      .help = "How often training goes over the set" },
    { "steps", STOKE_OPT_INT, FIELD(steps), .default_text = "0", .min = 0, .max = ANY, .argument = "N",
      .help = "Updates of the weights in all; above 0 it counts instead of --epochs" },
    { "accumulate", STOKE_OPT_INT, FIELD(accumulate), .default_text = "1", .min = 1, .max = 65536,
      .argument = "N",
      .help = "Batches per step: the gradients of N batches are added up, which equals one batch N times as "
              "large in the memory of one" },
    /* loss */
    { "loss", STOKE_OPT_CHOICE, FIELD(loss), .default_text = "ce", .choices = "ce|dice|ce_dice|focal",
      .help = "Cross-entropy, Dice, their sum, or focal loss; pixels of --ignore-index count in none" },
    { "label_smoothing", STOKE_OPT_REAL, FIELD(label_smoothing), .default_text = "0", .min = 0, .max = 1,
      .argument = "PART", .help = "Share of the target that is spread over all classes; cross-entropy only" },
    { "focal_gamma", STOKE_OPT_REAL, FIELD(focal_gamma), .default_text = "2", .min = 0, .max = 100,
      .argument = "X", .help = "Of focal loss: how strongly pixels that are right already count less" },
    { "ce_weight", STOKE_OPT_REAL, FIELD(ce_weight), .default_text = "1", .min = 0, .max = 1000,
      .argument = "X", .help = "Factor of cross-entropy in ce_dice" },
    { "dice_weight", STOKE_OPT_REAL, FIELD(dice_weight), .default_text = "1", .min = 0, .max = 1000,
      .argument = "X", .help = "Factor of Dice in ce_dice" },
    { "class_weights", STOKE_OPT_STRING, FIELD(class_weights), .default_text = "none",
      .argument = "none|balanced|LIST",
      .help =
          "How much a pixel of each class counts: none (all the same), balanced (rare classes more, by the "
          "pixels in the masks, up to 50 times the mean), or a list such as 1,2.5,1" },
    /* optimiser */
    { "optimizer", STOKE_OPT_CHOICE, FIELD(optimizer), .default_text = "adamw", .choices = "adamw|sgd",
      .help = "Rule by which gradients change the weights" },
    { "lr", STOKE_OPT_REAL, FIELD(lr), .default_text = "0", .min = 0, .max = 1000, .argument = "X",
      .help =
          "Learning rate at its highest; 0 chooses: adamw 6e-5 with --pretrained and 1e-3 without, sgd 0.01. "
          "`stoke find-lr` suggests one for your data" },
    { "head_lr", STOKE_OPT_REAL, FIELD(head_lr), .default_text = "0", .min = 0, .max = 1000, .argument = "X",
      .help = "Factor of the learning rate for the head, which is not pretrained; 0 chooses: 10 with "
              "--pretrained, 1 without" },
    { "beta1", STOKE_OPT_REAL, FIELD(beta1), .default_text = "0.9", .min = 0, .max = 0.999999,
      .argument = "X", .help = "Of adamw: decay of the mean of gradients" },
    { "beta2", STOKE_OPT_REAL, FIELD(beta2), .default_text = "0.999", .min = 0, .max = 0.999999,
      .argument = "X", .help = "Of adamw: decay of the mean of their squares" },
    { "eps", STOKE_OPT_REAL, FIELD(eps), .default_text = "1e-8", .min = 1e-30, .max = 1, .argument = "X",
      .help = "Of adamw: added to the divisor" },
    { "momentum", STOKE_OPT_REAL, FIELD(momentum), .default_text = "0.9", .min = 0, .max = 0.999999,
      .argument = "X", .help = "Of sgd: share of the last change that the next one keeps" },
    { "nesterov", STOKE_OPT_FLAG, FIELD(nesterov), .default_text = "false",
      .help = "Of sgd: Nesterov's momentum" },
    { "weight_decay", STOKE_OPT_REAL, FIELD(weight_decay), .default_text = "0.01", .min = 0, .max = 1000,
      .argument = "X", .help = "How strongly weights are drawn to 0; those of norms are not" },
    { "clip_norm", STOKE_OPT_REAL, FIELD(clip_norm), .default_text = "1", .min = 0, .max = ANY,
      .argument = "X",
      .help = "Gradients whose norm is larger are scaled down to it; 0 leaves them as they are" },
    { "schedule", STOKE_OPT_CHOICE, FIELD(schedule), .default_text = "poly",
      .choices = "poly|cosine|constant",
      .help = "How the learning rate falls after the warm-up: (1 - t)^power, half a cosine, or not at all" },
    { "warmup", STOKE_OPT_REAL, FIELD(warmup), .default_text = "0.1", .min = 0, .max = ANY,
      .argument = "PART|N",
      .help = "The learning rate rises linearly over this share of all steps, or, from 1 on, over this many "
              "steps" },
    { "power", STOKE_OPT_REAL, FIELD(power), .default_text = "1", .min = 0, .max = 100, .argument = "X",
      .help = "Of poly: 1 is a straight line" },
    { "lr_end", STOKE_OPT_REAL, FIELD(lr_end), .default_text = "0", .min = 0, .max = 1, .argument = "PART",
      .help = "Where the schedule ends, as a share of --lr" },
    { "average", STOKE_OPT_REAL, FIELD(average), .default_text = "0", .min = 0, .max = 0.999999,
      .argument = "X",
      .help =
          "Decay of a moving average of the weights (EMA), such as 0.999, which is then evaluated and saved "
          "in place of the weights; 0 keeps none" },
    /* evaluation */
    { "eval_every", STOKE_OPT_AUTO_INT, FIELD(eval_every), .default_text = "auto", .min = 0, .max = ANY,
      .argument = "N|auto",
      .help = "Steps between evaluations on the val part; auto is once per epoch, but every 50 steps at the "
              "most, and less often where --eval-mode slide would take more time than the steps. "
              "0 never evaluates: then all of --split is trained on" },
    { "eval_mode", STOKE_OPT_CHOICE, FIELD(eval_mode), .default_text = "auto", .choices = "auto|resize|slide",
      .help = "How validation looks at a picture: resize brings it to --size; slide moves windows of --size "
              "over it "
              "at its own scale and scores it at its own size; auto slides where training cuts such windows "
              "(crop, "
              "medical, random_crop ...) and pictures are more than 1.5 times as large, as `stoke predict` "
              "does. A "
              "run that goes on keeps what it had" },
    { "metric", STOKE_OPT_CHOICE, FIELD(metric), .default_text = "miou", .choices = METRICS,
      .help = "What decides which network is kept in best/: the score on val that is highest (miou: mean "
              "IoU; f1: "
              "mean F1 of the classes; accuracy: share of right pixels; ...), or the lowest loss" },
    { "patience", STOKE_OPT_INT, FIELD(patience), .default_text = "0", .min = 0, .max = ANY, .argument = "N",
      .help = "Stop after N evaluations in a row without a better one; 0 goes on to the end" },
    /* the run folder */
    { "runs", STOKE_OPT_STRING, FIELD(runs), .default_text = "runs", .argument = "DIR",
      .help = "Folder in which each run has its own" },
    { "name", STOKE_OPT_STRING, FIELD(name), .argument = "NAME",
      .help = "Name of the run and its folder; left out, model, date and time" },
    { "resume", STOKE_OPT_STRING, FIELD(resume), .argument = "DIR",
      .help = "Go on with the run in this folder, exactly where its last checkpoint was taken; settings are "
              "read from its config.yaml" },
    { "force", STOKE_OPT_FLAG, FIELD(force), .default_text = "false",
      .help = "Resume although the data or settings have changed since, or although the state is gone: then "
              "the run begins again and replaces its best/ and last/" },
    { "stop_after", STOKE_OPT_INT, FIELD(stop_after), .default_text = "0", .min = 0, .max = ANY,
      .argument = "N",
      .help = "Save and leave after N steps of this session, to be resumed later; 0 goes on to the end" },
    { "save_every", STOKE_OPT_AUTO_INT, FIELD(save_every), .default_text = "auto", .min = 1, .max = ANY,
      .argument = "N|auto",
      .help = "Steps between checkpoints; auto is at every evaluation and at least every 10 minutes" },
    { "log_every", STOKE_OPT_AUTO_INT, FIELD(log_every), .default_text = "auto", .min = 1, .max = ANY,
      .argument = "N|auto",
      .help =
          "Steps between lines of the log and points of the curves; auto is 200 points per run, but every 20 "
          "steps at least" },
    { "pictures", STOKE_OPT_FLAG, FIELD(pictures), .default_text = "true",
      .help = "Draw some predictions at every evaluation" },
    { "tensorboard", STOKE_OPT_FLAG, FIELD(tensorboard), .default_text = "true",
      .help = "Write events for TensorBoard beside the log" },
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
