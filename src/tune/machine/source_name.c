/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a figure comes from, in a word.
 */
#include <stoke/tools/probe.h>

const char *stoke_source_name(int source)
{
    switch (source) {
    case STOKE_SOURCE_NVML: return "nvml";
    case STOKE_SOURCE_SYSFS: return "sysfs";
    case STOKE_SOURCE_PROC: return "proc";
    case STOKE_SOURCE_FDINFO: return "fdinfo";
    case STOKE_SOURCE_DRIVER: return "driver";
    case STOKE_SOURCE_MEASURED: return "measured";
    case STOKE_SOURCE_TABLE: return "table";
    case STOKE_SOURCE_ESTIMATED: return "estimated";
    case STOKE_SOURCE_EMULATED: return "emulated";
    case STOKE_SOURCE_GIVEN: return "given";
    default: return "n/a";
    }
}
