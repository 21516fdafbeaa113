# SPDX-License-Identifier: Apache-2.0
"""What torch makes of the perceptual loss, for machines without it: make_perceptual_fixtures.py TOOL > perceptual_fixtures.tsv"""
import os
import sys
import tempfile

import torch

import perceptual_cases as cases
import perceptual_torch
from net_parity import run_tool, summary


def main():
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python"))
    from load_networks import load
    print("# made by make_perceptual_fixtures.py: loss; of each gradient norm and mixed sum; torch", torch.__version__, "in float64")
    for name, case in cases.CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            judge, start, batch = cases.make_judge(sys.argv[1], name, folder), os.path.join(folder, "start"), cases.batch_of(case, 2)
            run_tool(sys.argv[1], [batch], save=start, **case)
            tensors = {key: torch.from_numpy(array) for key, array in cases.vgg_tensors(cases.VGGS.get(name, []), 2).items()}
            features = perceptual_torch.vgg_features(tensors) if tensors else \
                perceptual_torch.segformer_features(judge, torch.float64)
            results = perceptual_torch.run(load(start), case, batch, features, torch.float64)
        print(f"case\t{name}\nloss\t{results.pop('loss')[0]:.9g}")
        for key, gradient in results.items():
            print("gradient\t{}\t{:.9g}\t{:.9g}".format(key[9:], *summary(gradient)))


if __name__ == "__main__":
    main()
