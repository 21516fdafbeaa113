# SPDX-License-Identifier: Apache-2.0
"""Compares scores with what torchmetrics gave when metrics_fixtures.tsv was made. `metrics_recorded.py TOOL FILE`"""
import sys

import numpy as np

import metrics_cases as cases
import parity


def main():
    tool, tap = cases.MetricsTool(sys.argv[1]), parity.Tap()
    with open(sys.argv[2], encoding="ascii") as lines:
        recorded = dict(line.rstrip("\n").split("\t") for line in lines if not line.startswith("#"))
    for case in cases.CASES:
        if case.key() not in recorded:
            tap.ok(False, f"{case.title}: not recorded")
            continue
        theirs = np.array([float(word) for word in recorded.pop(case.key()).split()])
        means, classes = tool.scores(case)
        off = cases.far(means, theirs[:6])
        sums = np.abs(np.nansum(classes, 0) - theirs[6:]).max() / case.classes
        tap.ok(max(off, sums) <= cases.TOLERANCE, f"{case.title}: means off by {off:.1e}, classes by {sums:.1e}")
    tap.ok(not recorded, "every recorded case was compared")
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
