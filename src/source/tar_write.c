/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/tar_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Places and lengths of fields in a header block. */
enum {
    NAME = 0,
    NAME_BYTES = 100,
    MODE = 100,
    UID = 108,
    GID = 116,
    SIZE = 124,
    MTIME = 136,
    CHECKSUM = 148,
    TYPE = 156,
    MAGIC = 257,
    PREFIX = 345,
    PREFIX_BYTES = 155
};
#define OCTAL_LIMIT (UINT64_C(1) << 33) /* eleven octal digits */

/* Where to cut a name into prefix and name: the slash, or 0 for a name that fits whole, -1 when there is
 * none.
 */
static long cut_of(const char *name, size_t length)
{
    if (length <= NAME_BYTES) return 0;
    for (size_t i = length - NAME_BYTES - 1; i <= PREFIX_BYTES && i + 1 < length; i++)
        if (i && name[i] == '/') return (long)i;
    return -1;
}

static void write_block(uint8_t *block, const char *name, size_t length, long cut, uint64_t size, char type)
{
    char text[16];
    memset(block, 0, STK_TAR_BLOCK);
    if (cut > 0) {
        memcpy(block + PREFIX, name, (size_t)cut);
        name += cut + 1, length -= (size_t)cut + 1;
    }
    memcpy(block + NAME, name, length);
    memcpy(block + MODE, "0000644", 8);
    memcpy(block + UID, "0000000", 8);
    memcpy(block + GID, "0000000", 8);
    snprintf(text, sizeof text, "%011" PRIo64, size < OCTAL_LIMIT ? size : 0);
    memcpy(block + SIZE, text, 12);
    memcpy(block + MTIME, "00000000000", 12);
    memset(block + CHECKSUM, ' ', 8);
    block[TYPE] = (uint8_t)type;
    memcpy(block + MAGIC,
           "ustar\0"
           "00",
           8);
    unsigned sum = 0;
    for (int i = 0; i < STK_TAR_BLOCK; i++) sum += block[i];
    snprintf(text, sizeof text, "%06o", sum);
    memcpy(block + CHECKSUM, text, 7); /* six digits, NUL; the blank behind it stays */
}

/* "LENGTH key=value\n", where LENGTH counts its own digits too. */
static size_t write_record(char *to, const char *key, const char *value)
{
    const size_t rest = strlen(key) + strlen(value) + 3; /* blank, equals sign, newline */
    size_t digits = 1;
    for (size_t limit = 10; rest + digits >= limit; limit *= 10) digits++;
    return (size_t)sprintf(to, "%zu %s=%s\n", rest + digits, key, value);
}

size_t stk_tar_write_head(const char *name, uint64_t size, uint8_t head[STK_TAR_HEAD_BYTES])
{
    const size_t length = strlen(name);
    if (length >= STK_TAR_NAME) return 0;
    const long cut = cut_of(name, length);
    size_t at = 0;
    if (cut < 0 || size >= OCTAL_LIMIT) {
        char *records = (char *)head + STK_TAR_BLOCK, number[24];
        size_t n = 0;
        if (cut < 0) n += write_record(records, "path", name);
        snprintf(number, sizeof number, "%" PRIu64, size);
        if (size >= OCTAL_LIMIT) n += write_record(records + n, "size", number);
        write_block(head, "PaxHeaders/member", 17, 0, n, 'x');
        memset(records + n, 0, stk_tar_padding(n));
        at = STK_TAR_BLOCK + n + stk_tar_padding(n);
    }
    /* No part of a name that does not fit: cut at the wrong place it might climb out by "..". */
    static const char stand_in[] = "a-name-for-pax";
    if (cut < 0)
        write_block(head + at, stand_in, sizeof stand_in - 1, 0, size, '0');
    else
        write_block(head + at, name, length, cut, size, '0');
    return at + STK_TAR_BLOCK;
}
