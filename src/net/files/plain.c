/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of our own networks.
 */
#include "src/net/files/plain.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* Of a block's sum, EDSR's (resnet.c): written for who reads the file, and checked. */
static const double RESIDUAL = 0.1;

int stk_plain_name(const stk_plain_files *files, const char *given, char declared[static STK_NAME])
{
    for (int i = 0; i < STK_PLAIN_MODULES && files->modules[i]; i++)
        if (strncmp(given, files->modules[i], strlen(files->modules[i])) == 0)
            return snprintf(declared, STK_NAME, "%s", given) < STK_NAME;
    return 0;
}

/* ---- what a file holds ---- */

typedef struct shapes {
    const stk_plain_files *files;
    uint64_t channels, blocks, outputs;
} shapes;

static int note_shape(void *context, const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                      stoke_error *err)
{
    (void)file, (void)err;
    shapes *found = context;
    char block[STK_NAME];
    unsigned index;
    if (!tensor->dims) return STOKE_OK;
    if (strcmp(tensor->name, found->files->first) == 0) found->channels = tensor->shape[0];
    if (strcmp(tensor->name, found->files->last) == 0) found->outputs = tensor->shape[0];
    /* body.12.conv1.weight: printed again, it is the same text */
    const char *digits = strpbrk(tensor->name, "0123456789");
    if (!found->files->block || !digits || sscanf(digits, "%3u", &index) != 1) return STOKE_OK;
    snprintf(block, sizeof block, "%.*s%u%s", (int)(strchr(found->files->block, '%') - found->files->block),
             found->files->block, index, strchr(found->files->block, 'u') + 1);
    if (strcmp(tensor->name, block) == 0 && index >= found->blocks) found->blocks = index + 1;
    return STOKE_OK;
}

/* Without a word it segments. */
static int read_task(const stk_config_json *r, stk_network_config *config)
{
    const stk_json_value *said = stk_config_field(r, "task");
    const char *task = said && said->kind == STK_JSON_STRING ? stk_json_text(r->json, said) : NULL;
    char found[STK_CONFIG_TEXT];
    config->task = task && strcmp(task, "restore") == 0 ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
    if (!said || (task && (config->task == STOKE_TASK_RESTORE || strcmp(task, "segment") == 0)))
        return STOKE_OK;
    return stk_fail(r->err, STOKE_E_UNSUPPORTED, "%s: \"task\" is %s: segment or restore is computed here",
                    r->path, stk_config_text(r, said, found));
}

static int read_config(const stk_config_json *r, const shapes *found, stk_network_config *config)
{
    uint64_t scale = 1;
    const stk_json_value *said = stk_config_field(r, "scale");
    int status = stk_config_expect_number(r, "num_channels", 3);
    if (!status) status = stk_config_expect_number(r, "base_channels", (double)found->channels);
    if (!status && found->files->block)
        status = stk_config_expect_number(r, "num_blocks", (double)found->blocks);
    if (!status && found->files->block) status = stk_config_expect_number(r, "residual_scale", RESIDUAL);
    if (!status) status = read_task(r, config);
    if (status) return status;
    if (said && (!stk_json_uint(r->json, said, &scale) || !scale || scale > STK_NET_SCALE ||
                 found->outputs % (scale * scale)))
        return stk_fail(r->err, STOKE_E_FORMAT, "%s: \"scale\" is not 1 to %d, or does not fit %llu outputs",
                        r->path, STK_NET_SCALE, (unsigned long long)found->outputs);
    config->scale = (uint32_t)scale;
    if (config->task == STOKE_TASK_RESTORE && found->outputs != 3 * scale * scale)
        return stk_fail(r->err, STOKE_E_FORMAT, "%s: \"task\" is restore, but %s makes %llu values a pixel",
                        r->path, found->files->last, (unsigned long long)found->outputs);
    return STOKE_OK;
}

int stk_plain_read(const stk_plain_files *files, const char *path, const stk_json *config_json,
                   stk_network_config *config, stoke_error *err)
{
    shapes found = { .files = files };
    int status = stk_pretrained_visit(path, note_shape, &found, err);
    if (status) return status;
    if (!found.channels || found.channels > STK_NET_CHANNELS || (files->block && !found.blocks) ||
        found.blocks > STK_NET_BLOCKS || !found.outputs || found.outputs > STK_NET_CLASSES)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: %llu channels, %llu blocks and %llu outputs are those of no %s", path,
                        (unsigned long long)found.channels, (unsigned long long)found.blocks,
                        (unsigned long long)found.outputs, files->model);
    config->model = files->model;
    config->task = STOKE_TASK_SEGMENT;
    config->base_channels = (uint32_t)found.channels;
    config->num_blocks = (uint32_t)found.blocks;
    if (config_json) {
        char *file = stk_pretrained_path(path, "config.json");
        if (!file) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
        status = read_config(&(stk_config_json){ file, config_json, err }, &found, config);
        stk_free(file);
    }
    config->classes = (uint32_t)found.outputs / (config->scale * config->scale);
    return status;
}

/* ---- saving ---- */

void stk_plain_write_config(const stk_plain_files *files, FILE *out, const stk_network_config *config)
{
    fprintf(out,
            "  \"architectures\": [\"%s\"],\n"
            "  \"model_type\": \"%s\",\n"
            "  \"torch_dtype\": \"float32\",\n"
            "  \"task\": \"%s\",\n",
            files->architecture, files->model_type,
            config->task == STOKE_TASK_RESTORE ? "restore" : "segment");
    if (files->block)
        fprintf(out, "  \"num_blocks\": %u,\n  \"residual_scale\": %g,\n", (unsigned)config->num_blocks,
                RESIDUAL);
    fprintf(out, "  \"base_channels\": %u,\n  \"scale\": %u,\n  \"num_channels\": 3\n",
            (unsigned)config->base_channels, (unsigned)config->scale);
}
