# SPDX-License-Identifier: Apache-2.0
"""A SegFormer b0 with random weights, written as Hugging Face does, for tests that need a network and not a good one."""
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


def write(folder, classes=5, size=64, seed=1):
    """config.json, model.safetensors and, unless size is None, preprocessor_config.json. Returns the folder."""
    luck = np.random.default_rng(seed)
    os.makedirs(folder, exist_ok=True)
    header, data = {}, []
    for name, shape in shapes(classes).items():
        inputs = int(np.prod(shape[1:]))
        values = luck.standard_normal(shape) * (1.5 / np.sqrt(inputs) if len(shape) > 1 else 0.1)
        if 'norm' in name and name.endswith('.weight') or name.endswith('running_var'):
            values = 1 + np.abs(values)
        start = sum(map(len, data))
        data.append(values.astype('<f4').tobytes())
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [start, start + len(data[-1])]}
    text = json.dumps(header).encode()
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + b''.join(data))
    config = {'model_type': 'segformer', 'architectures': ['SegformerForSemanticSegmentation'], 'hidden_sizes': HIDDEN,
              'depths': DEPTHS, 'sr_ratios': REDUCTION, 'decoder_hidden_size': 256,
              'id2label': {str(i): f'kind {i}' for i in range(classes)}}
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump(config, file)
    if size:
        with open(os.path.join(folder, 'preprocessor_config.json'), 'w') as file:
            json.dump({'size': {'height': size, 'width': size}}, file)
    return folder
