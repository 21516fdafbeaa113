/* SPDX-License-Identifier: Apache-2.0
 *
 * The file "memo" is a row of records of 48 bytes, appended with O_APPEND by any number of processes. Each
 * carries its own checksum; what a killed process or a full disk left half-written is stepped over. In memory
 * they are an open-addressing table of (hash of the identity, digest), 32 bytes a slot.
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/rng.h"
#include "src/cache/layout.h"

static const uint64_t young_ns = UINT64_C(3000000000);
enum {
    FILE_LIMIT = 64 << 20, /* 1.4 million files; more are known for this run only */
    FIRST_SLOTS = 1024
};

typedef struct slot {
    uint64_t identity[2]; /* XXH3-128 of stk_cache_identity; both 0: empty */
    uint64_t digest[2];
} slot;

typedef struct record {
    uint64_t magic;
    slot known;
    uint64_t check; /* XXH3-64 of all before */
} record;

struct stk_memo {
    pthread_mutex_t lock;
    slot *slots;
    size_t mask, used; /* mask + 1 slots, a power of two */
    uint64_t salt;     /* what a maker of files cannot know: see find_slot */
    int fd;            /* of the file, for appending; -1 = none */
    uint64_t file_bytes;
};

stk_cache_digest stk_digest_of(const void *bytes, size_t size)
{
    const XXH128_hash_t hash = XXH3_128bits(bytes, size);
    return (stk_cache_digest){ { hash.low64, hash.high64 } };
}

/* ---- identity ---- */

static uint64_t nanoseconds(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * UINT64_C(1000000000) + (uint64_t)t->tv_nsec;
}

int stk_identity_of(const stoke_blob *blob, stk_cache_identity *identity)
{
    struct stat st;
    if (stoke_stat(blob->path, &st) != 0 || !S_ISREG(st.st_mode)) return 0;
    *identity = (stk_cache_identity){ .device = st.st_dev,
                                      .inode = st.st_ino,
                                      .mtime_ns = nanoseconds(&st.st_mtim),
                                      .ctime_ns = nanoseconds(&st.st_ctim),
                                      .file_size = (uint64_t)st.st_size,
                                      .offset = blob->offset,
                                      .size = blob->size };
    return 1;
}

int stk_identity_equal(const stk_cache_identity *a, const stk_cache_identity *b)
{
    return memcmp(a, b, sizeof *a) == 0; /* seven 64-bit numbers: no padding */
}

/* Changed so lately that another change could bear the same time stamps. A stamp in the future is young for
 * as long as it is. */
static int is_young(const stk_cache_identity *identity)
{
    const uint64_t now = stk_clock_ns(CLOCK_REALTIME);
    const uint64_t changed =
        identity->mtime_ns > identity->ctime_ns ? identity->mtime_ns : identity->ctime_ns;
    return changed + young_ns > now;
}

static slot slot_of(const stk_cache_identity *identity, const stk_cache_digest *digest)
{
    const XXH128_hash_t hash = XXH3_128bits(identity, sizeof *identity);
    return (slot){ { hash.low64, hash.high64 }, { digest->word[0], digest->word[1] } };
}

/* ---- the table ---- */

static int is_empty(const uint64_t identity[2])
{
    return !identity[0] && !identity[1];
}

static slot *find_slot(const stk_memo *memo, const uint64_t identity[2])
{
    /* Identities are hashes, but those in the file are anyone's: made to share a slot, they would make
     * loading quadratic. */
    size_t i = stk_mix64(identity[0] ^ stk_mix64(identity[1] ^ memo->salt)) & memo->mask;
    for (;; i = (i + 1) & memo->mask) {
        slot *s = &memo->slots[i];
        if (is_empty(s->identity) || !memcmp(s->identity, identity, sizeof s->identity)) return s;
    }
}

/* At most half of the slots are used. */
static int make_room(stk_memo *memo, size_t more)
{
    size_t slots = memo->mask + 1, need;
    if (!stk_add(memo->used, more, &need) || !stk_mul(need, 2, &need)) return 0;
    while (slots < need)
        if (!stk_mul(slots, 2, &slots)) return 0;
    if (slots == memo->mask + 1) return 1;
    const stk_memo old = *memo;
    slot *fresh = stk_calloc(slots, sizeof *fresh);
    if (!fresh) return 0;
    memo->slots = fresh;
    memo->mask = slots - 1;
    for (size_t i = 0; i <= old.mask; i++)
        if (!is_empty(old.slots[i].identity)) *find_slot(memo, old.slots[i].identity) = old.slots[i];
    stk_free(old.slots);
    return 1;
}

/* 1 when it was not known before. Later records win: they are newer. */
static int insert(stk_memo *memo, const slot *what)
{
    if (!make_room(memo, 1)) return 0;
    slot *s = find_slot(memo, what->identity);
    const int fresh = is_empty(s->identity);
    *s = *what;
    memo->used += (size_t)fresh;
    return fresh;
}

int stk_memo_reserve(stk_memo *memo, uint64_t files)
{
    pthread_mutex_lock(&memo->lock);
    const int r = files <= SIZE_MAX && make_room(memo, (size_t)files);
    pthread_mutex_unlock(&memo->lock);
    return r;
}

uint64_t stk_memo_memory(stk_memo *memo)
{
    pthread_mutex_lock(&memo->lock);
    const uint64_t bytes = (memo->mask + 1) * sizeof *memo->slots;
    pthread_mutex_unlock(&memo->lock);
    return bytes;
}

uint64_t stk_memo_bytes(uint64_t files)
{
    uint64_t slots = FIRST_SLOTS;
    while (slots < 2 * files && slots < SIZE_MAX / sizeof(slot) / 4) slots *= 2;
    return slots * sizeof(slot);
}

/* ---- the file ---- */

static record record_of(const slot *s)
{
    record r = { .magic = STK_MEMO_MAGIC, .known = *s };
    r.check = XXH3_64bits(&r, offsetof(record, check));
    return r;
}

/* No sum of our own has the identity 0: in the table it would be an empty slot. */
static int is_record(const record *r)
{
    return r->magic == STK_MEMO_MAGIC && r->check == XXH3_64bits(r, offsetof(record, check)) &&
           !is_empty(r->known.identity);
}

int stk_memo_take(stk_memo *memo, const void *file, size_t size)
{
    const uint8_t *bytes = file;
    int tidy = 1;
    for (size_t at = 0; at < size;) {
        record r;
        if (size - at < sizeof r) return 0;
        memcpy(&r, bytes + at, sizeof r);
        if (!is_record(&r)) {
            tidy = 0;
            at++; /* a torn record may have any length: look for the next one at every byte */
            continue;
        }
        tidy &= insert(memo, &r.known);
        at += sizeof r;
    }
    return tidy;
}

size_t stk_memo_file(const stk_memo *memo, void *to)
{
    uint8_t *bytes = to;
    size_t at = 0;
    for (size_t i = 0; to && i <= memo->mask; i++) {
        const slot *s = &memo->slots[i];
        if (is_empty(s->identity)) continue;
        const record r = record_of(s);
        memcpy(bytes + at, &r, sizeof r);
        at += sizeof r;
    }
    return memo->used * sizeof(record);
}

/* Writes what is known instead of what was there. Failing costs the memory of earlier runs, nothing else. */
static void rewrite(stk_memo *memo)
{
    const size_t size = stk_memo_file(memo, NULL);
    uint8_t *bytes = stk_alloc(size);
    if (!bytes) return;
    stk_memo_file(memo, bytes);
    if (ftruncate(memo->fd, 0) == 0) {
        const ssize_t n = write(memo->fd, bytes, size);
        memo->file_bytes = n > 0 ? (uint64_t)n : 0;
    }
    stk_free(bytes);
}

static void load(stk_memo *memo, int fd, int alone)
{
    struct stat st;
    if (stoke_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return;
    memo->file_bytes = (uint64_t)st.st_size;
    if (memo->file_bytes > FILE_LIMIT) { /* not ours to repair while others append */
        if (alone && memo->fd >= 0 && ftruncate(memo->fd, 0) == 0) memo->file_bytes = 0;
        return;
    }
    uint8_t *bytes = stk_alloc((size_t)st.st_size);
    if (!bytes) return;
    const int read = !stk_pread(fd, bytes, (size_t)st.st_size, 0);
    const int tidy = !read || stk_memo_take(memo, bytes, (size_t)st.st_size); /* unread is not untidy */
    stk_free(bytes);
    if (!tidy && alone && memo->fd >= 0) rewrite(memo);
}

int stk_memo_open(stk_memo **out, int folder, int alone, int writable, stoke_error *err)
{
    *out = NULL;
    stk_memo *memo = stk_calloc(1, sizeof *memo);
    if (memo) memo->slots = stk_calloc(FIRST_SLOTS, sizeof *memo->slots);
    if (!memo || !memo->slots) {
        stk_free(memo);
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the digests of the cache");
    }
    memo->mask = FIRST_SLOTS - 1;
    memo->salt = stk_mix64(stk_now_ns() ^ (uint64_t)(uintptr_t)memo);
    memo->fd = -1;
    pthread_mutex_init(&memo->lock, NULL);
    if (folder >= 0) {
        if (writable) memo->fd = stk_openat(folder, "memo", O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0666);
        const uint64_t magic = STK_MEMO_MAGIC;
        if (memo->fd >= 0 && !stk_ours_begins(memo->fd, &magic, sizeof magic)) { /* somebody's notes */
            close(memo->fd);
            memo->fd = -1;
        }
        const int fd = memo->fd >= 0 ? memo->fd : stk_openat(folder, "memo", O_RDONLY | O_NOFOLLOW, 0);
        if (fd >= 0) load(memo, fd, alone);
        if (fd >= 0 && fd != memo->fd) close(fd);
    }
    *out = memo;
    return STOKE_OK;
}

void stk_memo_close(stk_memo **pointer)
{
    stk_memo *memo = *pointer;
    if (!memo) return;
    *pointer = NULL;
    if (memo->fd >= 0) close(memo->fd);
    pthread_mutex_destroy(&memo->lock);
    stk_free(memo->slots);
    stk_free(memo);
}

int stk_memo_find(stk_memo *memo, const stk_cache_identity *identity, stk_cache_digest *digest)
{
    const slot wanted = slot_of(identity, &(stk_cache_digest){ { 0 } });
    pthread_mutex_lock(&memo->lock);
    const slot *s = find_slot(memo, wanted.identity);
    const int known = !is_empty(s->identity);
    if (known) memcpy(digest->word, s->digest, sizeof digest->word);
    pthread_mutex_unlock(&memo->lock);
    return known;
}

void stk_memo_add(stk_memo *memo, const stk_cache_identity *identity, const stk_cache_digest *digest)
{
    if (is_young(identity)) return;
    const slot s = slot_of(identity, digest);
    pthread_mutex_lock(&memo->lock);
    const int fresh = insert(memo, &s);
    if (fresh && memo->fd >= 0 && memo->file_bytes < FILE_LIMIT) {
        const record r = record_of(&s);
        /* A write that fails or is cut short is a torn record to the next run: stepped over. */
        if (write(memo->fd, &r, sizeof r) == (ssize_t)sizeof r)
            memo->file_bytes += sizeof r;
        else
            memo->file_bytes = FILE_LIMIT;
    }
    pthread_mutex_unlock(&memo->lock);
}
