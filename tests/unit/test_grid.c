/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/report/grid.h"

static const uint8_t *pixel(const stk_canvas *canvas, uint32_t x, uint32_t y)
{
    return canvas->pixels + ((size_t)y * canvas->width + x) * 3;
}

static void assert_color(const uint8_t *p, int r, int g, int b)
{
    if (abs(p[0] - r) > 1 || abs(p[1] - g) > 1 || abs(p[2] - b) > 1)
        fail_msg("(%d, %d, %d) instead of (%d, %d, %d)", p[0], p[1], p[2], r, g, b);
}

static void class_colors_are_apart(void **state)
{
    uint8_t a[3], b[3];
    stoke_class_color(0, a);
    assert_color(a, 0, 0, 0);
    stoke_class_color(255, a);
    assert_true(a[0] > 200 && a[0] == a[1] && a[1] == a[2]);
    for (uint32_t i = 0; i < 256; i++)
        for (uint32_t j = i + 1; j < 256; j++) {
            stoke_class_color(i, a);
            stoke_class_color(j, b);
            int d =
                (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) + (a[2] - b[2]) * (a[2] - b[2]);
            if (d < (i < 24 && j < 24 ? 60 * 60 : 20 * 20))
                fail_msg("classes %u and %u are %d apart", i, j, d);
        }
    stoke_class_color(65535, a); /* any id has a colour */
}

static void font_has_every_letter(void **state)
{
    uint64_t seen[95];
    for (int c = 32; c < 127; c++) {
        uint64_t bits = 0;
        for (int y = 0; y < STK_GLYPH_HEIGHT; y++)
            for (int x = 0; x < STK_GLYPH_WIDTH; x++)
                bits = bits << 1 | (uint64_t)stk_glyph_bit((unsigned char)c, x, y);
        assert_true(c == ' ' ? bits == 0 : bits != 0);
        for (int other = 32; other < c; other++) assert_true(seen[other - 32] != bits);
        seen[c - 32] = bits;
    }
    assert_int_equal(stk_glyph_bit('A', -1, 0), 0);
    assert_int_equal(stk_glyph_bit('A', 0, 8), 0);
    assert_int_equal(stk_glyph_bit(200, 2, 6), stk_glyph_bit('?', 2, 6));
}

static void text_is_cut_in_the_middle(void **state)
{
    char out[16 * STK_LETTER_BYTES];
    stk_text_fit("short", 2, 1000, out, sizeof out);
    assert_string_equal(out, "short");
    stk_text_fit("0123456789abcdef.png", 1, 12 * STK_GLYPH_ADVANCE - 1, out, sizeof out);
    assert_string_equal(out, "012345...png");
    assert_true(stk_text_width(out, 1) <= 12 * STK_GLYPH_ADVANCE - 1);
    stk_text_fit("0123456789abcdefghij", 1, 100000, out, sizeof out);
    assert_int_equal(strlen(out), (sizeof out - 1) / STK_LETTER_BYTES);
    stk_text_fit("\xc3\xbc\n\xff", 1, 1000, out, sizeof out);
    assert_string_equal(out, "???");
    for (uint32_t width = 0; width < 40; width++) {
        stk_text_fit("abcdefghijkl", 2, width, out, sizeof out);
        assert_true(stk_text_width(out, 2) <= width);
    }
    stk_text_fit("", 1, 10, out, sizeof out);
    assert_string_equal(out, "");
}

/* Property: averaging keeps the mean, and the same size keeps every pixel. */
static void scaling_averages(void **state)
{
    uint8_t source[7 * 5 * 3];
    stoke_image image = { source, 7 * 3, 7, 5, 3, 1 };
    stk_canvas canvas;
    for (size_t i = 0; i < sizeof source; i++) source[i] = (uint8_t)stk_philox(3, i, 0, 9, 0).word[0];
    assert_int_equal(stk_canvas_create(&canvas, 40, 40, stk_page_color, NULL), 0);
    stk_canvas_blit(&canvas, 2, 3, 7, 5, &image);
    for (uint32_t y = 0; y < 5; y++) assert_memory_equal(pixel(&canvas, 2, 3 + y), source + y * 21, 21);
    assert_color(pixel(&canvas, 1, 3), stk_page_color.r, stk_page_color.g, stk_page_color.b);
    static const uint32_t sizes[][2] = { { 1, 1 }, { 3, 2 }, { 14, 10 }, { 35, 33 } };
    double mean = 0;
    for (size_t i = 0; i < sizeof source; i++) mean += source[i] / (double)sizeof source;
    for (size_t s = 0; s < 4; s++) {
        uint32_t w = sizes[s][0], h = sizes[s][1];
        double sum = 0;
        stk_canvas_blit(&canvas, 0, 0, w, h, &image);
        for (uint32_t y = 0; y < h; y++)
            for (uint32_t i = 0; i < w * 3; i++) sum += pixel(&canvas, 0, y)[i];
        assert_true(sum / (w * h * 3) > mean - 1 && sum / (w * h * 3) < mean + 1);
    }
    stk_canvas_blit(&canvas, 38, 38, 30, 30, &image); /* cut at the edge, not beyond */
    stk_canvas_fill(&canvas, 39, 39, UINT32_MAX, UINT32_MAX, stk_ink);
    stk_canvas_text(&canvas, 35, 36, "edge", 3, stk_ink);
    stk_canvas_free(&canvas);
    assert_int_equal(stk_canvas_create(&canvas, 1 << 20, 1 << 20, stk_page_color, NULL), STOKE_E_LIMIT);
    assert_int_equal(stk_canvas_create(&canvas, 0, 5, stk_page_color, NULL), STOKE_E_LIMIT);
}

/* A grey image whose mask is 1 on the left, 2 on the right, with a column of `ignore` at the end. */
enum { SIDE = 64 };
typedef struct fixture {
    uint8_t gray[SIDE * SIDE * 3];
    uint8_t classes[SIDE * SIDE];
    uint16_t wide[SIDE * SIDE];
    stoke_image image, mask, mask16;
} fixture;

static void fixture_fill(fixture *f)
{
    memset(f->gray, 128, sizeof f->gray);
    for (int i = 0; i < SIDE * SIDE; i++) {
        int x = i % SIDE;
        f->classes[i] = x < 24 ? 1 : x < 48 ? 2 : 200;
        f->wide[i] = x < 24 ? 1 : x < 48 ? 300 : 65535;
    }
    f->image = (stoke_image){ f->gray, SIDE * 3, SIDE, SIDE, 3, 1 };
    f->mask = (stoke_image){ f->classes, SIDE, SIDE, SIDE, 1, 1 };
    f->mask16 = (stoke_image){ f->wide, SIDE * 2, SIDE, SIDE, 1, 2 };
}

enum { MARGIN = 28, SEAM = 4 };

static void overlay_shows_fill_edge_and_hatch(void **state)
{
    fixture f;
    stk_canvas canvas;
    uint8_t c1[3];
    fixture_fill(&f);
    stoke_tile tile = { &f.image, &f.mask, NULL, NULL };
    stoke_grid_params p = stoke_grid_defaults();
    p.tile = SIDE;
    p.ignore_index = 200;
    p.opacity = 0.5;
    assert_int_equal(stk_grid_draw(&canvas, &tile, 1, &p, NULL), 0);
    uint32_t left = MARGIN + SIDE + SEAM;
    assert_color(pixel(&canvas, MARGIN + 10, MARGIN + 30), 128, 128, 128); /* the sample as it is */
    stoke_class_color(1, c1);
    assert_color(pixel(&canvas, left + 10, MARGIN + 30), (128 + c1[0]) / 2, (128 + c1[1]) / 2,
                 (128 + c1[2]) / 2);
    int fill = abs(pixel(&canvas, left + 10, MARGIN + 30)[0] - 128),
        edge = abs(pixel(&canvas, left + 23, MARGIN + 30)[0] - 128);
    assert_true(edge > fill + 10);
    int light = 0, dark = 0;
    for (uint32_t y = 0; y < SIDE; y++) {
        uint8_t v = pixel(&canvas, left + 56, MARGIN + y)[0];
        light += v > 170;
        dark += v < 110;
    }
    assert_true(light > 15 && dark > 30 && light + dark == SIDE);
    stk_canvas_free(&canvas);
    p.opacity = 0; /* nothing laid over */
    p.ignore_index = -1;
    assert_int_equal(stk_grid_draw(&canvas, &tile, 1, &p, NULL), 0);
    for (uint32_t x = 0; x < SIDE; x++) assert_color(pixel(&canvas, left + x, MARGIN + 30), 128, 128, 128);
    stk_canvas_free(&canvas);
}

/* Whatever the image: a blue one does not turn green into teal. */
static void overlay_has_the_colours_of_the_legend(void **state)
{
    fixture f;
    stk_canvas canvas;
    uint8_t c1[3];
    fixture_fill(&f);
    for (int i = 0; i < SIDE * SIDE; i++) f.gray[3 * i] = f.gray[3 * i + 1] = 0, f.gray[3 * i + 2] = 255;
    const stoke_tile tile = { &f.image, &f.mask, NULL, NULL };
    stoke_grid_params p = stoke_grid_defaults();
    p.tile = SIDE;
    p.opacity = 0.5;
    assert_int_equal(stk_grid_draw(&canvas, &tile, 1, &p, NULL), 0);
    stoke_class_color(1, c1);
    assert_color(pixel(&canvas, MARGIN + 10, MARGIN + 30), 0, 0, 255);
    assert_color(pixel(&canvas, MARGIN + SIDE + SEAM + 10, MARGIN + 30), (29 + c1[0]) / 2, (29 + c1[1]) / 2,
                 (29 + c1[2]) / 2);
    stk_canvas_free(&canvas);
}

/* A target stands where a mask would, scaled to its image, and as it is. */
static void targets_stand_beside_their_images(void **state)
{
    enum { LARGE = 2 * SIDE };
    static uint8_t colours[LARGE * LARGE * 3];
    fixture f;
    stk_canvas canvas;
    fixture_fill(&f);
    for (uint32_t i = 0; i < LARGE * LARGE; i++) colours[3 * i + (i % LARGE < SIDE ? 0 : 2)] = 200;
    const stoke_image target = { colours, LARGE * 3, LARGE, LARGE, 3, 1 },
                      gray = { colours, LARGE, LARGE, LARGE, 1, 1 };
    stoke_tile tiles[2] = { { .image = &f.image, .target = &target }, { .image = &f.image } };
    const stoke_strip strip = { NULL, NULL, NULL };
    stoke_grid_params p = stoke_grid_defaults();
    p.tile = SIDE;
    p.columns = 1;
    assert_int_equal(stk_grid_draw(&canvas, tiles, 1, &p, NULL), 0);
    assert_color(pixel(&canvas, MARGIN + 10, MARGIN + 30), 128, 128, 128);
    assert_color(pixel(&canvas, MARGIN + SIDE + SEAM + 10, MARGIN + 30), 200, 0, 0);
    assert_color(pixel(&canvas, MARGIN + SIDE + SEAM + SIDE - 10, MARGIN + 30), 0, 0, 200);
    stk_canvas_free(&canvas);
    assert_int_equal(stk_strips_draw(&canvas, &strip, 1, tiles, &p, NULL), 0);
    assert_color(pixel(&canvas, MARGIN + 10, MARGIN + SIDE + SEAM + 30), 200, 0, 0);
    stk_canvas_free(&canvas);
    tiles[0].target = &gray;
    assert_int_equal(stk_grid_draw(&canvas, tiles, 1, &p, NULL), STOKE_E_INVALID);
    stk_canvas_free(&canvas);
}

static void wide_masks_and_missing_masks(void **state)
{
    fixture f;
    stk_canvas canvas;
    fixture_fill(&f);
    stoke_tile tiles[3] = { { &f.image, &f.mask16, "with sixteen bits", NULL },
                            { &f.image, NULL, NULL, NULL },
                            { &f.image, &f.mask, "x", NULL } };
    stoke_grid_params p = stoke_grid_defaults();
    const char *names[] = { NULL, "one" };
    p.class_names = names;
    p.n_class_names = 2;
    p.ignore_index = 65535;
    p.title = "title";
    p.columns = 2;
    assert_int_equal(stk_grid_draw(&canvas, tiles, 3, &p, NULL), 0);
    assert_true(canvas.width >= 2 * (2 * 256 + SEAM) + 2 * MARGIN);
    stk_canvas_free(&canvas);
    assert_int_equal(stk_grid_draw(&canvas, &tiles[1], 1, NULL, NULL),
                     0); /* no masks at all: one picture, no legend */
    assert_int_equal(canvas.width, 256 + 2 * MARGIN);
    assert_int_equal(canvas.height, 256 + 2 * MARGIN);
    stk_canvas_free(&canvas);
}

static void legend_counts_pixels(void **state)
{
    fixture f;
    stk_grid_legend legend;
    fixture_fill(&f);
    stoke_tile tiles[2] = { { &f.image, &f.mask, NULL, NULL }, { &f.image, &f.mask16, NULL, NULL } };
    stoke_grid_params p = stoke_grid_defaults();
    assert_int_equal(stk_legend_count(&legend, tiles, 2, &p, 1, NULL), 0);
    static const uint32_t ids[] = { 1, 2, 200, 300, 65535 };
    static const uint32_t columns[] = { 48, 24, 16, 24, 16 };
    assert_int_equal(legend.count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(legend.entries[i].id, ids[i]);
        assert_int_equal(legend.entries[i].pixels, columns[i] * SIDE);
    }
    stk_canvas none = { 0 };
    assert_true(stk_legend_draw(&legend, &none, 0, legend.item_width, &p) >
                stk_legend_draw(&legend, &none, 0, legend.item_width * 8, &p));
    stk_legend_free(&legend);
}

/* Zero columns: about square. */
static void layout_is_about_square(void **state)
{
    fixture f;
    fixture_fill(&f);
    stoke_tile tiles[30];
    for (int i = 0; i < 30; i++) tiles[i] = (stoke_tile){ &f.image, &f.mask, "c", NULL };
    stoke_grid_params p = stoke_grid_defaults();
    p.tile = 100;
    for (size_t n = 4; n <= 30; n++) {
        stk_canvas canvas;
        assert_int_equal(stk_grid_draw(&canvas, tiles, n, &p, NULL), 0);
        double ratio = (double)canvas.width / canvas.height;
        assert_true(ratio > 0.5 && ratio < 2.0);
        stk_canvas_free(&canvas);
    }
}

static void mistakes_are_refused(void **state)
{
    fixture f;
    stk_canvas canvas;
    stoke_error err;
    fixture_fill(&f);
    stoke_image small = f.mask, gray = f.image;
    small.width--;
    gray.channels = 1;
    stoke_tile good = { &f.image, &f.mask, NULL, NULL }, mismatch = { &f.image, &small, NULL, NULL },
               not_rgb = { &gray, NULL, NULL, NULL };
    stoke_tile swapped = { &f.image, &f.image, NULL, NULL }, empty = { NULL, NULL, NULL, NULL };
    stoke_grid_params p = stoke_grid_defaults();
    assert_int_equal(stk_grid_draw(&canvas, &good, 0, &p, &err), STOKE_E_INVALID);
    assert_int_equal(stk_grid_draw(&canvas, &mismatch, 1, &p, &err), STOKE_E_SIZE);
    assert_string_equal(err.message, "tile 0: the mask is 64x63 (height x width), the image 64x64");
    assert_int_equal(stk_grid_draw(&canvas, &not_rgb, 1, &p, &err), STOKE_E_INVALID);
    assert_int_equal(stk_grid_draw(&canvas, &swapped, 1, &p, &err), STOKE_E_INVALID);
    assert_int_equal(stk_grid_draw(&canvas, &empty, 1, &p, &err), STOKE_E_INVALID);
    p.opacity = 1.5;
    assert_int_equal(stk_grid_draw(&canvas, &good, 1, &p, &err), STOKE_E_INVALID);
    p = stoke_grid_defaults();
    p.tile = 100000;
    assert_int_equal(stk_grid_draw(&canvas, &good, 1, &p, &err), STOKE_E_INVALID);
    p.struct_size = 0;
    assert_int_equal(stk_grid_draw(&canvas, &good, 1, &p, &err), STOKE_E_INVALID);
    for (int i = 0; i < 3; i++) {
        stk_mem_fail_after(i);
        int status = stk_grid_draw(&canvas, &good, 1, NULL, &err);
        stk_mem_fail_after(-1);
        assert_int_equal(status, STOKE_E_NOMEM);
    }
}

static void grid_is_written_as_png(void **state)
{
    fixture f;
    stoke_error err = { 0 };
    stk_mem_buffer file = { 0 };
    stoke_decoder *decoder;
    stoke_image_info info;
    size_t size;
    fixture_fill(&f);
    stoke_tile tile = { &f.image, &f.mask, "caption", NULL };
    const char *path = unit_path(state, "grid.png");
    if (stoke_grid_write(path, &tile, 1, NULL, &err)) fail_msg("%s", err.message);
    assert_int_equal(stk_file_read(path, 1 << 24, &file, &size, &err), 0);
    assert_int_equal(stoke_decoder_create(&decoder, &err), 0);
    assert_int_equal(stoke_decoder_probe(decoder, file.data, size, &info, &err), 0);
    assert_int_equal(info.format, STOKE_FORMAT_PNG);
    assert_int_equal(info.channels, 3);
    assert_true(info.width >= 2 * 256 + SEAM + 2 * MARGIN);
    stoke_decoder_destroy(&decoder);
    stk_buffer_free(&file);
    assert_int_equal(stoke_grid_write(unit_path(state, "no/such/folder.png"), &tile, 1, NULL, &err),
                     STOKE_E_IO);
}

enum {
    TEXT = 360,
    ASIDE = 8,
    HEADING = 50,
    LABEL = 24,
    NOTE_LINE = 20,
    BELOW_NOTE = 4,
    BETWEEN = 28,
    APART = 48
};

static int is_blank(const stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t width, uint32_t height)
{
    for (uint32_t row = y; row < y + height; row++)
        for (uint32_t column = x; column < x + width; column++)
            if (memcmp(pixel(canvas, column, row), &stk_page_color, 3)) return 0;
    return 1;
}

static void strips_stand_in_rows(void **state)
{
    fixture f;
    stk_canvas canvas;
    fixture_fill(&f);
    /* Two strips of three places: the first has a mask, the second none and a gap. */
    const stoke_tile tiles[6] = { { &f.image, &f.mask, NULL, NULL }, { &f.image, &f.mask, NULL, NULL },
                                  { &f.image, &f.mask, NULL, NULL }, { &f.image, NULL, NULL, NULL },
                                  { NULL, NULL, NULL, NULL },        { &f.image, NULL, NULL, NULL } };
    const stoke_strip strips[2] = { { "section", "first", NULL }, { NULL, NULL, NULL } };
    stoke_grid_params p = stoke_grid_defaults();
    p.tile = SIDE;
    p.columns = 3;
    p.opacity = 0.5;
    assert_int_equal(stk_strips_draw(&canvas, strips, 2, tiles, &p, NULL), 0);
    assert_int_equal(canvas.width, 2 * MARGIN + TEXT);
    const uint32_t left = MARGIN, top = MARGIN + HEADING + LABEL + BELOW_NOTE,
                   second = top + 2 * SIDE + SEAM + BETWEEN;
    uint8_t c1[3];
    stoke_class_color(1, c1);
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t x = left + i * (SIDE + ASIDE) + 10;
        assert_color(pixel(&canvas, x, top + 30), 128, 128, 128);
        assert_color(pixel(&canvas, x, top + SIDE + SEAM + 30), (128 + c1[0]) / 2, (128 + c1[1]) / 2,
                     (128 + c1[2]) / 2);
    }
    assert_color(pixel(&canvas, left, second), 128, 128, 128);
    assert_true(is_blank(&canvas, left + SIDE, second, SIDE + 2 * ASIDE, SIDE)); /* the gap */
    assert_color(pixel(&canvas, left + 2 * (SIDE + ASIDE), second), 128, 128, 128);
    assert_false(is_blank(&canvas, MARGIN, MARGIN + 10, TEXT, 20));              /* the heading */
    assert_false(is_blank(&canvas, MARGIN, top - LABEL - BELOW_NOTE, TEXT, 16)); /* the label */
    assert_true(is_blank(&canvas, MARGIN, second - BETWEEN, TEXT, BETWEEN));     /* no label */
    stk_canvas_free(&canvas);
}

/* Five strips are three lines of two; a heading begins a line; neighbours line up whatever their notes. */
static void many_strips_stand_two_abreast(void **state)
{
    fixture f;
    stk_canvas canvas;
    fixture_fill(&f);
    stoke_tile tiles[5];
    for (int i = 0; i < 5; i++) tiles[i] = (stoke_tile){ &f.image, NULL, NULL, NULL };
    const stoke_strip strips[5] = { { NULL, NULL, "one line" },
                                    { NULL, NULL, "two\nlines" },
                                    { NULL, NULL, NULL },
                                    { "section", NULL, NULL },
                                    { NULL, NULL, NULL } };
    stoke_grid_params p = stoke_grid_defaults();
    p.tile = SIDE;
    p.columns = 1;
    assert_int_equal(stk_strips_draw(&canvas, strips, 5, tiles, &p, NULL), 0);
    const uint32_t right = MARGIN + TEXT + APART, first = MARGIN + 2 * NOTE_LINE + BELOW_NOTE,
                   second = first + SIDE + BETWEEN, third = second + SIDE + BETWEEN + HEADING;
    assert_int_equal(canvas.width, right + TEXT + MARGIN);
    assert_int_equal(canvas.height, third + SIDE + MARGIN);
    const uint32_t places[5][2] = {
        { MARGIN, first }, { right, first }, { MARGIN, second }, { MARGIN, third }, { right, third }
    };
    for (int i = 0; i < 5; i++) {
        assert_color(pixel(&canvas, places[i][0], places[i][1]), 128, 128, 128);
        assert_color(pixel(&canvas, places[i][0] + SIDE - 1, places[i][1] + SIDE - 1), 128, 128, 128);
        assert_true(is_blank(&canvas, places[i][0], places[i][1] + SIDE, SIDE, 10));
    }
    assert_true(is_blank(&canvas, right, second, TEXT, SIDE)); /* left over before the section */
    stk_canvas_free(&canvas);
}

static void text_is_broken_into_lines(void **state)
{
    const char *text = "one two,three(four\n\nunbrokenline \xc3\xa4", *none = NULL;
    static const char *const expected[] = { "one two,", "three(", "four", "", "unbrok", "enline", "?" };
    char line[STK_LINE_BYTES];
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        /* eight letters in the first line, six later */
        assert_true(stk_text_line(&text, 2, (i ? 6 : 8) * STK_GLYPH_ADVANCE * 2, line));
        assert_string_equal(line, expected[i]);
    }
    assert_false(stk_text_line(&text, 2, 100, line));
    assert_false(stk_text_line(&none, 2, 100, line));
    text = "ab";
    assert_true(stk_text_line(&text, 2, 0, line)); /* no room: a letter a line, not for ever */
    assert_string_equal(line, "a");
}

/* A long title makes the picture higher, not nonsense. */
static void titles_are_broken(void **state)
{
    fixture f;
    stk_canvas narrow, plain;
    fixture_fill(&f);
    const stoke_tile tile = { &f.image, NULL, NULL, NULL };
    stoke_grid_params p = stoke_grid_defaults();
    p.title = "short";
    assert_int_equal(stk_grid_draw(&plain, &tile, 1, &p, NULL), 0);
    p.title = "a title of many words in four lines, at 14 a line";
    assert_int_equal(stk_grid_draw(&narrow, &tile, 1, &p, NULL), 0);
    assert_int_equal(narrow.width, plain.width);
    assert_int_equal(narrow.height, plain.height + 3 * STK_TITLE_LINE);
    stk_canvas_free(&narrow);
    stk_canvas_free(&plain);
}

/* Notes are broken at spaces and commas; tiles stand below them. */
static void notes_make_room(void **state)
{
    fixture f;
    stk_canvas one, many, unbroken;
    char spaced[601], solid[601];
    fixture_fill(&f);
    for (int i = 0; i < 600; i++) spaced[i] = i % 7 == 6 ? ' ' : 'w', solid[i] = 'w';
    spaced[600] = solid[600] = 0;
    const stoke_tile tile = { &f.image, NULL, "caption", NULL };
    stoke_grid_params p = stoke_grid_defaults();
    p.tile = SIDE;
    p.columns = 1;
    assert_int_equal(stk_strips_draw(&one, &(stoke_strip){ NULL, "a", "b\nc" }, 1, &tile, &p, NULL), 0);
    assert_int_equal(stk_strips_draw(&many, &(stoke_strip){ NULL, "a", spaced }, 1, &tile, &p, NULL), 0);
    assert_int_equal(stk_strips_draw(&unbroken, &(stoke_strip){ NULL, "a", solid }, 1, &tile, &p, NULL), 0);
    const uint32_t rest = 2 * MARGIN + LABEL + BELOW_NOTE + SIDE + 16; /* the caption in small letters */
    assert_int_equal(one.height, rest + 2 * NOTE_LINE);
    assert_int_equal(unbroken.height, rest + 600 / 30 * NOTE_LINE);
    assert_int_equal(many.height, rest + (600 + 27) / 28 * NOTE_LINE); /* four words of 6 and a space */
    /* No letter runs into the margin. */
    assert_true(is_blank(&many, MARGIN + TEXT, MARGIN, MARGIN, many.height - MARGIN));
    assert_true(is_blank(&unbroken, MARGIN + TEXT, MARGIN, MARGIN, unbroken.height - MARGIN));
    stk_canvas_free(&one);
    stk_canvas_free(&many);
    stk_canvas_free(&unbroken);
}

static void bad_strips_are_refused(void **state)
{
    fixture f;
    stk_canvas canvas;
    stoke_error err;
    fixture_fill(&f);
    stoke_image small = f.mask;
    small.width--;
    const stoke_strip strips[2] = { { "h", "l", "n" }, { "h", "l", "n" } };
    const stoke_tile good[2] = { { &f.image, &f.mask, NULL, NULL }, { &f.image, &f.mask, NULL, NULL } };
    const stoke_tile bad[2] = { { &f.image, &f.mask, NULL, NULL }, { &f.image, &small, NULL, NULL } };
    stoke_grid_params p = stoke_grid_defaults();
    assert_int_equal(stk_strips_draw(&canvas, strips, 2, good, &p, &err), STOKE_E_INVALID); /* columns 0 */
    p.columns = 1;
    assert_int_equal(stk_strips_draw(&canvas, strips, 0, good, &p, &err), STOKE_E_INVALID);
    assert_int_equal(stk_strips_draw(&canvas, strips, 2, bad, &p, &err), STOKE_E_SIZE);
    assert_string_equal(err.message, "tile 1: the mask is 64x63 (height x width), the image 64x64");
    for (int i = 0; i < 3; i++) {
        stk_mem_fail_after(i);
        int status = stk_strips_draw(&canvas, strips, 2, good, &p, &err);
        stk_mem_fail_after(-1);
        assert_int_equal(status, STOKE_E_NOMEM);
    }
    assert_int_equal(stoke_strips_write(unit_path(state, "no/such/folder.png"), strips, 2, good, &p, &err),
                     STOKE_E_IO);
    assert_int_equal(stoke_strips_write(unit_path(state, "strips.png"), strips, 2, good, &p, &err), 0);
}

UNIT_GROUP(grid)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_colors_are_apart),
        cmocka_unit_test(targets_stand_beside_their_images),
        cmocka_unit_test(font_has_every_letter),
        cmocka_unit_test(text_is_cut_in_the_middle),
        cmocka_unit_test(scaling_averages),
        cmocka_unit_test(overlay_shows_fill_edge_and_hatch),
        cmocka_unit_test(wide_masks_and_missing_masks),
        cmocka_unit_test(legend_counts_pixels),
        cmocka_unit_test(layout_is_about_square),
        cmocka_unit_test(mistakes_are_refused),
        unit_test_with_folder(grid_is_written_as_png),
        cmocka_unit_test(strips_stand_in_rows),
        cmocka_unit_test(many_strips_stand_two_abreast),
        cmocka_unit_test(text_is_broken_into_lines),
        cmocka_unit_test(titles_are_broken),
        cmocka_unit_test(overlay_has_the_colours_of_the_legend),
        cmocka_unit_test(notes_make_room),
        unit_test_with_folder(bad_strips_are_refused),
    };
    setenv("STOKE_FONT", "none", 1); /* what a machine without one draws; test_typeface has the other */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
