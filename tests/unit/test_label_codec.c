/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <dirent.h>

#include "src/base/clock.h"
#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/cache/entry.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5 };
static const uint64_t seed = 20261116;

/* A map with guard bytes around it and in the gaps between its rows. */
typedef struct framed {
    stoke_image map;
    uint8_t *block;
    size_t bytes;
} framed;

static framed frame(uint32_t width, uint32_t height, uint8_t depth, size_t gap)
{
    framed f = { .map = { NULL, (size_t)width * depth + gap, width, height, 1, depth } };
    f.bytes = f.map.stride * height + 2 * GUARD;
    f.block = malloc(f.bytes);
    memset(f.block, GUARD_BYTE, f.bytes);
    f.map.data = f.block + GUARD;
    return f;
}

static void assert_frame_whole(const framed *f)
{
    const size_t row_bytes = (size_t)f->map.width * f->map.depth;
    for (size_t i = 0; i < f->bytes; i++) {
        const size_t at = i - GUARD; /* wraps for the front guard */
        const int inside = i >= GUARD && i < f->bytes - GUARD && at % f->map.stride < row_bytes;
        if (!inside && f->block[i] != GUARD_BYTE) fail_msg("byte %zu outside the map was written", i);
    }
}

static int same(const stoke_image *a, const stoke_image *b)
{
    for (uint32_t y = 0; y < a->height; y++)
        if (memcmp((char *)a->data + y * a->stride, (char *)b->data + y * b->stride,
                   (size_t)a->width * a->depth))
            return 0;
    return 1;
}

/* Packs, unpacks into packed rows and into rows with gaps, compares; returns the packed size. */
static size_t round_trip(const stoke_image *map)
{
    const size_t bound = stk_labels_pack_bound(map->width, map->height, map->depth);
    uint8_t *packed = malloc(bound);
    const size_t bytes = stk_labels_pack(map, packed);
    assert_true(bytes <= bound);
    uint8_t *exact = malloc(bytes); /* the sanitizer sees a read behind its end */
    memcpy(exact, packed, bytes);
    for (size_t gap = 0; gap < 40; gap += 13) {
        framed out = frame(map->width, map->height, map->depth, gap);
        stoke_error err = { 0 };
        if (stk_labels_unpack(exact, bytes, &out.map, &err)) fail_msg("%s", err.message);
        assert_true(same(map, &out.map));
        assert_frame_whole(&out);
        free(out.block);
    }
    free(exact);
    free(packed);
    return bytes;
}

/* Rectangles of classes over each other: what label maps look like. `longest` bounds their sides. */
static void draw_map(stoke_image *map, uint64_t key, unsigned rectangles, uint32_t longest)
{
    for (uint32_t y = 0; y < map->height; y++)
        memset((char *)map->data + y * map->stride, 0, (size_t)map->width * map->depth);
    for (unsigned i = 0; i < rectangles; i++) {
        const stk_rng r = stk_philox(seed, key, i, 0, 0), s = stk_philox(seed, key, i, 0, 1);
        const uint32_t x0 = r.word[0] % map->width, y0 = r.word[1] % map->height;
        const uint16_t id = (uint16_t)s.word[0];
        for (uint32_t y = y0; y < map->height && y - y0 < 1 + r.word[2] % longest; y++)
            for (uint32_t x = x0; x < map->width && x - x0 < 1 + r.word[3] % longest; x++) {
                uint8_t *p = (uint8_t *)map->data + y * map->stride + (size_t)x * map->depth;
                memcpy(p, &id, map->depth);
            }
    }
}

static void random_maps_come_back(void **state)
{
    print_message("# seed %llu\n", (unsigned long long)seed);
    for (uint64_t key = 0; key < 600; key++) {
        const stk_rng r = stk_philox(seed, key, 0, 1, 0);
        const uint32_t width = 1 + r.word[0] % (key % 7 ? 70 : 700), height = 1 + r.word[1] % 40;
        framed f = frame(width, height, 1 + (r.word[2] & 1), r.word[3] % 3 * 5);
        draw_map(&f.map, key, r.word[2] >> 8 & 31, 1 + (key & 3 ? 60 : 2));
        round_trip(&f.map);
        free(f.block);
    }
}

static void lengths_around_every_step(void **state)
{
    /* One run of n and one of the rest: byte counts of the length (127/128, 16383/16384) and ends of the
     * 16-byte steps. */
    static const uint32_t lengths[] = { 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 127, 128, 129, 16383, 16384 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (uint8_t depth = 1; depth <= 2; depth++)
            for (uint32_t rest = 0; rest < 20; rest++) {
                framed f = frame(lengths[i] + rest, 3, depth, 0);
                memset(f.map.data, 7, f.map.stride * 3);
                memset((char *)f.map.data + f.map.stride + lengths[i] * depth, 9, rest * depth);
                round_trip(&f.map);
                free(f.block);
            }
}

static void noise_is_stored_as_it_is(void **state)
{
    framed f = frame(512, 512, 1, 0);
    for (size_t i = 0; i < 512 * 512; i++) ((uint8_t *)f.map.data)[i] = (uint8_t)stk_mix64(i);
    assert_int_equal(round_trip(&f.map), 512 * 512 + 1);
    free(f.block);
}

static void one_class_takes_a_byte_per_row(void **state)
{
    framed f = frame(512, 512, 2, 0);
    memset(f.map.data, 3, 512 * 1024);
    assert_int_equal(round_trip(&f.map), 1 + 4 + 511);
    free(f.block);
}

static void refuse(const uint8_t *packed, size_t bytes, const stoke_image *map)
{
    stoke_error err = { 0 };
    uint8_t *exact = calloc(bytes ? bytes : 1, 1);
    if (bytes) memcpy(exact, packed, bytes);
    assert_int_equal(stk_labels_unpack(exact, bytes, map, &err), STOKE_E_FORMAT);
    assert_non_null(strstr(err.message, "4x2"));
    free(exact);
}

static void wrong_codes_are_refused(void **state)
{
    framed f = frame(4, 2, 1, 0);
    refuse((const uint8_t[]){ 0 }, 0, &f.map);
    refuse((const uint8_t[]){ 2, 4, 1, 0 }, 4, &f.map);                         /* no such kind */
    refuse((const uint8_t[]){ 1, 0, 4, 1 }, 4, &f.map);                         /* no row above the first */
    refuse((const uint8_t[]){ 1, 5, 1, 0 }, 4, &f.map);                         /* longer than the row */
    refuse((const uint8_t[]){ 1, 3, 1, 2, 1, 0 }, 6, &f.map);                   /* the second run is */
    refuse((const uint8_t[]){ 1, 3, 1, 0, 1, 0 }, 6, &f.map);                   /* empty run */
    refuse((const uint8_t[]){ 1, 4, 1 }, 3, &f.map);                            /* a row is missing */
    refuse((const uint8_t[]){ 1, 4, 1, 4 }, 4, &f.map);                         /* an id is missing */
    refuse((const uint8_t[]){ 1, 4, 1, 0, 0 }, 5, &f.map);                      /* a row too many */
    refuse((const uint8_t[]){ 1, 0x84, 0x80, 0x80, 0x80, 0x80, 0 }, 7, &f.map); /* endless length */
    refuse((const uint8_t[]){ 1, 0x84, 0x80 }, 3, &f.map);                      /* length cut off */
    refuse((const uint8_t[]){ 0, 1, 2, 3, 4, 5, 6, 7 }, 8, &f.map);             /* raw, a byte short */
    assert_frame_whole(&f);
    assert_int_equal(stk_labels_unpack((const uint8_t[]){ 1, 4, 9, 0 }, 4, &f.map, NULL), STOKE_OK);
    assert_memory_equal(f.map.data, "\x9\x9\x9\x9\x9\x9\x9\x9", 8);
    free(f.block);
}

/* No change of a byte makes the unpacker leave its map, and cut codes never pass. */
static void damaged_codes_stay_inside(void **state)
{
    framed f = frame(61, 23, 2, 6), out = frame(61, 23, 2, 6);
    draw_map(&f.map, 1, 12, 30);
    uint8_t *packed = malloc(stk_labels_pack_bound(61, 23, 2));
    const size_t bytes = stk_labels_pack(&f.map, packed);
    assert_int_equal(packed[0], 1);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(stk_labels_unpack(packed, i, &out.map, NULL), STOKE_E_FORMAT);
        for (int bit = 0; bit < 8; bit++) {
            packed[i] ^= (uint8_t)(1 << bit);
            stk_labels_unpack(packed, bytes, &out.map, NULL);
            packed[i] ^= (uint8_t)(1 << bit);
        }
        assert_frame_whole(&out);
    }
    free(packed);
    free(f.block);
    free(out.block);
}

/* ---- real masks ---- */

/* Decodes a mask and enlarges it to 512 x 512 by repeating pixels. */
static int load_mask(stoke_decoder *decoder, const char *path, uint8_t *ids)
{
    static uint8_t file[1 << 20];
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    const size_t size = fread(file, 1, sizeof file, f);
    fclose(f);
    stoke_decode_params params = stoke_decode_defaults();
    params.purpose = STOKE_PURPOSE_MASK;
    stoke_image mask;
    if (stoke_decoder_decode(decoder, file, size, &params, &mask, NULL) || mask.channels * mask.depth != 1)
        return 0;
    for (uint32_t y = 0; y < 512; y++)
        for (uint32_t x = 0; x < 512; x++)
            ids[y * 512 + x] =
                ((uint8_t *)
                     mask.data)[(size_t)y * mask.height / 512 * mask.stride + (size_t)x * mask.width / 512];
    return 1;
}

/* Nanoseconds of one unpacking, the best of some. */
static uint64_t unpack_ns(const uint8_t *packed, size_t bytes, const stoke_image *map)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        const uint64_t begin = stk_now_ns();
        assert_int_equal(stk_labels_unpack(packed, bytes, map, NULL), STOKE_OK);
        const uint64_t took = stk_now_ns() - begin;
        if (took < best) best = took;
    }
    return best;
}

/* Prints what the codec does to real masks; the ratio is held, the time (one busy machine) is only shown. */
static void real_masks_shrink(void **state)
{
    const char *folder = unit_data("camvid/trainannot");
    if (!folder) skip();
    stoke_decoder *decoder;
    assert_int_equal(stoke_decoder_create(&decoder, NULL), STOKE_OK);
    framed f = frame(512, 512, 1, 0), out = frame(512, 512, 1, 0);
    uint8_t *packed = malloc(stk_labels_pack_bound(512, 512, 1));
    uint64_t raw = 0, small = 0, ns = 0, pack_ns = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) && raw < 100 * 512 * 512;) {
        char path[8192];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (!load_mask(decoder, path, f.map.data)) continue;
        const uint64_t begin = stk_now_ns();
        const size_t bytes = stk_labels_pack(&f.map, packed);
        pack_ns += stk_now_ns() - begin;
        small += bytes;
        raw += 512 * 512;
        ns += unpack_ns(packed, bytes, &out.map);
        assert_true(same(&f.map, &out.map));
    }
    closedir(dir);
    assert_true(raw > 0);
    print_message("# %llu masks: %.1f times smaller, unpacked at %.2f GB/s, packed at %.2f GB/s\n",
                  (unsigned long long)(raw / 512 / 512), (double)raw / (double)small,
                  (double)raw / (double)ns, (double)raw / (double)pack_ns);
    assert_true(small * 8 < raw);
    free(packed);
    free(f.block);
    free(out.block);
    stoke_decoder_destroy(&decoder);
}

/* The dearest map that is still stored as runs: all of them as short as the rule allows. */
static void shortest_runs_are_bearable(void **state)
{
    framed f = frame(512, 512, 1, 0);
    for (size_t at = 0, i = 0; at < 512 * 512; i++)
        for (size_t n = 1 + stk_mix64(i) % 16; n && at < 512 * 512; n--)
            ((uint8_t *)f.map.data)[at++] = (uint8_t)(stk_mix64(i) >> 40);
    uint8_t *packed = malloc(stk_labels_pack_bound(512, 512, 1));
    const size_t bytes = stk_labels_pack(&f.map, packed);
    print_message("# runs of 1 to 16 pixels: %zu bytes, kind %d, %.3f ms\n", bytes, packed[0],
                  (double)unpack_ns(packed, bytes, &f.map) / 1e6);
    round_trip(&f.map);
    free(packed);
    free(f.block);
}

UNIT_GROUP(label_codec)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_maps_come_back),    cmocka_unit_test(lengths_around_every_step),
        cmocka_unit_test(noise_is_stored_as_it_is), cmocka_unit_test(one_class_takes_a_byte_per_row),
        cmocka_unit_test(wrong_codes_are_refused),  cmocka_unit_test(damaged_codes_stay_inside),
        cmocka_unit_test(real_masks_shrink),        cmocka_unit_test(shortest_runs_are_bearable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
