# SPDX-License-Identifier: Apache-2.0
"""stoke find-lr: the curve, the three readings, the picture, what to type next."""
import os
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

from cli import STOKE, WORK, contains, equal, files_below, make_set, path, stoke, stoke_json, tap

DATA = make_set('set', count=12, size='48', classes=4)
TINY = [DATA, '--size', '32', '--batch', '2', '--sweep-steps', '100', '--threads', '1', '--precision', 'fp32']


def answer_for_people():
    done = stoke('find-lr', *TINY, '--out', path('a.svg'))
    contains(done.stdout, 'falls fastest', 'where it is lowest', 'longest fall', f'curve: {path("a.svg")} (')
    contains(done.stderr, 'memory: ')
    lines = done.stdout.splitlines()
    assert sum(len(line) > 60 for line in lines) >= 8, 'no plot'
    assert ('suggested: --lr ' in done.stdout) != ('no suggestion: ' in done.stdout), done.stdout
    root = xml.etree.ElementTree.parse(path('a.svg')).getroot()
    assert root.tag.endswith('svg'), root.tag
    text = ''.join(root.itertext())
    contains(text, 'learning rate', 'steepest', 'lowest/10', 'valley')


def the_whole_curve_as_json():
    answer = stoke_json('find-lr', *TINY, '--out', path('b.svg'))
    points = answer['points']
    assert 50 < len(points) <= 100, len(points)
    equal(points[0]['lr'], 1e-6)
    equal(points[0]['loss'], points[0]['smooth'])
    ratios = [b['lr'] / a['lr'] for a, b in zip(points, points[1:])]
    assert max(ratios) / min(ratios) < 1.0001, 'rates are not spaced by one factor'
    smooth = weight = 0
    for point in points:
        smooth, weight = 0.98 * smooth + 0.02 * point['loss'], 0.98 * weight + 0.02
        assert abs(point['smooth'] - smooth / weight) < 1e-9, point
    later = points[len(points) // 10:]
    lowest = min(later, key=lambda p: p['smooth'])
    assert abs(answer['readings']['lowest_tenth'] / (lowest['lr'] / 10) - 1) < 1e-12, answer['readings']
    drop = 1 - lowest['smooth'] / later[0]['smooth']
    assert abs(answer['drop'] - drop) < 1e-9, (answer['drop'], drop)
    readings = list(answer['readings'].values())
    agree = None not in readings and max(readings) / min(readings) <= 10 and drop >= 0.05
    equal(answer['suggested'], answer['readings']['steepest'] if agree else None, 'suggested')
    equal(answer['why'] is None, agree)
    assert os.path.getsize(answer['svg']) > 1000


def the_same_settings_give_the_same_curve():
    first = stoke_json('find-lr', *TINY, '--seed', '5', '--out', path('c.svg'))
    second = stoke_json('find-lr', *TINY, '--seed', '5', '--workers', '1', '--out', path('c.svg'))
    equal(second['points'], first['points'])
    other = stoke_json('find-lr', *TINY, '--seed', '6', '--out', path('c.svg'))
    assert other['points'] != first['points'], 'the seed is not looked at'


def next_command_is_what_was_typed():
    """The set is learned fast enough for a suggestion; where not, there is no command either."""
    folder = path("it's mine")
    os.rename(make_set('renamed', count=24, size='48', classes=3), folder)
    args = [folder, '--size', '32', '--batch', '4', '--sweep-steps=150', '--low', '1e-5', '--high=1', '--augment',
            'hflip(p=0.5)', '--threads', '1', '--lr', '9', '--out', path('d.svg')]
    answer = stoke_json('find-lr', *args)
    if answer['suggested'] is None:
        equal(answer['next'], None)
        raise tap.Skip(f'no suggestion: {answer["why"]}')
    words = shlex.split(answer['next'])
    equal(words, ['stoke', 'train', '--lr', f'{answer["suggested"]:.2g}', folder, '--size', '32', '--batch', '4', '--augment',
                  'hflip(p=0.5)', '--threads', '1'])


def nothing_to_learn_gives_no_number():
    """Rates so low that nothing happens."""
    answer = stoke_json('find-lr', *TINY, '--low', '1e-12', '--high', '1e-10', '--out', path('e.svg'))
    equal(answer['suggested'], None)
    equal(answer['next'], None)
    contains(answer['why'], '% only')
    done = stoke('find-lr', *TINY, '--low', '1e-12', '--high', '1e-10', '--out', path('e.svg'))
    contains(done.stdout, 'no suggestion: the loss fell by')
    assert 'next:' not in done.stderr


def far_too_high_is_told():
    answer = stoke_json('find-lr', *TINY, '--optimizer', 'sgd', '--clip-norm', '0', '--low', '90', '--high', '1000', '--out',
                        path('f.svg'))
    equal(answer['suggested'], None)
    assert answer['end'] in ('rose', 'not_finite'), answer['end']
    assert answer['why'], 'no reason'


def writes_its_picture_and_nothing_else():
    work = path('empty')
    os.mkdir(work)
    stoke('find-lr', *TINY, cwd=work)
    equal(files_below(work), ['find-lr.svg'])


def misuse():
    contains(stoke('find-lr', *TINY, '--low', '1', '--high', '2', code=2).stderr, 'ten times')
    contains(stoke('find-lr', *TINY[:-6], '--sweep-steps', '5', code=2).stderr, 'sweep-steps')
    contains(stoke('find-lr', code=2).stderr, 'no data given')
    contains(stoke('find-lr', *TINY, '--out', path('no', 'such', 'folder.svg'), code=1).stderr, 'folder.svg')


def interrupt():
    process = subprocess.Popen([STOKE, 'find-lr', *TINY, '--sweep-steps', '10000', '--out', path('g.svg')], cwd=WORK,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while 'memory: ' not in process.stderr.readline():
        assert process.poll() is None, 'it ended by itself'
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    equal(process.returncode, 130)
    equal(out, '')
    assert not os.path.exists(path('g.svg'))


sys.exit(tap.run([
    ('the answer for people', answer_for_people),
    ('the whole curve as JSON', the_whole_curve_as_json),
    ('the same settings give the same curve', the_same_settings_give_the_same_curve),
    ('the next command is what was typed', next_command_is_what_was_typed),
    ('nothing to learn gives no number', nothing_to_learn_gives_no_number),
    ('far too high is told', far_too_high_is_told),
    ('writes its picture and nothing else', writes_its_picture_and_nothing_else),
    ('misuse', misuse),
    ('an interrupt', interrupt),
]))
