/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/batch_times.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <stoke/tools/loader.h>

#include "src/base/retry.h"

/* ---- sums ---- */

const char *stoke_work_name(int work)
{
    static const char *const names[STOKE_WORK_KINDS] = { "read", "decode", "fit", "augment", "collate" };
    return work >= 0 && work < STOKE_WORK_KINDS ? names[work] : "unknown";
}

/* A stage that ran for no longer than it lasted. */
static stoke_work_time took(uint64_t wall_ns, uint64_t cpu_ns)
{
    return (stoke_work_time){ .wall_ns = wall_ns, .cpu_ns = cpu_ns < wall_ns ? cpu_ns : wall_ns };
}

static uint64_t stood(const stoke_work_time *time)
{
    return time->wall_ns - time->cpu_ns;
}

static void add(stoke_work_time *sum, const stoke_work_time *time)
{
    sum->wall_ns += time->wall_ns;
    sum->cpu_ns += time->cpu_ns;
    sum->queued_ns += time->queued_ns;
}

void stk_batch_times_row(stk_batch_times *made, const stoke_stage_time *times, uint64_t queued_ns)
{
    static const stoke_work stage_of[] = { [STOKE_STAGE_READ] = STOKE_WORK_READ,
                                           [STOKE_STAGE_DECODE_IMAGE] = STOKE_WORK_DECODE,
                                           [STOKE_STAGE_DECODE_MASK] = STOKE_WORK_DECODE,
                                           [STOKE_STAGE_FIT] = STOKE_WORK_FIT,
                                           [STOKE_STAGE_WRITE] = STOKE_WORK_AUGMENT };
    stoke_work_time row[STOKE_STAGE_WRITE + 1];
    uint64_t all = 0;
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) {
        row[i] = took(times[i].wall_ns, times[i].cpu_ns);
        all += stood(&row[i]);
    }
    const double share = queued_ns < all ? (double)queued_ns / (double)all : 1;
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++) {
        if (queued_ns) row[i].queued_ns = (uint64_t)(share * (double)stood(&row[i]));
        add(&made->time[stage_of[i]], &row[i]);
    }
}

void stk_batch_times_whole(stk_batch_times *made, uint64_t wall_ns, uint64_t cpu_ns, uint64_t queued_ns)
{
    stoke_work_time time = took(wall_ns, cpu_ns);
    time.queued_ns = queued_ns < stood(&time) ? queued_ns : stood(&time);
    add(&made->time[STOKE_WORK_AUGMENT], &time);
}

/* ---- the run queue ---- */

/* "ran waited slices", in ns, since the thread was made. A caller that comes in another thread than before
 * (workers: 0) is noticed: the descriptor belongs to the thread that opened it. */
static uint64_t waited(stk_batch_run_queue *queue)
{
    if (queue->is_open && !pthread_equal(queue->owner, pthread_self())) stk_run_queue_close(queue);
    if (!queue->is_open) {
        queue->file = stk_open("/proc/thread-self/schedstat", O_RDONLY, 0);
        queue->owner = pthread_self();
        queue->is_open = 1;
    }
    char text[96];
    const ssize_t n = queue->file < 0 ? -1 : pread(queue->file, text, sizeof text - 1, 0);
    if (n <= 0) return queue->total_ns;
    text[n] = 0;
    char *end;
    strtoull(text, &end, 10);
    return strtoull(end, NULL, 10);
}

void stk_run_queue_begin(stk_batch_run_queue *queue)
{
    if (queue->begun) return;
    queue->total_ns = waited(queue);
    queue->begun = 1;
}

uint64_t stk_run_queue_since(stk_batch_run_queue *queue)
{
    const uint64_t before = queue->total_ns, now = waited(queue);
    queue->total_ns = now;
    return now > before ? now - before : 0;
}

void stk_run_queue_leave(stk_batch_run_queue *queue)
{
    queue->begun = 0;
}

void stk_run_queue_close(stk_batch_run_queue *queue)
{
    if (queue->is_open && queue->file >= 0) close(queue->file);
    *queue = (stk_batch_run_queue){ 0 };
}
