/* SPDX-License-Identifier: Apache-2.0
 *
 * One epoch over a folder of images and masks: iterate [FOLDER]
 */
#include <stdio.h>

#include <stoke/loader.h>

int main(int argc, char **argv)
{
    stoke_data_params params = stoke_data_defaults();
    params.data = argc > 1 ? argv[1] : "demo/data"; /* images/ and masks/ below it */
    params.size[0] = params.size[1] = 256;
    params.batch = 8;

    stoke_error error = { 0 };
    stoke_dataset *dataset = NULL;
    stoke_loader *loader = NULL;
    int status = stoke_dataset_open(&dataset, &params, &error);
    if (status == STOKE_OK) status = stoke_loader_create(&loader, dataset, &params, NULL, &error);
    if (status != STOKE_OK) {
        fprintf(stderr, "iterate: %s\n", error.message);
        stoke_dataset_close(&dataset);
        return 1;
    }
    const stoke_batch *batch;
    while ((status = stoke_loader_next(loader, &batch)) == STOKE_OK) {
        const float *pixels = batch->images;  /* count x 3 x height x width, 0..1 */
        const uint8_t *labels = batch->masks; /* count x height x width */
        printf("batch %3llu: %u samples, first is %s (red %.3f, class %u)\n",
               (unsigned long long)batch->index, batch->count, batch->names[0], (double)pixels[0],
               (unsigned)labels[0]);
        stoke_batch_release(loader, &batch); /* the slot is filled again from here on */
    }
    if (status != STOKE_E_END) fprintf(stderr, "iterate: %s\n", stoke_loader_error(loader));
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
    return status == STOKE_E_END ? 0 : 1;
}
