/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG: regions, reductions, colour kinds, damage, and files that must not influence each other.
 */
#include "tests/unit/fixture_decode.h"

#include "src/codec/codec.h"

static void jpeg_region_equals_cut(void **state)
{
    dice luck = { seed, 0 };
    print_message("# seed %llu\n", (unsigned long long)seed);
    for (int k = 0; k < JPEGS; k++)
        for (int size = 0; size < 12; size++) {
            uint32_t width = 1 + roll(&luck, 200), height = 1 + roll(&luck, 200);
            uint8_t *samples = make_samples(width, height, (unsigned)jpegs[k].kind.channels, &luck);
            int quality = 1 + (int)roll(&luck, 100), optimised = (int)roll(&luck, 2);
            bytes file = make_jpeg_with(samples, width, height, jpegs[k].kind, quality, optimised);
            stoke_decoder *d = new_decoder(); /* a used one leaves small files with other codes to libjpeg */
            regions_equal_cuts(d, file, stoke_decode_defaults(), 40, &luck, jpegs[k].name);
            stoke_decoder_destroy(&d);
            free(samples), free(file.data);
        }
}

/* Where the region lies in the small file that stk_jpeg_trim makes, there must be the region's pixels. */
static void assert_trims(stk_jpeg_trimmer *trimmer, stoke_decoder *d, bytes file, stoke_box box,
                         const char *what)
{
    stoke_decode_params params = stoke_decode_defaults();
    stk_mem_buffer scratch = { 0 };
    stk_jpeg_trimmed small;
    stoke_image out;
    if (!stk_jpeg_trim(trimmer, &scratch, file.data, file.size, box, &small))
        fail_msg("%s: not trimmed", what);
    decode_ok(d, file, &params, &out);
    stoke_image whole = keep(&out);
    assert_true(small.size < scratch.capacity);
    decode_ok(d, (bytes){ (uint8_t *)(uintptr_t)small.bytes, small.size }, &params, &out);
    assert_in_range(out.width, box.width, box.width + 3 * 32);
    stoke_image cut = out;
    cut.data = (uint8_t *)(uintptr_t)at(&out, small.box.x, small.box.y);
    cut.width = small.box.width;
    cut.height = small.box.height;
    assert_is_cut(&cut, &whole, box, what);
    free(whole.data);
    stk_buffer_free(&scratch);
}

/* Regions come out right either way; this is about which way they take. */
static void plain_files_are_trimmed(void **state)
{
    stk_jpeg_trimmer *trimmer = stk_calloc(1, stk_jpeg_trimmer_bytes);
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 20, 0 };
    for (int k = 0; k < JPEGS; k++) {
        uint8_t *samples = make_samples(150, 130, (unsigned)jpegs[k].kind.channels, &luck);
        bytes file = make_jpeg(samples, 150, 130, jpegs[k].kind);
        stk_mem_buffer scratch = { 0 };
        stk_jpeg_trimmed small;
        for (int i = 0; i < 10; i++) {
            stoke_box box = random_box(&luck, 150, 130);
            if (!jpegs[k].kind.progressive && !jpegs[k].kind.restart)
                assert_trims(trimmer, d, file, box, jpegs[k].name);
            else
                assert_int_equal(stk_jpeg_trim(trimmer, &scratch, file.data, file.size, box, &small), 0);
        }
        stk_buffer_free(&scratch);
        free(samples), free(file.data);
    }
    uint8_t *samples = make_samples(150, 130, 3, &luck);
    bytes file = make_jpeg_with(samples, 150, 130, jpegs[2].kind, 85, 1);
    stk_mem_buffer scratch = { 0 };
    stk_jpeg_trimmed small;
    /* Tables of its own are not worth building for a small file. */
    assert_int_equal(
        stk_jpeg_trim(trimmer, &scratch, file.data, file.size, (stoke_box){ 9, 9, 9, 9 }, &small), 0);
    stk_buffer_free(&scratch);
    free(samples), free(file.data);
    stk_free(trimmer);
    stoke_decoder_destroy(&d);
}

/* A ramp: neighbours differ by little, the end of a row and the beginning of the next by much, and a table
 * made for the picture has no code for what lies between, which is what the rows of a region differ by. */
static void missing_categories_are_added(void **state)
{
    enum { W = 512, H = 64 };
    static uint8_t ramp[W * H];
    for (int i = 0; i < W * H; i++) ramp[i] = (uint8_t)(i % W / 2);
    stoke_decoder *d = new_decoder();
    for (int quality = 50; quality <= 100; quality += 10) {
        bytes file = make_jpeg_with(ramp, W, H, (jpeg_kind){ 1, 1, 1, 0, JCS_UNKNOWN, 0 }, quality, 1);
        stk_jpeg_trimmer *trimmer = stk_calloc(1, stk_jpeg_trimmer_bytes);
        for (uint32_t width = 10; width < W - 20; width += 30)
            assert_trims(trimmer, d, file, (stoke_box){ 20, 10, width, 40 }, "ramp");
        stk_free(trimmer);
        free(file.data);
    }
    stoke_decoder_destroy(&d);
}

/* A region needs the file up to its last row at most: with less it must fail, never deliver other pixels; and
 * with more it must not fail again. */
static void cut_files_never_give_other_pixels(void **state)
{
    static const stoke_box boxes[] = { { 0, 0, 20, 20 }, { 33, 40, 30, 30 }, { 70, 60, 26, 36 } };
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 21, 0 };
    uint8_t *samples = make_samples(96, 96, 3, &luck);
    for (int k = 0; k < 3; k++) {
        bytes file = make_jpeg(samples, 96, 96, jpegs[k].kind);
        stoke_decode_params params = stoke_decode_defaults();
        stoke_image out;
        decode_ok(d, file, &params, &out);
        stoke_image whole = keep(&out);
        for (int b = 0; b < 3; b++) {
            size_t enough = 0;
            params.region = boxes[b];
            for (size_t n = 0; n <= file.size; n++) {
                uint8_t *part = malloc(n + 1); /* its own block: reading behind it is seen by ASan */
                memcpy(part, file.data, n);
                int r = stoke_decoder_decode(d, part, n, &params, &out, &err);
                if (r == STOKE_OK) assert_is_cut(&out, &whole, boxes[b], jpegs[k].name);
                if (r == STOKE_OK && !enough) enough = n;
                assert_true(r == STOKE_OK ? enough > 0 : !enough);
                free(part);
            }
            /* The rows in front of the region's last 16 hold this much of the data at least. */
            assert_true(enough > file.size * (boxes[b].y + boxes[b].height - 16) / 96 / 2);
        }
        free(whole.data), free(file.data);
    }
    free(samples);
    stoke_decoder_destroy(&d);
}

/* Whatever a flipped bit does to a file: if it can be decoded, so can its regions, and they are cuts. */
static void damaged_files_give_cuts_of_what_they_are(void **state)
{
    dice luck = { seed + 22, 0 };
    uint8_t *samples = make_samples(90, 70, 3, &luck);
    int decoded = 0;
    for (int round = 0; round < 3000; round++) {
        stoke_decoder *d = new_decoder();
        bytes file = make_jpeg_with(samples, 90, 70, jpegs[round % 3].kind, 85, round / 3 % 2);
        for (int flips = 1 + round % 4; flips > 0; flips--)
            file.data[roll(&luck, (uint32_t)file.size)] ^= (uint8_t)(1u << roll(&luck, 8));
        stoke_decode_params params = stoke_decode_defaults();
        stoke_image out;
        params.max_pixels = 1 << 16;
        if (stoke_decoder_decode(d, file.data, file.size, &params, &out, &err) == STOKE_OK) {
            regions_equal_cuts(d, file, params, 4, &luck, "damaged");
            decoded++;
        }
        stoke_decoder_destroy(&d);
        free(file.data);
    }
    assert_in_range(decoded, 300, 2900);
    free(samples);
}

static void jpeg_fast_mode_reduces(void **state)
{
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 1, 0 };
    for (int k = 0; k < JPEGS; k++)
        for (uint32_t by = 2; by <= 8; by *= 2) {
            uint32_t width = 100 + roll(&luck, 100), height = 100 + roll(&luck, 100);
            uint8_t *samples = make_samples(width, height, (unsigned)jpegs[k].kind.channels, &luck);
            bytes file = make_jpeg(samples, width, height, jpegs[k].kind);
            stoke_decode_params params = stoke_decode_defaults();
            stoke_image out;
            params.mode = STOKE_DECODE_FAST;
            params.fast_width = width / by;
            params.fast_height = height / by;
            decode_ok(d, file, &params, &out);
            assert_int_equal(out.width, (width + by - 1) / by);
            assert_int_equal(out.height, (height + by - 1) / by);
            stoke_image whole = keep(&out);
            for (int i = 0; i < 10; i++) {
                /* A region on the grid of the reduction: the same part of the reduced picture. */
                stoke_box box = random_box(&luck, width / by, height / by);
                params.region = (stoke_box){ box.x * by, box.y * by, box.width * by, box.height * by };
                params.fast_width = box.width;
                params.fast_height = box.height;
                decode_ok(d, file, &params, &out);
                assert_is_cut(&out, &whole, box, jpegs[k].name);
            }
            params.region = (stoke_box){ 1, 0, 64, 64 }; /* off the grid: not reduced */
            params.fast_width = params.fast_height = 8;
            decode_ok(d, file, &params, &out);
            assert_int_equal(out.width, 64);
            free(samples), free(file.data), free(whole.data);
        }
    stoke_decoder_destroy(&d);
}

/* A progressive file that ends behind its first scan: libjpeg smooths over block edges. */
static void progressive_file_may_lack_scans(void **state)
{
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 23, 0 };
    uint8_t *samples = make_samples(80, 80, 3, &luck);
    bytes file = make_jpeg(samples, 80, 80, jpegs[8].kind);
    size_t scan = 2;
    while (file.data[scan] != 0xFF || file.data[scan + 1] != 0xDA) scan++;
    scan += 2;
    while (file.data[scan] != 0xFF || file.data[scan + 1] == 0) scan++;
    file.data[scan + 1] = 0xD9;
    file.size = scan + 2;
    regions_equal_cuts(d, file, stoke_decode_defaults(), 100, &luck, "first scan");
    free(samples), free(file.data);
    stoke_decoder_destroy(&d);
}

static void jpeg_cmyk_is_adobe_inverted(void **state)
{
    stoke_decoder *d = new_decoder();
    uint8_t samples[16 * 16 * 4];
    /* Inverted: stored 255 is no ink. Here: cyan full, no magenta, half yellow, a little black. */
    for (int i = 0; i < 256; i++) memcpy(samples + i * 4, (uint8_t[]){ 0, 255, 128, 230 }, 4);
    bytes file = make_jpeg(samples, 16, 16, (jpeg_kind){ 4, 1, 1, 0, JCS_CMYK, 0 });
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    decode_ok(d, file, &params, &out);
    const uint8_t *p = at(&out, 5, 5);
    assert_in_range(p[0], 0, 1);
    assert_in_range(p[1], 229, 231);
    assert_in_range(p[2], 114, 117); /* 128 * 230 / 255 */
    free(file.data);
    stoke_decoder_destroy(&d);
}

static void many_scans_are_refused(void **state)
{
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 4, 0 };
    uint8_t *samples = make_samples(32, 32, 3, &luck);
    bytes file = make_jpeg(samples, 32, 32, (jpeg_kind){ 3, 1, 1, 2, JCS_UNKNOWN, 0 });
    size_t scan = file.size - 2;
    while (file.data[scan] != 0xFF || file.data[scan + 1] != 0xDA) scan--;
    size_t length = file.size - 2 - scan;
    stoke_decode_params params = stoke_decode_defaults();
    for (int times = 10; times <= 600; times += 590) {
        bytes bomb = { malloc(scan + length * (size_t)times + 2), scan + length * (size_t)times + 2 };
        memcpy(bomb.data, file.data, scan);
        for (int i = 0; i < times; i++)
            memcpy(bomb.data + scan + length * (size_t)i, file.data + scan, length);
        memcpy(bomb.data + bomb.size - 2, "\xFF\xD9", 2);
        stoke_image out;
        if (times == 10)
            decode_ok(d, bomb, &params, &out);
        else
            decode_fails(d, bomb, &params, STOKE_E_LIMIT, "more than 500 scans");
        free(bomb.data);
    }
    free(samples), free(file.data);
    stoke_decoder_destroy(&d);
}

/* The file without segments of this kind. */
static bytes without(bytes file, uint8_t marker)
{
    bytes out = { malloc(file.size), 2 };
    memcpy(out.data, file.data, 2);
    size_t from = 2;
    while (file.data[from + 1] != 0xDA) {
        size_t n = 2 + ((size_t)file.data[from + 2] << 8 | file.data[from + 3]);
        if (file.data[from + 1] != marker) memcpy(out.data + out.size, file.data + from, n), out.size += n;
        from += n;
    }
    memcpy(out.data + out.size, file.data + from, file.size - from);
    out.size += file.size - from;
    return out;
}

/* libjpeg keeps tables from file to file. What comes out must not depend on what was decoded before. */
static void files_do_not_lend_each_other_tables(void **state)
{
    stoke_decode_params params = stoke_decode_defaults();
    stoke_decoder *fresh = new_decoder(), *used = new_decoder();
    stoke_image out;
    dice luck = { seed + 14, 0 };
    uint8_t *samples = make_samples(32, 32, 3, &luck);
    bytes usual = make_jpeg(samples, 32, 32, jpegs[0].kind),
          other = make_jpeg(samples, 32, 32, jpegs[7].kind);
    bytes no_codes = without(usual, 0xC4), no_steps = without(usual, 0xDB);
    decode_ok(fresh, no_codes, &params, &out); /* libjpeg-turbo knows the standard codes */
    stoke_image want = keep(&out);
    decode_ok(used, other, &params, &out); /* progressive: codes of its own */
    decode_ok(used, no_codes, &params, &out);
    assert_is_cut(&out, &want, (stoke_box){ 0, 0, 32, 32 }, "after another file");
    decode_ok(used, other, &params, &out);
    decode_fails(used, no_steps, &params, STOKE_E_FORMAT, "not defined");
    free(samples), free(usual.data), free(other.data), free(no_codes.data), free(no_steps.data),
        free(want.data);
    stoke_decoder_destroy(&fresh);
    stoke_decoder_destroy(&used);
}

UNIT_GROUP(codec_jpeg)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jpeg_region_equals_cut),
        cmocka_unit_test(plain_files_are_trimmed),
        cmocka_unit_test(missing_categories_are_added),
        cmocka_unit_test(cut_files_never_give_other_pixels),
        cmocka_unit_test(damaged_files_give_cuts_of_what_they_are),
        cmocka_unit_test(jpeg_fast_mode_reduces),
        cmocka_unit_test(progressive_file_may_lack_scans),
        cmocka_unit_test(jpeg_cmyk_is_adobe_inverted),
        cmocka_unit_test(many_scans_are_refused),
        cmocka_unit_test(files_do_not_lend_each_other_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
