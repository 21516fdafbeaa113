# SPDX-License-Identifier: Apache-2.0
"""transformers' SegFormer as the other side of the network's parity: models, batches, training in any precision. Needs torch
and transformers."""
import os
import tempfile

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from net_parity import LR, dead, paper_rule

SIZES = {  # hidden sizes, depths, width of the decoder
    "b0": ([32, 64, 160, 256], [2, 2, 2, 2], 256),
    "b1": ([64, 128, 320, 512], [2, 2, 2, 2], 256),
    "b2": ([64, 128, 320, 512], [3, 4, 6, 3], 768),
    "b3": ([64, 128, 320, 512], [3, 4, 18, 3], 768),
    "b4": ([64, 128, 320, 512], [3, 8, 27, 3], 768),
    "b5": ([64, 128, 320, 512], [3, 6, 40, 3], 768),
}


def make_model(model, classes, seed, wide=True):
    hidden, depths, decoder = SIZES[model]
    torch.manual_seed(seed)
    config = SegformerConfig(hidden_sizes=hidden, depths=depths, decoder_hidden_size=decoder, num_labels=classes,
                             classifier_dropout_prob=0.0, drop_path_rate=0.0, hidden_dropout_prob=0.0,
                             attention_probs_dropout_prob=0.0, semantic_loss_ignore_index=255)
    net = SegformerForSemanticSegmentation(config)
    if not wide:
        return net
    # Initial weights are so small that attention is nearly uniform, GELU nearly linear (depthwise weights have few inputs)
    # and every norm the identity; next to running variances of 1 nobody sees an eps. Widen, so that an error anywhere shows.
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(20 if parameter.dim() == 4 and parameter.shape[1] == 1 else 2.5)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
        net.decode_head.batch_norm.running_mean.normal_(0, 0.1)
        net.decode_head.batch_norm.running_var.uniform_(0.02, 0.08)
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


def tensors_of(batch, dtype):
    return dict(pixel_values=torch.from_numpy(batch[0]).to(dtype), labels=torch.from_numpy(batch[1].astype(np.int64)))


def before_relu(net, batches):
    """What the decoder's ReLU sees in training, in float64: [channels][pixels of all batches]."""
    seen = []
    double = type(net)(net.config).double()
    double.load_state_dict(net.state_dict())
    hook = double.decode_head.batch_norm.register_forward_hook(
        lambda module, inputs, output: seen.append(output.detach().transpose(0, 1).flatten(1)))
    double.train()
    with torch.no_grad():
        for batch in batches:
            double(pixel_values=torch.from_numpy(batch[0]).double())
    hook.remove()
    return torch.cat(seen, 1)


def part_relu(net, batches):
    """Moves every channel's beta of the batch norm so that 0 lies in the widest gap between its values near 0. A value within
    rounding of 0 would pass the ReLU on one side and not on the other, and that one element is felt by every layer below;
    with none, gradients agree to rounding and can be held to it. Returns the smallest distance from 0."""
    values = before_relu(net, batches).sort(1).values
    middle, gap = (values[:, 1:] + values[:, :-1]) / 2, values[:, 1:] - values[:, :-1]
    gap[middle.abs() > 0.5] = 0  # stay where both sides of the ReLU have many
    widest = gap.argmax(1, keepdim=True)
    with torch.no_grad():
        net.decode_head.batch_norm.bias -= middle.gather(1, widest)[:, 0].float()
    return float(before_relu(net, batches).abs().min())


def renamed(net):
    """Parameters by their old names: the same tensors in the same order of modules, found by saving markers."""
    state = net.state_dict()
    with torch.no_grad():
        markers = {name: value.clone() for name, value in state.items()}
        for index, value in enumerate(state.values()):
            value.fill_(index)
        with tempfile.TemporaryDirectory() as folder:
            net.save_pretrained(folder)
            saved = load_file(os.path.join(folder, "model.safetensors"))
        for name, value in state.items():
            value.copy_(markers[name])
    new = list(state)
    return {new[int(array.reshape(-1)[0])]: old for old, array in saved.items()}


def groups_of(net, old):
    groups = []
    for name, parameter in net.named_parameters():
        factor, decay = paper_rule(old[name])
        groups.append({"params": [parameter], "lr": LR * factor, "weight_decay": decay})
    return groups


def run_torch(net, old, batches, steps, accumulate=1, clip=0.0, dtype=torch.float32, autocast=None):
    """What net_tool gives, by torch, from a copy of `net`; as float64."""
    net_copy = type(net)(net.config)
    net_copy.load_state_dict(net.state_dict())
    net = net_copy.to(dtype)
    results = {}
    net.eval()
    with torch.no_grad(), torch.autocast("cpu", autocast, enabled=autocast is not None):
        logits = net(pixel_values=torch.from_numpy(batches[0][0]).to(dtype)).logits
    results["logits"] = logits.permute(0, 2, 3, 1).reshape(-1).double().numpy()
    net.train()
    optimizer = torch.optim.AdamW(groups_of(net, old), betas=(0.9, 0.999), eps=1e-8)
    losses, norms, at = [], [], 0
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(accumulate):
            with torch.autocast("cpu", autocast, enabled=autocast is not None):
                loss = net(**tensors_of(batches[at % len(batches)], dtype)).loss / accumulate
            at += 1
            loss.backward()
            total += loss.item()
        losses.append(total)
        for name, parameter in net.named_parameters():
            if step == 0:
                results["gradient:" + old[name]] = parameter.grad.reshape(-1).double().numpy().copy()
            if dead(old[name]):
                parameter.grad.zero_()  # AdamW would make steps of full size from rounding
        if step == 0:
            for name, value in net.state_dict().items():
                if "running_" in name:
                    results["running:" + old[name]] = value.double().numpy().copy()
        norms.append(float(torch.nn.utils.clip_grad_norm_(net.parameters(), clip if clip else 1e30)))
        optimizer.step()
    results["losses"] = np.array(losses)
    results["norms"] = np.array(norms)
    for name, parameter in net.named_parameters():
        results["weight:" + old[name]] = parameter.detach().reshape(-1).double().numpy()
    return results
