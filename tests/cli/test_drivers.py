# SPDX-License-Identifier: Apache-2.0
"""Drivers that crash: every command that asks for devices says so and goes on without them."""
import os
import signal
import subprocess
import sys

from cli import STOKE, WORK, contains, equal, make_set, path, stoke, stoke_json, tap

CRASH = os.environ['STOKE_FAKE_CRASH']
SET = make_set('set')

os.makedirs(path('lib'))
os.symlink(CRASH, path('lib', 'libOpenCL.so.1'))
BROKEN = {'LD_LIBRARY_PATH': path('lib') + ':' + os.environ.get('LD_LIBRARY_PATH', ''), 'STOKE_LIBCUDA': CRASH, 'STOKE_LIBNVML': CRASH}


def without(**more):
    return {**{k: v for k, v in os.environ.items() if k != 'STOKE_DRIVER_PROBE'}, **BROKEN, **more}


def devices():
    answer = {line['name']: line for line in stoke_json('devices', env=without())['devices']}
    for name in ('opencl', 'cuda'):
        contains(answer[name]['problem'], 'crashed (SIGABRT)', 'not used')
    equal([answer[name].get('problem') or None for name in ('host', 'sim')], [None, None])


def the_signal_is_named():
    contains(stoke('devices', env=without(STOKE_FAKE_SIGNAL=str(int(signal.SIGSEGV)))).stdout, 'crashed (SIGSEGV)')


def doctor():
    contains(stoke('doctor', env=without()).stdout, 'crashed (SIGABRT)')


def survives(*args, code=0):
    def test():
        stoke(*args, code=code, env=without())
    return test


def asked_for_by_name():
    for command in (('selftest',), ('bench', 'device', SET)):
        for name in ('opencl', 'cuda'):
            contains(stoke(*command, '--device', name, code=1, env=without()).stderr, 'crashed (SIGABRT)', 'usable here: host')


def not_tried():
    """The same without the trial dies of it: the libraries do what they are made for."""
    done = subprocess.run([STOKE, 'devices'], capture_output=True, cwd=WORK, env=without(STOKE_DRIVER_PROBE=''))
    equal(done.returncode, -signal.SIGABRT)


def trial_that_tells_nothing():
    """A command that is not there, or another program: the driver gets the benefit of the doubt."""
    card = {**os.environ, 'STOKE_LIBCUDA': os.environ['STOKE_FAKE_LIBCUDA'], 'OCL_ICD_VENDORS': path('none')}
    for program in ('/nonexistent/stoke', '/bin/false'):
        contains(stoke('devices', env={**card, 'STOKE_DRIVER_PROBE': program}).stdout, '\ncuda:0 ')


def no_core_file():
    equal([name for name in os.listdir(WORK) if name.startswith('core')], [])


sys.exit(tap.run([
    ('devices: both are listed with the reason', devices),
    ('the signal is named', the_signal_is_named),
    ('doctor', doctor),
    ('diagnose', survives('diagnose', SET, '--batch', '2', '--size', '32', '--workers', '1', '--steps', '8', '--device', 'sim:rtx3090')),
    ('check', survives('check', '--data', SET, code=None)),
    ('bench device', survives('bench', 'device', SET, '--device', 'sim:rtx3090', '--batch', '2', '--size', '32', '--steps', '8',
                              '--step-ms', '1')),
    ('selftest of the host', survives('selftest', '--device', 'host')),
    ('monitor', survives('monitor', '1')),
    ('recommend', survives('recommend')),
    ('asked for by name it is refused with what there is', asked_for_by_name),
    ('not tried, it crashes', not_tried),
    ('a trial that tells nothing hides no device', trial_that_tells_nothing),
    ('no core files', no_core_file),
]))
