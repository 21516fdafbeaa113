# SPDX-License-Identifier: Apache-2.0
"""The command with an NVIDIA card that is not there: the driver of tests/fake, which keeps books of what is done to it."""
import os
import re
import sys

from cli import contains, equal, stoke, stoke_json, tap

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


def failures():
    """The same with a call that fails, early and late: one line that names it, status 1, nothing left behind."""
    for call in 1, 2, 9, 30, 100, 400, 1000:
        env = dict(ENV, STOKE_FAKE_CUDA_FAIL=f'{call}:700')
        done = stoke('selftest', '--device', 'cuda:0', code=None, env=env)
        if done.returncode != 1:
            raise AssertionError(f'call {call}: status {done.returncode}\n{done.stdout}{done.stderr}')
        text = done.stdout + done.stderr
        assert re.search(r'cu[A-Z]\w+ says CUDA_ERROR_ILLEGAL_ADDRESS \(an illegal memory access', text), f'call {call}: {text}'


sys.exit(tap.run([
    ('the list', the_list),
    ('selftest', selftest),
    ('failures', failures),
]))
