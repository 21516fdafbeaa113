# SPDX-License-Identifier: Apache-2.0
"""Compares the augmentation ops with what other libraries gave when augment_fixtures.tsv was made.
`augment_recorded.py TOOL FILE`"""
import sys

import augment_cases
import parity

SLACK = 1e-9  # of the decimal places in the file


def check(tap, tool, line):
    op, peer, spec, plan, picture, limit, samples, labels = line.split("\t")
    kind, *numbers = picture.split()
    seed, width, height, *out, normalize = (int(number) for number in numbers)
    image, mask = augment_cases.make_picture(kind, width, height, seed), augment_cases.make_labels(width, height)
    ours, our_labels = tool.run(image, mask, out, plan, normalize)
    pairs = [(float(ours.flat[at]), float(text)) for at, text in zip(parity.places(ours.size), samples.split())
             if text != "-"]
    worst = max((abs(a - b) for a, b in pairs), default=0.0)
    label_pairs = [(our_labels.flat[at], int(text)) for at, text in zip(parity.places(our_labels.size), labels.split())
                   if text != "-"]
    wrong = sum(a != b for a, b in label_pairs)
    name = f"{op} ({kind}) as recorded of {peer}"
    tap.ok(len(pairs) > 0 and worst <= float(limit) + SLACK and wrong == 0,
           f"{name}: {len(pairs)} samples within {float(limit):.1e} (worst {worst:.1e}), "
           f"{len(label_pairs) - wrong} of {len(label_pairs)} labels")
    if spec != "-":
        tap.ok(tool.draw(spec, (width, height), out, seed) == plan, f"{op}: {spec} still means this plan")


def main():
    tool, tap = parity.AugmentTool(sys.argv[1]), parity.Tap()
    with open(sys.argv[2], encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#"):
                print(line.rstrip("\n"))
            else:
                check(tap, tool, line.rstrip("\n"))
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
