# SPDX-License-Identifier: Apache-2.0
"""Rounds of the promise that memory stays below its plan: a random set, a random command, its peak against its line."""
import os
import random
import re
import subprocess

from PIL import Image

SLACK = 1.05
UNSTEADY = 0.8  # MiB
LIMITED = 0.3  # of the rounds ask for too little first, and then for what the refusal names
SIDES = (16, 40, 90, 200, 480)
LARGE = ((4000, 3000), (3000, 4000), (2400, 1600), (5000, 700))
PLACEMENTS = ('auto', 'host', 'device')
COMMANDS = ('hash', 'dump', 'show', 'verify', 'pack', 'pack-tar', 'diagnose', 'train', 'eval', 'predict', 'hash-device', 'bench-device', 'recipe',
            'find-lr', 'synth', 'find-batch', 'bench-data', 'bench-transfer', 'bench-net', 'bench-step')
UNLIMITED = ('find-lr', 'recipe', 'hash-device', 'bench-device', 'bench-data', 'bench-transfer', 'find-batch')  # several things one after the other
RESTORING = ('hash', 'dump', 'show', 'verify', 'pack')  # sets of theirs may have targets
KINDS = ('jpg', 'progressive.jpg', 'png', 'tif', 'webp')


def picture(rng, width, height):
    small = Image.frombytes('RGB', (max(2, width // 16), max(2, height // 16)),
                            rng.randbytes(3 * max(2, width // 16) * max(2, height // 16)))
    return small.resize((width, height), Image.BICUBIC)


def mask(rng, width, height):
    w, h = max(1, width // 32), max(1, height // 32)
    return Image.frombytes('L', (w, h), bytes(rng.randrange(4) for _ in range(w * h))).resize((width, height), Image.NEAREST)


def write_pair(rng, folder, number, kind, width, height, scale=0):
    image = picture(rng, width, height)
    name = os.path.join(folder, 'images', f'{number:04d}.{kind.split(".")[-1]}')
    if kind.endswith('jpg'):
        image.save(name, quality=rng.choice((50, 85, 95)), progressive=kind.startswith('progressive'))
    elif kind == 'tif':
        image.save(name, compression=rng.choice((None, 'tiff_lzw', 'tiff_deflate')))
    elif kind == 'webp':
        image.save(name, lossless=rng.random() < 0.3, method=0)
    else:
        image.save(name, compress_level=1)
    if scale:
        picture(rng, scale * width, scale * height).save(os.path.join(folder, 'targets', f'{number:04d}.png'), compress_level=1)
    else:
        mask(rng, width, height).save(os.path.join(folder, 'masks', f'{number:04d}.png'), compress_level=1)


def make_set(rng, folder, scale=0):
    """Small pictures of one or of all sizes and kinds; in most sets a large one is hidden. With a scale there are targets in place of masks."""
    for part in ('images', 'targets' if scale else 'masks'):
        os.makedirs(os.path.join(folder, part))
    count, one_kind = rng.randrange(6, 14), rng.choice(KINDS + (None,))
    large = rng.randrange(count) if rng.random() < 0.7 else -1
    for i in range(count):
        width, height = rng.choice(LARGE) if i == large else (rng.choice(SIDES), rng.choice(SIDES))
        write_pair(rng, folder, i, one_kind or rng.choice(KINDS), width, height, scale)
    return folder


def loading(rng):
    args = ['--size', str(rng.choice((32, 64, 160, 256))), '--batch', str(rng.choice((1, 2, 4))), '--max-bad', '100%',
            '--workers', str(rng.choice((0, 1, 2, 3))), '--prefetch', str(rng.choice((1, 2, 4)))]
    return args + ['--augment', rng.choice(('none', 'standard', 'strong', 'crop'))]


def training(rng):
    args = ['--size', str(rng.choice((32, 64, 128))), '--batch', str(rng.choice((1, 2, 4))), '--workers', str(rng.choice((0, 1, 3))),
            '--memory', rng.choice(('plain', 'lean', 'min')), '--augment', rng.choice(('none', 'standard', 'crop'))]
    return args + ['--classes', '4', '--val-split', '0.4', '--max-bad', '100%', '--steps', '2', '--eval-every', '1']


def predicting(rng):
    return ['--overlap', '0', '--mode', rng.choice(('resize', 'slide', 'auto'))] + (['--flip'] if rng.random() < 0.3 else [])


def diagnosing(rng, folder, work):
    """On a simulated card, on the host and by the native engine; with or without the runs that verify, and the trace of a page."""
    device = rng.choice(('sim:rtx3090', 'host', 'native'))
    step = ['--classes', '4'] if device == 'native' else ['--step-ms', '1']
    verify = ['--verify', '--pairs', '1'] if rng.random() < 0.4 else []
    page = ['--html', os.path.join(work, 'page.html')] if rng.random() < 0.4 else []
    kept = [] if rng.random() < 0.5 else ['--no-persistent']
    return ['diagnose', folder, '--device', device, *step, '--steps', '4', *verify, *page, *kept, *loading(rng)]


def searching(rng, folder):
    """Trials on the processor, which has all the memory that it may take, or of a simulated GPU, fed by a loader."""
    data = [folder] if rng.random() < 0.5 else []
    shape = ['--size', str(rng.choice((32, 64))), '--classes', '4', '--steps', '3', '--although-busy']
    if rng.random() < 0.5:
        return ['find-batch', *data, *shape, rng.choice(('--vram=0.15', '--memory-limit=170M'))]
    return ['find-batch', *data, *shape, '--device', 'sim:t4', '--memory-limit', rng.choice(('60M', '300M'))]


def benching(rng, name, folder):
    if name == 'bench-data':
        return ['bench', 'data', folder, '--short', *loading(rng)]
    if name == 'bench-transfer':
        return ['bench', 'transfer', folder, '--short', '--device', rng.choice(('host', 'sim:rtx3090')), *loading(rng)]
    shape = ['--short', '--model', 'b0', '--size', str(rng.choice((32, 64, 128))), '--batch', str(rng.choice((1, 2, 4)))]
    if name == 'bench-net':
        return ['bench', 'net', *shape, '--only', rng.choice(('fc1', 'query', 'head'))]
    return ['bench', 'step', *shape, '--memory', rng.choice(('plain', 'lean', 'min')), *rng.choice(([], ['--forward']))]


def command(rng, name, folder, work, run):
    if name.startswith('bench-') and name != 'bench-device':
        return benching(rng, name, folder)
    if name == 'find-batch':
        return searching(rng, folder)
    if name == 'synth':
        pairs = ['--task', 'restore', '--degrade', 'mix', '--scale', str(rng.choice((1, 2)))] if rng.random() < 0.4 else []
        return ['synth', os.path.join(work, 'synth'), '--count', '3', '--size', f'{rng.choice((64, 500, 2048))}x{rng.choice((64, 500, 3000))}',
                '--threads', str(rng.choice((0, 1, 2, 3))), *pairs]
    if name == 'train':
        lanes = rng.choice(([], [], ['--replicas', '3', '--accumulate', rng.choice(('1', '2')), '--batch-norm', rng.choice(('sync', 'sync', 'local'))]))
        return ['train', folder, '--runs', work, '--name', 'run', *training(rng), *lanes]
    if name == 'find-lr':
        return ['find-lr', folder, '--sweep-steps', '100', '--out', os.path.join(work, 'lr.svg'), *training(rng)[:-4]]
    if name == 'recipe':
        settings = training(rng)
        return ['recipe', 'progressive', folder, '--stages', f'b0@{settings[1]}:1,b1@{rng.choice((32, 64))}:1', '--runs', work, '--name', 'run', *settings[2:]]
    if name == 'predict':
        return ['predict', run, os.path.join(folder, 'images'), '--out', os.path.join(work, 'masks'),
                *predicting(rng), *(['--overlay'] if rng.random() < 0.5 else [])]
    if name == 'eval':
        original = ['--original', *predicting(rng)] if rng.random() < 0.6 else []
        out = ['--out', os.path.join(work, 'eval')] if rng.random() < 0.5 else []
        return ['eval', run, '--data', folder, '--split', 'all', '--max-bad', '100%', *original, *out]
    if name == 'pack':
        return ['pack', folder, '--format', 'cache', '--out', os.path.join(work, 'cache'), *loading(rng)[:6]]
    if name == 'pack-tar':
        return ['pack', folder, '--out', os.path.join(work, 'shards'), '--shard-samples', str(rng.choice((0, 1, 3)))]
    if name == 'diagnose':
        return diagnosing(rng, folder, work)
    if name == 'verify':
        return ['verify', folder, '--workers', str(rng.choice((1, 2, 4)))]
    if name == 'show':
        return ['show', folder, '--out', os.path.join(work, 'show.png'), '--size', str(rng.choice((64, 160)))]
    if name == 'hash-device':
        return ['hash', folder, '--device', rng.choice(('host', 'sim:rtx3090')), '--placement', rng.choice(PLACEMENTS), *loading(rng)]
    if name == 'bench-device':
        data = [folder] if rng.random() < 0.7 else []
        return ['bench', 'device', *data, '--device', rng.choice(('host', 'sim:rtx3090')), '--placement', rng.choice(PLACEMENTS), '--short',
                '--transfer', rng.choice(('stream', 'pinned', 'pageable')), *loading(rng)]
    if name == 'dump':
        return ['dump', folder, '--out', os.path.join(work, 'dump'), '--batches', '2', *loading(rng)]
    return [name, folder, *loading(rng)]


def measure(stoke, peak, args, work):
    """(planned, held, exit status, stderr) of a command, in bytes."""
    into = os.path.join(work, 'peak')
    done = subprocess.run([peak, into, stoke, *args], capture_output=True, text=True, cwd=work, timeout=300)
    plans = re.findall(r'^memory: (?:up to |.* = )([0-9.]+) (KiB|MiB|GiB)', done.stderr, re.M)
    planned = max((float(number) * {'KiB': 1 << 10, 'MiB': 1 << 20, 'GiB': 1 << 30}[unit] for number, unit in plans), default=None)
    with open(into, encoding='ascii') as file:
        return planned, int(file.read()), done.returncode, done.stderr


def refused(stoke, args, work, limit):
    """What would do instead, in MiB; None: it was not refused."""
    done = subprocess.run([stoke, *args, '--memory-limit', limit], capture_output=True, text=True, cwd=work, timeout=300)
    said = re.search(r'--memory-limit is [0-9.]+ MiB, but .* = [0-9.]+ [MG]iB. Set --memory-limit to ([0-9.]+)M or more, or ', done.stderr)
    assert (done.returncode == 1) == bool(said), f'{args} --memory-limit {limit}: exit {done.returncode}\n{done.stderr}'
    return float(said[1]) if said else None


def least_limit(stoke, peak, args, work):
    """The limit that a refusal names is accepted and kept, and 5 % less is refused. Returns (limit, held) in bytes.

    What the process holds by itself differs by 0.3 MiB from one start to the next, and the refusal adds as much and rounds up:
    of 12 MiB that is more than 5 %, so it is taken off as well."""
    will_do = refused(stoke, args, work, '1M')
    assert will_do, f'{args}: 1M is enough'
    assert refused(stoke, args, work, f'{will_do * 0.95 - UNSTEADY:.2f}M'), f'{args}: {will_do}M is said to be needed, and 5 % less does'
    planned, held, code, said = measure(stoke, peak, [*args, '--memory-limit', f'{will_do}M'], work)
    limit = will_do * 2**20
    assert code == 0, f'{args} --memory-limit {will_do}M: exit {code}\n{said}'
    printed = limit * 1.001 + 0.05 * 2**(30 if limit >= 2**30 else 20)  # with one digit
    assert planned <= printed, f'{args}: {planned / 2**20:.1f} MiB planned under {will_do}M\n{said}'
    return limit, held


def one_round(stoke, peak, seed, name, work, run):
    """Returns (ratio, words about it). An AssertionError is a plan that was not kept, or none at all."""
    rng = random.Random(seed)
    os.makedirs(work)
    scale = rng.choice((1, 2)) if name in RESTORING and rng.random() < 0.3 else 0
    folder = make_set(rng, os.path.join(work, 'set'), scale)
    args = command(rng, name, folder, work, run) + (['--scale', str(scale)] if scale else [])
    words = f'seed {seed}: stoke {" ".join(args)}'
    if rng.random() < LIMITED and name not in UNLIMITED:
        planned, held = least_limit(stoke, peak, args, work)
        words += ' at the least limit'
        code, said = 0, ''
    else:
        planned, held, code, said = measure(stoke, peak, args, work)
    assert code in (0, 1), f'{words}: exit {code}\n{said}'
    assert planned, f'{words}: no plan\n{said}'
    words += f': planned {planned / 2**20:.1f} MiB, held {held / 2**20:.1f} MiB'
    assert held <= planned * SLACK, f'{words}: {held / planned:.2f} times the plan\n{said}'
    return held / planned, words
