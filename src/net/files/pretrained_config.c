/* SPDX-License-Identifier: Apache-2.0
 *
 * Which network a file holds. The shapes of its tensors tell; config.json, where there is one, must agree
 * with them, and whatever it says that would be computed differently here is refused by name.
 */
#include "src/net/files/pretrained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/utf8.h"

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

int stk_pretrained_name(const char *name, char old[static STK_NAME])
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

/* ---- names of classes ---- */

char **stk_pretrained_copy_labels(const char *const *names, uint32_t classes)
{
    enum { MADE = 18 }; /* bytes of LABEL_4294967295 and less */
    size_t bytes = classes * sizeof(char *);
    for (uint32_t i = 0; i < classes; i++) bytes += names[i] ? strlen(names[i]) + 1 : MADE;
    char **list = stk_alloc(bytes), *text = (char *)(list + classes);
    for (uint32_t i = 0; list && i < classes; i++) {
        list[i] = text;
        if (names[i])
            text = stpcpy(text, names[i]) + 1;
        else
            text += snprintf(text, MADE, "LABEL_%u", (unsigned)i) + 1;
    }
    return list;
}

/* The list in one block: pointers, then what they point at. */
static int read_labels(const stk_json *json, const stk_json_value *names, uint32_t classes, char ***labels)
{
    size_t bytes = classes * sizeof(char *);
    for (const stk_json_value *v = stk_json_first(json, names); v; v = stk_json_next(json, v)) {
        if (v->kind != STK_JSON_STRING) return STOKE_OK;
        bytes += strlen(stk_json_text(json, v)) + 1;
    }
    char **list = stk_calloc(1, bytes), *text = (char *)(list + classes);
    if (!list) return STOKE_E_NOMEM;
    for (const stk_json_value *v = stk_json_first(json, names); v; v = stk_json_next(json, v)) {
        char *end;
        const unsigned long long index = strtoull(stk_json_key(json, v), &end, 10);
        if (*end || index >= classes || list[index]) break;
        list[index] = text;
        text = stpcpy(text, stk_json_text(json, v)) + 1;
    }
    int all = 1;
    for (uint32_t i = 0; i < classes; i++) all &= list[i] != NULL;
    if (all)
        *labels = list;
    else
        stk_free(list);
    return STOKE_OK;
}

int stk_pretrained_labels(const char *folder, uint32_t classes, char ***labels, stoke_error *err)
{
    stk_json json = { 0 };
    char *path = stk_pretrained_path(folder, "config.json");
    *labels = NULL;
    if (!path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", folder);
    int status = STOKE_OK;
    if (stoke_there(path)) status = stk_pretrained_json(path, &json, err);
    const stk_json_value *names = json.values ? stk_json_find(&json, &json.values[0], "id2label") : NULL;
    if (!status && names && names->kind == STK_JSON_OBJECT && names->count == classes &&
        read_labels(&json, names, classes, labels))
        status = stk_fail(err, STOKE_E_NOMEM, "%s: no memory for the names of %u classes", path, classes);
    stk_json_free(&json);
    stk_free(path);
    return status;
}

/* A class and its name. */
typedef struct numbered {
    const char *name;
    uint32_t index;
} numbered;

static int by_name(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Bytes that are no UTF-8 become U+FFFD: Python reads no JSON with them in it. */
static void write_text(FILE *out, const char *text)
{
    fputc('"', out);
    while (*text) {
        const char *from = text;
        const uint32_t code = stk_utf8_next(&text);
        if (code < 0x20 || (code == STK_UTF8_BAD && text - from == 1))
            fprintf(out, "\\u%04x", (unsigned)code);
        else if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (int)code);
        else
            fwrite(from, 1, (size_t)(text - from), out);
    }
    fputc('"', out);
}

static void write_named(FILE *out, char *const *labels, numbered *sorted, uint32_t classes)
{
    fputs("  \"id2label\": {", out);
    for (uint32_t i = 0; i < classes; i++) {
        fprintf(out, "%s\n    \"%u\": ", i ? "," : "", i);
        write_text(out, labels[i]);
        sorted[i] = (numbered){ labels[i], i };
    }
    fputs("\n  },\n  \"label2id\": {", out);
    qsort(sorted, classes, sizeof *sorted, by_name);
    for (uint32_t i = 0, first = 1; i < classes; i++) {
        /* Of classes with the same name the last, as a dict of Python: no key stands twice. */
        if (i + 1 < classes && strcmp(sorted[i].name, sorted[i + 1].name) == 0) continue;
        fputs(first ? "\n    " : ",\n    ", out);
        write_text(out, sorted[i].name);
        fprintf(out, ": %u", sorted[i].index);
        first = 0;
    }
    fputs("\n  },\n", out);
}

/* Without any, transformers believes in two classes; LABEL_0 and so on is what it calls those it knows no
 * name of. */
int stk_pretrained_write_labels(FILE *out, char *const *labels, uint32_t classes)
{
    if (labels) {
        numbered *sorted = stk_alloc(classes * sizeof *sorted);
        if (!sorted) return STOKE_E_NOMEM;
        write_named(out, labels, sorted, classes);
        stk_free(sorted);
        return STOKE_OK;
    }
    fputs("  \"id2label\": {", out);
    for (uint32_t i = 0; i < classes; i++) fprintf(out, "%s\n    \"%u\": \"LABEL_%u\"", i ? "," : "", i, i);
    fputs("\n  },\n  \"label2id\": {", out);
    for (uint32_t i = 0; i < classes; i++) fprintf(out, "%s\n    \"LABEL_%u\": %u", i ? "," : "", i, i);
    fputs("\n  },\n", out);
    return STOKE_OK;
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
    if (!stk_pretrained_name(tensor->name, name)) return STOKE_OK;
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
    if (v->kind != STK_JSON_ARRAY || !v->count || v->count > 2 * STK_STAGES) return kinds[v->kind];
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
static int expect_stages(const reading *r, const char *key, const uint32_t wanted[static STK_STAGES])
{
    const stk_json_value *v = field(r, key);
    if (!v) return STOKE_OK;
    const stk_json_value *item = v->kind == STK_JSON_ARRAY ? stk_json_first(r->json, v) : NULL;
    int good = v->count == STK_STAGES;
    for (int i = 0; i < STK_STAGES && good; i++, item = stk_json_next(r->json, item)) {
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
    if (!status) status = expect_number(r, "num_encoder_blocks", STK_STAGES);
    if (!status) status = expect_number(r, "hidden_dropout_prob", 0);
    if (!status) status = expect_number(r, "attention_probs_dropout_prob", 0);
    for (size_t i = 0; i < sizeof stages / sizeof *stages && !status; i++)
        status = expect_stages(r, stages[i].key, stages[i].wanted);
    if (status || !c->classes) return status; /* of an encoder alone, what concerns the head means nothing */
    status = expect_number(r, "decoder_hidden_size", c->decoder);
    return status ? status : expect_classes(r, c->classes);
}

static void remark_ignored_label(const reading *r, stk_say_fn *remark, void *context)
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

static int compare_config(const char *folder, const stk_segformer_config *config, stk_say_fn *remark,
                          void *context, stoke_error *err)
{
    char *path = stk_pretrained_path(folder, "config.json");
    if (!path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", folder);
    stk_json json = { 0 };
    int status = STOKE_OK;
    if (stoke_there(path)) { /* else the shapes say enough, or `folder` is a file */
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

int stk_pretrained_check(const char *path, stk_segformer_config *config, stk_say_fn *remark, void *context,
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
