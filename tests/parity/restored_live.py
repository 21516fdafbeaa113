# SPDX-License-Identifier: Apache-2.0
"""Scores of restored pictures against the torchmetrics that is installed (scripts/test puts one into BUILD/python-packages;
torch must be there). `restored_live.py TOOL`"""
import sys

import restored_cases as cases
import parity


def main():
    tap = parity.Tap()
    missing = parity.need("torch", "torchmetrics", "lightning_utilities")
    if missing:
        tap.skip("scores of restored pictures against torchmetrics", f"{missing} is not installed")
        tap.done()
    import restored_torch
    tool = cases.RestoredTool(sys.argv[1])
    print(f"# torchmetrics {restored_torch.version}")
    for case in cases.CASES:
        (ours, of_pictures), (theirs, of_theirs) = tool.scores(case), restored_torch.scores(case)
        off, each = cases.far(ours, theirs), cases.far(of_pictures, of_theirs)
        tap.ok(cases.close(off), f"{case.title}: PSNR {ours[0]:.5f} off by {off[0]:.1e} of it, SSIM {ours[1]:.6f} by {off[1]:.1e}")
        tap.ok(cases.close(each), f"{case.title}: of each picture PSNR off by {each[0]:.1e}, SSIM by {each[1]:.1e}")
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
