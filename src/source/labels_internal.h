/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a label map, and its parsers on memory (for the fuzzer).
 */
#ifndef STOKE_SRC_SOURCE_LABELS_INTERNAL_H
#define STOKE_SRC_SOURCE_LABELS_INTERNAL_H

#include "src/base/mem.h"
#include "src/source/labels.h"

typedef enum stk_label_kind { STK_LABELS_IDENTITY, STK_LABELS_VALUES, STK_LABELS_COLORS } stk_label_kind;

/* In tables: no class. Above every id, so that OR-ing entries shows whether a bad one was among them. */
#define STK_LABEL_BAD 0x10000u

typedef struct stk_label_color {
    uint32_t rgb; /* R << 16 | G << 8 | B; STK_COLOR_FREE in free slots of the table */
    uint32_t id;
} stk_label_color;
#define STK_COLOR_FREE UINT32_MAX

struct stoke_labels {
    stk_label_kind kind;
    uint32_t classes;
    int32_t ignore;          /* -1: none */
    uint32_t largest;        /* id that can be produced */
    int keeps;               /* of a list: values that it does not name stay as they are */
    uint32_t *table;         /* identity and values: id of each of 65536 values, or STK_LABEL_BAD */
    stk_label_color *colors; /* open-addressed, power of two, at most half full */
    size_t n_colors, color_slots;
    const char **names; /* by id, up to n_names */
    size_t n_names;
    stk_string_arena arena;
};

/* A table in which no value has a class yet. */
int stk_labels_table(stoke_labels *labels, stoke_error *err);
/* "0:0,255:1,*:ignore" or "11:255,*" into table. */
int stk_labels_parse_values(stoke_labels *labels, const char *spec, stoke_error *err);
/* Gives every value without an id its own, as far as it is a class or ignored. */
void stk_labels_keep_rest(stoke_labels *labels);
/* The text of a colour file into colors and names; `origin` is its name in messages. */
int stk_labels_parse_colors(stoke_labels *labels, const char *origin, const void *bytes, size_t size,
                            stoke_error *err);

/* The name of a class, unless it has one already. Refuses what no name has: 256 bytes and more, control
 * characters. `origin` stands in messages. */
int stk_labels_set_name(stoke_labels *labels, uint32_t id, const char *name, size_t length,
                        const char *origin, stoke_error *err);

/* An empty map with its settings checked; 0 or an error. */
int stk_labels_new(stoke_labels **out, uint32_t classes, int32_t ignore_index, stoke_error *err);

/* The slot of a colour, or the free one where it would go. */
static inline size_t stk_color_slot(const stoke_labels *labels, uint32_t rgb)
{
    /* Fibonacci hashing: colour tables are small and regular (0, 64, 128, 192), the product spreads them */
    size_t mask = labels->color_slots - 1, i = (rgb * UINT32_C(2654435769) >> 8) & mask;
    while (labels->colors[i].rgb != rgb && labels->colors[i].rgb != STK_COLOR_FREE) i = (i + 1) & mask;
    return i;
}

#endif
