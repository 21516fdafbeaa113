# SPDX-License-Identifier: Apache-2.0
"""Names from files reach no terminal as anything but text, whatever the command; commands that are suggested can be pasted."""
import json
import os
import re
import shutil
import struct
import subprocess
import sys

from cli import STOKE, WORK, contains, equal, make_set, path, stoke, tap

FORGED = 'stoke: all is well'
EVIL = 'e\033[31mRED\033]0;pwned\a\n' + FORGED + '\u009b2J\u202ex'  # C0, a forged line, C1, an override
QUIET = 'q\u009b2J\u202ex'  # where control characters of ASCII are refused
OBEYED = re.compile('[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]')


def run(*args, cwd=None):
    return subprocess.run([os.fsencode(STOKE), *(a if isinstance(a, bytes) else os.fsencode(str(a)) for a in args)], capture_output=True,
                          cwd=cwd or WORK, timeout=240)


def safe(what, data):
    text = data.decode('utf-8')  # raw bytes that are no UTF-8 would fail here
    found = OBEYED.search(text)
    assert not found, f'{what}: {found.group()!r} arrives raw: ...{text[max(0, found.start() - 80):found.end() + 20]!r}'
    assert not any(line.startswith(FORGED) for line in text.splitlines()), f'{what}: a line is forged:\n{text}'
    return text


def tried(*args, shows=True, code=None, **more):
    """Runs a command as people do, then as programs do: nothing raw for the first, valid JSON for the second. Returns what people see."""
    what = ' '.join(map(repr, args))
    done = run(*args, **more)
    text = safe(what, done.stdout) + safe(what, done.stderr)
    assert code is None or done.returncode == code, f'{what}: exit {done.returncode}\n{text}'
    if shows:
        assert r'\u009b' in text or r'\xc2\x9b' in text, f'{what}: the name is not there:\n{text}'
    return text


def as_json(*args, **more):
    done = run(*args, '--json', **more)
    safe(repr(args), done.stderr)
    return json.loads(done.stdout.decode('utf-8'))


SET = os.path.join(WORK, EVIL)


def make_hostile_set():
    plain = make_set('plain', count=12, size='40x48', classes=3)
    for kind in ('images', 'masks'):
        os.makedirs(os.path.join(SET, kind))
        for name in sorted(os.listdir(os.path.join(plain, kind))):
            shutil.copy(os.path.join(plain, kind, name), os.path.join(SET, kind, EVIL + name))
    with open(os.path.join(SET, 'images', EVIL + '000003.jpg'), 'wb') as stream:
        stream.write(b'not a picture')
    os.remove(os.path.join(SET, 'masks', EVIL + '000004.png'))


make_hostile_set()
READ = ['--size', '32', '--batch', '2', '--workers', '1']


def sets():
    tried('verify', SET)
    tried('hash', SET, *READ, '--max-bad', '50%')
    tried('hash', SET, *READ, '--max-bad', '0')
    tried('hash', SET, *READ, '--policy', 'stop')
    tried('show', SET, '--out', path('a.png'), '--max-bad', '50%', '--max-extent', '2', shows=False)
    tried('show', SET, '--out', os.path.join(WORK, EVIL + '.png'), '--max-bad', '50%')
    tried('dump', SET, *READ, '--out', os.path.join(WORK, EVIL + '-dump'), '--max-bad', '50%', '--batches', '1')
    tried('bench', 'data', SET, *READ, '--max-bad', '50%', '--seconds', '0.1', shows=False)
    tried('pack', SET, '--out', os.path.join(WORK, EVIL + '-shards'))
    tried('verify', os.path.join(WORK, EVIL + '-shards'), shows=False)
    tried('doctor', '--data', SET, shows=False)
    tried('synth', os.path.join(WORK, EVIL + '-synth'), '--count', '1', '--size', '32')
    tried('verify', '--images', SET, '--masks', os.path.join(SET, 'nothing'))
    tried('verify', os.path.join(SET, 'nothing'))
    answer = as_json('verify', SET)
    assert any(EVIL in bad['path'] for bad in answer['bad']), 'JSON has the name as it is'


def words():
    """What is typed, or comes out of a script."""
    tried(EVIL)
    tried('bench', EVIL)
    tried('help', EVIL)
    tried('ops', EVIL)
    for command in ('verify', 'train', 'check', 'why', 'estimate', 'monitor', 'predict', 'report', 'config'):
        tried(command, '--' + EVIL)
        tried(command, '--' + EVIL + '=1')
    tried('why', EVIL)
    tried('estimate', '--model', EVIL)
    tried('recommend', '--gpu', EVIL)
    tried('hash', SET, '--augment', EVIL)
    tried('hash', SET, '--size', EVIL)
    tried('selftest', '--device', EVIL)
    tried('completion', EVIL, shows=False)
    tried('verify', b'\xff\xfe\x9b31m', shows=False)
    tried('verify', b'--\xff\x9b31m', shows=False)


def files():
    config = os.path.join(WORK, EVIL + '.yaml')
    key = '"' + EVIL.replace('\033', r'\e').replace('\a', r'\a').replace('\n', r'\n') + '"'
    for text in (f'{key}: 1\n', f'batch: {key}\n', f'augment: {key}\n', f'augment: [{key}]\n', f'data: {key}\nmodel: {key}\n', f'{key}\n', f'? {key}\n', f'batch: 1\nbatch: {key}\n'):
        with open(config, 'w') as stream:
            stream.write(text)
        for command in ('config', 'train', 'check', 'optimize', 'diagnose', 'find-batch', 'recommend', 'hash'):
            tried(command, '--config', config, shows=False)
        tried('why', 'oom', '--config', config, shows=False)
    tried('config', '--config', config)
    labels = path('labels.txt')
    for text in (f'0 0 0 0 {EVIL}\n', f'0 0 0 0 {QUIET}\n1 1 1 1 b\n2 2 2 2 c\n', f'{QUIET}\n', f'x y {EVIL}\n'):
        with open(labels, 'w') as stream:
            stream.write(text)
        tried('verify', SET, '--label-map', labels, shows=False)
        tried('train', SET, '--label-map', labels, '--dry-run', shows=False)
    lists = path(EVIL + '.csv')
    with open(lists, 'w') as stream:
        stream.write(f'"{EVIL}.jpg","{EVIL}.png"\n{QUIET}\n')
    tried('verify', '--list', lists)


RUN = os.path.join('runs', EVIL)


def runs():
    small = ['--size', '32', '--batch', '2', '--workers', '1', '--max-bad', '60%', '--steps', '2', '--threads', '1']
    text = tried('train', SET, *small, '--name', EVIL, '--seed', '1')
    assert os.path.isdir(os.path.join(WORK, RUN)), text
    tried('train', SET, *small, '--name', EVIL)  # taken
    tried('train', '--resume', RUN)
    tried('eval', RUN, '--max-bad', '60%')
    tried('eval', RUN, '--out', EVIL + '-eval', '--max-bad', '60%')
    tried('predict', RUN, os.path.join(SET, 'images'), '--out', EVIL + '-masks')
    tried('report', RUN)
    for trouble in ('oom', 'slow', 'unstable', 'loading'):
        tried('why', trouble, '--run', RUN)
    tried('monitor', '--attach', RUN, '--once', shows=False)
    tried('monitor', '1', '--attach', RUN)
    tried('find-lr', SET, '--size', '32', '--batch', '2', '--steps', '20', '--max-bad', '60%', '--out', EVIL + '-lr.svg', '--threads', '1')
    config = os.path.join(RUN, 'config.yaml')
    for command in ('check', 'config', 'recommend'):
        tried(command, '--config', config, shows=False)
    tried('check', '--config', config)
    tried('optimize', '--config', config, '--dry-run', shows=False)
    tampered()


def tampered():
    """Tensor names, class names and a log that others wrote."""
    network = os.path.join(WORK, RUN, 'best' if os.path.isdir(os.path.join(WORK, RUN, 'best')) else 'last')
    weights = os.path.join(network, 'model.safetensors')
    with open(weights, 'rb') as stream:
        data = stream.read()
    length = struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:8 + length])
    for name in (EVIL, QUIET):
        other = dict(header)
        first = sorted(k for k in other if k != '__metadata__')[0]
        other[name] = other.pop(first)
        text = json.dumps(other).encode()
        with open(weights, 'wb') as stream:
            stream.write(struct.pack('<Q', len(text)) + text + data[8 + length:])
        tried('predict', network, os.path.join(SET, 'images'), '--out', 'elsewhere')
    with open(weights, 'wb') as stream:
        stream.write(data)
    config = os.path.join(network, 'config.json')
    with open(config) as stream:
        settings = json.load(stream)
    settings['id2label'] = {k: QUIET + k for k in settings['id2label']}
    settings['model_type'] = settings['model_type']
    with open(config, 'w') as stream:
        json.dump(settings, stream)
    tried('eval', network, SET, '--size', '32', '--max-bad', '60%')
    settings['model_type'] = EVIL
    with open(config, 'w') as stream:
        json.dump(settings, stream)
    tried('predict', network, os.path.join(SET, 'images'), '--out', 'elsewhere')
    log = os.path.join(WORK, RUN, 'log.jsonl')
    with open(log) as stream:
        lines = [json.loads(line) for line in stream]
    for line in lines:
        for key in line:
            if isinstance(line[key], str) and key != 'event':
                line[key] = EVIL
    with open(log, 'w') as stream:
        for line in lines:
            stream.write(json.dumps(line) + '\n')
    tried('report', RUN)
    tried('why', 'oom', '--run', RUN)


def suggestions_can_be_pasted():
    """A run whose name is a trap: the command that is suggested, run by a shell, does what it says and nothing else."""
    folder = make_set('pasted', count=8, size='32x32', classes=3)
    shutil.rmtree(path('runs'), ignore_errors=True)
    for name in ("a;touch PWN", "it's $(touch PWN) `touch PWN`", '\u8fd0\u884c \u4e00', EVIL):
        done = run('train', folder, '--size', '32', '--batch', '2', '--steps', '2', '--name', name, '--threads', '1', '--seed', '1')
        text = safe(name, done.stderr)
        lines = [line[line.index('stoke '):].split('   ')[0] for line in text.splitlines() if re.match(r'(next:|     ) stoke ', line)]
        assert len(lines) == 2, text
        predict, evaluate = lines
        for number, line in enumerate((predict.replace('PICTURES', os.path.join(folder, 'images')).replace('masks', f'm{abs(hash(name))}'), evaluate)):
            pasted = subprocess.run(['bash', '-c', line.replace('stoke ', STOKE + ' ', 1)], cwd=WORK, capture_output=True, text=True, timeout=240)
            equal(pasted.returncode, 0, f'{line}: {pasted.stderr}')
        assert not os.path.exists(path('PWN')), f'{name!r}: the shell obeyed it'


TRAP = "c$(touch PWN)`touch PWN`;touch PWN'"


def argument_of(line, name):
    """What the program of a suggested command is given: the shell runs nothing but that program, which has `name` as one argument."""
    tools = path('tools')
    os.makedirs(tools, exist_ok=True)
    for program in ('stoke', 'python3', 'diff', 'numactl'):
        with open(os.path.join(tools, program), 'w') as stream:
            stream.write('#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done\n')
        os.chmod(stream.name, 0o755)
    done = subprocess.run(['sh', '-c', line], cwd=WORK, capture_output=True, text=True, timeout=60, env={'PATH': f'{tools}:/usr/bin:/bin'})
    assert not os.path.exists(path('PWN')), f'the shell obeyed a name: {line}'
    equal(done.returncode, 0, f'{line}: {done.stderr}')
    assert name in done.stdout.split('\n'), f'{line}: {name!r} is no argument: {done.stdout!r}'


def command_in(text):
    """The command of a remedy: from the program's name to the remark behind it."""
    return re.search(r'\b(?:stoke|python3|diff|numactl) .*', text).group().split('   ')[0]


def settings_can_be_pasted():
    """Files and folders whose names are traps, in what check, why, optimize, dump and train --resume suggest."""
    folder = make_set('trapped', count=8, size='32x32', classes=3)
    config = TRAP + '.yaml'
    programs = set()
    for text in ('model: b0\nbatch_size: 4\nimage_size: 64\nnum_workers: 99\n', 'model: b0\n', 'batch_size: 4\n'):
        with open(path(config), 'w') as stream:
            stream.write(text)
        for more in ((), ('--gpu', 'rtx3060')):
            for line in as_json('check', '--config', config, *more)['lines']:
                if 'touch PWN' in (line['fix'] or '') and re.search(r'\b(stoke|python3|numactl) ', line['fix']):
                    argument_of(command_in(line['fix']), config)
                    programs.add(command_in(line['fix']).split()[0])
    assert programs >= {'stoke', 'python3'}, programs
    text = tried('optimize', '--config', config, '--gpu', 'rtx3060', shows=False, code=0)
    argument_of(command_in(re.search(r'next: (.*)', text).group(1)), config)
    twice = TRAP.replace("'", '')  # a key of YAML needs no quotes
    with open(path('twice.yaml'), 'w') as stream:
        stream.write(f'model: b0\n{twice}:\n  batch_size: 4\nother:\n  batch_size: 8\n')
    text = tried('optimize', '--config', 'twice.yaml', '--gpu', 'rtx3060', shows=False, code=2)
    argument_of('stoke ' + re.search(r'(--map .*)', text).group(1), f'batch_size={twice}.batch_size')
    text = tried('train', folder, '--size', '32', '--pretrained', f'{twice}/b0', shows=False, code=1)
    argument_of('stoke ' + re.search(r'(hf download .*) --local-dir', text).group(1), f'{twice}/b0')
    text = tried('dump', folder, *READ, '--out', TRAP, '--batches', '1', shows=False, code=0)
    argument_of(command_in(re.search(r'next: (.*)', text).group(1)), TRAP)
    tried('train', folder, '--size', '32', '--batch', '2', '--steps', '2', '--name', TRAP, '--threads', '1', shows=False, code=0)
    os.remove(path('runs', TRAP, 'state.safetensors'))
    text = tried('train', '--resume', 'runs/' + TRAP, shows=False, code=1)
    network = re.search(r'--pretrained (.*); --force', text).group(1)
    argument_of('stoke train --pretrained ' + network, f'runs/{TRAP}/best')


def lists_end_with_whole_entries():
    """Of many bad files as many as fit, each whole, and how many more there are."""
    folder = make_set('bad', count=60, size='16x16', classes=2)
    for name in os.listdir(os.path.join(folder, 'masks')):
        with open(os.path.join(folder, 'masks', name), 'wb') as stream:
            stream.write(b'\x89PNG')
    done = stoke('hash', folder, '--size', '16', '--batch', '4', '--max-bad', '50%', code=1)
    lines = done.stderr.rstrip('\n').split('\n')
    listed = [line for line in lines if line.startswith('  /')]
    contains(lines[-1], '... and ', ' more')
    assert listed and all(re.search(r'\.png: .*[a-z)]$', line) for line in listed), done.stderr
    total = int(re.search(r'(\d+) of \d+ samples are bad', done.stderr).group(1))
    equal(int(re.search(r'and (\d+) more', lines[-1]).group(1)), total - len(listed))


sys.exit(tap.run([
    ('names of files and folders', sets),
    ('words of the command line', words),
    ('settings, labels and lists', files),
    ('runs, networks, logs', runs),
    ('suggested commands', suggestions_can_be_pasted),
    ('suggested commands of settings, dumps and runs', settings_can_be_pasted),
    ('lists of bad files', lists_end_with_whole_entries),
]))
