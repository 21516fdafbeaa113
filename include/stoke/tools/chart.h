/* SPDX-License-Identifier: Apache-2.0
 *
 * Line charts: as SVG for people with a browser, as text for people in a terminal; and a table of numbers as
 * a picture (confusion matrices).
 */
#ifndef STOKE_TOOLS_CHART_H
#define STOKE_TOOLS_CHART_H

#include <stdio.h>
#include <stoke/image.h>

typedef struct stoke_series {
    const char *name;
    const double *x, *y; /* NaN in y: a gap */
    size_t count;
    int points; /* 1: a mark at every value too (few values); 0: a line alone */
    int faint;  /* 1: behind the others, e.g. raw values under their smooth curve */
} stoke_series;

typedef struct stoke_mark {
    double x;         /* a vertical line here */
    const char *text; /* with this beside it */
} stoke_mark;

typedef struct stoke_chart {
    uint32_t struct_size;
    const char *title, *x_label, *y_label;
    const stoke_series *series;
    size_t n_series;
    const stoke_mark *marks;
    size_t n_marks;
    int log_x, log_y;
    double y_min, y_max;    /* NaN: from the values */
    uint32_t width, height; /* SVG: 720 x 360 */
} stoke_chart;
STOKE_API stoke_chart stoke_chart_defaults(void);

/* Both write to a stream and leave its faults (ferror) to whoever opened it and knows its name. */
/* A whole <svg> element that needs nothing else and follows light and dark mode; may stand inside HTML.
 * Series of more than about 2000 values are thinned so that peaks stay. */
STOKE_API int stoke_chart_svg(const stoke_chart *chart, FILE *out, stoke_error *err);
/* The same as `columns` x `rows` characters (braille dots). */
STOKE_API int stoke_chart_text(const stoke_chart *chart, uint32_t columns, uint32_t rows, FILE *out,
                               stoke_error *err);

/* counts[size * size], row = truth. Rows are shown as shares of their sum, with class names along both sides.
 * Writes a PNG. */
STOKE_API int stoke_matrix_write(const char *path, const uint64_t *counts, uint32_t size,
                                 const char *const *names, const char *title, stoke_error *err);

/* A picture of predictions: per row the sample, the truth over it, the prediction over it, where they differ.
 * Or of restored pictures: input, target, output and their difference, amplified by the factor in its
 * heading.
 */
typedef struct stoke_comparison {
    const stoke_image *image; /* RGB u8 */
    const stoke_image *truth,
        *predicted; /* class ids u8 or u16; truth may be NULL. Restored: RGB u8, both there */
    const char *caption;
} stoke_comparison;
STOKE_API int stoke_comparison_write(const char *path, const stoke_comparison *rows, size_t n_rows,
                                     int32_t ignore_index, const char *const *class_names,
                                     uint32_t n_class_names, const char *title, stoke_error *err);

#endif
