# SPDX-License-Identifier: Apache-2.0
"""stoke why: real runs, one that ended, one that was killed, and what is said of them; its commands work."""
import json
import os
import shlex
import signal
import subprocess
import sys
import time

from cli import STOKE, contains, equal, make_set, path, stoke, stoke_json, tap

import made_up_run

SET = make_set('set', count=12)
NO_CARD = dict(os.environ, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1')
TROUBLES = ('oom', 'slow', 'unstable', 'loading')


def train(name, *more):
    stoke('train', SET, '--model', 'b0', '--size', 32, '--batch', 2, '--val-split', 0.3, '--runs', path('runs'), '--name', name,
          '--no-pictures', '--quiet', *more)
    return path('runs', name)


def reasons(answer, found):
    return [r for r in answer['reasons'] if r['found'] is found]


def real_run():
    run = train('first', '--epochs', 3)
    for trouble in TROUBLES:
        answer = stoke_json('why', trouble, '--run', run, env=NO_CARD)
        equal((answer['trouble'], answer['run']), (trouble, run))
        assert answer['answer'] and answer['reasons'], answer
        for reason in answer['reasons']:
            assert reason['cause'] and reason['evidence'], reason
            assert reason['found'] is not True or reason['remedy'], reason
    memory = [r for r in stoke_json('why', 'oom', '--run', run)['reasons'] if 'batches of 2' in r['cause']]
    equal(memory[0]['found'], False)
    contains(memory[0]['evidence'], 'b0, 32x32', '[estimated]', '[proc]')


def killed_run():
    """Killed between two steps: the log has no last line, the page tells that the process is gone."""
    name = path('runs', 'killed')
    run = subprocess.Popen([STOKE, 'train', SET, '--model', 'b0', '--size', '32', '--batch', '2', '--steps', '100000', '--runs',
                            path('runs'), '--name', 'killed', '--no-pictures', '--quiet', '--eval-every', '0', '--log-every', '1'],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.time() + 120
    while time.time() < until and run.poll() is None:
        try:
            with open(os.path.join(name, 'log.jsonl')) as log:
                if sum('"kind": "step"' in line for line in log) >= 3:
                    break
        except OSError:
            pass
        time.sleep(0.02)
    going = stoke_json('why', 'oom', '--run', name)
    run.send_signal(signal.SIGKILL)
    run.wait()
    end = [r for r in going['reasons'] if 'the run was killed' in r['cause']]
    equal(end[0]['found'], False, 'while it is going')
    contains(end[0]['evidence'], 'still going')
    answer = stoke_json('why', 'oom', '--run', name)
    end = [r for r in answer['reasons'] if 'the run was killed' in r['cause']]
    equal(end[0]['found'], True)
    contains(end[0]['evidence'], 'without a last line', 'process is gone', 'oom_kill')
    contains(end[0]['remedy'], f'stoke train --resume {name}')


def made_up():
    """The words of an answer: first what it is, then what was found, then the rest."""
    lines = made_up_run.lines(steps=400, evals=4)
    for line in lines:
        if line['kind'] == 'step':
            line['data_seconds'] = 0.7 * line['seconds']
            if line['step'] >= 300:
                line['loss'] = None
    made_up_run.write(path('bad run'), lines, config=f'data: {SET}\nmodel: b0\nlr: 0.0006\nclip_norm: 1\nwarmup: 0.1\n')
    text = stoke('why', 'slow', '--run', path('bad run'), env=NO_CARD).stdout
    contains(text, 'Why is it slow? Steps wait for batches 70 % of the time', 'Found, the likeliest first', '  1. steps wait',
             "-> stoke why loading --run '", 'Looked for, and not the cause')
    text = stoke('why', 'unstable', '--run', path('bad run')).stdout
    contains(text, 'The loss is not a number', 'the first at step 300', '--lr 6e-05')


def commands_work():
    """Of the commands named, those that take no training are run as they stand."""
    made_up_run.write(path('flat'), [dict(line, loss=2.0) if line['kind'] == 'step' else line for line in made_up_run.lines(steps=400)],
                      config=f'data: {SET}\nmodel: b0\nsize: 32\nbatch: 2\nclip_norm: 1\nlr: 0.0006\n')
    still = [r for r in reasons(stoke_json('why', 'unstable', '--run', path('flat')), True) if 'does not fall' in r['cause']]
    words = shlex.split(still[0]['remedy'])
    equal(words[:3], ['stoke', 'find-lr', '--config'])
    stoke('config', '--train', *words[2:])  # a sweep takes seconds; its settings are read as these are
    fake = dict(os.environ, STOKE_LIBNVML=os.environ['STOKE_FAKE_LIBNVML'])
    with open(path('x.yaml'), 'w') as out:
        out.write('model_name: segformer-b4\nimage_size: 512\nbatch_size: 64\nnum_workers: 0\n')
    answer = stoke_json('why', 'oom', '--config', path('x.yaml'), env=fake)
    need = reasons(answer, True)[0]
    contains(need['cause'], 'batches of 64 need', 'the card has')
    command = need['remedy'].split('   ')[0]
    fits = stoke_json(*shlex.split(command)[1:])['fits']
    equal(fits['as_asked'], True, command)
    slow = stoke_json('why', 'slow', '--config', path('x.yaml'), env=fake)
    settings = [r for r in reasons(slow, True) if 'num_workers' in r['evidence']]
    stoke(*shlex.split(settings[0]['remedy'])[1:], '--dry-run', env=fake)


def the_file_alone():
    """No card, no run: what the file says is answered all the same."""
    with open(path('light.yaml'), 'w') as out:
        out.write('model:\n  base_channels: 128\n  num_blocks: 12\ntraining:\n  batch_size: 64\n  learning_rate: 1.0e-2\n'
                  'data:\n  num_workers: 0\n  patch_size: 256\n')
    said = {trouble: stoke_json('why', trouble, '--config', path('light.yaml'), env=NO_CARD) for trouble in TROUBLES}
    for trouble in ('slow', 'loading'):
        first = reasons(said[trouble], True)[0]
        equal(first['cause'], 'no workers make batches')
        contains(first['evidence'], 'num_workers is 0')
        contains(first['remedy'], 'stoke optimize --config')
    contains(' '.join(r['cause'] for r in reasons(said['slow'], True)), '32 bits')
    unstable = ' '.join(r['cause'] for r in reasons(said['unstable'], True))
    contains(unstable, 'the learning rate is high', 'not clipped', 'begins at its height')
    contains(said['oom']['answer'], 'depends on the card', 'batches of 64 need', 'GiB', '--gpu NAME')
    for trouble in TROUBLES:
        assert 'can be told' not in said[trouble]['answer'], said[trouble]['answer']
        for line in stoke('why', trouble, '--config', path('light.yaml'), env=NO_CARD).stdout.partition('not the cause\n')[2].splitlines():
            assert line.startswith('  no: '), line
    meant = reasons(stoke_json('why', 'oom', '--config', path('light.yaml'), '--gpu', 'RTX 4090', env=NO_CARD), True)[0]
    contains(meant['cause'], 'RTX 4090 has 24.0 GiB')
    command = meant['remedy'].split('   ')[0]
    contains(command, '--base-channels 128', '--num-blocks 12')
    equal(stoke_json(*shlex.split(command)[1:])['fits']['as_asked'], True, command)
    with open(path('class.yaml'), 'w') as out:  # optimize adds no argument to somebody's class, and nobody is sent to it for one
        out.write('data:\n  class_path: my.Data\n  init_args:\n    batch_size: 8\n    num_workers: 1\ntrainer:\n  precision: 16-mixed\n')
    pinning = [r for r in reasons(stoke_json('why', 'slow', '--config', path('class.yaml'), env=NO_CARD), True) if 'pin_memory' in r['evidence']]
    contains(pinning[0]['remedy'], 'add pin_memory to your class')
    right = path('right.yaml')
    with open(right, 'w') as out:
        out.write('batch_size: 8\nlearning_rate: 3.0e-4\ngrad_clip: 1.0\nwarmup_epochs: 2\n')
    equal(reasons(stoke_json('why', 'unstable', '--config', right, env=NO_CARD), True), [])


def what_is_not_said():
    """TrainingArguments clip and pin unless told not to; Trainer does not clip."""
    theirs = path('hf.yaml')
    with open(theirs, 'w', encoding='utf-8') as out:
        out.write('per_device_train_batch_size: 8\ndataloader_num_workers: 4\nfp16: true\n')
    answer = stoke_json('why', 'unstable', '--config', theirs, env=NO_CARD)
    clip = [r for r in answer['reasons'] if 'clipped' in r['cause']][0]
    equal(clip['found'], False)
    contains(clip['evidence'], "grad_clip is not there, so 1.0 by TrainingArguments' default")
    rate = [r for r in answer['reasons'] if r['cause'] == 'the learning rate is high'][0]
    contains(rate['evidence'], '5e-05')
    answer = stoke_json('why', 'slow', '--config', theirs, env=NO_CARD)
    pinned = [r for r in answer['reasons'] if 'cannot copy them from' in r['cause']][0]
    equal(pinned['found'], False)
    lightning = path('pl.yaml')
    with open(lightning, 'w', encoding='utf-8') as out:
        out.write('trainer:\n  max_epochs: 5\ndata:\n  batch_size: 8\n  num_workers: 4\n')
    answer = stoke_json('why', 'unstable', '--config', lightning, env=NO_CARD)
    equal([r['found'] for r in answer['reasons'] if 'clipped' in r['cause']], [True])


def machine_alone():
    text = stoke('why', 'loading', env=NO_CARD).stdout
    contains(text, 'Why do batches come slowly?', '--run RUN', 'stoke bench data DIR')
    for trouble in TROUBLES:
        equal(json.loads(stoke('why', trouble, '--json', env=NO_CARD).stdout)['run'], None)


def asked_wrongly():
    contains(stoke('why', code=2).stderr, 'oom, slow, unstable or loading')
    contains(stoke('why', 'broken', code=2).stderr, "'broken' is none of the four")
    contains(stoke('why', 'slow', '--run', path('nowhere'), code=1).stderr, 'nowhere', 'no such run')
    contains(stoke('why', 'slow', '--run', SET, code=1).stderr, 'no log.jsonl')
    contains(stoke('why', 'oom', '--config', path('nowhere.yaml'), code=1).stderr, 'nowhere.yaml')
    stoke('why', 'oom', 'slow', code=2)


sys.exit(tap.run([
    ('a run that ended', real_run),
    ('a run that was killed', killed_run),
    ('a made-up run', made_up),
    ('the commands work', commands_work),
    ('the file alone', the_file_alone),
    ('what is not said', what_is_not_said),
    ('the machine alone', machine_alone),
    ('asked wrongly', asked_wrongly),
]))
