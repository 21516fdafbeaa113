# SPDX-License-Identifier: Apache-2.0
"""torch's DataLoader the way its manual recommends, for the peers that use it."""
from torch.utils.data import DataLoader, Sampler

import harness


class Endless(Sampler):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return harness.endless_order(self.count)

    def __len__(self):
        return 1 << 40


def loader(dataset, workers=harness.WORKERS, **more):
    return DataLoader(dataset, batch_size=harness.BATCH, sampler=Endless(len(dataset)), num_workers=workers,
                      drop_last=True, prefetch_factor=2, persistent_workers=True, **more)
