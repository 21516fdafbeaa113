# SPDX-License-Identifier: Apache-2.0
"""What befalls one of several processes that train together: each is refused or ended in order, with one sentence on the terminal, at
once, and what is on disk stays whole."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import network
import numpy
from PIL import Image

from cli import STOKE, WORK, contains, equal, files_below, path, stoke, tap
from launching import LANES, PLUGIN, SLOW, SMALL, Started, launch, needed, said, small_set, wait_for, weights

needed()
SET = small_set()
LINE = [SET, *SMALL, *LANES, '--threads', 1, '--save-every', 3, '--eval-every', 100, '--steps', 24]
RANK = '$OMPI_COMM_WORLD_RANK'
SOON = 5  # seconds after which all have ended


def only(rank, what):
    """A line of shell for that rank alone."""
    return f'[ {RANK} = {rank} ] && {{ {what}; }}; exec "$@"'


def one_sentence(text, *parts):
    lines = said(text)
    equal(len(lines), 1, text)
    contains(lines[0], *parts)


def unbroken():
    """The weights of a run in one go, by one process."""
    if not os.path.exists(path('runs', 'unbroken', 'last')):
        stoke('train', *LINE, '--name', 'unbroken', '--quiet')
    return weights('unbroken')


def goes_on(run, world=2):
    """From the checkpoint that is there, to the bits of a run in one go."""
    launch(world, '--resume', f'runs/{run}')
    equal(weights(run) == unbroken(), True, f'{run} has the bits of a run in one go')


# ---- a disk that is full, files that cannot be written ----

def small_disk():
    """A file system of a few MB, which holds no checkpoint; it goes away."""
    folder = path('disk')
    os.makedirs(folder)
    done = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=220m', 'stoke-test', folder], capture_output=True, text=True)
    if done.returncode:
        raise tap.Skip(f'no file system can be mounted: {done.stderr.strip()}')
    return folder


def full_disk():
    """It fills up behind the first checkpoint; with space again the same line goes on."""
    folder = small_disk()
    try:
        line = [*LINE, '--runs', folder, '--name', 'full', '--continue']
        launch(3, *line, '--stop-after', 3)
        left = os.statvfs(folder)
        with open(os.path.join(folder, 'ballast'), 'wb') as out:
            out.write(bytes(left.f_bavail * left.f_frsize - 10_000_000))
        with open(os.path.join(folder, 'full', 'state.safetensors'), 'rb') as stream:
            before = stream.read()
        done = launch(3, *line, code=1)
        one_sentence(done.stderr, 'No space left on device', folder)
        with open(os.path.join(folder, 'full', 'state.safetensors'), 'rb') as stream:
            equal(stream.read() == before, True, 'the checkpoint is as it was')
        os.remove(os.path.join(folder, 'ballast'))
        contains(launch(2, *line).stdout, '24 of 24 steps')
        with open(os.path.join(folder, 'full', 'last', 'model.safetensors'), 'rb') as stream:
            equal(stream.read() == unbroken(), True, 'the bits of a run in one go')
    finally:
        subprocess.run(['umount', '-l', folder])


def files_that_cannot_be_written():
    """The log, the report and the lists of the ranks are not worth a run: there is room for the checkpoint only."""
    launch(3, *LINE, '--name', 'mute', '--stop-after', 3)
    folder = path('runs', 'mute')
    blocks = os.path.getsize(os.path.join(folder, 'state.safetensors')) // 512 + 8
    with open(os.path.join(folder, 'log.jsonl'), 'a') as log:  # lines of a step that stays, up to the limit
        while (left := blocks * 512 - 300 - log.tell()) > 100:
            line = '{"kind":"filler","step":1,"text":"%s"}\n'
            log.write(line % ('x' * (min(left, 60000) - len(line) + 2)))
    os.remove(os.path.join(folder, 'report.html'))
    for name in ('report.html', 'log.rank0.jsonl', 'log.rank2.jsonl'):
        os.mkdir(os.path.join(folder, name))
    done = launch(3, '--resume', 'runs/mute', '--rank-logs', shell=only(0, f'ulimit -f {blocks}'))
    for what in ('lines of log.jsonl', 'the report'):
        equal(done.stderr.count(f'the run goes on without {what}: '), 1, what)
    contains(done.stdout, '24 of 24 steps')
    equal(weights('mute') == unbroken(), True, 'mute has the bits of a run in one go')


# ---- one of them fails ----

def infinite_at_one():
    """One mask has a class that the weights to begin with make as unlikely as can be: the loss of one batch is infinite, and finite
    everywhere else."""
    start, data = network.write(path('start'), classes=4), path('rare')
    file = os.path.join(start, 'model.safetensors')
    with open(file, 'r+b') as stream:
        length = struct.unpack('<Q', stream.read(8))[0]
        at = json.loads(stream.read(length))['decode_head.classifier.bias']['data_offsets'][0]
        stream.seek(8 + length + at)
        stream.write(struct.pack('<4f', 3e38, 3e38, 3e38, -3e38))
    shutil.copytree(SET, data)
    for n, name in enumerate(files_below(os.path.join(data, 'masks'))):
        name = os.path.join(data, 'masks', name)
        mask = numpy.array(Image.open(name)) % 3
        mask[:8, :8] = 3 if n == 20 else 0
        Image.fromarray(mask).save(name)
    line = [data, *SMALL, *LANES, '--threads', 1, '--steps', 9, '--eval-every', 0, '--classes', 4, '--pretrained', start, '--precision', 'fp32']
    ranks = set()
    for seed in range(6, 12):
        done = launch(4, *line, '--seed', seed, '--name', f'infinite-{seed}', code=1)
        one_sentence(done.stderr, 'step ', 'loss', 'inf')
        ranks.update(re.findall(r'^stoke train: rank (\d)', said(done.stderr)[0]))
        if ranks:
            return
    raise AssertionError('no rank but the first met it')


def bad_mask():
    """Of all files one mask cannot be read: whoever meets it stops all."""
    bad = path('bad-mask')
    shutil.copytree(SET, bad)
    mask = files_below(os.path.join(bad, 'masks'))[11]
    os.truncate(os.path.join(bad, 'masks', mask), 60)
    line = [bad, *SMALL, *LANES, '--threads', 1, '--policy', 'stop', '--eval-every', 0]
    for seed in range(6, 12):
        began = time.monotonic()
        done = launch(4, *line, '--steps', 9, '--seed', seed, '--name', f'mask-{seed}', code=1)
        assert time.monotonic() - began < SOON + SLOW, done.stderr
        one_sentence(done.stderr, mask)
        if re.search(r'^stoke train: rank \d', said(done.stderr)[0]):
            return
    raise AssertionError('no rank but the first met it')


def no_memory(limit):
    """At one rank, by the setting or by the system."""
    def test():
        name = 'poor-' + re.sub(r'\W+', '-', limit)
        began = time.monotonic()
        done = launch(3, *LINE, '--name', name, code=1, shell=only(2, limit))
        one_sentence(done.stderr, 'rank 2 (')
        assert time.monotonic() - began < SOON + SLOW, done.stderr
        assert not os.path.exists(path('runs', name, 'state.safetensors'))
    return test


def killed(whom, status, word):
    """-9 to a rank or to mpirun itself: nobody is left, and the run goes on."""
    def test():
        name = f'killed-{whom}'
        run = Started(3, *LINE, '--name', name).at_step(name, 6)
        wait_for(path('runs', name, 'state.safetensors'), run.process)
        os.kill(run.process.pid if whom == 'mpirun' else run.ranks()[whom], signal.SIGKILL)
        text = run.end(SOON, status)
        contains(text, word)
        equal(said(text), [], text)
        goes_on(name)
    return test


def asked_at_first(number):
    """A signal to rank 0 alone: all save and stop."""
    def test():
        name = f'first-{number.name}'
        run = Started(3, *LINE, '--name', name).at_step(name, 4)
        os.kill(run.ranks()[0], number)
        contains(run.end(SOON, 128 + number), 'interrupted; the state at step ')
        goes_on(name)
    return test


# ---- they do not agree ----

def refused(*parts, line=LINE, code=1, shell=None, world=3):
    """One sentence, soon, and nothing is written."""
    def test():
        began = time.monotonic()
        text = launch(world, *line, '--name', 'refused', code=code, shell=shell).stderr
        assert time.monotonic() - began < SOON + SLOW, text
        one_sentence(text, *parts)
        left = files_below(path('runs', 'refused'))
        shutil.rmtree(path('runs', 'refused'), ignore_errors=True)
        equal(left, [], 'what was written')
    return test


def other_data(change, *parts):
    """Rank 2 sees another folder under the same name."""
    def test():
        other = path('other')
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(SET, other)
        change(other)
        refused('rank 2 (', *parts, line=['here', *LINE[1:]], shell=f'mkdir -p at.{RANK}; ln -sfn {SET} at.{RANK}/here; '
                f'[ {RANK} = 2 ] && ln -sfn {other} at.{RANK}/here; cd at.{RANK}; exec "$@" --runs {WORK}/runs')()
    return test


def lose_a_file(folder):
    name = files_below(os.path.join(folder, 'images'))[3]
    os.remove(os.path.join(folder, 'images', name))
    os.remove(os.path.join(folder, 'masks', os.path.splitext(name)[0] + '.png'))


def other_bytes(folder):
    names = [os.path.join(folder, 'images', name) for name in files_below(os.path.join(folder, 'images'))[3:5]]
    with open(names[0], 'rb') as one, open(names[1], 'rb') as other:
        texts = one.read(), other.read()
    for name, text in zip(names, reversed(texts)):
        with open(name, 'wb') as out:
            out.write(text)


def other_version():
    """The same library, that says it is another version."""
    version = stoke('--version').stdout.split()[1]
    other = path('libother.so')
    with open(os.path.join(os.path.dirname(STOKE), '..', 'src', 'libstoke.so.0'), 'rb') as stream:
        text = stream.read()
    assert text.count(version.encode() + b'\0'), version
    with open(other, 'wb') as out:
        out.write(text.replace(version.encode() + b'\0', version[:-1].encode() + b'9\0'))
    refused('rank 0 (', f' has Stokehold {version} and rank 2 (', f' has {version[:-1]}9: install one version on all hosts',
            line=[*LINE, '--comm', PLUGIN[0]], shell=only(2, f'export LD_PRELOAD={other}'))()


TESTS = [
    ('a loss that is infinite at one rank', infinite_at_one),
    ('no memory: --memory-limit', no_memory('set -- "$@" --memory-limit 60M')),
    ('mpirun is killed', killed('mpirun', -signal.SIGKILL, '')),
    ('SIGUSR1 to rank 0', asked_at_first(signal.SIGUSR1)),
    ('other bytes at one rank', other_data(other_bytes, '')),
    ('another seed at one rank', refused('rank 2 (', 'seed is 5 at rank 0 and here 6', shell=only(2, 'set -- "$@" --seed 6'))),
]
LATER = [
    ('a full disk', full_disk),
    ('a log that cannot be written', files_that_cannot_be_written),
    ('a bad mask', bad_mask),
    ('no memory: ulimit -v', no_memory('ulimit -v 400000')),
    ('rank 0 is killed', killed(0, 137, 'signal 9')),
    ('Ctrl-C to rank 0', asked_at_first(signal.SIGINT)),
    ('SIGTERM to rank 0', asked_at_first(signal.SIGTERM)),
    ('a file is missing at one rank', other_data(lose_a_file, '')),
    ('another CPU table at one rank', refused('rank 1 (', ' computes with c and rank 0 with ', 'STOKE_CPU', shell=only(1, 'export STOKE_CPU=c'))),
    ('another version at one rank', other_version),
    ('another number of replicas at one rank', refused('rank 1 (', 'replicas', shell=only(1, 'set -- "$@" --replicas 8'))),
    ('another model at one rank', refused('rank 2 (', 'model', shell=only(2, 'set -- "$@" --model b1'))),
    ('a wrong flag at one rank', refused("unknown option '--no-such-flag'", code=2, shell=only(1, 'set -- "$@" --no-such-flag'))),
]

sys.exit(tap.run(TESTS + (LATER if tap.FULL else [])))
