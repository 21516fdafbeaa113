/* SPDX-License-Identifier: Apache-2.0
 *
 * Archives made by hand, block by block, so that each can be wrong in its own way. (The library's writer
 * would refuse to.)
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_ARCHIVE_H
#define STOKE_TESTS_UNIT_FIXTURE_ARCHIVE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct archive {
    unsigned char bytes[1 << 17];
    size_t size;
} archive;

/* Sums the header that begins at `at` again, after something in it was changed. */
static inline void archive_sum(archive *a, size_t at)
{
    unsigned sum = 0;
    memset(a->bytes + at + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += a->bytes[at + (size_t)i];
    snprintf((char *)a->bytes + at + 148, 8, "%06o", sum);
}

/* A ustar header; returns where it begins. */
static inline size_t archive_header(archive *a, const char *name, char type, unsigned long long size)
{
    const size_t at = a->size;
    unsigned char *h = a->bytes + at;
    char text[24];
    memset(h, 0, 512);
    memcpy(h, name, strlen(name) < 100 ? strlen(name) : 100);
    memcpy(h + 100, "0000644", 8);
    memcpy(h + 108, "0000000", 8);
    memcpy(h + 116, "0000000", 8);
    snprintf(text, sizeof text, "%011llo", size);
    memcpy(h + 124, text, 12);
    memcpy(h + 136, "00000000000", 12);
    h[156] = (unsigned char)type;
    memcpy(h + 257,
           "ustar\0"
           "00",
           8);
    archive_sum(a, at);
    a->size += 512;
    return at;
}

/* Contents, padded to a block. */
static inline void archive_bytes(archive *a, const void *bytes, size_t n)
{
    memset(a->bytes + a->size, 0, (n + 511) / 512 * 512);
    memcpy(a->bytes + a->size, bytes, n);
    a->size += (n + 511) / 512 * 512;
}

static inline size_t archive_member(archive *a, const char *name, char type, const void *bytes, size_t n)
{
    const size_t at = archive_header(a, name, type, n);
    archive_bytes(a, bytes, n);
    return at;
}

static inline size_t archive_file(archive *a, const char *name, const char *text)
{
    return archive_member(a, name, '0', text, strlen(text));
}

/* A pax header with one record. */
static inline void archive_pax(archive *a, char type, const char *key, const char *value)
{
    char text[8192];
    size_t rest = strlen(key) + strlen(value) + 3, n = rest + 1;
    for (size_t before = 0; before != n;) before = n, n = rest + (size_t)snprintf(NULL, 0, "%zu", n);
    snprintf(text, sizeof text, "%zu %s=%s\n", n, key, value);
    archive_member(a, "PaxHeaders/x", type, text, n);
}

static inline void archive_end(archive *a)
{
    memset(a->bytes + a->size, 0, 1024);
    a->size += 1024;
}

#endif
