# SPDX-License-Identifier: Apache-2.0
"""Albumentations with OpenCV's readers in torch's DataLoader. --expert: one affine instead of two resamples, workers hand
over bytes, and the consumer normalises whole batches into a buffer it keeps."""
import cv2
import numpy as np
import torch
from torch.utils.data import Dataset

import harness
from peers.albumentations_chain import chain
from peers.torch_loader import loader


class Pairs(Dataset):
    def __init__(self, data, expert):
        self.images, self.masks = harness.pairs(data)
        self.expert = expert
        self.chain = chain(one_affine=expert, normalise=not expert)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = cv2.imread(self.images[index], cv2.IMREAD_COLOR_RGB)
        mask = cv2.imread(self.masks[index], cv2.IMREAD_GRAYSCALE)
        done = self.chain(image=image, mask=mask)
        if not self.expert:
            return done["image"], done["mask"].long()
        return tuple(torch.from_numpy(np.ascontiguousarray(done[what])) for what in ("image", "mask"))


def normalised_late(batches):
    torch.set_num_threads(1)
    mean = torch.tensor(harness.MEAN).view(1, 3, 1, 1) * 255
    scale = 1 / (torch.tensor(harness.STD).view(1, 3, 1, 1) * 255)
    images = torch.zeros(harness.BATCH, 3, harness.SIZE, harness.SIZE)
    masks = torch.zeros(harness.BATCH, harness.SIZE, harness.SIZE, dtype=torch.int64)
    for image, mask in batches:
        yield images.copy_(image.permute(0, 3, 1, 2)).sub_(mean).mul_(scale), masks.copy_(mask)


def main():
    parser = harness.options()
    parser.add_argument("--expert", action="store_true")
    args = parser.parse_args()
    cv2.setNumThreads(0)

    def batches():
        made = loader(Pairs(args.data, args.expert), worker_init_fn=lambda _: cv2.setNumThreads(0))
        return normalised_late(made) if args.expert else made

    harness.measure(batches, args.seconds)


if __name__ == "__main__":
    main()
