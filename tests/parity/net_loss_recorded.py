# SPDX-License-Identifier: Apache-2.0
"""Compares losses and updates with what torch gave when net_loss_fixtures.tsv was made. `net_loss_recorded.py TOOL FILE`"""
import sys

import numpy as np

import net_loss_cases as cases
import parity


def answer(tool, case):
    """The numbers make_net_loss_fixtures.py keeps."""
    if isinstance(case, cases.LossCase):
        first, vector = tool.loss(case)
    else:
        vector, average = tool.update(case)
        first = np.linalg.norm(average.astype(np.float64))
    return np.array([first, np.linalg.norm(vector.astype(np.float64))] + [vector[i] for i in parity.places(vector.size)])


def main():
    tool, tap = cases.LossTool(sys.argv[1]), parity.Tap()
    with open(sys.argv[2], encoding="ascii") as lines:
        recorded = dict(line.rstrip("\n").split("\t") for line in lines if not line.startswith("#"))
    for case in cases.LOSSES + cases.UPDATES:
        if case.key() not in recorded:
            tap.ok(False, f"{case.title()}: not recorded")
            continue
        ours, theirs = answer(tool, case), np.array([float(word) for word in recorded.pop(case.key()).split()])
        far = np.abs(ours[:2] / theirs[:2] - 1).max()
        # one element may be small beside the others: it is held to the norm
        elements = np.abs(ours[2:] - theirs[2:]).max() / theirs[1]
        tap.ok(far <= cases.GRADIENT_TOLERANCE and elements <= cases.GRADIENT_TOLERANCE,
               f"{case.title()}: off by {far:.1e}, elements by {elements:.1e}")
    tap.ok(not recorded, "every recorded case was compared")
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
