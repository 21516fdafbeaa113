/* SPDX-License-Identifier: Apache-2.0
 *
 * Which network a file holds. The shapes of its tensors tell; config.json, where there is one, must agree
 * with them, and whatever it says that would be computed differently here is refused by name.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/net/files/pretrained.h"

typedef struct shapes {
    uint32_t hidden[STK_CONFIG_STAGES], depths[STK_CONFIG_STAGES], decoder, classes;
    int head;
} shapes;

static uint32_t first_size(const stk_safetensors_tensor *tensor)
{
    return tensor->dims && tensor->shape[0] <= UINT32_MAX ? (uint32_t)tensor->shape[0] : 0;
}

static int note_shape(void *context, const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                      stoke_error *err)
{
    (void)file, (void)err;
    shapes *found = context;
    char name[STK_NAME], patch[STK_NAME];
    unsigned stage, block;
    if (!stk_pretrained_name(tensor->name, name)) return STOKE_OK;
    found->head |= strncmp(name, "decode_head.", 12) == 0;
    if (strcmp(name, "decode_head.linear_fuse.weight") == 0) found->decoder = first_size(tensor);
    if (strcmp(name, "decode_head.classifier.weight") == 0) found->classes = first_size(tensor);
    for (unsigned i = 0; i < STK_CONFIG_STAGES; i++) {
        snprintf(patch, sizeof patch, "segformer.encoder.patch_embeddings.%u.proj.weight", i);
        if (strcmp(name, patch) == 0) found->hidden[i] = first_size(tensor);
    }
    if (strncmp(name, "segformer.", 10) == 0 && stk_pretrained_block(name + 10, &stage, &block) &&
        stage < STK_CONFIG_STAGES && found->depths[stage] <= block)
        found->depths[stage] = block + 1;
    return STOKE_OK;
}

static int config_of_shapes(const char *path, const shapes *found, stk_segformer_config *config,
                            stoke_error *err)
{
    const uint32_t *h = found->hidden, *d = found->depths;
    if (!h[0] && !d[0])
        return stk_fail(err, STOKE_E_FORMAT, "%s: holds no tensor of a SegFormer encoder", path);
    if (!stk_config_like(config, h, d))
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: channels %u %u %u %u and depths %u %u %u %u are those of none of b0 to b5", path,
                        h[0], h[1], h[2], h[3], d[0], d[1], d[2], d[3]);
    if (!found->head) return STOKE_OK;
    if (found->decoder != config->decoder)
        return stk_fail(err, STOKE_E_FORMAT, "%s: a decoder of %u channels, but %s has %u", path,
                        found->decoder, config->model, config->decoder);
    if (!found->classes || found->classes > STK_CONFIG_CLASSES)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: decode_head.classifier.weight is missing or has no 1 to %d classes", path,
                        STK_CONFIG_CLASSES);
    config->classes = found->classes;
    return STOKE_OK;
}

enum { FOUND = 160 }; /* bytes for what a message quotes */

/* config.json, while it is compared. */
typedef struct reading {
    const char *path;
    const stk_json *json;
    stoke_error *err;
} reading;

static const stk_json_value *field(const reading *r, const char *key)
{
    const stk_json_value *v = stk_json_find(r->json, &r->json->values[0], key);
    return v && v->kind != STK_JSON_NULL ? v : NULL; /* null: the default, which is what is computed here */
}

/* A value as the file has it, as far as it fits: "[8, 4, 2, 2]". */
static const char *found_text(const reading *r, const stk_json_value *v, char *text, size_t size)
{
    static const char *const kinds[] = { [STK_JSON_NULL] = "null",
                                         [STK_JSON_FALSE] = "false",
                                         [STK_JSON_TRUE] = "true",
                                         [STK_JSON_ARRAY] = "an array",
                                         [STK_JSON_OBJECT] = "an object" };
    if (v->kind == STK_JSON_NUMBER || v->kind == STK_JSON_STRING) {
        snprintf(text, size, "%.100s", stk_json_text(r->json, v));
        return text;
    }
    if (v->kind != STK_JSON_ARRAY || !v->count || v->count > 2 * STK_CONFIG_STAGES) return kinds[v->kind];
    size_t used = 0;
    for (const stk_json_value *i = stk_json_first(r->json, v); i && used < size;
         i = stk_json_next(r->json, i)) {
        const char *number = i->kind == STK_JSON_NUMBER ? stk_json_text(r->json, i) : "?";
        used += (size_t)snprintf(text + used, size - used, "%s%.12s", used ? ", " : "[", number);
    }
    if (used < size) snprintf(text + used, size - used, "]");
    return text;
}

static int expect_text(const reading *r, const char *key, const char *wanted)
{
    const stk_json_value *v = field(r, key);
    if (!v || (v->kind == STK_JSON_STRING && strcmp(stk_json_text(r->json, v), wanted) == 0)) return STOKE_OK;
    char found[FOUND];
    return stk_fail(r->err, STOKE_E_UNSUPPORTED, "%s: \"%s\" is %s: only \"%s\" is computed here", r->path,
                    key, found_text(r, v, found, sizeof found), wanted);
}

static int expect_number(const reading *r, const char *key, double wanted)
{
    const stk_json_value *v = field(r, key);
    double value;
    if (!v || (stk_json_real(r->json, v, &value) && value == wanted)) return STOKE_OK;
    char found[FOUND];
    return stk_fail(r->err, STOKE_E_UNSUPPORTED, "%s: \"%s\" is %s: only %g is computed here", r->path, key,
                    found_text(r, v, found, sizeof found), wanted);
}

/* One number for each stage. */
static int expect_stages(const reading *r, const char *key, const uint32_t wanted[static STK_CONFIG_STAGES])
{
    const stk_json_value *v = field(r, key);
    if (!v) return STOKE_OK;
    const stk_json_value *item = v->kind == STK_JSON_ARRAY ? stk_json_first(r->json, v) : NULL;
    int good = v->count == STK_CONFIG_STAGES;
    for (int i = 0; i < STK_CONFIG_STAGES && good; i++, item = stk_json_next(r->json, item)) {
        double value;
        good = stk_json_real(r->json, item, &value) && value == wanted[i];
    }
    if (good) return STOKE_OK;
    char found[FOUND];
    return stk_fail(r->err, STOKE_E_UNSUPPORTED, "%s: \"%s\" is %s: only [%u, %u, %u, %u] is computed here",
                    r->path, key, found_text(r, v, found, sizeof found), wanted[0], wanted[1], wanted[2],
                    wanted[3]);
}

/* The classes the file names, or else their number. */
static int expect_classes(const reading *r, uint32_t classes)
{
    const stk_json_value *names = field(r, "id2label"), *number = field(r, "num_labels");
    uint64_t said = classes;
    if (names && names->kind == STK_JSON_OBJECT)
        said = names->count;
    else if (number && !stk_json_uint(r->json, number, &said))
        said = 0;
    if (said == classes) return STOKE_OK;
    return stk_fail(r->err, STOKE_E_FORMAT,
                    "%s: %llu classes (\"id2label\", \"num_labels\"), but the tensors have %u", r->path,
                    (unsigned long long)said, classes);
}

/* Not looked at: layer_norm_eps, which Hugging Face never uses (its norms have 1e-5 whatever it says); drop
 * rates that are settings here (drop_path_rate, classifier_dropout_prob); reshape_last_stage, which changes
 * the shape of what an encoder returns and no value. */
static int compare(const reading *r, const stk_segformer_config *c)
{
    const uint32_t ratios[] = { c->mlp_ratio, c->mlp_ratio, c->mlp_ratio, c->mlp_ratio };
    const struct {
        const char *key;
        const uint32_t *wanted;
    } stages[] = {
        { "hidden_sizes", c->hidden }, { "depths", c->depths },  { "num_attention_heads", c->heads },
        { "sr_ratios", c->reduction }, { "mlp_ratios", ratios }, { "patch_sizes", c->patch },
        { "strides", c->stride }
    };
    int status = expect_text(r, "model_type", "segformer");
    if (!status) status = expect_text(r, "hidden_act", "gelu");
    if (!status) status = expect_number(r, "num_channels", 3);
    if (!status) status = expect_number(r, "num_encoder_blocks", STK_CONFIG_STAGES);
    if (!status) status = expect_number(r, "hidden_dropout_prob", 0);
    if (!status) status = expect_number(r, "attention_probs_dropout_prob", 0);
    for (size_t i = 0; i < sizeof stages / sizeof *stages && !status; i++)
        status = expect_stages(r, stages[i].key, stages[i].wanted);
    if (status || !c->classes) return status; /* of an encoder alone, what concerns the head means nothing */
    status = expect_number(r, "decoder_hidden_size", c->decoder);
    return status ? status : expect_classes(r, c->classes);
}

static void remark_ignored_label(const reading *r, stk_remark_fn *remark, void *context)
{
    const char *label = stk_json_text(r->json, field(r, "semantic_loss_ignore_index"));
    char sentence[256];
    if (!remark || !label || strcmp(label, "255") == 0) return;
    snprintf(sentence, sizeof sentence,
             "config.json ignores label %.20s in the loss (semantic_loss_ignore_index); here the loss's own "
             "ignore_index counts",
             label);
    remark(context, sentence);
}

static int compare_config(const char *folder, const stk_segformer_config *config, stk_remark_fn *remark,
                          void *context, stoke_error *err)
{
    char *path = stk_pretrained_path(folder, "config.json");
    if (!path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", folder);
    stk_json json = { 0 };
    int status = STOKE_OK;
    if (stk_there(path)) { /* else the shapes say enough, or `folder` is a file */
        const reading r = { path, &json, err };
        status = stk_pretrained_json(path, &json, err);
        if (!status && json.values[0].kind != STK_JSON_OBJECT)
            status = stk_fail(err, STOKE_E_FORMAT, "%s: not a JSON object", path);
        if (!status) status = compare(&r, config);
        if (!status) remark_ignored_label(&r, remark, context);
    }
    stk_json_free(&json);
    stk_free(path);
    return status;
}

int stk_pretrained_check(const char *path, stk_segformer_config *config, stk_remark_fn *remark, void *context,
                         stoke_error *err)
{
    shapes found = { 0 };
    int status = stk_pretrained_visit(path, note_shape, &found, err);
    if (!status) status = config_of_shapes(path, &found, config, err);
    if (!status) status = compare_config(path, config, remark, context, err);
    return status;
}

int stk_pretrained_config(const char *path, stk_segformer_config *config, stoke_error *err)
{
    return stk_pretrained_check(path, config, NULL, NULL, err);
}
