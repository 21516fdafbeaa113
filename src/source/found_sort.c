/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting the files of a folder. Comparing paths means waiting for memory twice per comparison; a key of
 * eight bytes beside the index decides nearly all of them. Opening a million shuffled pairs: 5.4 -> 3.6 s of
 * CPU time (medians of 3, busy machine).
 */
#include "src/source/scan.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/source/natural.h"

typedef struct keyed {
    uint64_t key;
    const stk_scan_file *file;
} keyed;

int stk_found_compare(const stk_scan_file *a, const stk_scan_file *b)
{
    int order = stk_natural_compare(stk_found_stem(a), a->stem_length, stk_found_stem(b), b->stem_length);
    return order ? order : strcmp(a->path, b->path);
}

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return stk_found_compare(x->file, y->file);
}

/* How much all stems begin with, not counting digits at its end: they may be a part of longer numbers. */
static size_t common_prefix(const stk_scan_file_list *found)
{
    const stk_scan_file *first = &found->items[0];
    const char *stem = stk_found_stem(first);
    size_t common = first->stem_length;
    for (size_t i = 1; i < found->count && common; i++) {
        const stk_scan_file *other = &found->items[i];
        if (other->stem_length < common) common = other->stem_length;
        for (size_t k = 0; k < common; k++)
            if (stk_found_stem(other)[k] != stem[k]) common = k;
    }
    while (common && stem[common - 1] >= '0' && stem[common - 1] <= '9') common--;
    return common;
}

int stk_found_sort(stk_scan_file_list *found)
{
    if (found->count < 2) return 1;
    keyed *order = stk_calloc(found->count, sizeof *order);
    stk_scan_file *sorted = stk_calloc(found->count, sizeof *sorted);
    if (order && sorted) {
        size_t common = common_prefix(found);
        for (size_t i = 0; i < found->count; i++) {
            const stk_scan_file *file = &found->items[i];
            order[i].key = stk_natural_key(stk_found_stem(file) + common, file->stem_length - common);
            order[i].file = file;
        }
        qsort(order, found->count, sizeof *order, by_key);
        for (size_t i = 0; i < found->count; i++) sorted[i] = *order[i].file;
        memcpy(found->items, sorted, found->count * sizeof *sorted);
    }
    int good = order && sorted;
    stk_free(order);
    stk_free(sorted);
    return good;
}
