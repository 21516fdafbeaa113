/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists in the settings of ops: numbers, class ids and pairs of them, as text.
 */
#include "src/augment/op.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/number.h"

/* Takes the next word off a list, without blanks around it; 0 at its end. A word too long for `word` is cut,
 * and then no number. */
static int next_word(const char **text, char separator, char word[STK_REAL_TEXT])
{
    if (!*text) return 0;
    const char *end = strchr(*text, separator), *from = *text + strspn(*text, " \t");
    size_t length = end ? (size_t)(end - *text) : strlen(*text);
    length = from < *text + length ? length - (size_t)(from - *text) : 0;
    while (length && strchr(" \t", from[length - 1])) length--;
    const size_t kept = length < STK_REAL_TEXT ? length : STK_REAL_TEXT - 1;
    memcpy(word, from, kept);
    word[kept] = 0;
    *text = end ? end + 1 : NULL;
    return 1;
}

int stk_op_numbers(const char *name, const char *text, double low, double high, double *values, size_t count,
                   stoke_error *err)
{
    char word[STK_REAL_TEXT];
    const char *rest = text;
    size_t n = 0;
    for (; next_word(&rest, ',', word); n++) {
        double value;
        if (!stk_parse_real(word, &value) || value < low || value > high)
            return stk_fail(err, STOKE_E_INVALID, "%s: '%s' is not a number from %g to %g", name, word, low,
                            high);
        if (n < count) values[n] = value;
    }
    if (n == 1)
        for (size_t i = 1; i < count; i++) values[i] = values[0];
    else if (n != count)
        return stk_fail(err, STOKE_E_INVALID, "%s: '%.80s' has %zu values, not 1 or %zu", name, text, n,
                        count);
    return STOKE_OK;
}

int stk_op_ids(const char *name, const char *text, size_t per, uint32_t *ids, size_t limit, size_t *count,
               stoke_error *err)
{
    char word[STK_REAL_TEXT];
    const char *rest = text && *text ? text : NULL;
    for (*count = 0; next_word(&rest, ',', word); (*count)++) {
        if (*count == limit)
            return stk_fail(err, STOKE_E_LIMIT, "%s: more than %zu %s", name, limit,
                            per > 1 ? "pairs" : "classes");
        char *part = word, *dash = per > 1 ? strchr(word, '-') : NULL;
        if (per > 1 && !dash)
            return stk_fail(err, STOKE_E_INVALID, "%s: '%s' is not a pair of classes such as 4-5", name,
                            word);
        if (dash) *dash = 0;
        for (size_t i = *count * per; i < (*count + 1) * per; i++, part = dash + 1) {
            int64_t value;
            if (!stk_parse_int(part, &value) || value < 0 || value > STK_CLASS_MAX)
                return stk_fail(err, STOKE_E_INVALID, "%s: '%s' is not a class id from 0 to %d", name, part,
                                STK_CLASS_MAX);
            ids[i] = (uint32_t)value;
            for (size_t k = 0; per > 1 && k < i; k++)
                if (ids[k] == ids[i])
                    return stk_fail(err, STOKE_E_INVALID, "%s: class %u stands there twice", name, ids[i]);
            if (!dash) break;
        }
    }
    return STOKE_OK;
}
