# SPDX-License-Identifier: Apache-2.0
"""Networks that restore pictures, from a made-up set to the report: what is chosen, gained, refused, and the same again."""
import functools
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib

import memory_rounds
import run_folder
from cli import STOKE, WORK, contains, equal, files_below, make_set, path, stoke, stoke_json, tap

SMALL = ['--patch-size', 24, '--base-channels', 8, '--num-blocks', 1, '--batch', 4]
QUIET = ['--no-tensorboard', '--quiet']


@functools.cache
def pairs(name='pairs', *more):
    stoke('synth', path(name), '--task', 'restore', '--count', 14, '--size', '48x64', '--seed', 3, '--quiet', *more)
    return path(name)


def folder(name):
    return path('runs', name)


def evaluations(name):
    return [line for line in run_folder.read_log(folder(name)) if line['kind'] == 'eval']


@functools.cache
def run_a():
    return stoke('train', pairs(), *SMALL, '--steps', 60, '--eval-every', 30, '--log-every', 5, '--name', 'a')


def whole_run():
    """Network, loss, metric, windows and rate are chosen; the log and the report have PSNR and SSIM."""
    done = run_a()
    contains(done.stderr, 'network: residual network resnet, 0.0016 million parameters, pictures restored, 24x24 pixels',
             'whole, at their own size', 'evaluation at step 60: PSNR ', 'the best so far by PSNR',
             'stoke predict runs/a PICTURES --out restored')
    contains(done.stdout, 'best: PSNR ', 'report: runs/a/report.html')
    assert 'mIoU' not in done.stdout + done.stderr
    config = open(path('runs', 'a', 'config.yaml')).read()
    contains(config, '\ntask: restore\n', '\nmodel: "resnet"\n', '\nbase_channels: 8\n', '\nnum_blocks: 1\n', '\nloss: charbonnier\n',
             '\nmetric: psnr\n', '\nnormalize: unit\n', '\nsize: 24\n', '\naugment: "random_crop,hflip,vflip"\n', '\neval_mode: slide\n')
    start = run_folder.read_log(folder('a'))[0]
    equal((start['task'], start['classes'], start['metric']), ('restore', 0, 'psnr'))
    first, last = evaluations('a')
    assert last['psnr'] > first['psnr'] and last['loss'] < first['loss'], (first, last)
    assert 0 < last['ssim'] < 1 and 'confusion' not in last and 'iou' not in last, last
    equal([key for key in last['worst'][0]], ['name', 'psnr', 'ssim'])
    values = [worst['psnr'] for worst in last['worst']]
    equal(values, sorted(values), 'the worst come first')
    with open(path('runs', 'a', 'metrics.csv')) as stream:
        equal(stream.readline().strip(), 'step,epoch,seconds,loss,psnr,ssim')
    files = files_below(folder('a'))
    for name in ('best/model.safetensors', 'predictions/000060.png', 'curves/psnr.svg', 'state.safetensors'):
        assert name in files, files
    page = open(path('runs', 'a', 'report.html')).read()
    contains(page, 'residual network resnet', 'best PSNR, at step 60', 'over the pictures as they came', 'Worst images', 'PSNR ')
    stoke('report', 'runs/a', '--force')
    equal(open(path('runs', 'a', 'report.html')).read(), page, 'the report made again')


def eval_agrees():
    """Whole pictures in tiles, whatever the tiles: the scores of the run's own validation."""
    run_a()
    last = evaluations('a')[-1]
    found = stoke_json('eval', 'runs/a')
    equal((found['psnr'], found['ssim'], found['loss']), (last['psnr'], last['ssim'], last['loss']))
    equal(found['input'], {'psnr': last['input_psnr'], 'ssim': last['input_ssim']})
    tiles = stoke_json('eval', 'runs/a', '--size', 32)
    assert tiles['windows'] > found['windows'] and abs(tiles['psnr'] - found['psnr']) < 1e-6, tiles
    done = stoke('eval', 'runs/a', '--out', path('eval'))
    contains(done.stdout, 'PSNR ', 'as they came: PSNR ', 'gained ', 'worst pictures')
    equal(files_below(path('eval')), ['eval.json', 'worst.png'])
    contains(stoke('eval', 'runs/a', '--data', make_set('masks', count=4), code=1).stderr, 'targets')


def predicted_sets():
    """Of a set with targets the pictures are restored: whoever names it, and however the run was told of its own."""
    run_a()
    data = pairs()
    def names(out, run, *words):
        equal(stoke_json('predict', f'runs/{run}', *words, '--out', path(out))['bad'], 0)
        return files_below(path(out))
    everything = names('predicted', 'a', data)
    equal(len(everything), 14)
    equal(names('predicted-set', 'a', '--data', data), everything)
    val = names('predicted-val', 'a', '--data', data, '--split', 'val')
    equal(len(val), evaluations('a')[-1]['samples'])
    stoke('train', '--images', os.path.join(data, 'images'), '--targets', os.path.join(data, 'targets'), *SMALL, '--steps', 2, '--name', 'apart',
          '--no-pictures', *QUIET)
    equal(names('predicted-apart', 'apart', '--data', data), everything)
    alone = path('alone', 'photos')
    shutil.copytree(os.path.join(data, 'images'), alone)
    equal(names('predicted-alone', 'apart', '--data', path('alone', 'photos')), everything)
    larger = pairs('smaller', '--scale', '2')
    stoke('train', larger, '--scale', 2, *SMALL, '--patch-size', 16, '--steps', 2, '--name', 'larger', '--no-pictures', *QUIET)
    equal(names('predicted-larger', 'larger', '--data', alone), everything)


def gains():
    """A few seconds of training are better than leaving the noise."""
    stoke('train', pairs('noisy', '--count', 24), '--patch-size', 32, '--base-channels', 16, '--num-blocks', 2, '--batch', 8, '--steps', 250,
          '--eval-every', 250, '--name', 'gains', '--no-pictures', *QUIET)
    last = evaluations('gains')[-1]
    assert last['psnr'] > last['input_psnr'] + 2, last


def killed_and_resumed():
    words = ['train', pairs(), *SMALL, '--steps', 20, '--eval-every', 7, '--save-every', 3, '--log-every', 1, '--no-pictures', '--average', 0.9,
             '--accumulate', 2, *QUIET]
    stoke(*words, '--name', 'one-go')
    for _ in range(5):
        process = subprocess.Popen([STOKE, *map(str, words), '--name', 'killed'], cwd=WORK, stderr=subprocess.DEVNULL)
        while process.poll() is None and not any(line['kind'] == 'save' and line['step'] >= 9 for line in run_folder.read_log(folder('killed'))):
            time.sleep(0.001)
        process.kill()
        if process.wait() == -signal.SIGKILL:
            break
        stoke('train', '--resume', 'runs/killed', code=None)
        subprocess.run(['rm', '-r', folder('killed')], check=True)
    else:
        raise AssertionError('it was done before it could be killed, five times')
    stoke('train', '--resume', 'runs/killed', '--quiet')
    found = run_folder.differences(folder('one-go'), folder('killed'))
    assert not found, '\n'.join(found[:20])


def same_weights():
    """Whatever the threads; in every precision and with every way to save memory."""
    def weights(name, *more):
        stoke('train', pairs(), *SMALL, '--steps', 4, '--eval-every', 4, '--name', name, '--no-pictures', *QUIET, *more)
        with open(path('runs', name, 'last', 'model.safetensors'), 'rb') as stream:
            return stream.read(), evaluations(name)[-1]['psnr']
    for precision, memory in itertools.product(('fp32', 'bf16', 'fp16'), ('plain', 'lean', 'min')):
        found = [weights(f'{precision}-{memory}-{threads}', '--precision', precision, '--memory', memory, '--threads', threads)
                 for threads in ((1, 2, 3) if memory == 'lean' else (1, 3))]
        assert all(one == found[0] for one in found), f'{precision} {memory}'


def tail_alone():
    run_a()
    stoke('train', pairs(), *SMALL, '--pretrained', 'runs/a/best', '--freeze-encoder', '--steps', 3, '--name', 'tail', *QUIET)
    before = run_folder.read_tensors(path('runs', 'a', 'best', 'model.safetensors'))[1]
    after = run_folder.read_tensors(path('runs', 'tail', 'last', 'model.safetensors'))[1]
    equal(sorted(name for name in after if after[name] != before[name]), ['tail.bias', 'tail.weight'])


def larger_pictures():
    """Super-resolution: the targets say nothing of how good the inputs are."""
    data = pairs('smaller', '--scale', '2')
    done = stoke('train', data, '--scale', 2, *SMALL, '--patch-size', 16, '--steps', 6, '--name', 'x2', '--loss', 'mse')
    contains(done.stderr, 'pictures 2 times as large')
    last = evaluations('x2')[-1]
    assert last['input_psnr'] is None and last['psnr'] > 0, last
    contains(stoke('eval', path('runs', 'x2')).stdout, 'as they came: not compared', 'smaller than their targets')
    contains(stoke('train', data, *SMALL, code=1).stderr, 'scale')


def other_ways():
    """Whole pictures resized; a U-Net; no validation; what a set says by its folders."""
    done = stoke('train', pairs(), '--size', 24, '--base-channels', 8, '--num-blocks', 1, '--steps', 4, '--name', 'resized')
    contains(done.stderr, 'resizing changes what noise and edges look like: --patch-size 24', '3 whole pictures resized to 24x24')
    contains(open(path('runs', 'resized', 'config.yaml')).read(), '\naugment: "hflip,vflip"\n', '\neval_mode: resize\n')
    stoke('train', pairs(), '--model', 'unet', '--base-channels', 4, '--patch-size', 32, '--steps', 4, '--name', 'unet', *QUIET)
    assert evaluations('unet')[-1]['psnr'] > 0
    stoke('train', pairs(), *SMALL, '--steps', 4, '--eval-every', 0, '--name', 'blind', *QUIET)
    equal(evaluations('blind'), [])
    chosen = stoke_json('train', pairs(), '--dry-run')
    equal((chosen['size'], chosen['model'], chosen['task'], chosen['augment']), ([48, 48], 'resnet', 'restore', 'random_crop,hflip,vflip'))
    assert stoke_json('find-lr', pairs(), *SMALL, '--sweep-steps', 100, '--out', path('lr.svg'))['suggested'] > 0


def residual_network_segments():
    data = make_set('classes', count=8, size='48x48', classes=3)
    done = stoke('train', data, '--model', 'resnet', '--patch-size', 32, '--base-channels', 8, '--steps', 4, '--name', 'masks')
    contains(done.stderr, 'network: residual network resnet', '3 classes', 'evaluation at step 4: mIoU')
    contains(open(path('runs', 'masks', 'config.yaml')).read(), '\nloss: ce\n', '\nnormalize: imagenet\n', '\naugment: "random_crop,hflip"\n')
    contains(open(path('runs', 'masks', 'report.html')).read(), 'residual network resnet')


def refused():
    cases = [
        (['--model', 'b0'], 'b0 is a SegFormer, which labels pictures'),
        (['--loss', 'dice'], 'dice is a loss of masks'),
        (['--loss-mean', 'pixels'], 'full batches have one mean already'),
        (['--metric', 'f1'], 'psnr, ssim or loss'),
        (['--classes', 3], '--classes is of masks'),
        (['--class-weights', 'balanced'], '--class-weights is of masks'),
        (['--order', 'balanced'], '--order balanced is of masks'),
        (['--size', 32, '--patch-size', 24], '--patch-size 24 and --size 32x32'),
        (['--patch-size', 4], 'have no SSIM'),
        (['--augment', 'random_crop,normalize'], 'normalize is not for pictures that are restored'),
        (['--targets', path('nowhere'), '--images', path('pairs', 'images')], 'nowhere'),
        (['--model', 'unet', '--patch-size', 20], 'multiples of'),
    ]
    for words, text in cases:
        own = [] if '--images' in words else [pairs()]
        done = stoke('train', *own, '--steps', 1, '--name', 'no', *words, code=None)
        assert done.returncode, words
        contains(' '.join(done.stderr.split()), text)
    masks = make_set('masked', count=6)
    for words, text in ((['--loss', 'l1'], 'l1 is a loss of pictures that are restored'), (['--base-channels', 8], 'model b0 has its own sizes'),
                        (['--metric', 'psnr'], 'a run that segments takes'), (['--task', 'restore'], 'targets')):
        done = stoke('train', masks, '--steps', 1, '--name', 'no', *words, code=None)
        assert done.returncode, words
        contains(' '.join(done.stderr.split()), text)
    assert not os.path.exists(folder('no'))


def memory_is_planned():
    limit = stoke('train', pairs(), *SMALL, '--steps', 2, '--memory-limit', '1M', '--name', 'tight', code=1)
    contains(limit.stderr, 'validation network', '--memory-limit')


def noise(name, width, height):
    """A PNG of 16 bits that nothing makes smaller."""
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = b''.join(b'\0' + os.urandom(6 * width) for _ in range(height))
    with open(name, 'wb') as file:
        file.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 16, 2, 0, 0, 0))
                   + chunk(b'IDAT', zlib.compress(rows, 0)) + chunk(b'IEND', b''))


def large_targets_are_planned():
    """Four times as high and wide as their images, with 16 bits; and one that is far too large for its image."""
    stoke('train', pairs('by-four', '--scale', 4), '--scale', 4, *SMALL, '--patch-size', 12, '--steps', 2, '--name', 'x4', '--no-pictures', *QUIET)
    run_a()
    for name, run, sizes in (('large', 'x4', [(500, 400, 2000, 1600)]), ('odd', 'a', [(64, 64, 64, 64), (64, 64, 2400, 2000)])):
        for part in ('images', 'targets'):
            os.makedirs(path(name, part))
        for i, (width, height, wide, high) in enumerate(sizes):
            noise(path(name, 'images', f'{i}.png'), width, height)
            noise(path(name, 'targets', f'{i}.png'), wide, high)
        planned, held, code, said = memory_rounds.measure(STOKE, os.environ['STOKE_PEAK'],
                                                          ['eval', f'runs/{run}', '--data', name, '--size', '64', '--max-bad', '1'], WORK)
        equal(code, 0, said)
        assert held <= planned * memory_rounds.SLACK, (name, planned, held)


def bad_files():
    """A target that cannot be read is left out of validation, and the quarantine has its name."""
    data = pairs('bad', '--count', 20)
    for name in ('000003', '000004'):  # of training and of validation, by the hash of their names
        os.truncate(os.path.join(data, 'targets', name + '.png'), 60)
    done = stoke('train', data, *SMALL, '--steps', 4, '--val-split', 0.5, '--max-bad', 3, '--no-pictures', '--name', 'bad')
    contains(done.stderr, 'remark: training: bad files', 'remark: validation: 1 bad file was left out', 'targets/000003.png: PNG: the file ends early')
    with open(path('runs', 'bad', 'quarantine.jsonl')) as stream:
        equal(sorted(json.loads(line)['name'] for line in stream), ['000003', '000004'])
    equal(evaluations('bad')[-1]['samples'], 15)


sys.exit(tap.run([
    ('a run from pairs to the report', whole_run),
    ('eval has the scores of the run', eval_agrees),
    ('predict restores the pictures of a set', predicted_sets),
    ('training gains over the pictures as they came', gains),
    ('kill -9 and resume', killed_and_resumed),
    ('equal weights with any threads, in every mode', same_weights),
    ('the tail alone', tail_alone),
    ('larger pictures', larger_pictures),
    ('other ways to train', other_ways),
    ('a residual network segments', residual_network_segments),
    ('what makes no sense is refused', refused),
    ('memory is planned', memory_is_planned),
    ('large targets are planned', large_targets_are_planned),
    ('bad files', bad_files),
]))
