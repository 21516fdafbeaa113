/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files of /proc and /sys, below a root that tests choose.
 */
#ifndef STOKE_SRC_TUNE_MACHINE_TREE_H
#define STOKE_SRC_TUNE_MACHINE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include <stoke/tools/probe.h>

enum { STK_TREE_PATH = 1024 };

/* A figure that is known. */
stoke_figure stk_figure(double value, int source);

/* root/format... into `path`. `root` "" is "/". Returns 0 when it does not fit. */
int stk_tree_path(char path[STK_TREE_PATH], const char *root, const char *format, ...) STOKE_PRINTF(3, 4);

/* The text of the file root/format... without its last newline. Returns 0 when there is none. */
int stk_tree_text(char *text, size_t size, const char *root, const char *format, ...) STOKE_PRINTF(4, 5);
/* folder/name as a number; n/a when the file is not there or holds none. `scale` is what one of it is worth,
 * 1e-6 for microwatts. */
stoke_figure stk_tree_figure(const char *folder, const char *name, double scale, int source);

#endif
