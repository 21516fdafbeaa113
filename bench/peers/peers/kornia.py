# SPDX-License-Identifier: Apache-2.0
"""Kornia on whole batches, on the CPU: one process decodes with torchvision.io, the consumer augments with two threads."""
import kornia.augmentation as K
import torch
from kornia.constants import DataKey, Resample
from torch.utils.data import Dataset
from torchvision.io import ImageReadMode, decode_image

import harness
from peers.torch_loader import loader


class Pairs(Dataset):
    def __init__(self, data):
        self.images, self.masks = harness.pairs(data)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return decode_image(self.images[index], ImageReadMode.RGB), decode_image(self.masks[index], ImageReadMode.GRAY)


def chain():
    return K.AugmentationSequential(
        K.RandomHorizontalFlip(p=0.5), K.RandomRotation(20, p=0.6), K.RandomAffine(0, scale=(0.8, 1.2), p=0.6),
        K.ColorJitter(0.3, 0.2, 0.2, 0.1, p=0.5), K.RandomGaussianBlur((3, 3), (0.1, 2.0), p=0.3),
        K.RandomGaussianNoise(0.0, 0.03, p=0.3),
        K.Normalize(torch.tensor(harness.MEAN), torch.tensor(harness.STD), p=1.0),
        data_keys=["input", "mask"], same_on_batch=False,
        extra_args={DataKey.MASK: {"resample": Resample.NEAREST, "align_corners": None}})


@torch.no_grad()
def augmented(batches):
    transform = chain()
    for image, mask in batches:
        # Kornia turns in zeros only: ids are moved up by one meanwhile, so that 0 is the outside.
        image, mask = transform(image.float().mul_(1 / 255), mask.float().add_(1))
        mask = mask[:, 0].sub_(1)
        yield image, torch.where(mask < 0, float(harness.IGNORE), mask).long()


if __name__ == "__main__":
    options = harness.options().parse_args()
    torch.set_num_threads(harness.WORKERS)
    harness.measure(lambda: augmented(loader(Pairs(options.data), workers=1)), options.seconds)
