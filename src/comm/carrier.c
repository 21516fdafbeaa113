/* SPDX-License-Identifier: Apache-2.0 */
#include "src/comm/carrier.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/comm/plugin.h"

/* While something is on its way the thread asks again and again: at once for SPIN, as long as a short message
 * takes between hosts; then after a sleep of an eighth of the time it has waited. The bounds leave the core
 * to the workers and cost a long wait 200 us at most. */
enum { SPIN_NS = 30000, SLEEP_LEAST_NS = 20000, SLEEP_MOST_NS = 200000, SLEEP_SHARE = 8 };
/* An engine that is told something answers within a second, or hangs; an abort has five. */
#define ANSWER_NS UINT64_C(1000000000)
#define ABORT_NS  UINT64_C(5000000000)

struct stk_comm_ticket {
    stk_comm_ticket *next;    /* on its way behind this one, or free */
    stk_comm_ticket *older;   /* made before this one */
    stoke_comm_part *parts;   /* [2 * world] all of it: sent, received */
    stoke_comm_part *piece;   /* [2 * world] what the engine has */
    size_t bytes, done_bytes; /* of the largest part */
    void *way;                /* the engine's ticket */
    int arrived;              /* the thread's own */
    int done;
};

struct stk_carrier {
    const stoke_comm_engine *engine;
    char *plugin;
    void *self;
    stoke_comm_place place;
    size_t piece_bytes;
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows; the thread is in the engine without it */
    pthread_cond_t wake;  /* the thread: something to do */
    pthread_cond_t news;  /* the others: something is done */
    int open, ended, closing, abandoned;
    int busy; /* the thread is in the engine */
    int failed;
    stoke_error error;
    int asked;       /* for `missing` */
    uint8_t *answer; /* [world] */
    int aborting, status;
    stk_comm_ticket *first, *last; /* on their way, in their order; the thread alone takes away */
    stk_comm_ticket *unused, *newest;
};

/* ---- the thread ---- */

static int open_engine(stk_carrier *c, stoke_error *err)
{
    int r = STOKE_OK;
    if (!c->engine) r = stk_plugin_load(&c->engine, c->plugin, err);
    if (!r && !c->self) r = c->engine->open(&c->self, &c->place, err);
    if (r) return r;
    c->place.host[sizeof c->place.host - 1] = 0;
    c->place.library[sizeof c->place.library - 1] = 0;
    if (!c->place.world || c->place.world > STOKE_COMM_PEERS || c->place.rank >= c->place.world)
        return stk_fail(err, STOKE_E_STATE, "%s says that this is rank %u of %u, and %d is the most",
                        c->engine->name, c->place.rank, c->place.world, STOKE_COMM_PEERS);
    c->answer = stk_calloc(c->place.world, 1);
    return c->answer ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory for %u ranks", c->place.world);
}

/* The next piece of each part. */
static int begin_piece(stk_carrier *c, stk_comm_ticket *t, stoke_error *err)
{
    const uint32_t world = c->place.world;
    for (uint32_t i = 0; i < 2 * world; i++) {
        const stoke_comm_part all = t->parts[i];
        const size_t left = all.bytes > t->done_bytes ? all.bytes - t->done_bytes : 0;
        t->piece[i].data = left ? (uint8_t *)all.data + t->done_bytes : NULL;
        t->piece[i].bytes = stk_least(left, c->piece_bytes);
    }
    return c->engine->exchange(c->self, t->piece, t->piece + world, &t->way, err);
}

/* Once over all that is on its way. *moved 1: something began or arrived. A ticket begins when all pieces of
 * those before it have begun: between two ranks bytes come in the order they were sent. */
static int progress(stk_carrier *c, stk_comm_ticket *first, const stk_comm_ticket *last, int *moved,
                    stoke_error *err)
{
    for (stk_comm_ticket *t = first;; t = t->next) {
        int r = STOKE_OK, done = 0;
        if (!t->arrived && !t->way) {
            r = begin_piece(c, t, err);
            *moved = 1;
        }
        if (!r && t->way) r = c->engine->test(c->self, t->way, &done, err);
        if (r) return r;
        if (done) {
            t->way = NULL;
            t->done_bytes += stk_least(c->piece_bytes, t->bytes - t->done_bytes);
            t->arrived = t->done_bytes == t->bytes;
            *moved = 1;
        }
        if (t == last || (!t->arrived && t->bytes - t->done_bytes > c->piece_bytes)) return STOKE_OK;
        if (!t->arrived && !t->way) return STOKE_OK; /* its last piece has yet to begin */
    }
}

/* Lock held, and again on return; the engine is called without it. */
static void collect(stk_carrier *c)
{
    stk_comm_ticket **link = &c->first, *last = NULL;
    for (stk_comm_ticket *t = c->first; t; t = *link) {
        if (t->arrived) {
            *link = t->next;
            t->done = 1;
        } else {
            last = t;
            link = &t->next;
        }
    }
    c->last = last;
    pthread_cond_broadcast(&c->news);
}

static void answer(stk_carrier *c)
{
    stk_comm_ticket *t = c->first;
    if (t && t->way && !c->failed) {
        pthread_mutex_unlock(&c->lock);
        c->engine->missing(c->self, t->way, c->answer);
        pthread_mutex_lock(&c->lock);
    } else {
        memset(c->answer, 0, c->place.world);
    }
    c->asked = 0;
    pthread_cond_broadcast(&c->news);
}

static void obey_abort(stk_carrier *c)
{
    pthread_mutex_unlock(&c->lock);
    c->engine->abort(c->self, c->status);
    pthread_mutex_lock(&c->lock);
    c->aborting = 0;
    pthread_cond_broadcast(&c->news);
}

/* One round over the tickets, and the sleep after it. */
static void turn(stk_carrier *c, uint64_t *moved_ns)
{
    stk_comm_ticket *first = c->first, *last = c->last;
    stoke_error err;
    int moved = 0;
    err.message[0] = 0; /* an engine may say nothing */
    c->busy = 1;
    pthread_mutex_unlock(&c->lock);
    const int r = progress(c, first, last, &moved, &err);
    pthread_mutex_lock(&c->lock);
    c->busy = 0;
    if (r && !c->failed) {
        c->failed = r;
        c->error = err;
    }
    if (moved || c->failed) collect(c);
    const uint64_t now = stk_now_ns();
    if (moved) *moved_ns = now;
    const uint64_t waited = now - *moved_ns;
    if (waited < SPIN_NS || c->asked || c->aborting || c->closing || c->failed) return;
    const uint64_t nap = stk_most(SLEEP_LEAST_NS, stk_least(waited / SLEEP_SHARE, SLEEP_MOST_NS));
    stk_cond_wait(&c->wake, &c->lock, now + nap);
}

/* Until it is to be closed. */
static void carry(stk_carrier *c)
{
    uint64_t moved_ns = 0;
    while (1) {
        if (c->aborting) {
            obey_abort(c);
        } else if (c->asked && (!c->first || c->first->way || c->failed)) {
            answer(c);
        } else if (c->closing) {
            return;
        } else if (c->first && !c->failed) {
            turn(c, &moved_ns);
        } else {
            stk_cond_wait(&c->wake, &c->lock, STK_FOR_EVER);
        }
    }
}

static void destroy(stk_carrier *c)
{
    for (stk_comm_ticket *t = c->newest, *older; t; t = older) {
        older = t->older;
        stk_free(t);
    }
    pthread_cond_destroy(&c->wake);
    pthread_cond_destroy(&c->news);
    pthread_mutex_destroy(&c->lock);
    stk_free(c->plugin);
    stk_free(c->answer);
    stk_free(c);
}

static void *thread_main(void *argument)
{
    stk_carrier *c = argument;
    stoke_error err;
    err.message[0] = 0;
    prctl(PR_SET_NAME, "stoke-comm");
    prctl(PR_SET_TIMERSLACK, 5000UL); /* ns; the usual 50 us would double the short sleeps */
    const int r = open_engine(c, &err);
    pthread_mutex_lock(&c->lock);
    if (r) {
        c->failed = r;
        c->error = err;
    } else {
        c->open = 1;
        pthread_cond_broadcast(&c->news);
        carry(c);
    }
    pthread_mutex_unlock(&c->lock);
    if (c->self) c->engine->close(&c->self);
    pthread_mutex_lock(&c->lock);
    c->ended = 1;
    const int abandoned = c->abandoned;
    pthread_cond_broadcast(&c->news);
    pthread_mutex_unlock(&c->lock);
    if (abandoned) destroy(c);
    return NULL;
}

/* ---- the others ---- */

static int start_thread(stk_carrier *c, stoke_error *err)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are for the threads that expect them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int number = pthread_create(&c->thread, NULL, thread_main, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return number ? stk_fail_errno(err, STOKE_E_RESOURCES, number, "cannot start a thread") : STOKE_OK;
}

int stk_carrier_create(stk_carrier **out, const stk_carrier_source *source, stoke_error *err)
{
    *out = NULL;
    stk_carrier *c = stk_calloc(1, sizeof *c);
    if (!c) return stk_fail(err, STOKE_E_NOMEM, "no memory to talk to other processes");
    pthread_mutex_init(&c->lock, NULL);
    stk_cond_init(&c->wake);
    stk_cond_init(&c->news);
    c->engine = source->engine;
    c->self = source->self;
    c->place = source->place;
    c->piece_bytes = source->piece_bytes ? source->piece_bytes : (size_t)1 << 30;
    c->plugin = source->plugin ? stk_strdup(source->plugin) : NULL;
    const int r = source->plugin && !c->plugin
                      ? stk_fail(err, STOKE_E_NOMEM, "no memory to talk to other processes")
                      : start_thread(c, err);
    if (r)
        destroy(c);
    else
        *out = c;
    return r;
}

int stk_carrier_opened(stk_carrier *c, uint64_t deadline_ns, stoke_error *err)
{
    pthread_mutex_lock(&c->lock);
    while (!c->open && !c->failed && stk_now_ns() < deadline_ns)
        stk_cond_wait(&c->news, &c->lock, deadline_ns);
    const int r = c->failed ? stk_fail_again(err, c->failed, c->error.message)
                  : c->open ? STOKE_OK
                            : STK_CARRIER_NOT_YET;
    pthread_mutex_unlock(&c->lock);
    return r;
}

const stoke_comm_place *stk_carrier_place(const stk_carrier *c)
{
    return &c->place;
}

/* One that was used before, or a new one. Lock held. */
static stk_comm_ticket *ticket_for(stk_carrier *c)
{
    stk_comm_ticket *t = c->unused;
    const size_t parts = 2 * (size_t)c->place.world;
    if (t) {
        c->unused = t->next;
    } else {
        t = stk_calloc(1, sizeof *t + 2 * parts * sizeof *t->parts);
        if (!t) return NULL;
        t->parts = (stoke_comm_part *)(t + 1);
        t->piece = t->parts + parts;
        t->older = c->newest;
        c->newest = t;
    }
    t->next = NULL;
    t->way = NULL;
    t->bytes = t->done_bytes = 0;
    t->arrived = t->done = 0;
    return t;
}

static void fill(stk_comm_ticket *t, uint32_t world, const stoke_comm_part *send, const stoke_comm_part *recv,
                 const uint32_t *rank_of, uint32_t own)
{
    for (uint32_t i = 0; i < world; i++) {
        const uint32_t q = rank_of ? rank_of[i] : i;
        t->parts[q] = send[i];
        t->parts[world + q] = recv[i];
        if (q == own) t->parts[q].bytes = t->parts[world + q].bytes = 0;
        t->bytes = stk_most(t->bytes, stk_most(t->parts[q].bytes, t->parts[world + q].bytes));
    }
}

int stk_carrier_post(stk_carrier *c, const stoke_comm_part *send, const stoke_comm_part *recv,
                     const uint32_t *rank_of, stk_comm_ticket **ticket, stoke_error *err)
{
    int r = STOKE_OK;
    pthread_mutex_lock(&c->lock);
    stk_comm_ticket *t = c->failed ? NULL : ticket_for(c);
    if (c->failed)
        r = stk_fail_again(err, c->failed, c->error.message);
    else if (!t)
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for an exchange of %u ranks", c->place.world);
    if (t) {
        fill(t, c->place.world, send, recv, rank_of, c->place.rank);
        t->done = !t->bytes; /* nothing to send or to receive */
    }
    if (t && !t->done) {
        if (c->last)
            c->last->next = t;
        else
            c->first = t;
        c->last = t;
        pthread_cond_signal(&c->wake);
    }
    pthread_mutex_unlock(&c->lock);
    *ticket = t;
    return r;
}

int stk_carrier_wait(stk_carrier *c, stk_comm_ticket *t, uint64_t deadline_ns, stoke_error *err)
{
    pthread_mutex_lock(&c->lock);
    while (!t->done && !c->failed && stk_now_ns() < deadline_ns)
        stk_cond_wait(&c->news, &c->lock, deadline_ns);
    int r = STK_CARRIER_NOT_YET;
    if (t->done) {
        r = STOKE_OK;
        t->next = c->unused;
        c->unused = t;
    } else if (c->failed) {
        r = stk_fail_again(err, c->failed, c->error.message);
    }
    pthread_mutex_unlock(&c->lock);
    return r;
}

int stk_carrier_missing(stk_carrier *c, uint8_t *ranks)
{
    const uint64_t deadline = stk_now_ns() + ANSWER_NS;
    pthread_mutex_lock(&c->lock);
    c->asked = 1;
    pthread_cond_signal(&c->wake);
    while (c->asked && stk_now_ns() < deadline) stk_cond_wait(&c->news, &c->lock, deadline);
    const int answered = !c->asked;
    if (answered) memcpy(ranks, c->answer, c->place.world);
    c->asked = 0;
    pthread_mutex_unlock(&c->lock);
    return answered;
}

void stk_carrier_stop(stk_carrier *c, const stoke_error *why)
{
    const uint64_t deadline = stk_now_ns() + ANSWER_NS;
    pthread_mutex_lock(&c->lock);
    if (!c->failed) {
        c->failed = why->code;
        c->error = *why;
    }
    while (c->busy && stk_now_ns() < deadline) stk_cond_wait(&c->news, &c->lock, deadline);
    pthread_mutex_unlock(&c->lock);
}

void stk_carrier_close(stk_carrier **carrier, uint64_t deadline_ns)
{
    stk_carrier *c = *carrier;
    *carrier = NULL;
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->closing = 1;
    pthread_cond_signal(&c->wake);
    while (!c->ended && stk_now_ns() < deadline_ns) stk_cond_wait(&c->news, &c->lock, deadline_ns);
    const int ended = c->ended;
    c->abandoned = !ended;
    const pthread_t thread = c->thread;
    pthread_mutex_unlock(&c->lock);
    if (ended) {
        pthread_join(thread, NULL);
        destroy(c);
    } else {
        pthread_detach(thread);
    }
}

void stk_carrier_abort(stk_carrier *c, int status)
{
    const uint64_t deadline = stk_now_ns() + ABORT_NS;
    pthread_mutex_lock(&c->lock);
    c->aborting = c->open;
    c->status = status;
    pthread_cond_signal(&c->wake);
    while (c->aborting && stk_now_ns() < deadline) stk_cond_wait(&c->news, &c->lock, deadline);
    pthread_mutex_unlock(&c->lock);
}
