/* SPDX-License-Identifier: Apache-2.0
 *
 * The network for the parity scripts: opens one, reads batches from stdin, trains, writes what came out.
 *
 *   net_tool model=b0 classes=19 size=64x96 batch=2 [weights=FOLDER] [seed=1] [accumulate=1] [steps=10]
 * [lr=6e-5] [head_lr=10] [clip=0] [precision=0] [memory=0] [threads=2] [widen=0] [save=FOLDER]
 * [save_trained=FOLDER] [channels=0] [blocks=0] [restore=1] [scale=1] [loss=0]
 * [perceptual=FILE] [perceptual_weight=0.1]
 *
 * stdin: per batch and part of it (accumulate), images f32 [batch][3][height][width], then masks u8 or, to
 * restore, targets f32. The batches are used in turn. stdout: arrays as a line "NAME COUNT" and COUNT floats:
 * the logits of the first batch in inference and, to restore, its loss, the weights, the gradients and running statistics of the first
 * step, losses, then weights and logits after the last. steps=0: forward only, as a network opened for
 * inference.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoke/tools/tools.h>
#include <stoke/tools/net.h>

typedef struct job {
    stoke_net_params net;
    stoke_update update;
    uint32_t accumulate, steps;
    int widen;
    const char *save, *save_trained;
} job;

static void die(const char *what, const stoke_error *err)
{
    fprintf(stderr, "net_tool: %s: %s\n", what, err->message);
    exit(1);
}

static void write_floats(const char *name, const float *values, size_t count)
{
    printf("%s %zu\n", name, count);
    fwrite(values, sizeof *values, count, stdout);
}

static job parse(int argc, char **argv)
{
    job j = { .net = stoke_net_defaults(), .update = stoke_update_defaults(), .accumulate = 1, .steps = 1 };
    j.net.dropout = j.net.drop_path = 0;
    j.net.precision = STOKE_PRECISION_FP32;
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        const size_t length = value ? (size_t)(value++ - argv[i]) : 0;
#define IS(key) (length == sizeof key - 1 && !memcmp(argv[i], key, length))
        if (IS("model"))
            j.net.model = value;
        else if (IS("weights"))
            j.net.weights = value;
        else if (IS("classes"))
            j.net.classes = (uint32_t)atoi(value);
        else if (IS("size"))
            sscanf(value, "%ux%u", &j.net.height, &j.net.width);
        else if (IS("batch"))
            j.net.batch = (uint32_t)atoi(value);
        else if (IS("seed"))
            j.net.seed = (uint64_t)atoll(value);
        else if (IS("accumulate"))
            j.accumulate = (uint32_t)atoi(value);
        else if (IS("steps"))
            j.steps = (uint32_t)atoi(value);
        else if (IS("lr"))
            j.update.lr = atof(value);
        else if (IS("clip"))
            j.update.clip_norm = atof(value);
        else if (IS("precision"))
            j.net.precision = atoi(value);
        else if (IS("memory"))
            j.net.memory = atoi(value);
        else if (IS("widen"))
            j.widen = atoi(value);
        else if (IS("save"))
            j.save = value;
        else if (IS("save_trained"))
            j.save_trained = value;
        else if (IS("head_lr"))
            j.update.head_lr = atof(value);
        else if (IS("channels"))
            j.net.base_channels = (uint32_t)atoi(value);
        else if (IS("blocks"))
            j.net.num_blocks = (uint32_t)atoi(value);
        else if (IS("restore"))
            j.net.task = atoi(value) ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
        else if (IS("scale"))
            j.net.scale = (uint32_t)atoi(value);
        else if (IS("loss"))
            j.net.loss.kind = (stoke_loss_kind)atoi(value);
        else if (IS("perceptual"))
            j.net.perceptual = value;
        else if (IS("perceptual_weight"))
            j.net.perceptual_weight = atof(value);
        else if (IS("threads"))
            j.net.threads = (uint32_t)atoi(value);
        else
            die(argv[i], &(stoke_error){ .message = "no such setting" });
#undef IS
    }
    j.net.training = j.steps > 0;
    return j;
}

/* -1 to 1, of a number (splitmix64's finaliser). */
static float noise(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (float)((double)((x ^ (x >> 31)) >> 11) / (1ull << 52) - 1);
}

/* First values are so small that attention is nearly uniform, GELU nearly linear (depthwise weights have few
 * inputs, so they are widened most) and every norm the identity; and next to running variances of 1 nobody
 * sees an eps. An error in any of them would hardly show. */
static void widen(stoke_net *net)
{
    stoke_net_tensor t;
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++) {
        const float factor = t.dims == 1 ? 1 : t.dims == 4 && t.shape[1] == 1 ? 20 : 2.5f;
        for (size_t k = 0; k < t.count; k++) {
            t.values[k] = factor * t.values[k] + (t.dims == 1 ? 0.2f * noise(i * 65536 + k) : 0);
            if (!t.trainable) t.values[k] *= 0.05f;
        }
    }
    stoke_net_touched(net);
}

/* All of stdin; *bytes of it. */
static unsigned char *slurp(size_t *bytes)
{
    size_t capacity = 1 << 20, used = 0, got;
    unsigned char *data = malloc(capacity);
    while (data && (got = fread(data + used, 1, capacity - used, stdin)) > 0) {
        used += got;
        if (used == capacity) data = realloc(data, capacity *= 2);
    }
    *bytes = used;
    return data;
}

static void write_gradients(const stoke_net *net)
{
    stoke_net_tensor t;
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++) {
        char name[256];
        snprintf(name, sizeof name, "gradient:%s", t.name);
        if (t.gradients) write_floats(name, t.gradients, t.count);
    }
}

/* Those that are trained, or the others. */
static void write_values(const stoke_net *net, const char *prefix, int trained)
{
    stoke_net_tensor t;
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++) {
        char name[256];
        snprintf(name, sizeof name, "%s:%s", prefix, t.name);
        if (t.trainable == trained) write_floats(name, t.values, t.count);
    }
}

static void write_logits(stoke_net *net, const char *name, const stoke_net_batch *batch)
{
    stoke_error err = { 0 };
    stoke_logits l;
    if (stoke_net_forward(net, batch, &l, &err)) die("forward", &err);
    const size_t pixels = (size_t)batch->count * l.height * l.width;
    printf("%s %zu\n", name, pixels * l.classes);
    for (size_t i = 0; i < pixels; i++) fwrite(l.data + i * l.stride, sizeof *l.data, l.classes, stdout);
}

/* Floats of a target. */
static size_t target_floats(const job *j)
{
    const size_t scale = j->net.scale ? j->net.scale : 1;
    return 3 * scale * scale * j->net.height * j->net.width;
}

/* The batch at `start`: images, then masks or targets. */
static stoke_net_batch batch_at(const job *j, const unsigned char *start)
{
    const size_t pixels = (size_t)j->net.height * j->net.width, image = 3 * pixels;
    const unsigned char *truth = start + j->net.batch * image * sizeof(float);
    if (j->net.task == STOKE_TASK_RESTORE)
        return (stoke_net_batch){ .count = j->net.batch,
                                  .images = (const float *)start,
                                  .layout = STOKE_LAYOUT_CHW,
                                  .image_row_floats = image,
                                  .targets = (const float *)truth,
                                  .target_row_floats = target_floats(j) };
    return (stoke_net_batch){ .count = j->net.batch,
                              .images = (const float *)start,
                              .layout = STOKE_LAYOUT_CHW,
                              .image_row_floats = image,
                              .masks = truth,
                              .mask_dtype = STOKE_DTYPE_U8,
                              .mask_row_bytes = pixels };
}

static void write_loss(stoke_net *net, const stoke_net_batch *batch)
{
    stoke_error err = { 0 };
    double loss;
    if (stoke_net_evaluate(net, batch, &loss, NULL, &err)) die("evaluate", &err);
    write_floats("loss", &(float){ (float)loss }, 1);
}

static void train(stoke_net *net, const job *j, const unsigned char *data, size_t batches, size_t each)
{
    stoke_error err = { 0 };
    float *losses = calloc(j->steps, sizeof *losses), *norms = calloc(j->steps, sizeof *norms);
    if (!losses || !norms) die("train", &(stoke_error){ .message = "no memory" });
    for (size_t step = 0, at = 0; step < j->steps; step++) {
        for (uint32_t part = 0; part < j->accumulate; part++, at = (at + 1) % batches) {
            const stoke_net_batch batch = batch_at(j, data + at * each);
            double loss;
            if (stoke_net_backward(net, &batch, j->accumulate, &loss, &err)) die("backward", &err);
            losses[step] += (float)(loss / j->accumulate);
        }
        if (!step) {
            write_gradients(net);
            write_values(net, "running", 0);
        }
        stoke_step_report report;
        if (stoke_net_step(net, &j->update, &report, &err)) die("step", &err);
        norms[step] = (float)report.gradient_norm;
    }
    write_floats("losses", losses, j->steps);
    write_floats("norms", norms, j->steps);
    write_values(net, "weight", 1);
    free(losses);
    free(norms);
}

int main(int argc, char **argv)
{
    const job j = parse(argc, argv);
    stoke_error err = { 0 };
    stoke_net *net;
    if (stoke_net_open(&net, &j.net, &err)) die("open", &err);
    if (j.widen) widen(net);
    if (j.save && stoke_net_save(net, j.save, 0, &err)) die("save", &err);
    const size_t pixels = (size_t)j.net.height * j.net.width,
                 truth = j.net.task == STOKE_TASK_RESTORE ? target_floats(&j) * sizeof(float) : pixels,
                 each = j.net.batch * (3 * pixels * sizeof(float) + truth);
    size_t bytes;
    unsigned char *data = slurp(&bytes);
    const size_t batches = bytes / each;
    if (!data || !batches || bytes % each) die("stdin", &(stoke_error){ .message = "no whole batch" });
    const stoke_net_batch first = batch_at(&j, data);
    write_logits(net, "logits", &first);
    if (j.net.task == STOKE_TASK_RESTORE) write_loss(net, &first);
    write_values(net, "start", 1);
    if (j.steps) {
        train(net, &j, data, batches, each);
        write_logits(net, "trained logits", &first);
    }
    if (j.save_trained && stoke_net_save(net, j.save_trained, 0, &err)) die("save", &err);
    free(data);
    stoke_net_close(&net);
    return 0;
}
