# SPDX-License-Identifier: Apache-2.0
"""FFCV with its own file format. It has no warp and no op on pairs, so Albumentations does the chain, in threads, on what FFCV
decodes. --raw: samples stored as pixels, given out as bytes. --prepare writes the two files.

FFCV has no PNG and no grey picture: the mask is a plain array. It stores no given JPEG bytes: it encodes again."""
import os
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import torch
from ffcv.fields import NDArrayField, RGBImageField
from ffcv.fields.decoders import NDArrayDecoder, SimpleRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import ToTensor
from ffcv.writer import DatasetWriter

import harness


class Pairs:
    def __init__(self, data):
        self.images, self.masks = harness.pairs(data)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return (cv2.imread(self.images[index], cv2.IMREAD_COLOR_RGB),
                cv2.imread(self.masks[index], cv2.IMREAD_GRAYSCALE))


def path(data, mode):
    return os.path.join(data, f"ffcv-{mode}.beton")


def prepare(data):
    for mode in ("jpg", "raw"):
        if not os.path.exists(path(data, mode)):
            fields = {"image": RGBImageField(write_mode=mode, jpeg_quality=92),
                      "mask": NDArrayField(np.dtype("uint8"), (harness.SIZE, harness.SIZE))}
            DatasetWriter(path(data, mode) + ".part", fields, num_workers=1).from_indexed_dataset(Pairs(data))
            os.rename(path(data, mode) + ".part", path(data, mode))


def stored(data, mode, threads):
    batches = Loader(path(data, mode), batch_size=harness.BATCH, num_workers=threads, order=OrderOption.RANDOM,
                     os_cache=True, drop_last=True, batches_ahead=2,
                     pipelines={"image": [SimpleRGBImageDecoder(), ToTensor()], "mask": [NDArrayDecoder(), ToTensor()]})
    while True:  # it starts its threads again for every pass; that is its own cost
        yield from batches


def augmented(batches):
    from peers.albumentations_chain import chain
    transform = chain(one_affine=True)

    def one(image, mask):
        done = transform(image=image, mask=mask)
        return done["image"], done["mask"].long()

    with ThreadPoolExecutor(harness.WORKERS) as threads:
        for image, mask in batches:
            done = list(threads.map(one, image.numpy(), mask.numpy()))
            yield tuple(torch.stack(part) for part in zip(*done))


def main():
    parser = harness.options()
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--prepare", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    if args.prepare:
        prepare(args.data)
    elif args.raw:
        harness.measure(lambda: stored(args.data, "raw", harness.WORKERS), args.seconds, bytes_out=True)
    else:
        harness.measure(lambda: augmented(stored(args.data, "jpg", 1)), args.seconds)
    # Ended in the middle of a pass its threads abort the process, one time in four: "terminate called without an active exception".
    os._exit(0)


if __name__ == "__main__":
    main()
