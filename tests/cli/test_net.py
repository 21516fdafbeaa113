# SPDX-License-Identifier: Apache-2.0
"""stoke bench step and bench net: they run, their fields exist and agree with each other. The figures themselves are not judged."""
import json
import os
import signal
import struct
import subprocess
import sys

from cli import STOKE, contains, equal, path, stoke, stoke_json, tap

SMALL = ['--batch', 1, '--size', 64]


def write_weights(name, classes, config=None):
    """A folder with the tensors of a b0 that say which network it is: enough for a plan, not for a run."""
    tensors = {'decode_head.linear_fuse.weight': [256, 1024, 1, 1], 'decode_head.classifier.weight': [classes, 256, 1, 1]}
    for stage, (before, width, side) in enumerate([(3, 32, 7), (32, 64, 3), (64, 160, 3), (160, 256, 3)]):
        tensors[f'segformer.encoder.patch_embeddings.{stage}.proj.weight'] = [width, before, side, side]
        tensors[f'segformer.encoder.block.{stage}.1.layer_norm_1.bias'] = [width]
    header, end = {}, 0
    for tensor, shape in tensors.items():
        start, count = end, 1
        for side in shape:
            count *= side
        end += 4 * count
        header[tensor] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [start, end]}
    text = json.dumps(header).encode()
    folder = path(name)
    os.makedirs(folder)
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + bytes(end))
    if config is not None:
        with open(os.path.join(folder, 'config.json'), 'w') as file:
            file.write(config)
    return folder


def is_sound(answer):
    for field in ('img_per_s', 'ms_per_step', 'best_img_per_s', 'best_ms_per_step', 'steps', 'gflops', 'peak_gflops',
                  'share_of_peak', 'peak_rss_bytes', 'planned_bytes', 'threads'):
        assert answer[field] > 0, f'{field} is {answer[field]}'
    assert answer['cpu'] and answer['table'] in ('c', 'avx2', 'avx512', 'amx'), answer
    rate = 1000 * answer['batch'] / answer['ms_per_step']
    assert abs(answer['img_per_s'] - rate) < 1e-6 * rate
    share = answer['gflops'] / answer['peak_gflops']
    assert abs(answer['share_of_peak'] - share) < 1e-6 * share
    for part in answer['parts']:
        assert part['name'] and part['ms'] >= 0, part
    # Parts do not overlap. How much lies between them depends on who else uses the machine; a median is no mean.
    if answer['steps'] == 1:
        assert 0 < sum(part['ms'] for part in answer['parts']) <= 1.01 * answer['ms_per_step'], answer['parts']


def step():
    answer = stoke_json('bench', 'step', '--model', 'b0', '--classes', 5, '--short', *SMALL)
    is_sound(answer)
    equal([answer[field] for field in ('model', 'batch', 'size', 'classes', 'precision', 'memory', 'pass', 'steps')],
          ['b0', 1, '64x64', 5, 'fp32', 'plain', 'step', 1])
    assert answer['loss'] > 0
    names = [part['name'] for part in answer['parts']]
    equal(len(set(names)), len(names), 'parts named once')
    assert any('backward' in name for name in names), names


def step_for_a_while():
    answer = stoke_json('bench', 'step', '--seconds', 0.1, *SMALL)
    is_sound(answer)
    assert answer['steps'] >= 3 and answer['best_ms_per_step'] <= answer['ms_per_step'], answer


def of_a_settings_file():
    config = path('net.yaml')
    with open(config, 'w', encoding='utf-8') as file:
        file.write('model_name: nvidia/segformer-b1-finetuned-ade-512-512\nimage_size: 32\nbatch_size: 1\nnum_classes: 3\nnum_workers: 2\n')
    answer = stoke_json('bench', 'step', '--config', config, '--steps', 2)
    equal((answer['model'], answer['batch'], answer['classes'], answer['steps']), ('b1', 1, 3, 2))
    equal(stoke_json('bench', 'step', '--config', config, '--batch', 2, '--steps', 1)['batch'], 2)
    figures = stoke_json('bench', 'net', '--config', config, '--only', 'query', '--short')['products']
    equal({figure['model'] for figure in figures}, {'b1'})


def step_in_other_ways():
    for flags in (['--precision', 'bf16'], ['--precision', 'fp16', '--memory', 'min'], ['--loss', 'ce_dice', '--memory', 'lean'],
                  ['--classes', 1, '--threads', 1]):
        is_sound(stoke_json('bench', 'step', '--short', *SMALL, *flags))
    contains(stoke('bench', 'step', '--short', *SMALL, '--precision', 'auto').stdout, 'img/s')


def forward():
    answer = stoke_json('bench', 'step', '--forward', '--short', '--batch', 1, '--size', '48x80')
    is_sound(answer)
    equal((answer['pass'], answer['size']), ('forward', '48x80'))
    assert 'loss' not in answer and not any('backward' in part['name'] for part in answer['parts'] if part['ms'] > 0)


def step_for_people():
    done = stoke('bench', 'step', '--short', *SMALL)
    contains(done.stdout, 'SegFormer b0, 1 x 64x64, 19 classes, fp32', 'part', 'img/s', 'GFLOP/s', 'planned')
    contains(done.stderr, 'memory: parameters', 'opening SegFormer b0')
    contains(stoke('bench', 'step', '--model', 'resnet', '--dry-run', *SMALL).stdout, 'residual network resnet, 1 x 64x64, 19 classes, fp32')


def interrupted():
    """Ctrl-C ends it after the step it is in, whether it is opening, warming up or measuring."""
    running = subprocess.Popen([STOKE, 'bench', 'step', '--seconds', '600', '--batch', '1', '--size', '64'],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in running.stderr:
        if line.startswith('opening'):
            break
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    equal((running.returncode, out), (130, ''))
    contains(err, 'interrupted')


def dry_run():
    """What b5 at 2 x 8192x8192 takes, in no time and no memory."""
    large = ['--model', 'b5', '--batch', 2, '--size', 8192, '--dry-run']
    contains(stoke('bench', 'step', *large).stdout, 'SegFormer b5, 2 x 8192x8192, 19 classes, fp32, full step, memory plain',
             'memory: parameters', ' GiB\n', 'parameters, ', 'TFLOP per step')
    contains(stoke('bench', 'step', '--dry-run', *SMALL).stdout, 'available: ', '; it fits\n', ' MiB\n', 'GFLOP per step')
    bytes_of = {}
    for mode in ('plain', 'lean', 'min'):
        answer = stoke_json('bench', 'step', *large, '--memory', mode)
        equal((answer['memory'], answer['parts']), (mode, []))
        equal(sum(answer['plan'].values()), answer['planned_bytes'], 'the parts of the plan')
        assert answer['parameter_count'] > 84e6 and answer['flops'] > 1e12, answer
        equal(answer['fits'], answer['available_bytes'] >= answer['planned_bytes'] - answer['plan']['process_bytes'])
        assert 'img_per_s' not in answer, 'nothing was measured'
        bytes_of[mode] = answer['planned_bytes']
    assert bytes_of['plain'] > bytes_of['lean'] > bytes_of['min'] > 10e9, bytes_of


def products():
    answer = stoke_json('bench', 'net', '--model', 'b0', '--only', 'fc1', '--short', *SMALL)
    rows = answer['products']
    assert answer['cpu']
    equal({row['layer'] for row in rows}, {f'stage {i} fc1' for i in (1, 2, 3, 4)})
    equal({row['pass'] for row in rows}, {'forward', 'input', 'weight'})
    assert 'c' in {row['table'] for row in rows} and 'bf16' in {row['precision'] for row in rows}, rows
    for row in rows:
        assert row['model'] == 'b0' and row['calls'] == 2 and row['ms'] > 0 and row['share_of_peak'] > 0, row
        gflops = 2 * row['rows'] * row['in'] * row['out'] / row['ms'] / 1e6
        assert abs(row['gflops'] - gflops) < 1e-6 * gflops, row
    assert {(row['rows'], row['in'], row['out']) for row in rows if row['table'] != 'c' and row['layer'] == 'stage 1 fc1'} <= \
        {(256, 32, 128)}, rows


def products_of_any_network():
    """Layers of one shape are one product; a pass that a step has none of is not measured."""
    found = {}
    for row in stoke_json('bench', 'net', '--model', 'resnet', '--short', *SMALL)['products']:
        if row['table'] != 'c':
            found.setdefault((row['layer'], row['rows'], row['in'], row['out'], row['calls']), set()).add(row['pass'])
    every = {'forward', 'input', 'weight'}
    equal(found, {('head', 4096, 27, 32, 1): {'forward', 'weight'}, ('body.*.conv1', 4096, 288, 32, 4): every,
                  ('body.*.conv2', 4096, 288, 32, 4): every, ('tail', 4096, 288, 19, 1): every})
    unet = {(row['layer'], row['in'], row['out']) for row in stoke_json('bench', 'net', '--model', 'unet', '--short', *SMALL)['products']}
    equal(len(unet), 2 * 4 + 2 + 3 * 4 + 1)
    assert {('down.0.conv1', 27, 16), ('bottom.conv2', 2304, 256), ('up.3.grow', 2304, 512), ('tail', 144, 19)} <= unet, unet
    contains(stoke('bench', 'net', '--model', 'unet', '--size', 72, code=2).stderr, 'sides of a U-Net are multiples of 16')


def products_are_the_work_of_a_step():
    """All of b0's arithmetic but that of depthwise convolutions and of weights that the head folds."""
    rows = stoke_json('bench', 'net', '--model', 'b0', '--short', '--batch', 1, '--size', 128)['products']
    work = sum(row['ms'] * row['gflops'] * row['calls'] for row in rows if row['table'] != 'c' and row['precision'] == 'bf16') * 1e6
    flops = stoke_json('bench', 'step', '--dry-run', '--batch', 1, '--size', 128)['flops']
    folded = 3 * 2 * 256 * 256 * (32 + 64 + 160 + 256)
    assert 0.95 < (work + folded) / flops < 1, (work, folded, flops)
    attention = [row for row in rows if row['layer'] == 'stage 1 attention' and row['table'] != 'c']
    equal({(row['pass'], row['rows'], row['in'], row['out'], row['calls']) for row in attention},
          {('forward', 1024, 32, 32, 2), ('input', 1024, 32, 32, 2)})


def products_for_people():
    done = stoke('bench', 'net', '--model', 'b0', '--only', 'classifier', '--short', *SMALL)
    contains(done.stdout, 'rows x in x out', 'classifier', "products with 'classifier' in their name of a step", 'GFLOP/s')


def what_cannot_be():
    for words, told in [(['step', '--model', 'b7'], 'b7'), (['step', '--size', 0], 'pictures of 0 x 0: 29 x 29 to 32768 x 32768'),
                        (['step', '--size', '64x28'], '29 x 29'),
                        (['step', '--classes', 0], 'classes'), (['step', '--batch', 0], 'batch'),
                        (['step', '--precision', 'int8'], 'fp32'), (['step', 'word'], 'word'),
                        (['net', '--model', 'c3'], 'c3'), (['net', '--only', 'fc3'], "'fc3' in its name: there are"),
                        (['net', '--size', 16], '29 x 29')]:
        contains(stoke('bench', *words, code=2).stderr, told)
    equal(stoke_json('bench', 'step', '--model', 'b7', code=2)['error']['code'], 'invalid')


def weights_that_are_not_there():
    nowhere = path('nowhere')
    contains(stoke('bench', 'step', '--weights', nowhere, *SMALL, code=1).stderr, nowhere)
    equal(stoke_json('bench', 'step', '--weights', nowhere, '--dry-run', *SMALL, code=1)['error']['code'], 'not-found')


def weights_say_what_they_are():
    folder = write_weights('seven', 7)
    answer = stoke_json('bench', 'step', '--weights', folder, '--dry-run', *SMALL)
    equal((answer['model'], answer['classes']), ('b0', 7))
    answer = stoke_json('bench', 'step', '--weights', folder, '--classes', 3, '--dry-run', *SMALL)
    equal((answer['model'], answer['classes']), ('b0', 3))
    contains(stoke('bench', 'step', '--weights', folder, '--model', 'b2', '--dry-run', *SMALL, code=2).stderr, 'holds a b0', 'b2')
    answer = stoke_json('bench', 'step', '--dry-run', *SMALL)
    equal((answer['model'], answer['classes']), ('b0', 19))


sys.exit(tap.run([
    ('step', step),
    ('step for a while', step_for_a_while),
    ('of a settings file', of_a_settings_file),
    ('step in other precisions, memory modes, losses', step_in_other_ways),
    ('forward', forward),
    ('step for people', step_for_people),
    ('interrupted', interrupted),
    ('dry run', dry_run),
    ('products', products),
    ('products of any network', products_of_any_network),
    ('products are the work of a step', products_are_the_work_of_a_step),
    ('products for people', products_for_people),
    ('what cannot be', what_cannot_be),
    ('weights that are not there', weights_that_are_not_there),
    ('weights say model and classes', weights_say_what_they_are),
]))
