/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pictures of `show` share: options, copies of rows, the page around them.
 */
#ifndef STOKE_CLI_DATA_SHOW_H
#define STOKE_CLI_DATA_SHOW_H

#include "cli/lib/common.h"

typedef struct show_options {
    int64_t count, columns, tile, sample;
    const char *out, *only;
    int ops, force;
} show_options;

/* What a picture needs, whatever the config says: bytes, interleaved, as they are. */
int show_settings(stoke_data_params *data, stoke_error *err);

/* A copy of a row: slots go back to the loader at once. Free its data with free(). Without masks the loader
 * delivers zeros: they are neither drawn nor counted in a legend. */
stoke_image show_copy_image(const stoke_batch *batch, uint32_t row);
stoke_image show_copy_mask(const stoke_batch *batch, uint32_t row, int second); /* second: of masks_b */
stoke_image show_copy_target(const stoke_batch *batch, uint32_t row);

/* A row of mixup has two masks; a picture shows the one with the larger share. Returns 1 when that is the
 * second one, and writes "lambda 0.18, mask of NAME" ("" for a row that is not mixed). */
int show_mixed(const stoke_batch *batch, uint32_t row, char *text, size_t size);

/* Title, legend and tile size of a picture. */
typedef struct show_page {
    stoke_grid_params grid;
    stoke_labels *labels;
    const char *names[256];
    char title[1024];
} show_page;
/* `what` stands at the end of the title. */
int show_page_begin(show_page *page, const cli_call *call, uint32_t height, uint32_t width, const char *what,
                    stoke_error *err);
void show_page_end(show_page *page);

/* show --ops: one strip per op and preset. Writes the picture and prints the result. */
int show_ops(const cli_call *call, const char *out, stoke_error *err);

#endif
