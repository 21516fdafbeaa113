/* SPDX-License-Identifier: Apache-2.0
 *
 * Letters of pictures. The font is the system's, so tests ask what must hold for any: different letters look
 * different, stay in their box, and a text is never wider than it says.
 */
#include "tests/unit/unit.h"

#include "src/report/grid.h"
#include "src/report/canvas.h"
#include <stoke/tools/chart.h>

#define SKY  "\xe5\xa4\xa9\xe7\xa9\xba" /* 天空 */
#define ROAD "\xe9\x81\x93\xe8\xb7\xaf" /* 道路 */

static void need_font(void)
{
    if (!stk_typeface_advance(0x5929)) unit_skip("no FreeType, or no font with Chinese letters");
}

static stk_canvas written(const char *text, unsigned scale)
{
    stk_canvas canvas;
    assert_int_equal(stk_canvas_create(&canvas, 120, 40, (stk_canvas_color){ 255, 255, 255 }, NULL), 0);
    stk_canvas_text(&canvas, 10, 10, text, scale, (stk_canvas_color){ 0 });
    return canvas;
}

/* Columns and rows that any ink is in; returns how many pixels have some. */
static size_t extent(const stk_canvas *canvas, uint32_t *right, uint32_t *top, uint32_t *bottom)
{
    size_t inked = 0;
    *right = *bottom = 0, *top = UINT32_MAX;
    for (uint32_t y = 0; y < canvas->height; y++)
        for (uint32_t x = 0; x < canvas->width; x++) {
            if (canvas->pixels[((size_t)y * canvas->width + x) * 3] > 200) continue;
            inked++;
            if (x > *right) *right = x;
            if (y < *top) *top = y;
            if (y > *bottom) *bottom = y;
        }
    return inked;
}

static void names_are_told_apart(void **state)
{
    need_font();
    stk_canvas sky = written(SKY, 2), road = written(ROAD, 2), unknown = written("??", 2);
    const size_t bytes = (size_t)sky.width * sky.height * 3;
    assert_memory_not_equal(sky.pixels, road.pixels, bytes);
    assert_memory_not_equal(sky.pixels, unknown.pixels, bytes);
    stk_canvas_free(&sky), stk_canvas_free(&road), stk_canvas_free(&unknown);
}

/* ASCII is drawn in the cells of the bitmap font, whatever draws it, with shades where a font does. */
static void ascii_keeps_its_cells(void **state)
{
    const char *text = "Wgj_|0@il";
    (void)state;
    for (unsigned scale = 1; scale <= 3; scale++) {
        uint32_t right, top, bottom;
        stk_canvas canvas;
        assert_int_equal(stk_canvas_create(&canvas, 200, 60, (stk_canvas_color){ 255, 255, 255 }, NULL), 0);
        stk_canvas_text(&canvas, 10, 10, text, scale, (stk_canvas_color){ 0 });
        assert_true(extent(&canvas, &right, &top, &bottom) > 20);
        assert_true(right < 10 + stk_text_width(text, scale) + scale);
        assert_int_equal(stk_text_width(text, scale), (9 * STK_GLYPH_ADVANCE - 1) * scale);
        assert_true(top + 2 * scale >= 10 && bottom <= 10 + (STK_GLYPH_HEIGHT + 2) * scale);
        stk_canvas_free(&canvas);
    }
}

static void ascii_is_drawn_by_a_font(void **state)
{
    stk_canvas canvas = written("", 1);
    (void)state;
    const int font = stk_typeface_draw(&canvas, 10, 10, 'o', 1, (stk_canvas_color){ 0 });
    int shades = 0;
    for (size_t i = 0; i < (size_t)canvas.width * canvas.height * 3; i++)
        shades += canvas.pixels[i] > 0 && canvas.pixels[i] < 255;
    stk_canvas_free(&canvas);
    if (!font) unit_skip("no FreeType, or no font with letters of one width");
    assert_true(shades > 0);
}

static void letters_stay_in_their_box(void **state)
{
    need_font();
    for (unsigned scale = 1; scale <= 3; scale++) {
        uint32_t right, top, bottom;
        stk_canvas canvas = written(SKY, scale);
        assert_true(extent(&canvas, &right, &top, &bottom) > 20);
        assert_true(right <= 10 + stk_text_width(SKY, scale));
        assert_true(top + scale >= 10 && bottom <= 10 + (STK_GLYPH_HEIGHT + 1) * scale);
        stk_canvas_free(&canvas);
    }
}

static void long_names_are_cut_at_letters(void **state)
{
    need_font();
    char out[64];
    const char *name = SKY ROAD SKY ROAD SKY "_0001.png";
    for (uint32_t width = 0; width < 200; width++) {
        stk_text_fit(name, 1, width, out, sizeof out);
        assert_true(stk_text_width(out, 1) <= width);
        assert_null(strchr(out, '?')); /* half a letter would be one */
    }
    stk_text_fit(name, 1, 90, out, sizeof out);
    assert_non_null(strstr(out, ".."));
    assert_non_null(strstr(out, ".png"));
}

/* Four bytes each in UTF-8, and as narrow as a letter of ASCII: names of classes may be made of them. */
static void narrow_letters_of_four_bytes_fit(void **state)
{
    enum { ROOM = 24 * STK_LETTER_BYTES + 1, LETTERS = 40, GUARD = 64 };
    char name[4 * LETTERS + 1] = "", out[ROOM + GUARD];
    (void)state;
    if (stk_typeface_advance(0x1f600) != STK_GLYPH_ADVANCE) unit_skip("no FreeType, or no font with U+1F600");
    for (int i = 0; i < LETTERS; i++) strcat(name, "\xf0\x9f\x98\x80");
    for (uint32_t width = 0; width < 400; width++) {
        memset(out, 'g', sizeof out);
        stk_text_fit(name, 1, width, out, ROOM);
        for (size_t i = ROOM; i < sizeof out; i++) assert_int_equal(out[i], 'g');
        assert_true(stk_text_width(out, 1) <= width);
    }
}

static void what_no_picture_shows_is_a_question_mark(void **state)
{
    char out[64];
    stk_text_fit("a\x1b\xe2\x80\xae\xff"
                 "b",
                 1, 1000, out, sizeof out);
    assert_string_equal(out, "a???b");
    assert_int_equal(stk_typeface_advance(0x202e), 0);
    assert_int_equal(stk_typeface_advance(0x10fffd), 0); /* private use, in no font of the list */
}

static void legends_and_matrices_take_names(void **state)
{
    const uint64_t counts[4] = { 5, 1, 2, 7 };
    const char *const names[] = { SKY, ROAD };
    stoke_error err;
    if (stoke_matrix_write(unit_path(state, "matrix.png"), counts, 2, names, SKY " " ROAD, &err))
        fail_msg("%s", err.message);
}

UNIT_GROUP(typeface)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_told_apart),
        cmocka_unit_test(ascii_keeps_its_cells),
        cmocka_unit_test(ascii_is_drawn_by_a_font),
        cmocka_unit_test(letters_stay_in_their_box),
        cmocka_unit_test(long_names_are_cut_at_letters),
        cmocka_unit_test(narrow_letters_of_four_bytes_fit),
        cmocka_unit_test(what_no_picture_shows_is_a_question_mark),
        unit_test_with_folder(legends_and_matrices_take_names),
    };
    unsetenv("STOKE_FONT");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
