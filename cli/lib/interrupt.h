/* SPDX-License-Identifier: Apache-2.0
 *
 * One Ctrl-C, SIGTERM or SIGHUP ends a command: in good order where it can, by force where something does not
 * answer, with nothing half written in either case.
 */
#ifndef STOKE_CLI_LIB_INTERRUPT_H
#define STOKE_CLI_LIB_INTERRUPT_H

#include <sys/types.h>

/* From now on SIGINT, SIGTERM and SIGHUP ask for an orderly end. 3 s later, or at another one (but not within
 * a second of the first: `timeout` signals the process and then its group, so one request arrives twice), the
 * process ends all the same, by the guard: a thread that has these signals to itself, so that none can hang
 * in a call that does not come back, a dead network disk's for one. It takes along what was noted below.
 * Writing beyond a file size limit becomes an error message instead of a signal. Again in a child of fork. */
void cli_handle_signals(void);
int cli_interrupted(void);
/* How long to wait for anything without asking. */
#define CLI_TICK_NS (UINT64_C(100) * 1000000)
/* What shells expect: 128 + the signal. */
int cli_interrupt_code(void);
/* Between fork and exec: the signals as the shell left them. */
void cli_release_signals(void);

/* A file or folder that must not outlive the process (borrowed until it is forgotten), and a child whose
 * group ends with it; 32 of them at a time, what is more is not noted. */
void cli_leftover_note(const char *path);
void cli_leftover_forget(const char *path);
void cli_offspring_note(pid_t group);
void cli_offspring_forget(pid_t group);
/* Text that gives the terminal back as it was (a literal); NULL: nothing was changed. */
void cli_terminal_note(const char *leave);

#endif
