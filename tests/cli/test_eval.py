# SPDX-License-Identifier: Apache-2.0
"""stoke eval: its figures against the training log and against NumPy, its files, and what it refuses."""
import csv
import json
import os
import shutil
import sys

import numpy as np
from PIL import Image

from cli import contains, equal, files_below, make_set, path, stoke, stoke_json, tap

CLASSES = 4
SET = make_set('set', count=12, size='40x56', classes=CLASSES)
stoke('train', SET, '--size', 32, '--batch', 3, '--steps', 3, '--val-split', 0.4, '--name', 'run', '--runs', path('runs'),
      '--precision', 'fp32', '--no-pictures', '--quiet')
RUN = path('runs', 'run')


def scores(matrix):
    """What metrics.h promises, in NumPy."""
    matrix = np.array(matrix, dtype=np.float64)
    truth, predicted, hit = matrix.sum(1), matrix.sum(0), np.diag(matrix)
    there = truth + predicted > 0
    with np.errstate(invalid='ignore'):
        each = [hit / (truth + predicted - hit), 2 * hit / (truth + predicted), np.nan_to_num(hit / predicted),
                np.nan_to_num(hit / truth)]
    return [float(one[there].mean()) for one in each] + [float(hit.sum() / matrix.sum())]


def same_as_in_training():
    """The best network of the run, on the run's own validation part: nothing has to be said again."""
    with open(os.path.join(RUN, 'log.jsonl'), encoding='utf-8') as lines:
        logged = [line for line in map(json.loads, lines) if line['kind'] == 'eval'][-1]
    got = stoke_json('eval', RUN)
    for key in ('miou', 'f1_macro', 'f1_micro', 'precision', 'recall', 'pixel_accuracy', 'samples'):
        equal(got[key], logged[key], key)
    equal(got['confusion'], logged['confusion'])
    equal((got['split'], got['size'], got['data']), ('val', [32, 32], SET))
    assert abs(got['loss'] - logged['loss']) < 1e-6, 'the loss is a mean over batches, which are others here'
    equal([w['name'] for w in got['worst']], [w['name'] for w in logged['worst']][:8])


def scores_follow_from_the_matrix():
    got = stoke_json('eval', RUN, '--split', 'all')
    equal(got['samples'], 12)
    equal(got['pixels'], 12 * 32 * 32)
    wanted = scores(got['confusion'])
    for key, value in zip(('miou', 'f1_macro', 'precision', 'recall', 'pixel_accuracy'), wanted):
        assert abs(got[key] - value) < 1e-12, (key, got[key], value)
    equal([c['truth'] for c in got['classes']], [sum(row) for row in got['confusion']])
    contains(got['convention'], 'torchmetrics')
    order = [w['miou'] for w in got['worst']]
    equal(order, sorted(order))
    equal(len(order), 8)


def original_is_what_predict_writes():
    """At the masks' own size: the masks of `stoke predict`, compared by NumPy."""
    for more in ([], ['--flip', '--mode', 'resize']):
        shutil.rmtree(path('masks'), ignore_errors=True)
        stoke('predict', RUN, os.path.join(SET, 'images'), '--out', path('masks'), *more, '--quiet')
        matrix = np.zeros((CLASSES, CLASSES), np.int64)
        for name in os.listdir(os.path.join(SET, 'masks')):
            truth = np.asarray(Image.open(os.path.join(SET, 'masks', name))).astype(int)
            predicted = np.asarray(Image.open(path('masks', name))).astype(int)
            np.add.at(matrix, (truth[truth != 255], predicted[truth != 255]), 1)
        got = stoke_json('eval', RUN, '--split', 'all', '--original', *more)
        equal(got['confusion'], matrix.tolist())
        equal((got['loss'], got['original'], got['samples']), (None, True, 12))


def files():
    out = path('out', 'deep')
    done = stoke('eval', RUN, '--out', out, '--worst', 2)
    equal(files_below(out), ['classes.csv', 'confusion.png', 'eval.json', 'worst.png'])
    contains(done.stdout, 'mean IoU', 'torchmetrics', 'worst pictures', out)
    contains(done.stderr, 'img/s', 'split val')
    for name in ('confusion.png', 'worst.png'):
        picture = Image.open(os.path.join(out, name))
        picture.load()
        assert min(picture.size) > 100, picture.size
    with open(os.path.join(out, 'eval.json'), encoding='utf-8') as stream:
        kept = json.load(stream)
    equal(len(kept['worst']), 2)
    with open(os.path.join(out, 'classes.csv'), encoding='utf-8', newline='') as stream:
        rows = list(csv.DictReader(stream))
    equal([float(row['IoU']) for row in rows if row['IoU'] != 'n/a'],
          [round(c['iou'], 4) for c in kept['classes'] if c['iou'] is not None])
    before = files_below(path())
    stoke('eval', RUN)
    equal(files_below(path()), before, 'without --out nothing is written')


def a_network_alone():
    """Outside a run nothing is known but the weights: set and size are to be said, or come from beside the weights."""
    alone = path('alone')
    shutil.copytree(os.path.join(RUN, 'best'), alone)
    contains(stoke('eval', alone, code=2).stderr, 'no data given')
    got = stoke_json('eval', alone, '--data', SET, '--val-split', 0.4, '--precision', 'fp32')  # as the run trained
    equal(got['confusion'], stoke_json('eval', RUN)['confusion'])
    equal(got['run_config'], None)
    got = stoke_json('eval', os.path.join(RUN, 'best'), '--size', '64x32')
    equal(got['size'], [64, 32])
    assert got['run_config'], 'best/ belongs to its run'


def names_of_classes():
    named = path('named')
    shutil.copytree(os.path.join(RUN, 'best'), named)
    config = json.load(open(os.path.join(named, 'config.json'), encoding='utf-8'))
    config['id2label'] = {str(i): name for i, name in enumerate(('ground', 'round', 'LABEL_2', 'corner'))}
    config['label2id'] = {name: int(i) for i, name in config['id2label'].items()}
    json.dump(config, open(os.path.join(named, 'config.json'), 'w', encoding='utf-8'))
    got = stoke_json('eval', named, '--data', SET, '--split', 'all')
    equal([c['name'] for c in got['classes']], ['ground', 'round', None, 'corner'])
    contains(stoke('eval', named, '--data', SET, '--split', 'all').stdout, 'ground', 'corner')


def splits():
    done = stoke('eval', RUN, '--val-split', 0)
    contains(done.stderr, 'no validation part', 'split all: 12 pictures')
    error = stoke('eval', RUN, '--val-split', 0, '--split', 'val', code=1).stderr
    contains(error, 'split val with --val-split 0; set --val-split, e.g. to 0.1')
    equal(stoke_json('eval', RUN, '--split', 'train')['samples'] + stoke_json('eval', RUN)['samples'], 12)


def another_set():
    """The run's share for validation says nothing about it; of its own set, wherever it lies now, it does."""
    other = make_set('another', count=9, size='40x56', classes=CLASSES, seed=8)
    done = stoke('eval', RUN, '--data', other)
    contains(done.stderr, 'not the set of the run', 'split all: 9 pictures')
    assert stoke_json('eval', RUN, '--data', other, '--val-split', 0.4)['samples'] < 9
    own = stoke_json('eval', RUN)['samples']
    equal(stoke_json('eval', RUN, '--data', SET + '/.')['samples'], own)
    os.rename(SET, path('moved'))
    equal(stoke_json('eval', RUN, '--data', path('moved'))['samples'], own)
    os.rename(path('moved'), SET)


def test_part():
    parts = path('parts')
    for part in ('train', 'test'):
        shutil.copytree(os.path.join(SET, 'images'), os.path.join(parts, part, 'images'))
        shutil.copytree(os.path.join(SET, 'masks'), os.path.join(parts, part, 'masks'))
    os.remove(os.path.join(parts, 'test', 'images', files_below(os.path.join(parts, 'test', 'images'))[0]))
    contains(stoke('verify', parts).stdout, 'There is a test part', '--split test')
    got = stoke_json('eval', RUN, '--data', parts, '--split', 'test')
    equal((got['split'], got['samples']), ('test', 11))
    stoke('predict', RUN, '--data', parts, '--split', 'test', '--out', path('parts-out'))
    equal(len([name for name in files_below(path('parts-out')) if name.endswith('.png')]), 11)
    contains(stoke('eval', RUN, '--split', 'test', code=1).stderr, 'has no test part')
    contains(stoke('train', parts, '--split', 'test', '--dry-run', code=2).stderr, '--split test: training takes')


def settings_of_others():
    """--config replaces the run's."""
    with open(path('other.yaml'), 'w', encoding='utf-8') as stream:
        stream.write(f'data: {SET}\nval_split: 0.9\nsize: 64\n')
    got = stoke_json('eval', RUN, '--config', path('other.yaml'))
    equal(got['size'], [64, 64])
    assert got['samples'] > stoke_json('eval', RUN)['samples']


def classes_that_disagree():
    other = make_set('other', count=4, classes=7)
    done = stoke('eval', RUN, '--data', other, '--split', 'all', code=1)
    contains(done.stderr, 'do not fit the network, which has 4 classes', 'is not a class')
    contains(stoke('eval', RUN, '--data', other, '--split', 'all', '--original', code=1).stderr, 'do not fit the network')
    done = stoke('eval', RUN, '--classes', 7, code=2)
    contains(done.stderr, 'has 4 classes', 'said to have 7', '--label-map')
    got = stoke_json('eval', RUN, '--data', other, '--split', 'all', '--label-map', '0:0,1:1,2:2,3:3,*:ignore')
    assert got['samples'] == 4 and got['pixels'] < 4 * 32 * 32, got


def bad_files():
    broken = path('broken')
    shutil.copytree(SET, broken)
    victim = os.path.join(broken, 'images', sorted(os.listdir(os.path.join(broken, 'images')))[3])
    os.truncate(victim, 200)
    for more in ([], ['--original'], ['--mode', 'slide']):
        got = stoke_json('eval', RUN, '--data', broken, '--split', 'all', '--max-bad', 3, *more)
        equal((got['samples'], got['bad']), (11, 1))
        equal(got['first_bad'].count(os.path.basename(victim)), 1, got['first_bad'])
        done = stoke('eval', RUN, '--data', broken, '--split', 'all', '--max-bad', 0, *more, code=1)
        contains(done.stderr, '1 of 12 samples are bad', '--max-bad', os.path.basename(victim))
        done = stoke('eval', RUN, '--data', broken, '--split', 'all', '--max-bad', 3, '--policy', 'stop', *more, code=1)
        contains(done.stderr, os.path.basename(victim))
        # A list that is named is written, and one that cannot be is told.
        got = stoke_json('eval', RUN, '--data', broken, '--split', 'all', '--max-bad', 3, '--quarantine', 'named.jsonl', *more)
        with open(path('named.jsonl'), encoding='utf-8') as stream:
            equal([(record['image'], got['unrecorded']) for record in map(json.loads, stream)], [(victim, None)])
        os.remove(path('named.jsonl'))
        done = stoke('eval', RUN, '--data', broken, '--split', 'all', '--max-bad', 3, '--quarantine', '/dev/full', '--json', *more)
        contains(json.loads(done.stdout)['unrecorded'], '/dev/full', '1 bad sample is not in this list')
        contains(done.stderr, 'warning: /dev/full')
    assert not os.path.exists(path('quarantine.jsonl')), 'nothing is written that nobody asked for'


def refusals():
    contains(stoke('eval', code=2).stderr, 'no network given')
    contains(stoke('eval', path('nowhere'), code=1).stderr, 'no such run or network')
    contains(stoke('eval', SET, code=1).stderr, 'neither a run')
    contains(stoke('eval', RUN, '--flip', code=2).stderr, '--original')
    contains(stoke('eval', RUN, '--mode', 'slide', '--size', '34', code=2).stderr, 'multiples of 4')
    contains(stoke('eval', RUN, '--data', os.path.join(SET, 'images'), code=2).stderr, 'no masks', 'stoke predict')
    stoke('eval', RUN, SET, code=2)
    answer = stoke_json('eval', RUN, '--classes', 7, code=2)
    equal(answer['error']['code'], 'invalid')


sys.exit(tap.run([
    ('the figures of the training log', same_as_in_training),
    ('scores follow from the matrix', scores_follow_from_the_matrix),
    ('--original is what predict writes', original_is_what_predict_writes),
    ('files', files),
    ('a network alone', a_network_alone),
    ('names of classes', names_of_classes),
    ('splits', splits),
    ('another set', another_set),
    ('the test part', test_part),
    ("--config replaces the run's settings", settings_of_others),
    ('classes that disagree', classes_that_disagree),
    ('bad files', bad_files),
    ('refusals', refusals),
]))
