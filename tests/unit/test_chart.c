/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"
#include "tests/unit/fixture_markup.h"

#include <math.h>

#include "src/report/chart.h"
#include "src/base/mem.h"
#include <stoke/image.h>
#include <stoke/tools/report.h>

/* ---- numbers and axes ---- */

static void numbers_as_people_write_them(void **state)
{
    char t[32];
    assert_string_equal(stk_text_fixed(0.5, 2, t, sizeof t), "0.50");
    assert_string_equal(stk_text_fixed(-1.005, 1, t, sizeof t), "-1.0");
    assert_string_equal(stk_text_fixed(-0.001, 1, t, sizeof t), "0.0");
    assert_string_equal(stk_text_fixed(12345.5, 0, t, sizeof t), "12346");
    assert_string_equal(stk_text_fixed(NAN, 1, t, sizeof t), "n/a");
    assert_string_equal(stk_text_fixed(INFINITY, 1, t, sizeof t), "n/a");
    assert_string_equal(stk_text_fixed(1e300, 2, t, sizeof t), "1e+300");
    assert_string_equal(stk_text_brief(0.83421, t, sizeof t), "0.834");
    assert_string_equal(stk_text_brief(12.49, t, sizeof t), "12.5");
    assert_string_equal(stk_text_brief(1234.4, t, sizeof t), "1234");
    assert_string_equal(stk_text_brief(6e-5, t, sizeof t), "6e-5");
    assert_string_equal(stk_text_brief(-6.25e-5, t, sizeof t), "-6.25e-5");
    assert_string_equal(stk_text_brief(0, t, sizeof t), "0");
}

static void assert_labels(double low, double high, int log, unsigned ticks, const char *wanted)
{
    stk_chart_axis axis;
    char all[STK_TICKS * STK_TICK_TEXT] = "";
    stk_axis_make(&axis, low, high, log, ticks);
    for (size_t i = 0; i < axis.count; i++) {
        if (i) strcat(all, " ");
        strcat(all, axis.label[i]);
    }
    assert_string_equal(all, wanted);
}

static void ticks_are_round(void **state)
{
    assert_labels(0, 1, 0, 6, "0 0.2 0.4 0.6 0.8 1.0");
    assert_labels(0, 0.3, 0, 3, "0 0.1 0.2 0.3");
    assert_labels(0, 900, 0, 5, "0 200 400 600 800");
    assert_labels(0, 50000, 0, 5, "0 10k 20k 30k 40k 50k");
    assert_labels(0, 2.5e6, 0, 5, "0 500k 1000k 1500k 2000k 2500k");
    assert_labels(-3, 3, 0, 6, "-3 -2 -1 0 1 2 3");
    assert_labels(0, 6e-5, 0, 3, "0 2e-5 4e-5 6e-5");
    assert_labels(1e-6, 1, 1, 7, "1e-6 1e-5 1e-4 0.001 0.01 0.1 1");
    assert_labels(1e-3, 0.1, 1, 7, "0.001 0.002 0.005 0.01 0.02 0.05 0.1");
}

/* Whatever comes in: bounds in order, a few ticks, ascending, within. */
static void axes_survive_anything(void **state)
{
    static const double odd[] = { 0,      1,    -1,   NAN,   INFINITY,  -INFINITY, 1e-308, 1e308, -1e308,
                                  5e-324, 1e15, 1e-9, 1e299, 1 + 1e-15, 0.1,       900,    -1e15 };
    const size_t n = sizeof odd / sizeof *odd;
    for (size_t i = 0; i < n * n * 4; i++) {
        stk_chart_axis axis;
        const int log = (int)(i / (n * n)) & 1;
        stk_axis_make(&axis, odd[i % n], odd[i / n % n], log, i / (n * n) & 2 ? 3 : 400);
        assert_true(isfinite(axis.low) && isfinite(axis.high) && axis.low < axis.high);
        assert_true(!log || axis.low > 0);
        assert_true(axis.count <= STK_TICKS);
        for (size_t k = 0; k < axis.count; k++) {
            const double place = stk_chart_axis_at(&axis, axis.tick[k]);
            assert_true(place > -1e-6 && place < 1 + 1e-6);
            assert_true(!k || axis.tick[k] > axis.tick[k - 1]);
        }
    }
}

/* ---- SVG ---- */

static char *svg_of(const stoke_chart *chart)
{
    static char *text; /* static, or GCC 12 takes what is returned for a pointer to a local */
    static size_t size;
    FILE *out = open_memstream(&text, &size);
    stoke_error err = { 0 };
    const int r = stoke_chart_svg(chart, out, &err);
    fclose(out);
    if (r) fail_msg("%s", err.message);
    return text;
}

static void svg_has_what_was_asked_for(void **state)
{
    const double x[] = { 0, 100, 200 }, y[] = { 1, 0.5, 0.25 }, z[] = { 0.9, NAN, 0.3 };
    const stoke_series series[] = { { "training", x, y, 3, 0, 0 }, { "validation", x, z, 3, 1, 0 } };
    const stoke_mark mark = { 200, "best" };
    stoke_chart chart = stoke_chart_defaults();
    chart.title = "Loss <&> \"it\"";
    chart.x_label = "step";
    chart.y_label = "loss";
    chart.series = series;
    chart.n_series = 2;
    chart.marks = &mark;
    chart.n_marks = 1;
    char *text = svg_of(&chart);
    assert_well_formed(text);
    assert_non_null(strstr(text, "Loss &lt;&amp;&gt; &quot;it&quot;"));
    assert_non_null(strstr(text, ">training<"));
    assert_non_null(strstr(text, "class=\"k\">best<")); /* on the paper's colour, where a curve passes */
    assert_non_null(strstr(text, "prefers-color-scheme:dark"));
    assert_non_null(strstr(text, "width=\"720\" height=\"360\""));
    assert_int_equal(count_of(text, "<circle"), 2); /* the gap has none */
    assert_int_equal(count_of(text, "h0"), 3);      /* one line, and two pieces around the gap */
    free(text);
}

static double y_of_mark(const stoke_chart *chart)
{
    char *text = svg_of(chart), *at = strstr(text, ">best so far<");
    while (at && at > text && *at != 'y') --at;
    assert_non_null(at);
    const double y = strtod(at + strlen("y=\""), NULL);
    free(text);
    return y;
}

/* A score is at its best where the text would stand: it stands below, then. */
static void a_mark_makes_way_for_the_curve(void **state)
{
    (void)state;
    const double x[] = { 0, 100, 200 }, rises[] = { 0.2, 0.6, 1 }, falls[] = { 1, 0.6, 0.2 };
    stoke_series series = { "score", x, rises, 3, 1, 0 };
    const stoke_mark mark = { 200, "best so far" };
    stoke_chart chart = stoke_chart_defaults();
    chart.series = &series;
    chart.n_series = chart.n_marks = 1;
    chart.marks = &mark;
    const double below = y_of_mark(&chart);
    series.y = falls;
    const double above = y_of_mark(&chart);
    assert_true(above < chart.height / 2.0 && below > chart.height / 2.0);
}

/* Names of series and texts of marks come from files: none of them becomes a tag. */
static void svg_escapes_texts(void **state)
{
    const double x[] = { 0, 1 }, y[] = { 0, 1 };
    const stoke_series series[] = { { "<script>alert(1)</script>", x, y, 2, 1, 0 },
                                    { "\x01\xff\"'", x, y, 2, 0, 0 } };
    const stoke_mark mark = { 0.5, "</svg>" };
    stoke_chart chart = stoke_chart_defaults();
    chart.series = series;
    chart.n_series = 2;
    chart.marks = &mark;
    chart.n_marks = 1;
    chart.title = chart.x_label = chart.y_label = "<b>&amp;</b>";
    char *text = svg_of(&chart);
    assert_well_formed(text);
    free(text);
}

static void degenerate_data_is_drawn(void **state)
{
    const double zero[4] = { 0 }, one[] = { 5, 5, 5, 5 }, nan4[] = { NAN, NAN, NAN, NAN },
                 wild[] = { INFINITY, -INFINITY, 1e308, -1e308 }, tiny[] = { 1e-320, 0, -1, 5 };
    const double *const values[] = { zero, one, nan4, wild, tiny };
    for (size_t i = 0; i < 5 * 5 * 4 * 5; i++) {
        const stoke_series series = { "s", values[i % 5], values[i / 5 % 5], i / 100 % 5, 1, 0 };
        stoke_chart chart = stoke_chart_defaults();
        chart.series = &series;
        chart.n_series = i / 100 % 5 ? 1 : 0;
        chart.log_x = i / 25 & 1;
        chart.log_y = i / 50 & 1;
        char *text = svg_of(&chart), *plain = NULL;
        size_t size = 0;
        assert_well_formed(text);
        free(text);
        FILE *out = open_memstream(&plain, &size);
        assert_int_equal(stoke_chart_text(&chart, 40, 10, out, NULL), 0);
        fclose(out);
        assert_non_null(plain);
        free(plain);
    }
}

/* A single peak among a hundred thousand values stays, and the file stays small. */
static void thinning_keeps_peaks(void **state)
{
    enum { N = 100000 };
    double *x = calloc(N, sizeof *x), *y = calloc(N, sizeof *y);
    for (int i = 0; i < N; i++) x[i] = i, y[i] = 1;
    y[54321] = 9;
    y[77777] = -7;
    for (int i = 20000; i < 30000; i++) y[i] = NAN;
    const stoke_series series = { "s", x, y, N, 0, 0 };
    stoke_chart chart = stoke_chart_defaults();
    chart.series = &series;
    chart.n_series = 1;
    chart.y_min = -7; /* so that the peaks lie exactly on the edges */
    chart.y_max = 9;
    char *text = svg_of(&chart);
    assert_true(strlen(text) < 60000);
    assert_int_equal(count_of(text, "h0"), 2); /* the gap stays too */
    /* The frame is drawn 5 pixels inside of what is cut off. */
    const char *inner = strstr(text, "<svg x=");
    assert_non_null(inner);
    const double height = atof(strstr(inner, "height=\"") + 8);
    char bottom[32];
    snprintf(bottom, sizeof bottom, " %.1fL", height - 5);
    assert_non_null(strstr(text, " 5.0L"));
    assert_non_null(strstr(text, bottom));
    free(text);
    free(x);
    free(y);
}

static void charts_refuse_nonsense(void **state)
{
    stoke_chart chart = stoke_chart_defaults();
    stoke_error err = { 0 };
    const stoke_series series = { "s", NULL, NULL, 3, 0, 0 };
    FILE *out = tmpfile();
    chart.series = &series;
    chart.n_series = 1;
    assert_int_equal(stoke_chart_svg(&chart, out, &err), STOKE_E_INVALID);
    chart.n_series = 0;
    chart.width = 10;
    assert_int_equal(stoke_chart_svg(&chart, out, &err), STOKE_E_INVALID);
    chart = stoke_chart_defaults();
    assert_int_equal(stoke_chart_text(&chart, 10, 3, out, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "30 x 8"));
    chart.struct_size = 0;
    assert_int_equal(stoke_chart_svg(&chart, out, &err), STOKE_E_INVALID);
    fclose(out);
}

/* ---- text ---- */

static void text_chart_line_by_line(void **state)
{
    const double x[] = { 0, 10 }, y[] = { 0, 10 };
    const stoke_series series[] = { { "up", x, y, 2, 0, 0 } };
    stoke_chart chart = stoke_chart_defaults();
    char *text = NULL;
    size_t size = 0;
    chart.series = series;
    chart.n_series = 1;
    chart.title = "a\x1b[31mline";
    chart.y_min = 0;
    chart.y_max = 10;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(stoke_chart_text(&chart, 30, 9, out, NULL), 0);
    fclose(out);
    assert_string_equal(text, "a\\x1b[31mline\n"
                              "10 ┤                      ⣀⠤⠒⠉\n"
                              "   │                 ⢀⡠⠔⠒⠉\n"
                              "   │             ⣀⠤⠒⠊⠁\n"
                              " 5 ┤        ⢀⡠⠤⠒⠉\n"
                              "   │    ⣀⠤⠔⠊⠁\n"
                              " 0 ┤⣀⠤⠒⠉\n"
                              "   └──────────────────────────\n"
                              "    0            5          10\n");
    free(text);
}

static void text_chart_in_braille(void **state)
{
    const double x[] = { 0, 1, 2, 3 }, y[] = { 0, 3, NAN, 3 };
    const stoke_series series[] = { { "a", x, y, 4, 0, 0 },
                                    { "b", x, x, 4, 0, 0 },
                                    { "raw", x, y, 4, 0, 1 } };
    const stoke_mark mark = { 1.5, "here" };
    stoke_chart chart = stoke_chart_defaults();
    char *text = NULL;
    size_t size = 0, lines = 0;
    chart.series = series;
    chart.n_series = 3;
    chart.marks = &mark;
    chart.n_marks = 1;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(stoke_chart_text(&chart, 40, 12, out, NULL), 0);
    fclose(out);
    for (const char *p = text; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 12);
    assert_non_null(strstr(text, "\xe2\xa0")); /* braille */
    assert_non_null(strstr(text, "1.50 here"));
    assert_null(strstr(text, "raw"));
    free(text);
}

/* ---- pictures ---- */

typedef struct shot {
    stoke_decoder *decoder;
    stoke_image image;
    char *bytes;
} shot;

static shot look(const char *path)
{
    shot s = { 0 };
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    s.bytes = malloc(8 << 20);
    const size_t size = fread(s.bytes, 1, 8 << 20, f);
    fclose(f);
    stoke_decode_params params = stoke_decode_defaults();
    assert_int_equal(stoke_decoder_create(&s.decoder, NULL), 0);
    assert_int_equal(stoke_decoder_decode(s.decoder, s.bytes, size, &params, &s.image, NULL), 0);
    return s;
}

static void close_shot(shot *s)
{
    stoke_decoder_destroy(&s->decoder);
    free(s->bytes);
}

/* Pixels of exactly this colour. */
static size_t pixels_of(const shot *s, int r, int g, int b)
{
    size_t n = 0;
    for (uint32_t y = 0; y < s->image.height; y++)
        for (uint32_t x = 0; x < s->image.width; x++) {
            const uint8_t *p = (const uint8_t *)s->image.data + y * s->image.stride + (size_t)x * 3;
            n += p[0] == r && p[1] == g && p[2] == b;
        }
    return n;
}

static void matrix_shows_shares(void **state)
{
    const uint64_t counts[] = { 100, 0, 0, 0, 50, 50, 0, 0, 0 };
    const char *const names[] = { "road", NULL, "a very long name that does not fit anywhere at all" };
    const char *path = unit_path(state, "matrix.png");
    assert_int_equal(stoke_matrix_write(path, counts, 3, names, "Title", NULL), 0);
    shot s = look(path);
    /* One cell of 1 (55 x 55 pixels but for its number), two of a half, a row without truth. */
    const size_t full = pixels_of(&s, 8, 64, 129), none = pixels_of(&s, 216, 219, 226);
    assert_true(full > 2000 && full < 55 * 55);
    assert_int_equal(none, 3 * 55 * 55);
    close_shot(&s);
    for (uint32_t size = 1; size <= 160; size += 53) {
        uint64_t *many = calloc((size_t)size * size, sizeof *many);
        for (uint32_t i = 0; i < size; i++) many[i * size + i] = UINT64_MAX / 1000;
        assert_int_equal(stoke_matrix_write(path, many, size, NULL, NULL, NULL), 0);
        free(many);
    }
    stoke_error err = { 0 };
    assert_int_equal(stoke_matrix_write(path, counts, 0, NULL, NULL, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_matrix_write(path, counts, 100000, NULL, NULL, &err), STOKE_E_INVALID);
}

enum { SIDE = 64 };

static void comparison_marks_mistakes(void **state)
{
    static uint8_t gray[SIDE * SIDE * 3], truth[SIDE * SIDE];
    static uint16_t said[SIDE * SIDE];
    memset(gray, 128, sizeof gray);
    for (int i = 0; i < SIDE * SIDE; i++) {
        truth[i] = i % SIDE < 8 ? 255 : 1;
        said[i] = i / SIDE < 16 ? 2 : 1; /* the upper quarter is wrong, where it counts */
    }
    const stoke_image image = { gray, SIDE * 3, SIDE, SIDE, 3, 1 }, mask = { truth, SIDE, SIDE, SIDE, 1, 1 },
                      predicted = { said, SIDE * 2, SIDE, SIDE, 1, 2 };
    const stoke_comparison rows[] = { { &image, &mask, &predicted, "first: IoU 0.75" },
                                      { &image, NULL, &predicted, NULL } };
    const char *const names[] = { "void", "road", "tree" };
    const char *path = unit_path(state, "comparison.png");
    stoke_error err = { 0 };
    assert_int_equal(stoke_comparison_write(path, rows, 1, 255, names, 3, "Step 92", &err), 0);
    shot s = look(path);
    /* 256 x 256 per panel: 7/8 of a quarter of it is wrong. */
    const int red = 128 + (226 - 128) * 224 / 256 + 1;
    size_t wrong = 0;
    for (int d = -2; d <= 2; d++)
        for (int e = -2; e <= 2; e++)
            for (int g = -2; g <= 2; g++)
                wrong += pixels_of(&s, red + d, 128 - 90 * 224 / 256 + e, 128 - 100 * 224 / 256 + g);
    assert_int_equal(wrong, 256 * 256 / 4 * 7 / 8);
    const uint32_t with_truth = s.image.width;
    close_shot(&s);
    assert_int_equal(stoke_comparison_write(path, rows, 2, 255, names, 3, NULL, &err), 0);
    assert_int_equal(stoke_comparison_write(path, rows + 1, 1, -1, NULL, 0, NULL, &err), 0);
    s = look(path);
    assert_true(s.image.width < with_truth); /* nothing to compare with: two panels */
    close_shot(&s);
    const stoke_image other = { truth, SIDE, SIDE / 2, SIDE, 1, 1 };
    const stoke_comparison bad[] = { { &image, &other, &predicted, NULL }, { &image, &mask, NULL, NULL } };
    assert_int_equal(stoke_comparison_write(path, bad, 1, 255, NULL, 0, NULL, &err), STOKE_E_SIZE);
    assert_int_equal(stoke_comparison_write(path, bad + 1, 1, 255, NULL, 0, NULL, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_comparison_write(path, rows, 0, 255, NULL, 0, NULL, &err), STOKE_E_INVALID);
}

static void pictures_survive_without_memory(void **state)
{
    static uint8_t gray[8 * 8 * 3], truth[64];
    const stoke_image image = { gray, 24, 8, 8, 3, 1 }, mask = { truth, 8, 8, 8, 1, 1 };
    const stoke_comparison row = { &image, &mask, &mask, "x" };
    const uint64_t counts[4] = { 1, 2, 3, 4 };
    const char *path = unit_path(state, "p.png");
    for (int which = 0; which < 2; which++) {
        int status = STOKE_E_NOMEM;
        for (int after = 0; status; after++) {
            stk_mem_fail_after(after);
            status = which ? stoke_matrix_write(path, counts, 2, NULL, "t", NULL)
                           : stoke_comparison_write(path, &row, 1, -1, NULL, 0, "t", NULL);
            stk_mem_fail_after(-1);
            assert_true(after < 60);
        }
    }
}

UNIT_GROUP(chart)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_as_people_write_them),
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(axes_survive_anything),
        cmocka_unit_test(svg_has_what_was_asked_for),
        cmocka_unit_test(a_mark_makes_way_for_the_curve),
        cmocka_unit_test(svg_escapes_texts),
        cmocka_unit_test(degenerate_data_is_drawn),
        cmocka_unit_test(thinning_keeps_peaks),
        cmocka_unit_test(charts_refuse_nonsense),
        cmocka_unit_test(text_chart_line_by_line),
        cmocka_unit_test(text_chart_in_braille),
        unit_test_with_folder(matrix_shows_shares),
        unit_test_with_folder(comparison_marks_mistakes),
        unit_test_with_folder(pictures_survive_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
