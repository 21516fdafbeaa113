/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights for net_pretrained_live.py: reads what transformers saved and saves it again, or makes new ones.
 *
 *   net_weights_tool load PATH CLASSES SEED FOLDER     CLASSES 0: as many as the file has
 *   net_weights_tool make MODEL CLASSES SEED FOLDER
 *
 * Prints "model classes batches_tracked", then a remark per line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/net/files/pretrained.h"
#include "tests/unit/fixture_parameters.h"

typedef struct remarks {
    char text[4096];
} remarks;

static void keep(void *context, const char *sentence)
{
    remarks *r = context;
    const size_t n = strlen(r->text);
    snprintf(r->text + n, sizeof r->text - n, "%s\n", sentence);
}

static int run(char **argv, stoke_error *err)
{
    const int load = strcmp(argv[1], "load") == 0;
    const uint32_t classes = (uint32_t)atoi(argv[3]);
    const uint64_t seed = strtoull(argv[4], NULL, 10);
    uint64_t batches = 0;
    stk_network_config config;
    stk_parameters parameters = { 0 };
    remarks said = { "" };
    const stk_pretrained_how how = { .seed = seed, .remark = keep, .context = &said };
    int status = load ? stk_pretrained_config(argv[2], &config, err)
                      : stk_network_find(&config, argv[2], classes, err);
    if (status) return status;
    if (classes) config.classes = classes;
    status = list_parameters(&parameters, &config, err);
    float *values = status ? NULL : stk_alloc(parameters.floats * sizeof *values);
    if (!status && load)
        status = stk_pretrained_load(argv[2], &config, &parameters, &how, values, &batches, err);
    else if (!status)
        for (size_t i = 0; i < parameters.count; i++)
            stk_parameter_initialise(&parameters.list[i], values, seed);
    const stk_pretrained_notes notes = { .batches_tracked = batches, .height = 512, .width = 512 };
    if (!status) status = stk_pretrained_save(argv[5], &config, &parameters, values, &notes, err);
    if (!status)
        printf("%s %u %llu\n%s", config.model, config.classes, (unsigned long long)batches, said.text);
    stk_free(values);
    stk_parameters_free(&parameters);
    return status;
}

int main(int argc, char **argv)
{
    stoke_error err = { 0 };
    if (argc != 6)
        return fputs("usage: net_weights_tool load|make PATH|MODEL CLASSES SEED FOLDER\n", stderr), 2;
    if (run(argv, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    return 0;
}
