/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in and out: what is written comes back, in every spelling, and what does not fit is named.
 * Full-size networks are made by our own writer; the transformers package is asked in tests/parity.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "src/base/mem.h"
#include "src/net/files/pretrained.h"
#include "src/net/segformer/segformer.h"
#include "tests/unit/fixture_parameters.h"

enum { CLASSES = 5, BATCHES = 4321 };

/* One b0 with other numbers in every element, made once. */
static stk_network_config config;
static stk_parameters parameters;
static float *weights, *loaded;

static int make_weights(void **state)
{
    (void)state;
    if (stk_network_find(&config, "b0", CLASSES, NULL) || list_parameters(&parameters, &config, NULL))
        return -1;
    weights = stk_calloc(parameters.floats, sizeof *weights);
    loaded = stk_calloc(parameters.floats, sizeof *loaded);
    if (!weights || !loaded) return -1;
    for (size_t i = 0; i < parameters.count; i++) {
        const stk_parameter *p = &parameters.list[i];
        for (size_t k = 0; k < p->count; k++) weights[p->offset + k] = (float)(p->offset + k) * 0x1p-24f;
    }
    return 0;
}

static int free_weights(void **state)
{
    (void)state;
    stk_free(weights);
    stk_free(loaded);
    stk_parameters_free(&parameters);
    return 0;
}

typedef struct remarks {
    char text[2048];
    int count;
} remarks;

static void keep(void *context, const char *sentence)
{
    remarks *r = context;
    const size_t n = strlen(r->text);
    snprintf(r->text + n, sizeof r->text - n, "%s\n", sentence);
    r->count++;
}

static int load(const char *path, remarks *said, stoke_error *err)
{
    const stk_pretrained_how how = { .seed = 9, .remark = keep, .context = said };
    uint64_t batches = 0;
    *said = (remarks){ "", 0 };
    *err = (stoke_error){ 0 };
    memset(loaded, 0x7f, parameters.floats * sizeof *loaded);
    const int status = stk_pretrained_load(path, &config, &parameters, &how, loaded, &batches, err);
    if (!status) assert_true(batches == BATCHES || batches == 0);
    return status;
}

static void expect_loaded(const char *path)
{
    remarks said;
    stoke_error err;
    if (load(path, &said, &err)) fail_msg("%s", err.message);
    assert_string_equal(said.text, "");
    assert_memory_equal(loaded, weights, parameters.floats * sizeof *loaded); /* with the gaps */
}

static void expect_refused(const char *path, int code, const char *told)
{
    remarks said;
    stoke_error err;
    assert_int_equal(load(path, &said, &err), code);
    if (!strstr(err.message, told)) fail_msg("not \"%s\" but \"%s\"", told, err.message);
}

/* The tensors of a file: a copy of our list that a test may change. */
typedef struct content {
    stk_safetensors_source list[300];
    size_t count;
} content;

static const int64_t batches_tracked = BATCHES;

static void add(content *c, const char *name, uint32_t dims, const uint32_t *shape, const float *data)
{
    c->list[c->count] = (stk_safetensors_source){ name, STK_TENSOR_F32, dims, shape, data };
    c->count++;
}

static void add_all(content *c)
{
    c->count = 0;
    for (size_t i = 0; i < parameters.count; i++) {
        const stk_parameter *p = &parameters.list[i];
        add(c, p->name, p->dims, p->shape, weights + p->offset);
    }
    add(c, "decode_head.batch_norm.num_batches_tracked", 0, NULL, NULL);
    c->list[c->count - 1].type = STK_TENSOR_I64;
    c->list[c->count - 1].data = &batches_tracked;
}

static stk_safetensors_source *of(content *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->list[i].name, name) == 0) return &c->list[i];
    fail_msg("no %s", name);
    return NULL;
}

static void drop(content *c, const char *start)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (strncmp(c->list[i].name, start, strlen(start))) c->list[kept++] = c->list[i];
    c->count = kept;
}

static const char *write_content(void **state, const char *name, content *c)
{
    const char *path = unit_path(state, name);
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_true(
        stk_safetensors_write(stream, c->list, c->count, &(stk_safetensors_note){ "format", "pt" }, 1));
    assert_int_equal(fclose(stream), 0);
    return path;
}

static void saved_comes_back(void **state)
{
    stk_network_config found;
    stoke_error err = { 0 };
    const char *folder = unit_path(state, "new/folder");
    if (stk_pretrained_save(folder, &config, &parameters, weights,
                            &(stk_pretrained_notes){ BATCHES, 48, 80, NULL }, &err))
        fail_msg("%s", err.message);
    expect_loaded(folder);
    expect_loaded(unit_path(state, "new/folder/model.safetensors"));
    assert_int_equal(stk_pretrained_config(folder, &found, &err), STOKE_OK);
    assert_string_equal(found.model, "b0");
    assert_int_equal(found.classes, CLASSES);
    /* config.json is not needed */
    assert_int_equal(unlink(unit_path(state, "new/folder/config.json")), 0);
    assert_int_equal(stk_pretrained_config(folder, &found, &err), STOKE_OK);
    assert_int_equal(found.classes, CLASSES);
    expect_loaded(folder);
    uint64_t batches = 0;
    assert_int_equal(
        stk_pretrained_load(folder, &config, &parameters, &(stk_pretrained_how){ 0 }, loaded, &batches, &err),
        STOKE_OK);
    assert_int_equal(batches, BATCHES);
}

static char *text_of(void **state, const char *name)
{
    static char text[8192];
    FILE *stream = fopen(unit_path(state, name), "rb");
    assert_non_null(stream);
    text[fread(text, 1, sizeof text - 1, stream)] = 0;
    fclose(stream);
    return text;
}

/* Quotes, a control character, two classes of one name, keys in any order. */
static void names_of_classes_come_back(void **state)
{
    static const char *const given[CLASSES] = { NULL, "a\xffz", "", NULL, "\xef\xbf\xbd" };
    static char *const names[CLASSES] = { "road", "a \"b\" \\", "\xe6\xb0\xb4", "road", "x\ny" };
    char **found;
    stoke_error err = { 0 };
    const stk_pretrained_notes notes = { BATCHES, 48, 80, names };
    if (stk_pretrained_save(unit_folder(state), &config, &parameters, weights, &notes, &err))
        fail_msg("%s", err.message);
    expect_loaded(unit_folder(state));
    assert_int_equal(stk_pretrained_labels(unit_folder(state), CLASSES, &found, &err), STOKE_OK);
    assert_non_null(found);
    for (int i = 0; i < CLASSES; i++) assert_string_equal(found[i], names[i]);
    stk_free(found);
    assert_int_equal(stk_pretrained_labels(unit_folder(state), CLASSES + 1, &found, &err), STOKE_OK);
    assert_null(found);
    assert_non_null(strstr(text_of(state, "config.json"), "\"road\": 3"));
    assert_non_null(
        strstr(text_of(state, "preprocessor_config.json"), "\"size\": {\"height\": 48, \"width\": 80}"));
    char **copy = stk_pretrained_copy_labels(given, CLASSES);
    assert_non_null(copy);
    if (stk_pretrained_save(unit_folder(state), &config, &parameters, weights,
                            &(stk_pretrained_notes){ BATCHES, 48, 80, copy }, &err))
        fail_msg("%s", err.message);
    stk_free(copy);
    static const char *const wanted[CLASSES] = { "LABEL_0", "a\xef\xbf\xbdz", "", "LABEL_3", "\xef\xbf\xbd" };
    assert_int_equal(stk_pretrained_labels(unit_folder(state), CLASSES, &found, &err), STOKE_OK);
    assert_non_null(found);
    for (int i = 0; i < CLASSES; i++) assert_string_equal(found[i], wanted[i]);
    stk_free(found);
    static const char *const bad[] = { "{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\",\"3\":\"d\",\"5\":\"e\"}",
                                       "{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\",\"3\":\"d\",\"04\":1}",
                                       "{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\",\"3\":\"d\",\"03\":\"e\"}",
                                       "[\"a\",\"b\",\"c\",\"d\",\"e\"]" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char json[256];
        const int length = snprintf(json, sizeof json, "{\"id2label\":%s}", bad[i]);
        unit_write(unit_path(state, "config.json"), json, (size_t)length);
        assert_int_equal(stk_pretrained_labels(unit_folder(state), CLASSES, &found, &err), STOKE_OK);
        assert_null(found);
    }
}

/* Old to new, written down here once more, from transformers' own table. */
static void new_name(const char *old, char out[static 2 * STK_NAME])
{
    static const char *const inner[][2] = {
        { "attention.self.query", "attention.q_proj" },
        { "attention.self.key", "attention.k_proj" },
        { "attention.self.value", "attention.v_proj" },
        { "attention.self.sr", "attention.sequence_reduction.sequence_reduction" },
        { "attention.self.layer_norm", "attention.sequence_reduction.layer_norm" },
        { "attention.output.dense", "attention.o_proj" },
        { "mlp.dense1", "mlp.fc1" },
        { "mlp.dense2", "mlp.fc2" },
        { "layer_norm_1", "layernorm_before" },
        { "layer_norm_2", "layernorm_after" },
        { "decode_head.linear_c", "decode_head.linear_projections" },
    };
    int i, j, n = 0;
    char text[2 * STK_NAME];
    if (sscanf(old, "segformer.encoder.block.%d.%d.%n", &i, &j, &n) == 2 && n)
        sprintf(text, "segformer.stages.%d.blocks.%d.%s", i, j, old + n);
    else if (sscanf(old, "segformer.encoder.patch_embeddings.%d.%n", &i, &n) == 1 && n)
        sprintf(text, "segformer.stages.%d.patch_embeddings.%s", i, old + n);
    else if (sscanf(old, "segformer.encoder.layer_norm.%d.%n", &i, &n) == 1 && n)
        sprintf(text, "segformer.stages.%d.layer_norm.%s", i, old + n);
    else
        strcpy(text, old);
    for (size_t k = 0; k < sizeof inner / sizeof *inner; k++) {
        const char *at = strstr(text, inner[k][0]);
        if (!at) continue;
        snprintf(out, 2 * STK_NAME, "%.*s%s%s", (int)(at - text), text, inner[k][1],
                 at + strlen(inner[k][0]));
        return;
    }
    strcpy(out, text);
}

static void new_names_are_read(void **state)
{
    static content c;
    static char names[300][2 * STK_NAME];
    size_t different = 0;
    add_all(&c);
    for (size_t i = 0; i < c.count; i++) {
        new_name(c.list[i].name, names[i]);
        different += strcmp(names[i], c.list[i].name) != 0;
        c.list[i].name = names[i];
    }
    assert_int_equal(different, parameters.count - 7); /* but fuse, batch norm x 4, classifier x 2 */
    expect_loaded(write_content(state, "new.safetensors", &c));
}

static void names_are_told_apart(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "encoder.block.0.1.mlp.dense1.bias", "segformer.encoder.block.0.1.mlp.dense1.bias" },
        { "segformer.encoder.block.2.39.attention.k_proj.bias",
          "segformer.encoder.block.2.39.attention.self.key.bias" },
        { "stages.3.layer_norm.weight", "segformer.encoder.layer_norm.3.weight" },
        { "stages.1.blocks.10.mlp.dwconv.dwconv.weight",
          "segformer.encoder.block.1.10.mlp.dwconv.dwconv.weight" },
        { "decode_head.linear_projections.2.proj.weight", "decode_head.linear_c.2.proj.weight" },
        { "decode_head.anything", "decode_head.anything" },
        { "classifier.weight", NULL },
        { "stages.-1.layer_norm.weight", NULL },
        { "stages. 1.layer_norm.weight", NULL },
        { "stages.01.layer_norm.weight", NULL },
        { "stages.1000.layer_norm.weight", NULL },
        { "stages.1.blocks.99999999999.mlp.fc1.weight", NULL },
        { "stages.1.others.weight", NULL },
        { "stages.", NULL },
        { "", NULL },
        { "encoder.a-name-of-more-than-the-ninety-six-bytes-that-any-name-of-this-network-needs-is-no-name-"
          "of-it",
          NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char old[STK_NAME];
        const int is = stk_segformer_name(cases[i][0], old);
        if (is != (cases[i][1] != NULL)) fail_msg("%s", cases[i][0]);
        if (is) assert_string_equal(old, cases[i][1]);
    }
}

/* mit-b*: no decode head, an ImageNet classifier, with or without the prefix. */
static void encoders_get_a_new_head(void **state)
{
    static content c;
    static const uint32_t shape[] = { 1000, 256 };
    float *imagenet = stk_calloc(1000 * 256, sizeof *imagenet);
    float *fresh = stk_alloc(parameters.floats * sizeof *fresh);
    for (int prefix = 0; prefix < 2; prefix++) {
        add_all(&c);
        drop(&c, "decode_head.");
        for (size_t i = 0; i < c.count && !prefix; i++) c.list[i].name += strlen("segformer.");
        add(&c, "classifier.weight", 2, shape, imagenet);
        add(&c, "classifier.bias", 1, shape, imagenet);
        const char *path = write_content(state, "mit.safetensors", &c);
        stk_network_config found;
        remarks said;
        stoke_error err = { 0 };
        assert_int_equal(stk_pretrained_config(path, &found, &err), STOKE_OK);
        assert_int_equal(found.classes, 0);
        if (load(path, &said, &err)) fail_msg("%s", err.message);
        assert_int_equal(said.count, 2);
        assert_non_null(strstr(said.text, "is an encoder alone: the decode head was initialised\n"));
        assert_non_null(
            strstr(said.text, "2 tensors of the file, such as classifier.bias, are no part of the network"));
        for (size_t i = 0; i < parameters.count; i++) {
            const stk_parameter *p = &parameters.list[i];
            if (p->head) stk_parameter_initialise(p, fresh, 9);
            const float *wanted = p->head ? fresh : weights;
            assert_memory_equal(loaded + p->offset, wanted + p->offset, p->count * sizeof *wanted);
        }
    }
    stk_free(fresh);
    stk_free(imagenet);
}

static void other_classes_get_a_new_classifier(void **state)
{
    static content c;
    static const uint32_t shape[] = { 150, 256, 1, 1 };
    float *many = stk_calloc(150 * 256, sizeof *many);
    add_all(&c);
    *of(&c, "decode_head.classifier.weight") =
        (stk_safetensors_source){ "decode_head.classifier.weight", STK_TENSOR_F32, 4, shape, many };
    *of(&c, "decode_head.classifier.bias") =
        (stk_safetensors_source){ "decode_head.classifier.bias", STK_TENSOR_F32, 1, shape, many };
    const char *path = write_content(state, "150.safetensors", &c);
    remarks said;
    stoke_error err;
    stk_network_config found;
    assert_int_equal(stk_pretrained_config(path, &found, &err), STOKE_OK);
    assert_int_equal(found.classes, 150);
    if (load(path, &said, &err)) fail_msg("%s", err.message);
    assert_string_equal(said.text, "the classifier has 150 classes in the file and 5 here: initialised\n");
    const stk_parameter *w = stk_parameters_find(&parameters, "decode_head.classifier.weight");
    assert_memory_equal(loaded, weights, w->offset * sizeof *loaded);
    float *fresh = stk_alloc(parameters.floats * sizeof *fresh);
    stk_parameter_initialise(w, fresh, 9);
    assert_memory_equal(loaded + w->offset, fresh + w->offset, w->count * sizeof *fresh);
    stk_free(fresh);
    stk_free(many);
}

static void misfits_are_named(void **state)
{
    static content c;
    static const uint32_t wrong[] = { 32, 3, 7, 5 };
    static const char bias[] = "segformer.encoder.block.1.1.mlp.dense2.bias";
    add_all(&c);
    drop(&c, bias);
    expect_refused(write_content(state, "a", &c), STOKE_E_FORMAT,
                   "/a: segformer.encoder.block.1.1.mlp.dense2.bias is missing");
    add_all(&c);
    drop(&c, "decode_head.batch_norm.running_var");
    expect_refused(write_content(state, "a", &c), STOKE_E_FORMAT, "running_var is missing");
    add_all(&c);
    drop(&c, "decode_head.linear_c"); /* a part of the head is no encoder */
    expect_refused(write_content(state, "a", &c), STOKE_E_FORMAT,
                   "decode_head.linear_c.0.proj.weight is missing");
    add_all(&c);
    drop(&c, "decode_head.classifier");
    expect_refused(write_content(state, "a", &c), STOKE_E_FORMAT, "decode_head.classifier.weight is missing");
    add_all(&c);
    of(&c, "segformer.encoder.patch_embeddings.0.proj.weight")->shape = wrong;
    expect_refused(write_content(state, "a", &c), STOKE_E_FORMAT,
                   "has the shape [32, 3, 7, 5], not [32, 3, 7, 7]");
    add_all(&c);
    add(&c, "stages.1.blocks.1.mlp.fc2.bias", 1, (const uint32_t[]){ 64 }, weights);
    expect_refused(write_content(state, "a", &c), STOKE_E_FORMAT, "stands there twice");
    add_all(&c);
    add(&c, "segformer.encoder.block.2.2.mlp.dense2.bias", 1, (const uint32_t[]){ 160 }, weights);
    expect_refused(write_content(state, "a", &c), STOKE_E_FORMAT, "depths 2 2 3 2 are those of none");
    add_all(&c);
    add(&c, "decode_head.conv_seg.bias", 1, (const uint32_t[]){ 5 }, weights);
    expect_refused(write_content(state, "a", &c), STOKE_E_FORMAT,
                   "decode_head.conv_seg.bias is no tensor of b0");
    add_all(&c);
    drop(&c, "");
    add(&c, "bert.embeddings.weight", 1, (const uint32_t[]){ 5 }, weights);
    expect_refused(write_content(state, "a", &c), STOKE_E_FORMAT, "holds no tensor of a SegFormer encoder");
    add_all(&c);
    of(&c, "segformer.encoder.layer_norm.0.bias")->type = STK_TENSOR_I64;
    float *wide = stk_calloc(32, 8);
    of(&c, "segformer.encoder.layer_norm.0.bias")->data = wide;
    expect_refused(write_content(state, "a", &c), STOKE_E_UNSUPPORTED, "layer_norm.0.bias has dtype I64");
    stk_free(wide);
}

static void other_models_are_refused(void **state)
{
    stk_network_config b1;
    stk_parameters other;
    stoke_error err = { 0 };
    assert_int_equal(stk_network_find(&b1, "b1", CLASSES, &err), STOKE_OK);
    assert_int_equal(list_parameters(&other, &b1, &err), STOKE_OK);
    float *values = stk_calloc(other.floats, sizeof *values);
    assert_int_equal(stk_pretrained_save(unit_folder(state), &b1, &other, values,
                                         &(stk_pretrained_notes){ 0, 48, 80, NULL }, &err),
                     STOKE_OK);
    expect_refused(unit_folder(state), STOKE_E_FORMAT, "holds weights of b1, not of b0");
    stk_free(values);
    stk_parameters_free(&other);
}

static int load_partial(const char *path, const stk_network_config *to, const stk_parameters *list,
                        float *values, uint64_t *batches, remarks *said, stoke_error *err)
{
    const stk_pretrained_how how = { .seed = 9, .partial = 1, .remark = keep, .context = said };
    *said = (remarks){ "", 0 };
    return stk_pretrained_load(path, to, list, &how, values, batches, err);
}

/* Of b4 every fourth tensor or so is in b2; the others, and they alone, are initialised. */
static void a_larger_model_takes_what_fits(void **state)
{
    stk_network_config b2, b4;
    stk_parameters small, large;
    remarks said;
    stoke_error err = { 0 };
    uint64_t batches = 0;
    uint32_t carried = 0;
    assert_int_equal(stk_network_find(&b2, "b2", CLASSES, NULL) || stk_network_find(&b4, "b4", CLASSES, NULL),
                     0);
    assert_int_equal(list_parameters(&small, &b2, NULL), STOKE_OK);
    assert_int_equal(list_parameters(&large, &b4, NULL), STOKE_OK);
    float *from = stk_calloc(small.floats, sizeof *from), *to = stk_alloc(large.floats * sizeof *to);
    assert_true(from && to);
    for (size_t i = 0; i < small.count; i++)
        for (size_t k = 0; k < small.list[i].count; k++)
            from[small.list[i].offset + k] = (float)(i + k % 1024 + 2);
    const char *folder = unit_path(state, "b2");
    const stk_pretrained_notes notes = { BATCHES, 48, 80, NULL };
    if (stk_pretrained_save(folder, &b2, &small, from, &notes, &err) ||
        load_partial(folder, &b4, &large, to, &batches, &said, &err))
        fail_msg("%s", err.message);
    char told[4200];
    snprintf(
        told, sizeof told,
        "379 of 929 tensors (27.4 of 64.0 million values) carried over from %s; the rest was initialised\n",
        folder);
    assert_string_equal(said.text, told);
    assert_int_equal(batches, BATCHES); /* the running statistics came along */
    assert_int_equal(stk_pretrained_carried(folder, b4.network, &large, &carried, &err), STOKE_OK);
    assert_int_equal(carried, 379);
    size_t same = 0;
    for (size_t i = 0; i < large.count; i++) {
        const stk_parameter *p = &large.list[i], *q = stk_parameters_find(&small, p->name);
        if (q) assert_memory_equal(to + p->offset, from + q->offset, p->count * sizeof *to);
        same += q != NULL;
        float most = 0;
        for (size_t k = 0; k < p->count && !q; k++) most = fmaxf(most, fabsf(to[p->offset + k]));
        assert_true(most <= 1); /* where b2 has nothing, no number of its */
    }
    assert_int_equal(same, 379);
    stk_free(from);
    stk_free(to);
    stk_parameters_free(&small);
    stk_parameters_free(&large);
}

/* Of the same model everything, and of a damaged file what is whole; a tensor that stands there twice, or a
 * file of something else, is still refused. */
static void partial_takes_what_is_there(void **state)
{
    static content c;
    remarks said;
    stoke_error err = { 0 };
    uint64_t batches = 0;
    add_all(&c);
    const char *path = write_content(state, "all", &c);
    assert_int_equal(load_partial(path, &config, &parameters, loaded, &batches, &said, &err), STOKE_OK);
    assert_non_null(strstr(said.text, "207 of 207 tensors (3.7 of 3.7 million values) carried over from "));
    assert_null(strstr(said.text, "initialised"));
    assert_memory_equal(loaded, weights, parameters.floats * sizeof *loaded);
    assert_int_equal(batches, BATCHES);

    static const uint32_t narrow[] = { 200 };
    drop(&c, "decode_head.batch_norm.running_var");
    of(&c, "decode_head.batch_norm.running_mean")->shape = narrow;
    add(&c, "decode_head.conv_seg.bias", 1, narrow, weights);
    path = write_content(state, "some", &c);
    assert_int_equal(load_partial(path, &config, &parameters, loaded, &batches, &said, &err), STOKE_OK);
    assert_non_null(strstr(said.text, "205 of 207 tensors"));
    assert_int_equal(batches, 0); /* statistics of no batch */
    const stk_parameter *mean = stk_parameters_find(&parameters, "decode_head.batch_norm.running_mean");
    const stk_parameter *variance = stk_parameters_find(&parameters, "decode_head.batch_norm.running_var");
    assert_true(loaded[mean->offset] == 0 && loaded[variance->offset] == 1);
    assert_memory_equal(loaded, weights, mean->offset * sizeof *loaded);

    add(&c, "stages.1.blocks.1.mlp.fc2.bias", 1, (const uint32_t[]){ 64 }, weights);
    path = write_content(state, "twice", &c);
    assert_int_equal(load_partial(path, &config, &parameters, loaded, &batches, &said, &err), STOKE_E_FORMAT);
    assert_non_null(strstr(err.message, "stands there twice"));
    drop(&c, "");
    add(&c, "bert.embeddings.weight", 1, narrow, weights);
    path = write_content(state, "bert", &c);
    assert_int_equal(load_partial(path, &config, &parameters, loaded, &batches, &said, &err), STOKE_E_FORMAT);
    assert_non_null(strstr(err.message, "holds no tensor of a SegFormer encoder"));
}

static void values_that_are_no_numbers_are_told(void **state)
{
    static content c;
    float *bias = stk_calloc(32, sizeof *bias);
    bias[31] = NAN;
    add_all(&c);
    of(&c, "segformer.encoder.layer_norm.0.bias")->data = bias;
    remarks said;
    stoke_error err;
    assert_int_equal(load(write_content(state, "nan", &c), &said, &err), STOKE_OK);
    assert_string_equal(said.text, "segformer.encoder.layer_norm.0.bias holds values that are not finite\n");
    stk_free(bias);
}

static void write_index(void **state, const char *json)
{
    unit_write(unit_path(state, "model.safetensors.index.json"), json, strlen(json));
}

static void shards_are_put_together(void **state)
{
    static content c;
    add_all(&c);
    drop(&c, "decode_head.");
    write_content(state, "model-00001-of-00002.safetensors", &c);
    add_all(&c);
    drop(&c, "segformer.");
    write_content(state, "model-00002-of-00002.safetensors", &c);
    write_index(state,
                "{\"metadata\":{\"total_size\":1},\"weight_map\":{\"decode_head.linear_fuse.weight\":"
                "\"model-00002-of-00002.safetensors\",\"segformer.x\":\"model-00001-of-00002.safetensors\","
                "\"segformer.y\":\"model-00001-of-00002.safetensors\"}}");
    expect_loaded(unit_folder(state));
    expect_loaded(unit_path(state, "model.safetensors.index.json"));
    /* a tensor in two shards */
    write_content(state, "model-00003.safetensors", &c);
    write_index(
        state,
        "{\"weight_map\":{\"a\":\"model-00002-of-00002.safetensors\",\"b\":\"model-00003.safetensors\","
        "\"c\":\"model-00001-of-00002.safetensors\"}}");
    expect_refused(unit_folder(state), STOKE_E_FORMAT, "in another shard");
    write_index(state, "{\"weight_map\":{\"a\":\"model-00009.safetensors\"}}");
    expect_refused(unit_folder(state), STOKE_E_NOTFOUND, "/model-00009.safetensors: cannot open");
}

static void hostile_indices_are_refused(void **state)
{
    static const char *const names[] = {
        "\"../x.safetensors\"", "\"/etc/passwd\"", "\"a/b\"", "\"..\"",  "\".\"",    "\"\"",
        "\"a\\\\b\"",           "\"\\u002e./x\"",  "1",       "[\"a\"]", "\"a\\nb\""
    };
    char json[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(json, sizeof json, "{\"weight_map\":{\"t\":%s}}", names[i]);
        write_index(state, json);
        expect_refused(unit_folder(state), STOKE_E_FORMAT, "is no plain file name");
    }
    write_index(state, "{\"weight_map\":{}}");
    expect_refused(unit_folder(state), STOKE_E_FORMAT, "no \"weight_map\"");
    write_index(state, "[]");
    expect_refused(unit_folder(state), STOKE_E_FORMAT, "no \"weight_map\"");
    write_index(state, "{\"weight_map\"");
    expect_refused(unit_folder(state), STOKE_E_FORMAT, "index.json: byte 13");
}

static void empty_folders_say_what_is_wanted(void **state)
{
    expect_refused(unit_folder(state), STOKE_E_NOTFOUND, "holds neither model.safetensors nor");
    expect_refused(unit_path(state, "nothing"), STOKE_E_NOTFOUND, "cannot open");
    expect_refused("nowhere/mit-b0", STOKE_E_NOTFOUND, "`hf download nowhere/mit-b0 --local-dir DIR`");
    unit_write(unit_path(state, "config.json"), "{}", 2);
    expect_refused(unit_path(state, "config.json"), STOKE_E_INVALID, "name the folder");
    unit_write(unit_path(state, "pytorch_model.bin"), "x", 1);
    expect_refused(unit_folder(state), STOKE_E_UNSUPPORTED, "a pickle may run code");
}

/* What would be computed differently is refused by the name of its key; what makes no difference is not. */
static void configs_are_compared(void **state)
{
    static const struct {
        const char *json, *told;
        int code;
    } cases[] = {
        { "{\"hidden_act\":\"relu\"}", "config.json: \"hidden_act\" is relu", STOKE_E_UNSUPPORTED },
        { "{\"hidden_act\":1}", "\"hidden_act\" is 1", STOKE_E_UNSUPPORTED },
        { "{\"model_type\":\"bert\"}", "\"model_type\" is bert", STOKE_E_UNSUPPORTED },
        { "{\"num_channels\":1}", "\"num_channels\" is 1: only 3", STOKE_E_UNSUPPORTED },
        { "{\"num_encoder_blocks\":5}", "\"num_encoder_blocks\"", STOKE_E_UNSUPPORTED },
        { "{\"hidden_dropout_prob\":0.1}", "\"hidden_dropout_prob\"", STOKE_E_UNSUPPORTED },
        { "{\"attention_probs_dropout_prob\":0.1}", "\"attention_probs_dropout_prob\"", STOKE_E_UNSUPPORTED },
        { "{\"sr_ratios\":[8,4,2,2]}", "\"sr_ratios\" is [8, 4, 2, 2]: only [8, 4, 2, 1]",
          STOKE_E_UNSUPPORTED },
        { "{\"sr_ratios\":[8,4,2,1,1]}", "\"sr_ratios\"", STOKE_E_UNSUPPORTED },
        { "{\"sr_ratios\":[8,4,2]}", "\"sr_ratios\"", STOKE_E_UNSUPPORTED },
        { "{\"sr_ratios\":{\"a\":8,\"b\":4,\"c\":2,\"d\":1}}", "\"sr_ratios\" is an object",
          STOKE_E_UNSUPPORTED },
        { "{\"sr_ratios\":[]}", "\"sr_ratios\" is an array", STOKE_E_UNSUPPORTED },
        { "{\"sr_ratios\":[8,4,2,[1]]}", "\"sr_ratios\" is [8, 4, 2, ?]", STOKE_E_UNSUPPORTED },
        { "{\"num_channels\":true}", "\"num_channels\" is true: only 3", STOKE_E_UNSUPPORTED },
        { "{\"depths\":[2,2", "config.json: byte 14: the text ends early", STOKE_E_FORMAT },
        { "{\"model_type\":\"segf", "the text ends early, within a string", STOKE_E_FORMAT },
        { "{\"mlp_ratios\":[4,4,4,8]}", "\"mlp_ratios\"", STOKE_E_UNSUPPORTED },
        { "{\"patch_sizes\":[7,3,3,5]}", "\"patch_sizes\"", STOKE_E_UNSUPPORTED },
        { "{\"strides\":[4,2,2,1]}", "\"strides\"", STOKE_E_UNSUPPORTED },
        { "{\"num_attention_heads\":[1,2,4,8]}", "\"num_attention_heads\"", STOKE_E_UNSUPPORTED },
        { "{\"hidden_sizes\":[64,128,320,512]}", "\"hidden_sizes\"", STOKE_E_UNSUPPORTED },
        { "{\"depths\":[2,2,2,3]}", "\"depths\"", STOKE_E_UNSUPPORTED },
        { "{\"decoder_hidden_size\":768}", "\"decoder_hidden_size\"", STOKE_E_UNSUPPORTED },
        { "{\"num_labels\":7}", "7 classes", STOKE_E_FORMAT },
        { "{\"id2label\":{\"0\":\"a\"}}", "1 classes", STOKE_E_FORMAT },
        { "[]", "not a JSON object", STOKE_E_FORMAT },
        { "{\"depths\":[2,2,2,2],\"depths\":[2,2,2,2]}", "stands twice", STOKE_E_FORMAT },
        { "{}", NULL, 0 },
        { "{\"mlp_ratios\":[4.0,4,4,4],\"layer_norm_eps\":1e-12,\"reshape_last_stage\":false,"
          "\"drop_path_rate\":0.5,\"num_labels\":5,\"hidden_act\":null,\"image_size\":224}",
          NULL, 0 },
        { "{\"num_labels\":7,\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\",\"3\":\"d\",\"4\":\"e\"}}",
          NULL, 0 },
    };
    static content c;
    add_all(&c);
    write_content(state, "model.safetensors", &c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_network_config found;
        stoke_error err = { 0 };
        unit_write(unit_path(state, "config.json"), cases[i].json, strlen(cases[i].json));
        const int status = stk_pretrained_config(unit_folder(state), &found, &err);
        if (status != cases[i].code || (cases[i].told && !strstr(err.message, cases[i].told)))
            fail_msg("%s: %d %s", cases[i].json, status, err.message);
        if (status) expect_refused(unit_folder(state), status, cases[i].told);
    }
    static const char ignores[] = "{\"semantic_loss_ignore_index\":0}";
    unit_write(unit_path(state, "config.json"), ignores, sizeof ignores - 1);
    remarks said;
    stoke_error err;
    assert_int_equal(load(unit_folder(state), &said, &err), STOKE_OK);
    assert_int_equal(said.count, 1);
    assert_non_null(strstr(said.text, "config.json ignores label 0"));
}

static size_t files_in(const char *folder)
{
    DIR *d = opendir(folder);
    size_t count = 0;
    for (struct dirent *e; (e = readdir(d));) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

/* A disk that is full after 1 MB (of 15): the weights and config.json that were there stay, and nothing else.
 */
static void full_disks_change_nothing(void **state)
{
    stoke_error err = { 0 };
    const char *folder = unit_path(state, "out");
    assert_int_equal(stk_pretrained_save(folder, &config, &parameters, weights,
                                         &(stk_pretrained_notes){ BATCHES, 48, 80, NULL }, &err),
                     STOKE_OK);
    static const char marked[] = "{\"mark\":1}";
    unit_write(unit_path(state, "out/config.json"), marked, sizeof marked - 1);
    struct rlimit before, less;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = before;
    less.rlim_cur = 1 << 20;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    const int status = stk_pretrained_save(folder, &config, &parameters, loaded,
                                           &(stk_pretrained_notes){ 7, 48, 80, NULL }, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, STOKE_E_IO);
    assert_non_null(strstr(err.message, "model.safetensors: cannot write: "));
    assert_int_equal(files_in(folder), 3);
    struct stat st;
    assert_int_equal(stat(unit_path(state, "out/config.json"), &st), 0);
    assert_int_equal(st.st_size, sizeof marked - 1);
    expect_loaded(folder);
}

static void unwritable_folders_are_told(void **state)
{
    stoke_error err = { 0 };
    unit_write(unit_path(state, "file"), "x", 1);
    assert_int_equal(stk_pretrained_save(unit_path(state, "file/out"), &config, &parameters, weights,
                                         &(stk_pretrained_notes){ 0, 48, 80, NULL }, &err),
                     STOKE_E_IO);
    assert_non_null(strstr(err.message, "cannot make folder"));
    assert_int_equal(mkdir(unit_path(state, "taken"), 0777), 0);
    assert_int_equal(mkdir(unit_path(state, "taken/model.safetensors"), 0777), 0);
    assert_int_equal(stk_pretrained_save(unit_path(state, "taken"), &config, &parameters, weights,
                                         &(stk_pretrained_notes){ 0, 48, 80, NULL }, &err),
                     STOKE_E_IO);
    assert_int_equal(files_in(unit_path(state, "taken")), 1); /* no config.json, no temporary file */
}

static void survives_without_memory(void **state)
{
    const char *folder = unit_path(state, "out");
    remarks said;
    stoke_error err;
    int status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        stk_mem_fail_after(after);
        status = stk_pretrained_save(folder, &config, &parameters, weights,
                                     &(stk_pretrained_notes){ BATCHES, 48, 80, NULL }, &err);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || (status == STOKE_E_NOMEM && after < 50));
        assert_int_equal(after && status ? files_in(folder) : 0, 0);
    }
    status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        stk_mem_fail_after(after);
        status = load(folder, &said, &err);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || (status == STOKE_E_NOMEM && after < 200));
    }
    expect_loaded(folder);
}

UNIT_GROUP(pretrained)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(saved_comes_back),
        unit_test_with_folder(names_of_classes_come_back),
        unit_test_with_folder(new_names_are_read),
        cmocka_unit_test(names_are_told_apart),
        unit_test_with_folder(encoders_get_a_new_head),
        unit_test_with_folder(other_classes_get_a_new_classifier),
        unit_test_with_folder(misfits_are_named),
        unit_test_with_folder(other_models_are_refused),
        unit_test_with_folder(a_larger_model_takes_what_fits),
        unit_test_with_folder(partial_takes_what_is_there),
        unit_test_with_folder(values_that_are_no_numbers_are_told),
        unit_test_with_folder(shards_are_put_together),
        unit_test_with_folder(hostile_indices_are_refused),
        unit_test_with_folder(empty_folders_say_what_is_wanted),
        unit_test_with_folder(configs_are_compared),
        unit_test_with_folder(full_disks_change_nothing),
        unit_test_with_folder(unwritable_folders_are_told),
        unit_test_with_folder(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, make_weights, free_weights);
}
