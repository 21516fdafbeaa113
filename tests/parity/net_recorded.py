# SPDX-License-Identifier: Apache-2.0
"""The network against recorded results of transformers, for machines without it: net_recorded.py TOOL FIXTURES."""
import sys

import numpy as np

import net_parity
import parity


def main():
    tool, fixtures = sys.argv[1:3]
    rows = [line.rstrip("\n").split("\t") for line in open(fixtures) if not line.startswith("#")]
    ours = net_parity.run_tool(tool, [net_parity.recorded_batch()], **net_parity.RECORDED)
    tap = parity.Tap()
    logits = [(ours["logits"][int(row[1])], float(row[2])) for row in rows if row[0] == "logit"]
    scale = max(abs(theirs) for _, theirs in logits)
    apart = max(abs(mine - theirs) for mine, theirs in logits) / scale
    tap.ok(apart <= 1e-5, f"{len(logits)} logits within 1e-5 of the largest ({apart:.1e})")
    losses = [(ours["losses"][int(row[1])], float(row[2])) for row in rows if row[0] == "loss"]
    apart = max(abs(mine / theirs - 1) for mine, theirs in losses)
    tap.ok(abs(losses[0][0] / losses[0][1] - 1) <= 1e-6, "the first loss within 1e-6")
    tap.ok(apart <= 1e-4, f"{len(losses)} losses of AdamW within 1e-4 ({apart:.1e})")
    worst, where = 0.0, "none"
    gradients = [row for row in rows if row[0] == "gradient"]
    for _, name, norm, mixed in gradients:
        mine = net_parity.summary(ours["gradient:" + name])
        # the mixed sum of a vector of this norm is about 5 norms: that is its scale, it may itself be near 0
        apart = max(abs(mine[0] / float(norm) - 1), abs(mine[1] - float(mixed)) / (5 * float(norm)))
        if not apart <= worst:
            worst, where = apart, name
    tap.ok(worst <= 1e-3 and np.isfinite(worst), f"{len(gradients)} gradients within 1e-3 (worst {worst:.1e}, {where})")
    tap.done()


if __name__ == "__main__":
    main()
