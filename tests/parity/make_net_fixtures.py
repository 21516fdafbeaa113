# SPDX-License-Identifier: Apache-2.0
"""Records what transformers computes for the case of net_parity.RECORDED: make_net_fixtures.py TOOL > net_fixtures.tsv.
Needs torch and transformers; the weights are those the tool starts from (save=FOLDER)."""
import sys
import tempfile

import torch
import transformers

import net_live
import net_parity
import parity


def main():
    tool, batch = sys.argv[1], net_parity.recorded_batch()
    with tempfile.TemporaryDirectory() as folder:
        net_parity.run_tool(tool, [batch], save=folder, **{**net_parity.RECORDED, "steps": 1})
        net = transformers.SegformerForSemanticSegmentation.from_pretrained(
            folder, classifier_dropout_prob=0.0, drop_path_rate=0.0)
    old = net_live.renamed(net)
    results = net_live.run_torch(net, old, [batch], net_parity.RECORDED["steps"], 1, 0.0)
    print(f"# torch {torch.__version__}, transformers {transformers.__version__}; made by make_net_fixtures.py")
    for place in parity.places(results["logits"].size, 24):
        print(f"logit\t{place}\t{results['logits'][place]:.9g}")
    for step, loss in enumerate(results["losses"]):
        print(f"loss\t{step}\t{loss:.9g}")
    for key, gradient in results.items():
        if key.startswith("gradient:") and not net_parity.dead(key):
            norm, mixed = net_parity.summary(gradient)
            print(f"gradient\t{key[9:]}\t{norm:.9g}\t{mixed:.9g}")


if __name__ == "__main__":
    main()
