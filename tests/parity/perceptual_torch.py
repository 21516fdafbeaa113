# SPDX-License-Identifier: Apache-2.0
"""The perceptual loss in torch: the features of a VGG from its tensors, or of a SegFormer from transformers."""
import numpy as np
import torch
from torch.nn import functional

from networks_live import loss_of

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def vgg_features(tensors):
    """The last ReLU of each of the first four blocks, of torchvision's `features`."""
    numbers = sorted(int(name.split(".")[1]) for name in tensors if name.endswith(".weight") and name.startswith("features."))
    weights = {number: [tensors[f"features.{number}.{leaf}"] for leaf in ("weight", "bias")] for number in numbers}

    def features(x):
        maps = []
        for here, following in zip(numbers, numbers[1:] + [None]):
            x = functional.relu(functional.conv2d(x, *(w.to(x) for w in weights[here]), padding=1))
            if following == here + 2:
                continue
            maps.append(x)
            if len(maps) == 4:
                break
            x = functional.max_pool2d(x, 2)
        return maps
    return features


def segformer_features(folder, dtype):
    from transformers import SegformerForSemanticSegmentation
    encoder = SegformerForSemanticSegmentation.from_pretrained(folder).segformer.to(dtype).eval().requires_grad_(False)
    return lambda x: encoder(x, output_hidden_states=True).hidden_states


def run(net, case, batch, features, dtype):
    """Loss and gradients of one batch."""
    net = net.to(dtype)
    images, target = (torch.from_numpy(array).to(dtype) for array in batch)
    output = net(images)
    mean, deviation = (torch.tensor(numbers, dtype=dtype).view(1, 3, 1, 1) for numbers in (MEAN, DEVIATION))
    pairs = zip(*(features((picture - mean) / deviation) for picture in (output, target)))
    loss = loss_of(case, output, target) + case.get("perceptual_weight", 0.1) * sum((a - b).abs().mean() for a, b in pairs)
    net.zero_grad()
    loss.backward()
    return {"loss": np.array([float(loss)]),
            **{"gradient:" + name: p.grad.numpy().ravel().copy() for name, p in net.named_parameters()}}
