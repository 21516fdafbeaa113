/* SPDX-License-Identifier: Apache-2.0
 *
 * A step as processes share it. Its batches lie in `replicas` lanes of `accumulate` batches each; a lane is
 * computed as a step of one process always was, batch after batch into the network's gradients. Then lanes
 * are added in the order of one binary tree (src/comm/tree.h), so the weights have the same bits whatever
 * number of processes the lanes are spread over. Batch a of lane l in step s is number (s accumulate + a)
 * replicas + l of the run.
 */
#ifndef STOKE_SRC_TRAIN_LANES_H
#define STOKE_SRC_TRAIN_LANES_H

#include "src/loader/loader.h"
#include "src/train/audit.h"
#include "src/train/exchange.h"
#include "src/train/lanes_sync.h"
#include "src/train/setup.h"
#include <stoke/tools/net.h>
#include <stoke/train.h>

/* Running statistics follow so many of a step's last batches at most; what those before would have left in
 * them is below 0.9^128, a millionth. A step of one lane follows them all, as it always did. */
enum { STK_LANES_TRACKED = 128 };

typedef struct stk_lanes_shape {
    uint32_t replicas, accumulate;
    uint32_t rank, world;
    size_t trained;       /* floats of a gradient */
    size_t statistics;    /* stoke_net_statistics; 0: these are of all lanes together */
    size_t joint;         /* the same, of lanes with one batch norm; 0: each has its own */
    uint64_t audit_every; /* steps; 0: no audits */
    double divisor;       /* stk_setup_divisor: 0, or the pixels of a full batch */
    int rounded;          /* the gradients of each lane, to bf16 (`compress`) */
} stk_lanes_shape;

typedef struct stk_lanes {
    stk_lanes_shape shape;
    stoke_net *net;
    stk_comm *comm; /* NULL: one process */
    stk_exchange exchange;
    uint32_t first, end; /* own lanes */
    uint64_t from;       /* the step at which the route begins */
    /* Nodes of the tree that wait for their other half, each with an array. The last lane's stays in the
     * network's gradients. */
    stk_tree_node nodes[STK_TREE_COVER];
    float *sums[STK_TREE_COVER];
    uint32_t waiting, arrays;
    double *losses;     /* of a step's batches, in the order of their numbers; 0: nothing was left of it */
    double *weights;    /* of the pixels that count in them (stoke_net_leaf_weight), in that order */
    double *statistics; /* of its last STK_LANES_TRACKED batches, in that order */
    double *squares;    /* of the gradients' chunks */
    double *mine, *all; /* what ranks tell each other of their batches */
    stk_audit audit;
    int computed; /* of the lane that is on its way: gradients are there */
    stk_lanes_sync sync;
} stk_lanes;

stk_lanes_shape stk_lanes_shape_of(const stk_setup *setup, const stoke_net_plan *plan);
/* Bytes that opening takes; 0 for one lane in one process, but for lists of numbers. */
uint64_t stk_lanes_bytes(const stk_lanes_shape *shape);
int stk_lanes_open(stk_lanes *lanes, stoke_net *net, stk_comm *comm, const stk_lanes_shape *shape,
                   stoke_error *err);
void stk_lanes_close(stk_lanes *lanes);

/* Before the first batch of a step (0 = the first): whether it has an audit. */
void stk_lanes_begin(stk_lanes *lanes, uint64_t step);
/* Lanes of this process that have one batch norm: so many batches are on their way at once. 0: one at a time
 * is. */
uint32_t stk_lanes_joint(const stk_lanes *lanes);
/* Batches of this step that this process computes; those of an audit come first. */
uint32_t stk_lanes_own(const stk_lanes *lanes);
/* Whether the k-th of them is another rank's, and computed here only to compare. */
int stk_lanes_audits(const stk_lanes *lanes, uint32_t k);
/* The route of the loader from a step on. The lanes must stay where they are. */
stk_loader_route stk_lanes_route(stk_lanes *lanes, uint64_t step);

/* The `k`-th own batch of a step, one after the other, in two calls: forward pass and loss, which may fail,
 * and its gradients, which cannot. rows->count 0: nothing was left of it. Those of the last one go to other
 * ranks as they are complete: all ranks have agreed before to make the step. */
int stk_lanes_look(stk_lanes *lanes, uint32_t k, const stoke_net_batch *rows, double *loss, stoke_error *err);
void stk_lanes_learn(stk_lanes *lanes, uint32_t k, const stoke_net_batch *rows);
/* Of lanes_sync.h: what is known of the batch at `place` of the step; a lane has all its gradients. */
void stk_lanes_note(stk_lanes *lanes, uint32_t place, const stoke_net_batch *rows, double loss);
void stk_lanes_close_lane(stk_lanes *lanes, uint32_t lane);
/* Around the last backward pass of several ranks' step: what it completes is sent, as the last lane's. */
void stk_lanes_send_begin(stk_lanes *lanes);
void stk_lanes_send_end(stk_lanes *lanes);
/* After all own batches of a step with an audit: STOKE_E_STATE on all ranks alike when two do not have the
 * same (stk_audit_compare). */
int stk_lanes_compare(stk_lanes *lanes, stoke_error *err);
/* The same of the weights, after any step. */
int stk_lanes_compare_weights(stk_lanes *lanes, uint64_t step, stoke_error *err);
/* After all own batches: the sum over all lanes, and the step. *loss: the mean of all batches' losses,
 * or over all their pixels. Weights may be on their way to this rank until the forward pass that follows. */
int stk_lanes_step(stk_lanes *lanes, const stoke_update *update, stoke_step_report *report, double *loss,
                   stoke_error *err);
/* Waits for the weights: before anything but a forward pass reads or writes them. */
int stk_lanes_settle(stk_lanes *lanes, stoke_error *err);
/* That, and what only its owners have right after a step, moments and average, becomes right everywhere:
 * before they are saved or shown. */
int stk_lanes_gather(stk_lanes *lanes, stoke_error *err);

#endif
