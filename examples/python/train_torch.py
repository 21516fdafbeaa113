# SPDX-License-Identifier: Apache-2.0
"""SegFormer b0 in PyTorch, trained from scratch on batches of Stokehold: the README's example as a whole program.

    stoke synth data --count 64 --size 256
    python train_torch.py data
"""
import sys

import torch
import transformers

import stokehold

STEPS, SIZE, BATCH, CLASSES = 20, 64, 4, 6  # as many classes as `stoke synth` draws


def train(loader, model):
    """Yields the loss of every step, for ever."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while True:
        for images, masks in loader:  # every pass is another epoch, in another order
            loss = model(pixel_values=images, labels=masks).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            yield loss.item()


def main():
    torch.manual_seed(0)
    model = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=CLASSES))
    with stokehold.Loader(sys.argv[1], batch_size=BATCH, image_size=SIZE, augment="standard", normalize="imagenet",
                          drop_last=True) as loader:
        losses = []
        for step, loss in zip(range(1, STEPS + 1), train(loader, model)):
            print(f"step {step:2}  loss {loss:.3f}", flush=True)
            losses.append(loss)
        print(f"loss {losses[0]:.3f} at first, {sum(losses[-5:]) / 5:.3f} over the last 5 steps; "
              f"{loader.stats().wait_share:.1%} of the time spent waiting for a batch")


if __name__ == "__main__":
    main()
