# SPDX-License-Identifier: Apache-2.0
"""Whole batches of the loader beside plans carried out one by one, and MixUp and CutMix beside their formulas in NumPy.
`augment_loader.py TOOL STOKE`

The loader has shortcuts (regions decoded instead of cut, rows written in place); augment_tool has none. The bytes are equal."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

import augment_cases
import parity

SIZES = [(90, 70), (64, 64), (131, 97), (48, 120), (200, 33), (77, 77)]  # width, height
OUT = (72, 56)
BATCH = 4
BATCHES = 6
# Presets whose plans say all there is; swapped labels and the search for foreground are the loader's own (its unit tests).
SPECS = ["light", "crop", "standard", "strong", "elastic(p=1)", "random_resized_crop,vflip(p=0.5),clahe(p=1)"]


def make_set(folder):
    pictures = {}
    for part in ("images", "masks"):
        os.makedirs(os.path.join(folder, part))
    for index in range(4 * len(SIZES)):
        size, name = SIZES[index % len(SIZES)], f"{index:03}"
        kind = ("noise", "smooth", "gray")[index // len(SIZES) % 3]
        pictures[name] = augment_cases.make_picture(kind, *size, index), augment_cases.make_labels(*size)
        for part, pixels in zip(("images", "masks"), pictures[name]):
            Image.fromarray(pixels).save(os.path.join(folder, part, name + ".png"))
    return pictures


class Loader:
    """Batches of a set by `stoke dump`, with the seed that AugmentTool.draw has."""

    def __init__(self, stoke, data):
        self.stoke, self.data = stoke, data

    def batches(self, spec, *more):
        """Dictionaries: position, names, images, masks, and masks_b and lambda where there are any."""
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([self.stoke, "dump", "--data", self.data, "--out", out, "--size", f"{OUT[1]}x{OUT[0]}", "--batch",
                            str(BATCH), "--batches", str(BATCHES), "--augment", spec, "--seed", "11", "--workers", "2",
                            "--mask-dtype", "u8", "--quiet", *more], check=True, stdout=subprocess.DEVNULL)
            with open(os.path.join(out, "index.json"), encoding="utf-8") as index:
                batches = json.load(index)["batches"]
            for batch in batches:
                for part in ("images", "masks", "masks_b", "lambda"):
                    if part in batch:
                        batch[part] = np.load(os.path.join(out, batch[part]))
        return batches


def check_plans(tap, tool, loader, pictures):
    for spec in SPECS:
        rows = different = labels = 0
        for batch in loader.batches(spec):
            for row, name in enumerate(batch["names"]):
                image, mask = pictures[name]
                plan = tool.draw(spec, mask.shape[::-1], OUT, batch["position"] + row)
                ours, our_labels = tool.run(image, mask, OUT, plan)
                rows += 1
                different += not np.array_equal(ours, batch["images"][row])
                labels += not np.array_equal(our_labels, batch["masks"][row])
        tap.ok(rows == BATCH * BATCHES and different == 0 and labels == 0,
               f"{spec}: {rows} rows of the loader bit-equal to their plans ({different} images, {labels} masks differ)")


def check_mixup(tap, tool, loader):
    """Pairs as torchvision's MixUp: every row with the one before it, roll(1)."""
    worst, wrong, lambdas = 0.0, 0, []
    for plain, mixed in zip(loader.batches("hflip(p=0.5)"), loader.batches("hflip(p=0.5),mixup(p=0.7,alpha=0.4)")):
        share = mixed["lambda"].astype(np.float64)
        images = plain["images"].astype(np.float64)
        other = np.roll(images, 1, axis=0)
        wanted = share[:, None, None, None] * images + (1 - share)[:, None, None, None] * other
        worst = max(worst, float(np.abs(mixed["images"] - wanted).max()))
        wrong += not np.array_equal(mixed["masks"], plain["masks"])
        used = share < 1
        wrong += not np.array_equal(mixed["masks_b"][used], np.roll(plain["masks"], 1, axis=0)[used])
        lambdas += list(share)
    tap.ok(worst <= 2 * augment_cases.ULP and wrong == 0, f"mixup: image within {2 * augment_cases.ULP:.1e} of lambda a + "
           f"(1 - lambda) b (worst {worst:.1e}), both masks exact ({wrong} wrong)")
    tap.ok(0 < sum(value < 1 for value in lambdas) < len(lambdas), "mixup: some rows are mixed and some are not")


def check_cutmix(tap, tool, loader, pictures):
    spec, wrong, cut = "hflip(p=0.5),cutmix(p=0.7)", 0, 0
    for plain, mixed in zip(loader.batches("hflip(p=0.5)"), loader.batches(spec)):
        images, masks = plain["images"].copy(), plain["masks"].copy()
        for row, name in enumerate(plain["names"]):
            plan = augment_cases.Plan(tool.draw(spec, pictures[name][1].shape[::-1], OUT, plain["position"] + row))
            kind, _, x, y, width, height = (int(value) for value in plan.mix)
            if kind:
                part = np.s_[..., y:y + height, x:x + width]
                images[row][part] = plain["images"][row - 1][part]
                masks[row][part] = plain["masks"][row - 1][part]
                cut += 1
        wrong += not (np.array_equal(images, mixed["images"]) and np.array_equal(masks, mixed["masks"]))
    tap.ok(cut > 0 and wrong == 0, f"cutmix: image and mask are the other's inside the box, exactly ({cut} rows cut, {wrong} "
           "batches wrong)")


def main():
    tool, tap = parity.AugmentTool(sys.argv[1]), parity.Tap()
    with tempfile.TemporaryDirectory() as folder:
        pictures, loader = make_set(folder), Loader(sys.argv[2], folder)
        check_plans(tap, tool, loader, pictures)
        check_mixup(tap, tool, loader)
        check_cutmix(tap, tool, loader, pictures)
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
