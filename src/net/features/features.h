/* SPDX-License-Identifier: Apache-2.0
 *
 * A frozen network that judges restored pictures: the perceptual loss is how far its features of a picture
 * are from those of the target. Which network it is, is read off its files; it records itself on the tape of
 * the network that is trained, behind the pixel loss: forward on the target, forward on the output, the
 * distance of each pair of features, and the way back to the output.
 */
#ifndef STOKE_SRC_NET_FEATURES_FEATURES_H
#define STOKE_SRC_NET_FEATURES_FEATURES_H

#include "src/net/network.h"

enum { STK_FEATURES = 4 }; /* maps of features that are compared, at most */

/* Where features come from. */
typedef struct stk_features_family {
    uint32_t side_min; /* of a picture */
    /* A tensor's name as its parameter is declared. 0: it is no name of this family. */
    int (*name)(const char *given, char declared[static STK_NAME]);
    /* Layers after the shapes that the files have, released by stk_free, and their parameters; *title: which
     * network it is, a literal. */
    int (*create)(const char *path, void **layers, stk_parameters *parameters, const char **title,
                  stoke_error *err);
    /* Features of a picture, standardised, three f32 a pixel: how many maps there are. `training`: what the
     * way back needs is kept. */
    uint32_t (*forward)(void *layers, const stk_network_settings *how, stk_tape *tape, stk_tape_id picture,
                        stk_tape_id features[static STK_FEATURES]);
    /* After the last forward: from the gradients of its features, which are lost, to that of the picture. */
    void (*back)(void *layers, const stk_network_settings *how, stk_tape *tape,
                 const stk_tape_id d_features[static STK_FEATURES], stk_tape_id d_picture);
} stk_features_family;

extern const stk_features_family stk_vgg_features, stk_segformer_features;

typedef struct stk_features {
    const stk_features_family *family;
    const char *title; /* "VGG16", "b0": a literal */
    void *layers;
    stk_parameters parameters; /* none has a gradient */
    float *values;
    int packed;
    stk_network_settings how;
    /* Within the tape's loss: what gives the value, and the way back after it. */
    stk_tape_span value, back;
    double weight;   /* of the distances in the loss */
    float factor;    /* times their gradients; 0: only the value is asked for */
    double distance; /* the sum of those of the last value */
} stk_features;

/* The network in a file or folder, without its weights. Nothing is left to destroy on failure. */
int stk_features_create(stk_features **out, const char *path, double weight, stoke_error *err);
void stk_features_destroy(stk_features **features);
/* Has the tape record it behind the pixel loss. The settings are those of the network that is judged. */
void stk_features_attach(stk_features *features, const stk_network_settings *how, stk_tape *tape);
/* Reads the weights to where `parameters` is bound. */
int stk_features_load(const stk_features *features, const char *path, stoke_error *err);

/* How to make a file that is read here, for messages. */
#define STK_FEATURES_HOW                                                                                     \
    "in Python: import torchvision, safetensors.torch; "                                                     \
    "net = torchvision.models.vgg16(weights='IMAGENET1K_V1').features; "                                     \
    "safetensors.torch.save_file(net.state_dict(), 'vgg16.safetensors')"

#endif
