/* SPDX-License-Identifier: Apache-2.0
 *
 * Augmentation pipelines from YAML: any bytes either make a pipeline whose plans stay inside the source and
 * the output, or an error with a line.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/augment/pipeline.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static stoke_pipeline pipeline;
    stoke_error err = { 0 };
    memset(&pipeline, 0, sizeof pipeline);
    if (stk_pipeline_read_yaml(&pipeline, "fuzz", bytes, size, &err)) {
        if (strncmp(err.message, "fuzz", 4) != 0) abort();
        return 0;
    }
    for (uint32_t side = 1; side < 200; side += 37) {
        stoke_plan plan;
        stoke_pipeline_draw(&pipeline, &(stoke_draw){ 1, 2, side, side, 100, 64, 48, NULL }, &plan);
        if (plan.box.x + plan.box.width > side || plan.box.y + plan.box.height > 100) abort();
        if (plan.place_x + plan.width > 64 || plan.place_y + plan.height > 48) abort();
    }
    return 0;
}
