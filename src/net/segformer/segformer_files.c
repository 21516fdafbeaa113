/* SPDX-License-Identifier: Apache-2.0
 *
 * SegFormer in Hugging Face's files: names of tensors in every spelling, which model a file holds, and
 * config.json. Whatever that says which would be computed differently here is refused by name.
 */
#include "src/net/segformer/segformer.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/files/pretrained.h"

/* ---- names of tensors ---- */

/* Tensor names. Files hold what transformers up to 4 called things; version 5 renamed every module, renames
 * on loading and, on saving, renames back. Both spellings are about, with and without the "segformer." in
 * front (without: a SegformerModel was saved, an encoder alone). */

typedef struct renamed {
    const char *from, *to;
} renamed;

/* Within a block. Each ends with the point, so that no name is the beginning of another. */
static const renamed BLOCK[] = {
    { "layernorm_before.", "layer_norm_1." },
    { "layernorm_after.", "layer_norm_2." },
    { "attention.q_proj.", "attention.self.query." },
    { "attention.k_proj.", "attention.self.key." },
    { "attention.v_proj.", "attention.self.value." },
    { "attention.o_proj.", "attention.output.dense." },
    { "attention.sequence_reduction.sequence_reduction.", "attention.self.sr." },
    { "attention.sequence_reduction.layer_norm.", "attention.self.layer_norm." },
    { "mlp.fc1.", "mlp.dense1." },
    { "mlp.fc2.", "mlp.dense2." },
};

/* What follows `start`, or NULL when the text does not start so. */
static const char *after(const char *text, const char *start)
{
    const size_t n = strlen(start);
    return strncmp(text, start, n) ? NULL : text + n;
}

/* snprintf's answer: 1 when all of it fitted. */
static int fitted(int length)
{
    return length >= 0 && length < STK_NAME;
}

static int block_name(unsigned stage, unsigned block, const char *tail, char *old)
{
    const char *module = "";
    for (size_t i = 0; i < sizeof BLOCK / sizeof *BLOCK; i++) {
        const char *rest = after(tail, BLOCK[i].from);
        if (!rest) continue;
        module = BLOCK[i].to;
        tail = rest;
        break;
    }
    return fitted(snprintf(old, STK_NAME, "segformer.encoder.block.%u.%u.%s%s", stage, block, module, tail));
}

/* One to three digits and the point after them (no model has more of anything, and no number overflows).
 * Returns what follows, NULL when it is not so. */
static const char *after_number(const char *text, unsigned *number)
{
    const size_t n = strspn(text, "0123456789");
    if (!n || n > 3 || text[n] != '.' || (n > 1 && *text == '0')) return NULL;
    *number = 0;
    for (size_t i = 0; i < n; i++) *number = *number * 10 + (unsigned)(text[i] - '0');
    return text + n + 1;
}

static int stage_name(const char *name, char *old)
{
    unsigned stage, block;
    const char *tail = after_number(name, &stage), *rest;
    if (!tail) return 0;
    if ((rest = after(tail, "blocks.")))
        return (rest = after_number(rest, &block)) && block_name(stage, block, rest, old);
    if ((rest = after(tail, "patch_embeddings.")))
        return fitted(snprintf(old, STK_NAME, "segformer.encoder.patch_embeddings.%u.%s", stage, rest));
    if ((rest = after(tail, "layer_norm.")))
        return fitted(snprintf(old, STK_NAME, "segformer.encoder.layer_norm.%u.%s", stage, rest));
    return 0;
}

/* "encoder.block.2.17.rest": 2, 17, and a pointer to the rest; NULL when the name is not like that. */
static const char *pretrained_block(const char *name, unsigned *stage, unsigned *block)
{
    const char *rest = after(name, "encoder.block.");
    rest = rest ? after_number(rest, stage) : NULL;
    return rest ? after_number(rest, block) : NULL;
}

/* Any spelling as Hugging Face's old one with its prefix: "stages.0.blocks.1.mlp.fc1.bias" gives
 * "segformer.encoder.block.0.1.mlp.dense1.bias". 0: no name of encoder or decode head. 1 does not mean that
 * there is such a tensor. */
int stk_segformer_name(const char *name, char old[static STK_NAME])
{
    const char *rest = after(name, "decode_head.linear_projections.");
    if (rest) return fitted(snprintf(old, STK_NAME, "decode_head.linear_c.%s", rest));
    if (after(name, "decode_head.")) return fitted(snprintf(old, STK_NAME, "%s", name));
    rest = after(name, "segformer.");
    if (rest) name = rest;
    rest = after(name, "stages.");
    if (rest) return stage_name(rest, old);
    unsigned stage, block;
    rest = pretrained_block(name, &stage, &block);
    if (rest) return block_name(stage, block, rest, old);
    return after(name, "encoder.") && fitted(snprintf(old, STK_NAME, "segformer.%s", name));
}

/* ---- config.json ---- */

typedef struct shapes {
    uint32_t hidden[STK_STAGES], depths[STK_STAGES], decoder, classes;
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
    if (!stk_segformer_name(tensor->name, name)) return STOKE_OK;
    found->head |= strncmp(name, "decode_head.", 12) == 0;
    if (strcmp(name, "decode_head.linear_fuse.weight") == 0) found->decoder = first_size(tensor);
    if (strcmp(name, "decode_head.classifier.weight") == 0) found->classes = first_size(tensor);
    for (unsigned i = 0; i < STK_STAGES; i++) {
        snprintf(patch, sizeof patch, "segformer.encoder.patch_embeddings.%u.proj.weight", i);
        if (strcmp(name, patch) == 0) found->hidden[i] = first_size(tensor);
    }
    if (strncmp(name, "segformer.", 10) == 0 && pretrained_block(name + 10, &stage, &block) &&
        stage < STK_STAGES && found->depths[stage] <= block)
        found->depths[stage] = block + 1;
    return STOKE_OK;
}

static int config_of_shapes(const char *path, const shapes *found, stk_segformer_config *config,
                            stoke_error *err)
{
    const uint32_t *h = found->hidden, *d = found->depths;
    if (!h[0] && !d[0])
        return stk_fail(err, STOKE_E_FORMAT, "%s: holds no tensor of a SegFormer encoder", path);
    if (!stk_segformer_like(config, h, d))
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: channels %u %u %u %u and depths %u %u %u %u are those of none of b0 to b5", path,
                        h[0], h[1], h[2], h[3], d[0], d[1], d[2], d[3]);
    if (!found->head) return STOKE_OK;
    if (found->decoder != config->decoder)
        return stk_fail(err, STOKE_E_FORMAT, "%s: a decoder of %u channels, but %s has %u", path,
                        found->decoder, config->model, config->decoder);
    if (!found->classes || found->classes > STK_NET_CLASSES)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: decode_head.classifier.weight is missing or has no 1 to %d classes", path,
                        STK_NET_CLASSES);
    config->classes = found->classes;
    return STOKE_OK;
}

/* One number for each stage. */
static int expect_stages(const stk_config_json *r, const char *key, const uint32_t wanted[static STK_STAGES])
{
    const stk_json_value *v = stk_config_field(r, key);
    if (!v) return STOKE_OK;
    const stk_json_value *item = v->kind == STK_JSON_ARRAY ? stk_json_first(r->json, v) : NULL;
    int good = v->count == STK_STAGES;
    for (int i = 0; i < STK_STAGES && good; i++, item = stk_json_next(r->json, item)) {
        double value;
        good = stk_json_real(r->json, item, &value) && value == wanted[i];
    }
    if (good) return STOKE_OK;
    char found[STK_CONFIG_TEXT];
    return stk_fail(r->err, STOKE_E_UNSUPPORTED, "%s: \"%s\" is %s: only [%u, %u, %u, %u] is computed here",
                    r->path, key, stk_config_text(r, v, found), wanted[0], wanted[1], wanted[2], wanted[3]);
}

/* The classes the file names, or else their number. */
static int expect_classes(const stk_config_json *r, uint32_t classes)
{
    const stk_json_value *names = stk_config_field(r, "id2label"),
                         *number = stk_config_field(r, "num_labels");
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
static int compare(const stk_config_json *r, const stk_segformer_config *c)
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
    int status = stk_config_expect_text(r, "model_type", "segformer");
    if (!status) status = stk_config_expect_text(r, "hidden_act", "gelu");
    if (!status) status = stk_config_expect_number(r, "num_channels", 3);
    if (!status) status = stk_config_expect_number(r, "num_encoder_blocks", STK_STAGES);
    if (!status) status = stk_config_expect_number(r, "hidden_dropout_prob", 0);
    if (!status) status = stk_config_expect_number(r, "attention_probs_dropout_prob", 0);
    for (size_t i = 0; i < sizeof stages / sizeof *stages && !status; i++)
        status = expect_stages(r, stages[i].key, stages[i].wanted);
    if (status || !c->classes) return status; /* of an encoder alone, what concerns the head means nothing */
    status = stk_config_expect_number(r, "decoder_hidden_size", c->decoder);
    return status ? status : expect_classes(r, c->classes);
}

static void remark_ignored_label(const stk_config_json *r, stk_say_fn *remark, void *context)
{
    const char *label = stk_json_text(r->json, stk_config_field(r, "semantic_loss_ignore_index"));
    char sentence[256];
    if (!remark || !label || strcmp(label, "255") == 0) return;
    snprintf(sentence, sizeof sentence,
             "config.json ignores label %.20s in the loss (semantic_loss_ignore_index); here the loss's own "
             "ignore_index counts",
             label);
    remark(context, sentence);
}

int stk_segformer_read(const char *path, const stk_json *config_json, stk_network_config *config,
                       stk_say_fn *remark, void *context, stoke_error *err)
{
    shapes found = { 0 };
    stk_segformer_config sizes;
    int status = stk_pretrained_visit(path, note_shape, &found, err);
    if (!status) status = config_of_shapes(path, &found, &sizes, err);
    if (status) return status;
    config->model = sizes.model;
    config->classes = sizes.classes;
    config->task = STOKE_TASK_SEGMENT;
    if (!config_json) return STOKE_OK;
    char *file = stk_pretrained_path(path, "config.json");
    if (!file) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    const stk_config_json r = { file, config_json, err };
    status = compare(&r, &sizes);
    if (!status) remark_ignored_label(&r, remark, context);
    stk_free(file);
    return status;
}

/* ---- saving ---- */

static void write_stages(FILE *out, const char *key, const uint32_t values[static STK_STAGES])
{
    fprintf(out, "  \"%s\": [%u, %u, %u, %u],\n", key, values[0], values[1], values[2], values[3]);
}

void stk_segformer_write_config(FILE *out, const stk_network_config *config)
{
    const stk_segformer_config c = stk_segformer_sizes(config->model, config->classes);
    const uint32_t ratios[] = { c.mlp_ratio, c.mlp_ratio, c.mlp_ratio, c.mlp_ratio };
    fputs("  \"architectures\": [\"SegformerForSemanticSegmentation\"],\n"
          "  \"model_type\": \"segformer\",\n"
          "  \"torch_dtype\": \"float32\",\n"
          "  \"hidden_act\": \"gelu\",\n"
          "  \"hidden_dropout_prob\": 0.0,\n"
          "  \"attention_probs_dropout_prob\": 0.0,\n"
          "  \"classifier_dropout_prob\": 0.1,\n"
          "  \"drop_path_rate\": 0.1,\n"
          "  \"initializer_range\": 0.02,\n"
          "  \"layer_norm_eps\": 1e-06,\n"
          "  \"reshape_last_stage\": true,\n"
          "  \"semantic_loss_ignore_index\": 255,\n",
          out);
    write_stages(out, "hidden_sizes", c.hidden);
    write_stages(out, "depths", c.depths);
    write_stages(out, "num_attention_heads", c.heads);
    write_stages(out, "sr_ratios", c.reduction);
    write_stages(out, "mlp_ratios", ratios);
    write_stages(out, "patch_sizes", c.patch);
    write_stages(out, "strides", c.stride);
    fprintf(out, "  \"num_encoder_blocks\": %d,\n  \"decoder_hidden_size\": %u,\n  \"num_channels\": 3\n",
            STK_STAGES, c.decoder);
}
