# SPDX-License-Identifier: Apache-2.0
"""Every example of every command's help works as it is written."""
import json
import os
import re
import shlex
import shutil
import sys

import network
from cli import COMMANDS, equal, path, stoke, tap

# What these make is what the examples of others begin with.
MAKERS = ('synth', 'train')


def workplace(name, run=False):
    """A folder with all that an example names: a set, a picture, settings; and runs: the first example of train makes one, the
    other restores pictures."""
    work = path(name)
    os.makedirs(os.path.join(work, 'photos'))
    os.makedirs(os.path.join(work, 'configs'))
    stoke('synth', 'demo/data', '--count', '40', '--size', '64', '--quiet', cwd=work)
    stoke('synth', 'demo/pairs', '--task', 'restore', '--count', '4', '--size', '64', '--quiet', cwd=work)
    shutil.copy(os.path.join(work, 'demo/data/images/000000.jpg'), os.path.join(work, 'photos'))
    with open(os.path.join(work, 'configs', 'stoke.yaml'), 'w') as out:
        out.write(stoke('config').stdout)
    with open(os.path.join(work, 'configs', 'face_config.yaml'), 'w') as out:
        out.write('data:\n  batch_size: 8\n  num_workers: 0\ntraining:\n  use_amp: false\n')
    if run:
        stoke(*shlex.split(examples('train')[0])[1:], cwd=work)
        network.Resnet(os.path.join(work, 'runs/sharp'))
    return work


def examples(command):
    text = stoke(*command.split(), '--help').stdout
    return re.findall(r'^  (stoke .*)$', text[text.index('Examples:'):], re.MULTILINE)


def shortened(words):
    """The same words, where nothing but a number hangs on how long it takes."""
    if '>' in words:
        words = words[:words.index('>')]
    if words[0] == 'bench':
        words = words + ['--short']
    if words[:2] == ['bench', 'data']:
        words = words + ['--seconds', '0.2', '--samples', '8']
    return words


def examples_of(command):
    def test():
        work = workplace(command) if command in MAKERS else SHARED
        lines = examples(command)
        assert 2 <= len(lines) <= 4, f'{len(lines)} examples'
        for line in lines:
            words = shortened(shlex.split(line)[1:])
            done = stoke(*words, cwd=work, code=None)
            equal(done.returncode, 0, f'{line}\n{done.stdout}{done.stderr}')
            if '--json' in words:
                json.loads(done.stdout)
    return test


SHARED = workplace('shared', run=True)
sys.exit(tap.run([(f'examples of {c}', examples_of(c)) for c in COMMANDS]))
