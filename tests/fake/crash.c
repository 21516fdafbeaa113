/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver that takes the process with it as soon as it is loaded: by the signal that STOKE_FAKE_SIGNAL names
 * by its number, SIGABRT without.
 */
#include <signal.h>
#include <stdlib.h>

__attribute__((constructor)) static void crash(void)
{
    const char *number = getenv("STOKE_FAKE_SIGNAL");
    const int sig = number ? atoi(number) : SIGABRT;
    signal(sig, SIG_DFL); /* a sanitizer's handler would make an exit of it */
    raise(sig);
}
