/* SPDX-License-Identifier: Apache-2.0
 *
 * The program `stoke`.
 */
#include "cli/run.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
