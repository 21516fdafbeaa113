# SPDX-License-Identifier: Apache-2.0
"""Promise (a): the same bytes for any number of workers, any prefetch, any world, any point of resumption."""
import json
import os
import shutil
import sys

from cli import contains, equal, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=22)
BASE = [SET, '--batch', 3, '--size', '32x48', '--augment', 'light', '--seed', 11, '--quiet']


def digests(answer):
    return {b['index']: b['digest'] for b in answer['batches'] if not b.get('padding')}


REFERENCE = stoke_json('hash', *BASE, '--workers', 0)


def fields():
    equal([b['index'] for b in REFERENCE['batches']], list(range(8)), 'indices')
    equal([b['count'] for b in REFERENCE['batches']], [3] * 7 + [1], 'rows')
    assert all(len(b['digest']) == 32 for b in REFERENCE['batches']) and len(REFERENCE['all']) == 32
    equal(len(set(digests(REFERENCE).values())), 8, 'different digests')


def table_for_people():
    lines = stoke('hash', *BASE).stdout.split()
    equal(lines[-2:], ['all', REFERENCE['all']])
    equal(lines[1], REFERENCE['batches'][0]['digest'])


def workers_and_prefetch(workers, prefetch):
    def test():
        answer = stoke_json('hash', *BASE, '--workers', workers, '--prefetch', prefetch)
        equal(answer['all'], REFERENCE['all'], 'all')
        equal(digests(answer), digests(REFERENCE), 'digests')
    return test


def world(n, workers):
    def test():
        union = {}
        steps = set()
        for rank in range(n):
            answer = stoke_json('hash', *BASE, '--world', n, '--rank', rank, '--workers', workers)
            steps.add(len(answer['batches']))
            assert not union.keys() & digests(answer).keys(), 'two ranks had the same batch'
            union.update(digests(answer))
        equal(union, digests(REFERENCE), 'union of the ranks')
        equal(len(steps), 1, 'every rank takes as many steps')
        answer = stoke_json('hash', *BASE, '--world', n, '--ranks-all', '--workers', workers)
        equal(answer['all'], REFERENCE['all'], 'all with --ranks-all')
        equal(digests(answer), digests(REFERENCE), 'digests with --ranks-all')
    return test


def drop_last():
    whole = stoke_json('hash', *BASE, '--drop-last')
    equal(digests(whole), {k: v for k, v in digests(REFERENCE).items() if k < 7})
    ranks = stoke_json('hash', *BASE, '--drop-last', '--world', 3, '--ranks-all')
    equal(digests(ranks), {k: v for k, v in digests(REFERENCE).items() if k < 6})


def resume(*options):
    def test():
        answer = stoke_json('hash', *BASE, '--workers', 2, *options)
        equal(answer['all'], REFERENCE['all'], 'all')
        equal(digests(answer), digests(REFERENCE), 'digests')
    return test


def state_in_a_file():
    state = path('state.json')
    first = stoke_json('hash', *BASE, '--batches', 5, '--state', state)
    json.load(open(state))
    rest = stoke_json('hash', *BASE, '--from', state, '--workers', 1)
    equal({**digests(first), **digests(rest)}, digests(REFERENCE))
    equal([b['index'] for b in rest['batches']], [5, 6, 7])
    stoke('hash', *BASE, '--epoch', 3, '--batches', 1, '--state', state, '--force')
    equal(stoke_json('hash', *BASE, '--from', state)['epoch'], 3, 'epoch of the state')


def state_of_another_set():
    state = path('other.json')
    stoke('hash', make_set('other', count=9, seed=8), '--quiet', '--batches', 1, '--state', state)
    stoke('hash', *BASE, '--from', state, code=1)
    with open(state, 'w') as out:
        out.write('{"version": 1, "epoch"')
    stoke('hash', *BASE, '--from', state, code=1)
    stoke('hash', *BASE, '--from', path('missing.json'), code=1)
    contains(stoke('hash', *BASE, '--resume-world', 2, code=2).stderr, '--ranks-all')


def other_seed_and_epoch_differ():
    for option in (['--seed', 12], ['--epoch', 1]):
        answer = stoke_json('hash', *BASE, *option)
        assert answer['all'] != REFERENCE['all'], f'{option} changes nothing'
        assert not set(digests(answer).values()) & set(digests(REFERENCE).values())


def bad_sample(policy):
    """A damaged file changes the batches it is in, the same way for any number of workers."""
    def test():
        folder = path('bad-' + policy)
        shutil.copytree(SET, folder)
        damaged = os.path.join(folder, 'images', '000004.jpg')
        os.truncate(damaged, os.path.getsize(damaged) // 3)
        base = [folder, *BASE[1:], '--policy', policy, '--max-bad', 3, '--quarantine', path(policy + '.jsonl')]
        one = stoke_json('hash', *base, '--workers', 0)
        two = stoke_json('hash', *base, '--workers', 2, '--prefetch', 4)
        equal(digests(one), digests(two), 'digests')
        equal(len(one['batches']), len(REFERENCE['batches']), 'batches')
        changed = [k for k, v in digests(one).items() if v != digests(REFERENCE)[k]]
        equal(len(changed), 1, f'changed batches {changed}')
        equal((one['replaced'], one['skipped']), (1, 0) if policy == 'replace' else (0, 1))
        record = open(path(policy + '.jsonl')).read().splitlines()
        contains(record[-1], '000004.jpg')
        json.loads(record[-1])
    return test


def batch_skipped_whole():
    """Policy skip leaves nothing of a batch of one: hash and dump go on without it."""
    folder, out = path('bad-whole'), path('dumped')
    shutil.copytree(SET, folder)
    os.truncate(os.path.join(folder, 'images', '000004.jpg'), 0)
    settings = [folder, '--size', 32, '--batch', 1, '--policy', 'skip', '--quarantine', '']
    batches = stoke_json('hash', *settings)['batches']
    equal(len(batches), 21)
    stoke('dump', *settings, '--batches', 0, '--out', out)
    index = json.load(open(os.path.join(out, 'index.json')))
    equal([b['digest'] for b in index['batches']], [b['digest'] for b in batches])


def policy_stop():
    folder = path('bad-stop')
    shutil.copytree(SET, folder)
    os.truncate(os.path.join(folder, 'images', '000004.jpg'), 0)
    done = stoke('hash', folder, *BASE[1:], '--policy', 'stop', '--quarantine', '', code=1)
    contains(done.stderr, '000004.jpg', 'empty')
    equal(done.stdout, '')


def memory_plan_is_printed():
    done = stoke('hash', *BASE[:-1])
    contains(done.stderr, 'memory: up to ', ' MiB (--json has the terms)\n')
    equal(done.stderr.count('memory: '), 1)
    equal(stoke('hash', *BASE).stderr, '', '--quiet')
    done = stoke('hash', *BASE, '--memory-limit', '10K', code=1)
    assert 'limit' in done.stderr.lower(), done.stderr


def resume_outside_the_epoch():
    """It never resumed, so it proves nothing."""
    for options in (['--resume-at', 8], ['--resume-at', 900], ['--resume-at', 5, '--batches', 5],
                    ['--resume-at', 4, '--world', 2, '--ranks-all']):
        done = stoke('hash', *BASE, *options, code=2)
        contains(done.stderr, '--resume-at')
        equal(done.stdout, '')
    contains(stoke('hash', *BASE, '--resume-workers', 2, code=2).stderr, '--resume-at')
    stoke('hash', *BASE, '--resume-at', 4, '--batches', 5)


def no_batches():
    done = stoke('hash', SET, '--batch', 23, '--drop-last')
    contains(done.stderr, 'no batches')
    assert 'no batches' not in stoke('hash', SET, '--batch', 22, '--drop-last').stderr


def size_is_said():
    base = [SET, '--batch', 4]
    for args in (['hash', *base], ['dump', *base, '--out', path('size-dump')],
                 ['show', *base, '--out', path('size.png')], ['bench', 'data', *base, '--short', '--seconds', 0.2]):
        said = [line for line in stoke(*args).stderr.splitlines() if line.startswith('size: ')]
        equal(said, ['size: 40x56, from the first sample; --size N sets it'], args[0])
    assert 'size: ' not in stoke('hash', *base, '--size', 24).stderr


sys.exit(tap.run([
    ('fields of --json', fields),
    ('table for people', table_for_people),
] + [(f'workers {w}, prefetch {p}', workers_and_prefetch(w, p)) for w in (0, 1, 2, 7) for p in (1, 4)]
  + [(f'world {n}, workers {w}', world(n, w)) for n, w in ((2, 0), (2, 2), (3, 1))] + [
    ('drop_last', drop_last),
    ('resume at 1', resume('--resume-at', 1)),
    ('resume in the middle, other workers', resume('--resume-at', 4, '--resume-workers', 0, '--resume-prefetch', 1)),
    ('resume at the last', resume('--resume-at', 7, '--resume-workers', 7)),
    ('resume with two ranks', resume('--resume-at', 2, '--world', 2, '--ranks-all')),
    ('resume with three ranks instead of two', resume('--resume-at', 2, '--world', 2, '--ranks-all', '--resume-world', 3)),
    ('resume with one rank instead of two', resume('--resume-at', 1, '--world', 2, '--ranks-all', '--resume-world', 1)),
    ('state in a file', state_in_a_file),
    ('state of another set', state_of_another_set),
    ('seed and epoch matter', other_seed_and_epoch_differ),
    ('bad sample, policy replace', bad_sample('replace')),
    ('bad sample, policy skip', bad_sample('skip')),
    ('bad sample alone in its batch, policy skip', batch_skipped_whole),
    ('bad sample, policy stop', policy_stop),
    ('resume outside the epoch', resume_outside_the_epoch),
    ('no batches', no_batches),
    ('size of the first sample', size_is_said),
    ('memory plan', memory_plan_is_printed),
]))
