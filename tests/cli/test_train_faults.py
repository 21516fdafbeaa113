# SPDX-License-Identifier: Apache-2.0
"""What happens to runs: Ctrl-C, full disks, losses that explode, data that changed. Nothing that was good is lost."""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

from cli import STOKE, WORK, contains, equal, files_below, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=14, size='64x64', classes=4)
STEPS = 40
RUN = ('--size', '32', '--batch', '2', '--threads', '2', '--steps', str(STEPS), '--eval-every', '20', '--log-every', '1',
       '--no-pictures')


def read(*parts):
    with open(path('runs', *parts), 'rb') as stream:
        return stream.read()


def weights(name):
    return read(name, 'last', 'model.safetensors')


def steps_in(log):
    """Of whole lines: the last may be half written."""
    lines = open(log).read().splitlines(keepends=True) if os.path.exists(log) else []
    lines = [json.loads(line) for line in lines if line.endswith('\n')]
    return [line['step'] for line in lines if line['kind'] == 'step']


def no_temporary_files(name):
    left = [file for file in files_below(path('runs', name)) if '.tmp' in file]
    assert not left, f'left behind: {left}'


def reference():
    stoke('train', SET, *RUN, '--name', 'whole', '--quiet')


def interrupted(number, name):
    def test():
        log = path('runs', name, 'log.jsonl')
        process = subprocess.Popen([STOKE, 'train', SET, *RUN, '--name', name], cwd=WORK, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end and len(steps_in(log)) < 2:
            time.sleep(0.002)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        if process.returncode == 0:
            raise tap.Skip('it was done before the signal came')
        equal(process.returncode, 128 + number)
        contains(err, 'interrupted', f'next: stoke train --resume runs/{name}')
        contains(out, f'runs/{name}/report.html')
        no_temporary_files(name)
        answer = stoke_json('train', '--resume', f'runs/{name}')
        equal((answer['step'], answer['complete']), (STEPS, True))
        equal(weights(name) == weights('whole'), True, 'the same weights as in one go')
        equal(steps_in(log), list(range(1, STEPS + 1)), 'steps in the log')
    return test


def interrupted_in_the_last_evaluation():
    """All steps are done and the run is not: it says how to go on, and going on evaluates."""
    args = ('train', make_set('much', count=60, size='64x64', classes=4), '--size', '64', '--batch', '2', '--steps', '1',
            '--val-split', '0.9', '--name', 'last', '--json')
    log = path('runs', 'last', 'log.jsonl')
    process = subprocess.Popen([STOKE, *args], cwd=WORK, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None and not steps_in(log):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if process.returncode == 0:
        raise tap.Skip('it was done before the signal came')
    answer = json.loads(out)
    equal((answer['step'], answer['interrupted'], answer['complete']), (1, True, False))
    contains(err, 'next: stoke train --resume runs/last')
    answer = stoke_json('train', '--resume', 'runs/last')
    equal((answer['complete'], answer['best_step']), (True, 1))


def full_disk():
    """A state cannot be written: the run ends and says so, the state before is whole, and the run goes on from it."""
    stoke('train', SET, *RUN, '--stop-after', 5, '--name', 'full', '--quiet')
    before = read('full', 'state.safetensors')
    limit = len(before) // 2
    done = stoke('train', '--resume', 'runs/full', '--save-every', 3, code=1,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    contains(done.stderr, 'state.safetensors', 'annot write', 'File too large')
    equal(read('full', 'state.safetensors') == before, True, 'the state of before')
    no_temporary_files('full')
    stoke('train', '--resume', 'runs/full', '--quiet')
    equal(weights('full') == weights('whole'), True, 'the same weights as in one go')


def without_accessories():
    """Nothing but the state and the networks can be written: the run says so once for each, and comes to the same weights."""
    stoke('train', SET, *RUN[:-1], '--tensorboard', '--stop-after', 2, '--name', 'bare', '--quiet')
    folder = path('runs', 'bare')
    for name in ('predictions', 'curves'):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        open(os.path.join(folder, name), 'w').close()
    for name in ('metrics.csv', 'report.html', 'live'):
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
        os.mkdir(os.path.join(folder, name))
    done = stoke('train', '--resume', 'runs/bare')
    for what in ('pictures of predictions', 'lines of metrics.csv', 'the report'):
        equal(done.stderr.count(f'the run goes on without {what}: '), 1, what)
    contains(done.stderr, 'nobody can watch this run', '2 pictures of predictions are missing: ', 'metrics.csv are missing: ')
    assert 'report.html' not in done.stdout, done.stdout
    os.rmdir(os.path.join(folder, 'report.html'))  # the one of an earlier session is not this one's
    with open(os.path.join(folder, 'report.html'), 'w') as stream:
        stream.write('of yesterday')
    done = stoke('train', '--resume', 'runs/bare')
    assert 'report.html' not in done.stdout, done.stdout
    equal(stoke_json('train', '--resume', 'runs/bare')['report'], None)
    equal(weights('bare') == weights('whole'), True, 'the same weights as with them')
    contains(open(os.path.join(folder, 'log.jsonl')).read(), 'the run goes on without pictures')


def a_log_that_is_full():
    """Its lines do not fit any more: it is told, and the network is trained all the same."""
    stoke('train', SET, *RUN, '--stop-after', 2, '--name', 'silent', '--quiet')
    log = path('runs', 'silent', 'log.jsonl')
    limit = os.path.getsize(path('runs', 'silent', 'state.safetensors')) + 4096
    with open(log, 'a') as stream:  # lines of a step that stays, until there is room for one more of the run's own at most
        while (left := limit - 300 - stream.tell()) > 100:
            line = '{"kind":"filler","step":1,"text":"%s"}\n'
            stream.write(line % ('x' * (min(left, 60000) - len(line) + 2)))
    done = stoke('train', '--resume', 'runs/silent',
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    contains(done.stderr, 'the run goes on without lines of log.jsonl: runs/silent/log.jsonl: cannot write: File too large',
             'lines of log.jsonl are missing: ')
    equal(weights('silent') == weights('whole'), True, 'the same weights as with a log')


def full_from_the_start():
    done = stoke('train', SET, *RUN, '--name', 'never', code=1,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)))
    contains(done.stderr, 'stoke train: ', 'runs/never/', 'annot write')
    equal(done.stdout, '')
    no_temporary_files('never')


def exploding_loss():
    done = stoke('train', SET, *RUN, '--optimizer', 'sgd', '--lr', 1000, '--head-lr', 1000, '--clip-norm', 0, '--warmup',
                 0, '--log-every', 50, '--name', 'boom', code=1)
    log = path('runs', 'boom', 'log.jsonl')
    assert steps_in(log), 'the way to the explosion is not in the log'
    contains(open(log).read().splitlines()[-1], '"end"', 'learning rate of')
    contains(done.stderr, 'stoke train: step ', 'learning rate of', '--lr', '--clip-norm', 'stoke verify', '0000')
    equal(done.stdout, '')
    contains(read('boom', 'report.html').decode(), '<html')
    answer = stoke_json('train', SET, *RUN, '--optimizer', 'sgd', '--lr', 1000, '--head-lr', 1000, '--clip-norm', 0,
                        '--warmup', 0, '--name', 'boom2', code=1)
    equal(answer['error']['code'], 'state')


def changed_settings():
    stoke('train', SET, *RUN, '--stop-after', 2, '--name', 'set', '--quiet')
    done = stoke('train', '--resume', 'runs/set', '--lr', '0.5', code=1)
    contains(done.stderr, 'lr was 0.001 and is 0.5', '--force')
    stoke('train', '--resume', 'runs/set', '--workers', 1, '--threads', 1, '--save-every', 7, '--stop-after', 1)
    done = stoke('train', '--resume', 'runs/set', '--lr', '0.002', '--force', '--stop-after', 1)
    contains(done.stderr, 'remark: goes on although')


def changed_data():
    own = path('own-set')
    shutil.copytree(SET, own)
    stoke('train', own, *RUN, '--stop-after', 2, '--name', 'data', '--quiet')
    for folder in ('images', 'masks'):
        os.remove(os.path.join(own, folder, files_below(os.path.join(own, folder))[3]))
    done = stoke('train', '--resume', 'runs/data', code=1)
    contains(done.stderr, 'not the run that was saved', '--force')
    stoke('train', '--resume', 'runs/data', '--force', '--stop-after', 1)
    stoke('train', '--resume', 'runs/data', '--stop-after', 1)  # from now on this is its data


def folders():
    done = stoke('train', SET, *RUN, '--name', 'whole', code=2)
    contains(done.stderr, 'runs/whole exists', '--resume runs/whole', '--name')
    contains(stoke('train', SET, *RUN, '--runs', '/proc/runs', '--name', 'x', code=1).stderr, '/proc/runs')
    contains(stoke('train', '--resume', SET, code=1).stderr, 'config.yaml')


def no_such_run():
    """One sentence wherever a run is named that is not there: which ones are."""
    there = ', '.join(sorted(os.listdir(path('runs')))[:5])
    for ask in (['train', '--resume', 'runs/nowhere'], ['eval', 'runs/nowhere'], ['eval', 'nowhere'], ['report', 'runs/nowhere'],
                ['predict', 'runs/nowhere', SET, '--out', path('w')], ['why', 'slow', '--run', 'runs/nowhere/']):
        message = stoke(*ask, code=1).stderr
        contains(message, 'nowhere', ': there is no such run or network; the runs in runs are ' + there)
        assert 'config.yaml' not in message, message
    os.makedirs(path('many', 'left', 'alone'))
    contains(stoke('eval', 'many/x', code=1).stderr, 'many/x: there is no such run or network, and no run in many: ')
    for name in 'gfedcba':  # a folder is a run by its settings
        os.makedirs(path('many', name))
        with open(path('many', name, 'config.yaml'), 'w') as out:
            out.write('model: b0\n')
    contains(stoke('eval', 'many/x', code=1).stderr, 'the runs in many are a, b, c, d, e and 2 more\n')


def damaged_state():
    shutil.copytree(path('runs', 'set'), path('runs', 'damaged'))
    state = path('runs', 'damaged', 'state.safetensors')
    with open(state, 'r+b') as stream:
        stream.truncate(os.path.getsize(state) - 1000)
    contains(stoke('train', '--resume', 'runs/damaged', code=1).stderr, 'state.safetensors')


sys.exit(tap.run([
    ('one go', reference),
    ('Ctrl-C saves, and goes on bit for bit', interrupted(signal.SIGINT, 'int')),
    ('SIGTERM too', interrupted(signal.SIGTERM, 'term')),
    ('Ctrl-C in the last evaluation', interrupted_in_the_last_evaluation),
    ('a disk that is full', full_disk),
    ('a disk that is full from the start', full_from_the_start),
    ('nothing but the state can be written', without_accessories),
    ('a log that is full', a_log_that_is_full),
    ('a loss that explodes', exploding_loss),
    ('changed settings', changed_settings),
    ('changed data', changed_data),
    ('folders', folders),
    ('no such run', no_such_run),
    ('a damaged state', damaged_state),
]))
