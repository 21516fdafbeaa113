/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache as its users see it: what went in comes out, or nothing does.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "src/base/rng.h"
#include "src/cache/entry.h"

static const uint64_t seed = 20261117;

/* ---- samples made from a number ---- */

typedef struct made {
    stk_cache_hit cached;
    stk_cache_key key;
} made;

static void fill_image(stoke_image *image, uint64_t n)
{
    const size_t row_bytes = (size_t)image->width * image->channels * image->depth;
    image->data = malloc(image->stride * image->height);
    memset(image->data, 0xee, image->stride * image->height);
    for (uint32_t y = 0; y < image->height; y++)
        for (size_t i = 0; i < row_bytes; i++) /* masks: few values, in blocks */
            ((uint8_t *)image->data)[y * image->stride + i] =
                (uint8_t)(image->channels == 3 ? stk_mix64(n * 1000003 + y * row_bytes + i)
                                               : stk_mix64(n + y / 8 * 977 + i / 12));
}

/* gap: bytes between rows; mask_depth 0: none. */
static made make(uint64_t n, uint32_t width, uint32_t height, uint8_t depth, uint8_t mask_depth, size_t gap)
{
    made m = { .key = { { stk_mix64(n + 1), stk_mix64(n + 77) } } };
    m.cached = (stk_cache_hit){ .image = { NULL, (size_t)width * 3 * depth + gap, width, height, 3, depth },
                                .source_width = width * 2,
                                .source_height = height * 3 };
    fill_image(&m.cached.image, n);
    if (mask_depth) {
        m.cached.mask = (stoke_image){ NULL, (size_t)width * mask_depth + gap, width, height, 1, mask_depth };
        fill_image(&m.cached.mask, n);
    }
    return m;
}

static made plain(uint64_t n)
{
    return make(n, 40, 30, 1, 1, 0);
}

static void unmake(made *m)
{
    free(m->cached.image.data);
    free(m->cached.mask.data);
}

static int same_picture(const stoke_image *a, const stoke_image *b)
{
    const size_t row_bytes = (size_t)a->width * a->channels * a->depth;
    if (!a->data || !b->data) return !a->data && !b->data;
    if (a->width != b->width || a->height != b->height || a->channels != b->channels || a->depth != b->depth)
        return 0;
    for (uint32_t y = 0; y < a->height; y++)
        if (memcmp((char *)a->data + y * a->stride, (char *)b->data + y * b->stride, row_bytes)) return 0;
    return 1;
}

static int same(const stk_cache_hit *a, const stk_cache_hit *b)
{
    return same_picture(&a->image, &b->image) && same_picture(&a->mask, &b->mask) &&
           a->source_width == b->source_width && a->source_height == b->source_height;
}

static stk_cache *open_cache(const char *folder, uint64_t disk, uint64_t ram)
{
    stk_cache *cache;
    stoke_error err = { 0 };
    const stk_cache_settings settings = { folder, disk, ram };
    if (stk_cache_open(&cache, &settings, &err)) fail_msg("%s", err.message);
    return cache;
}

static stk_cache_stats stats_of(const stk_cache *cache)
{
    stk_cache_stats stats;
    stk_cache_stats_get(cache, &stats);
    return stats;
}

static unsigned from[2]; /* hits so far: from disk, from memory */

/* 1 hit with the right pixels, 0 miss; anything else fails the test. */
static int holds(stk_cache *cache, const made *m)
{
    stk_cache_scratch scratch = { 0 };
    stk_cache_hit got;
    const int hit = stk_cache_get(cache, m->key, &scratch, NULL, NULL, &got);
    if (hit) assert_true(same(&got, &m->cached));
    if (hit) from[got.from_ram]++;
    stk_cache_scratch_free(&scratch);
    return hit;
}

static void put(stk_cache *cache, const made *m)
{
    stk_cache_scratch scratch = { 0 };
    stk_cache_put(cache, m->key, &scratch, &m->cached);
    stk_cache_scratch_free(&scratch);
}

static const char *entry_path(void **state, stk_cache_key key)
{
    char name[64];
    snprintf(name, sizeof name, "c/%02x/%016llx%016llx.stk", (unsigned)(key.word[0] >> 56),
             (unsigned long long)key.word[0], (unsigned long long)key.word[1]);
    return unit_path(state, name);
}

/* Bytes of all entries, as a stranger counts them. */
static uint64_t bytes_on_disk(const char *folder)
{
    char command[256];
    unsigned long long sum = 0;
    snprintf(command, sizeof command,
             "find '%s' -name '*.stk' -printf '%%s\\n' | awk '{s+=$1} END {print s+0}'", folder);
    FILE *f = popen(command, "r");
    assert_int_equal(fscanf(f, "%llu", &sum), 1);
    pclose(f);
    return sum;
}

/* ---- in and out ---- */

static void samples_come_back(void **state)
{
    for (int tier = 0; tier < 2; tier++) {
        stk_cache *cache = tier ? open_cache(NULL, 0, 1 << 24) : open_cache(unit_path(state, "c"), 0, 0);
        from[0] = from[1] = 0;
        for (unsigned i = 0; i < 24; i++) {
            made m = make(i, 1 + i * 7 % 50, 1 + i * 13 % 60, 1 + (i & 1), (uint8_t)(i % 3), i % 4 * 5);
            assert_int_equal(holds(cache, &m), 0);
            put(cache, &m);
            assert_int_equal(holds(cache, &m), 1);
            unmake(&m);
        }
        const stk_cache_stats stats = stats_of(cache);
        assert_int_equal(from[tier], 24);
        assert_int_equal(from[!tier], 0);
        assert_int_equal(stats.damaged, 0);
        if (!tier) assert_int_equal(stats.disk_bytes, bytes_on_disk(unit_path(state, "c")));
        assert_null(stk_cache_warning(cache));
        stk_cache_close(&cache);
        assert_null(cache);
    }
}

static void pixels_go_straight_to_the_target(void **state)
{
    made m = plain(1);
    uint8_t image[40 * 30 * 3], mask[40 * 30];
    const stoke_image image_target = { image, 120, 40, 30, 3, 1 }, mask_target = { mask, 40, 40, 30, 1, 1 };
    stoke_image other_size = image_target, with_gap = image_target;
    other_size.width = 39;
    with_gap.stride = 128;
    for (int tier = 0; tier < 2; tier++) {
        stk_cache *cache = tier ? open_cache(NULL, 0, 1 << 24) : open_cache(unit_path(state, "c"), 0, 0);
        stk_cache_scratch scratch = { 0 };
        stk_cache_hit got;
        put(cache, &m);
        memset(image, 0, sizeof image);
        assert_int_equal(stk_cache_get(cache, m.key, &scratch, &image_target, &mask_target, &got), 1);
        assert_ptr_equal(got.image.data, image);
        assert_ptr_equal(got.mask.data, mask);
        assert_true(same(&got, &m.cached));
        memset(image, 0, sizeof image);
        assert_int_equal(stk_cache_get(cache, m.key, &scratch, &other_size, NULL, &got), 1);
        assert_true(got.image.data != image && got.mask.data != mask);
        assert_true(same(&got, &m.cached));
        assert_int_equal(stk_cache_get(cache, m.key, &scratch, &with_gap, &mask_target, &got), 1);
        assert_true(got.image.data != image && got.mask.data == mask);
        for (size_t i = 0; i < sizeof image; i++) assert_int_equal(image[i], 0);
        stk_cache_scratch_free(&scratch);
        stk_cache_close(&cache);
    }
    unmake(&m);
}

static void keys_tell_inputs_apart(void **state)
{
    const stk_cache_digest a = stk_digest_of("a", 1), b = stk_digest_of("b", 1), zero = { { 0, 0 } };
    const stk_cache_key keys[] = {
        stk_cache_key_make(&a, &b, "x"),   stk_cache_key_make(&b, &a, "x"),
        stk_cache_key_make(&a, NULL, "x"), stk_cache_key_make(&a, &zero, "x"),
        stk_cache_key_make(&a, &b, "y"),   stk_cache_key_make(&a, &b, ""),
    };
    const stk_cache_key again = stk_cache_key_make(&a, &b, "x");
    assert_memory_equal(&again, &keys[0], sizeof again);
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(&keys[i], &keys[j], sizeof keys[0]);
}

static void wrong_samples_are_not_kept(void **state)
{
    stk_cache *cache = open_cache(NULL, 0, 1 << 24);
    made m = plain(1);
    m.cached.mask.height--;
    put(cache, &m);
    assert_int_equal(holds(cache, &m), 0);
    m.cached.mask.height++;
    m.cached.source_width = 0;
    put(cache, &m);
    assert_int_equal(holds(cache, &m), 0);
    unmake(&m);
    stk_cache_close(&cache);
}

/* ---- damage ---- */

/* The entry is a miss, counted, gone; and can be made again. */
static void expect_damage(void **state, stk_cache *cache, const made *m)
{
    const uint64_t damaged = stats_of(cache).damaged;
    struct stat st;
    if (holds(cache, m)) fail_msg("a damaged entry was used");
    assert_int_equal(stats_of(cache).damaged, damaged + 1);
    assert_int_not_equal(lstat(entry_path(state, m->key), &st), 0);
    put(cache, m);
    assert_int_equal(holds(cache, m), 1);
}

static void torn_at_any_byte(void **state)
{
    stk_cache *cache = open_cache(unit_path(state, "c"), 0, 0);
    made m = plain(1);
    size_t size;
    put(cache, &m);
    uint8_t *bytes = unit_read(entry_path(state, m.key), &size);
    for (size_t cut = 0; cut < size; cut += cut < sizeof(stk_entry_header) + 8 ? 1 : 97) {
        unit_write(entry_path(state, m.key), bytes, cut);
        expect_damage(state, cache, &m);
    }
    unit_write(entry_path(state, m.key), bytes, size - 1);
    expect_damage(state, cache, &m);
    uint8_t *longer = realloc(bytes, size + 1);
    longer[size] = 0;
    unit_write(entry_path(state, m.key), longer, size + 1);
    expect_damage(state, cache, &m);
    assert_int_equal(stats_of(cache).disk_bytes > 0, 1);
    free(longer);
    unmake(&m);
    stk_cache_close(&cache);
}

static void altered_at_any_byte(void **state)
{
    stk_cache *cache = open_cache(unit_path(state, "c"), 0, 0);
    made m = plain(1);
    size_t size;
    put(cache, &m);
    uint8_t *bytes = unit_read(entry_path(state, m.key), &size);
    for (size_t i = 0; i < size; i += i < sizeof(stk_entry_header) + 8 || i > size - 20 ? 1 : 89) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        unit_write(entry_path(state, m.key), bytes, size);
        expect_damage(state, cache, &m);
        bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    free(bytes);
    unmake(&m);
    stk_cache_close(&cache);
}

static void entries_of_other_keys_and_kinds(void **state)
{
    stk_cache *cache = open_cache(unit_path(state, "c"), 0, 0);
    made a = plain(1), b = plain(2);
    size_t size;
    put(cache, &a);
    put(cache, &b);
    uint8_t *bytes = unit_read(entry_path(state, a.key), &size);
    unit_write(entry_path(state, b.key), bytes, size); /* good, but another's */
    expect_damage(state, cache, &b);
    /* What is no regular file was not made here: neither used nor removed. */
    struct stat st;
    unlink(entry_path(state, b.key));
    assert_int_equal(symlink(entry_path(state, a.key), entry_path(state, b.key)), 0);
    assert_int_equal(holds(cache, &b), 0);
    put(cache, &b);
    assert_int_equal(lstat(entry_path(state, b.key), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    unlink(entry_path(state, b.key));
    assert_int_equal(mkfifo(entry_path(state, b.key), 0600), 0); /* must not hang */
    assert_int_equal(holds(cache, &b), 0);
    put(cache, &b);
    assert_int_equal(lstat(entry_path(state, b.key), &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(holds(cache, &a), 1);
    free(bytes);
    unmake(&a);
    unmake(&b);
    stk_cache_close(&cache);
}

/* A header made by someone who knows the checksum: sizes that do not fit the file or each other. */
static void hostile_headers(void **state)
{
    stk_cache *cache = open_cache(unit_path(state, "c"), 0, 0);
    made m = plain(1);
    size_t size;
    put(cache, &m);
    uint8_t *bytes = unit_read(entry_path(state, m.key), &size);
    stk_entry_header good;
    memcpy(&good, bytes, sizeof good);
    for (int i = 0; i < 8; i++) {
        stk_entry_header h = good;
        if (i == 0) h.width = UINT32_MAX, h.height = UINT32_MAX;
        if (i == 1) h.width = 0;
        if (i == 2) h.mask_bytes = UINT64_MAX - 100;
        if (i == 3) h.image_depth = 0;
        if (i == 4) h.image_depth = 2, h.width /= 2; /* the same bytes; but the ids then do not fit */
        if (i == 5) h.mask_depth = 3;
        if (i == 6) h.mask_depth = 0;
        if (i == 7) h.source_height = 0;
        stk_entry_seal(&h);
        memcpy(bytes, &h, sizeof h);
        unit_write(entry_path(state, m.key), bytes, size);
        expect_damage(state, cache, &m);
    }
    free(bytes);
    unmake(&m);
    stk_cache_close(&cache);
}

/* ---- budgets ---- */

static void disk_budget_is_kept(void **state)
{
    const uint64_t budget = 40000; /* a sample has about 4000 bytes */
    stk_cache *cache = open_cache(unit_path(state, "c"), budget, 0),
              *other = open_cache(unit_path(state, "c"), budget, 0);
    for (uint64_t n = 0; n < 30; n++) {
        made m = plain(n);
        put(n & 1 ? other : cache, &m);
        unmake(&m);
    }
    const uint64_t used = bytes_on_disk(unit_path(state, "c"));
    assert_true(used <= budget && used > budget - 5000);
    assert_int_equal(stats_of(cache).disk_bytes, used);
    assert_int_equal(stats_of(other).disk_bytes, used);
    assert_null(stk_cache_warning(cache)); /* a full budget is no fault */
    stk_cache_close(&cache);
    stk_cache_close(&other);
    /* Opened again, the sum comes from the files, whatever the counter says. */
    unit_write(unit_path(state, "c/usage"), "skusage1nonsense", 16);
    cache = open_cache(unit_path(state, "c"), budget, 0);
    assert_int_equal(stats_of(cache).disk_bytes, used);
    made m = plain(100);
    put(cache, &m);
    assert_int_equal(holds(cache, &m), 0);
    unmake(&m);
    stk_cache_close(&cache);
}

static void room_of_a_damaged_entry_is_free_again(void **state)
{
    made a = plain(1), b = plain(2);
    stk_cache *cache = open_cache(unit_path(state, "c"), 6000, 0);
    put(cache, &a);
    put(cache, &b);
    assert_int_equal(holds(cache, &a), 1);
    assert_int_equal(holds(cache, &b), 0);
    int fd = open(entry_path(state, a.key), O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 200), 1);
    close(fd);
    assert_int_equal(holds(cache, &a), 0);
    put(cache, &b);
    assert_int_equal(holds(cache, &b), 1);
    unmake(&a);
    unmake(&b);
    stk_cache_close(&cache);
}

static void two_processes_share_a_budget(void **state)
{
    const uint64_t budget = 100000;
    const char *folder = unit_path(state, "c");
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            stk_cache *cache = open_cache(folder, budget, 0);
            for (uint64_t n = 0; n < 40; n++) { /* half of them the other's too */
                made m = plain(n + (uint64_t)i * 20);
                put(cache, &m);
                unmake(&m);
            }
            stk_cache_close(&cache);
            _exit(0);
        }
    for (int i = 0, status; i < 2; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    const uint64_t used = bytes_on_disk(folder);
    assert_true(used <= budget && used > budget / 2);
    stk_cache *cache = open_cache(folder, budget, 0);
    for (uint64_t n = 0; n < 60; n++) {
        made m = plain(n);
        holds(cache, &m);
        unmake(&m);
    }
    assert_int_equal(stats_of(cache).damaged, 0);
    stk_cache_close(&cache);
}

static void ram_budget_is_kept(void **state)
{
    stk_cache *cache = open_cache(NULL, 0, 20000);
    unsigned kept = 0;
    for (uint64_t n = 0; n < 30; n++) {
        made m = plain(n);
        put(cache, &m);
        kept += (unsigned)holds(cache, &m);
        unmake(&m);
    }
    assert_true(stats_of(cache).ram_bytes <= 20000);
    assert_in_range(kept, 3, 5);
    stk_cache_close(&cache);
}

/* What the disk does not take goes to memory; what is read from disk does so while the disk has room. */
static void tiers_add_up(void **state)
{
    made m[4];
    for (uint64_t n = 0; n < 4; n++) m[n] = plain(n);
    stk_cache *cache = open_cache(unit_path(state, "c"), 10000, 10000);
    for (int n = 0; n < 4; n++) put(cache, &m[n]);
    from[0] = from[1] = 0;
    for (int n = 0; n < 4; n++) assert_int_equal(holds(cache, &m[n]), 1);
    assert_true(from[0] == 2 && from[1] == 2);
    stk_cache_close(&cache);
    cache = open_cache(unit_path(state, "c"), 0, 10000);
    for (int epoch = 0; epoch < 2; epoch++)
        for (int n = 0; n < 2; n++) assert_int_equal(holds(cache, &m[n]), 1);
    assert_true(from[0] == 4 && from[1] == 4);
    stk_cache_close(&cache);
    for (int n = 0; n < 4; n++) unmake(&m[n]);
}

static void a_limit_makes_large_entries_misses(void **state)
{
    stk_cache *cache = open_cache(unit_path(state, "c"), 0, 0);
    made m = plain(1);
    stk_cache_hit got;
    stk_cache_scratch scratch = { .limit = 3000 };
    put(cache, &m);
    assert_int_equal(stk_cache_get(cache, m.key, &scratch, NULL, NULL, &got), 0);
    assert_true(stk_cache_scratch_memory(&scratch) <= 3000);
    assert_int_equal(stats_of(cache).damaged, 0);
    scratch.limit = 8000;
    assert_int_equal(stk_cache_get(cache, m.key, &scratch, NULL, NULL, &got), 1);
    stk_cache_scratch_free(&scratch);
    unmake(&m);
    stk_cache_close(&cache);
}

/* ---- disks that say no ---- */

static void a_full_disk_is_one_warning(void **state)
{
    const char *folder = unit_path(state, "c");
    if (fork() == 0) {
        stk_cache *cache = open_cache(folder, 0, 1 << 20);
        made small = plain(1), large = make(2, 100, 100, 1, 1, 0), third = plain(3);
        put(cache, &small);
        signal(SIGXFSZ, SIG_IGN);
        const struct rlimit limit = { 10000, 10000 };
        setrlimit(RLIMIT_FSIZE, &limit);
        if (stk_cache_warning(cache)) _exit(1);
        put(cache, &large);
        if (!stk_cache_warning(cache) || !strstr(stk_cache_warning(cache), "File too large")) _exit(2);
        const char *first = stk_cache_warning(cache);
        put(cache, &third);
        if (stk_cache_warning(cache) != first) _exit(3);
        /* Memory has taken over; the disk is still read. */
        from[0] = from[1] = 0;
        if (!holds(cache, &large) || !holds(cache, &third) || !holds(cache, &small)) _exit(4);
        if (from[1] != 2 || from[0] != 1) _exit(5);
        stk_cache_close(&cache);
        _exit(0);
    }
    int status;
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
    made large = make(2, 100, 100, 1, 1, 0), third = plain(3);
    assert_int_not_equal(access(entry_path(state, large.key), F_OK), 0);
    assert_int_not_equal(access(entry_path(state, third.key), F_OK), 0);
    DIR *dir = opendir(unit_path(state, "c/tmp"));
    for (struct dirent *e; (e = readdir(dir));) assert_int_equal(e->d_name[0], '.');
    closedir(dir);
    unmake(&large);
    unmake(&third);
}

/* Another loader of this process, or one in a container whose processes have the same numbers, is writing the
 * very same entry. That is no disk that says no. */
static void a_temporary_name_may_be_taken(void **state)
{
    made m = plain(1);
    stk_entry_header header;
    stk_cache *first = open_cache(unit_path(state, "c"), 0, 0);
    put(first, &m);
    FILE *entry = fopen(entry_path(state, m.key), "rb");
    assert_int_equal(fread(&header, sizeof header, 1, entry), 1);
    fclose(entry);
    unlink(entry_path(state, m.key));
    stk_cache *second = open_cache(unit_path(state, "c"), 0, 0); /* not alone: removes no leftovers */
    for (unsigned i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "c/tmp/%lx-%x-%llx", (unsigned long)getpid(), i,
                 (unsigned long long)header.header_hash);
        unit_write(unit_path(state, name), "half", 4);
    }
    put(second, &m);
    assert_null(stk_cache_warning(second));
    assert_true(holds(second, &m));
    stk_cache_close(&first);
    stk_cache_close(&second);
    unmake(&m);
}

static void a_folder_that_cannot_be_written_is_read(void **state)
{
    made a = plain(1), b = plain(2);
    stk_cache *cache = open_cache(unit_path(state, "c"), 0, 0);
    put(cache, &a);
    stk_cache_close(&cache);
    /* A folder in the place of the count stops writing for everybody, also for root. */
    unlink(unit_path(state, "c/usage"));
    mkdir(unit_path(state, "c/usage"), 0777);
    cache = open_cache(unit_path(state, "c"), 1 << 20, 0);
    assert_non_null(stk_cache_warning(cache));
    assert_non_null(strstr(stk_cache_warning(cache), "Is a directory"));
    put(cache, &b);
    assert_int_equal(holds(cache, &a), 1);
    assert_int_equal(holds(cache, &b), 0);
    assert_int_equal(stats_of(cache).disk_bytes, 0);
    stk_cache_close(&cache);
    unmake(&a);
    unmake(&b);
}

static void a_folder_that_cannot_be_made_is_an_error(void **state)
{
    stk_cache *cache;
    stoke_error err = { 0 };
    unit_write(unit_path(state, "file"), "x", 1);
    const stk_cache_settings settings = { unit_path(state, "file/c"), 0, 0 };
    assert_int_equal(stk_cache_open(&cache, &settings, &err), STOKE_E_IO);
    assert_null(cache);
    assert_non_null(strstr(err.message, "file"));
}

static void leftovers_are_removed(void **state)
{
    made m = plain(1);
    stk_cache *made_it = open_cache(unit_path(state, "c"), 0, 0);
    stk_cache_close(&made_it);
    unit_write(unit_path(state, "c/tmp/1-2-0123456789abcdef"), "half", 4);
    unit_write(unit_path(state, "c/tmp/2026-11-17"), "mine", 4);
    stk_cache *first = open_cache(unit_path(state, "c"), 0, 0); /* alone: nobody can be writing it */
    assert_int_not_equal(access(unit_path(state, "c/tmp/1-2-0123456789abcdef"), F_OK), 0);
    assert_int_equal(access(unit_path(state, "c/tmp/2026-11-17"), F_OK), 0);
    unit_write(unit_path(state, "c/tmp/a-b-cccccccccccc"), "half", 4); /* young */
    unit_write(unit_path(state, "c/tmp/0-1-dddddddddddddddd"), "half", 4);
    const struct timespec past[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
    assert_int_equal(utimensat(AT_FDCWD, unit_path(state, "c/tmp/0-1-dddddddddddddddd"), past, 0), 0);
    stk_cache *second = open_cache(unit_path(state, "c"), 0, 0);
    assert_int_equal(access(unit_path(state, "c/tmp/a-b-cccccccccccc"), F_OK), 0);
    assert_int_not_equal(access(unit_path(state, "c/tmp/0-1-dddddddddddddddd"), F_OK), 0);
    put(second, &m);
    assert_int_equal(holds(first, &m), 1);
    stk_cache_close(&first);
    stk_cache_close(&second);
    unmake(&m);
}

static void want_of_memory_is_a_miss(void **state)
{
    made m = make(1, 40, 30, 1, 1, 8);
    for (int64_t after = 0; after < 12; after++) {
        stk_cache *cache = NULL;
        stoke_error err = { 0 };
        const stk_cache_settings settings = { unit_path(state, "c"), 0, 1 << 20 };
        stk_mem_fail_after(after);
        const int r = stk_cache_open(&cache, &settings, &err);
        if (r) assert_int_equal(r, STOKE_E_NOMEM);
        if (!r) {
            put(cache, &m);
            holds(cache, &m);
            holds(cache, &m);
        }
        stk_mem_fail_after(-1);
        if (!r) assert_int_equal(stats_of(cache).damaged, 0);
        stk_cache_close(&cache);
        unlink(entry_path(state, m.key));
    }
    unmake(&m);
}

/* ---- threads ---- */

enum { THREADS = 4, SAMPLES = 12, ROUNDS = 200 };

typedef struct crowd {
    stk_cache *cache;
    made *samples;
    unsigned number;
} crowd;

static void *crowd_run(void *argument)
{
    const crowd *c = argument;
    stk_cache_scratch scratch = { 0 };
    for (unsigned i = 0; i < ROUNDS; i++) {
        const made *m = &c->samples[stk_philox(seed, i, c->number, 0, 0).word[0] % SAMPLES];
        stk_cache_hit got;
        if (!stk_cache_get(c->cache, m->key, &scratch, NULL, NULL, &got))
            stk_cache_put(c->cache, m->key, &scratch, &m->cached);
        else if (!same(&got, &m->cached))
            return "a hit had other pixels";
        stk_cache_stats stats;
        stk_cache_stats_get(c->cache, &stats);
    }
    stk_cache_scratch_free(&scratch);
    return NULL;
}

/* Two caches on one folder, two threads each, one with memory for some of the samples. */
static void threads_and_caches_in_one_folder(void **state)
{
    made samples[SAMPLES];
    for (uint64_t n = 0; n < SAMPLES; n++) samples[n] = plain(n);
    stk_cache *caches[2] = { open_cache(unit_path(state, "c"), 1 << 20, 20000),
                             open_cache(unit_path(state, "c"), 1 << 20, 0) };
    crowd crowds[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        crowds[i] = (crowd){ caches[i & 1], samples, i };
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &crowds[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *fault;
        pthread_join(threads[i], &fault);
        if (fault) fail_msg("%s", (char *)fault);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stats_of(caches[i]).damaged, 0);
        stk_cache_close(&caches[i]);
    }
    for (uint64_t n = 0; n < SAMPLES; n++) unmake(&samples[n]);
}

UNIT_GROUP(cache)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(samples_come_back),
        unit_test_with_folder(pixels_go_straight_to_the_target),
        cmocka_unit_test(keys_tell_inputs_apart),
        cmocka_unit_test(wrong_samples_are_not_kept),
        unit_test_with_folder(torn_at_any_byte),
        unit_test_with_folder(altered_at_any_byte),
        unit_test_with_folder(entries_of_other_keys_and_kinds),
        unit_test_with_folder(hostile_headers),
        unit_test_with_folder(disk_budget_is_kept),
        unit_test_with_folder(room_of_a_damaged_entry_is_free_again),
        unit_test_with_folder(two_processes_share_a_budget),
        cmocka_unit_test(ram_budget_is_kept),
        unit_test_with_folder(tiers_add_up),
        unit_test_with_folder(a_limit_makes_large_entries_misses),
        unit_test_with_folder(a_full_disk_is_one_warning),
        unit_test_with_folder(a_temporary_name_may_be_taken),
        unit_test_with_folder(a_folder_that_cannot_be_written_is_read),
        unit_test_with_folder(a_folder_that_cannot_be_made_is_an_error),
        unit_test_with_folder(leftovers_are_removed),
        unit_test_with_folder(want_of_memory_is_a_miss),
        unit_test_with_folder(threads_and_caches_in_one_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
