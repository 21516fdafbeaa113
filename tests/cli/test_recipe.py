# SPDX-License-Identifier: Apache-2.0
"""stoke recipe progressive: stages one after another, each from the one before; resumed, planned, told."""
import json
import os
import sys

from cli import contains, equal, files_below, make_set, path, stoke, stoke_json, tap

DATA = make_set('set', count=12, size='48', classes=4)
TINY = ['recipe', 'progressive', DATA, '--batch', '2', '--threads', '1', '--precision', 'fp32', '--val-split', '0.25',
        '--no-pictures', '--no-tensorboard', '--augment', 'none']


def weights(folder):
    with open(os.path.join(folder, 'model.safetensors'), 'rb') as file:
        return file.read()


def log(folder, kind):
    with open(os.path.join(folder, 'log.jsonl')) as file:
        return [line for line in map(json.loads, file) if line['kind'] == kind]


def stages_follow_one_another():
    work = path('a')
    os.mkdir(work)
    done = stoke(*TINY, '--stages', 'b1@32:1,b2@32x48:1', '--steps', '2', '--name', 'two', cwd=work)
    contains(done.stdout, 'stage', 'mIoU', 'carried over', '1-b1-32', '2-b2-32x48', '0 of 207 tensors', '193 of 379 tensors')
    contains(done.stderr, 'stage 1 of 2', 'stage 2 of 2', 'carried over from runs/two/1-b1-32/best', 'next: stoke predict')
    for stage in ('1-b1-32', '2-b2-32x48'):
        folder = os.path.join(work, 'runs', 'two', stage)
        for name in ('config.yaml', 'log.jsonl', 'best/model.safetensors', 'last/config.json', 'report.html'):
            assert os.path.exists(os.path.join(folder, name)), f'{stage}/{name}'
        equal(log(folder, 'end')[-1]['step'], 2)


def called_again_it_passes_over():
    """Nothing is trained again, and the table is the same."""
    work = path('a')
    args = [*TINY, '--stages', 'b1@32:1,b2@32x48:1', '--steps', '2', '--name', 'two']
    last = os.path.join(work, 'runs', 'two', '2-b2-32x48')
    before = weights(os.path.join(last, 'last'))
    answer = stoke_json(*args, cwd=work)
    equal(answer['complete'], True)
    equal([(s['model'], s['size'], s['batch'], s['step'], s['tensors'], s['carried']) for s in answer['stages']],
          [('b1', [32, 32], 2, 2, 207, 0), ('b2', [32, 48], 2, 2, 379, 193)])
    for stage in answer['stages']:
        assert 0 <= stage['miou'] <= 1 and stage['seconds'] > 0, stage
    equal(answer['stages'][0]['lr'], answer['stages'][1]['lr'], 'the rate of the second stage')
    equal(weights(os.path.join(last, 'last')), before, 'weights')
    equal(sum(line['images'] for line in log(last, 'step')), 4, 'pictures seen')


def an_unfinished_stage_is_resumed():
    """In sittings of one step the same weights come out as in one go."""
    work = path('b')
    os.mkdir(work)
    args = [*TINY, '--stages', 'b0@32:1,b1@32:1', '--steps', '2']
    whole = stoke_json(*args, '--name', 'whole', cwd=work)
    equal(whole['complete'], True)
    for sitting in range(1, 5):
        done = stoke(*args, '--name', 'parts', '--stop-after', '1', '--json', cwd=work)
        answer = json.loads(done.stdout)
        equal(answer['complete'], sitting == 4, f'sitting {sitting}')
        if sitting < 4:
            contains(done.stderr, 'the same command goes on')
    for stage in ('1-b0-32', '2-b1-32'):
        equal(weights(os.path.join(work, 'runs/parts', stage, 'last')), weights(os.path.join(work, 'runs/whole', stage, 'last')),
              stage)
    equal(answer['stages'][1]['carried'], 11, 'what b0 shares with b1: the middle of the head')


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
    contains(done.stdout, 'memory', '1-b0-224', '3-b4-288', 'MB')
    contains(done.stderr, 'nothing was written')
    equal(files_below(work), [])


def misuse():
    for stages, part in (('b9@32:1', 'b9@32:1'), ('b0@32', 'MODEL@SIZE:EPOCHS'), ('b0@32:0', 'b0@32:0'), ('b0@32:1,', "''"),
                         ('b0@:1', 'b0@:1'), ('b0@32x:1', 'b0@32x:1'), ('b0@32:1x', 'b0@32:1x'), (',', "''"),
                         ('b0@9999999999:1', 'b0@99'), (','.join(['b0@32:1'] * 17), 'more than 16')):
        contains(stoke(*TINY, '--stages', stages, code=2).stderr, part)
    contains(stoke(*TINY, '--resume', 'runs/x', code=None).stderr, 'resume')
    contains(stoke('recipe', 'progressive', code=2).stderr, 'no data given')
    contains(stoke('recipe', 'progresive', code=2).stderr, "did you mean 'recipe progressive'")
    contains(stoke('recipe').stdout, 'progressive')


sys.exit(tap.run([
    ('stages follow one another', stages_follow_one_another),
    ('called again it passes over what is done', called_again_it_passes_over),
    ('an unfinished stage is resumed', an_unfinished_stage_is_resumed),
    ('a dry run writes nothing', a_dry_run_writes_nothing),
    ('misuse', misuse),
]))
