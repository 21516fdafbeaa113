/* SPDX-License-Identifier: Apache-2.0
 *
 * The perceptual loss: which network judges, and what it adds to the tape.
 */
#include "src/net/features/features.h"

#include <errno.h>
#include <sys/stat.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/words.h"
#include "src/net/files/pretrained.h"

static const stk_features_family *const FAMILIES[] = { &stk_vgg_features, &stk_segformer_features };
enum { FAMILIES_COUNT = sizeof FAMILIES / sizeof *FAMILIES };

/* ---- which network ---- */

static int find_family(void *context, const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                       stoke_error *err)
{
    (void)file, (void)err;
    const stk_features_family **found = context;
    char declared[STK_NAME];
    for (size_t i = 0; !*found && i < FAMILIES_COUNT; i++)
        if (FAMILIES[i]->name(tensor->name, declared)) *found = FAMILIES[i];
    return STOKE_OK;
}

static int is_pickle(const char *path)
{
    return stk_ends_in(path, ".pth") || stk_ends_in(path, ".pt") || stk_ends_in(path, ".bin");
}

static int find(stk_features *f, const char *path, stoke_error *err)
{
    if (is_pickle(path))
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "%s: a pickle may run code and is not read; %s writes a file that is", path,
                        STK_FEATURES_HOW);
    struct stat st;
    if (stoke_stat(path, &st) && errno == ENOENT)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "%s: there is no such file or folder; the perceptual loss takes the folder of a "
                        "SegFormer, or a VGG's weights, which are saved %s",
                        path, STK_FEATURES_HOW);
    const int status = stk_pretrained_visit(path, find_family, &f->family, err);
    if (status) return status;
    if (!f->family)
        return stk_fail(
            err, STOKE_E_FORMAT,
            "%s: holds neither the convolutions of a VGG (features.0.weight) nor the encoder of a "
            "SegFormer, by whose features pictures are compared",
            path);
    return f->family->create(path, &f->layers, &f->parameters, &f->title, err);
}

int stk_features_create(stk_features **out, const char *path, double weight, stoke_error *err)
{
    stk_features *f = *out = stk_calloc(1, sizeof *f);
    if (!f) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    f->weight = weight;
    int status = find(f, path, err);
    if (!status && f->parameters.failed) status = stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    if (status) stk_features_destroy(out);
    return status;
}

void stk_features_destroy(stk_features **features)
{
    stk_features *f = *features;
    *features = NULL;
    if (!f) return;
    stk_parameters_free(&f->parameters);
    stk_free(f->layers);
    stk_free(f);
}

int stk_features_load(const stk_features *f, const char *path, stoke_error *err)
{
    return stk_pretrained_take(path, f->family->name, &f->parameters, f->values, err);
}

/* ---- the tape ---- */

static stk_tape_id picture_like(stk_tape *tape, const char *name)
{
    return stk_tape_declare(tape, name, (size_t)tape->out_height * tape->out_width, 3, STK_F32);
}

/* The part of everything recorded since `begin`. */
static void charge(stk_tape *tape, size_t begin, stk_tape_part part)
{
    for (size_t i = begin; i < tape->op_count; i++) tape->ops[i].part = part;
}

static uint32_t forward(stk_features *f, const stk_network_settings *how, stk_tape *tape, stk_tape_id picture,
                        stk_tape_id features[static STK_FEATURES])
{
    const stk_depthwise_map map = { .height = how->height, .width = how->width };
    const stk_tape_id standard = picture_like(tape, "standardised");
    stk_tape_standardise(tape, map, picture, standard);
    return f->family->forward(f->layers, how, tape, standard, features);
}

/* The target's features come first, while nothing of the output's is kept, and become the gradients of the
 * output's: no map is needed for these. */
static void record(void *features, stk_tape *tape)
{
    stk_features *f = features;
    stk_network_settings how = f->how, forgetful;
    how.height = tape->out_height;
    how.width = tape->out_width;
    forgetful = how;
    forgetful.training = 0;
    const size_t begin = tape->op_count;
    stk_tape_id wanted[STK_FEATURES] = { 0 }, made[STK_FEATURES] = { 0 };
    const uint32_t count = forward(f, &forgetful, tape, STK_TAPE_NONE, wanted);
    forward(f, &how, tape, tape->logits, made);
    for (uint32_t i = 0; i < count; i++) stk_tape_distance(tape, made[i], wanted[i], how.training);
    charge(tape, begin, STK_PART_FEATURES_FORWARD);
    f->value = (stk_tape_span){ (uint32_t)begin, (uint32_t)tape->op_count };
    /* Who evaluates finds the pictures where they were. */
    if (!tape->failed) tape->tensors[tape->logits].last = f->value.end - 1;
    if (!how.training) return;
    const stk_tape_id d_standard = picture_like(tape, "d_standardised");
    f->family->back(f->layers, &how, tape, wanted, d_standard);
    stk_tape_standardise_back(tape, d_standard, tape->d_logits);
    charge(tape, f->value.end, STK_PART_FEATURES_BACKWARD);
    f->back = stk_tape_span_after(tape, f->value);
}

void stk_features_attach(stk_features *f, const stk_network_settings *how, stk_tape *tape)
{
    f->how = *how;
    f->how.freeze_encoder = 0; /* of the network that is judged */
    f->how.drop_path = 0;
    tape->judge = record;
    tape->judge_context = f;
}
