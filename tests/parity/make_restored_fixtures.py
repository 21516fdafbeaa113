# SPDX-License-Identifier: Apache-2.0
"""Records what torchmetrics gives, for machines without it: `make_restored_fixtures.py > restored_fixtures.tsv`."""
import numpy as np
import torch

import restored_cases as cases
import restored_torch


def main():
    print(f"# torchmetrics {restored_torch.version} torch {torch.__version__} numpy {np.__version__}")
    print("# case (restored_cases.py), " + ", ".join(cases.NAMES) + ", then PSNR and SSIM of each picture")
    for case in cases.CASES:
        means, of_pictures = restored_torch.scores(case)
        print(case.key() + "\t" + " ".join(f"{number:.9g}" for number in [*means, *of_pictures.ravel()]))


main()
