# SPDX-License-Identifier: Apache-2.0
"""stokehold.Loader: files to torch tensors, the chain is the preset `standard`. --lean: NumPy arrays, one batch ahead."""
import functools
import importlib

import stokehold

import harness


def batches(data):
    loader = stokehold.Loader(data, batch_size=harness.BATCH, image_size=harness.SIZE, augment="standard", normalize="imagenet",
                              mask_dtype="int64", drop_last=True, workers=harness.WORKERS)
    while True:  # epoch after epoch; threads work ahead over the end of one
        yield from loader


if __name__ == "__main__":
    parser = harness.options()
    parser.add_argument("--lean", action="store_true")
    options = parser.parse_args()
    # The loader would import it when it is made; as everywhere here, imports are not timed.
    importlib.import_module("numpy" if options.lean else "torch")
    if options.lean:
        stokehold.Loader = functools.partial(stokehold.Loader, output="numpy", prefetch=1)
    harness.measure(lambda: batches(options.data), options.seconds)
