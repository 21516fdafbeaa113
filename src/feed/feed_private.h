/* SPDX-License-Identifier: Apache-2.0
 *
 * The feed's inside, shared by its files:
 *
 *   feed.c            create, stop, destroy, next, epochs, state
 *   lend.c            batches in other hands: streams and threads of the caller's, release
 *   feed_memory.c     what it takes, before it is taken
 *   ring.c            device slots
 *   transfer.c        a batch on its way: copies, kernels, events
 *   transfer_thread.c the thread that sends batches ahead
 *   step.c            training steps that are none
 *   place.c           who augments
 *   feed_stats.c      times by events (book.c); feed_trace.c: the same as spans; feed_record.c: and as a
 *                     diary of steps (diary.c)
 *
 * Who waits for whom. With STOKE_TRANSFER_STREAM batches are taken from the loader by a thread of the feed
 * and sent on a stream of their own; otherwise the caller does both in next(), on the consumer's stream.
 *
 *   a host slot    belongs to its trip until copy_end has passed on the device, then goes back to the loader
 *   a device slot  is free, being filled, queued or held. It is queued as soon as all its work is on the
 *                  stream, long before that is done: the consumer's stream waits for `ready`, and the stream
 *                  that fills it again for `done`. Hosts wait for neither.
 *   events         `ready` and `done` of a slot put work in order and are recorded again every time round;
 *                  those of a trip tell time and are read before the trip is used again.
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
#ifndef STOKE_SRC_FEED_FEED_PRIVATE_H
#define STOKE_SRC_FEED_FEED_PRIVATE_H

#include <pthread.h>
#include <stoke/feed.h>

#include "src/feed/augmenter.h"
#include "src/feed/book.h"
#include "src/feed/diary.h"
#include "src/feed/lanes.h"
#include "src/feed/ring.h"

/* Batches whose times are still to be read, and one that is being sent; see make_room in transfer.c. Each is
 * a turn of the augmenter. */
enum { STK_TRIPS = 3 };

/* A batch on its way to a device slot. */
typedef struct stk_trip {
    const stoke_batch *host; /* what is being copied; NULL when it has been given back */
    stk_event *copy_start, *copy_end, *kernel_start, *end;
    uint64_t bytes;
    int64_t number; /* of the batch */
    int kernels;    /* kernel_start was recorded */
} stk_trip;

/* Steps that the consumer's stream has been given; more of them at once make the caller wait. */
enum { STK_STEPS = 64 };
/* No batch was handed out yet. */
#define STK_NO_TRIP UINT64_MAX

typedef struct stk_step {
    stk_event *start, *end;
    uint64_t occupied_ns; /* exactly, on paper; 0 = what the events say */
    int64_t number;
    uint64_t trip; /* of its batch */
} stk_step;

typedef struct stk_stepper {
    stk_step step[STK_STEPS];
    uint64_t given, read;
    int64_t number;           /* of the batch that was handed out last */
    uint64_t trip;            /* that brought it */
    stk_module *module, *own; /* own: made here because there is no augmenter */
    stk_block words, word;    /* of steps, and of the knock on another stream */
    uint32_t items;
    double turns_per_ns; /* of the loop in the kernel; 0 = not measured yet */
} stk_stepper;

/* Somebody else's stream, as ours: kept because a batch comes to the same one again and again. */
typedef struct stk_guest {
    void *native;
    stk_stream *stream; /* NULL: none */
} stk_guest;
/* PyTorch has 32 streams of a priority; more of them at work at once would be met anew every time. */
enum { STK_GUESTS = 32 };

struct stoke_feed {
    stoke_device *device;
    stoke_device_info info;
    int placement, transfer, reads;
    char why[768];
    stoke_feed_memory memory;
    stoke_loader *loader;
    const stk_recipe *recipe;
    stoke_batch shape;                             /* of a finished batch */
    size_t raw_image_row, raw_mask_row, raw_masks; /* of a raw one: pitches, and where its ids begin */
    int serial;                                    /* the caller does the work of the loader too */
    stk_augmenter *augmenter;                      /* NULL: the loader augments */
    stk_stream *consumer, *copies;                 /* the same one without STOKE_TRANSFER_STREAM */
    stk_stepper steps;
    uint64_t batches;

    pthread_mutex_t order;
    stk_guest guest[STK_GUESTS];
    uint32_t guests_met;
    stk_event *passed; /* of a guest, for the consumer's stream to wait for */

    pthread_t thread;
    int started;
    pthread_mutex_t lock;
    pthread_cond_t work;  /* for the thread: a slot is free, or it shall pause, go on or stop */
    pthread_cond_t ready; /* for the caller: a batch is queued, an end was met, or the thread pauses */
    int locks_made;
    int stopping, paused;
    int stopped; /* stoke_feed_stop was called */
    int idle;    /* the thread waits for `work` and touches nothing */
    int resting; /* the epoch it reached has no batches: nothing to do until it is told of another */
    stk_ring ring;
    stk_trip trip[STK_TRIPS];
    uint64_t sent, copied, ended; /* trips: put on the stream; host slot given back; times read */
    stk_bad_rows looked;          /* of the loader, when its batches were last looked at; the filler's */
    stk_bad_rows late;            /* passed over at the end of the epoch that was filled last */
    uint64_t reached, came;       /* by the thread: epoch, and how many batches of it */
    uint64_t epoch, position;     /* of the consumer: after the last batch handed out */
    stk_bad_rows bad;             /* of batches handed out; the caller's */
    stoke_error failure;          /* of filling; code 0: fine */
    stoke_error broken;           /* the same of the consumer's stream */
    stoke_error said;             /* for stoke_feed_error */
    stk_book book;
    stk_diary diary;
    stoke_loader_stats_data at_mark; /* the loader's */
    uint64_t host_wait_ns;           /* since the mark; the caller's */
    stk_feed_lanes *lanes;           /* NULL: nobody asked for a trace yet */
};

/* ---- feed.c ---- */
int stk_feed_check_params(const stoke_feed_params *params, stoke_error *err);

/* ---- feed_memory.c ---- */
/* Fills the sizes of batches, and feed->memory, but for the loader's, for `slots` slots; STOKE_E_NOMEM with
 * the arithmetic. `host`, if not NULL: what the loader would hold beside it. Before the loader is made: one
 * memory_limit holds for both. */
int stk_feed_plan(stoke_feed *feed, const stoke_dataset *dataset, const stoke_data_params *data,
                  uint32_t slots, stoke_memory_plan *host, stoke_error *err);
/* What of it lies in the host's memory: tables, copies that are read, and where the device has none of its
 * own, all. */
stoke_memory_share stk_feed_beside(const stoke_feed *feed);
uint64_t stk_feed_raw_bytes(const stoke_feed *feed);

/* ---- transfer.c ---- */
int stk_trips_create(stoke_feed *feed, stoke_error *err);
void stk_trips_destroy(stoke_feed *feed);
/* From one event to another, both passed; never negative. */
int stk_feed_between(stk_event *start, stk_event *end, stk_interval *interval, stoke_error *err);
/* Takes the next batch of the loader, waiting for it until then, and puts all its work into a slot on
 * feed->copies. What the loader says is returned as it is, with its message. */
int stk_transfer_fill(stoke_feed *feed, stk_device_slot *slot, uint64_t deadline_ns, stoke_error *err);
/* A filled slot becomes one that can be handed out. Lock held. */
void stk_transfer_queue(stoke_feed *feed, stk_device_slot *slot);
/* What the loader has given so far will not be handed out. The one who fills, or nobody does meanwhile. */
void stk_transfer_forget(stoke_feed *feed);
/* Gives back the host slots whose copies have ended. Only the one who fills may call it. */
int stk_transfer_retire(stoke_feed *feed, stoke_error *err);
/* The same, after waiting for the oldest of them. Returns 1 in *any when there was one. */
int stk_transfer_wait(stoke_feed *feed, int *any, stoke_error *err);
/* Reads the times of trips that have ended. Lock held. */
int stk_trips_read(stoke_feed *feed, stoke_error *err);

/* ---- lend.c ---- */
int stk_guests_create(stoke_feed *feed, stoke_error *err);
void stk_guests_destroy(stoke_feed *feed);
/* A call for the consumer's stream failed: nothing is handed out any more. */
void stk_feed_break(stoke_feed *feed, const stoke_error *error);
/* The slot is free, or, when the feed was stopped, its memory goes. */
void stk_feed_give_back(stoke_feed *feed, stk_device_slot *slot);

/* ---- transfer_thread.c ---- */
int stk_transfer_start(stoke_feed *feed, stoke_error *err);
void stk_transfer_stop(stoke_feed *feed);
/* Between the two calls the thread holds still, and loader and ring are the caller's. */
void stk_transfer_pause(stoke_feed *feed);
void stk_transfer_go_on(stoke_feed *feed);

/* ---- step.c ---- */
int stk_stepper_create(stoke_feed *feed, stoke_error *err);
void stk_stepper_destroy(stoke_feed *feed);
/* Launches a kernel that does nothing: when it has passed, the device is at work on this stream. */
int stk_stepper_knock(stoke_feed *feed, stk_stream *stream, stoke_error *err);
/* Reads the times of steps that have ended. Lock held. */
int stk_steps_read(stoke_feed *feed, stoke_error *err);

/* ---- place.c ---- */
/* Measures on the first batches of a feed that augments on the device, before its thread starts, and says in
 * feed->why what is better; returns the placement, or a negative error. */
int stk_place_choose(stoke_feed *feed, double step_ms, stoke_error *err);

/* ---- feed_trace.c ---- */
/* From start_ns until now in the caller's lane. */
void stk_feed_span(const stoke_feed *feed, const char *what, uint64_t start_ns, int64_t number);

#endif
