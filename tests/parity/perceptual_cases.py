# SPDX-License-Identifier: Apache-2.0
"""The perceptual loss for the parity scripts: cases, files of weights made by formula, and batches."""
import json
import os

import numpy as np

import parity
from net_parity import run_tool

# Channels of each block's convolutions: the outlines of torchvision's networks, slim.
VGGS = {
    "vgg16": [[8, 8], [12, 12], [16, 16, 16], [24, 24, 24]],
    "vgg19": [[8, 8], [12, 12], [16, 16, 16, 16], [24, 24, 24, 24]],
    "vgg11": [[7], [10], [12, 12], [17, 17]],
    "to relu2_2": [[8, 8], [12, 12]],
}
COMMON = dict(model="resnet", restore=1, channels=8, blocks=1, seed=3, steps=1)
CASES = {
    "vgg16": dict(COMMON, batch=2, size="24x33", loss=5, perceptual_weight=10),
    "vgg19": dict(COMMON, batch=1, size="17x19", loss=4, perceptual_weight=10),
    "vgg11": dict(COMMON, batch=1, size="12x16", loss=6, scale=2, perceptual_weight=10),
    "to relu2_2": dict(COMMON, batch=2, size="9x11", loss=4, perceptual_weight=10),
    "b0": dict(COMMON, batch=1, size="32x45", loss=4, perceptual_weight=10),
}


def modules_of(blocks):
    """(number of the module, inputs, outputs) of each convolution."""
    number, channels = 0, 3
    for block in blocks:
        for width in block:
            yield number, channels, width
            number, channels = number + 2, width
        number += 1


def noise(count, seed):
    return parity.make_input(count, 1, 1, 2, seed).astype(np.float64).ravel() / 32767.5 - 1


def vgg_tensors(blocks, seed):
    """Spread as He's, so that no map dies out; biases on both sides of 0."""
    tensors = {}
    for number, inputs, outputs in modules_of(blocks):
        weight = noise(outputs * inputs * 9, seed + 4 * number).reshape(outputs, inputs, 3, 3) * (6 / (9 * inputs)) ** 0.5
        tensors[f"features.{number}.weight"] = weight.astype(np.float32)
        tensors[f"features.{number}.bias"] = (0.2 * noise(outputs, seed + 4 * number + 2)).astype(np.float32)
    return tensors


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(array.tobytes() for array in tensors.values()))


def make_judge(tool, name, folder):
    """The frozen network of a case as files: a path."""
    path = os.path.join(folder, name.replace(" ", "_"))
    if name in VGGS:
        write_safetensors(path, vgg_tensors(VGGS[name], 2))
        return path
    images = np.zeros((1, 3, 32, 32), np.float32)
    run_tool(tool, [(images, np.zeros((1, 32, 32), np.uint8))], model=name, classes=2, size="32x32", batch=1, steps=0, seed=4, widen=1,
             save=path)
    return path


def batch_of(case, seed):
    """Targets, and what is to become them: not so far off that all distances have one sign."""
    height, width = (int(side) for side in case["size"].split("x"))
    batch, scale = case["batch"], case.get("scale", 1)

    def picture(height, width, seed):
        rows = parity.make_input(width, height * batch, 3, 1, seed).astype(np.float32) / 255
        return np.ascontiguousarray(rows.reshape(batch, height, width, 3).transpose(0, 3, 1, 2))
    return picture(height, width, seed), picture(height * scale, width * scale, seed + 2)
