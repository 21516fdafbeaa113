# SPDX-License-Identifier: Apache-2.0
"""bench/time_to_accuracy without training: its options, its arithmetic, and what it makes of kept results."""
import json
import math
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, 'tests'), os.path.join(ROOT, 'bench', 'peers')]
sys.dont_write_bytecode = True  # the source folder may be read-only
import tap
import accuracy
import accuracy_report
import live
import runner

RECIPE = {**accuracy.RECIPE, 'steps': 30, 'batches_per_epoch': 10, 'classes': 2}


def turns(seconds, *mious):
    """Evaluations after 10, 20, ... steps; `seconds` of steps and one of evaluation each."""
    return [{'step': 10 * (index + 1), 'train_seconds': seconds, 'seconds': seconds + 1, 'losses': [2.0, 1.0], 'lr': 1e-3,
             'iou': [miou, miou], 'others': 0.1} for index, miou in enumerate(mious)]


RESULTS = {
    'precision': 'fp32', 'recipe': RECIPE, 'date': '2020-01-01', 'stoke': 'stoke 0', 'versions': {'torch': '1.0'},
    'machine': {'cpu': 'a <fast> one', 'cores': 2, 'memory': '8 GiB', 'system': 'Linux'}, 'form': 'eager',
    'forms': {'eager': 900.0}, 'tcmalloc': True,
    'runs': [{'seed': 0, 'stokehold': turns(10, 0.1, 0.2, 0.32), 'torch': turns(40, 0.1, 0.2, 0.30)},
             {'seed': 1, 'stokehold': turns(10, 0.1, 0.2, 0.30), 'torch': turns(40, 0.1, 0.2, 0.31)},
             {'seed': 2, 'stokehold': turns(10, 0.1), 'torch': turns(40, 0.1)}]}


def program(*arguments):
    return subprocess.run([sys.executable, '-B', os.path.join(ROOT, 'bench', 'time_to_accuracy'), *arguments],
                          capture_output=True, text=True)


def times_are_where_the_curve_crosses():
    run = turns(10, 0.1, 0.3, 0.2, 0.5)
    for target, expected in [(0.05, 10), (0.1, 10), (0.2, 15), (0.3, 20), (0.35, 35), (0.5, 40), (0.51, None)]:
        found = accuracy_report.reach(run, 'train_seconds', target)
        assert found == expected or math.isclose(found, expected), (target, found, expected)


def seeds_that_ended_count():
    assert [run['seed'] for run in accuracy_report.complete(RESULTS)] == [0, 1]
    assert math.isclose(accuracy_report.difference(RESULTS), 0.005), accuracy_report.difference(RESULTS)
    # the lower of the final ones: seed 0 at 0.30, where we are after 20 + 10 * 0.10 / 0.12 s; seed 1 at 0.30, PyTorch's
    # 80 + 40 * 0.10 / 0.11 s
    value, ours, theirs = accuracy_report.ratio(RESULTS, 'train_seconds')
    assert math.isclose(ours, (20 + 10 / 1.2 + 30) / 2) and math.isclose(theirs, (120 + 80 + 40 / 1.1) / 2), (ours, theirs)
    assert math.isclose(value, theirs / ours), value
    assert accuracy_report.ratio(RESULTS, 'train_seconds', 0.9) is None


def iou_is_the_convention_of_the_metrics():
    iou = accuracy.iou_of([[3, 1, 0], [2, 4, 0], [0, 0, 0]])
    assert iou == [3 / 6, 4 / 7, None], iou
    assert math.isclose(accuracy.mean_iou(iou), (3 / 6 + 4 / 7) / 2)


def another_training_is_refused():
    ours, theirs = turns(1, 0.1)[0], turns(1, 0.1)[0]
    accuracy.same_start(ours, theirs)
    for wrong in ({'losses': [2.0, 1.1]}, {'losses': [math.nan, 1.0]}, {'lr': 1.1e-3}):
        try:
            accuracy.same_start({**ours, **wrong}, theirs)
        except runner.Failed:
            continue
        raise AssertionError(f'not noticed: {wrong}')


def kept_results_make_tables_page_and_chart():
    with tempfile.TemporaryDirectory() as folder:
        kept = os.path.join(folder, 'r.json')
        with open(kept, 'w', encoding='utf-8') as stream:
            json.dump(RESULTS, stream)
        run = program('--from', kept)
        assert run.returncode == 0, run.stderr
        assert '(mean of 2 seeds): no difference (rounding alone scatters a run by 0.8 points' in run.stdout, run.stdout
        assert '+0.50' not in run.stdout, run.stdout
    page = accuracy_report.page([RESULTS], ['results-fp32.svg'], '')
    assert '| seed 0 | 0.3200 | 0.3000 |' in page and '![curves](results-fp32.svg)' in page, page
    root = xml.etree.ElementTree.fromstring(accuracy_report.svg(RESULTS))
    lines = [element for element in root.iter() if element.tag.endswith('polyline')]
    assert len(lines) == 8, len(lines)  # two panels, two seeds, two sides


def chance_is_told_from_a_difference():
    """Two seeds resolve 1.6 points of mIoU: two standard errors of what rounding alone does."""
    apart = {**RESULTS, 'runs': [{**run, 'stokehold': [{**turn, 'iou': [v + 0.03 for v in turn['iou']]} for turn in run['stokehold']]}
                                 for run in RESULTS['runs']]}
    assert '+3.50 points' in accuracy_report.chance(apart), accuracy_report.chance(apart)
    assert 'no difference' in accuracy_report.chance(RESULTS)


def the_gradients_stay_on_the_page():
    page = accuracy_report.page([RESULTS], ['chart.svg'], '')
    rows = [accuracy_report.GRADIENT_HEAD, ['0', '1', '3.5e-06', '+2.6e-07', '0', '5.2e-07', '-3.6e-08', '0']]
    once = accuracy_report.with_gradients(page, accuracy_report.gradient_section(rows, 'then'))
    assert accuracy_report.gradients_of(once).count('5.2e-07') == 1
    assert accuracy_report.with_gradients(once, accuracy_report.gradient_section(rows, 'then')) == once
    assert accuracy_report.page([RESULTS], ['chart.svg'], accuracy_report.gradients_of(once)) == once


def nothing_complete_is_said():
    unfinished = {**RESULTS, 'runs': RESULTS['runs'][2:]}
    assert accuracy_report.text(unfinished) == '' and 'no seed' in accuracy_report.verdict(unfinished)[0]
    with tempfile.NamedTemporaryFile('w', suffix='.json') as kept:
        json.dump(unfinished, kept)
        kept.flush()
        run = program('--from', kept.name, '--write-doc')
    assert run.returncode == 1 and 'no page is written' in run.stderr, run


def a_peer_that_has_ended_says_why():
    with tempfile.TemporaryDirectory() as folder:
        python = os.path.join(folder, 'python')
        with open(python, 'w', encoding='ascii') as stream:
            stream.write('#!/bin/sh\necho ready\necho the weights are gone >&2\nexit 1\n')
        os.chmod(python, 0o755)
        peer = live.Peer(python, 'any', tcmalloc=False)
        peer.process.wait()
        try:
            peer.ask('train')
        except runner.Failed as why:
            assert 'the weights are gone' in str(why), why
        else:
            raise AssertionError('nothing was said')


def misuse_is_refused():
    assert program('--help').returncode == 0
    with tempfile.TemporaryDirectory() as empty:
        for wrong in (['--seeds', 'x'], ['--steps', '0'], ['--nonsense'], ['--data', empty], ['--short', '--write-doc']):
            run = program(*wrong)
            assert run.returncode == 2 and run.stderr, (wrong, run)


sys.exit(tap.run([
    ('times are where the curve crosses', times_are_where_the_curve_crosses),
    ('seeds that both sides ended count', seeds_that_ended_count),
    ('IoU follows the convention of the metrics', iou_is_the_convention_of_the_metrics),
    ('another training is refused', another_training_is_refused),
    ('kept results make tables, a page and a chart', kept_results_make_tables_page_and_chart),
    ('chance is told from a difference', chance_is_told_from_a_difference),
    ('the gradients stay on the page', the_gradients_stay_on_the_page),
    ('nothing complete is said', nothing_complete_is_said),
    ('a peer that has ended says why', a_peer_that_has_ended_says_why),
    ('misuse is refused', misuse_is_refused),
]))
