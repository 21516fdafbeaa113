/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines about trials come from children that may have gone wrong and from journals that anyone may write: any
 * bytes are refused, or the trial can be written down and read again as it is.
 */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stoke/tools/findbatch.h>

FUZZ_TARGET(trial)
{
    stoke_trial trial, again;
    stoke_error err = { 0 };
    char text[4096], once_more[4096];
    if (stoke_trial_parse(&trial, (const char *)bytes, size, &err)) {
        if (!*err.message) abort();
        return 0;
    }
    if (!memchr(trial.message, 0, sizeof trial.message) || !*stoke_outcome_name(trial.outcome)) abort();
    const int n = stoke_trial_text(&trial, text, sizeof text);
    if (n <= 0 || (size_t)n >= sizeof text) abort();
    if (stoke_trial_parse(&again, text, (size_t)n, NULL)) abort();
    if (stoke_trial_text(&again, once_more, sizeof once_more) != n || memcmp(text, once_more, (size_t)n))
        abort();
    return 0;
}
