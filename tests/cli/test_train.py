# SPDX-License-Identifier: Apache-2.0
"""stoke train: one command from a folder to a network, and everything a run leaves behind."""
import fcntl
import functools
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

from cli import STOKE, WORK, contains, equal, files_below, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=14, size='64x64', classes=4)
SMALL = ('--size', '32', '--batch', '2', '--threads', '2')


def read(*parts):
    with open(path('runs', *parts), 'rb') as stream:
        return stream.read()


def lines_of(name):
    return [json.loads(line) for line in read(name, 'log.jsonl').decode().splitlines()]


@functools.cache
def run_a():
    """What others are compared with."""
    return stoke('train', SET, *SMALL, '--steps', 6, '--eval-every', 3, '--log-every', 2, '--name', 'a')


def whole_run():
    done = run_a()
    contains(done.stdout, 'runs/a: 6 of 6 steps', 'best: mIoU', 'time: steps', 'waiting for data',
             'report: runs/a/report.html')
    assert done.stderr.startswith('device: the processor;'), done.stderr
    assert 'on the processor: no graphics card' in ' '.join(stoke('help', 'train').stdout.split())[:400]
    contains(done.stderr, 'remark: ', 'memory: ', 'network: SegFormer b0', 'evaluation at step 3: mIoU',
             'evaluation at step 6', 'checkpoint at step 6', 'next: stoke predict runs/a PICTURES --out masks')
    files = files_below(path('runs', 'a'))
    for name in ('config.yaml', 'log.jsonl', 'metrics.csv', 'report.html', 'live', 'state.safetensors', 'best/config.json',
                 'best/model.safetensors', 'last/model.safetensors', 'predictions/000003.png',
                 'predictions/000006.png'):
        assert name in files, f'{name} is not in {files}'
    assert any(name.startswith('events.out.tfevents') for name in files), files
    assert not [name for name in files if '.tmp' in name], files
    kinds = [line['kind'] for line in lines_of('a')]
    equal((kinds[0], kinds[-1]), ('start', 'end'))
    equal([line['step'] for line in lines_of('a') if line['kind'] == 'eval'], [3, 6])
    steps = [line for line in lines_of('a') if line['kind'] == 'step']
    equal(sum(line['images'] for line in steps), sum(line['images'] for line in steps if line['step'] <= 6))
    for line in steps:
        assert 0 <= line['data_seconds'] <= line['seconds'], line


def another_metric():
    done = stoke('train', SET, *SMALL, '--steps', 2, '--eval-every', 2, '--metric', 'precision', '--name', 'metric')
    value = re.search(r'pixel accuracy 0\.\d+, (precision 0\.\d{4}), loss .*: the best so far by precision', done.stderr).group(1)
    contains(done.stdout, f'{value} at step 2, in runs/metric/best')


def outlook_of_a_small_set():
    small = make_set('small', count=7, size='64x64', classes=4)
    told = stoke('train', small, '--size', 32, '--batch', 24, '--steps', 4, '--val-split', 0.2, '--dry-run').stderr
    train, val = map(int, re.search(r'remark: (\d+) samples? to train on and (\d+) to', told).groups())
    equal(train + val, 7)
    contains(told, f'4 steps of {train} pictures,', f'{val} whole picture{"s" * (val > 1)} resized to 32x32', 'less than a tenth of a step')


def json_result():
    answer = stoke_json('train', SET, *SMALL, '--steps', 2, '--name', 'j')
    equal((answer['step'], answer['steps'], answer['complete'], answer['interrupted']), (2, 2, True, False))
    equal((answer['folder'], answer['report']), ('runs/j', 'runs/j/report.html'))
    assert 0 <= answer['scores']['miou'] <= 1, answer
    equal(answer['best'], answer['scores']['miou'])
    seconds = dict(answer['seconds'])
    whole = seconds.pop('all')
    assert 0 < sum(seconds.values()) <= whole * 1.001, answer['seconds']


def config_repeats_the_run():
    run_a()
    stoke('train', '--config', 'runs/a/config.yaml', '--name', 'again', '--quiet')
    equal(read('again', 'last', 'model.safetensors') == read('a', 'last', 'model.safetensors'), True, 'the same weights')


def in_two_sessions():
    run_a()
    done = stoke('train', SET, *SMALL, '--steps', 6, '--eval-every', 3, '--stop-after', 2, '--name', 'two')
    contains(done.stdout, '2 of 6 steps')
    contains(done.stderr, 'next: stoke train --resume runs/two')
    done = stoke('train', '--resume', 'runs/two')
    contains(done.stderr, 'goes on after step 2')
    contains(done.stdout, '6 of 6 steps')
    equal(read('two', 'last', 'model.safetensors') == read('a', 'last', 'model.safetensors'), True, 'the same weights')
    equal([line['step'] for line in lines_of('two') if line['kind'] == 'eval'], [3, 6])
    contains(stoke('train', '--resume', 'runs/two').stdout, '6 of 6 steps')  # nothing left to do


def dry_run():
    before = files_below(WORK)
    done = stoke('train', SET, *SMALL, '--epochs', 3, '--name', 'dry', '--dry-run')
    contains(done.stderr, 'memory: parameters', 'nothing was written', 'runs/dry')
    answer = stoke_json('train', SET, *SMALL, '--epochs', 3, '--accumulate', 2, '--name', 'dry', '--dry-run')
    equal((answer['device'], answer['model'], answer['batch'], answer['accumulate'], answer['epochs'], answer['size']),
          ('processor', 'b0', 2, 2, 3, [32, 32]))
    assert answer['train_samples'] + answer['val_samples'] == 14 and answer['memory_bytes'] > 10e6, answer
    equal(files_below(WORK), before, 'files')
    assert not os.path.exists(path('runs', 'dry')), 'a folder was made'


def quiet():
    done = stoke('train', SET, *SMALL, '--steps', 2, '--name', 'quiet', '--quiet', '--no-pictures', '--no-tensorboard')
    equal(done.stderr, '')
    contains(done.stdout, 'report: runs/quiet/report.html')
    names = files_below(path('runs', 'quiet'))
    assert not [name for name in names if name.startswith(('predictions', 'events.out'))], names


def without_validation():
    answer = stoke_json('train', SET, *SMALL, '--steps', 2, '--eval-every', 0, '--name', 'blind')
    equal((answer['best'], answer['scores']['miou'], answer['complete']), (None, None, True))
    names = files_below(path('runs', 'blind'))
    assert 'last/model.safetensors' in names and 'best/model.safetensors' not in names, names
    contains(read('blind', 'report.html').decode(), '<html')


def averaged_and_accumulated():
    """The average is what is evaluated and saved."""
    run_a()
    stoke('train', SET, *SMALL, '--steps', 3, '--accumulate', 3, '--average', '0.9', '--augment', 'hflip,mixup(p=1)',
          '--name', 'mean', '--quiet')
    assert any(line['kind'] == 'eval' and line['average'] for line in lines_of('mean'))
    assert read('mean', 'last', 'model.safetensors') != read('a', 'last', 'model.safetensors')


def early_stop():
    """Nothing is learnt: it ends, says by which setting, and goes on when that is lifted."""
    run = ('train', SET, *SMALL, '--steps', 4, '--eval-every', 1, '--lr', '1e-30', '--name', 'early')
    contains(stoke(*run, '--patience', 1, '--no-pictures').stdout, 'of 4 steps', 'as --patience allows')
    contains(read('early', 'report.html').decode(), 'as <code>patience</code> allows')
    answer = stoke_json('train', '--resume', 'runs/early')
    equal((answer['stopped_early'], answer['complete'], answer['step'] < 4), (True, True, True))
    equal(stoke_json('train', '--resume', 'runs/early', '--patience', 0)['step'], 4)
    run = ('train', SET, *SMALL, '--steps', 1, '--eval-every', 0, '--patience', 1, '--name', 'patient', '--dry-run')
    contains(stoke(*run).stderr, '--patience stops nothing')


def no_data():
    done = stoke('train', code=2)
    contains(done.stderr, 'no data given', 'stoke synth')
    contains(stoke('train', path('nowhere'), code=1).stderr, 'nowhere')


def bad_files():
    """A picture that cannot be read is replaced, and that is said; more than --max-bad end the run."""
    own = path('own')
    shutil.copytree(SET, own)
    for name in files_below(os.path.join(own, 'images'))[:2]:
        with open(os.path.join(own, 'images', name), 'r+b') as stream:
            stream.truncate(300)
    more = ('--eval-every', 0, '--steps', 8)
    done = stoke('train', own, *SMALL, *more, '--max-bad', 2, '--name', 'bad')
    contains(done.stderr, 'remark: training: bad files at ', 'stoke verify')
    equal(len(read('bad', 'quarantine.jsonl').splitlines()), 2, 'bad files are listed in the folder of the run')
    stoke('train', own, *SMALL, *more, '--max-bad', 2, '--name', 'elsewhere', '--quarantine', 'bad.jsonl')
    stoke('train', own, *SMALL, *more, '--max-bad', 2, '--name', 'nowhere', '--quarantine', '')
    equal([name for name in files_below(path()) if name.endswith('.jsonl') and 'log' not in name],
          ['bad.jsonl', 'runs/bad/quarantine.jsonl'])
    done = stoke('train', own, *SMALL, *more, '--max-bad', 1, '--name', 'worse', code=1)
    contains(done.stderr, '--max-bad')


BAR = re.compile(rb'\repoch \d/4.* \d+/\d+ steps  loss \d+\.\d+, F1 (n/a|0\.\d+).*, \d+\.\d samples/s, busy \d+ %  .* left\x1b\[K')


def on_a_terminal():
    """One bar per epoch, with loss, speed, waiting and what is left of the run. It comes after a second, which an epoch here does
    not take: the run is stopped for longer, again and again until one of the stops falls inside an epoch."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack('4H', 40, 200, 0, 0))  # narrow ones show no bar
    process = subprocess.Popen([STOKE, 'train', SET, *SMALL, '--epochs', '4', '--eval-every', '0', '--log-every', '1', '--no-pictures',
                                '--name', 'bar'], cwd=WORK, stdout=subprocess.DEVNULL, stderr=follower, env={**os.environ, 'TERM': 'xterm'})
    os.close(follower)
    seen = b''
    while True:
        if select.select([leader], [], [], 0.03)[0]:
            try:
                seen += os.read(leader, 65536)
                continue
            except OSError:  # the other end is closed: the run has ended
                break
        if b'run: ' in seen and not BAR.search(seen):
            process.send_signal(signal.SIGSTOP)
            time.sleep(1.1)
            process.send_signal(signal.SIGCONT)
    os.close(leader)
    equal(process.wait(timeout=60), 0)
    assert BAR.search(seen), seen.decode()


sys.exit(tap.run([
    ('a whole run', whole_run),
    ('another metric', another_metric),
    ('outlook of a small set', outlook_of_a_small_set),
    ('--json', json_result),
    ('config.yaml repeats the run', config_repeats_the_run),
    ('in two sessions', in_two_sessions),
    ('--dry-run', dry_run),
    ('--quiet', quiet),
    ('without validation', without_validation),
    ('average, accumulation, mixup', averaged_and_accumulated),
    ('early stop', early_stop),
    ('no data', no_data),
    ('bad files', bad_files),
    ('a bar on a terminal', on_a_terminal),
]))
