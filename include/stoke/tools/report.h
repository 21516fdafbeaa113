/* SPDX-License-Identifier: Apache-2.0
 *
 * What people and programs look at: JSON, tables, progress, pictures. These are the library's helpers for
 * front ends; nothing here is called by the loader. They write only to the FILE or buffer they are given.
 */
#ifndef STOKE_TOOLS_REPORT_H
#define STOKE_TOOLS_REPORT_H

#include <stdio.h>
#include <stoke/image.h>

/* ---- JSON: a streaming writer; commas, quoting and nesting are its business ---- */
typedef struct stoke_json {
    FILE *out;
    int depth;
    uint64_t open_arrays;  /* bit per depth: 1 = array */
    uint64_t has_elements; /* bit per depth */
    int indent;            /* spaces per level; 0 = one line */
} stoke_json;
STOKE_API void stoke_json_begin(stoke_json *json, FILE *out, int indent);
/* key is NULL inside arrays and at the top. */
STOKE_API void stoke_json_object(stoke_json *json, const char *key);
STOKE_API void stoke_json_array(stoke_json *json, const char *key);
STOKE_API void stoke_json_close(stoke_json *json); /* closes the innermost object or array */
/* Text is written as UTF-8; bytes that are not valid UTF-8 become U+FFFD. NULL becomes null. */
STOKE_API void stoke_json_string(stoke_json *json, const char *key, const char *value);
STOKE_API void stoke_json_int(stoke_json *json, const char *key, int64_t value);
STOKE_API void stoke_json_uint(stoke_json *json, const char *key, uint64_t value);
/* Shortest text that reads back to the same double; NaN and infinities become null. */
STOKE_API void stoke_json_real(stoke_json *json, const char *key, double value);
STOKE_API void stoke_json_bool(stoke_json *json, const char *key, int value);
STOKE_API void stoke_json_null(stoke_json *json, const char *key);

/* ---- tables: columns sized to their content, numbers right-aligned ---- */
typedef struct stoke_table stoke_table;
STOKE_API stoke_table *stoke_table_create(const char *const *headings, size_t columns);
/* cells[columns]; copied. A NULL cell prints as "n/a". */
STOKE_API void stoke_table_row(stoke_table *table, const char *const *cells);
STOKE_API void stoke_table_print(const stoke_table *table, FILE *out);
STOKE_API void stoke_table_csv(const stoke_table *table, FILE *out); /* RFC 4180 */
STOKE_API void stoke_table_destroy(stoke_table **table);

/* "1.5 GB", "100.7 MB": decimal units, one digit. Returns text. */
STOKE_API const char *stoke_text_bytes(uint64_t bytes, char *text, size_t size);
/* Memory of cards and processes, in the units they are made in: "23.7 GiB", "512.0 MiB". Returns text. */
STOKE_API const char *stoke_text_memory(uint64_t bytes, char *text, size_t size);
/* "1.2 ms", "3.4 s", "2 min 05 s". Returns text. */
STOKE_API const char *stoke_text_seconds(double seconds, char *text, size_t size);
/* The same in their own buffers, which live as long as the block they are written in: for arguments of
 * printf. */
#define STOKE_BYTES(bytes)     stoke_text_bytes((bytes), (char[32]){ 0 }, 32)
#define STOKE_MEMORY(bytes)    stoke_text_memory((bytes), (char[32]){ 0 }, 32)
#define STOKE_SECONDS(seconds) stoke_text_seconds((seconds), (char[48]){ 0 }, 48)

/* ---- progress: a bar on a terminal after the first second, plain lines every 10 s elsewhere ---- */
typedef struct stoke_progress stoke_progress;
STOKE_API stoke_progress *stoke_progress_create(FILE *out, const char *label, const char *unit);
/* A stoke_progress_fn: pass it with the object as context. Returns 0. */
STOKE_API int stoke_progress_update(void *progress, uint64_t done, uint64_t total);
/* Extra text after the bar, e.g. "512.3 samples/s"; copied. */
STOKE_API void stoke_progress_note(stoke_progress *progress, const char *text);
/* What is left, in seconds, where that is known better than from the rate of this bar: of a run of which it
 * shows one epoch, say. NaN: nothing is said; below 0: by the rate again. */
STOKE_API void stoke_progress_left(stoke_progress *progress, double seconds);
/* Another label from the next update on; copied. */
STOKE_API void stoke_progress_label(stoke_progress *progress, const char *label);
/* Takes the bar off the screen, so that a line can be printed; the next update draws it again. */
STOKE_API void stoke_progress_pause(stoke_progress *progress);
/* Clears the bar. */
STOKE_API void stoke_progress_destroy(stoke_progress **progress);

/* ---- pictures ---- */
/* Colour of a class: fixed, well apart, class 0 black, 255 white-grey. */
STOKE_API void stoke_class_color(uint32_t id, uint8_t rgb[3]);

typedef struct stoke_tile {
    const stoke_image *image;  /* RGB u8 */
    const stoke_image *mask;   /* class ids u8 or u16, same size; NULL = none */
    const char *caption;       /* NULL = none */
    const stoke_image *target; /* RGB u8 of any size, drawn in place of a mask; NULL = none */
} stoke_tile;
typedef struct stoke_grid_params {
    uint32_t struct_size;
    uint32_t columns;     /* pairs per row; 0 = about square */
    uint32_t tile;        /* longest side of a tile in pixels; 0 = 256 */
    double opacity;       /* of the overlay; 0.45 */
    int32_t ignore_index; /* drawn hatched; -1 none */
    const char *title;    /* NULL = none */
    /* legend: names[id] or NULL; classes that occur in the masks are listed */
    const char *const *class_names;
    uint32_t n_class_names;
} stoke_grid_params;
STOKE_API stoke_grid_params stoke_grid_defaults(void);
/* Each tile: the sample, beside it the sample with the mask laid over, or its target, caption below; a legend
 * at the end. Writes a PNG. */
STOKE_API int stoke_grid_write(const char *path, const stoke_tile *tiles, size_t n_tiles,
                               const stoke_grid_params *params, stoke_error *err);

/* The image (RGB u8) in its own size with the mask laid over, as in a grid; a JPEG where the path ends in
 * .jpg, else a PNG. */
STOKE_API int stoke_overlay_write(const char *path, const stoke_image *image, const stoke_image *mask,
                                  double opacity, int32_t ignore_index, stoke_error *err);

/* The first letter that a picture of this process shows as '?', since no font of the system has it; 0: there
 * was none, or STOKE_FONT is none. Any thread. */
STOKE_API uint32_t stoke_font_missing(void);

/* A strip: text above, then samples side by side, each above itself with the mask laid over, or above its
 * target.
 */
typedef struct stoke_strip {
    const char *heading; /* starts a section: a line above the strip; NULL = none */
    const char *label;   /* NULL = none */
    const char *note;    /* below the label, broken into lines; NULL = none */
} stoke_strip;
/* tiles[n_strips * params->columns], strip by strip; a tile without an image leaves its place empty. Title,
 * captions and legend as in a grid, but captions are broken into lines. More than four strips stand two
 * abreast. Writes a PNG. */
STOKE_API int stoke_strips_write(const char *path, const stoke_strip *strips, size_t n_strips,
                                 const stoke_tile *tiles, const stoke_grid_params *params, stoke_error *err);

#endif
