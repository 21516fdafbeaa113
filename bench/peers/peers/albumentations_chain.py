# SPDX-License-Identifier: Apache-2.0
"""The usual chain in Albumentations' words: mirrored 0.5, turned up to 20 degrees 0.6, scaled 0.8 to 1.2 0.6, colours 0.5, blurred
0.3, noise 0.3."""
import os

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
import albumentations as A
import cv2
from albumentations.pytorch import ToTensorV2

import harness

GEOMETRY = dict(interpolation=cv2.INTER_LINEAR, mask_interpolation=cv2.INTER_NEAREST, border_mode=cv2.BORDER_CONSTANT,
                fill=0, fill_mask=harness.IGNORE)


def geometry(one_affine):
    if not one_affine:
        return [A.Rotate(limit=(-20, 20), p=0.6, **GEOMETRY), A.Affine(scale=(0.8, 1.2), p=0.6, **GEOMETRY)]
    # Both, turning alone, scaling alone: the same joint distribution with one resample.
    return [A.OneOf([A.Affine(rotate=(-20, 20), scale=(0.8, 1.2), p=0.36, **GEOMETRY),
                     A.Affine(rotate=(-20, 20), p=0.24, **GEOMETRY),
                     A.Affine(scale=(0.8, 1.2), p=0.24, **GEOMETRY)], p=0.84)]


def chain(one_affine=False, normalise=True):
    last = [A.Normalize(mean=harness.MEAN, std=harness.STD), ToTensorV2()] if normalise else []
    return A.Compose([
        A.HorizontalFlip(p=0.5), *geometry(one_affine),
        A.ColorJitter(brightness=(0.7, 1.3), contrast=(0.8, 1.2), saturation=(0.8, 1.2), hue=(-0.1, 0.1), p=0.5),
        A.GaussianBlur(blur_limit=(3, 3), sigma_limit=(0.1, 2.0), p=0.3),
        A.GaussNoise(std_range=(0.03, 0.03), mean_range=(0.0, 0.0), per_channel=True, p=0.3), *last])
