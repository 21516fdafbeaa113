/* SPDX-License-Identifier: Apache-2.0 */
#include "src/device/sim.h"

#include "src/base/mem.h"

/* What is so, and a second walk over the same queues that goes on to their end. */
enum { REAL, EXPECTED, VIEWS };
enum { MARK = -1, WAIT = -2 };
static const uint64_t unknown = UINT64_MAX;

struct stk_sim_moment {
    uint64_t time[VIEWS]; /* unknown: its queue has not come to it */
    uint32_t holders;
    stk_sim_moment *next_spare;
};

struct stk_sim_task {
    stk_sim_task *next;
    int what; /* an engine, MARK or WAIT */
    stk_sim_task_kind kind;
    uint64_t duration, submitted_at, number;
    stk_sim_moment *moment;
};

struct stk_sim_queue {
    struct {
        stk_sim_task *head;
        uint64_t ready;                    /* the work before the head has ended */
        uint64_t together_at, ready_since; /* a kernel at this moment goes with those before it, which were
                                              ready since then */
    } at[VIEWS];
    stk_sim_task *last;
    stk_sim_queue *next;
};

/* Never `unknown`, also for absurd durations. */
static uint64_t after(uint64_t time, uint64_t duration)
{
    return duration >= unknown - time ? unknown - 1 : time + duration;
}

/* ---- tasks and moments ---- */

static stk_sim_task *take_task(stk_sim_timeline *t, int what, uint64_t now)
{
    stk_sim_task *task = t->spare_tasks;
    if (task)
        t->spare_tasks = task->next;
    else
        task = stk_alloc(sizeof *task);
    if (task) *task = (stk_sim_task){ .what = what, .submitted_at = now, .number = t->submitted++ };
    return task;
}

stk_sim_moment *stk_moment_hold(stk_sim_moment *moment)
{
    moment->holders++;
    return moment;
}

void stk_moment_drop(stk_sim_timeline *t, stk_sim_moment *moment)
{
    if (!moment || --moment->holders) return;
    moment->next_spare = t->spare_moments;
    t->spare_moments = moment;
}

void stk_timeline_free(stk_sim_timeline *t)
{
    for (stk_sim_task *next, *task = t->spare_tasks; task; task = next) {
        next = task->next;
        stk_free(task);
    }
    for (stk_sim_moment *next, *moment = t->spare_moments; moment; moment = next) {
        next = moment->next_spare;
        stk_free(moment);
    }
    *t = (stk_sim_timeline){ 0 };
}

/* ---- deciding ---- */

/* Past the head; for good in the real view. */
static void pop(stk_sim_timeline *t, stk_sim_queue *queue, int view)
{
    stk_sim_task *task = queue->at[view].head;
    queue->at[view].head = task->next;
    if (view != REAL) return;
    if (!task->next) queue->last = NULL;
    stk_moment_drop(t, task->moment);
    task->next = t->spare_tasks;
    t->spare_tasks = task;
}

/* Past marks, and past waits whose moment is known. Returns whether it moved. */
static int pass(stk_sim_timeline *t, stk_sim_queue *queue, int view)
{
    int moved = 0;
    for (const stk_sim_task *task; (task = queue->at[view].head) && task->what < 0; moved = 1) {
        stk_sim_moment *moment = task->moment;
        if (task->what == MARK) {
            moment->time[view] = stk_most(queue->at[view].ready, task->submitted_at);
            if (view == REAL) moment->time[EXPECTED] = moment->time[REAL];
        } else if (moment->time[view] == unknown) {
            break;
        } else {
            queue->at[view].ready = stk_most(queue->at[view].ready, moment->time[view]);
        }
        pop(t, queue, view);
    }
    return moved;
}

static void pass_all(stk_sim_timeline *t, int view)
{
    int moved;
    do {
        moved = 0;
        for (stk_sim_queue *q = t->queues; q; q = q->next) moved |= pass(t, q, view);
    } while (moved);
}

typedef struct turn {
    stk_sim_queue *queue; /* NULL: all are empty */
    uint64_t begin, since;
} turn;

/* Whose head begins next. Of two that wait for one engine that which has been ready for longer goes first,
 * then that which was asked for first. */
static turn next_turn(const stk_sim_timeline *t, int view)
{
    turn best = { 0 };
    for (stk_sim_queue *q = t->queues; q; q = q->next) {
        const stk_sim_task *task = q->at[view].head;
        if (!task || task->what < 0) continue;
        const uint64_t ready = stk_most(q->at[view].ready, task->submitted_at); /* whatever the engine does */
        const int together = task->kind == STK_TASK_KERNEL && ready == q->at[view].together_at;
        const turn one = { .queue = q,
                           .begin = stk_most(ready, t->free_at[view][task->what]),
                           .since = together ? q->at[view].ready_since : ready };
        if (best.queue) {
            const uint64_t number = best.queue->at[view].head->number;
            if (one.begin != best.begin   ? one.begin > best.begin
                : one.since != best.since ? one.since > best.since
                                          : task->number > number)
                continue;
        }
        best = one;
    }
    return best;
}

/* Earliest start first. That is final: what comes up later in a queue is ready no earlier than the work
 * before it began, and that began no earlier than this. */
static void decide(stk_sim_timeline *t, int view, uint64_t until)
{
    for (;;) {
        pass_all(t, view);
        const turn next = next_turn(t, view);
        stk_sim_queue *q = next.queue;
        if (!q || next.begin > until) return;
        const stk_sim_task *task = q->at[view].head;
        const uint64_t end = after(next.begin, task->duration);
        if (view == REAL) t->busy[task->what] += task->duration;
        t->free_at[view][task->what] = q->at[view].ready = end;
        q->at[view].together_at = task->kind == STK_TASK_KERNEL ? end : unknown;
        q->at[view].ready_since = next.since;
        pop(t, q, view);
    }
}

void stk_timeline_advance(stk_sim_timeline *t, uint64_t now)
{
    decide(t, REAL, now);
}

uint64_t stk_moment_expected(stk_sim_timeline *t, const stk_sim_moment *moment)
{
    if (moment->time[REAL] != unknown) return moment->time[REAL];
    for (int e = 0; e < STK_ENGINES; e++) t->free_at[EXPECTED][e] = t->free_at[REAL][e];
    for (stk_sim_queue *q = t->queues; q; q = q->next) {
        q->at[EXPECTED] = q->at[REAL];
        for (stk_sim_task *task = q->at[REAL].head; task; task = task->next)
            if (task->what == MARK) task->moment->time[EXPECTED] = unknown;
    }
    decide(t, EXPECTED, unknown);
    return moment->time[EXPECTED];
}

/* ---- queues ---- */

stk_sim_queue *stk_queue_create(stk_sim_timeline *t)
{
    stk_sim_queue *queue = stk_calloc(1, sizeof *queue);
    if (!queue) return NULL;
    queue->at[REAL].together_at = unknown;
    queue->next = t->queues;
    t->queues = queue;
    return queue;
}

void stk_queue_destroy(stk_sim_timeline *t, stk_sim_queue *queue, uint64_t now)
{
    stk_sim_queue **link = &t->queues;
    while (*link != queue) link = &(*link)->next;
    *link = queue->next;
    while (queue->at[REAL].head) {
        stk_sim_moment *moment = queue->at[REAL].head->what == MARK ? queue->at[REAL].head->moment : NULL;
        if (moment) moment->time[REAL] = moment->time[EXPECTED] = stk_most(now, queue->at[REAL].ready);
        pop(t, queue, REAL);
    }
    stk_free(queue);
}

/* What began before `now` cannot be changed by what comes now: it is decided first. */
static void append(stk_sim_timeline *t, stk_sim_queue *queue, stk_sim_task *task)
{
    stk_timeline_advance(t, task->submitted_at);
    if (queue->last)
        queue->last->next = task;
    else
        queue->at[REAL].head = task;
    queue->last = task;
    stk_timeline_advance(t, task->submitted_at);
}

int stk_queue_work(stk_sim_timeline *t, stk_sim_queue *queue, stk_sim_engine engine, stk_sim_task_kind kind,
                   uint64_t duration, uint64_t now)
{
    stk_sim_task *task = take_task(t, (int)engine, now);
    if (!task) return 0;
    task->kind = kind;
    task->duration = duration;
    append(t, queue, task);
    return 1;
}

int stk_queue_wait(stk_sim_timeline *t, stk_sim_queue *queue, stk_sim_moment *moment, uint64_t now)
{
    stk_sim_task *task = take_task(t, WAIT, now);
    if (!task) return 0;
    task->moment = stk_moment_hold(moment);
    append(t, queue, task);
    return 1;
}

int stk_queue_mark(stk_sim_timeline *t, stk_sim_queue *queue, stk_sim_moment **moment, uint64_t now)
{
    stk_sim_moment *fresh = t->spare_moments;
    if (fresh)
        t->spare_moments = fresh->next_spare;
    else
        fresh = stk_alloc(sizeof *fresh);
    if (fresh) *fresh = (stk_sim_moment){ .time = { unknown, unknown }, .holders = 1 };
    stk_sim_task *task = fresh ? take_task(t, MARK, now) : NULL;
    if (!task) {
        stk_moment_drop(t, fresh);
        return 0;
    }
    stk_moment_drop(t, *moment);
    *moment = fresh;
    task->moment = stk_moment_hold(fresh);
    append(t, queue, task);
    return 1;
}
