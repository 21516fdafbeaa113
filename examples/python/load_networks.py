# SPDX-License-Identifier: Apache-2.0
"""The small networks of `stoke train --model resnet` and `--model unet` as torch modules, with the weights of a run.

    python load_networks.py runs/NAME/best
"""
import json
import sys

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import max_pool2d, pixel_shuffle, relu


def conv(inputs, outputs):
    return nn.Conv2d(inputs, outputs, 3, padding=1)


class Pair(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.conv2 = conv(inputs, outputs), conv(outputs, outputs)

    def forward(self, x):
        return relu(self.conv2(relu(self.conv1(x))))


class ResNet(nn.Module):
    def __init__(self, base_channels, num_blocks, outputs, scale, residual_scale=0.1, **_):
        super().__init__()
        self.head, self.tail = conv(3, base_channels), conv(base_channels, outputs * scale * scale)
        self.body = nn.ModuleList(Pair(base_channels, base_channels) for _ in range(num_blocks))
        self.scale, self.residual_scale = scale, residual_scale

    def forward(self, x):
        x = self.head(x)
        for block in self.body:
            x = x + self.residual_scale * block.conv2(relu(block.conv1(x)))
        return pixel_shuffle(self.tail(x), self.scale)


class UNet(nn.Module):
    def __init__(self, base_channels, outputs, levels=4, **_):
        super().__init__()
        wide = [base_channels << i for i in range(levels + 1)]
        self.down = nn.ModuleList(Pair(wide[i - 1] if i else 3, wide[i]) for i in range(levels))
        self.bottom = Pair(wide[-2], wide[-1])
        self.up = nn.ModuleList(Pair(2 * wide[i], wide[i]) for i in range(levels))
        for i, up in enumerate(self.up):
            up.grow = conv(wide[i + 1], 4 * wide[i])
        self.tail = conv(base_channels, outputs)

    def forward(self, x):
        kept = []
        for down in self.down:
            kept.append(down(x))
            x = max_pool2d(kept[-1], 2)
        x = self.bottom(x)
        for up in reversed(self.up):
            x = up(torch.cat([pixel_shuffle(relu(up.grow(x)), 2), kept.pop()], 1))
        return self.tail(x)


def load(folder):
    """Takes pictures of N x 3 x height x width: normalised as ImageNet's for masks, 0 to 1 for pictures to restore."""
    with open(f"{folder}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    outputs = 3 if config["task"] == "restore" else len(config["id2label"])
    network = {"stokehold-resnet": ResNet, "stokehold-unet": UNet}[config["model_type"]](outputs=outputs, **config)
    network.load_state_dict(load_file(f"{folder}/model.safetensors"))
    return network


if __name__ == "__main__":
    print(load(sys.argv[1]))
