/* SPDX-License-Identifier: Apache-2.0
 *
 * The bars of a diagnosis, for a file of their own and for the page.
 */
#ifndef STOKE_SRC_TUNE_DIAGNOSE_DIAGNOSIS_DRAW_H
#define STOKE_SRC_TUNE_DIAGNOSE_DIAGNOSIS_DRAW_H

#include <stdio.h>

#include "src/tune/diagnose/diagnose.h"

/* alone: with the verdict, as a picture that nothing stands around. */
void stk_diagnosis_bars(const stoke_diagnosis *diagnosis, FILE *out, const char *title, int alone);

#endif
