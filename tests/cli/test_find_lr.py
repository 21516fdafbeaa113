# SPDX-License-Identifier: Apache-2.0
"""stoke find-lr: the curve, the three readings, the picture, what to type next."""
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

from cli import STOKE, WORK, contains, equal, files_below, make_set, path, stoke, stoke_json, tap

DATA = make_set('set', count=12, size='48', classes=4)
TINY = [DATA, '--size', '32', '--batch', '2', '--sweep-steps', '100', '--threads', '1', '--precision', 'fp32']


def answer_for_people():
    """A plot, three readings, a verdict; one picture is written and nothing else."""
    work = path('empty')
    os.mkdir(work)
    done = stoke('find-lr', *TINY, '--steps', 30, cwd=work)
    contains(done.stderr, 'remark: --steps belongs to the run that follows; the sweep has 100 steps (--sweep-steps)')
    contains(done.stdout, 'half of the fall', 'nine tenths', 'lowest', 'curve: find-lr.svg (')
    contains(done.stderr, 'memory: ')
    assert sum(len(line) > 60 for line in done.stdout.splitlines()) >= 4, f'no plot\n{done.stdout}'
    contains(done.stdout, 'suggested: --lr ', 'confidence ')
    contains(done.stderr, 'next: stoke train --lr ')
    equal('why low: ' in done.stdout, 'to be surer: stoke find-lr --sweep-steps 400 ' in done.stderr)
    equal(files_below(work), ['find-lr.svg'])
    root = xml.etree.ElementTree.parse(os.path.join(work, 'find-lr.svg')).getroot()
    assert root.tag.endswith('svg'), root.tag
    contains(''.join(root.itertext()), 'learning rate', 'half', 'floor', 'lowest')


def bad_files_are_not_recorded():
    """Nothing is kept of the training, a list of bad files neither, unless it is asked for."""
    work, own = path('clean'), path('own')
    os.mkdir(work)
    shutil.copytree(DATA, own)
    for name in files_below(os.path.join(own, 'images'))[:1]:
        os.truncate(os.path.join(own, 'images', name), 300)
    few = [own, *TINY[1:], '--max-bad', '100%', '--eval-every', '0']
    stoke('find-lr', *few, cwd=work)
    equal(files_below(work), ['find-lr.svg'])


def check_curve(answer, low):
    points = answer['points']
    assert 50 < len(points) <= 100, len(points)
    assert abs(points[0]['lr'] / low - 1) < 1e-9, points[0]
    ratios = [b['lr'] / a['lr'] for a, b in zip(points, points[1:])]
    assert max(ratios) / min(ratios) < 1.0001, 'rates are not spaced by one factor'
    smooth = [p['smooth'] for p in points]
    begin = sum(smooth[:len(smooth) // 10]) / (len(smooth) // 10)
    readings = answer['readings']
    low = next(p for p in points if p['lr'] == readings['lowest'])
    fall = begin - low['smooth']
    assert abs(answer['drop'] - fall / begin) < 1e-9, (answer['drop'], fall / begin)
    for name, share in (('half', 0.5), ('floor', 0.9)):
        first = next(p['lr'] for p in points if p['smooth'] <= begin - share * fall)
        assert abs(readings[name] / first - 1) < 1e-9, (name, readings, first)
    assert readings['half'] <= readings['floor'] <= readings['lowest'], readings
    equal(answer['interval'], [readings['half'], readings['lowest']])
    middle = (readings['floor'] * readings['lowest'])**0.5
    assert abs(answer['suggested'] / middle - 1) < 1e-9, (answer['suggested'], middle)
    apart = readings['lowest'] / readings['half']
    equal(answer['confidence'], 'high' if answer['drop'] >= 0.2 and apart <= 10 and answer['noise'] <= 0.03 else
          'medium' if answer['drop'] >= 0.05 and apart <= 30 and answer['noise'] <= 0.1 else 'low')
    equal((answer['why'] is not None, answer['again'] is not None), 2 * (answer['confidence'] == 'low',))


def the_whole_curve_and_what_to_type():
    """The next command is what was typed, with train in place of find-lr, as a shell reads it."""
    folder = path("it's mine")
    os.rename(make_set('renamed', count=24, size='48', classes=3), folder)
    args = [folder, '--size', '32', '--batch', '4', '--sweep-steps=100', '--low', '1e-5', '--high=1', '--augment',
            'hflip(p=0.5)', '--threads', '1', '--lr', '9', '--out', path('d.svg')]
    answer = stoke_json('find-lr', *args)
    check_curve(answer, 1e-5)
    assert os.path.getsize(answer['svg']) > 1000
    rate = float(f'{answer["suggested"]:.2g}')
    words = shlex.split(answer['next'])
    equal(words[:3] + words[4:], ['stoke', 'train', '--lr', folder, '--size', '32', '--batch', '4', '--augment', 'hflip(p=0.5)',
                                  '--threads', '1'])
    equal(float(words[3]), rate)


def surer(answer):
    """The command that is offered is one for a shell, and runs: its dry sister, with the settings of the sweep alone changed."""
    words = shlex.split(answer['again'])
    equal(words[:2], ['stoke', 'find-lr'])
    equal(words[words.index('--sweep-steps') + 1], '400')
    assert DATA in words and words[words.index('--size') + 1] == '32', words
    return {flag: float(words[words.index(flag) + 1]) for flag in ('--low', '--high')}


def nothing_to_learn_gives_the_usual():
    """Rates so low that nothing happens."""
    args = [*TINY, '--low', '1e-12', '--high', '1e-10', '--out', path('e.svg')]
    done = stoke('find-lr', *args)
    contains(done.stdout, 'suggested: --lr 0.001, usual for such settings', 'why low: the loss fell by')
    contains(done.stderr, 'to be surer: stoke find-lr ', 'next: stoke train --lr 0.001')
    answer = stoke_json('find-lr', *args)
    equal((answer['suggested'], answer['confidence']), (0.001, 'low'))
    equal(surer(answer), {'--low': 1e-12, '--high': 1e-7})


def far_too_high_is_told():
    answer = stoke_json('find-lr', *TINY, '--optimizer', 'sgd', '--clip-norm', '0', '--low', '90', '--high', '1000', '--out',
                        path('f.svg'))
    assert answer['end'] in ('rose', 'not_finite'), answer['end']
    equal((answer['suggested'], answer['confidence']), (0.01, 'low'))
    assert answer['why'], 'no reason'
    assert surer(answer)['--low'] < 1, answer['again']


def misuse():
    contains(stoke('find-lr', *TINY, '--low', '1', '--high', '2', code=2).stderr, 'ten times')
    contains(stoke('find-lr', DATA, '--sweep-steps', '5', code=2).stderr, 'sweep-steps')
    contains(stoke('find-lr', code=2).stderr, 'no data given')
    contains(stoke('find-lr', DATA, '--out', '', code=2).stderr, 'empty')


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
    ('bad files are not recorded', bad_files_are_not_recorded),
    ('the whole curve as JSON, and what to type next', the_whole_curve_and_what_to_type),
    ('nothing to learn gives the usual rate', nothing_to_learn_gives_the_usual),
    ('far too high is told', far_too_high_is_told),
    ('misuse', misuse),
    ('an interrupt', interrupt),
]))
