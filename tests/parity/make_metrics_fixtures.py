# SPDX-License-Identifier: Apache-2.0
"""Records what torchmetrics gives, for machines without it: `make_metrics_fixtures.py > metrics_fixtures.tsv`."""
import numpy as np
import torch

import metrics_cases as cases
import metrics_torch


def main():
    print(f"# torchmetrics {metrics_torch.version} torch {torch.__version__} numpy {np.__version__}")
    print("# case (metrics_cases.py), " + ", ".join(cases.NAMES) + ", then sums over the classes of IoU, F1, precision, recall")
    for case in cases.CASES:
        means, classes = metrics_torch.scores(case)
        print(case.key() + "\t" + " ".join(f"{number:.9g}" for number in [*means, *classes.sum(0)]))


main()
