# SPDX-License-Identifier: Apache-2.0
"""The perceptual loss: in a plan, in training and its resume, asked for without a file, by files that hold none."""
import array
import json
import os
import sys

import run_folder
from cli import contains, equal, path, stoke, stoke_json, tap

SET = path('pairs')
stoke('synth', SET, '--task', 'restore', '--count', 12, '--size', 48, '--quiet')
BATCH = ('--batch', 2)
TRAIN = ('train', SET, *BATCH, '--size', 32, '--base-channels', 4, '--num-blocks', 1, '--eval-every', 5, '--log-every', 1,
         '--no-pictures', '--no-tensorboard', '--threads', 2)


def write_vgg(file, blocks, without=()):
    """A VGG of a few channels, as torchvision names its tensors: weights by a formula."""
    header, data, module, channels = {}, array.array('f'), 0, 3
    for width, convolutions in blocks:
        for _ in range(convolutions):
            for leaf, shape in (('weight', [width, channels, 3, 3]), ('bias', [width])):
                count, name = width * (channels * 9 if leaf == 'weight' else 1), f'features.{module}.{leaf}'
                if name in without:
                    continue
                begin = 4 * len(data)
                data.extend((i * 7919 % 101 / 101 - 0.45) * 0.3 for i in range(count))
                header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [begin, 4 * len(data)]}
            module, channels = module + 2, width
        module += 1
    text = json.dumps(header).encode()
    with open(file, 'wb') as out:
        out.write(len(text).to_bytes(8, 'little') + text + data.tobytes())
    return file


VGG16 = [(4, 2), (6, 2), (8, 3), (8, 3)]
VGG = write_vgg(path('vgg16.safetensors'), VGG16)


def losses(name):
    return [line['loss'] for line in run_folder.read_log(path('runs', name)) if line['kind'] == 'step']


def a_plan_has_it():
    asked = ('plan', 'resnet', '--task', 'restore', '--size', 40, '--batch', 2)
    without, judged = stoke_json(*asked), stoke_json(*asked, '--perceptual', VGG)
    equal((without['features'], judged['features']), (None, 'VGG16'))
    equal(judged['parameter_count'], without['parameter_count'])
    equal(sum(op['flops'] for op in judged['ops']), judged['flops'])
    equal([op['phase'] for op in judged['ops'] if op['kind'] == 'feature distance'], ['loss'] * 4)
    equal(sum(op['layer'] == 'features.21' for op in judged['ops']), 3)  # target, output, and back
    assert judged['flops'] > without['flops'] and judged['tensors_bytes'] > without['tensors_bytes']
    forward = stoke_json(*asked, '--perceptual', VGG, '--forward')
    equal(sum(op['layer'] == 'features.21' for op in forward['ops']), 2)
    contains(stoke(*asked, '--perceptual', VGG).stdout, 'restores pictures, judged by VGG16, fp32')


def training_adds_it():
    for name, more in (('plain', ()), ('judged', ('--perceptual', VGG, '--perceptual-weight', 2)),
                       ('nothing', ('--perceptual', VGG, '--perceptual-weight', 0))):
        text = stoke(*TRAIN, '--steps', 10, '--name', name, *more)
        equal('The loss has 2 times the distance of the features of VGG16 in it' in text.stdout + text.stderr, name == 'judged')
    plain, judged = losses('plain'), losses('judged')
    assert plain[0] + 0.001 < judged[0] and judged[-1] < judged[0], (plain, judged)
    equal(losses('nothing'), plain)


def a_resume_has_it():
    """The same bits; the file is found by its whole path, and what it holds is part of the run."""
    few = (*TRAIN, '--steps', 10, '--perceptual', 'vgg16.safetensors', '--perceptual-weight', 2, '--quiet')
    stoke(*few, '--name', 'stopped', '--stop-after', 4)
    contains(open(path('runs', 'stopped', 'config.yaml'), encoding='utf-8').read(), f'perceptual: "{VGG}"')
    stoke('train', '--resume', path('runs', 'stopped'), '--quiet', cwd='/')
    equal(losses('stopped'), losses('judged'))
    for file in ('model.safetensors', 'config.json'):
        equal(*(open(path('runs', name, 'last', file), 'rb').read() for name in ('stopped', 'judged')))
    stoke(*few, '--name', 'changed', '--stop-after', 4)
    other = write_vgg(path('vgg13.safetensors'), [(4, 2), (6, 2), (8, 2), (8, 2)])
    contains(stoke('train', '--resume', path('runs', 'changed'), '--perceptual', other, code=1).stderr,
             'perceptual was VGG16 and is VGG13')
    contains(stoke('train', '--resume', path('runs', 'changed'), '--perceptual-weight', 3, code=1).stderr,
             '--perceptual-weight was 2 and is 3')


def a_switch_without_a_file():
    """As other trainers have it: said, and passed over."""
    settings = path('theirs.yaml')
    with open(settings, 'w', encoding='utf-8') as out:
        out.write('batch_size: 2\nlearning_rate: 0.001\nuse_perceptual: true\nperceptual_weight: 0.5\n')
    ours = ('train', SET, *TRAIN[4:])
    text = stoke(*ours, '--steps', 5, '--config', settings, '--name', 'switch')
    said = text.stdout + text.stderr
    contains(said, 'Training goes on without a perceptual loss, by that of pixels alone', 'torchvision.models.vgg16', 'save_file',
             '--perceptual vgg16.safetensors')
    with open(settings, 'w', encoding='utf-8') as out:
        out.write('batch_size: 2\nlearning_rate: 0.001\nuse_perceptual: false\n')
    text = stoke(*ours, '--steps', 5, '--config', settings, '--name', 'off')
    assert 'perceptual' not in text.stdout + text.stderr, text
    equal(losses('switch'), losses('off'))
    with open(settings, 'w', encoding='utf-8') as out:
        out.write(f'batch_size: 2\nlearning_rate: 0.001\nuse_perceptual: {VGG}\nlambda_perceptual: 0.5\n')
    text = stoke(*ours, '--steps', 5, '--config', settings, '--name', 'named')
    contains(text.stdout + text.stderr, 'The loss has 0.5 times the distance of the features of VGG16')


def refusals():
    def refused(file, *parts):
        contains(stoke(*TRAIN, '--name', 'none', '--perceptual', file, code=1).stderr, os.path.basename(file), *parts)
    refused(write_vgg(path('gap'), VGG16, ('features.5.weight',)), 'features.2 is followed by features.7')
    refused(write_vgg(path('bare'), VGG16, ('features.5.bias',)), 'features.5.bias is missing')
    refused(path('vgg16-397923af.pth'), 'a pickle may run code and is not read', 'save_file')
    refused(path('none.safetensors'), 'there is no such file or folder', 'torchvision.models.vgg16')
    contains(stoke('plan', 'resnet', '--task', 'restore', '--perceptual', 'yes', code=1).stderr,
             'yes: there is no such file or folder; the perceptual loss takes')
    refused(path('runs', 'plain', 'best'), 'neither the convolutions of a VGG', 'nor the encoder of a SegFormer')
    refused(path('runs', 'plain'), 'this is the folder of a run', 'runs/plain/best')
    assert not os.path.exists(path('runs', 'none'))
    masks = path('masks')
    stoke('synth', masks, '--count', 6, '--size', 48, '--quiet')
    contains(stoke('train', masks, '--size', 32, '--name', 'none', '--perceptual', VGG, code=2).stderr, 'it is for the task restore')


sys.exit(tap.run([
    ('a plan has it', a_plan_has_it),
    ('training adds it', training_adds_it),
    ('a resume has it', a_resume_has_it),
    ('a switch without a file', a_switch_without_a_file),
    ('refusals', refusals),
]))
