/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a run: what comes back is equal bit for bit and goes on equally; every kind of damage is
 * refused before the network is touched.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <xxhash.h>
#include <stoke/tools/net.h>

#include "src/base/mem.h"
#include "src/net/files/safetensors.h"
#include "src/train/checkpoint.h"

enum { SIZE = 32, BATCH = 2, CLASSES = 3 };
static const char IDENTITY[] = "model=b0\nlr=0.001\nnames=\"sky\", \\ r\xc3\xb6"
                               "ad\n";

static stoke_net *open_net(stoke_net_params params)
{
    stoke_net *net;
    stoke_error err;
    params.model = params.model ? params.model : "b0";
    params.classes = params.classes ? params.classes : CLASSES;
    params.batch = BATCH;
    params.height = params.width = SIZE;
    params.threads = 1;
    if (stoke_net_open(&net, &params, &err)) fail_msg("%s", err.message);
    return net;
}

/* Small to write, quick to read: only the head is trained. */
static stoke_net_params light(uint64_t seed)
{
    stoke_net_params params = stoke_net_defaults();
    params.precision = STOKE_PRECISION_FP32;
    params.freeze_encoder = 1;
    params.optimizer = STOKE_OPTIMIZER_SGD;
    params.seed = seed;
    return params;
}

static stoke_net_params heavy(uint64_t seed, int precision)
{
    stoke_net_params params = stoke_net_defaults();
    params.precision = precision;
    params.average = 1;
    params.seed = seed;
    return params;
}

static void train(stoke_net *net, int steps)
{
    static float images[BATCH * 3 * SIZE * SIZE];
    static uint8_t masks[BATCH * SIZE * SIZE];
    const stoke_net_batch batch = { .count = BATCH,
                                    .images = images,
                                    .layout = STOKE_LAYOUT_CHW,
                                    .image_row_floats = 3 * SIZE * SIZE,
                                    .masks = masks,
                                    .mask_dtype = STOKE_DTYPE_U8,
                                    .mask_row_bytes = SIZE * SIZE };
    stoke_update update = stoke_update_defaults();
    update.lr = 1e-3;
    update.average_decay = 0.9;
    for (int s = 0; s < steps; s++) {
        stoke_net_state state;
        stoke_net_state_get(net, &state);
        for (int i = 0; i < BATCH * SIZE * SIZE; i++) {
            const int x = i % SIZE + (int)state.draws;
            masks[i] = (uint8_t)(x / 7 % CLASSES);
            for (int c = 0; c < 3; c++) images[3 * i + c] = (float)((x * (c + 3)) % 11) / 5 - 1;
        }
        assert_int_equal(stoke_net_backward(net, &batch, 1, NULL, NULL), STOKE_OK);
        assert_int_equal(stoke_net_step(net, &update, NULL, NULL), STOKE_OK);
    }
}

static void expect_equal(const stoke_net *a, const stoke_net *b)
{
    size_t p, q;
    stk_net_array *one = stk_net_arrays(a, &p), *other = stk_net_arrays(b, &q);
    assert_int_equal(p, q);
    for (size_t i = 0; i < p; i++) {
        assert_string_equal(one[i].name, other[i].name);
        if (memcmp(one[i].floats, other[i].floats, one[i].count * sizeof(float)))
            fail_msg("%s differs", one[i].name);
    }
    stk_free(one);
    stk_free(other);
    stoke_net_state first, second;
    stoke_net_state_get(a, &first);
    stoke_net_state_get(b, &second);
    assert_memory_equal(&first, &second, sizeof first);
}

static stk_checkpoint_progress some_progress(void)
{
    stk_checkpoint_progress p = { .step = 7,
                                  .epoch = 1,
                                  .batch = 3,
                                  .loader = "{\"version\":1,\"seed\":0,\"order\":\"shuffle\"}",
                                  .epoch_loss = 0.1 + 0.2,
                                  .epoch_steps = 3,
                                  .images = 14,
                                  .best = NAN,
                                  .best_step = 5,
                                  .best_scores = { .miou = 1.0 / 3,
                                                   .f1_macro = 2.0 / 3,
                                                   .f1_micro = 0.5,
                                                   .precision = 1e-300,
                                                   .recall = 0x1p-1074,
                                                   .pixel_accuracy = NAN,
                                                   .classes_counted = 12,
                                                   .pixels = 1u << 30 },
                                  .evaluations = 2,
                                  .without_gain = 1,
                                  .evaluated = 6,
                                  .skipped_in_a_row = 2,
                                  .seconds = 12.345678901234567,
                                  .data_seconds = -0.0,
                                  .eval_seconds = INFINITY,
                                  .save_seconds = -INFINITY,
                                  .cpu = "avx2" };
    return p;
}

/* Bit for bit, but for NaN, of which there is one. */
static void expect_progress(const stk_checkpoint_progress *got, const stk_checkpoint_progress *wanted)
{
    stk_checkpoint_progress a = *got, b = *wanted;
    assert_int_equal(isnan(a.best), isnan(b.best));
    assert_int_equal(isnan(a.best_scores.pixel_accuracy), isnan(b.best_scores.pixel_accuracy));
    if (isnan(b.best)) a.best = b.best = 0;
    if (isnan(b.best_scores.pixel_accuracy)) a.best_scores.pixel_accuracy = b.best_scores.pixel_accuracy = 0;
    assert_string_equal(a.loader, b.loader);
    assert_string_equal(a.cpu, b.cpu);
    memset(a.loader, 0, sizeof a.loader), memset(b.loader, 0, sizeof b.loader);
    memset(a.cpu, 0, sizeof a.cpu), memset(b.cpu, 0, sizeof b.cpu);
    a.best_scores.pixels += a.best_scores.classes_counted, a.best_scores.classes_counted = 0;
    b.best_scores.pixels += b.best_scores.classes_counted, b.best_scores.classes_counted = 0;
    const uint8_t *x = (const uint8_t *)&a, *y = (const uint8_t *)&b;
    const size_t padding = offsetof(stk_checkpoint_progress, best_scores.classes_counted) + 4;
    for (size_t i = 0; i < sizeof a; i++)
        if (x[i] != y[i] && (i < padding || i >= padding + 4))
            fail_msg("byte %zu of stk_checkpoint_progress differs", i);
}

static void save(const char *path, const stoke_net *net, const stk_checkpoint_progress *progress)
{
    stoke_error err;
    if (stk_checkpoint_save(path, net, progress, IDENTITY, &err)) fail_msg("%s", err.message);
}

/* ---- what comes back ---- */

static void goes_on_as_if_nothing_had_been(void **state, stoke_net_params (*make)(uint64_t, int),
                                           int precision)
{
    const char *path = unit_path(state, "state.safetensors");
    stoke_net *trained = open_net(make(3, precision)), *other = open_net(make(4, precision));
    const stk_checkpoint_progress progress = some_progress();
    train(trained, 3);
    train(other, 1); /* what is loaded replaces everything */
    save(path, trained, &progress);
    stk_checkpoint_progress got;
    char *identity;
    stoke_error err;
    if (stk_checkpoint_load(path, other, &got, &identity, &err)) fail_msg("%s", err.message);
    expect_equal(trained, other);
    expect_progress(&got, &progress);
    assert_string_equal(identity, IDENTITY);
    stk_free(identity);
    stoke_net_close(&other);
    stoke_net_params params = make(3, precision); /* the seed keys dropout */
    other = open_net(params);
    assert_int_equal(stk_checkpoint_load(path, other, &got, &identity, &err), STOKE_OK);
    stk_free(identity);
    train(trained, 2);
    train(other, 2);
    expect_equal(trained, other);
    stoke_net_close(&trained);
    stoke_net_close(&other);
}

static stoke_net_params plain_sgd(uint64_t seed, int precision)
{
    stoke_net_params params = heavy(seed, precision);
    params.optimizer = STOKE_OPTIMIZER_SGD;
    params.average = 0;
    return params;
}

static stoke_net_params frozen(uint64_t seed, int precision)
{
    stoke_net_params params = heavy(seed, precision);
    params.freeze_encoder = 1;
    return params;
}

static void fp32_comes_back(void **state)
{
    goes_on_as_if_nothing_had_been(state, heavy, STOKE_PRECISION_FP32);
}

static void bf16_comes_back(void **state)
{
    goes_on_as_if_nothing_had_been(state, heavy, STOKE_PRECISION_BF16);
}

static void fp16_comes_back(void **state)
{
    goes_on_as_if_nothing_had_been(state, heavy, STOKE_PRECISION_FP16);
}

static void sgd_comes_back(void **state)
{
    goes_on_as_if_nothing_had_been(state, plain_sgd, STOKE_PRECISION_FP32);
}

static void frozen_comes_back(void **state)
{
    goes_on_as_if_nothing_had_been(state, frozen, STOKE_PRECISION_FP32);
}

/* Bits that no training makes: NaN with a payload, infinities, subnormals, -0. */
static void odd_floats_come_back(void **state)
{
    const uint32_t odd[] = { 0x7fc12345, 0xffc00001, 0x7f800000, 0xff800000, 0x00000001, 0x80000000 };
    const char *path = unit_path(state, "state.safetensors");
    stoke_net *net = open_net(light(1)), *other = open_net(light(2));
    size_t count;
    stk_net_array *list = stk_net_arrays(net, &count);
    for (size_t i = 0; i < count; i++) memcpy(list[i].floats + list[i].count - 3, odd + 3 * (i % 2), 12);
    stk_free(list);
    const stk_checkpoint_progress progress = { .best = NAN };
    save(path, net, &progress);
    stk_checkpoint_progress got;
    char *identity;
    assert_int_equal(stk_checkpoint_load(path, other, &got, &identity, NULL), STOKE_OK);
    stk_free(identity);
    expect_equal(net, other);
    expect_progress(&got, &progress);
    stoke_net_close(&net);
    stoke_net_close(&other);
}

static void counters_come_back(void **state)
{
    (void)state;
    const double reals[] = { 0,         -0.0,     0.1,      1.0 / 3, 0x1.fffffffffffffp+1023,
                             0x1p-1074, -1e-7,    123456.,  1e22,    1e23,
                             NAN,       INFINITY, -INFINITY };
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        stk_checkpoint_info info = { .progress = some_progress(),
                                     .net = { UINT64_MAX, 2, 3, 65536, 4 },
                                     .data_hash = "0123456789abcdef",
                                     .identity = (char *)IDENTITY },
                            got;
        info.progress.step = UINT64_MAX;
        info.progress.epoch_loss = reals[i];
        info.progress.best_scores.classes_counted = UINT32_MAX;
        memset(info.progress.loader, '"', sizeof info.progress.loader - 1); /* as long as it can be */
        char *text;
        stoke_error err;
        if (stk_checkpoint_info_text(&info, &text, &err)) fail_msg("%s", err.message);
        if (stk_checkpoint_info_read(&got, text, strlen(text), &err)) fail_msg("%s", err.message);
        stk_free(text);
        const double loss = got.progress.epoch_loss;
        if (isnan(reals[i]))
            assert_true(isnan(loss));
        else
            assert_memory_equal(&loss, &reals[i], sizeof loss);
        got.progress.epoch_loss = info.progress.epoch_loss = 0;
        expect_progress(&got.progress, &info.progress);
        assert_memory_equal(&got.net, &info.net, sizeof info.net);
        assert_string_equal(got.data_hash, info.data_hash);
        assert_string_equal(got.identity, IDENTITY);
        stk_free(got.identity);
    }
}

static void peek_needs_no_network(void **state)
{
    const char *path = unit_path(state, "state.safetensors");
    stoke_net *net = open_net(light(1));
    const stk_checkpoint_progress progress = some_progress();
    stk_checkpoint_progress got;
    char *identity;
    stoke_error err;
    save(path, net, &progress);
    assert_int_equal(stk_checkpoint_load(path, NULL, &got, &identity, &err), STOKE_OK);
    expect_progress(&got, &progress);
    assert_string_equal(identity, IDENTITY);
    stk_free(identity);
    assert_int_equal(stk_checkpoint_load(unit_path(state, "none"), NULL, &got, &identity, &err),
                     STOKE_E_NOTFOUND);
    /* weights are no state */
    assert_int_equal(stoke_net_save(net, unit_folder(state), 0, &err), STOKE_OK);
    assert_int_equal(stk_checkpoint_load(unit_path(state, "model.safetensors"), NULL, &got, &identity, &err),
                     STOKE_E_FORMAT);
    assert_non_null(strstr(err.message, "model.safetensors: not the state of a run"));
    assert_non_null(strstr(err.message, "--pretrained"));
    stoke_net_close(&net);
}

/* ---- what is refused ---- */

/* A state in a file, its header in memory, and a network it would fit. */
typedef struct target {
    const char *path;
    stoke_net *net;
    uint64_t before; /* hash of all it held */
    char *header;
    size_t length;
    off_t size;
} target;

static uint64_t hash_of(const stoke_net *net)
{
    size_t count;
    stk_net_array *list = stk_net_arrays(net, &count);
    stoke_net_state counters;
    stoke_net_state_get(net, &counters);
    uint64_t hash = XXH3_64bits(&counters, sizeof counters);
    for (size_t i = 0; i < count; i++)
        hash = XXH3_64bits_withSeed(list[i].floats, list[i].count * sizeof(float), hash);
    stk_free(list);
    return hash;
}

static target make_target(void **state)
{
    target t = { .path = unit_path(state, "state.safetensors") };
    stoke_net *net = open_net(light(1));
    const stk_checkpoint_progress progress = some_progress();
    train(net, 1);
    save(t.path, net, &progress);
    stoke_net_close(&net);
    t.net = open_net(light(2));
    t.before = hash_of(t.net);
    uint64_t length;
    struct stat st;
    FILE *f = fopen(t.path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(&length, 1, 8, f), 8);
    t.length = (size_t)length;
    t.header = calloc(1, t.length + 1);
    assert_int_equal(fread(t.header, 1, t.length, f), t.length);
    fclose(f);
    assert_int_equal(stat(t.path, &st), 0);
    t.size = st.st_size;
    return t;
}

static void drop_target(target *t)
{
    stoke_net_close(&t->net);
    free(t->header);
}

static void put_bytes(const target *t, size_t at, const void *bytes, size_t size)
{
    FILE *f = fopen(t->path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void expect_refused(const target *t, const char *told)
{
    stk_checkpoint_progress progress;
    char *identity;
    stoke_error err = { 0 };
    const int status = stk_checkpoint_load(t->path, t->net, &progress, &identity, &err);
    if (!status) fail_msg("not refused: %s", told);
    if (!strstr(err.message, told) || !strstr(err.message, "state.safetensors: "))
        fail_msg("'%s' is not in: %s", told, err.message);
}

static void expect_untouched(const target *t)
{
    assert_true(hash_of(t->net) == t->before);
}

static void flipped_bits_in_the_header(void **state)
{
    target t = make_target(state);
    const size_t step = UNIT_SANITIZED ? 997 : 97;
    for (size_t i = 0; i < t.length; i += i < 2500 ? 3 + 8 * UNIT_SANITIZED : step) {
        const char flipped = t.header[i] ^ 1;
        put_bytes(&t, 8 + i, &flipped, 1);
        expect_refused(&t, "");
        put_bytes(&t, 8 + i, &t.header[i], 1);
    }
    expect_untouched(&t);
    char *identity;
    stk_checkpoint_progress progress;
    assert_int_equal(stk_checkpoint_load(t.path, t.net, &progress, &identity, NULL), STOKE_OK);
    stk_free(identity);
    drop_target(&t);
}

static void flipped_bits_in_the_data(void **state)
{
    target t = make_target(state);
    const off_t data = 8 + (off_t)t.length, places[] = { data, (data + t.size) / 2, t.size - 1 };
    for (int i = 0; i < 3; i++) {
        FILE *f = fopen(t.path, "rb");
        assert_int_equal(fseek(f, (long)places[i], SEEK_SET), 0);
        const char byte = (char)fgetc(f), flipped = byte ^ 0x10;
        fclose(f);
        put_bytes(&t, (size_t)places[i], &flipped, 1);
        expect_refused(&t, "damaged: the checksum of its arrays is");
        put_bytes(&t, (size_t)places[i], &byte, 1);
    }
    expect_untouched(&t);
    drop_target(&t);
}

static void cut_and_lengthened_files(void **state)
{
    target t = make_target(state);
    const off_t data = 8 + (off_t)t.length,
                sizes[] = { t.size + 1, t.size - 1, t.size - 4, (data + t.size) / 2,
                            data + 1,   data,       data - 1,   data / 2,
                            9,          8,          7,          0 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(truncate(t.path, sizes[i]), 0);
        expect_refused(&t, "");
    }
    expect_untouched(&t);
    drop_target(&t);
}

/* Writes `to` over `from` in the header, where it stands first behind `after`; equally long. */
static void replace(const target *t, const char *after, const char *from, const char *to)
{
    const char *begin = strstr(t->header, after), *found = begin ? strstr(begin, from) : NULL;
    assert_non_null(found);
    assert_int_equal(strlen(from), strlen(to));
    put_bytes(t, 8 + (size_t)(found - t->header), to, strlen(to));
}

static void restore_header(const target *t)
{
    put_bytes(t, 8, t->header, t->length);
}

static void tensors_that_do_not_fit(void **state)
{
    target t = make_target(state);
    static const struct {
        const char *after, *from, *to, *told;
    } cases[] = {
        { "values.decode_head.classifier.weight", "[3,256,1,1]", "[256,3,1,1]",
          "values.decode_head.classifier.weight is of shape 256x3x1x1 there and 3x256x1x1 in this run" },
        { "values.decode_head.classifier.weight", "[3,256,1,1]", "[0768,1,1]]", "" },
        { "values.decode_head.classifier.weight", "[3,256,1,1]", "[3,2,128,1]", "is of shape 3x2x128x1" },
        { "values.decode_head.classifier.weight", "F32", "I32", "has dtype I32, not F32" },
        { "values.decode_head.classifier.bias", "values.", "valuer.",
          "lacks values.decode_head.classifier.bias" },
        { "moment1.decode_head.classifier.bias", "moment1.", "moment3.",
          "lacks moment1.decode_head.classifier.bias, which this run has: the two differ in --optimizer" },
        { "moment1.decode_head.classifier.bias", "moment1.", "average.", "lacks moment1." },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        replace(&t, cases[i].after, cases[i].from, cases[i].to);
        expect_refused(&t, cases[i].told);
        restore_header(&t);
    }
    /* two arrays of one shape that changed places: only the checksum can tell */
    replace(&t, "values.segformer.encoder.block.0.0.attention.self.query.weight", "self.query", "self.value");
    replace(&t, "values.segformer.encoder.block.0.0.attention.self.value.weight", "self.value", "self.query");
    expect_refused(&t, "damaged: the checksum of its arrays is");
    expect_untouched(&t);
    drop_target(&t);
}

static void metadata_that_is_none(void **state)
{
    target t = make_target(state);
    replace(&t, "stoke_state\"", "stoke_state\"", "stoke_stats\"");
    expect_refused(&t, "not the state of a run: there is no stoke_state in its metadata");
    restore_header(&t);
    replace(&t, "stoke_state_xxh3\"", "stoke_state_xxh3\"", "stoke_state_xxh4\"");
    expect_refused(&t, "not the state of a run: there is no stoke_state_xxh3 in");
    restore_header(&t);
    replace(&t, "stoke_state\"", "\\\"step\\\": 7", "\\\"step\\\": 8");
    expect_refused(&t, "damaged: the checksum of its counters is");
    assert_int_equal(truncate(t.path, t.size), 0);
    expect_untouched(&t);
    drop_target(&t);
}

/* A file that is whole, of a run with other settings. */
static void other_settings(void **state)
{
    stoke_net_params adamw = light(1), average = light(1), thawed = light(1), classes = light(1),
                     model = light(1);
    adamw.optimizer = STOKE_OPTIMIZER_ADAMW;
    average.average = 1;
    thawed.freeze_encoder = 0;
    classes.classes = CLASSES + 1;
    model.model = "b1";
    const struct {
        const stoke_net_params *params;
        const char *told, *told_back;
    } cases[] = {
        { &adamw, "holds moment2.decode_head", "lacks moment2.decode_head" },
        { &average, "holds average.", "lacks average." },
        { &thawed, "--freeze-encoder", "--freeze-encoder" },
        { &classes, "another number of classes", "another number of classes" },
        { &model, NULL, "another --model" },
    };
    target t = make_target(state);
    const stk_checkpoint_progress progress = some_progress();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        target other = { .path = t.path, .net = open_net(*cases[i].params) };
        save(t.path, t.net, &progress);
        expect_refused(&other, cases[i].told_back);
        if (cases[i].told) {
            save(t.path, other.net, &progress);
            expect_refused(&t, cases[i].told);
            expect_refused(&t, "config.yaml");
        }
        stoke_net_close(&other.net);
    }
    expect_untouched(&t);
    drop_target(&t);
}

/* A text with the right checksum may still be anyone's. */
static void counters_that_lie(void **state)
{
    (void)state;
    stk_checkpoint_info info = { .progress = some_progress(),
                                 .net = { 7, 2, 3, 1, 4 },
                                 .data_hash = "0123456789abcdef",
                                 .identity = (char *)"" },
                        got;
    stoke_error err;
    char *text;
    assert_int_equal(stk_checkpoint_info_text(&info, &text, &err), STOKE_OK);
    stk_json json;
    assert_int_equal(stk_json_read(&json, text, strlen(text), 1000, &err), STOKE_OK);
    char *changed = malloc(strlen(text) + 64);
    for (const stk_json_value *v = stk_json_first(&json, json.values); v; v = stk_json_next(&json, v)) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\": ", stk_json_key(&json, v));
        const char *at = strstr(text, key);
        assert_non_null(at);
        const int head = (int)(at - text);
        /* another name; a value of the wrong kind; one that is there twice; one that nobody knows */
        sprintf(changed, "%.*s\"x%s", head, text, at + 1);
        assert_int_equal(stk_checkpoint_info_read(&got, changed, strlen(changed), &err), STOKE_E_FORMAT);
        sprintf(changed, "%.*s%s{}, \"y%s", head, text, key, at + 1);
        assert_int_equal(stk_checkpoint_info_read(&got, changed, strlen(changed), &err), STOKE_E_FORMAT);
        sprintf(changed, "%.*s%s1, %s", head, text, key, at);
        assert_int_equal(stk_checkpoint_info_read(&got, changed, strlen(changed), &err), STOKE_E_FORMAT);
        sprintf(changed, "%.*s\"extra\": 1, %s", head, text, at);
        assert_int_equal(stk_checkpoint_info_read(&got, changed, strlen(changed), &err), STOKE_E_FORMAT);
        assert_null(got.identity);
    }
    static const struct {
        const char *from, *to, *told;
    } cases[] = {
        { "\"version\": 1", "\"version\": 2", "version 2" },
        { "\"step\": 7", "\"step\": 6", "more updates" },
        { "\"step\": 7", "\"step\": -7", "\"step\" is not what it should be" },
        { "\"step\": 7", "\"step\": 18446744073709551616", "\"step\"" },
        { "\"best_step\": 5", "\"best_step\": 9", "still to come" },
        { "\"evaluated\": 6", "\"evaluated\": 9", "still to come" },
        { "\"without_gain\": 1", "\"without_gain\": 3", "without gain" },
        { "\"net_loss_scale\": 1", "\"net_loss_scale\": 0", "loss scale" },
        { "\"net_loss_scale\": 1", "\"net_loss_scale\": null", "loss scale" },
        { "\"best_classes_counted\": 12", "\"best_classes_counted\": 4294967296",
          "\"best_classes_counted\"" },
        { "\"best\": null", "\"best\": \"nan\"", "\"best\"" },
        { "\"best\": null", "\"best\": 1e999", "\"best\"" },
        { "\"cpu\": \"avx2\"", "\"cpu\": \"0123456789abcdef\"", "\"cpu\"" },
        { "\"cpu\": \"avx2\"", "\"cpu\": \"\\u001b[2J\"", "control characters" },
        { "\"identity\": \"\"", "\"identity\": 1", "\"identity\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = strstr(text, cases[i].from);
        assert_non_null(at);
        sprintf(changed, "%.*s%s%s", (int)(at - text), text, cases[i].to, at + strlen(cases[i].from));
        assert_true(stk_checkpoint_info_read(&got, changed, strlen(changed), &err) < 0);
        if (!strstr(err.message, cases[i].told)) fail_msg("%s: %s", cases[i].to, err.message);
    }
    free(changed);
    stk_json_free(&json);
    stk_free(text);
    /* and no such text is written */
    info.progress.step = 6;
    assert_int_equal(stk_checkpoint_info_text(&info, &text, &err), STOKE_E_STATE);
    assert_null(text);
}

/* A score that is added later must not end runs that are under way. */
static void older_states_have_fewer_scores(void **state)
{
    (void)state;
    stk_checkpoint_info info = { .progress = some_progress(), .net.loss_scale = 1, .identity = (char *)"" },
                        got;
    stoke_error err;
    char *text;
    assert_int_equal(stk_checkpoint_info_text(&info, &text, &err), STOKE_OK);
    char *from = strstr(text, "\"best_recall\""), *to = from ? strchr(from, ',') : NULL;
    assert_non_null(to);
    memmove(from, to + 1, strlen(to + 1) + 1);
    const int status = stk_checkpoint_info_read(&got, text, strlen(text), &err);
    if (status) fail_msg("%s", err.message);
    assert_true(isnan(got.progress.best_scores.recall));
    assert_true(got.progress.best_scores.precision == 1e-300);
    stk_free(got.identity);
    stk_free(text);
}

/* ---- what can go wrong besides ---- */

static int count_files(const char *folder)
{
    int count = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; (e = readdir(d));) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static void full_disk_keeps_the_old_state(void **state)
{
    target t = make_target(state);
    stk_checkpoint_progress progress = some_progress(), got;
    progress.step++; /* not the one in the file */
    stoke_error err;
    char *identity;
    struct rlimit before, little;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    const rlim_t sizes[] = { 4096, 8 + t.length + 100, (rlim_t)t.size - 8192 };
    for (int i = 0; i < 3; i++) {
        little = before;
        little.rlim_cur = sizes[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
        const int status = stk_checkpoint_save(t.path, t.net, &progress, IDENTITY, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, STOKE_E_IO);
        assert_non_null(strstr(err.message, "state.safetensors: cannot write the state of the run"));
        assert_non_null(strstr(err.message, "File too large"));
        assert_int_equal(count_files(unit_folder(state)), 1);
    }
    signal(SIGXFSZ, handler);
    assert_int_equal(stk_checkpoint_load(t.path, t.net, &got, &identity, &err), STOKE_OK);
    assert_int_equal(got.step, some_progress().step);
    stk_free(identity);
    assert_int_equal(stk_checkpoint_save(unit_path(state, "no/x"), t.net, &progress, IDENTITY, &err),
                     STOKE_E_IO);
    drop_target(&t);
}

static void survives_without_memory(void **state)
{
    target t = make_target(state);
    const stk_checkpoint_progress progress = some_progress();
    stk_checkpoint_progress got;
    char *identity;
    stoke_error err;
    int status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        stk_mem_fail_after(after);
        status = stk_checkpoint_save(t.path, t.net, &progress, IDENTITY, &err);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || (status == STOKE_E_NOMEM && after < 60));
        assert_int_equal(count_files(unit_folder(state)), 1);
    }
    status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        stk_mem_fail_after(after);
        status = stk_checkpoint_load(t.path, t.net, &got, &identity, &err);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || (status == STOKE_E_NOMEM && after < 60));
        expect_untouched(&t); /* at last, too: it is the network's own state */
    }
    stk_free(identity);
    drop_target(&t);
}

UNIT_GROUP(checkpoint)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(fp32_comes_back),
        unit_test_with_folder(bf16_comes_back),
        unit_test_with_folder(fp16_comes_back),
        unit_test_with_folder(sgd_comes_back),
        unit_test_with_folder(frozen_comes_back),
        unit_test_with_folder(odd_floats_come_back),
        cmocka_unit_test(counters_come_back),
        unit_test_with_folder(peek_needs_no_network),
        unit_test_with_folder(flipped_bits_in_the_header),
        unit_test_with_folder(flipped_bits_in_the_data),
        unit_test_with_folder(cut_and_lengthened_files),
        unit_test_with_folder(tensors_that_do_not_fit),
        unit_test_with_folder(metadata_that_is_none),
        unit_test_with_folder(other_settings),
        cmocka_unit_test(counters_that_lie),
        cmocka_unit_test(older_states_have_fewer_scores),
        unit_test_with_folder(full_disk_keeps_the_old_state),
        unit_test_with_folder(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
