# SPDX-License-Identifier: Apache-2.0
"""stoke devices and stoke selftest: what there is, why something is not, and the proof."""
import os
import re
import sys

from cli import contains, equal, stoke, stoke_json, tap

ALL = stoke_json('devices')


def kind(entry):
    return entry['name'].split(':')[0]


def the_list():
    order = ['host', 'cuda', 'opencl', 'sim']
    kinds = [kind(entry) for entry in ALL['devices']]
    equal(kinds, sorted(kinds, key=order.index), 'order')
    equal(set(kinds), set(order))
    names = [entry['name'] for entry in ALL['devices']]
    equal(len(set(names)), len(names), 'names that differ')
    contains(names, ALL['auto'])
    for entry in ALL['devices']:
        equal(entry['usable'], entry['problem'] is None, entry['name'])
        if entry['usable']:
            assert entry['title'] and entry['driver'], entry
            equal(entry['source'], 'emulated' if kind(entry) == 'sim' else 'measured', entry['name'])
            assert entry['memory_bytes'] is None or entry['memory_bytes'] > 2**20, entry
        else:
            assert re.search(r'install|update|mount|set |check|start|use ', entry['problem']), f'no remedy: {entry}'
    host = ALL['devices'][0]
    equal((host['name'], host['exact_math'], host['shares_memory'], host['shares_cores']), ('host', True, True, True))


def the_table():
    done = stoke('devices')
    equal(done.stderr, '')
    contains(done.stdout, 'device', 'emulated', f'--device auto takes {ALL["auto"]}')
    for entry in ALL['devices']:
        assert re.search(r'^%s +\S' % re.escape(entry['name']), done.stdout, re.MULTILINE), entry['name']
        contains(done.stdout, entry['title'] if entry['usable'] else entry['problem'])


def without_drivers():
    """Nothing to open: two kinds with a reason, and the rest works."""
    env = dict(os.environ, STOKE_LIBCUDA='/nowhere/libcuda.so.1', OCL_ICD_VENDORS='/nowhere', POCL_DEVICES='')
    answer = stoke_json('devices', env=env)
    cuda = [entry for entry in answer['devices'] if kind(entry) == 'cuda']
    equal([entry['name'] for entry in cuda], ['cuda'])
    contains(cuda[0]['problem'], '/nowhere/libcuda.so.1', 'install')
    equal(answer['auto'], 'host')
    done = stoke('selftest', '--device', 'cuda:0', code=1, env=env)
    contains(done.stderr, '/nowhere/libcuda.so.1', 'install', 'usable here: host')
    equal(done.stdout, '')


def selftest_of(name, source):
    def test():
        here = [entry for entry in ALL['devices'] if kind(entry) == name]
        if not any(entry['usable'] for entry in here):
            raise tap.Skip(here[0]['problem'])
        answer = stoke_json('selftest', '--device', name, code=None)
        failed = [line for line in answer['lines'] if not line['passed']]
        equal(failed, [])
        equal((answer['verdict'], answer['error'], answer['failed'], answer['source']), ('passed', None, 0, source))
        equal(answer['passed'], len(answer['lines']))
        names = [line['name'] for line in answer['lines']]
        equal(len(set(names)), len(names), 'names that differ')
        every = ' '.join(names)
        contains(every, 'copy pinned up', 'copy pageable down', 'copy on the device', 'two streams', 'memory_limit',
                 'lay_image', 'lay_mask', 'elastic', 'u16', 'no masks', 'swapped', 'brightness', 'contrast', 'saturation', 'hue',
                 'gamma', 'blur', 'noise', 'clahe', 'erasing', 'barriers', 'mixup', 'cutmix', 'f16', 'bf16', 'u8', 'chw', 'hwc',
                 'clear', 'spin')
        assert all(line['compared'] > 0 for line in answer['lines']), answer['lines']
        if answer['exact_math']:
            equal([line['name'] for line in answer['lines'] if line['different'] or line['tolerance']], [])
    return test


def selftest_for_people():
    done = stoke('selftest', '--device', 'host')
    equal(done.stderr, '')
    lines = done.stdout.splitlines()
    assert lines[0].startswith('host: '), lines[0]
    assert re.fullmatch(r'host passed: all \d+\.', lines[-1]), lines[-1]
    assert all(line.endswith(' compared, 0 differ, largest difference 0: ok') for line in lines[3:-2]), done.stdout
    contains(stoke('selftest', '--device', 'sim').stdout, 'emulated: the host computes', '(emulated) passed')


def unknown_names():
    done = stoke('selftest', '--device', 'hots', code=1)
    contains(done.stderr, "no device is called 'hots': did you mean host?", 'usable here: host')
    equal(stoke_json('selftest', '--device', 'sim:abacus', code=1)['error']['code'], 'not-found')
    equal(stoke('devices', 'host', code=2).stdout, '')


sys.exit(tap.run([
    ('the list', the_list),
    ('the table', the_table),
    ('without drivers', without_drivers),
    ('selftest of host', selftest_of('host', 'real')),
    ('selftest of sim', selftest_of('sim', 'emulated')),
    ('selftest of opencl', selftest_of('opencl', 'real')),
    ('selftest for people', selftest_for_people),
    ('unknown names', unknown_names),
]))
