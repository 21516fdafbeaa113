/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding: purposes, regions, orientation, limits, damage. JPEG's own are in test_codec_jpeg.c, parity with
 * Pillow in tests/parity.
 */
#include "tests/unit/fixture_decode.h"

#include <tiffio.h>
#include <webp/encode.h>
#include <stoke/tools/image.h>

#include "src/base/file.h"
#include "src/base/mem.h"

static void every_cut_file_is_refused(void **state)
{
    stoke_decoder *d = new_decoder();
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    dice luck = { seed + 2, 0 };
    uint8_t *samples = make_samples(40, 33, 3, &luck);
    for (int k = 0; k < JPEGS; k++) {
        if (jpegs[k].kind.channels != 3) continue;
        bytes file = make_jpeg(samples, 40, 33, jpegs[k].kind);
        for (size_t n = 0; n < file.size; n++) {
            int r = stoke_decoder_decode(d, file.data, n, &params, &out, &err);
            if (r != STOKE_E_FORMAT) fail_msg("%s cut to %zu of %zu: %d", jpegs[k].name, n, file.size, r);
        }
        decode_ok(d, file, &params, &out);
        free(file.data);
    }
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        bytes file = make_png(samples, 40 * 33 * 3, 40, 33,
                              (png_kind){ .colour_type = 2, .bits = 8, .interlaced = (uint8_t)interlaced });
        /* Up to the end of IDAT; a missing IEND costs no pixels and is accepted, as Pillow does. */
        for (size_t n = 0; n < file.size - 12; n++)
            assert_int_equal(stoke_decoder_decode(d, file.data, n, &params, &out, &err), STOKE_E_FORMAT);
        decode_ok(d, (bytes){ file.data, file.size - 12 }, &params, &out);
        free(file.data);
    }
    bytes webp = { 0 };
    webp.size = WebPEncodeRGB(samples, 40, 33, 120, 80, &webp.data);
    for (size_t n = 0; n < webp.size; n++)
        assert_int_equal(stoke_decoder_decode(d, webp.data, n, &params, &out, &err), STOKE_E_FORMAT);
    WebPFree(webp.data);
    free(samples);
    stoke_decoder_destroy(&d);
}

/* Each byte of the scan changed: refused or decoded, but the object stays usable. */
static void damage_does_not_stick(void **state)
{
    stoke_decoder *d = new_decoder();
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    dice luck = { seed + 3, 0 };
    uint8_t *samples = make_samples(48, 48, 3, &luck);
    bytes file = make_jpeg(samples, 48, 48, jpegs[2].kind);
    decode_ok(d, file, &params, &out);
    stoke_image whole = keep(&out);
    int refused = 0;
    for (int i = 0; i < 2000; i++) {
        size_t where = roll(&luck, (uint32_t)file.size);
        uint8_t was = file.data[where];
        file.data[where] = (uint8_t)roll(&luck, 256);
        refused += stoke_decoder_decode(d, file.data, file.size, &params, &out, &err) != STOKE_OK;
        file.data[where] = was;
    }
    print_message("# %d of 2000 damaged files refused\n", refused);
    assert_true(refused > 100);
    decode_ok(d, file, &params, &out);
    assert_is_cut(&out, &whole, (stoke_box){ 0, 0, 48, 48 }, "after damage");
    free(samples), free(file.data), free(whole.data);
    stoke_decoder_destroy(&d);
}

/* A baseline file in three scans, the last of which comes 600 times. */

static void orientation_is_applied(void **state)
{
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 5, 0 };
    enum { W = 37, H = 22 };
    uint8_t *samples = make_samples(W, H, 3, &luck);
    bytes plain = make_jpeg(samples, W, H, jpegs[2].kind);
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    decode_ok(d, plain, &params, &out);
    stoke_image stored = keep(&out);
    for (uint8_t o = 1; o <= 8; o++) {
        bytes file = with_exif(plain, o, o & 1);
        stoke_image_info info;
        assert_int_equal(stoke_decoder_probe(d, file.data, file.size, &info, &err), STOKE_OK);
        assert_int_equal(info.orientation, o);
        assert_int_equal(info.width, W);
        params.orientation = STOKE_ORIENTATION_IGNORE;
        decode_ok(d, file, &params, &out);
        assert_is_cut(&out, &stored, (stoke_box){ 0, 0, W, H }, "ignored orientation");
        params.orientation = STOKE_ORIENTATION_APPLY;
        decode_ok(d, file, &params, &out);
        assert_int_equal(out.width, o >= 5 ? H : W);
        for (uint32_t y = 0; y < out.height; y++)
            for (uint32_t x = 0; x < out.width; x++) {
                /* EXIF 2.3: where row 0 and column 0 of the stored picture are in the upright one. */
                uint32_t fx[9] = { 0, x, W - 1 - x, W - 1 - x, x, y, y, W - 1 - y, W - 1 - y };
                uint32_t fy[9] = { 0, y, y, H - 1 - y, H - 1 - y, x, H - 1 - x, H - 1 - x, x };
                assert_memory_equal(at(&out, x, y), at(&stored, fx[o], fy[o]), 3);
            }
        regions_equal_cuts(d, file, params, 20, &luck, "upright");
        free(file.data);
    }
    bytes nonsense = with_exif(plain, 9, 0);
    stoke_image_info info;
    assert_int_equal(stoke_decoder_probe(d, nonsense.data, nonsense.size, &info, &err), STOKE_OK);
    assert_int_equal(info.orientation, 1);
    free(nonsense.data), free(plain.data), free(samples), free(stored.data);
    stoke_decoder_destroy(&d);
}

static void png_masks_keep_their_integers(void **state)
{
    stoke_decoder *d = new_decoder();
    stoke_decode_params mask = stoke_decode_defaults(), image = mask;
    mask.purpose = STOKE_PURPOSE_MASK;
    stoke_image out;
    struct spng_plte plte = {
        .n_entries = 4, .entries = { { 9, 8, 7, 0 }, { 6, 5, 4, 0 }, { 3, 2, 1, 0 }, { 200, 100, 50, 0 } }
    };
    static const uint8_t packed[3][4] = { { 0x1B, 0xE4 }, { 0x01, 0x23, 0x45, 0x67 }, { 0xA5 } };
    /* 2-bit palette: indices 0 1 2 3 3 2 1 0 */
    bytes file = make_png(packed[0], 2, 8, 1, (png_kind){ .colour_type = 3, .bits = 2, .palette = &plte });
    decode_ok(d, file, &mask, &out);
    assert_int_equal(out.channels, 1);
    assert_memory_equal(out.data, ((uint8_t[]){ 0, 1, 2, 3, 3, 2, 1, 0 }), 8);
    decode_ok(d, file, &image, &out);
    assert_memory_equal(out.data, ((uint8_t[]){ 9, 8, 7, 6, 5, 4, 3, 2, 1, 200, 100, 50 }), 12);
    free(file.data);
    file = make_png(packed[1], 4, 8, 1, (png_kind){ .colour_type = 0, .bits = 4 });
    decode_ok(d, file, &mask, &out);
    assert_memory_equal(out.data, ((uint8_t[]){ 0, 1, 2, 3, 4, 5, 6, 7 }), 8);
    decode_ok(d, file, &image, &out);
    assert_memory_equal(at(&out, 3, 0), ((uint8_t[]){ 51, 51, 51 }), 3);
    free(file.data);
    file = make_png(packed[2], 1, 8, 1, (png_kind){ .colour_type = 0, .bits = 1 });
    decode_ok(d, file, &mask, &out);
    assert_memory_equal(out.data, ((uint8_t[]){ 1, 0, 1, 0, 0, 1, 0, 1 }), 8);
    free(file.data);
    uint16_t deep[4] = { 0, 300, 40000, 65535 };
    file = make_png(deep, 8, 4, 1, (png_kind){ .colour_type = 0, .bits = 16 });
    decode_ok(d, file, &mask, &out);
    assert_int_equal(out.depth, 2);
    assert_memory_equal(out.data, deep, 8);
    decode_ok(d, file, &image, &out); /* the high byte */
    assert_memory_equal(out.data, ((uint8_t[]){ 0, 0, 0, 1, 1, 1, 156, 156, 156, 255, 255, 255 }), 12);
    image.keep16 = 1;
    decode_ok(d, file, &image, &out);
    assert_int_equal(out.depth, 2);
    assert_int_equal(((uint16_t *)out.data)[5], 300);
    free(file.data);
    stoke_decoder_destroy(&d);
}

static void index_beyond_palette_is_an_error(void **state)
{
    stoke_decoder *d = new_decoder();
    stoke_decode_params params = stoke_decode_defaults();
    struct spng_plte plte = { .n_entries = 2 };
    uint8_t rows[4] = { 0, 1, 2, 1 };
    bytes file = make_png(rows, 4, 4, 1, (png_kind){ .colour_type = 3, .bits = 8, .palette = &plte });
    decode_fails(d, file, &params, STOKE_E_FORMAT, "palette index 2, but the palette has 2 colours");
    params.purpose = STOKE_PURPOSE_MASK; /* a mask is not looked up */
    stoke_image out;
    decode_ok(d, file, &params, &out);
    free(file.data);
    stoke_decoder_destroy(&d);
}

static void alpha_is_dropped_or_composited(void **state)
{
    stoke_decoder *d = new_decoder();
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    uint8_t rgba[8] = { 200, 100, 0, 51, 10, 20, 30, 255 };
    bytes file = make_png(rgba, 8, 2, 1, (png_kind){ .colour_type = 6, .bits = 8 });
    decode_ok(d, file, &params, &out);
    assert_memory_equal(out.data, ((uint8_t[]){ 200, 100, 0, 10, 20, 30 }), 6);
    params.alpha = STOKE_ALPHA_COMPOSITE;
    memcpy(params.background, (uint8_t[]){ 0, 100, 255 }, 3);
    decode_ok(d, file, &params, &out); /* 51 / 255 = 1/5 */
    assert_memory_equal(out.data, ((uint8_t[]){ 40, 100, 204, 10, 20, 30 }), 6);
    free(file.data);
    uint8_t grey[2] = { 0x30, 0x00 }; /* 4 bits: 3 0 0 0; 0 is transparent */
    struct spng_trns key = { .gray = 0 };
    file = make_png(grey, 2, 4, 1, (png_kind){ .colour_type = 0, .bits = 4, .transparency = &key });
    decode_ok(d, file, &params, &out);
    assert_memory_equal(out.data, ((uint8_t[]){ 51, 51, 51, 0, 100, 255 }), 6);
    free(file.data);
    struct spng_plte plte = { .n_entries = 2, .entries = { { 10, 10, 10, 0 }, { 200, 100, 0, 0 } } };
    struct spng_trns alphas = { .n_type3_entries = 2, .type3_alpha = { 255, 51 } };
    uint8_t indices[2] = { 0, 1 };
    file = make_png(indices, 2, 2, 1,
                    (png_kind){ .colour_type = 3, .bits = 8, .palette = &plte, .transparency = &alphas });
    decode_ok(d, file, &params, &out);
    assert_memory_equal(out.data, ((uint8_t[]){ 10, 10, 10, 40, 100, 204 }), 6);
    free(file.data);
    stoke_decoder_destroy(&d);
}

static void png_region_equals_cut(void **state)
{
    static const struct {
        uint8_t type, bits, samples;
    } kinds[] = { { 0, 1, 1 }, { 0, 2, 1 },  { 0, 8, 1 }, { 0, 16, 1 },
                  { 2, 8, 3 }, { 2, 16, 3 }, { 4, 8, 2 }, { 6, 16, 4 } };
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 6, 0 };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint8_t interlaced = 0; interlaced < 2; interlaced++) {
            uint32_t width = 1 + roll(&luck, 90), height = 1 + roll(&luck, 90);
            size_t row = ((size_t)width * kinds[k].bits * kinds[k].samples + 7) / 8;
            uint8_t *samples = make_samples((uint32_t)row, height, 1, &luck);
            bytes file = make_png(
                samples, row * height, width, height,
                (png_kind){ .colour_type = kinds[k].type, .bits = kinds[k].bits, .interlaced = interlaced });
            stoke_decode_params params = stoke_decode_defaults();
            regions_equal_cuts(d, file, params, 20, &luck, "png image");
            params.purpose = STOKE_PURPOSE_MASK;
            regions_equal_cuts(d, file, params, 20, &luck, "png mask");
            params.purpose = STOKE_PURPOSE_IMAGE;
            params.alpha = STOKE_ALPHA_COMPOSITE;
            params.keep16 = 1;
            regions_equal_cuts(d, file, params, 20, &luck, "png composited");
            free(samples), free(file.data);
        }
    stoke_decoder_destroy(&d);
}

/* Into scratch memory full of an earlier picture. */
static void interlaced_equals_plain(void **state)
{
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 15, 0 };
    stoke_decode_params params = stoke_decode_defaults();
    params.purpose = STOKE_PURPOSE_MASK;
    stoke_image out;
    uint8_t white[64 * 64];
    memset(white, 255, sizeof white);
    bytes dirt = make_png(white, sizeof white, 64, 64, (png_kind){ .colour_type = 0, .bits = 8 });
    for (uint8_t bits = 1; bits <= 16; bits *= 2)
        for (uint32_t width = 1; width < 20; width++) {
            size_t row = ((size_t)width * bits + 7) / 8;
            uint8_t *samples = make_samples((uint32_t)row, 11, 1, &luck);
            png_kind kind = { .colour_type = 0, .bits = bits };
            bytes plain = make_png(samples, row * 11, width, 11, kind);
            kind.interlaced = 1;
            bytes interlaced = make_png(samples, row * 11, width, 11, kind);
            decode_ok(d, plain, &params, &out);
            stoke_image want = keep(&out);
            decode_ok(d, dirt, &params, &out);
            decode_ok(d, interlaced, &params, &out);
            assert_is_cut(&out, &want, (stoke_box){ 0, 0, width, 11 }, "interlaced");
            free(samples), free(plain.data), free(interlaced.data), free(want.data);
        }
    free(dirt.data);
    stoke_decoder_destroy(&d);
}

/* The zlib stream says nothing of the kind: refused before anything is allocated. */
static void small_file_of_many_pixels_is_refused(void **state)
{
    stoke_decoder *d = new_decoder();
    stoke_decode_params params = stoke_decode_defaults();
    uint8_t one[3] = { 0 };
    bytes file = make_png(one, 3, 1, 1, (png_kind){ .colour_type = 2, .bits = 8 });
    for (uint32_t side = 10000; side <= 100000; side *= 10) {
        uint8_t *ihdr = file.data + 8;
        for (int i = 0; i < 4; i++) ihdr[8 + i] = ihdr[12 + i] = (uint8_t)(side >> (24 - 8 * i));
        uint32_t crc = libdeflate_crc32(0, ihdr + 4, 17);
        for (int i = 0; i < 4; i++) ihdr[21 + i] = (uint8_t)(crc >> (24 - 8 * i));
        if (side == 10000)
            decode_fails(d, file, &params, STOKE_E_FORMAT, "cannot hold 10000x10000 pixels");
        else
            decode_fails(d, file, &params, STOKE_E_LIMIT,
                         "100000x100000 = 10000000000 pixels, more than the limit of 178956970");
        assert_true(stoke_decoder_memory(d) < 100000);
    }
    free(file.data);
    stoke_decoder_destroy(&d);
}

static void wrong_checksum_is_an_error(void **state)
{
    stoke_decoder *d = new_decoder();
    stoke_decode_params params = stoke_decode_defaults();
    uint8_t rows[64] = { 0 };
    bytes file = make_png(rows, 64, 8, 8, (png_kind){ .colour_type = 0, .bits = 8 });
    file.data[file.size - 13] ^= 1; /* the last byte of IDAT's CRC */
    decode_fails(d, file, &params, STOKE_E_FORMAT, "checksum");
    free(file.data);
    stoke_decoder_destroy(&d);
}

static void arguments_are_checked(void **state)
{
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 7, 0 };
    uint8_t *samples = make_samples(20, 10, 3, &luck);
    bytes file = make_jpeg(samples, 20, 10, jpegs[0].kind);
    const stoke_decode_params usual = stoke_decode_defaults();
    stoke_decode_params params = usual;
    static const stoke_box outside[] = { { 0, 0, 21, 1 },         { 0, 0, 1, 11 }, { 20, 0, 1, 1 },
                                         { 0, 10, 1, 1 },         { 5, 5, 16, 1 }, { 1, 1, 1, 0 },
                                         { 4294967295u, 0, 2, 1 } };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        params.region = outside[i];
        decode_fails(d, file, &params, STOKE_E_INVALID, "not inside the picture of 20x10");
    }
    params = usual;
    params.max_pixels = 199;
    decode_fails(d, file, &params, STOKE_E_LIMIT, "20x10 = 200 pixels, more than the limit of 199");
    params = usual;
    params.struct_size = 3;
    decode_fails(d, file, &params, STOKE_E_INVALID, "struct_size");
    params = usual;
    params.mode = (stoke_decode_mode)7;
    decode_fails(d, file, &params, STOKE_E_INVALID, "out of range");
    decode_fails(d, (bytes){ (uint8_t *)"GIF89a..............", 20 }, &usual, STOKE_E_FORMAT, "not a JPEG");
    decode_fails(d, (bytes){ (uint8_t *)"", 0 }, &usual, STOKE_E_FORMAT, "empty");
    stoke_image_info info;
    assert_int_equal(stoke_decoder_probe(d, "", 0, &info, &err), STOKE_E_FORMAT);
    free(samples), free(file.data);
    stoke_decoder_destroy(&d);
    stoke_decoder_destroy(&d);
    stoke_decoder_destroy(NULL);
}

static void target_takes_the_pixels_when_it_fits(void **state)
{
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 8, 0 };
    uint8_t *samples = make_samples(20, 10, 3, &luck), room[10 * 80];
    bytes file = make_jpeg(samples, 20, 10, jpegs[0].kind), turned = with_exif(file, 6, 0);
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    decode_ok(d, file, &params, &out);
    stoke_image whole = keep(&out);
    memset(room, 77, sizeof room);
    params.target = (stoke_image){ room, 80, 20, 10, 3, 1 };
    decode_ok(d, file, &params, &out);
    assert_ptr_equal(out.data, room);
    assert_int_equal(out.stride, 80);
    assert_is_cut(&out, &whole, (stoke_box){ 0, 0, 20, 10 }, "target");
    assert_int_equal(room[60], 77); /* between the rows */
    params.target.width = 19;
    decode_ok(d, file, &params, &out);
    assert_ptr_not_equal(out.data, room);
    params.target = (stoke_image){ room, 30, 10, 20, 3, 1 };
    params.orientation = STOKE_ORIENTATION_APPLY;
    decode_ok(d, turned, &params, &out);
    assert_ptr_equal(out.data, room);
    assert_memory_equal(at(&out, 9, 0), at(&whole, 0, 0), 3);
    free(samples), free(file.data), free(turned.data), free(whole.data);
    stoke_decoder_destroy(&d);
}

static void steady_work_does_not_allocate(void **state)
{
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 9, 0 };
    uint8_t *samples = make_samples(64, 64, 3, &luck);
    bytes files[2] = { make_jpeg(samples, 64, 64, jpegs[2].kind),
                       make_png(
                           samples, 64 * 64 * 3, 64, 64,
                           (png_kind){ .colour_type = 2, .bits = 8, .filters = SPNG_FILTER_CHOICE_ALL }) };
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    for (int i = 0; i < 2; i++) decode_ok(d, files[i], &params, &out);
    uint64_t calls = stk_mem_count().calls, memory = stoke_decoder_memory(d);
    for (int i = 0; i < 20; i++) decode_ok(d, files[i % 2], &params, &out);
    assert_int_equal(stk_mem_count().calls, calls);
    assert_int_equal(stoke_decoder_memory(d), memory);
    assert_true(memory > 64 * 64 * 3);
    free(samples), free(files[0].data), free(files[1].data);
    stoke_decoder_destroy(&d);
}

static void write_tiff(const char *path, const void *rows, size_t row, uint32_t width, uint32_t height,
                       uint16_t bits, uint16_t samples, uint16_t photometric, uint16_t planar,
                       uint16_t compression, uint32_t tile)
{
    TIFF *t = TIFFOpen(path, "w");
    assert_non_null(t);
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, width);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, height);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, bits);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, samples);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, photometric);
    TIFFSetField(t, TIFFTAG_PLANARCONFIG, planar);
    TIFFSetField(t, TIFFTAG_COMPRESSION, compression);
    if (tile) {
        TIFFSetField(t, TIFFTAG_TILEWIDTH, tile);
        TIFFSetField(t, TIFFTAG_TILELENGTH, tile);
    } else {
        TIFFSetField(t, TIFFTAG_ROWSPERSTRIP, 7);
    }
    uint16_t planes = planar == PLANARCONFIG_SEPARATE ? samples : 1;
    size_t unit = bits / 8, step = unit * samples,
           block = tile ? (size_t)tile * tile * (planes == 1 ? step : unit) : row;
    uint8_t *buffer = calloc(1, block + row);
    for (uint16_t k = 0; k < planes; k++)
        for (uint32_t y0 = 0; y0 < height; y0 += tile ? tile : 1)
            for (uint32_t x0 = 0; x0 < width; x0 += tile ? tile : width) {
                uint32_t across = tile ? tile : width, down = tile ? tile : 1;
                for (uint32_t y = y0; y < y0 + down && y < height; y++)
                    for (uint32_t x = x0; x < x0 + across && x < width && bits >= 8; x++) {
                        const uint8_t *from = (const uint8_t *)rows + y * row + x * step + k * unit;
                        size_t n = planes == 1 ? step : unit;
                        memcpy(buffer + ((size_t)(y - y0) * across + x - x0) * n, from, n);
                    }
                if (bits < 8) memcpy(buffer, (const uint8_t *)rows + y0 * row, row);
                if (tile)
                    assert_true(TIFFWriteTile(t, buffer, x0, y0, 0, k) > 0);
                else
                    assert_int_equal(TIFFWriteScanline(t, buffer, y0, k), 1);
            }
    free(buffer);
    TIFFClose(t);
}

static bytes read_back(const char *path)
{
    stk_mem_buffer buffer = { 0 };
    bytes file = { 0 };
    assert_int_equal(stk_file_read(path, 1 << 24, &buffer, &file.size, &err), STOKE_OK);
    file.data = malloc(file.size);
    memcpy(file.data, buffer.data, file.size);
    stk_buffer_free(&buffer);
    return file;
}

static void tiff_of_many_kinds(void **state)
{
    static const uint16_t compressions[] = { COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE,
                                             COMPRESSION_PACKBITS };
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 10, 0 };
    enum { W = 45, H = 38 };
    for (int i = 0; i < 64; i++) {
        uint16_t compression = compressions[i % 4],
                 planar = i & 4 ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG;
        uint16_t bits = i & 8 ? 16 : 8, samples = i & 16 ? 3 : 1;
        uint32_t tile = i & 32 ? 16 : 0;
        size_t row = (size_t)W * samples * (bits / 8);
        uint8_t *rows = make_samples((uint32_t)row, H, 1, &luck);
        const char *path = unit_path(state, "a.tif");
        write_tiff(path, rows, row, W, H, bits, samples,
                   samples == 1 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_RGB, planar, compression, tile);
        bytes file = read_back(path);
        stoke_decode_params params = stoke_decode_defaults();
        stoke_image out;
        params.purpose = STOKE_PURPOSE_MASK;
        decode_ok(d, file, &params, &out);
        stoke_image want = { rows, row, W, H, (uint8_t)samples, (uint8_t)(bits / 8) };
        assert_is_cut(&out, &want, (stoke_box){ 0, 0, W, H }, "tiff");
        regions_equal_cuts(d, file, params, 8, &luck, "tiff mask");
        params.purpose = STOKE_PURPOSE_IMAGE;
        regions_equal_cuts(d, file, params, 8, &luck, "tiff image");
        for (size_t n = 0; n < file.size; n += 1 + file.size / 64) {
            int r = stoke_decoder_decode(d, file.data, n, &params, &out, &err);
            assert_true(r == STOKE_E_FORMAT || r == STOKE_E_UNSUPPORTED);
        }
        free(rows), free(file.data);
    }
    stoke_decoder_destroy(&d);
}

/* Colour that was multiplied with its alpha is divided by it, in the 16 bits it has: against the quotient in
 * double. Cut to 8 bits first, pixels that are nearly transparent would become black. */
static void tiff_premultiplied_16(void **state)
{
    enum { COUNT = 4000 };
    static uint16_t s[COUNT][4];
    uint16_t associated = EXTRASAMPLE_ASSOCALPHA;
    uint64_t luck = 5;
    for (int i = 0; i < COUNT; i++) {
        luck = luck * UINT64_C(6364136223846793005) + 1442695040888963407u;
        s[i][3] = (uint16_t)((luck >> 40) % (i % 2 ? 65536 : 400)); /* half of them nearly transparent */
        for (int k = 0; k < 3; k++) s[i][k] = (uint16_t)((luck >> (8 + 7 * k)) % ((uint32_t)s[i][3] + 1));
    }
    TIFF *t = TIFFOpen(unit_path(state, "a.tif"), "w");
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, COUNT);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, 1);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 16);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 4);
    TIFFSetField(t, TIFFTAG_EXTRASAMPLES, 1, &associated);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
    TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    assert_int_equal(TIFFWriteScanline(t, s, 0, 0), 1);
    TIFFClose(t);
    bytes file = read_back(unit_path(state, "a.tif"));
    stoke_decoder *d = new_decoder();
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    params.keep16 = 1;
    decode_ok(d, file, &params, &out);
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < 3; k++) {
            const double exact = s[i][3] ? 65535.0 * s[i][k] / s[i][3] : 0;
            const double got = ((const uint16_t *)out.data)[3 * i + k];
            assert_true(got <= exact && got > exact - 1);
        }
    free(file.data);
    stoke_decoder_destroy(&d);
}

static void tiff_bilevel_and_refusals(void **state)
{
    stoke_decoder *d = new_decoder();
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    uint8_t bits[2] = { 0xA0, 0x50 };
    float floats[4] = { 0, 1, 2, 3 };
    params.purpose = STOKE_PURPOSE_MASK;
    write_tiff(unit_path(state, "w.tif"), bits, 1, 4, 2, 1, 1, PHOTOMETRIC_MINISWHITE, 1,
               COMPRESSION_CCITTFAX4, 0);
    bytes file = read_back(unit_path(state, "w.tif"));
    decode_ok(d, file, &params, &out); /* white is 0, so a set bit is black: value 0 */
    assert_memory_equal(out.data, ((uint8_t[]){ 0, 1, 0, 1, 1, 0, 1, 0 }), 8);
    params.purpose = STOKE_PURPOSE_IMAGE;
    decode_ok(d, file, &params, &out);
    assert_memory_equal(out.data, ((uint8_t[]){ 0, 0, 0, 255, 255, 255 }), 6);
    free(file.data);
    write_tiff(unit_path(state, "f.tif"), floats, 16, 4, 1, 32, 1, PHOTOMETRIC_MINISBLACK, 1,
               COMPRESSION_NONE, 0);
    file = read_back(unit_path(state, "f.tif"));
    decode_fails(d, file, &params, STOKE_E_UNSUPPORTED, "32 bits");
    stoke_image_info info;
    assert_int_equal(stoke_decoder_probe(d, file.data, file.size, &info, &err), STOKE_E_UNSUPPORTED);
    free(file.data);
    stoke_decoder_destroy(&d);
}

static void webp_lossless_and_regions(void **state)
{
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 11, 0 };
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    uint8_t *rgb = make_samples(50, 41, 3, &luck), rgba[4] = { 200, 100, 0, 51 };
    bytes file;
    file.size = WebPEncodeLosslessRGB(rgb, 50, 41, 150, &file.data);
    decode_ok(d, file, &params, &out);
    stoke_image want = { rgb, 150, 50, 41, 3, 1 };
    assert_is_cut(&out, &want, (stoke_box){ 0, 0, 50, 41 }, "lossless webp");
    WebPFree(file.data);
    file.size = WebPEncodeRGB(rgb, 50, 41, 150, 75, &file.data);
    regions_equal_cuts(d, file, params, 30, &luck, "lossy webp");
    WebPFree(file.data);
    file.size = WebPEncodeLosslessRGBA(rgba, 1, 1, 4, &file.data);
    params.alpha = STOKE_ALPHA_COMPOSITE;
    decode_ok(d, file, &params, &out);
    assert_memory_equal(out.data, ((uint8_t[]){ 40, 20, 0 }), 3);
    WebPFree(file.data), free(rgb);
    stoke_decoder_destroy(&d);
}

static void writers_make_files_that_read_back(void **state)
{
    stoke_decoder *d = new_decoder();
    dice luck = { seed + 12, 0 };
    uint8_t *samples = make_samples(66, 30, 6, &luck);
    for (uint8_t channels = 1; channels <= 3; channels += 2)
        for (uint8_t depth = 1; depth <= 2; depth++) {
            stoke_image image = { samples, 66 * 6, 66, 30, channels, depth }, out;
            stoke_decode_params params = stoke_decode_defaults();
            params.purpose = STOKE_PURPOSE_MASK;
            assert_int_equal(stoke_image_write_png(unit_path(state, "a.png"), &image, &err), STOKE_OK);
            bytes file = read_back(unit_path(state, "a.png"));
            decode_ok(d, file, &params, &out);
            assert_is_cut(&out, &image, (stoke_box){ 0, 0, 66, 30 }, "written PNG");
            assert_int_equal(stoke_image_write_png(unit_path(state, "b.png"), &image, &err), STOKE_OK);
            bytes again = read_back(unit_path(state, "b.png"));
            assert_int_equal(file.size, again.size);
            assert_memory_equal(file.data, again.data, file.size);
            free(file.data), free(again.data);
            int r = stoke_image_write_jpeg(unit_path(state, "a.jpg"), &image, 95, &err);
            assert_int_equal(r, depth == 1 ? STOKE_OK : STOKE_E_INVALID);
            if (r) continue;
            file = read_back(unit_path(state, "a.jpg"));
            stoke_image_info info;
            assert_int_equal(stoke_decoder_probe(d, file.data, file.size, &info, &err), STOKE_OK);
            assert_int_equal(info.channels, channels);
            assert_int_equal(info.width, 66);
            decode_ok(d, file, &params, &out);
            free(file.data);
        }
    stoke_image bad = { samples, 12, 4, 4, 2, 1 };
    assert_int_equal(stoke_image_write_png(unit_path(state, "c.png"), &bad, &err), STOKE_E_INVALID);
    bad.channels = 3;
    assert_int_equal(stoke_image_write_png(unit_path(state, "none/c.png"), &bad, &err), STOKE_E_IO);
    assert_int_equal(stoke_image_write_jpeg(unit_path(state, "c.jpg"), &bad, 0, &err), STOKE_E_INVALID);
    bad.width = 70000;
    bad.height = 1;
    assert_int_equal(stoke_image_write_jpeg(unit_path(state, "c.jpg"), &bad, 90, &err), STOKE_E_INVALID);
    assert_int_not_equal(access(unit_path(state, "c.jpg"), F_OK), 0);
    free(samples);
    stoke_decoder_destroy(&d);
}

/* A mask reads its own values back, a picture the colours; a value without a colour makes no file. */
static void indexed_files_have_values_and_colors(void **state)
{
    enum { WIDTH = 21, HEIGHT = 9, COLORS = 5 };
    const uint8_t palette[COLORS][3] = {
        { 0, 0, 0 }, { 230, 57, 70 }, { 1, 2, 3 }, { 0, 255, 0 }, { 9, 9, 9 }
    };
    uint8_t values[HEIGHT][32];
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < 32; x++) values[y][x] = x < WIDTH ? (uint8_t)((x * 3 + y) % COLORS) : 200;
    const stoke_image image = { values, 32, WIDTH, HEIGHT, 1, 1 };
    const char *path = unit_path(state, "mask.png");
    assert_int_equal(stoke_image_write_png_indexed(path, &image, palette, COLORS, &err), STOKE_OK);
    stoke_decoder *d = new_decoder();
    bytes file = read_back(path);
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image out;
    params.purpose = STOKE_PURPOSE_MASK;
    decode_ok(d, file, &params, &out);
    assert_is_cut(&out, &image, (stoke_box){ 0, 0, WIDTH, HEIGHT }, "indices");
    params.purpose = STOKE_PURPOSE_IMAGE;
    decode_ok(d, file, &params, &out);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            assert_memory_equal((uint8_t *)out.data + y * out.stride + x * 3, palette[values[y][x]], 3);
    free(file.data);
    stoke_decoder_destroy(&d);
    const char *none = unit_path(state, "none.png");
    assert_int_equal(stoke_image_write_png_indexed(none, &image, palette, COLORS - 1, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "value 4"));
    assert_int_equal(stoke_image_write_png_indexed(none, &image, palette, 0, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_image_write_png_indexed(none, &image, palette, 257, &err), STOKE_E_INVALID);
    const stoke_image wide = { values, 32, 8, HEIGHT, 1, 2 };
    assert_int_equal(stoke_image_write_png_indexed(none, &wide, palette, COLORS, &err), STOKE_E_INVALID);
    assert_int_not_equal(access(none, F_OK), 0);
}

/* Every allocation of our own fails once: an error each time, and nothing is lost (the sanitizer looks). */
static void memory_failures_are_reported(void **state)
{
    dice luck = { seed + 13, 0 };
    uint8_t *samples = make_samples(24, 24, 3, &luck);
    bytes plain = make_jpeg(samples, 24, 24, jpegs[2].kind);
    bytes files[4] = { with_exif(plain, 6, 0), { 0 }, { 0 }, { 0 } };
    files[1] = make_png(samples, 24 * 24 * 3, 24, 24, (png_kind){ .colour_type = 2, .bits = 8 });
    files[2] =
        make_png(samples, 24 * 24 * 3, 24, 24, (png_kind){ .colour_type = 2, .bits = 8, .interlaced = 1 });
    files[3].size = WebPEncodeRGB(samples, 24, 24, 72, 75, &files[3].data);
    stoke_decode_params params = stoke_decode_defaults();
    params.orientation = STOKE_ORIENTATION_APPLY;
    params.alpha = STOKE_ALPHA_COMPOSITE;
    for (int i = 0; i < 4; i++) {
        int failures = 0, r;
        do {
            stoke_decoder *d = NULL;
            stoke_image out;
            stk_mem_fail_after(failures);
            r = stoke_decoder_create(&d, &err);
            if (r == STOKE_OK) r = stoke_decoder_decode(d, files[i].data, files[i].size, &params, &out, &err);
            stk_mem_fail_after(-1);
            stoke_decoder_destroy(&d);
            /* zlib allocates its window late, and libspng reports that failure as a bad stream. */
            int late = r == STOKE_E_FORMAT && strstr(err.message, "IDAT stream error");
            if (r != STOKE_OK && r != STOKE_E_NOMEM && !late)
                fail_msg("file %d, allocation %d: %s", i, failures, err.message);
        } while (r != STOKE_OK && failures++ < 100);
        assert_int_equal(r, STOKE_OK);
        assert_true(failures > 0);
    }
    free(samples), free(plain.data), free(files[0].data), free(files[1].data), free(files[2].data);
    WebPFree(files[3].data);
}

static void names_and_extensions(void **state)
{
    assert_true(stoke_format_known_extension("a/b.JPG"));
    assert_true(stoke_format_known_extension("x.tiff"));
    assert_false(stoke_format_known_extension("a.png/b"));
    assert_false(stoke_format_known_extension("png"));
    assert_false(stoke_format_known_extension("x.gif"));
    assert_string_equal(stoke_format_name(STOKE_FORMAT_WEBP), "webp");
    assert_string_equal(stoke_format_name((stoke_format)99), "unknown");
    assert_int_equal(stoke_image_bytes(10, 20, 3, 2), 1200);
    assert_int_equal(stoke_image_bytes(4294967295u, 4294967295u, 3, 2), 0);
}

UNIT_GROUP(codec)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_file_is_refused),
        cmocka_unit_test(damage_does_not_stick),
        cmocka_unit_test(orientation_is_applied),
        cmocka_unit_test(png_masks_keep_their_integers),
        cmocka_unit_test(index_beyond_palette_is_an_error),
        cmocka_unit_test(alpha_is_dropped_or_composited),
        cmocka_unit_test(png_region_equals_cut),
        cmocka_unit_test(interlaced_equals_plain),
        cmocka_unit_test(small_file_of_many_pixels_is_refused),
        cmocka_unit_test(wrong_checksum_is_an_error),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(target_takes_the_pixels_when_it_fits),
        cmocka_unit_test(steady_work_does_not_allocate),
        unit_test_with_folder(tiff_of_many_kinds),
        unit_test_with_folder(tiff_premultiplied_16),
        unit_test_with_folder(tiff_bilevel_and_refusals),
        cmocka_unit_test(webp_lossless_and_regions),
        unit_test_with_folder(writers_make_files_that_read_back),
        unit_test_with_folder(indexed_files_have_values_and_colors),
        cmocka_unit_test(memory_failures_are_reported),
        cmocka_unit_test(names_and_extensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
