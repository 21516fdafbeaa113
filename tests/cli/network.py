# SPDX-License-Identifier: Apache-2.0
"""Networks with random weights, for tests that need a network and not a good one: a SegFormer b0 as Hugging Face writes it, and a small residual
network, computed here, too."""
import json
import os
import struct

import numpy as np

HIDDEN, DEPTHS, REDUCTION = [32, 64, 160, 256], [2, 2, 2, 2], [8, 4, 2, 1]


def shapes(classes):
    found = {}

    def pair(name, *shape):
        found[name + '.weight'], found[name + '.bias'] = shape, shape[:1]

    for stage, width in enumerate(HIDDEN):
        before, side = (HIDDEN[stage - 1], 3) if stage else (3, 7)
        encoder = 'segformer.encoder'
        pair(f'{encoder}.patch_embeddings.{stage}.proj', width, before, side, side)
        pair(f'{encoder}.patch_embeddings.{stage}.layer_norm', width)
        pair(f'{encoder}.layer_norm.{stage}', width)
        pair(f'decode_head.linear_c.{stage}.proj', 256, width)
        for block in range(DEPTHS[stage]):
            at = f'{encoder}.block.{stage}.{block}'
            for name in ('query', 'key', 'value'):
                pair(f'{at}.attention.self.{name}', width, width)
            if REDUCTION[stage] > 1:
                pair(f'{at}.attention.self.sr', width, width, REDUCTION[stage], REDUCTION[stage])
                pair(f'{at}.attention.self.layer_norm', width)
            pair(f'{at}.attention.output.dense', width, width)
            pair(f'{at}.layer_norm_1', width)
            pair(f'{at}.layer_norm_2', width)
            pair(f'{at}.mlp.dense1', 4 * width, width)
            pair(f'{at}.mlp.dwconv.dwconv', 4 * width, 1, 3, 3)
            pair(f'{at}.mlp.dense2', width, 4 * width)
    found['decode_head.linear_fuse.weight'] = (256, 1024, 1, 1)
    pair('decode_head.batch_norm', 256)
    found['decode_head.batch_norm.running_mean'] = found['decode_head.batch_norm.running_var'] = (256,)
    pair('decode_head.classifier', classes, 256, 1, 1)
    return found


def save(folder, tensors, config):
    os.makedirs(folder, exist_ok=True)
    header, data = {}, []
    for name, values in tensors.items():
        start = sum(map(len, data))
        data.append(values.astype('<f4').tobytes())
        header[name] = {'dtype': 'F32', 'shape': values.shape, 'data_offsets': [start, start + len(data[-1])]}
    text = json.dumps(header).encode()
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + b''.join(data))
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump(config, file)


def write(folder, classes=5, size=64, seed=1):
    """config.json, model.safetensors and, unless size is None, preprocessor_config.json. Returns the folder."""
    luck = np.random.default_rng(seed)
    tensors = {}
    for name, shape in shapes(classes).items():
        inputs = int(np.prod(shape[1:]))
        values = luck.standard_normal(shape) * (1.5 / np.sqrt(inputs) if len(shape) > 1 else 0.1)
        if 'norm' in name and name.endswith('.weight') or name.endswith('running_var'):
            values = 1 + np.abs(values)
        tensors[name] = values
    save(folder, tensors, {'model_type': 'segformer', 'architectures': ['SegformerForSemanticSegmentation'], 'hidden_sizes': HIDDEN,
                           'depths': DEPTHS, 'sr_ratios': REDUCTION, 'decoder_hidden_size': 256,
                           'id2label': {str(i): f'kind {i}' for i in range(classes)}})
    if size:
        with open(os.path.join(folder, 'preprocessor_config.json'), 'w') as file:
            json.dump({'size': {'height': size, 'width': size}}, file)
    return folder


class Resnet:
    """With classes it labels, without it restores pictures, `scale` times as large; near what bilinear interpolation gives, so that bytes are used."""

    def __init__(self, folder, classes=None, scale=1, channels=5, blocks=2, seed=1):
        luck = np.random.default_rng(seed)
        self.folder, self.scale, self.blocks = folder, scale, blocks
        self.tensors = {}
        sizes = [('head', channels, 3)] + [(f'body.{i}.conv{k}', channels, channels) for i in range(blocks) for k in (1, 2)]
        for name, outputs, inputs in sizes + [('tail', (classes or 3) * scale ** 2, channels)]:
            self.tensors[name + '.weight'] = luck.standard_normal((outputs, inputs, 3, 3)) / np.sqrt(9 * inputs)
            self.tensors[name + '.bias'] = luck.standard_normal(outputs) * 0.3
        if not classes:
            self.tensors['tail.weight'] *= 0.3
            self.tensors['tail.bias'] += 0.5 - self.tensors['tail.bias'].mean()
        save(folder, self.tensors, {'model_type': 'stokehold-resnet', 'task': 'segment' if classes else 'restore', 'num_channels': 3,
                                    'base_channels': channels, 'num_blocks': blocks, 'residual_scale': 0.1, 'scale': scale})

    def layer(self, name, x):
        height, width = x.shape[1:]
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
        weight, y = self.tensors[name + '.weight'], self.tensors[name + '.bias'][:, None, None]
        return y + sum(np.einsum('oi,ihw->ohw', weight[:, :, i, j], padded[:, i:i + height, j:j + width]) for i in range(3) for j in range(3))

    def forward(self, x):
        """[3][height][width] to [outputs][height * scale][width * scale], in double."""
        x = self.layer('head', x)
        for i in range(self.blocks):
            x = x + 0.1 * self.layer(f'body.{i}.conv2', np.maximum(self.layer(f'body.{i}.conv1', x), 0))
        y, s = self.layer('tail', x), self.scale
        outputs, (height, width) = len(y) // s ** 2, y.shape[1:]
        return y.reshape(outputs, s, s, height, width).transpose(0, 3, 1, 4, 2).reshape(outputs, height * s, width * s)

    def restore(self, pixels):
        """[height][width][3] of bytes, before they are rounded."""
        return 255 * np.clip(self.forward(pixels.transpose(2, 0, 1) / 255.0), 0, 1).transpose(1, 2, 0)
