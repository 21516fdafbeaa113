# SPDX-License-Identifier: Apache-2.0
"""Runs of several processes validate together: their logs, tables, networks and pictures are those of one process."""
import csv
import functools
import json
import os
import shutil
import subprocess
import sys

from cli import STOKE, WORK, contains, equal, make_set, path, stoke, tap

SET = make_set('set', count=24, size='64x48', classes=4)
COMMON = ['--val-split', '0.4', '--batch', '2', '--replicas', '3', '--steps', '4', '--eval-every', '2', '--threads', '1', '--workers', '1',
          '--no-tensorboard', '--quiet']
TIMES = ('t', 'seconds', 'data_seconds')


@functools.cache
def pairs():
    stoke('synth', path('pairs'), '--task', 'restore', '--count', 24, '--size', '48x64', '--seed', 3, '--quiet')
    return path('pairs')


def train(world, *args):
    """The command, as a process by itself or as that many ranks."""
    mpi = shutil.which('mpirun')
    if world == 1:
        return stoke('train', *args)
    if not mpi or 'Open MPI' not in subprocess.run([mpi, '--version'], capture_output=True, text=True, check=False).stdout:
        raise tap.Skip('no Open MPI')
    plugin = os.path.join(os.path.dirname(STOKE), '..', 'plugins', 'libstoke-mpi.so')
    if not os.path.exists(plugin):
        raise tap.Skip('no plugin for MPI')
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    return subprocess.run([mpi, '--oversubscribe', '--bind-to', 'none', '-np', str(world), STOKE, 'train', *map(str, args)], cwd=WORK, env=env,
                          capture_output=True, text=True, timeout=240, check=False)


def found(name):
    """All that a run tells of its evaluations, but the times."""
    folder = path('runs', name)
    with open(os.path.join(folder, 'log.jsonl'), encoding='utf-8') as stream:
        log = [json.loads(line) for line in stream]
    with open(os.path.join(folder, 'metrics.csv'), encoding='utf-8') as stream:
        table = [{key: value for key, value in row.items() if 'second' not in key and key not in TIMES} for row in csv.DictReader(stream)]
    result = {'mode': log[0]['eval_mode'],
              'evaluations': [{key: value for key, value in line.items() if key not in TIMES} for line in log if line['kind'] == 'eval'],
              'bad': [line['text'] for line in log if line['kind'] == 'remark' and line['text'].startswith('validation')],
              'table': [{key: row[key] for key in row if key != 'images_per_s'} for row in table]}
    for file in ('best/model.safetensors', 'predictions/000002.png', 'predictions/000004.png'):
        with open(os.path.join(folder, file), 'rb') as stream:
            result[file] = stream.read()
    return result


def same_for_all(name, *args):
    runs = {}
    for world in (1, 2, 3):
        run = f'{name}{world}'
        done = train(world, *args, *COMMON, '--name', run)
        equal(done.returncode, 0, done.stderr)
        runs[world] = found(run)
        for key, value in runs[1].items():
            assert runs[world][key] == value, f'{world} processes: another {key}: {str(runs[world][key])[:500]} instead of {str(value)[:500]}'
    equal(len(runs[1]['evaluations']), 2)
    return runs[1]


def at_the_size_of_the_network():
    got = same_for_all('resized', SET, '--size', 32, '--eval-mode', 'resize', '--average', '0.9')
    assert len(got['evaluations'][0]['worst']) >= 5 and not got['bad'], got['evaluations'][0]


def windows_over_pictures():
    got = same_for_all('slid', SET, '--size', 32, '--augment', 'random_crop')
    equal(got['mode'], 'slide')


def whole_pictures():
    got = same_for_all('whole', pairs(), '--patch-size', 24, '--base-channels', 8, '--num-blocks', 1)
    assert got['evaluations'][1]['psnr'] > 0, got['evaluations'][1]


def bad_files():
    """Those that any rank met are told."""
    folder = path('spoilt')
    shutil.copytree(SET, folder)
    for name in sorted(os.listdir(os.path.join(folder, 'images')))[::2]:
        with open(os.path.join(folder, 'images', name), 'wb') as stream:
            stream.write(b'no picture')
    got = same_for_all('slid-spoilt', folder, '--size', 32, '--augment', 'random_crop', '--max-bad', 24)
    contains(got['bad'][0], 'bad files were left out; the first: ')
    got = same_for_all('resized-spoilt', folder, '--size', 32, '--eval-mode', 'resize', '--max-bad', 24)
    contains(got['bad'][0], 'replaced by another sample')


sys.exit(tap.run([
    ("at the network's size", at_the_size_of_the_network),
    ('windows over pictures', windows_over_pictures),
    ('whole pictures', whole_pictures),
    ('bad files', bad_files),
]))
