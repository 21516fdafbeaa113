# SPDX-License-Identifier: Apache-2.0
"""The scores torchmetrics gives; imported where it is installed."""
import numpy as np
import torch
import torchmetrics.classification as tm
from torchmetrics import __version__ as version  # noqa: F401  (for titles)


def _made(case):
    predicted, truth = case.arrays()
    return torch.from_numpy(predicted.astype(np.int64)), torch.from_numpy(truth.astype(np.int64))


def _run(metric, case):
    """In three pieces, as batches come: the counts are added up by the metric."""
    predicted, truth = _made(case)
    for piece in np.array_split(np.arange(case.pixels), 3):
        if piece.size:
            metric.update(predicted[piece], truth[piece])
    return metric.compute().numpy().astype(np.float64)


def scores(case):
    """Six means in the order of metrics_cases.NAMES, and per class IoU, F1, precision, recall."""
    how = {"num_classes": case.classes, "ignore_index": None if case.ignore == -1 else case.ignore}
    kinds = [tm.MulticlassJaccardIndex, tm.MulticlassF1Score, tm.MulticlassPrecision, tm.MulticlassRecall]
    macro = [float(_run(kind(average="macro", **how), case)) for kind in kinds]
    micro = [float(_run(kind(average="micro", **how), case)) for kind in (tm.MulticlassF1Score, tm.MulticlassAccuracy)]
    means = np.array([macro[0], macro[1], micro[0], macro[2], macro[3], micro[1]])
    return means, np.stack([_run(kind(average="none", **how), case) for kind in kinds], axis=1)


def binary(case):
    """IoU, F1, precision, recall of the foreground."""
    how = {"ignore_index": None if case.ignore == -1 else case.ignore}
    kinds = [tm.BinaryJaccardIndex, tm.BinaryF1Score, tm.BinaryPrecision, tm.BinaryRecall]
    return np.array([float(_run(kind(**how), case)) for kind in kinds])
