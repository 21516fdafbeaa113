# SPDX-License-Identifier: Apache-2.0
"""Records what transformers computes in float64 for the cases of net_parity.RECORDED, and how far its float32 is from that:
make_net_fixtures.py TOOL > net_fixtures.tsv. Needs torch and transformers; the weights are those the tool starts from.
With --seeds: how near to 0 the decoder's ReLU gets with each seed instead, to choose from."""
import sys
import tempfile

import torch
import transformers

import net_parity
import net_torch
import parity


def start(tool, case, batch):
    """The network the tool starts from."""
    with tempfile.TemporaryDirectory() as folder:
        net_parity.run_tool(tool, [batch], save=folder, **{**case, "steps": 0})
        return transformers.SegformerForSemanticSegmentation.from_pretrained(
            folder, classifier_dropout_prob=0.0, drop_path_rate=0.0)


def choose(tool):
    for name, case in net_parity.RECORDED.items():
        batch, nearest = net_parity.recorded_batch(case), {}
        for seed in range(1, 13):
            net = start(tool, {**case, "seed": seed}, batch)
            nearest[seed] = float(net_torch.before_relu(net, [batch]).abs().min())
        best = max(nearest, key=nearest.get)
        print(f"{name}: seed {best}, nothing within {nearest[best]:.1e} of 0")


def record(tool, name, case):
    batch = net_parity.recorded_batch(case)
    net = start(tool, case, batch)
    old = net_torch.renamed(net)
    double = net_torch.run_torch(net, old, [batch], case["steps"], dtype=torch.float64)
    single = net_torch.run_torch(net, old, [batch], 1)
    print(f"case\t{name}")
    for place in parity.places(double["logits"].size, 24):
        print(f"logit\t{place}\t{double['logits'][place]:.9g}")
    for step, loss in enumerate(double["losses"]):
        print(f"loss\t{step}\t{loss:.9g}")
    for key, gradient in double.items():
        if key.startswith("gradient:") and not net_parity.dead(key):
            norm, mixed = net_parity.summary(gradient)
            own = net_parity.distance(single[key], gradient)
            print(f"gradient\t{key[9:]}\t{norm:.9g}\t{mixed:.9g}\t{own:.1e}")


def main():
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    tool = sys.argv[1]
    if "--seeds" in sys.argv[2:]:
        choose(tool)
        return
    print(f"# torch {torch.__version__} in float64, transformers {transformers.__version__}; made by make_net_fixtures.py")
    print("# gradient: name, norm, mixed sum, relative distance of torch's float32")
    for name, case in net_parity.RECORDED.items():
        record(tool, name, case)


if __name__ == "__main__":
    main()
