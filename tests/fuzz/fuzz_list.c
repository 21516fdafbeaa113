/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of samples, with masks and with targets, and of weights: any bytes give samples with unique names in
 * natural order, or an error that names the list.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/source/dataset_internal.h"
#include "src/source/dataset.h"

static void take(int restores, const uint8_t *bytes, size_t size)
{
    stoke_dataset *dataset = stk_calloc(1, sizeof *dataset);
    stoke_error err = { 0 };
    if (!dataset) abort();
    dataset->restores = restores;
    int r = stk_list_parse(dataset, "folder/fuzz.csv", bytes, size, &err);
    if (r && strncmp(err.message, "folder/fuzz.csv:", 16) != 0) abort();
    for (uint64_t i = 0; r == STOKE_OK && i < dataset->count; i++) {
        stoke_sample s = stoke_dataset_sample(dataset, i);
        if ((s.mask_path != NULL) != stoke_dataset_has_masks(dataset) || !*s.image_path) abort();
        if ((s.target_path != NULL) != restores) abort();
        if (i == 0) continue;
        const char *before = stoke_dataset_sample(dataset, i - 1).name;
        if (stk_natural_compare(before, strlen(before), s.name, strlen(s.name)) >= 0) abort();
    }
    double *sums = NULL;
    if (r == STOKE_OK && dataset->count &&
        stk_weights_parse(dataset, "w", bytes, size, &sums, &err) == STOKE_OK)
        if (!(sums[dataset->count - 1] > 0)) abort();
    stk_free(sums);
    stoke_dataset_close(&dataset);
}

FUZZ_TARGET(list)
{
    take(0, bytes, size);
    take(1, bytes, size);
    return 0;
}
