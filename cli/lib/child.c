/* SPDX-License-Identifier: Apache-2.0
 *
 * A child in its own process group: what it starts in turn ends with it.
 */
#include "cli/lib/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoke/tools/findbatch.h>

enum { TICK_MS = 100 };

/* What is read from it, as it comes. */
typedef struct listening {
    cli_child *child;
    pid_t pid;
    struct pollfd pipes[2]; /* stdout, stderr */
    size_t out_bytes;
    char line[256]; /* of stderr, so far */
    size_t line_bytes;
    int full; /* what else belongs to the last line has no room */
} listening;

/* ---- the child's side, between fork and exec: calls that are safe there only ---- */

static _Noreturn void become(const cli_child *child, const int out[2], const int err[2], pid_t parent)
{
    setpgid(0, 0);
    cli_release_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a parent that is killed takes it along */
    if (getppid() != parent) _exit(CLI_FAILED);
    /* When the machine runs out of memory, it is the trial that the kernel shall end, nobody else. */
    const int wish = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    const ssize_t ignored = wish < 0 ? 0 : write(wish, "1000", 4);
    (void)ignored;
    if (wish >= 0) close(wish);
    const int none = open("/dev/null", O_RDONLY);
    if (none < 0 || dup2(none, 0) < 0 || dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0) _exit(CLI_FAILED);
    if (none > 2) close(none);
    execv("/proc/self/exe", (char *const *)child->words);
    _exit(CLI_FAILED);
}

/* ---- the parent's ---- */

/* The last line with something on it counts; one that begins with two spaces goes on with the line before,
 * which says what it is about, as long as there is room for all of it. */
static void keep_line(listening *l)
{
    char *last = l->child->last;
    const size_t before = strlen(last), room = sizeof l->child->last - before;
    const int goes_on = before && l->line_bytes > 2 && !strncmp(l->line, "  ", 2);
    l->line[l->line_bytes] = 0;
    l->full = goes_on && (l->full || l->line_bytes >= room);
    if (!goes_on)
        memcpy(last, l->line, l->line_bytes + 1);
    else if (!l->full)
        memcpy(last + before, l->line + 1, l->line_bytes);
    l->line_bytes = 0;
}

/* What a terminal might obey is left out. */
static void hear_error(listening *l, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '\n' || c == '\r') {
            if (l->line_bytes) keep_line(l);
        } else if (c >= ' ' && c != 127 && l->line_bytes < sizeof l->line - 1) {
            l->line[l->line_bytes++] = (char)c;
        }
    }
}

/* Everything there is on one pipe; closes it at its end. */
static void hear(listening *l, int which)
{
    char text[4096];
    ssize_t n;
    struct pollfd *pipe = &l->pipes[which];
    while ((n = read(pipe->fd, text, sizeof text)) > 0) {
        if (which) {
            hear_error(l, text, (size_t)n);
            continue;
        }
        const size_t room = sizeof l->child->out - 1 - l->out_bytes,
                     taken = (size_t)n < room ? (size_t)n : room;
        memcpy(l->child->out + l->out_bytes, text, taken);
        l->out_bytes += taken;
        l->child->out[l->out_bytes] = 0;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    close(pipe->fd);
    pipe->fd = -1;
}

/* Until it ends, is too late, or is asked to stop. */
static int listen_to(listening *l, stoke_error *err)
{
    cli_child *child = l->child;
    const uint64_t begin = stoke_machine_now_ns();
    int asked = 0;
    for (;;) {
        const int all = l->pipes[0].fd < 0 && l->pipes[1].fd < 0;
        if (poll(l->pipes, 2, all ? TICK_MS / 10 : TICK_MS) > 0)
            for (int i = 0; i < 2; i++)
                if (l->pipes[i].fd >= 0 && l->pipes[i].revents) hear(l, i);
        if (waitpid(l->pid, &child->status, WNOHANG) == l->pid) break;
        asked = cli_interrupted() || (child->tick && child->tick(child->context));
        child->timed_out = !asked && (double)(stoke_machine_now_ns() - begin) > child->seconds * 1e9;
        if (!asked && !child->timed_out) continue;
        kill(-l->pid, SIGKILL);
        while (waitpid(l->pid, &child->status, 0) < 0 && errno == EINTR) continue;
        if (asked) return cli_error(err, STOKE_E_CANCELLED, "interrupted");
        break;
    }
    kill(-l->pid, SIGKILL); /* those of its group that are still there */
    for (int i = 0; i < 2; i++)
        if (l->pipes[i].fd >= 0) hear(l, i);
    hear_error(l, "\n", 1);
    return STOKE_OK;
}

int cli_child_run(cli_child *child, stoke_error *err)
{
    int out[2] = { -1, -1 }, error[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(error, O_CLOEXEC) != 0) {
        cli_error(err, STOKE_E_IO, "cannot make a pipe: %s", strerror(errno));
        for (int i = 0; i < 2; i++)
            if (out[i] >= 0) close(out[i]);
        return err->code;
    }
    child->timed_out = child->status = 0;
    *child->out = *child->last = 0;
    child->kills_before = stoke_oom_kills();
    fflush(NULL); /* or the child would print the parent's buffers again */
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) become(child, out, error, parent);
    close(out[1]);
    close(error[1]);
    if (pid < 0) {
        close(out[0]);
        close(error[0]);
        return cli_error(err, STOKE_E_IO, "cannot start a process: %s", strerror(errno));
    }
    setpgid(pid, pid); /* whoever comes first */
    cli_offspring_note(pid);
    listening l = { .child = child, .pid = pid, .pipes = { { out[0], POLLIN, 0 }, { error[0], POLLIN, 0 } } };
    for (int i = 0; i < 2; i++) fcntl(l.pipes[i].fd, F_SETFL, O_NONBLOCK);
    const int r = listen_to(&l, err);
    cli_offspring_forget(pid);
    for (int i = 0; i < 2; i++)
        if (l.pipes[i].fd >= 0) close(l.pipes[i].fd);
    child->kills_after = stoke_oom_kills();
    return r;
}
