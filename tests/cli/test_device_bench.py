# SPDX-License-Identifier: Apache-2.0
"""stoke bench transfer, bench device and hash --device: they run, their fields exist and agree with each other. Times are not judged,
but for those that are a model's."""
import json
import os
import sys

from cli import contains, equal, hashed, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=24, size=64)
SMALL = ['--batch', 4, '--size', 64]
STEPS = ['--step-ms', 5, '--steps', 6]


def digests(*args):
    return stoke('hash', SET, *SMALL, '--quiet', *args).stdout


def hash_by_way_of_a_device():
    """The lines are the same, whoever augments and however batches cross."""
    for augment in ('standard', 'strong,mixup(p=0.5)'):
        wanted = digests('--augment', augment)
        equal(len(wanted.splitlines()), 7, 'lines')
        for device in ('host', 'sim:rtx3090'):
            for way in (['--placement', 'device'], ['--placement', 'host', '--transfer', 'pageable'],
                        ['--placement', 'device', '--transfer', 'pinned', '--resume-at', 2], ['--world', 2, '--ranks-all']):
                got = digests('--augment', augment, '--device', device, *way)
                equal(got, wanted, f'{device} {way}')


def hash_counts_bad_files():
    """What a feed's loader did ahead of what was taken is not counted."""
    folder = make_set('bad', count=10, size=64)
    with open(os.path.join(folder, 'images', sorted(os.listdir(os.path.join(folder, 'images')))[3]), 'w') as stream:
        stream.write('no picture')
    for policy in ('skip', 'replace'):
        # Batches of one row are passed over whole; three ranks take rows twice to keep in step.
        for more in ([], ['--batch', 1], ['--batch', 1, '--transfer', 'pinned'], ['--world', 3, '--ranks-all'],
                     ['--order', 'sequential', '--batch', 1, '--resume-at', 3]):
            args = [folder, *SMALL, '--policy', policy, '--max-bad', 5, '--quarantine', '', *more]
            plain = args[:-2] if '--transfer' in more else args
            wanted, got = hashed(*plain), hashed(*args, '--device', 'host')
            equal(got, wanted, f'{policy} {more}')
            if '--world' not in more:
                equal((wanted['skipped'], wanted['replaced']), (1, 0) if policy == 'skip' else (0, 1))


def hash_states_cross_over():
    stoke('hash', SET, *SMALL, '--device', 'host', '--batches', 2, '--state', path('state.json'), '--quiet')
    rest = digests('--from', path('state.json')).splitlines()[:-1]
    equal(rest, digests().splitlines()[2:-1], 'the rest by a loader')
    rest = digests('--from', path('state.json'), '--device', 'sim').splitlines()[:-1]
    equal(rest, digests().splitlines()[2:-1], 'the rest by a device')


def hash_asks_for_a_device():
    done = stoke('hash', SET, '--placement', 'host', code=2)
    contains(done.stderr, '--device')
    done = stoke('hash', SET, '--device', 'sim:rtx1', code=None)
    assert done.returncode in (1, 2), done
    contains(done.stderr, 'rtx1')


def is_sound(answer):
    for field in ('copy_ms', 'pageable_gb_s', 'pinned_gb_s', 'bytes_per_batch', 'period_ms', 'images_per_s', 'loader_cpu_ms_per_sample'):
        assert answer[field] > 0, f'{field} is {answer[field]}'
    for field in ('overlap_share', 'device_busy_share'):
        assert 0 <= answer[field] <= 1, f'{field} is {answer[field]}'
    assert answer['augment_ms_per_batch'] >= 0 and answer['placement'] in answer['placement_reason']


def steps_by_the_picture():
    answer = stoke_json('bench', 'device', SET, *SMALL, '--step-ms', 2, '--image-ms', 1.5, '--steps', 2, '--warm-up', 0)
    equal(answer['step_ms'], 2 + 1.5 * answer['batch'])


def bench_device():
    answer = stoke_json('bench', 'device', SET, *SMALL, *STEPS, '--placement', 'device')
    is_sound(answer)
    equal((answer['source'], answer['device'], answer['placement'], answer['steps'], answer['batch'], answer['height']),
          ('emulated', 'sim:rtx3090', 'device', 6, 4, 64))
    assert answer['period_ms'] >= 5 and answer['augment_ms_per_batch'] > 0
    host = stoke_json('bench', 'device', SET, *SMALL, *STEPS, '--placement', 'host', '--transfer', 'pageable', '--workers', 1, '--sync')
    is_sound(host)
    equal((host['augment_ms_per_batch'], host['overlap_share'], host['workers'], host['sync']), (0, 0, 1, True))
    # Three floats and a byte a pixel; or the picture as it was fitted, three bytes and one, which may be smaller than the output.
    equal(host['bytes_per_batch'], 4 * 64 * 64 * 13, 'bytes')
    assert answer['bytes_per_batch'] <= 4 * 64 * 64 * 8, answer['bytes_per_batch']
    is_sound(stoke_json('bench', 'device', SET, *SMALL, '--step-ms', 1, '--steps', 3, '--device', 'host'))


def bench_device_for_people():
    done = stoke('bench', 'device', SET, *SMALL, *STEPS, '--trace', path('t.json'), '--timeline', path('t.svg'))
    contains(done.stdout, 'device busy', 'emulated', 'measured', 'augmenting on the', 't.svg')
    assert done.stdout.startswith('simulated sim:rtx3090: '), done.stdout
    contains(done.stderr, 'memory: up to ', ' on sim:rtx3090')
    with open(path('t.json'), encoding='utf-8') as stream:
        trace = json.load(stream)
    names = {event.get('name') for event in trace['traceEvents']}
    assert {'copy', 'step', 'launch'} <= names, names
    with open(path('t.svg'), encoding='utf-8') as stream:
        contains(stream.read(), '<svg', 'copy engine', 'compute engine', 'emulated')


def bench_transfer():
    answer = stoke_json('bench', 'transfer', *SMALL, *STEPS, '--device', 'sim:rtx3090')
    equal([row['transfer'] for row in answer['transfers']], ['pageable', 'pinned', 'stream'])
    pageable, pinned, stream = answer['transfers']
    equal(answer['source'], 'emulated')
    # The same names as in `bench device`; a feed's own way is the stream.
    equal((answer['pageable_gb_s'], answer['pinned_gb_s'], answer['augment_ms_per_batch']), (pageable['gb_s'], pinned['gb_s'], 0))
    for field in ('copy_ms', 'overlap_share', 'device_busy_share'):
        equal(answer[field], stream[field], field)
    # By the model of the card, whatever this machine does.
    assert pageable['gb_s'] < pinned['gb_s'] and pageable['copy_ms'] > pinned['copy_ms'] > 0 < stream['copy_ms'], answer
    equal((pageable['overlap_share'], pinned['overlap_share']), (0, 0))
    text = stoke('bench', 'transfer', SET, '--device', 'host', *SMALL, '--short').stdout
    contains(text, 'pinned, own stream', 'measured', "host's memory")


def bench_device_leaves_nothing_behind():
    temporary = path('tmp')
    os.makedirs(temporary)
    stoke('bench', 'device', *SMALL, '--short', '--quiet', env={**os.environ, 'TMPDIR': temporary})
    stoke('bench', 'transfer', *SMALL, '--short', '--device', 'nothing', '--quiet', code=None, env={**os.environ, 'TMPDIR': temporary})
    equal(os.listdir(temporary), [], 'temporary folder')


sys.exit(tap.run([
    ('hash by way of a device', hash_by_way_of_a_device),
    ('hash counts bad files', hash_counts_bad_files),
    ('states cross over', hash_states_cross_over),
    ('hash asks for a device', hash_asks_for_a_device),
    ('bench device', bench_device),
    ('a step by the picture', steps_by_the_picture),
    ('bench device for people', bench_device_for_people),
    ('bench transfer', bench_transfer),
    ('nothing is left behind', bench_device_leaves_nothing_behind),
]))
