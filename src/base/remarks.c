/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/remarks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/mem.h"

void stk_remark_keep(void *context, const char *sentence)
{
    stk_remarks *remarks = context;
    char *copy = remarks->n < STK_REMARKS ? stk_strdup(sentence) : NULL;
    if (copy) remarks->text[remarks->n++] = copy;
}

int stk_remark(stk_remarks *remarks, const char *format, ...)
{
    char sentence[STK_REMARK_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    stk_remark_keep(remarks, sentence);
    return STOKE_OK;
}

const char *stk_remark_at(const stk_remarks *remarks, size_t index)
{
    return index < remarks->n ? remarks->text[index] : NULL;
}

void stk_remarks_free(stk_remarks *remarks)
{
    while (remarks->n) stk_free(remarks->text[--remarks->n]);
}

void stk_text_add(char *text, size_t size, const char *between, const char *format, ...)
{
    const size_t used = strlen(text);
    const size_t at = used + (used ? (size_t)snprintf(text + used, size - used, "%s", between) : 0);
    if (at >= size) return;
    va_list args;
    va_start(args, format);
    vsnprintf(text + at, size - at, format, args);
    va_end(args);
}

void stk_say(stk_say_fn *say, void *context, const char *format, ...)
{
    char sentence[STK_REMARK_TEXT];
    va_list args;
    if (!say) return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    say(context, sentence);
}
