# SPDX-License-Identifier: Apache-2.0
"""Scores against the torchmetrics that is installed (scripts/test puts one into BUILD/python; torch must be there).
`metrics_live.py TOOL`"""
import os
import sys

import numpy as np

import metrics_cases as cases
import parity

sys.path.append(os.environ.get("STOKE_TEST_PYTHON", ""))


def per_class(theirs, ours):
    """torchmetrics gives 0 to a class that occurs nowhere, where we give NaN; its means leave the class out."""
    return np.where(np.isnan(ours), np.nan, theirs)


def main():
    tap = parity.Tap()
    missing = parity.need("torch", "torchmetrics", "lightning_utilities")
    if missing:
        tap.skip("scores against torchmetrics", f"{missing} is not installed")
        tap.done()
    import metrics_torch
    tool = cases.MetricsTool(sys.argv[1])
    print(f"# torchmetrics {metrics_torch.version}")
    for case in cases.CASES:
        (means, classes), (their_means, their_classes) = tool.scores(case), metrics_torch.scores(case)
        off = cases.far(means, their_means)
        tap.ok(off <= cases.TOLERANCE, f"{case.title}: means off by {off:.1e} (mean IoU {means[0]:.6f}, theirs {their_means[0]:.6f})")
        absent = np.isnan(classes[:, 0])
        off = cases.far(classes, per_class(their_classes, classes))
        tap.ok(off <= cases.TOLERANCE and not their_classes[absent].any(),
               f"{case.title}: scores of the classes off by {off:.1e}, {absent.sum()} of {len(classes)} absent")
    for case in cases.CASES:
        if case.classes == 2:
            off = cases.far(tool.scores(case, classes=1)[1][1], metrics_torch.binary(case))
            tap.ok(off <= cases.TOLERANCE, f"one class, {case.title}: the foreground's scores off by {off:.1e}")
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
