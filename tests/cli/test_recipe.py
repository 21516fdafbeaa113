# SPDX-License-Identifier: Apache-2.0
"""stoke recipe progressive: stages one after another, each from the one before; resumed, planned, told."""
import json
import os
import signal
import subprocess
import sys
import time

from cli import STOKE, WORK, contains, equal, files_below, make_set, path, stoke, stoke_json, tap

DATA = make_set('set', count=12, size='48', classes=4)
TINY = ['recipe', 'progressive', DATA, '--batch', '2', '--threads', '1', '--precision', 'fp32', '--val-split', '0.25',
        '--no-pictures', '--no-tensorboard', '--augment', 'none']


def weights(folder):
    with open(os.path.join(folder, 'model.safetensors'), 'rb') as file:
        return file.read()


def log(folder, kind):
    with open(os.path.join(folder, 'log.jsonl')) as file:
        return [line for line in map(json.loads, file) if line['kind'] == kind]


STAGES = [*TINY, '--stages', 'b0@32:1,b1@32x48:1', '--steps', '2']


def stages_follow_one_another():
    done = stoke(*STAGES, '--name', 'whole')
    contains(done.stdout, 'stage', 'mIoU', 'carried over', '1-b0-32', '2-b1-32x48', '0 of 207 tensors', '11 of 207 tensors')
    contains(done.stderr, 'stage 1 of 2', 'stage 2 of 2', 'carried over from runs/whole/1-b0-32/best', 'next: stoke predict',
             'PICTURES --out masks')
    for stage in ('1-b0-32', '2-b1-32x48'):
        folder = path('runs', 'whole', stage)
        for name in ('config.yaml', 'log.jsonl', 'best/model.safetensors', 'last/config.json', 'report.html'):
            assert os.path.exists(os.path.join(folder, name)), f'{stage}/{name}'
        equal(log(folder, 'end')[-1]['step'], 2)


def called_again_it_passes_over():
    """Nothing is trained again, and the table has the same figures."""
    last = path('runs', 'whole', '2-b1-32x48')
    before = weights(os.path.join(last, 'last'))
    answer = stoke_json(*STAGES, '--name', 'whole')
    equal(answer['complete'], True)
    equal([(s['model'], s['size'], s['batch'], s['step'], s['tensors'], s['carried']) for s in answer['stages']],
          [('b0', [32, 32], 2, 2, 207, 0), ('b1', [32, 48], 2, 2, 207, 11)])
    for stage in answer['stages']:
        assert 0 <= stage['miou'] <= 1 and stage['seconds'] > 0, stage
    equal(answer['stages'][0]['lr'], answer['stages'][1]['lr'], 'the rate of the second stage')
    equal(weights(os.path.join(last, 'last')), before, 'weights')
    equal(sum(line['images'] for line in log(last, 'step')), 4, 'pictures seen')


def an_unfinished_stage_is_resumed():
    """In sessions of one step per stage the same weights come out as in one go."""
    for session in range(1, 4):
        done = stoke(*STAGES, '--name', 'parts', '--stop-after', '1', '--json')
        equal(json.loads(done.stdout)['complete'], session == 3, f'session {session}')
        assert ('the same command goes on' in done.stderr) == (session < 3), done.stderr
    for stage in ('1-b0-32', '2-b1-32x48'):
        equal(weights(path('runs/parts', stage, 'last')), weights(path('runs/whole', stage, 'last')), stage)


def an_interrupt_saves():
    args = [*TINY, '--stages', 'b0@32:1,b0@48:1', '--steps', '100000', '--name', 'stopped']
    process = subprocess.Popen([STOKE, *args], cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while 'memory: ' not in process.stderr.readline():
        assert process.poll() is None, 'it ended by itself'
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=120)
    equal(process.returncode, 130, said)
    contains(out, '1-b0-32', '2-b0-48', 'n/a')
    contains(said, 'the same command goes on')
    assert os.path.exists(path('runs/stopped/1-b0-32/state.safetensors'))
    assert not os.path.exists(path('runs/stopped/2-b0-48'))


def a_dry_run_writes_nothing():
    work = path('c')
    os.mkdir(work)
    answer = stoke_json('recipe', 'progressive', DATA, '--dry-run', '--threads', '1', cwd=work)
    equal(files_below(work), [])
    equal([s['model'] for s in answer['stages']], ['b0', 'b2', 'b4'])
    equal([s['size'] for s in answer['stages']], [[224, 224], [256, 256], [288, 288]])
    memory = [s['memory_bytes'] for s in answer['stages']]
    assert min(memory) > 50e6, memory
    equal([s['tensors'] for s in answer['stages']], [207, 379, 929])
    assert all(s['batch'] >= 1 and s['steps'] >= 1 for s in answer['stages'])
    done = stoke('recipe', 'progressive', DATA, '--dry-run', '--threads', '1', cwd=work)
    contains(done.stdout, 'memory', '1-b0-224', '3-b4-288', 'iB')
    contains(done.stderr, 'nothing was written')
    equal(files_below(work), [])


def stages_replace_the_file():
    own, other = path('own.yaml'), path('other.yaml')
    for file, text, names in ((own, f'data: {DATA}\nmodel: b0\nsize: 48\nepochs: 7\nbatch: 2\nworkers: 1\nlr: 0.001\n', 'model, size, epochs'),
                              (other, f'data_root: {DATA}\nmodel_name: segformer-b5\nimage_size: 96\nmax_epochs: 9\nbatch_size: 2\n',
                               'model_name, image_size, max_epochs')):
        with open(file, 'w', encoding='utf-8') as out:
            out.write(text)
        done = stoke('recipe', 'progressive', '--config', file, '--stages', 'b0@32:1,b1@32:1', '--dry-run', '--name', 'filed')
        contains(done.stderr, f'the stages say these instead: {names}\n')
        contains(done.stdout, '1-b0-32', '2-b1-32')
    contains(stoke('recipe', 'progressive', '--config', own, '--size', 64, '--dry-run', code=2).stderr, 'is said by')


def misuse():
    for stages, part in (('b9@32:1', 'b9@32:1'), ('b0@32', 'MODEL@SIZE:EPOCHS'), ('b0@32:0', 'b0@32:0'), ('b0@32:1,', "''"),
                         ('b0@:1', 'b0@:1'), ('b0@32x:1', 'b0@32x:1'), ('b0@32:1x', 'b0@32:1x'), (',', "''"),
                         ('b0@9999999999:1', 'b0@99'), (','.join(['b0@32:1'] * 17), 'more than 16')):
        contains(stoke(*TINY, '--stages', stages, code=2).stderr, part)
    contains(stoke(*TINY, '--resume', 'runs/whole/1-b0-32', code=2).stderr, 'is for single runs')
    contains(stoke(*TINY, '--model', 'b1', code=2).stderr, 'model', 'stages')
    contains(stoke(*TINY, '--size', '64', code=2).stderr, 'size', 'stages')
    contains(stoke('recipe', 'progressive', code=2).stderr, 'no data given', 'stoke recipe progressive DIR')
    contains(stoke('recipe', 'progresive', code=2).stderr, "did you mean 'recipe progressive'")
    contains(stoke('recipe').stdout, 'progressive')


sys.exit(tap.run([
    ('stages follow one another', stages_follow_one_another),
    ('called again it passes over what is done', called_again_it_passes_over),
    ('an unfinished stage is resumed', an_unfinished_stage_is_resumed),
    ('an interrupt saves', an_interrupt_saves),
    ('a dry run writes nothing', a_dry_run_writes_nothing),
    ('stages replace the file', stages_replace_the_file),
    ('misuse', misuse),
]))
