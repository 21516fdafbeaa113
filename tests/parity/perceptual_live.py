# SPDX-License-Identifier: Apache-2.0
"""Live parity of the perceptual loss with torch's autograd: perceptual_live.py TOOL. A small network restores pictures and is
judged by the features of a VGG or SegFormer: its loss, in evaluation too, and every gradient against float64 there. One case has
torchvision's own vgg16, saved in the three lines that docs/train.md shows."""
import os
import sys
import tempfile

import parity
import perceptual_cases as cases
from net_parity import distance, run_tool


def compare(tap, load, tool, name, case, judge, features):
    """`features`: of a type of floats."""
    import torch

    import perceptual_torch
    with tempfile.TemporaryDirectory() as folder:
        batch = cases.batch_of(case, 2)
        ours = run_tool(tool, [batch], save=folder, perceptual=judge, **case)
        double = perceptual_torch.run(load(folder), case, batch, features(torch.float64), torch.float64)
        single = perceptual_torch.run(load(folder), case, batch, features(torch.float32), torch.float32)
        again = {memory: run_tool(tool, [batch], perceptual=judge, memory=memory, threads=memory, **case) for memory in (1, 2)}
        without = run_tool(tool, [batch], **case)
        halves = [run_tool(tool, [batch], perceptual=judge, precision=precision, **case) for precision in (1, 2)]
    gradients = [key for key in double if key.startswith("gradient:")]
    share = min(distance(without[key], double[key]) for key in gradients)
    tap.ok(share >= 0.5, f"{name}: without the features no gradient is within 0.5 ({share:.2g})")
    apart = max(abs(ours[key][0] / double["loss"][0] - 1) for key in ("loss", "losses"))
    tap.ok(apart <= 1e-6, f"{name}: the loss within 1e-6, evaluated and trained ({apart:.1e})")
    # a ReLU, a maximum or a sign that rounding turns over moves a gradient by as much in torch's own float32
    own = max(distance(single[key], double[key]) for key in gradients)
    limit = min(max(1e-5, 4 * own), 1e-3)
    worst = max(gradients, key=lambda key: distance(ours[key], double[key]))
    apart = distance(ours[worst], double[worst])
    tap.ok(apart <= limit, f"{name}: every gradient within {limit:.1e} ({apart:.1e}, {worst[9:]}; torch's float32 {own:.1e})")
    tap.ok(all((again[memory][key] == ours[key]).all() for memory in again for key in gradients + ["losses"]),
           f"{name}: lean and min give the same bits")
    for kind, scale, limit, half in zip(("bf16", "fp16"), (1, 65536), (0.1, 0.02), halves):
        # the mean over few elements has gradients so large that fp16 overflows at its first scale
        if kind == "fp16" and batch[0].size < 3000:
            continue
        apart = max(distance(half[key] / scale, double[key]) for key in gradients)
        tap.ok(apart <= limit, f"{name}: in {kind} every gradient within {limit:g} ({apart:.1e})")


def compare_vgg16(tap, load, tool, folder):
    import safetensors.torch
    import torchvision

    import perceptual_torch
    net = torchvision.models.vgg16().features
    safetensors.torch.save_file(net.state_dict(), os.path.join(folder, "vgg16.safetensors"))
    tensors = {"features." + name: tensor for name, tensor in net.state_dict().items()}
    case = dict(cases.CASES["vgg16"], size="32x40", batch=1)
    compare(tap, load, tool, "torchvision's vgg16", case, os.path.join(folder, "vgg16.safetensors"),
            lambda dtype: perceptual_torch.vgg_features(tensors))


def main():
    missing = parity.need("torch", "safetensors")
    if missing:
        print(f"1..0 # SKIP {missing} is not installed")
        return 0
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python"))
    import torch
    from load_networks import load

    import perceptual_torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    tap, tool = parity.Tap(), sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases.CASES.items():
            if name not in cases.VGGS and parity.need("transformers"):
                tap.skip(name, "transformers is not installed")
                continue
            judge = cases.make_judge(tool, name, folder)
            if name in cases.VGGS:
                tensors = {key: torch.from_numpy(array) for key, array in cases.vgg_tensors(cases.VGGS[name], 2).items()}
                compare(tap, load, tool, name, case, judge, lambda dtype, t=tensors: perceptual_torch.vgg_features(t))
            else:
                compare(tap, load, tool, name, case, judge,
                        lambda dtype, j=judge: perceptual_torch.segformer_features(j, dtype))
        if parity.need("torchvision"):
            tap.skip("torchvision's vgg16", "torchvision is not installed")
        else:
            compare_vgg16(tap, load, tool, folder)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
