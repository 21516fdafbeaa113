/* SPDX-License-Identifier: Apache-2.0
 *
 * Children that measure on request, and the turns they take.
 */
#include "cli/bench/bench.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* All of `size` bytes to or from the other side, or 0 when that is gone. MSG_NOSIGNAL: that is an answer
 * here, not a SIGPIPE. */
static int exchange(int fd, void *data, size_t size, int sends)
{
    for (size_t done = 0; done < size;) {
        char *at = (char *)data + done;
        const ssize_t n = sends ? send(fd, at, size - done, MSG_NOSIGNAL) : recv(fd, at, size - done, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        done += (size_t)n;
    }
    return 1;
}

static int answer(int fd, bench_answer *a, int status, const stoke_error *err)
{
    a->status = status;
    a->peak_rss = stoke_machine_peak_rss();
    if (status) memcpy(a->message, err->message, sizeof a->message);
    return exchange(fd, a, sizeof *a, 1);
}

static void child_main(const bench_case *job, int fd)
{
    void *state = NULL;
    stoke_error err = { 0 };
    bench_answer a = { 0 };
    uint64_t passes;
    int r = job->subject->open(&state, job, &a, &err);
    if (!answer(fd, &a, r, &err) || r) return;
    while (exchange(fd, &passes, sizeof passes, 0)) {
        bench_answer m = { .plan = a.plan };
        r = job->subject->measure(state, passes, &m, &err);
        if (!answer(fd, &m, r, &err) || r) break;
    }
    job->subject->close(&state);
}

/* Waits until it has something to say, has ended, or we are asked to end first. */
static int receive(const bench_case *job, bench_answer *a, stoke_error *err)
{
    enum { TICK_MS = 100 };
    struct pollfd in = { .fd = job->fd, .events = POLLIN };
    while (poll(&in, 1, TICK_MS) <= 0)
        if (cli_interrupted()) return cli_error(err, STOKE_E_CANCELLED, "interrupted");
    if (!exchange(job->fd, a, sizeof *a, 0))
        return cli_error(err, cli_interrupted() ? STOKE_E_CANCELLED : STOKE_E_STATE,
                         "the process that measures '%s' ended early", job->name);
    if (a->status) return cli_pass(err, a->status, a->message);
    return STOKE_OK;
}

int bench_start(bench_case *job, stoke_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return cli_error(err, STOKE_E_IO, "cannot make a pair of sockets: %s", strerror(errno));
    fflush(NULL); /* or the child would print the parent's buffers again */
    const pid_t parent = getpid();
    job->pid = fork();
    if (job->pid == 0) {
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a parent that is killed takes it along */
        if (getppid() == parent) {
            cli_handle_signals();
            child_main(job, ends[1]);
        }
        _exit(0);
    }
    close(ends[1]);
    job->fd = ends[0];
    if (job->pid < 0) {
        close(job->fd);
        job->pid = 0;
        return cli_error(err, STOKE_E_IO, "cannot start a process: %s", strerror(errno));
    }
    return receive(job, &job->opened, err);
}

static int ask(bench_case *job, uint64_t passes, bench_answer *a, stoke_error *err)
{
    if (cli_interrupted()) return cli_error(err, STOKE_E_CANCELLED, "interrupted");
    exchange(job->fd, &passes, sizeof passes, 1); /* a child that is gone shows in receive */
    int r = receive(job, a, err);
    if (r) return r;
    if (!a->samples || !a->wall_ns)
        return cli_error(err, STOKE_E_NOTFOUND, "%s: no sample came out of a pass over the set", job->name);
    return STOKE_OK;
}

/* Two passes: the first fills the page cache and the buffers, the second tells how long a pass takes. */
static int warm_up(bench_case *job, double seconds, stoke_error *err)
{
    int r = ask(job, 1, &job->last, err);
    if (!r) r = ask(job, 1, &job->last, err);
    if (r) return r;
    double passes = seconds * 1e9 / (double)job->last.wall_ns;
    job->passes = passes < 1 ? 1 : (uint64_t)(passes + 0.5);
    return STOKE_OK;
}

int bench_run(const cli_call *call, bench_case *cases, size_t n_cases, int rounds, double seconds,
              stoke_error *err)
{
    int r = STOKE_OK;
    uint64_t done = 0, total = n_cases * (uint64_t)(rounds + 1);
    stoke_progress *progress = cli_progress_begin(call, "measuring", "turns");
    for (size_t i = 0; i < n_cases && !r; i++) {
        r = warm_up(&cases[i], seconds / (double)(rounds * (int)n_cases), err);
        cli_progress_update(progress, ++done, total);
    }
    for (int round = 0; round < rounds && !r; round++)
        for (size_t i = 0; i < n_cases && !r; i++) {
            bench_case *job = &cases[i];
            r = ask(job, job->passes, &job->last, err);
            if (r) break;
            const bench_answer *a = &job->last;
            const double per_sample = 1e-6 / (double)a->samples;
            job->rate[round] = (double)a->samples * 1e9 / (double)a->wall_ns;
            job->cpu_ms[round] = (double)a->cpu_ns * per_sample;
            for (int s = 0; s < STOKE_STAGES; s++) {
                job->stage_cpu_ms[s][round] = (double)a->stage[s].cpu_ns * per_sample;
                job->stage_wall_ms[s][round] = (double)a->stage[s].wall_ns * per_sample;
            }
            cli_progress_update(progress, ++done, total);
        }
    stoke_progress_destroy(&progress);
    return r;
}

void bench_stop(bench_case *cases, size_t n_cases)
{
    /* A later child holds copies of the sockets of earlier ones, so they end from the last to the first. */
    for (size_t i = 0; i < n_cases; i++) {
        if (!cases[i].pid) continue;
        close(cases[i].fd);
        if (cli_interrupted()) kill(cases[i].pid, SIGTERM); /* in the middle of its turn */
    }
    for (size_t i = 0; i < n_cases; i++) {
        if (!cases[i].pid) continue;
        while (waitpid(cases[i].pid, NULL, 0) < 0 && errno == EINTR) {
        }
        cases[i].pid = 0;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

void bench_sort(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
}

double bench_median(const double *values, int n)
{
    double sorted[BENCH_MAX_ROUNDS];
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    bench_sort(sorted, (size_t)n);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}
