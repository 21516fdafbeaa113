# SPDX-License-Identifier: Apache-2.0
"""Pixels to score, by formula, and metrics_tool as a partner."""
from collections import namedtuple

import numpy as np

import parity

NAMES = ["mean IoU", "F1 macro", "F1 micro", "precision", "recall", "accuracy"]
DTYPES = {"u8": (0, np.uint8), "u16": (4, np.uint16), "i32": (5, np.int32), "i64": (6, np.int64)}
TOLERANCE = 2e-6  # torchmetrics divides in float32


class Case(namedtuple("Case", "title classes ignore dtype pixels truth_to predicted_to right seed")):
    """truth_to, predicted_to: classes below these occur; right: of 256 pixels so many are right, about."""

    def key(self):
        return f"{self.classes} {self.ignore} {self.dtype} {self.pixels} {self.truth_to} {self.predicted_to} {self.right} {self.seed}"

    def arrays(self):
        """Predictions and truth. Runs of 32 pixels have one class, as in masks; every eighth is ignored."""
        runs = -(-self.pixels // 32)
        of_run = parity.make_input(runs, 1, 1, 2, 2 * self.seed)[0, :, 0].astype(np.int64)
        truth = np.repeat(of_run % self.truth_to, 32)[:self.pixels]
        noise = parity.make_input(self.pixels, 1, 1, 2, 2 * self.seed + 100)[0, :, 0].astype(np.int64)
        predicted = np.where(noise % 256 < self.right, truth % self.predicted_to, (noise // 256) % self.predicted_to)
        if self.ignore != -1:
            truth = np.where(np.repeat(np.arange(runs) % 8 == 5, 32)[:self.pixels], self.ignore, truth)
        return predicted.astype(np.uint16), truth.astype(DTYPES[self.dtype][1])


CASES = [
    Case("19 classes", 19, 255, "u8", 20000, 19, 19, 180, 1),
    Case("no ignore_index", 7, -1, "i64", 5000, 7, 7, 100, 2),
    Case("classes absent in truth and prediction", 21, 255, "u8", 9000, 12, 12, 150, 3),
    Case("classes absent in truth alone", 12, 255, "u8", 9000, 5, 12, 150, 4),
    Case("classes never predicted", 12, 255, "i32", 9000, 12, 5, 150, 5),
    Case("150 classes", 150, 65535, "u16", 60000, 130, 150, 200, 6),
    Case("two classes", 2, 255, "u8", 3000, 2, 2, 200, 7),
    Case("one class alone, of four", 4, -1, "u8", 64, 1, 1, 0, 8),
    Case("everything right", 5, 255, "u8", 4000, 5, 5, 256, 9),
    Case("an ignored class that is predicted", 6, 3, "u8", 5000, 6, 6, 150, 10),
    Case("a few pixels", 3, 255, "u8", 5, 3, 3, 128, 11),
]


class MetricsTool(parity.Partner):
    def scores(self, case, classes=None):
        """Six means, and per class IoU, F1, precision, recall."""
        predicted, truth = case.arrays()
        classes = classes or case.classes
        answer = self._ask(f"scores {classes} {case.ignore} {DTYPES[case.dtype][0]} {case.pixels}",
                           8 * (6 + 4 * max(classes, 2)), predicted.tobytes() + truth.tobytes())
        numbers = np.frombuffer(answer, np.float64)
        return numbers[:6], numbers[6:].reshape(-1, 4)


def far(ours, theirs):
    """The largest distance; NaN agrees with NaN alone."""
    if not np.array_equal(np.isnan(ours), np.isnan(theirs)):
        return np.inf
    return float(np.nanmax(np.abs(ours - theirs), initial=0))
