# SPDX-License-Identifier: Apache-2.0
"""The perceptual loss against recorded results of torch, for machines without it: perceptual_recorded.py TOOL FIXTURES."""
import sys
import tempfile

import parity
import perceptual_cases as cases
from net_parity import run_tool, summary
from net_recorded import read


def compare(tap, tool, name, case, rows):
    with tempfile.TemporaryDirectory() as folder:
        ours = run_tool(tool, [cases.batch_of(case, 2)], perceptual=cases.make_judge(tool, name, folder), **case)
    loss = float(next(row[1] for row in rows if row[0] == "loss"))
    apart = max(abs(ours[key][0] / loss - 1) for key in ("loss", "losses"))
    tap.ok(apart <= 1e-6, f"{name}: the loss within 1e-6, evaluated and trained ({apart:.1e})")
    worst, where = 0.0, "none"
    gradients = [row[1:] for row in rows if row[0] == "gradient"]
    for tensor, norm, mixed in gradients:
        mine, norm = summary(ours["gradient:" + tensor]), float(norm)
        # the mixed sum of a vector of this norm is about 5 norms: that is its scale, it may itself be near 0
        apart = max(abs(mine[0] / norm - 1), abs(mine[1] - float(mixed)) / (5 * norm))
        if not apart <= worst:
            worst, where = apart, tensor
    every = sum(key.startswith("gradient:") for key in ours)
    tap.ok(worst <= 1e-5 and len(gradients) == every,
           f"{name}: {len(gradients)} of {every} gradients within 1e-5 ({worst:.1e}, {where})")


def main():
    tool, fixtures = sys.argv[1:3]
    tap, recorded = parity.Tap(), read(fixtures)
    tap.ok(recorded.keys() == cases.CASES.keys(), f"{len(recorded)} cases are recorded")
    for name, case in cases.CASES.items():
        compare(tap, tool, name, case, recorded[name])
    tap.done()


if __name__ == "__main__":
    main()
