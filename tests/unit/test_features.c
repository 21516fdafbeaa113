/* SPDX-License-Identifier: Apache-2.0
 *
 * The perceptual loss inside of a network: what it adds to loss and gradient, what it takes, where its
 * tensors lie, and files that hold no frozen network. tests/parity compares it with torch.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <sys/stat.h>

#include "src/base/mem.h"
#include "src/net/features/vgg.h"
#include "src/net/files/pretrained.h"
#include "src/net/net.h"
#include <stoke/tools/net.h>

enum { HEIGHT = 33, WIDTH = 41, BATCH = 2, PICTURE = 3 * HEIGHT * WIDTH, TENSORS = 64 };

/* ---- files ---- */

/* A VGG of a few channels, tensor by tensor, so that a test may change it. */
typedef struct file {
    stk_safetensors_source list[TENSORS];
    char names[TENSORS][64];
    uint32_t shapes[TENSORS][4];
    float *values;
    size_t count;
} file;

enum { VALUES = 1 << 16 };

static void add(file *f, const char *prefix, uint32_t module, const char *leaf, uint32_t dims,
                uint32_t outputs, uint32_t inputs)
{
    const size_t i = f->count++;
    snprintf(f->names[i], sizeof f->names[i], "%s%u.%s", prefix, (unsigned)module, leaf);
    memcpy(f->shapes[i], (uint32_t[]){ outputs, inputs, 3, 3 }, sizeof f->shapes[i]);
    f->list[i] =
        (stk_safetensors_source){ f->names[i], STK_TENSOR_F32, dims, f->shapes[i], f->values + 97 * i };
}

static file *make_vgg(const char *prefix, const uint32_t layers[static 4])
{
    file *f = calloc(1, sizeof *f);
    uint32_t state = 5, module = 0, channels = 3;
    f->values = malloc(VALUES * sizeof *f->values);
    for (size_t i = 0; i < VALUES; i++) {
        state = state * 1664525u + 1013904223u;
        f->values[i] = (float)(state >> 8) / 8388608.0f * 0.4f - 0.4f + 0.02f;
    }
    for (uint32_t block = 0; block < 4; block++, module++)
        for (uint32_t i = 0; i < layers[block]; i++, module += 2) {
            const uint32_t width = 4 + 2 * block;
            add(f, prefix, module, "weight", 4, width, channels);
            add(f, prefix, module, "bias", 1, width, 0);
            channels = width;
        }
    return f;
}

static void free_file(file *f)
{
    free(f->values);
    free(f);
}

static void write_file(const file *f, const char *path)
{
    stk_safetensors_source list[TENSORS];
    memcpy(list, f->list, sizeof list); /* writing sorts it */
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_true(stk_safetensors_write(stream, list, f->count, &(stk_safetensors_note){ "format", "pt" }, 1));
    assert_int_equal(fclose(stream), 0);
}

static const uint32_t VGG16[] = { 2, 2, 3, 3 };

static const char *vgg16(void **state)
{
    const char *path = unit_path(state, "vgg16.safetensors");
    file *f = make_vgg("features.", VGG16);
    write_file(f, path);
    free_file(f);
    return path;
}

/* A b0 as a folder. */
static const char *segformer(void **state)
{
    const char *path = unit_path(state, "b0");
    stoke_net_params p = stoke_net_defaults();
    stoke_error err = { 0 };
    stoke_net *net;
    p.model = "b0", p.classes = 2, p.height = p.width = 32, p.training = 0, p.threads = 1, p.seed = 4;
    assert_int_equal(stoke_net_open(&net, &p, &err), STOKE_OK);
    assert_int_equal(stoke_net_save(net, path, 0, &err), STOKE_OK);
    stoke_net_close(&net);
    return path;
}

/* ---- networks and batches ---- */

static stoke_net_params small(const char *perceptual)
{
    stoke_net_params p = stoke_net_defaults();
    p.model = "resnet";
    p.task = STOKE_TASK_RESTORE;
    p.base_channels = 8;
    p.num_blocks = 1;
    p.batch = BATCH;
    p.height = HEIGHT;
    p.width = WIDTH;
    p.precision = STOKE_PRECISION_FP32;
    p.threads = 1;
    p.loss.kind = STOKE_LOSS_CHARBONNIER;
    p.perceptual = perceptual;
    p.perceptual_weight = 5;
    return p;
}

static float pictures[BATCH * PICTURE], targets[BATCH * PICTURE];

static int make_pictures(void **state)
{
    (void)state;
    uint32_t seed = 3;
    for (size_t i = 0; i < BATCH * PICTURE; i++) {
        seed = seed * 1664525u + 1013904223u;
        pictures[i] = (float)(seed >> 8) / 16777216.0f;
        targets[i] = 0.5f + 0.4f * sinf((float)i * 0.1f);
    }
    return 0;
}

static stoke_net_batch both(void)
{
    return (stoke_net_batch){ .count = BATCH,
                              .images = pictures,
                              .layout = STOKE_LAYOUT_CHW,
                              .image_row_floats = PICTURE,
                              .targets = targets,
                              .target_row_floats = PICTURE };
}

static stoke_net *open_net(const stoke_net_params *p)
{
    stoke_error err = { 0 };
    stoke_net *net;
    if (stoke_net_open(&net, p, &err)) fail_msg("%s", err.message);
    return net;
}

static double evaluate(stoke_net *net)
{
    const stoke_net_batch batch = both();
    stoke_error err = { 0 };
    double loss;
    if (stoke_net_evaluate(net, &batch, &loss, NULL, &err)) fail_msg("%s", err.message);
    return loss;
}

static double backward(stoke_net *net)
{
    const stoke_net_batch batch = both();
    stoke_error err = { 0 };
    double loss;
    if (stoke_net_backward(net, &batch, 1, &loss, &err)) fail_msg("%s", err.message);
    return loss;
}

static double evaluated(const stoke_net_params *p)
{
    stoke_net *net = open_net(p);
    const double loss = evaluate(net);
    stoke_net_close(&net);
    return loss;
}

/* ---- what it adds ---- */

/* The loss is a straight line in the weight, from the pixel loss on, in both kinds of networks. */
static void the_distance_is_added(void **state)
{
    for (int which = 0; which < 2; which++) {
        stoke_net_params p = small(which ? segformer(state) : vgg16(state));
        for (p.training = 0; p.training < 2; p.training++) {
            stoke_net_params without = p;
            without.perceptual = NULL;
            const double pixels = evaluated(&without);
            p.perceptual_weight = 1;
            const double one = evaluated(&p) - pixels;
            p.perceptual_weight = 3;
            const double three = evaluated(&p) - pixels;
            assert_true(one > 0.01 && fabs(three - 3 * one) < 1e-9);
            p.perceptual_weight = 0;
            assert_true(evaluated(&p) == pixels);
        }
        p.perceptual_weight = 3;
        p.training = 1;
        stoke_net *net = open_net(&p);
        const double before = evaluate(net), trained = backward(net);
        assert_true(before == trained && evaluate(net) == trained);
        stoke_net_close(&net);
    }
}

/* Along a direction in which all weights change a little, loss and gradient agree. */
static void the_gradient_is_the_slope(void **state)
{
    for (int which = 0; which < 2; which++) {
        stoke_net_params p = small(which ? segformer(state) : vgg16(state));
        stoke_net *net = open_net(&p);
        stoke_net_tensor t;
        double slope = 0, loss[2];
        backward(net);
        for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++)
            for (size_t k = 0; k < t.count; k++) slope += (double)t.gradients[k] * t.gradients[k];
        const double step = 1e-3 / sqrt(slope);
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++)
                for (size_t k = 0; k < t.count; k++)
                    t.values[k] += (float)((side ? 2 : -1) * step * t.gradients[k]);
            stoke_net_touched(net);
            loss[side] = evaluate(net);
        }
        const double found = (loss[1] - loss[0]) / (2 * step);
        if (!(fabs(found / slope - 1) < 0.01)) fail_msg("%d: %g along a slope of %g", which, found, slope);
        stoke_net_close(&net);
    }
}

/* Its sum over the gradients of a pass; every weight's bits count. */
static uint64_t hash_of(const stoke_net *net)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    stoke_net_tensor t;
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++) {
        const unsigned char *bytes = (const unsigned char *)t.gradients;
        for (size_t k = 0; k < t.count * sizeof(float); k++)
            hash = (hash ^ bytes[k]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void threads_and_memory_change_no_bit(void **state)
{
    for (int which = 0; which < 2; which++) {
        stoke_net_params p = small(which ? segformer(state) : vgg16(state));
        for (p.precision = STOKE_PRECISION_FP32; p.precision <= STOKE_PRECISION_FP16; p.precision++) {
            uint64_t wanted = 0;
            double loss = 0;
            for (p.memory = STOKE_MEMORY_PLAIN; p.memory <= STOKE_MEMORY_MIN; p.memory++)
                for (p.threads = 1; p.threads <= 3; p.threads++) {
                    stoke_net *net = open_net(&p);
                    const double found = backward(net);
                    if (!wanted) wanted = hash_of(net), loss = found;
                    assert_true(found == loss && hash_of(net) == wanted);
                    stoke_net_close(&net);
                }
        }
    }
}

/* A layout of the batch is a layout, no other picture. */
static void layouts_agree(void **state)
{
    static float turned[2][BATCH * PICTURE];
    stoke_net_params p = small(vgg16(state));
    stoke_net *net = open_net(&p);
    stoke_net_batch batch = both();
    double loss;
    for (size_t i = 0; i < BATCH * PICTURE; i++) {
        const size_t at = i / PICTURE * PICTURE, c = i % PICTURE % 3, pixel = i % PICTURE / 3;
        turned[0][i] = pictures[at + c * (PICTURE / 3) + pixel];
        turned[1][i] = targets[at + c * (PICTURE / 3) + pixel];
    }
    const double wanted = evaluate(net);
    batch.layout = STOKE_LAYOUT_HWC;
    batch.images = turned[0];
    batch.targets = turned[1];
    assert_int_equal(stoke_net_evaluate(net, &batch, &loss, NULL, NULL), STOKE_OK);
    assert_true(fabs(loss / wanted - 1) < 1e-6);
    stoke_net_close(&net);
}

/* ---- the tape ---- */

static void run_spoiling(stoke_net *net, stk_tape_span span, const stoke_net_batch *batch)
{
    const stk_tape *tape = &net->tape;
    for (uint32_t i = span.begin; i < span.end; i++) {
        stk_net_execute(net, (stk_tape_span){ i, i + 1 }, batch);
        for (size_t k = STK_TAPE_PICTURES + 1; k < tape->tensor_count; k++)
            if (tape->tensors[k].last == i && !tape->tensors[k].of)
                memset(stk_net_tensor(net, (stk_tape_id)k), 0xff, tape->tensors[k].bytes);
    }
}

/* Memory in which nothing lives is full of NaN. */
static void lives_cover_what_is_touched(void **state)
{
    for (int which = 0; which < 2; which++) {
        stoke_net_params p = small(which ? segformer(state) : vgg16(state));
        for (p.memory = STOKE_MEMORY_PLAIN; p.memory <= STOKE_MEMORY_MIN; p.memory++) {
            const stoke_net_batch batch = both();
            stoke_net *net = open_net(&p);
            const stk_tape *tape = &net->tape;
            backward(net);
            const uint64_t wanted = hash_of(net);
            const stk_pixel_shape shape = stk_net_pixel_shape(net, BATCH);
            const stk_pixel_target target = { targets, PICTURE, 1 };
            double loss;
            net->run.accumulate = 0;
            memset(net->maps, 0xff, tape->bytes);
            run_spoiling(net, tape->forward, &batch);
            stk_pixel_loss(&net->run, p.loss.kind, &shape, stk_net_logits(net), &target, 1, &loss,
                           stk_net_tensor(net, tape->d_logits));
            run_spoiling(net, tape->loss, &batch);
            run_spoiling(net, tape->backward, &batch);
            assert_true(hash_of(net) == wanted);
            stoke_net_close(&net);
        }
    }
}

/* Who evaluates finds the restored pictures where they were. */
static void evaluation_leaves_the_pictures(void **state)
{
    stoke_net_params p = small(vgg16(state));
    for (p.training = 0; p.training < 2; p.training++) {
        const stoke_net_batch batch = both();
        stoke_net *net = open_net(&p);
        stoke_logits logits;
        assert_int_equal(stoke_net_forward(net, &batch, &logits, NULL), STOKE_OK);
        const size_t bytes = BATCH * PICTURE / 3 * logits.stride * sizeof(float);
        float *copy = malloc(bytes);
        memcpy(copy, logits.data, bytes);
        evaluate(net);
        assert_memory_equal(copy, logits.data, bytes);
        free(copy);
        stoke_net_close(&net);
    }
}

static void the_plan_counts_it(void **state)
{
    stoke_net_params p = small(vgg16(state)), without = p;
    stoke_net_plan plain, lean, none;
    without.perceptual = NULL;
    assert_int_equal(stoke_net_plan_of(&p, &plain, NULL), STOKE_OK);
    assert_int_equal(stoke_net_plan_of(&without, &none, NULL), STOKE_OK);
    p.memory = STOKE_MEMORY_LEAN;
    assert_int_equal(stoke_net_plan_of(&p, &lean, NULL), STOKE_OK);
    assert_string_equal(plain.features, "VGG16");
    assert_null(none.features);
    assert_true(plain.parameters > none.parameters && plain.packed > none.packed);
    assert_true(plain.workspace > none.workspace && lean.workspace < plain.workspace);
    assert_true(plain.parameter_count == none.parameter_count && plain.forward_flops == none.forward_flops);
    /* Two passes forward and one back, all of 9 taps; the first block has 3 to 4 and 4 to 4 channels. */
    assert_true(plain.step_flops - none.step_flops > 3 * 2.0 * 9 * (3 * 4 + 4 * 4) * BATCH * HEIGHT * WIDTH);
    p.memory = STOKE_MEMORY_PLAIN;
    stoke_net_tape *tape;
    assert_int_equal(stoke_net_tape_of(&p, &tape, NULL), STOKE_OK);
    size_t named = 0;
    for (size_t i = 0; i < tape->n_ops; i++)
        named += !strcmp(tape->ops[i].layer, "features.21") && !strcmp(tape->ops[i].phase, "loss");
    assert_int_equal(named, 3);
    stoke_net_tape_destroy(&tape);
}

/* The frozen network is wider than the one that is trained, but has no gradients of weights to sum. */
static void frozen_weights_have_no_room_for_sums(void **state)
{
    stoke_net_params p = small(vgg16(state));
    p.base_channels = 1;
    stoke_net *with = open_net(&p);
    p.perceptual = NULL;
    stoke_net *without = open_net(&p);
    assert_int_equal(with->run.partial_floats, without->run.partial_floats);
    stoke_net_close(&with);
    stoke_net_close(&without);
}

static void its_time_has_parts(void **state)
{
    stoke_net_params p = small(vgg16(state));
    stoke_net *net = open_net(&p);
    stoke_net_part parts[32];
    backward(net);
    int found = 0;
    const size_t count = stoke_net_parts(net, parts, 32);
    for (size_t i = 0; i < count; i++)
        found += !strcmp(parts[i].name, "features forward") || !strcmp(parts[i].name, "features backward");
    assert_int_equal(found, 2);
    stoke_net_close(&net);
}

/* ---- what is refused ---- */

static void expect_refused(const stoke_net_params *p, int code, const char *told)
{
    stoke_error err = { 0 };
    stoke_net *net;
    assert_int_equal(stoke_net_open(&net, p, &err), code);
    assert_null(net);
    if (!strstr(err.message, told)) fail_msg("not \"%s\" but \"%s\"", told, err.message);
}

static void expect_file_refused(void **state, const file *f, int code, const char *told)
{
    const char *path = unit_path(state, "odd");
    write_file(f, path);
    const stoke_net_params p = small(path);
    expect_refused(&p, code, told);
}

static void drop(file *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (!strcmp(f->list[i].name, name)) {
            memmove(&f->list[i], &f->list[i + 1], (--f->count - i) * sizeof *f->list);
            return;
        }
    fail_msg("no %s", name);
}

static stk_safetensors_source *of(file *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (!strcmp(f->list[i].name, name)) return &f->list[i];
    fail_msg("no %s", name);
    return NULL;
}

static void files_with_gaps(void **state)
{
    static const struct {
        const char *dropped;
        const char *told;
    } cases[] = { { "features.0.weight", "features.0.weight is missing" },
                  { "features.5.weight", "features.2 is followed by features.7" },
                  { "features.12.weight", "features.10 is followed by features.14" },
                  { "features.0.bias", "features.0.bias is missing" },
                  { "features.21.bias", "features.21.bias is missing" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file *f = make_vgg("features.", VGG16);
        drop(f, cases[i].dropped);
        expect_file_refused(state, f, STOKE_E_FORMAT, cases[i].told);
        free_file(f);
    }
}

static void files_of_wrong_shapes(void **state)
{
    file *f = make_vgg("features.", VGG16);
    of(f, "features.5.weight")->shape = (const uint32_t[]){ 6, 5, 3, 3 };
    expect_file_refused(state, f, STOKE_E_FORMAT,
                        "features.5.weight takes 5 channels, but what comes before");
    of(f, "features.5.weight")->shape = (const uint32_t[]){ 6, 4, 3, 1 };
    expect_file_refused(state, f, STOKE_E_FORMAT, "has the shape [6, 4, 3, 1]");
    of(f, "features.5.weight")->shape = (const uint32_t[]){ 0, UINT32_MAX, 3, 3 };
    expect_file_refused(state, f, STOKE_E_FORMAT, "has the shape [0, 4294967295, 3, 3]");
    of(f, "features.5.weight")->shape = (const uint32_t[]){ 6, 4, 3, 3 };
    of(f, "features.5.bias")->shape = (const uint32_t[]){ 7 };
    expect_file_refused(state, f, STOKE_E_FORMAT, "features.5.bias has the shape [7], not [6]");
    of(f, "features.5.bias")->shape = (const uint32_t[]){ 6 };
    f->list[f->count] = *of(f, "features.7.bias");
    f->list[f->count++].name = "7.bias";
    expect_file_refused(state, f, STOKE_E_FORMAT, "features.7.bias stands there twice");
    f->count--;
    f->values[97] = NAN; /* of the second tensor, features.0.bias, and of its neighbours */
    expect_file_refused(state, f, STOKE_E_FORMAT, "holds values that are not finite");
    free_file(f);
}

static void other_networks_are_refused(void **state)
{
    file *f = make_vgg("features.", VGG16);
    f->list[f->count] = *of(f, "features.0.bias");
    f->list[f->count++].name = "features.1.running_mean";
    expect_file_refused(state, f, STOKE_E_UNSUPPORTED, "a VGG with batch norm is not computed here");
    free_file(f);
    f = make_vgg("layers.", VGG16);
    expect_file_refused(state, f, STOKE_E_FORMAT, "holds neither the convolutions of a VGG");
    free_file(f);
    stoke_net_params p = small(unit_path(state, "vgg16-397923af.pth"));
    expect_refused(&p, STOKE_E_UNSUPPORTED, "a pickle may run code and is not read");
    p.perceptual = unit_path(state, "nothing");
    expect_refused(&p, STOKE_E_NOTFOUND, "nothing");
    unit_write(unit_path(state, "text"), "what is no safetensors file", 27);
    p.perceptual = unit_path(state, "text");
    expect_refused(&p, STOKE_E_FORMAT, "not a safetensors file");
}

/* Tensors of both networks, so that either may be believed. */
static void a_config_of_another_network_is_refused(void **state)
{
    static const char *const names[] = { "segformer.encoder.patch_embeddings.0.proj.weight", "head.weight",
                                         "body.0.conv1.weight", "tail.weight" };
    static const char config[] = "{\"model_type\": \"stokehold-resnet\"}";
    const char *folder = unit_path(state, "both");
    char *path = stk_pretrained_path(folder, "model.safetensors");
    file *f = make_vgg("features.", VGG16);
    f->count = sizeof names / sizeof *names;
    for (size_t i = 0; i < f->count; i++) {
        memcpy(f->shapes[i], (uint32_t[]){ 4, 3, 3, 3 }, sizeof f->shapes[i]);
        f->list[i] = (stk_safetensors_source){ names[i], STK_TENSOR_F32, 4, f->shapes[i], f->values };
    }
    assert_int_equal(mkdir(folder, 0777), 0);
    write_file(f, path);
    stk_free(path);
    path = stk_pretrained_path(folder, "config.json");
    unit_write(path, config, sizeof config - 1);
    const stoke_net_params p = small(folder);
    expect_refused(&p, STOKE_E_FORMAT, "config.json is that of a residual network");
    stk_free(path);
    free_file(f);
}

static void settings_are_checked(void **state)
{
    stoke_net_params p = small(vgg16(state));
    p.height = 7;
    expect_refused(&p, STOKE_E_INVALID, "has features of 8 x 8 and larger");
    p.scale = 2; /* the output counts */
    stoke_net *net = open_net(&p);
    stoke_net_close(&net);
    p.training = 0;
    net = open_net(&p);
    stoke_error err = { 0 };
    assert_int_equal(stoke_net_resize(net, 3, WIDTH, &err), STOKE_E_INVALID);
    assert_non_null(strstr(err.message, "has features of 8 x 8 and larger"));
    const stoke_net_batch batch = both();
    stoke_logits logits;
    assert_int_equal(stoke_net_forward(net, &batch, &logits, NULL), STOKE_OK);
    assert_int_equal(logits.height, 14);
    stoke_net_close(&net);
    p = small(segformer(state));
    p.width = 28;
    expect_refused(&p, STOKE_E_INVALID, "has features of 29 x 29 and larger");
    p = small(vgg16(state));
    p.perceptual_weight = NAN;
    expect_refused(&p, STOKE_E_INVALID, "perceptual_weight is nan");
    p.perceptual_weight = -1;
    expect_refused(&p, STOKE_E_INVALID, "perceptual_weight is -1");
    p = small(vgg16(state));
    p.task = STOKE_TASK_SEGMENT;
    p.classes = 3;
    p.loss.kind = STOKE_LOSS_CE;
    expect_refused(&p, STOKE_E_INVALID, "it is for the task restore");
}

/* What torchvision calls things, and what its module `features` does; a network may end early. */
static void names_and_depths(void **state)
{
    static const struct {
        uint32_t layers[4];
        const char *title;
    } cases[] = { { { 1, 1, 2, 2 }, "VGG11" },
                  { { 2, 2, 2, 2 }, "VGG13" },
                  { { 2, 2, 4, 4 }, "VGG19" },
                  { { 2, 2, 0, 0 }, "VGG" } };
    double losses[2] = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int prefix = 0; prefix < 2; prefix++) {
            const char *path = unit_path(state, "vgg");
            file *f = make_vgg(prefix ? "features." : "", cases[i].layers);
            write_file(f, path);
            const stoke_net_params p = small(path);
            stoke_net *net = open_net(&p);
            assert_string_equal(stoke_net_plan_used(net)->features, cases[i].title);
            losses[prefix] = evaluate(net);
            stoke_net_close(&net);
            free_file(f);
            if (prefix) assert_true(losses[0] == losses[1]);
        }
}

static void survives_without_memory(void **state)
{
    const stoke_net_params p = small(vgg16(state));
    int status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        stoke_net *net;
        stoke_error err = { 0 };
        stk_mem_fail_after(after);
        status = stoke_net_open(&net, &p, &err);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || (status == STOKE_E_NOMEM && !net && after < 200));
        stoke_net_close(&net);
    }
}

UNIT_GROUP(features)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(the_distance_is_added),
        unit_test_with_folder(the_gradient_is_the_slope),
        unit_test_with_folder(layouts_agree),
        unit_test_with_folder(threads_and_memory_change_no_bit),
        unit_test_with_folder(lives_cover_what_is_touched),
        unit_test_with_folder(evaluation_leaves_the_pictures),
        unit_test_with_folder(the_plan_counts_it),
        unit_test_with_folder(frozen_weights_have_no_room_for_sums),
        unit_test_with_folder(its_time_has_parts),
        unit_test_with_folder(files_with_gaps),
        unit_test_with_folder(files_of_wrong_shapes),
        unit_test_with_folder(other_networks_are_refused),
        unit_test_with_folder(a_config_of_another_network_is_refused),
        unit_test_with_folder(settings_are_checked),
        unit_test_with_folder(names_and_depths),
        unit_test_with_folder(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, make_pictures, NULL);
}
