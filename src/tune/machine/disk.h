/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of disk.c that tests show recorded texts and trees.
 */
#ifndef STOKE_SRC_TUNE_MACHINE_DISK_H
#define STOKE_SRC_TUNE_MACHINE_DISK_H

#include <stoke/tools/probe.h>

/* Fills mount, device and filesystem from the text of /proc/self/mountinfo: the deepest mount point above
 * `path` (absolute, links followed), and of several on one place the last, which hides the others. Returns 0
 * when there is none. */
int stk_disk_mount(stoke_disk_facts *facts, const char *mountinfo, const char *path);

/* Whether the file system's type is one of a network; n/a for a type that may be either (fuse). */
stoke_figure stk_disk_network(const char *filesystem);

/* 1 = a spinning disk; n/a for one of a virtual machine that says so: there it is what the kernel takes for
 * want of anything better. A partition has no queue: its disk is one folder up. */
stoke_figure stk_disk_rotational(const char *root, unsigned major_number, unsigned minor_number);

#endif
