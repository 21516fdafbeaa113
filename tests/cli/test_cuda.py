# SPDX-License-Identifier: Apache-2.0
"""The command with an NVIDIA card that is not there: the driver of tests/fake, which keeps books of what is done to it."""
import os
import re
import sys

from cli import equal, make_set, stoke, stoke_json, tap

# Status 99 at exit: something was done that a driver forbids, or left behind.
ENV = dict(os.environ, STOKE_LIBCUDA=os.environ['STOKE_FAKE_LIBCUDA'], STOKE_LIBNVRTC=os.environ['STOKE_FAKE_LIBNVRTC'],
           STOKE_FAKE_CUDA_STRICT='1')


def the_list():
    answer = stoke_json('devices', env=ENV)
    cuda = [entry for entry in answer['devices'] if entry['name'].startswith('cuda')]
    equal([(entry['name'], entry['title'], entry['driver']) for entry in cuda],
          [('cuda:0', 'Fake card 0', 'CUDA 12.4, compute capability 8.6')])
    equal(answer['auto'], 'cuda:0')


def selftest():
    answer = stoke_json('selftest', '--device', 'cuda:0', env=ENV)
    equal([line['name'] for line in answer['lines'] if line['different'] or not line['passed']], [])
    equal((answer['verdict'], answer['exact_math']), ('passed', True))
    assert len(answer['lines']) > 20, len(answer['lines'])


def fed(data, *more, env=ENV, code=0):
    return stoke('hash', data, '--batch', 3, '--size', '33x17', '--augment', 'strong', *more, env=env, code=code)


def batches():
    """Through copies, kernels and events of the driver, which does everything as late as it may: the same bytes."""
    data = make_set('batches')
    wanted = fed(data).stdout
    for placement in 'host', 'device':
        for transfer in 'stream', 'pinned', 'pageable':
            got = fed(data, '--device', 'cuda:0', '--placement', placement, '--transfer', transfer).stdout
            equal(got, wanted, f'{placement}, {transfer}')


def failing(call, code, run):
    """A run in which a call of the driver fails: one line that names a call, status 1, nothing left behind."""
    done = run(dict(ENV, STOKE_FAKE_CUDA_FAIL=f'{call}:{code}'))
    text = done.stdout + done.stderr
    assert done.returncode == 1, f'call {call}: status {done.returncode}\n{text}'
    assert re.search(r'cu[A-Z]\w+ says CUDA_ERROR_ILLEGAL_ADDRESS \(an illegal memory access', text), f'call {call}: {text}'


def failures():
    data = make_set('failures')
    for call in 1, 9, 30, 200, 1000:
        failing(call, 700, lambda env: stoke('selftest', '--device', 'cuda:0', env=env, code=None))
    for call in 1, 9, 30, 100, 200, 300, 400:
        failing(call, 700, lambda env: fed(data, '--device', 'cuda:0', '--placement', 'device', env=env, code=None))


sys.exit(tap.run([
    ('the list', the_list),
    ('selftest', selftest),
    ('batches', batches),
    ('failures', failures),
]))
