/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke recipe: several runs that belong together; one recipe per file.
 */
#include "cli/lib/command.h"

const cli_command cli_recipe = {
    .summary = "train in several stages, as one command",
    .arguments = "RECIPE",
    .description = "Trains one network after another, each starting from what the one before has learned.",
    .examples = {
        { "stoke recipe progressive demo/data --dry-run", "what it would do, and the memory of each stage" },
        { "stoke recipe progressive --help", "what it does, and its options" },
    },
};
