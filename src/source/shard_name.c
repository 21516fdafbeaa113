/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/shard_name.h"

#include <string.h>
#include <strings.h>

#include "src/base/words.h"
#include "src/source/tar.h"
#include <stoke/tools/image.h>

/* ---- fields ---- */

static stk_shard_field_role role_of(const char *field)
{
    const char *dot = strrchr(field, '.'); /* the field's own first character where it has no other dot */
    const size_t n = (size_t)(dot - field);
    if (n == 0) return STK_FIELD_PICTURE;
    if (stk_is_listed(field + 1, n - 1, "image img", strncasecmp)) return STK_FIELD_IMAGE;
    return stk_is_listed(field + 1, n - 1, "mask seg label gt ann", strncasecmp) ? STK_FIELD_MASK
                                                                                 : STK_FIELD_OTHER;
}

stk_shard_name stk_shard_name_parse(const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *dot = strchr(base, '.');
    stk_shard_name result = { .key = dot ? (size_t)(dot - name) : strlen(name) };
    if (!dot || name[0] == '.' || strstr(name, "/.") || !stoke_format_known_extension(name)) return result;
    const char *extension = strrchr(dot, '.') + 1;
    result.role = role_of(dot);
    if (stk_is_one_of_any_case(extension, "jpg jpeg jpe jfif"))
        result.picture = STK_PICTURE_JPEG;
    else if (strcasecmp(extension, "png") == 0)
        result.picture = STK_PICTURE_PNG;
    return result;
}

int stk_shard_name_like_mask(const char *name, const stk_shard_name *parsed)
{
    static const char words[] = "mask masks label labels seg gt ann annot annotation annotations gtFine "
                                "segmentation segmentations SegmentationClass";
    if (parsed->role != STK_FIELD_PICTURE || parsed->picture == STK_PICTURE_JPEG) return 0;
    for (size_t at = 0; at < parsed->key;) {
        size_t n = strcspn(name + at, "/");
        if (n > parsed->key - at) n = parsed->key - at;
        if (stk_is_listed(name + at, n, words, strncasecmp)) return 1;
        at += n + 1;
    }
    return 0;
}

/* ---- keys ---- */

/* Whether the byte at `at` must be escaped: a percent sign, what is not for printing, a dot in the last
 * component or at the beginning of another, and a slash that would begin, end or double. */
static int must_escape(const char *name, size_t at, size_t base)
{
    const unsigned char c = (unsigned char)name[at];
    if (c == '/') return at == 0 || name[at - 1] == '/' || !name[at + 1];
    if (c != '.') return c == '%' || c < 0x20 || c == 0x7f;
    /* in a folder only the first: "..", and hidden folders, which reading would pass over */
    return at >= base || at == 0 || name[at - 1] == '/';
}

int stk_shard_key(const char *sample, char *key, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t to = 0, base = 0;
    for (size_t i = 0; sample[i]; i++)
        if (sample[i] == '/' && !must_escape(sample, i, 0)) base = i + 1;
    for (size_t i = 0; sample[i]; i++) {
        const int escape = must_escape(sample, i, base);
        if (to + (escape ? 3 : 1) >= size) return 0;
        if (!escape) {
            key[to++] = sample[i];
            continue;
        }
        const unsigned char c = (unsigned char)sample[i];
        key[to++] = '%', key[to++] = digits[c >> 4], key[to++] = digits[c & 15];
    }
    key[to] = 0;
    return to > 0;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

size_t stk_shard_sample(const char *key, size_t length, char *sample)
{
    char again[STK_TAR_NAME];
    size_t to = 0;
    for (size_t i = 0; i < length; i++) {
        int high = -1, low = -1;
        if (key[i] == '%' && i + 2 < length) high = digit_of(key[i + 1]), low = digit_of(key[i + 2]);
        const int escaped = high >= 0 && low >= 0 && high + low > 0;
        sample[to++] = escaped ? (char)(high << 4 | low) : key[i];
        i += escaped ? 2 : 0;
    }
    sample[to] = 0;
    if (stk_shard_key(sample, again, sizeof again) && strlen(again) == length &&
        memcmp(again, key, length) == 0)
        return to;
    memcpy(sample, key, length);
    sample[length] = 0;
    return length;
}
