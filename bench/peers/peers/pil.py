# SPDX-License-Identifier: Apache-2.0
"""Pillow and NumPy in a Dataset of one's own, with torch's DataLoader: the form most tutorials teach."""
import random

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torch.utils.data import Dataset

import harness
from peers.torch_loader import loader

MEAN, STD = np.array(harness.MEAN, np.float32), np.array(harness.STD, np.float32)


def chance(p):
    return random.random() < p


def shift_hue(image, turns):
    hue, saturation, value = image.convert("HSV").split()
    shifted = np.asarray(hue) + np.uint8(int(turns * 255) & 255)
    return Image.merge("HSV", (Image.fromarray(shifted), saturation, value)).convert("RGB")


def geometry(image, mask):
    if chance(0.5):
        image, mask = ImageOps.mirror(image), ImageOps.mirror(mask)
    if chance(0.6):
        degrees = random.uniform(-20, 20)
        image = image.rotate(degrees, Image.BILINEAR, fillcolor=(0, 0, 0))
        mask = mask.rotate(degrees, Image.NEAREST, fillcolor=harness.IGNORE)
    if chance(0.6):
        factor = 1 / random.uniform(0.8, 1.2)
        move = harness.SIZE / 2 * (1 - factor)
        matrix, size = (factor, 0, move, 0, factor, move), (harness.SIZE, harness.SIZE)
        image = image.transform(size, Image.AFFINE, matrix, Image.BILINEAR, fillcolor=(0, 0, 0))
        mask = mask.transform(size, Image.AFFINE, matrix, Image.NEAREST, fillcolor=harness.IGNORE)
    return image, mask


def colours(image):
    if chance(0.5):
        image = ImageEnhance.Brightness(image).enhance(random.uniform(0.7, 1.3))
        image = ImageEnhance.Contrast(image).enhance(random.uniform(0.8, 1.2))
        image = ImageEnhance.Color(image).enhance(random.uniform(0.8, 1.2))
        image = shift_hue(image, random.uniform(-0.1, 0.1))
    if chance(0.3):
        taps = np.exp(-0.5 * (np.arange(-1, 2) / random.uniform(0.1, 2)) ** 2)
        kernel = np.outer(taps, taps)
        image = image.filter(ImageFilter.Kernel((3, 3), (kernel / kernel.sum()).ravel().tolist(), 1))
    return image


class Pairs(Dataset):
    def __init__(self, data):
        self.images, self.masks = harness.pairs(data)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, mask = geometry(Image.open(self.images[index]).convert("RGB"), Image.open(self.masks[index]))
        pixels = np.asarray(colours(image), dtype=np.float32) / 255.0
        if chance(0.3):
            noise = np.random.normal(0, 0.03, pixels.shape).astype(np.float32)
            pixels = np.clip(pixels + noise, 0, 1)
        pixels = (pixels - MEAN) / STD
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), torch.from_numpy(np.array(mask, dtype=np.int64))


if __name__ == "__main__":
    options = harness.options().parse_args()
    harness.measure(lambda: loader(Pairs(options.data)), options.seconds)
