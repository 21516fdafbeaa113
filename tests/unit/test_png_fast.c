/* SPDX-License-Identifier: Apache-2.0
 *
 * The short way for plain PNG against libspng: the same pixels or no answer.
 */
#include "tests/unit/fixture_pictures.h"

#include "src/codec/codec.h"

static const uint64_t seed = 20260718;

static stoke_decoder *new_decoder(void)
{
    stoke_decoder *d;
    assert_int_equal(stoke_decoder_create(&d, NULL), STOKE_OK);
    return d;
}

/* stk_png_fast alone, as png.c calls it. */
static int fast(stoke_decoder *d, bytes file, const stoke_decode_params *params, stoke_image *out)
{
    stk_codec_job job = {
        .decoder = d, .bytes = file.data, .size = file.size, .params = params, .orientation = 1
    };
    job.info = (stoke_image_info){ .format = STOKE_FORMAT_PNG, .orientation = 1 };
    int r = stk_png_fast(&job);
    *out = job.image;
    return r;
}

/* libspng's samples as stored; NULL when it refuses. */
static uint8_t *reference(bytes file, struct spng_ihdr *ihdr, size_t *size)
{
    spng_ctx *job = spng_ctx_new(0);
    uint8_t *out = NULL;
    spng_set_png_buffer(job, file.data, file.size);
    if (spng_get_ihdr(job, ihdr) == 0 && (uint64_t)ihdr->width * ihdr->height < 1 << 22 &&
        spng_decoded_image_size(job, SPNG_FMT_PNG, size) == 0) {
        out = malloc(*size);
        if (spng_decode_image(job, out, *size, SPNG_FMT_PNG, 0) != 0) free(out), out = NULL;
    }
    spng_ctx_free(job);
    return out;
}

/* What a mask of these stored samples must be: alpha gone. */
static void assert_mask(const stoke_image *mask, const uint8_t *stored, unsigned samples)
{
    unsigned kept = samples == 2 ? 1 : samples == 4 ? 3 : samples;
    assert_int_equal(mask->channels, kept);
    for (uint32_t y = 0; y < mask->height; y++)
        for (uint32_t x = 0; x < mask->width; x++)
            for (unsigned c = 0; c < kept; c++) {
                uint8_t got = ((const uint8_t *)mask->data)[y * mask->stride + x * kept + c];
                uint8_t want = stored[((size_t)y * mask->width + x) * samples + c];
                if (got != want) fail_msg("pixel %u,%u channel %u: %u, libspng has %u", x, y, c, got, want);
            }
}

static const struct {
    uint8_t colour_type, samples;
} kinds[] = { { 0, 1 }, { 2, 3 }, { 3, 1 }, { 4, 2 }, { 6, 4 } };

static struct spng_plte full_palette(void)
{
    struct spng_plte plte = { .n_entries = 256 };
    for (unsigned i = 0; i < 256; i++)
        plte.entries[i] = (struct spng_plte_entry){ (uint8_t)(255 - i), (uint8_t)(i * 3), (uint8_t)i, 255 };
    return plte;
}

static bytes random_png(dice *d, unsigned *samples)
{
    static const int filters[] = { 0,
                                   SPNG_FILTER_CHOICE_SUB,
                                   SPNG_FILTER_CHOICE_UP,
                                   SPNG_FILTER_CHOICE_AVG,
                                   SPNG_FILTER_CHOICE_PAETH,
                                   SPNG_FILTER_CHOICE_ALL };
    struct spng_plte plte = full_palette();
    unsigned k = roll(d, 5);
    uint32_t width = 1 + roll(d, 70), height = 1 + roll(d, 30);
    *samples = kinds[k].samples;
    uint8_t *rows = make_samples(width, height, *samples, d);
    if (roll(d, 2)) /* noise makes spng's heuristic choose other filters */
        for (size_t i = 0; i < (size_t)width * height * *samples; i++) rows[i] = (uint8_t)roll(d, 256);
    bytes png = make_png(rows, (size_t)width * height * *samples, width, height,
                         (png_kind){ .colour_type = kinds[k].colour_type,
                                     .bits = 8,
                                     .filters = filters[roll(d, 6)],
                                     .palette = kinds[k].colour_type == 3 ? &plte : NULL });
    free(rows);
    return png;
}

static void same_pixels_as_libspng(void **state)
{
    stoke_decode_params params = stoke_decode_defaults();
    params.purpose = STOKE_PURPOSE_MASK;
    stoke_decoder *d = new_decoder();
    print_message("# seed %llu\n", (unsigned long long)seed);
    dice luck = { seed, 0 };
    for (int i = 0; i < 600; i++) {
        unsigned samples;
        bytes whole = random_png(&luck, &samples), png = whole;
        if (roll(&luck, 2)) png = rechunk(whole, 1 + roll(&luck, 200), roll(&luck, 2) ? "tEXt" : NULL);
        struct spng_ihdr ihdr;
        size_t size;
        uint8_t *want = reference(whole, &ihdr, &size);
        assert_non_null(want);
        stoke_image out;
        assert_int_equal(fast(d, png, &params, &out), 1);
        assert_mask(&out, want, samples);
        free(want);
        if (png.data != whole.data) free(png.data);
        free(whole.data);
    }
    stoke_decoder_destroy(&d);
}

/* A random byte of a random chunk changed, its checksum put right again. */
static void mutate(bytes png, dice *d)
{
    size_t starts[64], n = 0;
    for (size_t at = 8; at + 12 <= png.size && n < 64; at += chunk_size(png.data + at) + 12) starts[n++] = at;
    uint8_t *p = png.data + starts[roll(d, (uint32_t)n)];
    uint32_t size = chunk_size(p);
    /* Mostly the data, sometimes the type; lengths are the fuzzer's business. */
    uint8_t *victim = size && roll(d, 8) ? p + 8 + roll(d, size) : p + 4 + roll(d, 4);
    *victim = roll(d, 2) ? (uint8_t)roll(d, 256) : (uint8_t)(*victim ^ 1u << roll(d, 8));
    if (roll(d, 16) == 0) return; /* and sometimes the checksum stays wrong */
    uint32_t crc = libdeflate_crc32(0, p + 4, size + 4);
    for (int i = 0; i < 4; i++) p[8 + size + i] = (uint8_t)(crc >> (24 - 8 * i));
}

static void mutants_agree_or_are_left_alone(void **state)
{
    stoke_decode_params params = stoke_decode_defaults();
    params.purpose = STOKE_PURPOSE_MASK;
    params.max_pixels = 1 << 20;
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 1, 0 };
    int accepted = 0;
    for (int i = 0; i < 6000; i++) {
        unsigned samples;
        bytes png = random_png(&luck, &samples);
        if (roll(&luck, 2)) {
            bytes cut = rechunk(png, 20 + roll(&luck, 200), NULL);
            free(png.data);
            png = cut;
        }
        mutate(png, &luck);
        stoke_image out;
        int r = fast(d, png, &params, &out);
        if (r == 1) {
            struct spng_ihdr ihdr;
            size_t size;
            uint8_t *want = reference(png, &ihdr, &size);
            if (!want)
                fail_msg("mutant %d of seed %llu: accepted, but libspng refuses", i,
                         (unsigned long long)seed);
            static const uint8_t samples_of[7] = { 1, 0, 3, 1, 2, 0, 4 };
            assert_mask(&out, want, samples_of[ihdr.color_type]);
            free(want);
            accepted++;
        }
        free(png.data);
    }
    print_message("# %d of 6000 mutants accepted\n", accepted);
    assert_true(accepted > 10); /* otherwise this test looks at nothing */
    stoke_decoder_destroy(&d);
}

static void unfilter_equals_reference(void **state)
{
    dice luck = { seed + 2, 0 };
    for (int i = 0; i < 4000; i++) {
        unsigned bpp = 1 + roll(&luck, 8), type = roll(&luck, 6);
        size_t n = bpp * roll(&luck, 60);
        /* Label maps: rows of few values in runs, and filtered rows that are mostly zero. */
        const unsigned calm = roll(&luck, 2) ? 1 + roll(&luck, 40) : 1;
        if (calm > 1) bpp = 1, n = roll(&luck, 300);
        /* Exact size on the heap, so that the sanitizer sees a byte too far. */
        uint8_t *a = malloc(n + 1), *b = malloc(n + 1), *prev = malloc(n ? n : 1);
        uint8_t *row = malloc(n ? n : 1);
        for (size_t k = 0; k < n; k++) {
            a[k] = calm > 1 && roll(&luck, calm) ? 0 : (uint8_t)roll(&luck, 256);
            prev[k] = k && roll(&luck, calm) ? prev[k - 1] : (uint8_t)roll(&luck, 256);
        }
        memcpy(b, a, n);
        memcpy(row, a, n);
        int known = stk_unfilter_c((uint8_t)type, b, prev, n, bpp);
        assert_int_equal(known, type <= 4);
        assert_int_equal(stk_unfilter((uint8_t)type, row, prev, n, bpp), known);
        assert_memory_equal(row, b, n);
        free(a), free(b), free(prev), free(row);
    }
}

/* The definition of the standard, by hand, so that reference and fast code cannot be wrong together. */
static void unfilter_known_answers(void **state)
{
    const uint8_t prev[4] = { 10, 20, 30, 40 };
    static const uint8_t want[5][4] = {
        { 1, 2, 3, 250 }, { 1, 3, 6, 0 }, { 11, 22, 33, 34 }, { 6, 15, 25, 26 }, { 11, 22, 33, 34 }
    };
    for (uint8_t type = 0; type < 5; type++) {
        uint8_t row[4] = { 1, 2, 3, 250 };
        assert_int_equal(stk_unfilter(type, row, prev, 4, 1), 1);
        assert_memory_equal(row, want[type], 4);
    }
}

static void odd_files_are_left_to_libspng(void **state)
{
    stoke_decode_params params = stoke_decode_defaults();
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 3, 0 };
    stoke_image out;
    uint8_t *rows = make_samples(16, 16, 3, &luck);
    struct spng_trns key = { .red = 1 };
    bytes interlaced =
        make_png(rows, 768, 16, 16, (png_kind){ .colour_type = 2, .bits = 8, .interlaced = 1 });
    bytes keyed =
        make_png(rows, 768, 16, 16, (png_kind){ .colour_type = 2, .bits = 8, .transparency = &key });
    bytes deep = make_png(rows, 512, 16, 16, (png_kind){ .colour_type = 0, .bits = 16 });
    bytes plain = make_png(rows, 768, 16, 16, (png_kind){ .colour_type = 2, .bits = 8 });
    assert_int_equal(fast(d, interlaced, &params, &out), 0);
    assert_int_equal(fast(d, keyed, &params, &out), 0);
    assert_int_equal(fast(d, deep, &params, &out), 0);
    assert_int_equal(fast(d, plain, &params, &out), 1);
    plain.data[plain.size - 20] ^= 1; /* in the IDAT's data or checksum */
    assert_int_equal(fast(d, plain, &params, &out), 0);
    plain.data[plain.size - 20] ^= 1;
    for (size_t n = 0; n < plain.size; n++)
        assert_int_equal(fast(d, (bytes){ plain.data, n }, &params, &out), 0);
    params.max_pixels = 255;
    assert_int_equal(fast(d, plain, &params, &out), STOKE_E_LIMIT);
    free(interlaced.data), free(keyed.data), free(deep.data), free(plain.data), free(rows);
    stoke_decoder_destroy(&d);
}

UNIT_GROUP(png_fast)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_pixels_as_libspng),        cmocka_unit_test(mutants_agree_or_are_left_alone),
        cmocka_unit_test(unfilter_equals_reference),     cmocka_unit_test(unfilter_known_answers),
        cmocka_unit_test(odd_files_are_left_to_libspng),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
