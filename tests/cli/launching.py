# SPDX-License-Identifier: Apache-2.0
"""What tests of processes that train together share: starting them with mpirun, finding them, waiting for how they end. Whatever is left
of a launch when the program of tests ends, however it ends, is killed."""
import atexit
import glob
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from cli import STOKE, WORK, make_set, path

MPIRUN = shutil.which('mpirun')
PLUGIN = glob.glob(os.path.join(os.path.dirname(os.path.dirname(STOKE)), '**', 'libstoke-mpi.so'), recursive=True)
MARK = 'STOKE_TEST_LAUNCH'  # in the environment of all that is started here, on every host
ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', **{MARK: str(os.getpid())})
SMALL = ['--size', '64', '--batch', '2', '--workers', '1', '--seed', '5']
LANES = ['--replicas', '4', '--accumulate', '2']
SLOW = 30  # seconds on top of what a limit promises: other tests have the processors as well
NUMBERS = itertools.count()


def needed():
    """Ends the program of tests where nothing can be launched."""
    if not MPIRUN or not PLUGIN:
        print('1..0 # SKIP ' + ('this build has no libstoke-mpi.so' if MPIRUN else 'no mpirun'))
        sys.exit(0)


def small_set():
    return make_set('set', count=40, size='64x64', classes=4)


def command(world, args, shell=None, launcher=(MPIRUN, '--oversubscribe', '--bind-to', 'none')):
    """The words of a launch; `shell` is a line that every rank runs, "$@" in it is the command."""
    words = [STOKE, 'train', *map(str, args)]
    if shell:
        words = ['sh', '-c', shell, 'sh', *words]
    return [*launcher, '-np', str(world), *words]


def launch(world, *args, code=0, **how):
    """Trains in `world` processes and checks the exit status; None accepts any."""
    words = command(world, args, **how)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=WORK, env=ENV)
    try:
        out, err = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        kill_marked(os.getpid())  # what mpirun started holds the pipes
        raise AssertionError('{}: still there after 240 s\n{}{}'.format(' '.join(words), *process.communicate())) from None
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    assert code is None or done.returncode == code, f'{world} x {args}: exit {done.returncode}, not {code}\n{done.stdout}{done.stderr}'
    return done


def marked(value):
    """Processes of a launch and, of those that are ranks, their numbers."""
    found = {}
    mark = f'\0{MARK}={value}\0'.encode()
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/environ', 'rb') as stream:
                environ = b'\0' + stream.read()
            with open(f'/proc/{name}/stat') as stat:
                state = stat.read().rpartition(')')[2].split()[0]
        except OSError:
            continue
        if mark in environ and state not in 'ZX':
            rank = re.search(rb'\0OMPI_COMM_WORLD_RANK=(\d+)\0', environ)
            found[int(name)] = int(rank[1]) if rank else None
    return found


def kill_marked(value):
    for pid in marked(value):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Started:
    """A launch that is on its way."""

    def __init__(self, world, *args, **how):
        self.mark = f'{os.getpid()}.{next(NUMBERS)}'
        self.file = path(f'started.{self.mark}.txt')
        self.out = open(self.file, 'w')  # noqa: SIM115 - it is the launch's
        self.process = subprocess.Popen(command(world, args, **how), stdout=self.out, stderr=self.out, cwd=WORK, env={**ENV, MARK: self.mark})
        STARTED.append(self)

    def ranks(self):
        """Process ids by rank."""
        return {rank: pid for pid, rank in marked(self.mark).items() if rank is not None}

    def at_step(self, run, step):
        """Waits until the log of the run has that step."""
        log, until = path('runs', run, 'log.jsonl'), time.monotonic() + 60
        while time.monotonic() < until:
            assert self.process.poll() is None, self.text()
            if os.path.exists(log):
                with open(log) as stream:
                    if any(int(found) >= step for found in re.findall(r'"kind": "step", "step": (\d+)', stream.read())):
                        return self
            time.sleep(0.02)
        raise AssertionError(f'{run} did not come to step {step}:\n{self.text()}')

    def text(self):
        with open(self.file) as stream:
            return stream.read()

    def end(self, seconds, code=None):
        """What it printed; it ends by itself within so many seconds, and leaves no process."""
        try:
            got = self.process.wait(seconds + SLOW)
        except subprocess.TimeoutExpired:
            kill_marked(self.mark)
            raise AssertionError(f'still there after {seconds + SLOW} s:\n{self.text()}') from None
        until = time.monotonic() + SLOW
        while marked(self.mark):
            assert time.monotonic() < until, f'processes {marked(self.mark)} are left:\n{self.text()}'
            time.sleep(0.05)
        assert code is None or got == code, f'exit {got}, not {code}\n{self.text()}'
        return self.text()


STARTED = []


@atexit.register
def kill_what_is_left():
    kill_marked(os.getpid())
    for run in STARTED:
        kill_marked(run.mark)
        run.process.poll()


# What a runner of tests sends when time is up; without this nothing would be cleaned up.
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))


def wait_for(file, process):
    until = time.monotonic() + 60
    while not os.path.exists(file):
        assert process.poll() is None and time.monotonic() < until, f'{file} does not come'
        time.sleep(0.02)


def weights(run, which='last'):
    with open(path('runs', run, which, 'model.safetensors'), 'rb') as stream:
        return stream.read()


def said(text):
    """The lines of our own errors."""
    return [line for line in text.splitlines() if line.startswith('stoke')]
