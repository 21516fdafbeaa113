/* SPDX-License-Identifier: Apache-2.0 */
#include "src/codec/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libdeflate.h>
#include <xxhash.h>

#include "src/base/retry.h"

enum {
    HEAD = 256, /* holds the comment: byte 24 of a JPEG file, 49 of a PNG file */
    PART = 16384,
    DIGITS = sizeof STK_SEAL_DIGITS - 1,
    /* a PNG chunk: type, "Comment" and NUL, text, checksum */
    TYPE_AND_KEY = 4 + 8,
    CHECKSUM = 4
};

typedef struct seal {
    size_t at, hole;               /* of the digits; how many bytes depend on the hash */
    char bytes[DIGITS + CHECKSUM]; /* what has to stand there */
} seal;

static int is_png(const char *head)
{
    return (unsigned char)*head == 0x89;
}

/* The checksum of the comment's chunk. */
static void put_checksum(char *to, const char *head, const seal *s)
{
    char chunk[TYPE_AND_KEY + sizeof STK_SEAL_TEXT - 1 + DIGITS];
    const size_t before = sizeof chunk - DIGITS;
    memcpy(chunk, head + s->at - before, before);
    memcpy(chunk + before, s->bytes, DIGITS);
    const uint32_t sum = libdeflate_crc32(0, chunk, sizeof chunk);
    for (int i = 0; i < CHECKSUM; i++) to[i] = (char)(sum >> (24 - 8 * i));
}

/* The seal that belongs into the file; `found`, of DIGITS + CHECKSUM bytes, is what stands there. 0, a number
 * of errno, or STK_ENDED when it has no place for one. */
static int work_out(int fd, seal *s, char *found)
{
    static const char zeros[DIGITS + CHECKSUM];
    struct stat st;
    char part[PART], head[HEAD] = { 0 }, digits[DIGITS + 1];
    if (stk_fstat(fd, &st) != 0) return errno;
    if (!S_ISREG(st.st_mode) || !st.st_size) return STK_ENDED;
    uint64_t hash = 0;
    for (uint64_t at = 0, size = (uint64_t)st.st_size; at < size;) {
        const size_t n = size - at < PART ? (size_t)(size - at) : PART;
        const int number = stk_pread(fd, part, n, at);
        if (number) return number;
        if (!at) {
            memcpy(head, part, n < HEAD ? n : HEAD);
            const char *text = memmem(head, HEAD, STK_SEAL_TEXT, sizeof STK_SEAL_TEXT - 1);
            s->at = text ? (size_t)(text - head) + sizeof STK_SEAL_TEXT - 1 : HEAD;
            s->hole = DIGITS + (is_png(head) ? CHECKSUM : 0);
            if (s->at + s->hole > (n < HEAD ? n : HEAD) || s->at < TYPE_AND_KEY + sizeof STK_SEAL_TEXT - 1)
                return STK_ENDED;
            memcpy(found, part + s->at, s->hole);
            memcpy(part + s->at, zeros, s->hole);
        }
        hash = XXH3_64bits_withSeed(part, n, hash);
        at += n;
    }
    snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    memcpy(s->bytes, digits, DIGITS);
    if (is_png(head)) put_checksum(s->bytes + DIGITS, head, s);
    return 0;
}

int stk_seal(FILE *stream)
{
    seal s;
    char found[DIGITS + CHECKSUM];
    if (fflush(stream) != 0) return errno;
    const int fd = fileno(stream), number = work_out(fd, &s, found);
    if (number) return number > 0 ? number : EIO;
    if (fseek(stream, (long)s.at, SEEK_SET) != 0 || fwrite(s.bytes, 1, s.hole, stream) != s.hole)
        return errno;
    return 0;
}

int stk_sealed(const char *path)
{
    seal s;
    char found[DIGITS + CHECKSUM];
    const int fd = stk_open(path, O_RDONLY | O_NONBLOCK, 0); /* a pipe would wait for its writer */
    if (fd < 0) return 0;
    const int whole = !work_out(fd, &s, found) && !memcmp(found, s.bytes, s.hole);
    close(fd);
    return whole;
}
