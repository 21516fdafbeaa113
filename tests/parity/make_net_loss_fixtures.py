# SPDX-License-Identifier: Apache-2.0
"""Records what torch gives, for machines without it: `make_net_loss_fixtures.py > net_loss_fixtures.tsv`.

Inputs come from a formula (net_loss_cases.py); of the answers the loss, the norm and some elements are kept."""
import platform

import numpy as np
import torch

import net_loss_cases as cases
import net_loss_torch
import parity


def row(key, first, vector):
    numbers = [first, np.linalg.norm(vector)] + [vector[i] for i in parity.places(vector.size)]
    print(key + "\t" + " ".join(f"{number:.9g}" for number in numbers))


def main():
    print(f"# torch {torch.__version__} numpy {np.__version__} {platform.machine()}, float64")
    print("# job of net_loss_tool.c and whether labels are ignored; loss, norm of the gradient, elements of it")
    print("# (parity.places); updates: norm of the average, norm of the values, elements of them")
    for case in cases.LOSSES:
        row(case.key(), *net_loss_torch.loss(case))
    for case in cases.UPDATES:
        values, average = net_loss_torch.update(case)
        row(case.key(), np.linalg.norm(average), values)


main()
