/* SPDX-License-Identifier: Apache-2.0
 *
 * The command as a function: of the program `stoke`, and of the Python package, which runs it inside a
 * process that a launcher of PyTorch started.
 */
#ifndef STOKE_CLI_RUN_H
#define STOKE_CLI_RUN_H

/* Returns the exit status. Once in a process: it takes SIGINT, SIGTERM and SIGHUP over for good, in this
 * thread and in those that come after. */
int cli_main(int argc, char **argv);

#endif
