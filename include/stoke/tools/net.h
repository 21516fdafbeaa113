/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/net.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_NET_H
#define STOKE_TOOLS_NET_H

#include <stoke/net.h>

/* Time per part of the work since the last call of `reset`, for `stoke bench step`. */
typedef struct stoke_net_part {
    const char *name; /* "linear forward", "attention backward", ... */
    double ms;
    uint64_t calls;
} stoke_net_part;
STOKE_API size_t stoke_net_parts(const stoke_net *net, stoke_net_part *parts, size_t capacity);

STOKE_API void stoke_net_parts_reset(stoke_net *net);

/* After values of a stoke_net_tensor were written: packed copies are made again. */
STOKE_API void stoke_net_touched(stoke_net *net);

/* Counters a checkpoint must keep besides the tensors. */
typedef struct stoke_net_state {
    uint64_t step;  /* updates done */
    uint64_t draws; /* calls of stoke_net_backward, which key dropout */
    uint64_t batches_tracked;
    double loss_scale;
    uint64_t good_steps; /* since the scale last changed */
} stoke_net_state;
STOKE_API void stoke_net_state_get(const stoke_net *net, stoke_net_state *state);

STOKE_API void stoke_net_state_set(stoke_net *net, const stoke_net_state *state);

/* By its name, or by what others call it (16-mixed, bfloat16); -1: there is none such. */
STOKE_API int stoke_precision_named(const char *word);

/* Exchanges the weights with their moving average, and back when called again: to evaluate or predict with
 * it. Between the two calls nothing is trained. STOKE_E_STATE when none is kept. */
STOKE_API int stoke_net_swap_average(stoke_net *net, stoke_error *err);

/* ---- the parts of stoke_net_backward and stoke_net_step, for several processes ---- */

/* What a network trains, flat: weights, gradients, the optimiser's moments (second NULL with SGD), the moving
 * average (NULL without one). They lie where they are until the network is closed. */
typedef struct stoke_net_arrays {
    float *values, *gradients, *first, *second, *average;
    size_t floats;  /* of values and average: what is trained, and the running statistics behind it */
    size_t trained; /* of the others */
} stoke_net_arrays;
STOKE_API stoke_net_arrays stoke_net_arrays_of(const stoke_net *net);
/* Squares and steps are of whole chunks of so many elements (the last may be shorter): 64 KB of each array,
 * enough to make a task worth taking (10 us), and 229 tasks for b0. */
enum { STOKE_NET_CHUNK = 16384 };
STOKE_API uint32_t stoke_net_chunks(const stoke_net *net);

/* stoke_net_backward for the batch with the number `draw` in the run, which keys its dropout. Its gradients
 * take the place of those that are there, or are added (`add`). Running statistics stay as they are: what
 * they would move towards goes to `statistics`, stoke_net_statistics doubles (0: the network has none). */
STOKE_API int stoke_net_leaf(stoke_net *net, const stoke_net_batch *batch, uint32_t of, uint64_t draw,
                             int add, double *loss, double *statistics, stoke_error *err);
/* The same in two calls, with nothing else asked of the network between them: forward pass and loss, which
 * may fail, and the backward pass of the same batch, which cannot. */
STOKE_API int stoke_net_leaf_loss(stoke_net *net, const stoke_net_batch *batch, uint32_t of, uint64_t draw,
                                  double *loss, double *statistics, stoke_error *err);
STOKE_API void stoke_net_leaf_back(stoke_net *net, const stoke_net_batch *batch, int add);
/* The gradients of nothing, zeros: of a process that got no picture. */
STOKE_API void stoke_net_leaf_none(stoke_net *net);
/* Gradients leave while the backward pass goes on, weights come while the forward pass does. The gradients
 * first .. end - 1 are complete after so many operations of a backward pass (0: it writes none of them); the
 * weights first .. end - 1 are not read before so many operations of a forward pass are done. */
STOKE_API uint32_t stoke_net_final_after(const stoke_net *net, size_t first, size_t end);
STOKE_API uint32_t stoke_net_read_after(const stoke_net *net, size_t first, size_t end);
/* Who is told how many operations are done: before each one of a forward pass, after each one of a backward
 * pass. It may use the network's threads (stoke_net_run). NULL: nobody; that costs nothing. While somebody is
 * told of forward passes, each layer is packed before it is used, instead of all together. */
typedef void stoke_net_operations(void *context, uint32_t done);
STOKE_API void stoke_net_before_forward(stoke_net *net, stoke_net_operations *told, void *context);
STOKE_API void stoke_net_after_backward(stoke_net *net, stoke_net_operations *told, void *context);
STOKE_API size_t stoke_net_statistics(const stoke_net *net);
/* One mean over several batches, whose divisor is known when all are there. Cross-entropy and focal loss of
 * training are divided by this from now on instead of by the weights of the pixels that count in the batch
 * (0: by these again); stoke_net_leaf_weight is those of the last one, a mixed picture's by its shares. */
STOKE_API void stoke_net_divide(stoke_net *net, double divisor);
STOKE_API double stoke_net_leaf_weight(const stoke_net *net);
/* The gradients that are there count this many times in the next step, in its norm, too. */
STOKE_API void stoke_net_multiply(stoke_net *net, double factor);
/* Moves the running statistics as one batch would have (NULL: counts it only). For every batch of a step, in
 * the order of their numbers. */
STOKE_API void stoke_net_track(stoke_net *net, const double *statistics);

/* A batch norm over several batches, of other processes, too: as stoke_net_leaf, in parts that all batches go
 * through together. What one part says of a batch is exchanged before the next; a batch of no pictures goes
 * through none and says zeros. The network was opened with `joint`. */
typedef struct stoke_net_joint {
    const stoke_net_batch *batch;
    uint32_t at;   /* which of those that are on their way, below `joint` */
    uint32_t of;   /* as stoke_net_leaf's */
    uint64_t draw; /* as well */
} stoke_net_joint;
/* The encoder, and the moments of what comes to the batch norm: 1 + stoke_net_statistics doubles. */
STOKE_API int stoke_net_joint_moments(stoke_net *net, const stoke_net_joint *joint, double *moments,
                                      stoke_error *err);
/* Once: normalises by the moments of `count` batches, one behind the other, joined in this order.
 * `statistics` becomes what the running ones move towards; not followed where no batch has a picture. */
STOKE_API void stoke_net_joint_normalise(stoke_net *net, const double *moments, uint32_t count,
                                         double *statistics);
/* Moves the running statistics as one batch would have, that was made of `count` which drew. */
STOKE_API void stoke_net_joint_track(stoke_net *net, const double *statistics, uint32_t count);
STOKE_API int stoke_net_joint_loss(stoke_net *net, const stoke_net_joint *joint, double *loss,
                                   stoke_error *err);
/* From here on nothing fails. Back to the batch norm, and the sums that it needs of all batches:
 * stoke_net_statistics doubles. */
STOKE_API void stoke_net_joint_sums(stoke_net *net, const stoke_net_joint *joint, double *sums);
/* Once, of as many batches as were normalised by. */
STOKE_API void stoke_net_joint_slopes(stoke_net *net, const double *sums, uint32_t count);
/* The rest of the way, with the batch's own sums. gradients: another array in place of the network's; NULL:
 * its own. */
STOKE_API void stoke_net_joint_back(stoke_net *net, const stoke_net_joint *joint, const double *sums,
                                    float *gradients, int add);

/* Sums of squares of the gradients of chunks `first` to before `end`; squares[0] is that of `first`. */
STOKE_API int stoke_net_squares(stoke_net *net, const stoke_update *update, uint32_t first, uint32_t end,
                                double *squares, stoke_error *err);
/* The step: what becomes of it, by the squares of all chunks, and then the step of some chunks, as often as
 * there are such. Where it is skipped these do nothing. */
STOKE_API void stoke_net_step_begin(stoke_net *net, const stoke_update *update, const double *squares,
                                    stoke_step_report *report);
STOKE_API void stoke_net_step_chunks(stoke_net *net, const stoke_update *update, uint32_t first,
                                     uint32_t end);

/* ---- what prediction needs besides the logits ---- */

/* As it was opened, auto not resolved; strings and class_weights are not the caller's. */
STOKE_API const stoke_net_params *stoke_net_params_used(const stoke_net *net);

/* Name of a class, given or from the file; NULL: it has none. */
STOKE_API const char *stoke_net_label(const stoke_net *net, uint32_t id);

/* Pictures of another size from now on, with the same weights and the same batch; the plan stays that of the
 * opening. Smaller ones need no memory, or a little where work is cut worse. Not for training. On failure the
 * size stays as it was. */
STOKE_API int stoke_net_resize(stoke_net *net, uint32_t height, uint32_t width, stoke_error *err);

/* Tasks 0 .. tasks - 1 on the network's team: `thread` is below plan.threads. Not while it computes. */
STOKE_API void stoke_net_run(const stoke_net *net,
                             void (*work)(const void *context, uint32_t task, uint32_t thread),
                             const void *context, uint32_t tasks);

/* The class of every pixel of height x width that one picture's logits cover, as stoke_net_predict decides.
 * They may come from elsewhere than the network: sums over windows, say. room: stoke_net_class_room bytes. */
STOKE_API size_t stoke_net_class_room(const stoke_logits *logits, uint32_t height, uint32_t width);
STOKE_API void stoke_net_classes_of(const stoke_net *net, const stoke_logits *logits, uint32_t height,
                                    uint32_t width, void *room, uint16_t *classes);

/* The pixels that losses leave out, from now on. */
STOKE_API void stoke_net_ignore(stoke_net *net, int64_t ignore_index);
/* The loss of one picture of the last pass against a mask of its size, lines close together. */
STOKE_API int stoke_net_item_loss(stoke_net *net, uint32_t item, const void *mask, stoke_dtype dtype,
                                  double *loss, stoke_error *err);

/* The weights of a network of the same model and sizes, but for those of its pictures. */
STOKE_API void stoke_net_copy(stoke_net *to, const stoke_net *from);

/* What the last pass (stoke_net_forward, stoke_net_evaluate) computed: the network's, until the next call. */
STOKE_API stoke_logits stoke_net_outputs(const stoke_net *net);

/* A network as it is recorded: each operation of a step in order, and each tensor with its life. For `stoke
 * plan`. Bytes are those of the largest batch. */
typedef struct stoke_net_op {
    const char *phase; /* "forward", "loss" or "backward" */
    const char *kind;  /* "linear", "norm backward", ... */
    char layer[96];    /* as its parameters are called, "segformer.encoder.block.0.0.mlp.dense1"; "": none */
    char shape[48];    /* "65536 x 32 to 128" */
    double flops;      /* of products; elementwise work is not counted */
    /* Bytes of the tensors it reads and writes, and of all that live while it runs; pictures, weights and
     * their gradients are not among them. */
    uint64_t read, written, live;
} stoke_net_op;

typedef struct stoke_net_map {
    const char *name;
    uint32_t first, last; /* operations: written first, read last */
    uint64_t at, bytes;
    int kept; /* 1: by the forward pass for the backward pass */
} stoke_net_map;

typedef struct stoke_net_tape {
    stoke_net_op *ops;
    stoke_net_map *maps;
    size_t n_ops, n_maps;
    uint64_t bytes, kept; /* of all maps together, and of those that are kept */
    stoke_net_plan plan;
} stoke_net_tape;

/* Released by stoke_net_tape_destroy; NULL on failure, whose errors are those of stoke_net_plan_of. */
STOKE_API int stoke_net_tape_of(const stoke_net_params *params, stoke_net_tape **tape, stoke_error *err);
STOKE_API void stoke_net_tape_destroy(stoke_net_tape **tape);

#endif
