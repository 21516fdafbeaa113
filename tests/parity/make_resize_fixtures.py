# SPDX-License-Identifier: Apache-2.0
"""Records what torch gives, for machines without it: `make_resize_fixtures.py > resize_fixtures.tsv`.

Inputs come from a formula (parity.make_input), outputs are kept as SHA-256 and their first bytes, so the file stays
small. resize_recorded.py compares. Run again only to record a newer torch; the versions stand in the file."""
import hashlib
import platform

import numpy as np
import torch

import parity

SIZES = [
    (512, 512, 256, 256), (480, 360, 512, 512), (640, 427, 512, 512), (256, 256, 224, 224), (37, 53, 37, 20),
    (37, 53, 90, 53), (1, 1, 7, 5), (7, 5, 1, 1), (1, 40, 3, 9), (40, 1, 9, 3), (2, 2, 3, 3), (3, 3, 2, 2),
    (1000, 3, 7, 300), (3, 1000, 300, 7), (255, 257, 256, 256), (101, 97, 33, 31), (33, 31, 101, 97),
    (719, 479, 512, 384), (16, 16, 15, 17), (12345, 4, 64, 4), (4, 12345, 4, 64),
]
DTYPES = {1: torch.float32, 2: torch.float16, 3: torch.bfloat16}


def row(job, data):
    print(f"{job}\t{hashlib.sha256(data).hexdigest()}\t{data[:8].hex()}")


def main():
    print(f"# torch {torch.__version__} numpy {np.__version__} {platform.machine()} "
          f"{torch.backends.cpu.get_cpu_capability()}")
    print("# job of resize_tool.c, SHA-256 of the answer, its first bytes")
    for seed, (w, h, ow, oh) in enumerate(SIZES):
        for channels in (1, 3):
            image = torch.from_numpy(parity.make_input(w, h, channels, 1, seed)).permute(2, 0, 1)[None]
            out = torch.nn.functional.interpolate(image, size=(oh, ow), mode="bilinear", antialias=True)
            row(f"linear {w} {h} {ow} {oh} {channels} 1 {seed}", out[0].permute(1, 2, 0).contiguous().numpy().tobytes())
    image = torch.from_numpy(parity.make_input(67, 19, 3, 1, 4)).permute(2, 0, 1)
    for dtype, kind in DTYPES.items():
        for layout in (0, 1):
            for hflip in (0, 1):
                unit = image.flip(2) if hflip else image
                unit = unit.to(torch.float32).div(255).to(kind)
                unit = (unit if layout == 0 else unit.permute(1, 2, 0)).contiguous()
                row(f"write 67 19 {dtype} {layout} 0 {hflip} 1 4", unit.view(torch.uint8).numpy().tobytes())


main()
