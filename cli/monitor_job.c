/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/monitor_job.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/common.h"

/* Lately: long enough for several steps of most jobs, short enough to see a change. */
static const double LATELY_SECONDS = 5;
/* More waiting than that is worth a command. */
static const double WAIT_MUCH = 0.1;
/* A device that is busy for more of the time does not wait, whatever the host does meanwhile. */
static const double DEVICE_FED = 0.9;

/* ---- looking ---- */

/* The folder of RUN/live, where that is a run: it has a config.yaml. */
static void find_run(monitor_job *job, const char *path)
{
    char config[sizeof job->run + 16];
    struct stat st;
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= sizeof job->run) return; /* no command would fit it in */
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        snprintf(job->run, sizeof job->run, "%s", path);
    else
        snprintf(job->run, sizeof job->run, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    snprintf(config, sizeof config, "%s/config.yaml", job->run);
    if (stat(config, &st) != 0) *job->run = 0;
}

int monitor_job_open(monitor_job *job, const char *path, stoke_error *err)
{
    *job = (monitor_job){ 0 };
    int r = stoke_onlooker_open(&job->onlooker, path, err);
    if (!r) r = stoke_onlooker_read(job->onlooker, &job->now, &job->alive, err);
    if (r) {
        monitor_job_close(job);
        return r;
    }
    job->first = job->look[0] = job->now;
    job->looks = 1;
    find_run(job, path);
    return STOKE_OK;
}

void monitor_job_close(monitor_job *job)
{
    stoke_onlooker_close(&job->onlooker);
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
    if (stoke_onlooker_read(job->onlooker, &data, &alive, &err)) {
        /* Somebody may have cut the file short: the job's next write mends it. */
        snprintf(job->problem, sizeof job->problem, "%.500s", err.message);
        return 1;
    }
    *job->problem = 0;
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
    return moved ? "while it was watched" : "since the job began";
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

const char *monitor_job_step(const monitor_job *job, char *text, size_t size)
{
    const stoke_live_data *now = &job->now;
    *text = 0;
    if (now->step != STOKE_LIVE_NA && now->steps != STOKE_LIVE_NA)
        snprintf(text, size, "step %" PRIu64 " of %" PRIu64, now->step, now->steps);
    else if (now->step != STOKE_LIVE_NA)
        snprintf(text, size, "step %" PRIu64, now->step);
    return text;
}

/* ---- what it means ---- */

static void say_next(const monitor_job *job, stoke_monitor_verdict *verdict, const char *command)
{
    if (*job->run)
        snprintf(verdict->next, sizeof verdict->next, "%s %s", command, job->run);
    else
        snprintf(verdict->next, sizeof verdict->next, "stoke diagnose --config FILE");
}

/* The stage of a sample that takes most of a core. */
static void judge_waiting(const monitor_job *job, const stoke_live_rates *rates, const char *period,
                          stoke_monitor_verdict *verdict)
{
    int longest = -1;
    char stage[96] = "";
    for (int i = STOKE_STAGE_READ; i <= STOKE_STAGE_WRITE; i++)
        if (!isnan(rates->stage_wall_ms[i]) &&
            (longest < 0 || rates->stage_wall_ms[i] > rates->stage_wall_ms[longest]))
            longest = i;
    if (longest >= 0)
        snprintf(stage, sizeof stage, " Most of a sample's time goes to `%s`, %.1f ms.",
                 stoke_stage_name((stoke_stage)longest), rates->stage_wall_ms[longest]);
    snprintf(verdict->text, sizeof verdict->text,
             "The job waited for data %.0f %% of its time %s: batches come too slowly.%s `stoke diagnose` "
             "measures what each remedy would gain.",
             100 * rates->data_wait, period, stage);
    say_next(job, verdict, "stoke why loading --run");
}

int monitor_job_judge(const monitor_job *job, const stoke_gpu_summary *gpu, stoke_monitor_verdict *verdict)
{
    stoke_live_rates rates;
    char step[64];
    const char *period = monitor_job_watched(job, &rates);
    const stoke_live_data *now = &job->now;
    monitor_job_step(job, step, sizeof step);
    if (now->phase != STOKE_LIVE_ENDED && job->alive == 0) {
        snprintf(
            verdict->text, sizeof verdict->text,
            "The job ended without saying so%s%s: it was killed, by a person or by the system for want of "
            "memory, or it crashed. Its checkpoint is whole: --resume goes on from there.",
            *step ? ", at " : "", step);
        say_next(job, verdict, "stoke why oom --run");
        return 1;
    }
    if (rates.data_wait > WAIT_MUCH && !(now->device_busy >= DEVICE_FED)) {
        judge_waiting(job, &rates, period, verdict);
        return 1;
    }
    /* A card has more to say, unless the job does not use it. */
    if (isnan(rates.data_wait) || (gpu && gpu->n_processes)) return 0;
    snprintf(verdict->text, sizeof verdict->text,
             "The job waited for data %.0f %% of its time %s: it is fed. What is left is the step itself.",
             100 * rates.data_wait, period);
    snprintf(verdict->next, sizeof verdict->next, "stoke bench step");
    return 1;
}
