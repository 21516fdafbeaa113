# SPDX-License-Identifier: Apache-2.0
"""webdataset's tar shards with Albumentations, read by torch's DataLoader workers."""
import glob
import os

import cv2
import numpy as np
import torch
import webdataset as wds

import harness
from peers.albumentations_chain import chain


def batches(data):
    transform = chain()

    def decode(sample):
        image = cv2.imdecode(np.frombuffer(sample["jpg"], np.uint8), cv2.IMREAD_COLOR_RGB)
        mask = cv2.imdecode(np.frombuffer(sample["png"], np.uint8), cv2.IMREAD_GRAYSCALE)
        done = transform(image=image, mask=mask)
        return done["image"], done["mask"].long()

    def start(_):
        cv2.setNumThreads(0)
        torch.set_num_threads(1)

    shards = sorted(glob.glob(os.path.join(data, "shards", "*.tar")))
    samples = wds.WebDataset(shards, resampled=True, shardshuffle=False, nodesplitter=wds.split_by_node)
    samples = samples.shuffle(64, initial=32).map(decode)
    # DataLoader collates straight into shared memory; webdataset's own .batched() would copy every batch once more.
    return wds.WebLoader(samples, batch_size=harness.BATCH, num_workers=harness.WORKERS, prefetch_factor=2,
                         persistent_workers=True, worker_init_fn=start)


if __name__ == "__main__":
    options = harness.options().parse_args()
    harness.measure(lambda: batches(options.data), options.seconds)
