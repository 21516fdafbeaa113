# SPDX-License-Identifier: Apache-2.0
"""Live parity of the residual network and the U-Net with torch: networks_live.py TOOL. The folder that the tool saves is loaded
into the module of examples/python/load_networks.py; then both see the same batches: outputs, loss, every gradient, ten AdamW
steps, in float64 there, and the trained folder read back by both."""
import os
import sys
import tempfile

import numpy as np

import parity
from net_parity import distance, run_tool

LR = 1e-3
CASES = {
    "resnet, 5 classes": dict(model="resnet", classes=5, size="24x33", batch=2, channels=16, blocks=3),
    "resnet, 1 class, odd channels": dict(model="resnet", classes=1, size="9x17", batch=1, channels=7, blocks=1),
    "resnet, l1": dict(model="resnet", restore=1, size="20x28", batch=2, channels=32, blocks=2, loss=4),
    "resnet, charbonnier, twice as large": dict(model="resnet", restore=1, scale=2, size="16x20", batch=2, channels=16, blocks=2,
                                                loss=5),
    "resnet, mse, three times as large": dict(model="resnet", restore=1, scale=3, size="12x16", batch=1, channels=16, blocks=2,
                                              loss=6),
    "unet, 4 classes": dict(model="unet", classes=4, size="32x48", batch=2, channels=8),
    "unet, charbonnier": dict(model="unet", restore=1, size="16x32", batch=2, channels=8, loss=5),
}


def batch_of(case, seed):
    height, width = (int(side) for side in case["size"].split("x"))
    rows, scale = height * case["batch"], case.get("scale", 1)
    images = parity.make_input(width, rows, 3, 1, seed).astype(np.float32).reshape(case["batch"], height, width, 3) / 255
    images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    if "restore" in case:
        target = parity.make_input(width * scale, rows * scale, 3, 1, seed + 2).astype(np.float32) / 255
        return images, np.ascontiguousarray(target.reshape(case["batch"], height * scale, width * scale, 3).transpose(0, 3, 1, 2))
    classes = max(case["classes"], 2)
    masks = parity.make_input(width, rows, 1, 1, seed + 2).reshape(case["batch"], height, width).astype(int) * classes // 256
    masks[:, ::7, ::5] = 255
    return images, masks.astype(np.uint8)


def loss_of(case, output, truth):
    import torch
    from torch.nn import functional
    if "restore" in case:
        apart = output - truth.to(output)
        return {4: apart.abs(), 5: (apart * apart + 1e-6).sqrt(), 6: apart * apart}[case["loss"]].mean()
    if case["classes"] == 1:
        each = functional.binary_cross_entropy_with_logits(output[:, 0], (truth == 1).to(output), reduction="none")
        return (each * (truth != 255)).mean()  # over all pixels, as Hugging Face has it
    return functional.cross_entropy(output, truth.long(), ignore_index=255)


def run_torch(net, case, batches, steps, dtype):
    import torch
    net = net.to(dtype)
    results, losses = {}, []
    optimizer = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=0.01)
    for step in range(steps):
        images, truth = (torch.from_numpy(array) for array in batches[step % len(batches)])
        output = net(images.to(dtype))
        if not step:
            results["logits"] = output.detach().permute(0, 2, 3, 1).numpy().ravel()
        loss = loss_of(case, output, truth)
        optimizer.zero_grad()
        loss.backward()
        if not step:
            results.update({"gradient:" + name: p.grad.numpy().ravel().copy() for name, p in net.named_parameters()})
        losses.append(float(loss))
        optimizer.step()
    results["losses"] = np.array(losses)
    results.update({"weight:" + name: p.detach().numpy().ravel() for name, p in net.named_parameters()})
    return results


def compare(tap, load, tool, name, case, folder):
    import torch
    batches, steps = [batch_of(case, 2), batch_of(case, 6)], 10
    start, trained = os.path.join(folder, "start"), os.path.join(folder, "trained")
    ours = run_tool(tool, batches, steps=steps, lr=LR, head_lr=1, save=start, save_trained=trained, seed=3, **case)
    double = run_torch(load(start), case, batches, steps, torch.float64)
    single = run_torch(load(start), case, batches, 1, torch.float32)
    gradients = [key for key in double if key.startswith("gradient:")]
    tap.ok(sorted(gradients) == sorted(key for key in ours if key.startswith("gradient:")),
           f"{name}: {len(gradients)} gradients on both sides")
    apart = distance(ours["logits"], double["logits"])
    tap.ok(apart <= 1e-5, f"{name}: outputs within 1e-5 ({apart:.1e})")
    apart = abs(ours["losses"][0] / double["losses"][0] - 1)
    tap.ok(apart <= 1e-6, f"{name}: the first loss within 1e-6 ({apart:.1e})")
    # a ReLU that is 0 on one side and just above on the other moves a gradient by as much in torch's own float32
    own = max(distance(single[key], double[key]) for key in gradients)
    limit = min(max(1e-5, 4 * own), 1e-3)
    worst = max(gradients, key=lambda key: distance(ours[key], double[key]))
    apart = distance(ours[worst], double[worst])
    tap.ok(apart <= limit, f"{name}: every gradient within {limit:.1e} ({apart:.1e}, {worst[9:]}; torch's float32 {own:.1e})")
    apart = float(np.abs(ours["losses"] / double["losses"] - 1).max())
    tap.ok(apart <= 1e-3, f"{name}: losses of {steps} steps within 1e-3 ({apart:.1e})")
    with torch.no_grad():
        again = load(trained)(torch.from_numpy(batches[0][0])).permute(0, 2, 3, 1).numpy().ravel()
    apart = distance(ours["trained logits"], again)
    tap.ok(apart <= 1e-5, f"{name}: the saved network in torch gives the same within 1e-5 ({apart:.1e})")
    back = run_tool(tool, batches, steps=0, weights=trained, size=case["size"], batch=case["batch"],
                    **({"restore": 1, "loss": case.get("loss", 4), "scale": case.get("scale", 1)} if "restore" in case else {}))
    tap.ok(np.array_equal(back["logits"], ours["trained logits"]), f"{name}: read back, it gives the same bits")


def main():
    missing = parity.need("torch", "safetensors")
    if missing:
        print(f"1..0 # SKIP {missing} is not installed")
        return 0
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python"))
    import torch
    from load_networks import load
    torch.set_num_threads(1)
    tap = parity.Tap()
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            compare(tap, load, sys.argv[1], name, case, folder)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
