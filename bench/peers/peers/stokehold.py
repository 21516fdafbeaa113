# SPDX-License-Identifier: Apache-2.0
"""stokehold.Loader: files to torch tensors, the chain is the preset `standard`."""
import stokehold
import torch  # noqa: F401  The loader would import it when it is made; as everywhere here, imports are not timed.

import harness


def batches(data):
    loader = stokehold.Loader(data, batch_size=harness.BATCH, image_size=harness.SIZE, augment="standard", normalize="imagenet",
                              mask_dtype="int64", drop_last=True, workers=harness.WORKERS)
    while True:  # epoch after epoch; threads work ahead over the end of one
        yield from loader


if __name__ == "__main__":
    options = harness.options().parse_args()
    harness.measure(lambda: batches(options.data), options.seconds)
