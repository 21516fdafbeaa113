# SPDX-License-Identifier: Apache-2.0
"""Pairs of pictures by formula, and restored_tool as a partner."""
from collections import namedtuple

import numpy as np

import parity

NAMES = ["PSNR", "SSIM", "mean PSNR of pictures"]
PSNR_TOLERANCE = 1e-6  # relative: torchmetrics sums squares in float32
SSIM_TOLERANCE = 1e-5  # it takes variances in float32, as differences


class Case(namedtuple("Case", "title height width pictures range noise seed")):
    """range: 1, float32; 255, bytes. noise: of 256, of what the restored pictures are off by."""

    def key(self):
        return f"{self.height} {self.width} {self.pictures} {self.range} {self.noise} {self.seed}"

    def arrays(self):
        """Restored pictures and targets, [pictures][height][width][3], float32 or uint8. Waves that every picture has in
        another length, an even corner, and noise in the restored ones, more from picture to picture."""
        shape = (self.pictures, self.height, self.width, 3)
        n, y, x, c = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij")
        target = 0.5 + 0.3 * np.sin(0.1 * (n + 1) * x + c) * np.cos(0.07 * y + self.seed)
        target[:, :self.height // 3, :self.width // 3] = 0.25
        noise = parity.make_input(self.width, self.height * self.pictures, 3, 2, 2 * self.seed).reshape(shape) / 65535 - 0.5
        found = target + self.noise / 256 * noise * (n + 1)
        pair = np.stack([np.clip(found, 0, 1), target])
        return np.round(255 * pair).astype(np.uint8) if self.range == 255 else pair.astype(np.float32)


CASES = [
    Case("pictures of 64x64", 64, 64, 4, 1, 40, 1),
    Case("bytes", 48, 70, 3, 255, 30, 2),
    Case("much noise", 40, 40, 2, 1, 200, 3),
    Case("little noise", 96, 80, 2, 1, 3, 4),
    Case("a picture smaller than the window", 6, 9, 3, 1, 50, 5),
    Case("one line of windows", 11, 120, 1, 1, 50, 6),
    Case("large pictures", 300, 260, 1, 255, 20, 7),
]


class RestoredTool(parity.Partner):
    def scores(self, case, layout="hwc"):
        """Numbers in the order of NAMES, then PSNR and SSIM of each picture."""
        pair = case.arrays()
        if layout == "chw":
            pair = np.ascontiguousarray(pair.transpose(0, 1, 4, 2, 3))
        answer = self._ask(f"{layout} {case.height} {case.width} {case.pictures} {case.range}", 8 * (3 + 2 * case.pictures),
                           pair.tobytes())
        numbers = np.frombuffer(answer, np.float64)
        return numbers[:3], numbers[3:].reshape(-1, 2)


def far(ours, theirs):
    """How far two arrays of PSNR (relative) and of SSIM are apart, of (PSNR, SSIM) or NAMES."""
    ours, theirs = np.atleast_2d(ours), np.atleast_2d(theirs)
    of_psnr = [column for column in range(ours.shape[1]) if column != 1]
    return (float((np.abs(ours - theirs) / np.abs(theirs))[:, of_psnr].max()), float(np.abs(ours - theirs)[:, 1].max()))


def close(off):
    return off[0] <= PSNR_TOLERANCE and off[1] <= SSIM_TOLERANCE
