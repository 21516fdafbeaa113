/* SPDX-License-Identifier: Apache-2.0
 *
 * The upload's inside, shared by its files:
 *
 *   upload.c           create, stop, destroy, next, epochs, state
 *   stream_share.c     batches in other hands: streams and threads of the caller's, release
 *   upload_memory.c    what it takes, before it is taken; the option table
 *   ring.c             device slots
 *   transfer.c         a batch on its way: copies, kernels, events; the thread that sends batches ahead
 *   step_times.c       when steps on the consumer's stream begin and end
 *   placement_probe.c  who augments
 *   upload_record.c    what those who watch may ask for; src/observe makes it
 *
 * Who waits for whom. With STOKE_TRANSFER_STREAM batches are taken from the loader by a thread of the upload
 * and sent on a second stream; otherwise the caller does both in next(), on the consumer's stream.
 *
 *   a host slot    belongs to its transfer until copy_end has passed on the device, then goes back to the
 * loader a device slot  is free, being filled, queued or held. It is queued as soon as all its work is on the
 *                  stream, long before that is done: the consumer's stream waits for `ready`, and the stream
 *                  that fills it again for `done`. Hosts wait for neither.
 *   events         `ready` and `done` of a slot put work in order and are recorded again every time round;
 *                  those of a transfer tell time and are read before it is used again.
 *
 * The caller waits for the thread (a batch to come, or a pause), never the other way round but for a free
 * slot, which the thread stops waiting for when it is told to pause or stop. The thread waits for the loader,
 * which stk_loader_cancel ends, and for copies that are already on the device: they end, or the device is
 * lost and the wait fails. So whatever the moment, pausing and stopping come to an end.
 *
 * One lock guards everything below `lock`; no device call that waits and no call of the loader is made under
 * it. Another, `order`, stands for the consumer's stream, which release() may use while next() waits in
 * another thread, and for the streams of others; nothing waits under it but for a call that failed. Nobody
 * holds both.
 */
#ifndef STOKE_SRC_UPLOAD_UPLOAD_INTERNAL_H
#define STOKE_SRC_UPLOAD_UPLOAD_INTERNAL_H

#include <pthread.h>
#include <stoke/tools/trace.h>
#include <stoke/tools/upload.h>

#include "src/device/device.h"
#include "src/loader/loader.h"
#include "src/upload/augmenter.h"
#include "src/upload/step_times.h"
#include "src/observe/observer.h"

/* Device slots: room for finished batches on the device, and for raw ones where it augments.
 *
 *      free ──► filling ──work is on the stream──► queued ──next()──► held ──release()──► free
 *
 * All changes of state happen under the upload's lock.
 */

typedef enum stk_ring_state {
    STK_RING_FREE,
    STK_RING_FILLING,
    STK_RING_QUEUED,
    STK_RING_HELD,
    STK_RING_GONE /* its memory was given up: the upload was stopped */
} stk_ring_state;

typedef struct stk_ring_slot {
    stoke_device_batch batch; /* first: a batch pointer is its slot's pointer */
    stk_ring_state state;
    stk_device_block images, masks, masks_b, raw;
    stk_device_event *ready, *done;
    void *
        lent[STOKE_LENT_MAX]; /* streams of others that use it, as they were given; under the upload's `order`
                               */
    uint32_t n_lent;
    uint64_t position;   /* where the loader stood after this batch */
    uint64_t transfer;   /* that brought it */
    uint64_t freed;      /* when, as a count */
    stk_loader_bad bad;  /* of this batch, and of those passed over before it */
    stk_loader_bad late; /* passed over at the end of the epoch before */
    uint64_t *ids;
    const char **names;
    uint8_t *status;
    float *lambda;         /* NULL without second masks */
    stk_device_block read; /* stoke_upload_read's copy on the host; made when it is first asked for */
} stk_ring_slot;

typedef struct stk_ring {
    stk_ring_slot *slot;
    uint32_t count, held;
    uint32_t *queue, head, queued; /* queued slots, oldest first */
    uint64_t frees;
} stk_ring;

/* Bytes of the blocks of a slot. */
uint64_t stk_ring_slot_bytes(const stoke_batch *shape, int two_masks, uint64_t raw_bytes);
/* `shape`: a finished batch. */
int stk_ring_create(stk_ring *ring, stoke_device *device, uint32_t count, const stoke_batch *shape,
                    int two_masks, uint64_t raw_bytes, stoke_error *err);
void stk_ring_destroy(stk_ring *ring);
/* Gives up the memory of a slot that nobody uses; what is known about it stays. Twice is fine. */
void stk_ring_empty(stk_ring_slot *slot);

/* The free slot that has been free for longest: its last reader has most likely ended. NULL: none. */
stk_ring_slot *stk_ring_free(const stk_ring *ring);
void stk_ring_give_back(stk_ring *ring, stk_ring_slot *slot);
void stk_ring_push(stk_ring *ring, stk_ring_slot *slot);
stk_ring_slot *stk_ring_head(const stk_ring *ring);
/* The head becomes the caller's. */
stk_ring_slot *stk_ring_take(stk_ring *ring);
/* Frees what is queued. */
void stk_ring_discard(stk_ring *ring);

/* Batches whose times are still to be read, and one that is being sent; see make_room in transfer.c. Each is
 * a turn of the augmenter. */
enum { STK_TRANSFERS = 3 };

/* A batch on its way to a device slot. */
typedef struct stk_upload_transfer {
    const stoke_batch *host; /* what is being copied; NULL when it has been given back */
    stk_device_event *copy_start, *copy_end, *kernel_start, *end;
    uint64_t bytes;
    int64_t number; /* of the batch */
    int kernels;    /* kernel_start was recorded */
} stk_upload_transfer;

/* Somebody else's stream, as ours: kept because a batch comes to the same one again and again. */
typedef struct stk_upload_foreign_stream {
    void *native;
    stk_device_stream *stream; /* NULL: none */
} stk_upload_foreign_stream;
/* PyTorch has 32 streams of a priority; more of them at work at once would be met again every time. */
enum { STK_FOREIGN_STREAMS = 32 };

struct stoke_upload {
    stoke_device *device;
    stoke_device_info info;
    int placement, transfer, reads;
    char why[768];
    stoke_upload_memory memory;
    stoke_loader *loader;
    const stk_loader_config *config;
    stoke_batch shape;                    /* of a finished batch */
    stk_tables_raw_layout raw;            /* of one that the device augments */
    int serial;                           /* the caller does the work of the loader too */
    stk_augmenter *augmenter;             /* NULL: the loader augments */
    stk_device_stream *consumer, *copies; /* the same one without STOKE_TRANSFER_STREAM */
    stk_upload_step_times steps;
    stk_device_block knock; /* the word of a kernel that does nothing; where the device augments */
    uint64_t batches;

    pthread_mutex_t order;
    stk_upload_foreign_stream foreign[STK_FOREIGN_STREAMS];
    uint32_t foreign_met;
    stk_device_event *passed; /* of a foreign stream, for the consumer's stream to wait for */

    pthread_t thread;
    int started;
    pthread_mutex_t lock;
    pthread_cond_t work;  /* for the thread: a slot is free, or it shall pause, go on or stop */
    pthread_cond_t ready; /* for the caller: a batch is queued, an end was met, or the thread pauses */
    int locks_made;
    int stopping, paused;
    int stopped; /* stoke_upload_stop was called */
    int idle;    /* the thread waits for `work` and touches nothing */
    int resting; /* the epoch it reached has no batches: nothing to do until it is told of another */
    stk_ring ring;
    stk_upload_transfer transfers[STK_TRANSFERS];
    uint64_t sent, copied, ended; /* transfers: put on the stream; host slot given back; times read */
    stk_loader_bad looked;        /* of the loader, when its batches were last looked at; the filler's */
    stk_loader_bad late;          /* passed over at the end of the epoch that was filled last */
    uint64_t reached, came;       /* by the thread: epoch, and how many batches of it */
    uint64_t epoch, position;     /* of the consumer: after the last batch handed out */
    stk_loader_bad bad;           /* of batches handed out; the caller's */
    stoke_error failure;          /* of filling; code 0: fine */
    stoke_error broken;           /* the same of the consumer's stream */
    stoke_error said;             /* for stoke_upload_error */
    stk_observer observer;
    stoke_loader_stats_data at_mark; /* the loader's */
    uint64_t host_wait_ns;           /* since the mark; the caller's */
};

/* ---- upload.c ---- */
int stk_upload_check_params(const stoke_upload_params *params, stoke_error *err);

/* ---- upload_memory.c ---- */
/* Fills the sizes of batches, and upload->memory, but for the loader's, for `slots` slots; STOKE_E_NOMEM with
 * the arithmetic. `host`, if not NULL: what the loader would hold beside it. Before the loader is made: one
 * memory_limit holds for both. */
int stk_upload_plan(stoke_upload *upload, const stoke_dataset *dataset, const stoke_data_params *data,
                    uint32_t slots, stoke_memory_plan *host, stoke_error *err);
/* What of it lies in the host's memory: tables, copies that are read, and where the device has none of its
 * own, all. */
stoke_memory_share stk_upload_beside(const stoke_upload *upload);
uint64_t stk_upload_raw_bytes(const stoke_upload *upload);

/* ---- transfer.c ---- */
int stk_transfers_create(stoke_upload *upload, stoke_error *err);
void stk_transfers_destroy(stoke_upload *upload);
/* From one event to another, both passed; never negative. */
int stk_upload_between(stk_device_event *start, stk_device_event *end, stk_busy_interval *interval,
                       stoke_error *err);
/* Takes the next batch of the loader, waiting for it until then, and puts all its work into a slot on
 * upload->copies. What the loader says is returned as it is, with its message. */
int stk_transfer_fill(stoke_upload *upload, stk_ring_slot *slot, uint64_t deadline_ns, stoke_error *err);
/* A filled slot becomes one that can be handed out. Lock held. */
void stk_transfer_queue(stoke_upload *upload, stk_ring_slot *slot);
/* What the loader has given so far will not be handed out. The one who fills, or nobody does meanwhile. */
void stk_transfer_forget(stoke_upload *upload);
/* Gives back the host slots whose copies have ended. Only the one who fills may call it. */
int stk_transfer_retire(stoke_upload *upload, stoke_error *err);
/* Reads the times of transfers that have ended. Lock held. */
int stk_transfers_read(stoke_upload *upload, stoke_error *err);

/* ---- stream_share.c ---- */
void stk_foreign_streams_destroy(stoke_upload *upload);
/* A call for the consumer's stream failed: nothing is handed out any more. */
void stk_upload_break(stoke_upload *upload, const stoke_error *error);
/* The slot is free, or, when the upload was stopped, its memory goes. */
void stk_upload_give_back(stoke_upload *upload, stk_ring_slot *slot);

/* ---- transfer.c: the thread ---- */
int stk_transfer_start(stoke_upload *upload, stoke_error *err);
void stk_transfer_stop(stoke_upload *upload);
/* Between the two calls the thread holds still, and loader and ring are the caller's. */
void stk_transfer_pause(stoke_upload *upload);
void stk_transfer_go_on(stoke_upload *upload);

/* ---- step_times.c; what others call is in step_times.h ---- */
int stk_step_times_create(stoke_upload *upload, stoke_error *err);
void stk_step_times_destroy(stoke_upload *upload);
/* Reads the times of steps that have ended. Lock held. */
int stk_steps_read(stoke_upload *upload, stoke_error *err);

/* ---- placement_probe.c ---- */
/* Measures on the first batches of an upload that augments on the device, before its thread starts, and says
 * in upload->why what is better; returns the placement, or a negative error. */
int stk_placement_choose(stoke_upload *upload, double step_ms, stoke_error *err);

#endif
