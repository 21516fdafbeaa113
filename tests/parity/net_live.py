# SPDX-License-Identifier: Apache-2.0
"""Live parity of the network with transformers' SegformerForSemanticSegmentation: logits, loss, the gradient of every
parameter, running statistics and ten AdamW steps with the paper's groups, from the same weights and batches.

    net_live.py TOOL [--quick]

Skips where torch or transformers is not installed (STOKE_TORCH_PYTHON may name an interpreter that has them)."""
import os
import sys
import tempfile

try:
    import numpy as np
    import torch
    from transformers import SegformerConfig, SegformerForSemanticSegmentation
except ImportError:
    other = os.environ.get("STOKE_TORCH_PYTHON")
    if other and os.path.realpath(other) != os.path.realpath(sys.executable):
        os.execv(other, [other] + sys.argv)
    print("ok 1 - the network against transformers # SKIP torch and transformers are not installed\n1..1")
    sys.exit(0)

import parity
from net_parity import LR, dead, distance, run_tool

SIZES = {  # hidden sizes, depths, width of the decoder
    "b0": ([32, 64, 160, 256], [2, 2, 2, 2], 256),
    "b1": ([64, 128, 320, 512], [2, 2, 2, 2], 256),
    "b2": ([64, 128, 320, 512], [3, 4, 6, 3], 768),
    "b5": ([64, 128, 320, 512], [3, 6, 40, 3], 768),
}
# Gradients agree to rounding, but where the decoder's ReLU sees a value next to 0 its mask may flip: one element in
# millions, felt by every layer below. So a tensor may be off by 1e-3; all together agree much better.
TENSOR, TOGETHER = 5e-3, 2e-3


def make_model(model, classes, seed, wide=True):
    hidden, depths, decoder = SIZES[model]
    torch.manual_seed(seed)
    config = SegformerConfig(hidden_sizes=hidden, depths=depths, decoder_hidden_size=decoder, num_labels=classes,
                             classifier_dropout_prob=0.0, drop_path_rate=0.0, hidden_dropout_prob=0.0,
                             attention_probs_dropout_prob=0.0, semantic_loss_ignore_index=255)
    net = SegformerForSemanticSegmentation(config)
    if not wide:
        return net
    # Initial weights are so small that attention is nearly uniform and every norm the identity: widen them, so that an
    # error anywhere shows.
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(2.5)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
        net.decode_head.batch_norm.running_mean.normal_(0, 0.1)
        net.decode_head.batch_norm.running_var.uniform_(0.5, 1.5)
    return net


def make_batches(count, batch, height, width, classes, seed):
    rng = np.random.default_rng(seed)
    batches = []
    for _ in range(count):
        images = rng.standard_normal((batch, 3, height, width), np.float32)
        # patches of one class, so that the loss can fall, and some pixels that do not count
        coarse = rng.integers(0, max(classes, 2), (batch, height // 8 + 1, width // 8 + 1))
        masks = np.kron(coarse, np.ones((1, 8, 8), int))[:, :height, :width].astype(np.uint8)
        masks[rng.random(masks.shape) < 0.05] = 255
        batches.append((images, np.ascontiguousarray(masks)))
    return batches


def renamed(net):
    """Parameters by their old names: the same tensors in the same order of modules, found by saving markers."""
    state = net.state_dict()
    with torch.no_grad():
        markers = {name: value.clone() for name, value in state.items()}
        for index, (name, value) in enumerate(state.items()):
            value.fill_(index)
        with tempfile.TemporaryDirectory() as folder:
            net.save_pretrained(folder)
            from safetensors.numpy import load_file
            saved = load_file(os.path.join(folder, "model.safetensors"))
        for name, value in state.items():
            value.copy_(markers[name])
    new = list(state)
    return {new[int(array.reshape(-1)[0])]: old for old, array in saved.items()}


def groups_of(net, old):
    """The paper's: no decay for norms, ten times the rate for the head."""
    groups = []
    for name, parameter in net.named_parameters():
        head, norm = old[name].startswith("decode_head."), "norm" in old[name]
        groups.append({"params": [parameter], "lr": LR * (10 if head else 1), "weight_decay": 0.0 if norm else 0.01})
    return groups


def run_torch(net, old, batches, steps, accumulate, clip):
    results = {}
    net.eval()
    with torch.no_grad():
        logits = net(pixel_values=torch.from_numpy(batches[0][0])).logits
    results["logits"] = logits.permute(0, 2, 3, 1).reshape(-1).numpy()
    net.train()
    optimizer = torch.optim.AdamW(groups_of(net, old), betas=(0.9, 0.999), eps=1e-8)
    losses, norms, at = [], [], 0
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(accumulate):
            images, masks = batches[at % len(batches)]
            at += 1
            labels = torch.from_numpy(masks.astype(np.int64))
            loss = net(pixel_values=torch.from_numpy(images), labels=labels).loss / accumulate
            loss.backward()
            total += loss.item()
        losses.append(total)
        for name, parameter in net.named_parameters():
            if step == 0:
                results["gradient:" + old[name]] = parameter.grad.reshape(-1).numpy().copy()
            if dead(old[name]):
                parameter.grad.zero_()  # AdamW would make steps of full size from rounding
        if step == 0:
            for name, value in net.state_dict().items():
                if "running_" in name:
                    results["running:" + old[name]] = value.numpy().copy()
        norms.append(float(torch.nn.utils.clip_grad_norm_(net.parameters(), clip if clip else 1e30)))
        optimizer.step()
    results["losses"] = np.array(losses, np.float32)
    results["norms"] = np.array(norms, np.float32)
    for name, parameter in net.named_parameters():
        results["weight:" + old[name]] = parameter.detach().reshape(-1).numpy()
    return results


def compare_gradients(tap, what, ours, theirs, tensor=TENSOR, together=TOGETHER):
    keys = [key for key in theirs if key.startswith("gradient:")]
    missing = [key for key in keys if key not in ours]
    tap.ok(not missing and len(keys) == sum(key.startswith("gradient:") for key in ours),
           f"{what}: {len(keys)} gradients on both sides{', missing ' + missing[0] if missing else ''}")
    if missing:
        return
    live = [key for key in keys if not dead(key)]
    each = {key: distance(ours[key], theirs[key]) for key in live}
    worst = max(each, key=each.get)
    close = sum(value <= 1e-5 for value in each.values())
    tap.ok(each[worst] <= tensor, f"{what}: every gradient within {tensor:g} (worst {each[worst]:.1e}, {worst[9:]}; "
           f"{close} of {len(each)} within 1e-5)")
    everything = distance(np.concatenate([ours[key] for key in live]), np.concatenate([theirs[key] for key in live]))
    tap.ok(everything <= together, f"{what}: all gradients together within {together:g} ({everything:.1e})")
    scale = max(float(np.abs(theirs[key]).max()) for key in live)
    largest = max(float(np.abs(ours[key]).max()) for key in keys if dead(key))
    tap.ok(largest <= 1e-4 * scale, f"{what}: biases that change nothing get none ({largest:.1e} of {scale:.1e})")


def compare_steps(tap, what, ours, theirs, steps):
    apart = float(np.abs(ours["losses"] / theirs["losses"] - 1).max())
    tap.ok(apart <= (1e-6 if steps == 1 else 1e-3),
           f"{what}: losses of {steps} steps within {1e-6 if steps == 1 else 1e-3:g} ({apart:.1e})")
    running = max(distance(ours[key], theirs[key]) for key in theirs if key.startswith("running:"))
    tap.ok(running <= 1e-5, f"{what}: running statistics within 1e-5 ({running:.1e})")
    if steps == 1:
        return
    keys = [key for key in theirs if key.startswith("weight:") and not dead(key)]
    each = {key: distance(ours[key], theirs[key]) for key in keys}
    worst = max(each, key=each.get)
    tap.ok(each[worst] <= 2e-3, f"{what}: weights after {steps} steps within 2e-3 (worst {each[worst]:.1e}, {worst[7:]})")


def check(tap, tool, model, batch, size, classes, steps=10, accumulate=1, clip=0.0, seed=1, what=None, **extra):
    height, width = size
    what = what or f"{model} {batch}x{height}x{width}, {classes} classes"
    net = make_model(model, classes, seed)
    batches = make_batches(max(2, accumulate), batch, height, width, classes, seed)
    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder)
        old = renamed(net)
        ours = run_tool(tool, batches, weights=folder, size=f"{height}x{width}", batch=batch, steps=steps,
                        accumulate=accumulate, lr=LR, clip=clip, **extra)
    theirs = run_torch(net, old, batches, steps, accumulate, clip)
    logits = distance(ours["logits"], theirs["logits"])
    tap.ok(logits <= 1e-5, f"{what}: logits in inference within 1e-5 ({logits:.1e})")
    compare_gradients(tap, what, ours, theirs)
    norm = abs(ours["norms"][0] / theirs["norms"][0] - 1)
    tap.ok(norm <= 1e-4, f"{what}: gradient norm within 1e-4 ({norm:.1e})")
    compare_steps(tap, what, ours, theirs, steps)


def check_precision(tap, tool, precision, name, wide):
    """16-bit activations against our own f32, which the other checks tie to torch. The measure is how far torch's own
    gradients move under autocast to bf16, which keeps the stream between blocks and much else in f32: 3.5e-2 here, where
    maps are small and pictures noise."""
    batches = make_batches(1, 2, 64, 64, 19, 7)
    net = make_model("b0", 19, 7, wide)
    what = f"{name}, {'wide' if wide else 'initial'} weights"
    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder)
        common = dict(weights=folder, size="64x64", batch=2, steps=1)
        exact = run_tool(tool, batches, precision=0, **common)
        ours = run_tool(tool, batches, precision=precision, **common)
    old = renamed(net)
    live = [key for key in exact if key.startswith("gradient:") and not dead(key)]
    scale = 65536.0 if name == "fp16" else 1.0
    apart = distance(np.concatenate([ours[key] / scale for key in live]), np.concatenate([exact[key] for key in live]))
    tolerance = max(2e-2, autocast_distance(net, old, batches[0]))
    tap.ok(apart <= tolerance, f"{what}: gradients within {tolerance:.1e} of fp32's ({apart:.1e})")
    logits = distance(ours["logits"], exact["logits"])
    tap.ok(logits <= 2e-2, f"{what}: logits within 2e-2 of fp32's ({logits:.1e})")
    loss = abs(float(ours["losses"][0] / exact["losses"][0]) - 1)
    tap.ok(loss <= 2e-3, f"{what}: loss within 2e-3 of fp32's ({loss:.1e})")


def autocast_distance(net, old, batch):
    """How far torch's own gradients move under autocast to bf16."""
    gradients = []
    net.train()
    for enabled in (False, True):
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            labels = torch.from_numpy(batch[1].astype(np.int64))
            net(pixel_values=torch.from_numpy(batch[0]), labels=labels).loss.backward()
        gradients.append(np.concatenate([parameter.grad.reshape(-1).numpy() for name, parameter in net.named_parameters()
                                         if not dead(old[name])]))
    return distance(gradients[1], gradients[0])


def main():
    tool, quick = sys.argv[1], "--quick" in sys.argv[2:]
    torch.set_num_threads(1)  # maps are small, and threads that spin are slow next to other work
    tap = parity.Tap()
    check(tap, tool, "b0", 2, (64, 96), 19)
    check(tap, tool, "b0", 4, (128, 128), 4, clip=0.5, what="b0 4x128x128, 4 classes, clipped")
    check(tap, tool, "b0", 2, (97, 131), 3)
    check(tap, tool, "b0", 2, (64, 64), 1)
    check(tap, tool, "b0", 1, (128, 96), 150, steps=3)
    check(tap, tool, "b0", 2, (64, 64), 5, accumulate=2, what="b0 2 x 2x64x64, gradients of two batches")
    check(tap, tool, "b0", 2, (64, 96), 19, steps=2, memory=1, what="b0 in memory mode lean")
    check(tap, tool, "b0", 2, (64, 96), 19, steps=2, memory=2, what="b0 in memory mode min")
    for wide in (False, True):
        check_precision(tap, tool, 1, "bf16", wide)
        check_precision(tap, tool, 2, "fp16", wide)
    if not quick:
        check(tap, tool, "b2", 2, (64, 64), 7)
        check(tap, tool, "b5", 1, (64, 64), 3, steps=1)
    tap.done()


if __name__ == "__main__":
    main()
