/* SPDX-License-Identifier: Apache-2.0
 *
 * Tries instructions that the processor announces and may still refuse.
 */
#ifndef STOKE_SRC_BASE_PROBE_INSN_H
#define STOKE_SRC_BASE_PROBE_INSN_H

/* What `fn` returns, or 0 when it ended in SIGILL or SIGSEGV. The two handlers are the process's own again
 * afterwards; a fault of another thread meanwhile goes where it would have gone. `fn` must hold nothing that
 * would be lost (no lock, no memory). One attempt at a time. */
int stk_probe_insn(int (*fn)(void));

#endif
