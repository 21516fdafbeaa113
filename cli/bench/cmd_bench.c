/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke bench: one subject per file.
 */
#include "cli/lib/command.h"

const cli_command cli_bench = {
    .summary = "measure: speed, memory, and what limits them",
    .arguments = "SUBJECT",
    .description =
        "Measures a part of the system on this machine, always against a plain reference in the same run.",
    .examples = {
        { "stoke bench data", "the loader on a synthetic set, against bare decoding" },
        { "stoke bench pix", "every pixel function, per CPU table" },
        { "stoke bench net --model b0 --size 128", "every matrix product of b0" },
        { "stoke bench step --batch 1 --size 128", "a training step of b0, part by part" },
        { "stoke bench data --help", "what it measures, and its options" },
    },
};
