# SPDX-License-Identifier: Apache-2.0
"""SPDL's pipeline of threads. It has no augmentation: the chain is written by hand with OpenCV, as tightly as OpenCV allows:
one affine, tables for what is a table, bytes until the batch is normalised into one of a few buffers that are kept."""
import math
import random

import cv2
import numpy as np
from spdl.pipeline import PipelineBuilder

import harness

RING = 6  # batches being filled, waiting and in use
SIZE = (harness.SIZE, harness.SIZE)
LEVELS = np.arange(256, dtype=np.float32)


def chance(p):
    return random.random() < p


def table(image, values):
    return cv2.LUT(image, np.clip(values + 0.5, 0, 255).astype(np.uint8))


def brightness(image):
    return table(image, LEVELS * random.uniform(0.7, 1.3))


def contrast(image):
    factor, mean = random.uniform(0.8, 1.2), cv2.mean(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[0]
    return table(image, LEVELS * factor + (1 - factor) * mean)


def saturation(image):
    factor = random.uniform(0.8, 1.2)
    gray = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    return cv2.addWeighted(image, factor, gray, 1 - factor, 0)


def hue(image):
    shift, same = random.uniform(-0.1, 0.1) * 180, np.arange(256)  # OpenCV's hue: 180 steps to the turn
    tables = np.stack([(same + shift) % 180, same, same], axis=1).astype(np.uint8)
    return cv2.cvtColor(cv2.LUT(cv2.cvtColor(image, cv2.COLOR_RGB2HSV), tables[None]), cv2.COLOR_HSV2RGB)


def geometry(image, mask):
    mirror = chance(0.5)
    angle = random.uniform(-20, 20) if chance(0.6) else 0
    scale = random.uniform(0.8, 1.2) if chance(0.6) else 1
    if angle == 0 and scale == 1:
        return (cv2.flip(image, 1), cv2.flip(mask, 1)) if mirror else (image, mask)
    centre, radians = (harness.SIZE - 1) / 2, math.radians(angle)
    cos, sin, side = scale * math.cos(radians), scale * math.sin(radians), -1 if mirror else 1
    matrix = np.array([[side * cos, sin, centre * (1 - side * cos - sin)],
                       [-side * sin, cos, centre * (1 + side * sin - cos)]])
    return (cv2.warpAffine(image, matrix, SIZE, flags=cv2.INTER_LINEAR, borderValue=(0, 0, 0)),
            cv2.warpAffine(mask, matrix, SIZE, flags=cv2.INTER_NEAREST, borderValue=harness.IGNORE))


def load(paths):
    image, mask = cv2.imread(paths[0], cv2.IMREAD_COLOR_RGB), cv2.imread(paths[1], cv2.IMREAD_GRAYSCALE)
    image, mask = geometry(image, mask)
    if chance(0.5):
        for step in random.sample([brightness, contrast, saturation, hue], 4):
            image = step(image)
    if chance(0.3):
        image = cv2.GaussianBlur(image, (3, 3), random.uniform(0.1, 2), borderType=cv2.BORDER_REFLECT_101)
    if chance(0.3):
        noise = np.empty(image.shape, np.int16)
        cv2.randn(noise, (0, 0, 0), (0.03 * 255,) * 3)
        image = cv2.add(image, noise, dtype=cv2.CV_8U)
    return image, mask


class Collate:
    """Bytes to normalised floats, planes apart, in the next of the buffers."""

    def __init__(self):
        self.ring = [(np.zeros((harness.BATCH, 3, *SIZE), np.float32), np.zeros((harness.BATCH, *SIZE), np.int64))
                     for _ in range(RING)]
        self.turn = 0

    def __call__(self, samples):
        images, masks = self.ring[self.turn % RING]
        self.turn += 1
        for row, (image, mask) in enumerate(samples):
            for channel, plane in enumerate(cv2.split(image)):
                scale = 1 / (255 * harness.STD[channel])
                images[row, channel] = plane
                cv2.multiply(images[row, channel], scale, images[row, channel])
                images[row, channel] -= harness.MEAN[channel] / harness.STD[channel]
            masks[row] = mask
        return images, masks


def batches(data):
    images, masks = harness.pairs(data)
    source = ((images[index], masks[index]) for index in harness.endless_order(len(images)))
    pipeline = (PipelineBuilder().add_source(source).pipe(load, concurrency=harness.WORKERS)
                .aggregate(harness.BATCH).pipe(Collate()).add_sink(2).build(num_threads=harness.WORKERS + 1))
    with pipeline.auto_stop():
        yield from pipeline


if __name__ == "__main__":
    options = harness.options().parse_args()
    cv2.setNumThreads(0)
    harness.measure(lambda: batches(options.data), options.seconds)
