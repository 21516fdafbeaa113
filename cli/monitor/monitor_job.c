/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/monitor/monitor.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/lib/common.h"

/* Lately: long enough for several steps of most jobs, short enough to see a change. */
static const double LATELY_SECONDS = 5;
/* More waiting than that is worth a command. */
static const double WAIT_MUCH = 0.1;
/* Of fewer the first, which waits for everything to start, is too much. */
enum { FEW_BATCHES = 20 };
/* Longer than a step takes, and worth saying. */
static const double SILENT_SECONDS = 10;
/* A device that is busy for less of the time waits. */
static const double DEVICE_FED = 0.9;

/* ---- looking ---- */

/* The folder of RUN/live, where that is a run: it has a config.yaml. */
static void find_run(monitor_job *job, const char *path)
{
    char config[sizeof job->run + 16];
    struct stat st;
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= sizeof job->run) return; /* no command would fit it in */
    if (stoke_stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        snprintf(job->run, sizeof job->run, "%s", path);
    else
        snprintf(job->run, sizeof job->run, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    snprintf(config, sizeof config, "%s/config.yaml", job->run);
    if (!stoke_there(config)) *job->run = 0;
}

int monitor_job_open(monitor_job *job, const char *path, stoke_error *err)
{
    *job = (monitor_job){ 0 };
    int r = stoke_live_reader_open(&job->reader, path, err);
    if (!r) r = stoke_live_reader_read(job->reader, &job->now, &job->alive, err);
    if (r) {
        stoke_live_reader_close(&job->reader);
        return r;
    }
    job->first = job->look[0] = job->now;
    job->looks = 1;
    job->path = path;
    find_run(job, path);
    monitor_ranks_look_at(&job->ranks, path, job->now.pid);
    return STOKE_OK;
}

void monitor_job_close(monitor_job *job)
{
    stoke_live_reader_close(&job->reader);
    monitor_ranks_close(&job->ranks);
}

static int is_over(const monitor_job *job)
{
    return job->now.phase == STOKE_LIVE_ENDED || job->alive == 0;
}

int monitor_job_look(monitor_job *job)
{
    stoke_error err = { 0 };
    stoke_live_data data;
    int alive;
    if (is_over(job)) return 0;
    if (stoke_live_reader_read(job->reader, &data, &alive, &err)) {
        /* Somebody may have cut the file short: the job's next write mends it. */
        snprintf(job->problem, sizeof job->problem, "%.500s", err.message);
        return 1;
    }
    *job->problem = 0;
    monitor_ranks_look_at(&job->ranks, job->path, data.pid);
    if (data.now_ns != job->now.now_ns) job->look[job->looks++ % MONITOR_JOB_LOOKS] = data;
    job->now = data;
    job->alive = alive;
    return !is_over(job);
}

void monitor_job_lately(const monitor_job *job, stoke_live_rates *rates)
{
    const uint64_t held = job->looks < MONITOR_JOB_LOOKS ? job->looks : MONITOR_JOB_LOOKS;
    const stoke_live_data *before = &job->now;
    for (uint64_t i = 1; i < held; i++) {
        const stoke_live_data *look = &job->look[(job->looks - 1 - i) % MONITOR_JOB_LOOKS];
        if (i > 1 && (double)(job->now.now_ns - look->now_ns) > LATELY_SECONDS * 1e9) break;
        before = look;
    }
    stoke_live_between(before, &job->now, rates);
}

const char *monitor_job_watched(const monitor_job *job, stoke_live_rates *rates)
{
    const int moved = job->now.batches != job->first.batches || job->now.step != job->first.step;
    stoke_live_between(moved ? &job->first : NULL, &job->now, rates);
    return moved ? "while it was watched" : "since it began";
}

void monitor_job_second(monitor_job *job)
{
    stoke_live_rates rates;
    monitor_job_lately(job, &rates);
    job->wait[job->seconds++ % MONITOR_JOB_SECONDS] = isnan(rates.data_wait) ? -1 : (float)rates.data_wait;
}

stoke_figure monitor_job_wait(const void *opaque, size_t back)
{
    const monitor_job *job = opaque;
    if (back >= job->seconds || back >= MONITOR_JOB_SECONDS) return (stoke_figure){ 0 };
    const float share = job->wait[(job->seconds - 1 - back) % MONITOR_JOB_SECONDS];
    return monitor_job_figure(share < 0 ? NAN : (double)share * 100);
}

/* ---- words ---- */

stoke_figure monitor_job_figure(double value)
{
    return isnan(value) ? (stoke_figure){ 0 } : (stoke_figure){ value, STOKE_SOURCE_MEASURED };
}

stoke_figure monitor_job_count(uint64_t count)
{
    return monitor_job_figure(count == STOKE_LIVE_NA ? NAN : (double)count);
}

const char *monitor_job_state(const monitor_job *job)
{
    if (job->now.phase == STOKE_LIVE_ENDED) return "ended";
    if (!job->alive) return "ended without saying so";
    return stoke_live_phase_name(job->now.phase <= STOKE_LIVE_ENDED ? (int)job->now.phase : -1);
}

/* " step 120 of 2000", " step 120"; "" when it has none. */
static const char *monitor_job_step(const monitor_job *job, char *text, size_t size)
{
    const stoke_live_data *now = &job->now;
    *text = 0;
    if (now->step != STOKE_LIVE_NA && now->steps != STOKE_LIVE_NA)
        snprintf(text, size, " step %" PRIu64 " of %" PRIu64, now->step, now->steps);
    else if (now->step != STOKE_LIVE_NA)
        snprintf(text, size, " step %" PRIu64, now->step);
    return text;
}

const char *monitor_job_progress(const monitor_job *job, char *text, size_t size)
{
    /* Both clocks are the same one, unless it runs elsewhere. */
    const double silent =
        job->alive > 0 ? ((double)stoke_machine_now_ns() - (double)job->now.now_ns) / 1e9 : 0;
    char step[64];
    monitor_job_step(job, step, sizeof step);
    int n = snprintf(text, size, "%s%s%s", monitor_job_state(job), *step ? "," : "", step);
    if (silent > SILENT_SECONDS && job->now.phase != STOKE_LIVE_ENDED && n >= 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, ", last sign %.0f s ago", silent);
    return text;
}

/* ---- what it means ---- */

/* `command` with the run behind it, or what is left to those who have none. */
static void say_next(const monitor_job *job, stoke_monitor_verdict *verdict, const char *command,
                     const char *otherwise)
{
    if (*job->run)
        snprintf(verdict->next, sizeof verdict->next, "%s %s", command, STOKE_WORD(job->run));
    else
        snprintf(verdict->next, sizeof verdict->next, "%s", otherwise);
}

/* "The job waited for data 3 % of its time while it was watched", or how busy its device was. */
static void say_found(const monitor_job *job, char *text, size_t size)
{
    stoke_live_rates rates;
    const char *period = monitor_job_watched(job, &rates);
    if (isnan(job->now.device_busy))
        snprintf(text, size, "The job waited for data %.0f %% of its time %s", 100 * rates.data_wait, period);
    else
        snprintf(text, size, "The device was busy %.0f %% of the time", 100 * job->now.device_busy);
}

static void judge_end(const monitor_job *job, stoke_monitor_verdict *verdict)
{
    char step[64];
    monitor_job_step(job, step, sizeof step);
    snprintf(verdict->text, sizeof verdict->text,
             "The job ended without saying so%s%s: it was killed, by a person or by the system for want of "
             "memory, or it crashed.%s",
             *step ? " at" : "", step, *job->run ? " --resume goes on from its last checkpoint." : "");
    say_next(job, verdict, "stoke why oom --run", "stoke doctor");
}

static void judge_waiting(const monitor_job *job, stoke_monitor_verdict *verdict)
{
    stoke_live_rates rates;
    char found[128], stage[96] = "";
    int longest = STOKE_STAGE_READ;
    monitor_job_watched(job, &rates);
    say_found(job, found, sizeof found);
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++)
        if (rates.stage_wall_ms[i] > rates.stage_wall_ms[longest]) longest = i;
    if (!isnan(rates.stage_wall_ms[longest]))
        snprintf(stage, sizeof stage, " Most of a sample's time goes to `%s`, %.1f ms.",
                 stoke_stage_name((stoke_stage)longest), rates.stage_wall_ms[longest]);
    snprintf(verdict->text, sizeof verdict->text,
             "%s: batches come too slowly.%s `stoke diagnose` measures what each remedy would gain.", found,
             stage);
    say_next(job, verdict, "stoke why loading --run", "stoke diagnose --config FILE");
}

/* 1: it waits too much; 0: it does not; -1: cannot be told. */
static int waits(const monitor_job *job)
{
    stoke_live_rates rates;
    monitor_job_watched(job, &rates);
    if (job->now.batches == STOKE_LIVE_NA || job->now.batches < FEW_BATCHES) return -1;
    if (!isnan(job->now.device_busy)) return job->now.device_busy < DEVICE_FED;
    return isnan(rates.data_wait) ? -1 : rates.data_wait > WAIT_MUCH;
}

int monitor_job_judge(const monitor_job *job, const stoke_gpu_summary *gpu, stoke_monitor_verdict *verdict)
{
    const int waiting = waits(job), ended = job->now.phase == STOKE_LIVE_ENDED;
    char found[128];
    if (!ended && job->alive == 0) {
        judge_end(job, verdict);
    } else if (waiting > 0) {
        judge_waiting(job, verdict);
    } else if (ended && *job->run) {
        snprintf(verdict->text, sizeof verdict->text, "The job has ended%s.",
                 waiting ? "" : "; it was not short of data");
        say_next(job, verdict, "stoke report", "");
    } else if (waiting < 0 || (gpu && gpu->n_processes)) {
        return 0; /* the card has more to say, unless the job does not use it */
    } else {
        say_found(job, found, sizeof found);
        snprintf(verdict->text, sizeof verdict->text, "%s: it is fed. What is left is the step itself.",
                 found);
        snprintf(verdict->next, sizeof verdict->next, "stoke bench step");
    }
    return 1;
}
