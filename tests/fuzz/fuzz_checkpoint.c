/* SPDX-License-Identifier: Apache-2.0
 *
 * What a checkpoint says in words: any bytes are refused, or give counters that are written and read again to
 * the same ones.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/train/checkpoint.h"

FUZZ_TARGET(checkpoint)
{
    stk_checkpoint_info info, again;
    stoke_error err = { 0 };
    if (stk_checkpoint_info_read(&info, (const char *)bytes, size, &err)) {
        if (!*err.message || info.identity) abort();
        return 0;
    }
    char *text, *repeated;
    if (strlen(info.progress.loader) >= sizeof info.progress.loader || info.net.step > info.progress.step)
        abort();
    if (stk_checkpoint_info_text(&info, &text, &err)) abort();
    if (stk_checkpoint_info_read(&again, text, strlen(text), &err)) abort();
    if (stk_checkpoint_info_text(&again, &repeated, &err) || strcmp(text, repeated)) abort();
    if (strcmp(info.identity, again.identity)) abort();
    stk_free(info.identity);
    stk_free(again.identity);
    stk_free(text);
    stk_free(repeated);
    return 0;
}
