/* SPDX-License-Identifier: Apache-2.0
 *
 * The program of a room: runs the group of tests that its argument names. Groups enter themselves before main
 * (UNIT_GROUP in unit.h), so a new one is a file and its name in meson.build.
 */
#include "tests/unit/unit.h"

static unit_group *groups;

void unit_group_enter(unit_group *group)
{
    group->next = groups;
    groups = group;
}

int main(int argc, char **argv)
{
    for (const unit_group *group = groups; group && argc == 2; group = group->next)
        if (!strcmp(group->name, argv[1])) return group->run();
    fprintf(stderr, "usage: %s GROUP, one of these:", argv[0]);
    for (const unit_group *group = groups; group; group = group->next) fprintf(stderr, " %s", group->name);
    fputc('\n', stderr);
    return 2;
}
