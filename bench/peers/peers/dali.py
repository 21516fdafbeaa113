# SPDX-License-Identifier: Apache-2.0
"""DALI's CPU backend. Ops run on the samples that drew them (conditional execution); scaling alone is done by its resize, which
is faster than its warp."""
import numpy as np
from nvidia.dali import fn, pipeline_def, types

import harness

CENTRE = [harness.SIZE / 2, harness.SIZE / 2]


def uniform(low, high):
    return fn.random.uniform(range=[low, high])


def coin(p):
    return fn.random.coin_flip(probability=p)


def warp(picture, matrix, fill, interpolation):
    return fn.warp_affine(picture, matrix=matrix, interp_type=interpolation, fill_value=fill, inverse_map=False)


def scaled(picture, side, fill, interpolation):
    resized = fn.resize(picture, size=fn.stack(side, side), interp_type=interpolation, antialias=False)
    return fn.crop(resized, crop=[harness.SIZE, harness.SIZE], out_of_bounds_policy="pad", fill_values=fill)


@pipeline_def(batch_size=harness.BATCH, num_threads=harness.WORKERS, device_id=None, seed=1, prefetch_queue_depth=2,
              exec_dynamic=True, enable_conditionals=True)
def chain(images, masks):
    # Two readers with one seed give the same shuffled order.
    reading = dict(random_shuffle=True, seed=7, initial_fill=len(images), labels=[0] * len(images))
    jpeg, _ = fn.readers.file(files=images, **reading)
    png, _ = fn.readers.file(files=masks, **reading)
    image = fn.decoders.image(jpeg, device="cpu", output_type=types.RGB)
    mask = fn.decoders.image(png, device="cpu", output_type=types.GRAY)
    turns, scales = coin(0.6), coin(0.6)
    angle = uniform(-20.0, 20.0) * turns
    scale = uniform(0.8, 1.2) * scales + (1 - scales)
    if coin(0.5):
        image, mask = fn.flip(image, horizontal=1), fn.flip(mask, horizontal=1)
    matrix = fn.transforms.scale(scale=fn.stack(scale, scale), center=CENTRE)
    matrix = fn.transforms.rotation(matrix, angle=angle, center=CENTRE)
    if turns:
        image = warp(image, matrix, 0, types.INTERP_LINEAR)
        mask = warp(mask, matrix, harness.IGNORE, types.INTERP_NN)
    else:
        if scales:
            side = fn.cast(scale * harness.SIZE, dtype=types.FLOAT)
            image = scaled(image, side, 0, types.INTERP_LINEAR)
            mask = scaled(mask, side, harness.IGNORE, types.INTERP_NN)
    if coin(0.5):
        image = fn.color_twist(image, brightness=uniform(0.7, 1.3), contrast=uniform(0.8, 1.2),
                               saturation=uniform(0.8, 1.2), hue=uniform(-36.0, 36.0))
    if coin(0.3):
        image = fn.gaussian_blur(image, window_size=3, sigma=uniform(0.1, 2.0))
    if coin(0.3):
        image = fn.noise.gaussian(image, stddev=0.03 * 255)
    image = fn.crop_mirror_normalize(image, dtype=types.FLOAT, output_layout="CHW",
                                     mean=[255 * value for value in harness.MEAN],
                                     std=[255 * value for value in harness.STD])
    return image, fn.cast(mask, dtype=types.INT64)


def batches(data):
    pipeline = chain(*harness.pairs(data))
    pipeline.build()
    while True:
        image, mask = pipeline.run()
        # A view of DALI's own memory: nothing is copied for the consumer.
        yield np.from_dlpack(image.as_tensor()), np.from_dlpack(mask.as_tensor())[..., 0]


if __name__ == "__main__":
    options = harness.options().parse_args()
    harness.measure(lambda: batches(options.data), options.seconds)
