# SPDX-License-Identifier: Apache-2.0
"""The network against recorded results of transformers, for machines without it: net_recorded.py TOOL FIXTURES."""
import sys

import net_parity
import parity


def read(fixtures):
    """Rows by case."""
    cases = {}
    for line in open(fixtures):
        fields = line.rstrip("\n").split("\t")
        if fields[0] == "case":
            rows = cases[fields[1]] = []
        elif not line.startswith("#"):
            rows.append(fields)
    return cases


def compare_gradients(tap, name, ours, rows):
    """Norm and mixed sum of every tensor, to 1e-5 or four times what torch's float32 is off at worst, and the middle one of
    them to 5e-6 (net_live.py says why)."""
    worst, where, all_apart = 0.0, "none", []
    limit = max(1e-5, 4 * max(float(row[4]) for row in rows))
    for _, tensor, norm, mixed, _ in rows:
        mine, norm = net_parity.summary(ours["gradient:" + tensor]), float(norm)
        # the mixed sum of a vector of this norm is about 5 norms: that is its scale, it may itself be near 0
        apart = max(abs(mine[0] / norm - 1), abs(mine[1] - float(mixed)) / (5 * norm))
        all_apart.append(apart)
        if not apart <= worst:
            worst, where = apart, tensor
    trained = sum(key.startswith("gradient:") and not net_parity.dead(key) for key in ours)
    middle = sorted(all_apart)[len(all_apart) // 2]
    tap.ok(worst <= limit and middle <= 5e-6 and len(rows) == trained,
           f"{name}: {len(rows)} of {trained} gradients within {limit:.1e} (worst {worst:.1e}, {where}; middle {middle:.1e})")


def compare(tap, name, ours, rows):
    logits = [(ours["logits"][int(row[1])], float(row[2])) for row in rows if row[0] == "logit"]
    scale = max(abs(theirs) for _, theirs in logits)
    apart = max(abs(mine - theirs) for mine, theirs in logits) / scale
    tap.ok(apart <= 1e-5, f"{name}: {len(logits)} logits within 1e-5 of the largest ({apart:.1e})")
    losses = [abs(ours["losses"][int(row[1])] / float(row[2]) - 1) for row in rows if row[0] == "loss"]
    tap.ok(losses[0] <= 1e-6, f"{name}: the first loss within 1e-6 ({losses[0]:.1e})")
    tap.ok(max(losses) <= 1e-4, f"{name}: {len(losses)} losses of AdamW within 1e-4 ({max(losses):.1e})")
    compare_gradients(tap, name, ours, [row for row in rows if row[0] == "gradient"])


def main():
    tool, fixtures = sys.argv[1:3]
    tap = parity.Tap()
    recorded = read(fixtures)
    tap.ok(recorded.keys() == net_parity.RECORDED.keys(), f"{len(recorded)} cases are recorded")
    for name, case in net_parity.RECORDED.items():
        ours = net_parity.run_tool(tool, [net_parity.recorded_batch(case)], **case)
        compare(tap, name, ours, recorded[name])
    lr, case = 1e-2, net_parity.RECORDED["5 classes, 64x64"]
    one = net_parity.run_tool(tool, [net_parity.recorded_batch(case)], **{**case, "steps": 1, "lr": lr})
    wrong, groups = net_parity.groups_wrong(one, lr)
    tap.ok(not wrong, f"AdamW's groups are the paper's: {groups} {wrong[:3] or ''}")
    tap.done()


if __name__ == "__main__":
    main()
