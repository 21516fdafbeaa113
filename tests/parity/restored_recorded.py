# SPDX-License-Identifier: Apache-2.0
"""Compares scores of restored pictures with what torchmetrics gave when restored_fixtures.tsv was made.
`restored_recorded.py TOOL FILE`"""
import sys

import numpy as np

import restored_cases as cases
import parity


def main():
    tool, tap = cases.RestoredTool(sys.argv[1]), parity.Tap()
    with open(sys.argv[2], encoding="ascii") as lines:
        recorded = dict(line.rstrip("\n").split("\t") for line in lines if not line.startswith("#"))
    for case in cases.CASES:
        if case.key() not in recorded:
            tap.ok(False, f"{case.title}: not recorded")
            continue
        theirs = np.array([float(word) for word in recorded.pop(case.key()).split()])
        ours, of_pictures = tool.scores(case)
        off, each = cases.far(ours, theirs[:3]), cases.far(of_pictures, theirs[3:].reshape(-1, 2))
        tap.ok(cases.close(off) and cases.close(each),
               f"{case.title}: PSNR off by {max(off[0], each[0]):.1e} of it, SSIM by {max(off[1], each[1]):.1e}")
        planar = tool.scores(case, "chw")
        tap.ok(np.array_equal(planar[0], ours) and np.array_equal(planar[1], of_pictures), f"{case.title}: the same from planes")
    tap.ok(not recorded, "every recorded case was compared")
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
