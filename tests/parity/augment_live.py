# SPDX-License-Identifier: Apache-2.0
"""Live parity of the augmentation ops with the libraries at hand. `augment_live.py TOOL [--markdown]`

--markdown prints the table of docs/parity.md instead of test points."""
import math
import sys

import numpy as np

import augment_cases
import parity

SIZES = [(64, 48), (160, 120), (131, 97)]
SEEDS = 3


def run_case(case, peers, tool):
    """Over all sizes and seeds: (good, largest and mean difference, largest share of labels that differ)."""
    good, worst, mean, share = True, 0.0, 0.0, 0.0
    for size in [case.size] if case.size else SIZES:
        for seed in range(SEEDS):
            result = augment_cases.run_both(case, tool, peers, size, seed)
            delta = augment_cases.differences(case, result)
            fine, differ = augment_cases.compare_labels(case, result)
            good &= fine
            worst, mean, share = max(worst, float(delta.max())), max(mean, float(delta.mean())), max(share, differ)
    return good and worst <= case.limit and mean <= case.mean_limit, worst, mean, share


def limit_words(limit):
    return "exact" if limit == 0 else f"{limit:.1e}"


def label_words(case):
    return "untouched" if case.labels is None else "exact" if case.labels == 0 else \
        f"{case.labels:.2%}, at ties" if case.ties_only else f"{case.labels:.1%}"


def check_cases(tap, tool, peers, markdown):
    for case in augment_cases.cases():
        needs = [case.package] + (["torchvision"] if case.op == "chain" else [])
        missing = [package for package in needs if not peers.has(package)]
        why = f"{missing[0]} is not installed" if missing else case.lacks(peers)
        if why:
            tap.skip(case.title(), why)
            continue
        good, worst, mean, share = run_case(case, peers, tool)
        if markdown:
            print(f"| {case.op} | {peers.version(case.package)} | {case.picture} | {limit_words(case.limit)} | "
                  f"{worst:.1e} | {label_words(case)} | {share:.3%} | {case.why} |")
        else:
            tap.ok(good, f"{case.op} ({case.picture}) beside {peers.version(case.package)}: image {worst:.1e} (allowed "
                   f"{limit_words(case.limit)}), mean {mean:.1e}; labels {share:.3%} (allowed {label_words(case)})")


def check_noise(tap, tool):
    """The field is ours alone, so: its distribution, and that adding it is adding it."""
    std, size = 0.03, (320, 240)
    flat, image = (augment_cases.make_picture(kind, *size, 1) for kind in ("flat", "noise"))
    labels = augment_cases.make_labels(*size)
    plan = tool.draw(f"gaussian_noise(p=1,std={std})", size, size, 5)
    noise = tool.run(flat, labels, size, plan)[0].astype(np.float64) - 128 / 255
    z, count = noise.ravel() / std, noise.size
    tap.ok(abs(z.mean()) < 4 / math.sqrt(count), f"noise: mean {z.mean():.1e} sigma, within 4 / sqrt(n)")
    tap.ok(abs(z.var() - 1) < 4 * math.sqrt(2 / count), f"noise: variance {z.var():.4f}, within 4 sqrt(2 / n) of 1")
    order = np.sort(z)
    cdf = 0.5 * (1 + np.array([math.erf(value / math.sqrt(2)) for value in order]))
    distance = float(np.abs(cdf - (np.arange(count) + 0.5) / count).max())
    tap.ok(distance < 1.95 / math.sqrt(count), f"noise: Kolmogorov's distance {distance:.1e} from the normal distribution, "
           f"below that of p = 0.001 ({1.95 / math.sqrt(count):.1e})")
    neighbours = {"columns": (noise[:, :, 1:], noise[:, :, :-1]), "rows": (noise[:, 1:], noise[:, :-1]),
                  "channels": (noise[1:], noise[:-1])}
    for name, (a, b) in neighbours.items():
        correlation = float(np.corrcoef(a.ravel(), b.ravel())[0, 1])
        tap.ok(abs(correlation) < 4 / math.sqrt(a.size), f"noise: neighbouring {name} correlate by {correlation:.1e}, "
               "within 4 / sqrt(n)")
    ours = tool.run(image, labels, size, plan)[0]
    sum_ = np.clip(image.transpose(2, 0, 1) / 255 + noise, 0, 1)
    worst = float(np.abs(ours - sum_).max())
    tap.ok(worst <= 4 * augment_cases.ULP, f"noise: added and clipped as torchvision does, within "
           f"{4 * augment_cases.ULP:.1e} (worst {worst:.1e})")


def main():
    tool, tap, peers = parity.AugmentTool(sys.argv[1]), parity.Tap(), augment_cases.Peers()
    check_cases(tap, tool, peers, "--markdown" in sys.argv)
    if "--markdown" in sys.argv:
        return
    check_noise(tap, tool)
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
