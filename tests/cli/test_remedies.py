# SPDX-License-Identifier: Apache-2.0
"""What one command says to type, the next one takes: every `->` and every "next" of check, why, diagnose and optimize that is a command of
ours is typed as it stands. Names that are left open (DIR, NAME, N) are filled in; what would train for long is only looked at."""
import os
import re
import shlex
import sys

from cli import contains, make_set, path, stoke, tap

SET = make_set('set', count=12, size='48x64', classes=4)
NO_CARD = dict(os.environ, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1')
CARD = dict(os.environ, STOKE_LIBNVML=os.environ['STOKE_FAKE_LIBNVML'])
FILES = {
    'light_config.yaml': 'model:\n  base_channels: 32\n  num_blocks: 4\ntraining:\n  batch_size: 4\n  learning_rate: 1.0e-2\ndata:\n  num_workers: 0\n'
                         f'  patch_size: 32\n  root: {SET}\n',
    'large_config.yaml': f'base_channels: 128\nnum_blocks: 12\npatch_size: 256\nbatch_size: 64\nnum_workers: 64\nuse_mixed_precision: true\n'
                         f'data_root: {SET}\n',
    'b4_config.yaml': f'model_name: segformer-b4\nimage_size: 512\nbatch_size: 64\nnum_workers: 2\ndata_root: {SET}\nlog_every: 1\n',
    'train_ds.yaml': 'trainer:\n  precision: 32\n  max_epochs: 3\ntrain_ds:\n  batch_size: 4\n  num_workers: 4\n',
    'own.yaml': f'data: {SET}\nmodel: b0\nsize: 32\nbatch: 2\nlr: 0.5\nclip_norm: 0\nwarmup: 0\nworkers: 64\n',
}
PLACES = {'DIR': SET, 'NAME': 'RTX 3090', 'GB': '24', 'N': '8', 'HxW': '32x32', 'MODEL': 'b0', 'b0..b5': 'b0'}
SHORT = {'diagnose': ['--steps', '3', '--step-ms', '2', '--size', '32', '--batch', '2', '--although-busy'], 'train': ['--dry-run'],
         'monitor': ['--quiet'], 'optimize': ['--dry-run'], 'find-lr': ['--help'], 'pack': ['--force']}


def commands(text):
    """Those of ours in what was printed: behind an arrow, or behind "next:"; what follows three blanks explains."""
    found = re.findall(r'(?:->|[Nn]ext:) (.*)', text)
    for line in found:
        line = line.split('   ')[0].split(' then ')[0].strip('` .')
        at = line.find('stoke ')
        if at >= 0 and not line.startswith(('python3', 'numactl')):
            yield line[at:]


def type_it(command, env, followed):
    words = [PLACES.get(word, word) for word in shlex.split(command)[1:]]
    if 'RUN' in words or 'FILE' in words:
        return  # of a run that is not there
    if words[0] == 'monitor':
        words = ['monitor', '0.3']
    if words[0] == 'pack':
        words = [path('packed') if word == 'shards' else word for word in words]
    key = ' '.join(words)
    if key in followed:
        return
    followed.add(key)
    # A list that finds something wrong exits with 1: that is an answer.
    done = stoke(*words, *SHORT.get(words[0], []), env=env, code=None)
    allowed = (0, 1) if words[0] == 'check' else (0,)
    if done.returncode not in allowed or 'unknown' in done.stderr:
        raise AssertionError(f'{command}: exit {done.returncode}\n{done.stderr}')


def follow(sources, env):
    followed = set()
    for args in sources:
        text = stoke(*args, env=env, code=None).stdout
        for command in commands(text):
            type_it(command, env, followed)
    assert followed, 'nothing was said to type'
    return followed


def write_files():
    for name, text in FILES.items():
        with open(path(name), 'w') as out:
            out.write(text)


def of_check_and_why(env, *more):
    write_files()
    sources = [('check', '--config', path(name), *more) for name in FILES]
    sources += [('why', trouble, '--config', path(name), *more) for name in FILES for trouble in ('oom', 'slow', 'unstable', 'loading')]
    return follow(sources, env)


def without_a_card():
    followed = ' '.join(of_check_and_why(NO_CARD))
    contains(followed, 'optimize --config', 'check --config', 'why oom', 'diagnose --config')


def with_a_card():
    contains(' '.join(of_check_and_why(CARD)), '--base-channels 128 --num-blocks 12')


def with_a_card_elsewhere():
    of_check_and_why(NO_CARD, '--gpu', 'RTX 4090', '--cores', 12)


def of_optimize():
    """What it writes is accepted by the list: none of the settings that it has to do with is called wrong."""
    write_files()
    for name in ('light_config.yaml', 'b4_config.yaml', 'large_config.yaml'):
        for env, card in ((NO_CARD, ()), (CARD, ())):
            text = stoke('optimize', '--config', path(name), '--out', path('better.yaml'), '--force', *card, env=env).stdout
            for command in commands(text):
                type_it(command, env, set())
            after = stoke('check', '--config', path('better.yaml'), env=env, code=None).stdout
            for title in ('workers', 'mixed precision', 'pinned memory', 'persistent workers'):
                for line in after.splitlines():
                    assert not line.startswith((f'warn  {title}', f'fail  {title}')), f'{name}: {line}'


def of_diagnose():
    """The number of workers that it proposes is one that the list accepts."""
    write_files()
    args = ('diagnose', '--config', path('light_config.yaml'), *SHORT['diagnose'])
    for command in commands(stoke(*args, env=NO_CARD).stdout):
        words = shlex.split(command)
        if words[1] != 'optimize':
            continue
        stoke(*words[1:], '--out', path('measured.yaml'), '--force', env=NO_CARD)
        after = stoke('check', '--config', path('measured.yaml'), env=NO_CARD, code=None).stdout
        assert '\nwarn  workers' not in after, after


sys.exit(tap.run([
    ('of check and why, without a card', without_a_card),
    ('of check and why, with a card', with_a_card),
    ('of check and why, for a card elsewhere', with_a_card_elsewhere),
    ('of optimize', of_optimize),
    ('of diagnose', of_diagnose),
]))
