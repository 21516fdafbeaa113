# SPDX-License-Identifier: Apache-2.0
"""torchvision's v2 transforms on tensors decoded by torchvision.io, in torch's DataLoader, rotation and scale as one affine."""
import torch
from torch.utils.data import Dataset
from torchvision import tv_tensors
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import InterpolationMode, v2

import harness
from peers.torch_loader import loader

AFFINE = dict(interpolation=InterpolationMode.BILINEAR, fill={tv_tensors.Image: 0, tv_tensors.Mask: harness.IGNORE})


def chain():
    # Both, turning alone, scaling alone: one resample with the distribution of two independent ones.
    geometry = v2.RandomChoice([v2.RandomAffine(20, scale=(0.8, 1.2), **AFFINE), v2.RandomAffine(20, **AFFINE),
                                v2.RandomAffine(0, scale=(0.8, 1.2), **AFFINE)], p=[0.36, 0.24, 0.24])
    return v2.Compose([
        v2.RandomHorizontalFlip(0.5),
        v2.RandomApply([geometry], p=0.84),
        v2.RandomApply([v2.ColorJitter(0.3, 0.2, 0.2, 0.1)], p=0.5),
        v2.RandomApply([v2.GaussianBlur(3, (0.1, 2.0))], p=0.3),
        v2.ToDtype({tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}, scale=True),
        v2.RandomApply([v2.GaussianNoise(0.0, 0.03)], p=0.3),
        v2.Normalize(harness.MEAN, harness.STD),
        v2.ToPureTensor()])


class Pairs(Dataset):
    def __init__(self, data):
        self.images, self.masks = harness.pairs(data)
        self.chain = chain()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        # decode_image gives a view with channels last, which most ops walk slowly.
        image = decode_image(self.images[index], ImageReadMode.RGB).contiguous()
        mask = decode_image(self.masks[index], ImageReadMode.GRAY)[0]
        return self.chain(tv_tensors.Image(image), tv_tensors.Mask(mask))


if __name__ == "__main__":
    options = harness.options().parse_args()
    harness.measure(lambda: loader(Pairs(options.data)), options.seconds)
