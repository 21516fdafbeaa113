# SPDX-License-Identifier: Apache-2.0
"""The same state, to the bit, for any number of processes and threads and either engine: a table of its hashes. The engine of tests,
whose ranks are threads, has the same in tests/unit/test_lanes.c. PyTorch takes a processor for seconds before it begins: with
STOKE_TEST_ROUNDS=full one number of processes is tried with it, with STOKE_TEST_ROUNDS=1 all are."""
import glob
import json
import os
import socket
import struct
import subprocess
import sys

from cli import STOKE, WORK, equal, make_set, path, stoke, tap
from launching import ENV, launch, needed

needed()
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(STOKE)), 'python')
WORLDS = (1, 2, 3, 4, 6, 8)
LANES = ['--replicas', '8', '--batch', '2', '--workers', '1', '--seed', '5', '--steps', '3', '--eval-every', '3', '--no-pictures', '--quiet']


def segmentation():
    return [make_set('set', count=40, size='64x64', classes=4), '--size', '64', '--model', 'b0', '--average', '0.9']


def restoration():
    stoke('synth', path('pairs'), '--task', 'restore', '--count', 24, '--size', '48x64', '--seed', 4, '--quiet')
    return [path('pairs'), '--task', 'restore', '--patch-size', '32', '--base-channels', '8']


def state_hash(run):
    """Over weights, moments, average and running statistics."""
    with open(path('runs', run, 'state.safetensors'), 'rb') as stream:
        header = json.loads(stream.read(struct.unpack('<Q', stream.read(8))[0]))
    return json.loads(header['__metadata__']['stoke_state'])['data_xxh3']


def by_mpi(world, *line):
    launch(world, *line)


def by_torch(world, *line):
    """As torchrun would; without its launcher, which takes as long as the run."""
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        port = one.getsockname()[1]
    ranks = []
    for rank in range(world):
        place = {'RANK': rank, 'LOCAL_RANK': rank, 'WORLD_SIZE': world, 'LOCAL_WORLD_SIZE': world, 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': port,
                 'PYTHONPATH': PACKAGE, 'OMP_NUM_THREADS': 1}
        ranks.append(subprocess.Popen([sys.executable, '-m', 'stokehold', 'train', *map(str, line)], cwd=WORK,
                                      env={**ENV, **{name: str(value) for name, value in place.items()}}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    texts = [rank.communicate(timeout=240)[0] for rank in ranks]
    equal([rank.returncode for rank in ranks], [0] * world, texts)


def why_not_torch():
    if not glob.glob(os.path.join(PACKAGE, 'stokehold', '_stoke*.so')):
        return 'this build has no Python package'
    here = subprocess.run([sys.executable, '-c', 'import torch.distributed as d; assert d.is_available()'], stderr=subprocess.DEVNULL)
    return 'no torch.distributed' if here.returncode else None


def row(model, data, threads, engine, run, worlds):
    def test():
        missing = why_not_torch() if engine == 'c10d' else None
        if missing:
            raise tap.Skip(missing)
        line = [*data(), *LANES, '--threads', threads]
        alone = f'{model}-alone'
        if not os.path.exists(path('runs', alone)):
            stoke('train', *line, '--name', alone)
        hashes = {}
        for world in worlds:
            name = f'{model}-{engine}-{world}x{threads}'
            run(world, *line, '--name', name)
            hashes[world] = state_hash(name)
        print(f'# {model} {engine:4} {threads} threads: ' + '  '.join(f'{world}: {text}' for world, text in hashes.items()), flush=True)
        equal(set(hashes.values()), {state_hash(alone)}, f'states; by itself it is {state_hash(alone)}')
    return test


KINDS = {'b0': segmentation, 'resnet': restoration}
ENGINES = {'mpi': by_mpi, 'c10d': by_torch}
TESTS = [('resnet, mpi, 1 thread, 6 processes of 8 lanes', row('resnet', restoration, 1, 'mpi', by_mpi, [6])),
         ('b0, mpi, 2 threads, 5 processes of 8 lanes', row('b0', segmentation, 2, 'mpi', by_mpi, [5]))]
WORLDS_OF = {'mpi': WORLDS, 'c10d': WORLDS[1:] if tap.ROUNDS.isdigit() else (3,)}
LATER = [(f'{model}, {engine}, {threads} threads', row(model, data, threads, engine, run, WORLDS_OF[engine]))
         for model, data in KINDS.items() for threads in (1, 2) for engine, run in ENGINES.items()]

sys.exit(tap.run(LATER if tap.FULL else TESTS))
