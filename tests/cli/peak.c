/* SPDX-License-Identifier: Apache-2.0
 *
 * peak FILE COMMAND...: runs the command and writes the most memory it held, in bytes, to FILE. A program of
 * its own because a child inherits the peak of whoever forks it: from Python that would be Python's.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct rusage used;
    int status;
    if (argc < 3) return 2;
    const pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) != child) return 126;
    FILE *out = fopen(argv[1], "w");
    if (!out || fprintf(out, "%lld\n", (long long)used.ru_maxrss * 1024) < 0 || fclose(out) != 0) return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
