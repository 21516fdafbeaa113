# SPDX-License-Identifier: Apache-2.0
"""Records what other libraries give for the cases of augment_cases.py, for machines without them:

  make_augment_fixtures.py TOOL > augment_fixtures.tsv

Inputs come from a formula; of an answer a dozen samples and labels are kept at places from a formula, so the file stays small.
The plan is kept as numbers: what is drawn may change, what a plan means may not. augment_recorded.py compares. Run again only
to record newer versions or new cases; the versions stand in the file."""
import platform
import sys

import augment_cases
import parity

SIZE = (48, 40)
SEED = 1
COLUMNS = ["op", "peer", "spec, or - if it draws", "plan", "picture seed width height out_width out_height normalize", "limit",
           "samples", "labels"]


def samples(case, result):
    """A dozen of the image; - where the case does not compare."""
    compared = augment_cases.compared(case, result)
    return " ".join(f"{result.theirs.flat[at]:.9g}" if compared.flat[at] else "-"
                    for at in parity.places(result.theirs.size))


def labels(case, result):
    """A dozen; - at ties, and everywhere for a peer that is loose about them."""
    loose = case.labels is not None and case.labels > 0 and not case.ties_only
    tie = augment_cases.near_tie(result) if case.ties_only else None
    return " ".join("-" if loose or (tie is not None and tie.flat[at]) else str(result.their_labels.flat[at])
                    for at in parity.places(result.their_labels.size))


def main():
    tool, peers = parity.AugmentTool(sys.argv[1]), augment_cases.Peers()
    print(f"# {platform.machine()}; torch {peers.torch.__version__}")
    print("# " + "\t".join(COLUMNS))
    for case in augment_cases.cases():
        if case.lacks(peers):
            sys.exit(f"{case.title()}: {case.lacks(peers)}")
        size = case.size or SIZE
        out = case.out or size
        result = augment_cases.run_both(case, tool, peers, size, SEED)
        numbers = [SEED, *size, *out, case.normalize]
        print(case.op, peers.version(case.package), case.spec if case.pinned else "-", result.plan.text,
              " ".join([case.picture, *map(str, numbers)]), f"{case.limit:.3g}", samples(case, result),
              labels(case, result), sep="\t")
    if tool.close():
        sys.exit("the tool failed")


main()
