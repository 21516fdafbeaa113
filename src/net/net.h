/* SPDX-License-Identifier: Apache-2.0
 *
 * What a network is made of. A call goes down through these files:
 *
 *   net_train.c     one batch: forward, loss, backward; the step
 *   net_joint.c     several batches with one batch norm
 *   net_predict.c   what prediction makes of the logits
 *   marks.c         a pass whose weights are on their way, or whose gradients leave when they are complete
 *   execute.c       the tape, operation by operation
 *   ops/ops.h       the operations
 *
 * Opening it: net.c reads the settings, the network's own file (network.h) declares the layers (parameters.h)
 * and records the tape (tape.h), tape_plan.c places the tensors and adds up what there is to compute.
 */
#ifndef STOKE_SRC_NET_NET_H
#define STOKE_SRC_NET_NET_H

#include "src/base/remarks.h"
#include "src/net/features/features.h"
#include "src/net/kernels/net_table.h"
#include "src/net/network.h"
#include "src/net/segformer/segformer_head.h"
#include <stoke/common.h>
#include <stoke/tools/net.h>

/* ---- activation arena ---- */

/* All memory of a network in one allocation, planned ahead. The same code runs twice: once with no memory, to
 * measure, then once more to hand out addresses; so the plan that is printed is the memory that is used. */

/* What memory is for, as the plan reports it. The regions lie one after the other. */
typedef enum stk_arena_region {
    STK_REGION_PARAMETERS = 0,
    STK_REGION_PACKED = 1,
    STK_REGION_MAPS = 2, /* the tensors of the tape */
    STK_REGION_WORKSPACE = 3
} stk_arena_region;
enum { STK_REGIONS = 4 };

typedef struct stk_activation_arena {
    unsigned char *base;       /* NULL while measuring */
    size_t used[STK_REGIONS];  /* bytes */
    size_t start[STK_REGIONS]; /* of the region, once there is memory */
    size_t bytes;              /* that were allocated */
} stk_activation_arena;

/* Who hears of operations; told NULL: nobody. */
typedef struct stk_net_teller {
    stoke_net_operations *told;
    void *context;
} stk_net_teller;

struct stoke_net {
    stoke_net_params params; /* strings are NULL: they were the caller's */
    float *class_weights;    /* a copy of params.loss.class_weights */
    stk_network_config config;
    void *layers; /* as config.network made them */
    stk_parameters parameters;
    stk_features *features; /* of the perceptual loss; NULL: there is none */
    stk_tape tape;
    stoke_net_plan plan;
    stk_exec run;
    stk_activation_arena arena;

    float *values, *gradients, *first, *second, *average; /* flat, as parameters says */
    stk_update_group *groups;
    unsigned char *maps;     /* where the tensors of the tape lie, of the batch that is at work */
    unsigned char *all_maps; /* of all that can be on their way: one after the other */
    float *aside;            /* what each of these keeps of the head's gradients; NULL: not opened for it */
    /* Of a batch that is normalised with others: the head's operation forward ends with its moments, and the
     * one back begins with its sums and the classifier's gradients, which are there. NULL: of no such. */
    double *moments;
    const double *sums;
    float *classifier;
    stk_loss_shape loss_shape;
    void *loss_room;
    double *statistics; /* of the last batch: what the running ones move towards */

    int layers_packed;  /* their packed weights are those of the masters */
    int head_packed;    /* so are those of SegFormer's head, for head.training */
    int dropping;       /* a training batch is on its way: drop path is at work */
    double *squares;    /* of the gradients, chunk by chunk */
    int have_gradients; /* since the last step */
    int step_skipped;   /* the step that has begun is not to be made; else gradients times the factor are */
    double step_factor;
    double divisor; /* of the losses of training; 0: the weights of a batch's pixels */
    double weight;  /* the latter, of the last one */
    double factor;  /* of the gradients in the next step */
    uint64_t draw;  /* number of the batch that is on its way: keys dropout and drop path */
    stk_net_teller before_forward, after_backward;
    stoke_net_state state;
    stk_tape_profile parts;
    char **labels; /* names of the classes, given or from the file; NULL without */
    stk_remarks remarks;
};

/* Opening, with a given table (tests) instead of the one in use. */
int stk_net_open(stoke_net **out, const stoke_net_params *params, const stk_net_table *table,
                 stoke_error *err);
/* Everything up to the plan: small lists and the tape, nothing large, no thread. `net` is zeroed. */
int stk_net_prepare(stoke_net *net, const stoke_net_params *params, const stk_net_table *table,
                    stoke_error *err);
/* STOKE_E_INVALID: what the network cannot take. masks: a loss is asked for. */
int stk_net_check_batch(const stoke_net *net, const stoke_net_batch *batch, int masks, stoke_error *err);
/* The loss of the last pass and, unless NULL, `factor` times its gradient, of which the network's divisor is
 * a part. */
int stk_net_loss(stoke_net *net, const stoke_net_batch *batch, float factor, double *loss, float *d_logits,
                 stoke_error *err);
/* Where the loss scale begins: above 1 in fp16 only. */
double stk_net_first_scale(int precision);
/* A loss that the task has, with numbers that make sense, or STOKE_E_INVALID. Who restores pictures without
 * training need not name one; it is asked for when a loss is. */
int stk_net_check_loss(const stoke_loss *loss, int task, stoke_error *err);
/* Task restore: what its loss compares. */
stk_pixel_shape stk_net_pixel_shape(const stoke_net *net, uint32_t batch);
/* Where a tensor lies; NULL for none. */
void *stk_net_tensor(const stoke_net *net, stk_tape_id id);
static inline float *stk_net_logits(const stoke_net *net)
{
    return stk_net_tensor(net, net->tape.logits);
}
void stk_net_execute(stoke_net *net, stk_tape_span span, const stoke_net_batch *batch);
/* SegFormer's head, ready for an operation on a batch of so many pictures. */
stk_segformer_head *stk_net_head(const stoke_net *net, const stk_tape_op *op, uint32_t batch);
/* The passes, for who is told of their operations. */
void stk_net_forward(stoke_net *net, const stoke_net_batch *batch, int training);
void stk_net_backward(stoke_net *net, const stoke_net_batch *batch);
/* What is packed for the other kind of pass, training or not, is not what is needed now. */
void stk_net_begin_pass(stoke_net *net, int training);
/* That, and all packed weights are brought up to date; who is told of forward passes is so of the last. */
void stk_net_pack(stoke_net *net, int training);
/* The layer of the tape's first operation of a kind; NULL: there is none. */
void *stk_net_layer(const stoke_net *net, stk_tape_op_kind kind);

#endif
