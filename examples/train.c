/* SPDX-License-Identifier: Apache-2.0
 *
 * A hundred steps of SegFormer b0 on a folder of images and masks: train [FOLDER [CLASSES [OUT]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoke/loader.h>
#include <stoke/net.h>

enum { STEPS = 100, SIZE = 128, BATCH = 4 };
static uint16_t trained[BATCH * SIZE * SIZE], loaded[BATCH * SIZE * SIZE]; /* the class of every pixel */

/* The loader's next batch as the network reads it, without a copy; after an epoch comes another. */
static int next(stoke_loader *loader, uint64_t *epoch, const stoke_batch **batch, stoke_net_batch *rows)
{
    int status = stoke_loader_next(loader, batch);
    if (status == STOKE_E_END && stoke_loader_set_epoch(loader, ++*epoch) == STOKE_OK)
        status = stoke_loader_next(loader, batch);
    if (status != STOKE_OK) return status;
    *rows = stoke_net_batch_of(*batch);
    return STOKE_OK;
}

int main(int argc, char **argv)
{
    stoke_data_params data = stoke_data_defaults();
    data.data = argc > 1 ? argv[1] : "demo/data"; /* images/ and masks/ below it */
    data.classes = argc > 2 ? atoi(argv[2]) : 6;  /* a mask with another value is a bad file */
    data.size[0] = data.size[1] = SIZE;
    data.batch = BATCH;
    data.normalize = STOKE_NORMALIZE_IMAGENET; /* as SegFormer wants it, and as OUT says */
    const char *out = argc > 3 ? argv[3] : "demo/b0";

    stoke_net_params params = stoke_net_defaults();
    params.model = "b0"; /* params.weights = "DIR" would start from a model or encoder of Hugging Face */
    params.classes = (uint32_t)data.classes;
    params.batch = BATCH;
    params.height = params.width = SIZE;

    stoke_error error = { 0 };
    stoke_dataset *dataset = NULL;
    stoke_loader *loader = NULL;
    stoke_net *net = NULL;
    const stoke_batch *batch = NULL;
    stoke_net_batch rows = { 0 };
    stoke_update update = stoke_update_defaults(); /* AdamW */
    uint64_t epoch = 0;
    int failed = stoke_dataset_open(&dataset, &data, &error) ||
                 stoke_loader_create(&loader, dataset, &data, NULL, &error) ||
                 stoke_net_open(&net, &params, &error);
    for (int step = 1; !failed && step <= STEPS; step++) {
        double loss = 0;
        if (batch) stoke_batch_release(loader, &batch);
        failed = next(loader, &epoch, &batch, &rows) || stoke_net_backward(net, &rows, 1, &loss, &error) ||
                 stoke_net_step(net, &update, NULL, &error);
        if (!failed && step % 10 == 0) printf("step %3d: loss %.4f\n", step, loss);
    }
    failed = failed || stoke_net_predict(net, &rows, trained, &error) || stoke_net_save(net, out, 0, &error);
    stoke_net_close(&net);
    params.weights = out; /* from_pretrained(OUT) of Hugging Face loads it as well */
    params.training = 0;
    failed = failed || stoke_net_open(&net, &params, &error) || stoke_net_predict(net, &rows, loaded, &error);
    if (failed) fprintf(stderr, "train: %s\n", *error.message ? error.message : stoke_loader_error(loader));
    int same = !memcmp(trained, loaded, sizeof trained);
    if (!failed) printf("saved in %s; loaded again it predicts %s\n", out, same ? "the same" : "otherwise");
    stoke_net_close(&net);
    stoke_loader_destroy(&loader);
    stoke_dataset_close(&dataset);
    return failed || !same;
}
