# SPDX-License-Identifier: Apache-2.0
"""Losses, their gradients and optimiser steps against the torch that is installed. `net_loss_live.py TOOL`"""
import sys

import net_loss_cases as cases
import parity


def main():
    tap = parity.Tap()
    if parity.need("torch"):
        tap.skip("losses and updates against torch", "torch is not installed")
        tap.done()
    import net_loss_torch
    import torch
    tool = cases.LossTool(sys.argv[1])
    print(f"# torch {torch.__version__}, float64; distances are relative")
    for case in cases.LOSSES:
        ours, theirs = tool.loss(case), net_loss_torch.loss(case)
        off, far = abs(ours[0] - theirs[0]) / theirs[0], cases.distance(ours[1], theirs[1])
        tap.ok(off <= cases.LOSS_TOLERANCE and far <= cases.GRADIENT_TOLERANCE,
               f"{case.title()}: loss {ours[0]:.7f} off by {off:.1e}, gradient by {far:.1e}")
    for case in cases.UPDATES:
        ours, theirs = tool.update(case), net_loss_torch.update(case)
        far = [cases.distance(ours[k], theirs[k]) for k in range(2)]
        tap.ok(max(far) <= cases.UPDATE_TOLERANCE, f"{case.title()}: values off by {far[0]:.1e}, average by {far[1]:.1e}")
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
