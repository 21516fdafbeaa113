# SPDX-License-Identifier: Apache-2.0
"""Several processes, one set: each takes its own share of the epoch, and gradients are averaged over all.

    stoke synth data --count 64 --size 256
    torchrun --nproc-per-node 2 train_torchrun.py data
"""
import sys

import torch
from torch import distributed
from transformers import SegformerConfig, SegformerForSemanticSegmentation

import stokehold


def main():
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(SegformerForSemanticSegmentation(SegformerConfig(num_labels=6)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seen = []
    # Rank and number of processes are those of torch.distributed: nothing to set, no sampler to make.
    for batch in stokehold.Loader(sys.argv[1], as_dict=True, batch_size=4, image_size=64, augment="standard", normalize="imagenet",
                                  drop_last=True):
        loss = model(pixel_values=batch["images"], labels=batch["masks"]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen += batch["ids"].tolist()
    print(f"rank {distributed.get_rank()} of {distributed.get_world_size()}: loss {loss.item():.3f}, samples {seen}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
