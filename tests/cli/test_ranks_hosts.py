# SPDX-License-Identifier: Apache-2.0
"""Processes on two hosts that train together: the bits of one process, and what becomes of all when the cable between them is cut, when
it is slow, and when a host freezes."""
import os
import re
import signal
import subprocess
import sys
import time

from cli import ROOT, STOKE, WORK, equal, path, stoke, tap
from hosts import Hosts
from launching import ENV, LANES, SMALL, Started, launch, needed, said, small_set, weights

needed()
SET = small_set()
LINE = [SET, *SMALL, *LANES, '--threads', 1, '--save-every', 3, '--eval-every', 12, '--steps', 24]
MADE = []


def hosts():
    """Those of all tests here, with a cable that is whole."""
    if not MADE:
        MADE.append(Hosts())
        stoke('train', *LINE, '--name', 'alone', '--quiet')
    return MADE[0]


def as_alone(run):
    for which in ('last', 'best'):
        equal(weights(run, which) == weights('alone', which), True, f'{which} of {run} is that of one process')


def same_bits():
    """Four processes, two on each; three, of which one is by itself."""
    two = hosts()
    for world in (4, 3):
        launch(world, *LINE, '--name', f'by-{world}', launcher=two.launcher())
        as_alone(f'by-{world}')


def example():
    """examples/mpirun.sh with HOSTS."""
    two = hosts()
    script = os.path.join(ROOT, 'examples', 'mpirun.sh')
    line = [SET, *SMALL, '--threads', '1', '--steps', '4']
    stoke('train', *line, '--replicas', 8, '--name', 'alone-8', '--quiet')
    done = subprocess.run(two.on_first(script, '4', 'runs/scripted', *line), cwd=WORK, env={**ENV, 'STOKE': STOKE}, capture_output=True, text=True,
                          timeout=120)
    equal(done.returncode, 0, done.stdout + done.stderr)
    equal(weights('scripted') == weights('alone-8'), True, 'the bits of one process')


def lost(name, act, undo, theirs):
    """What befalls a run on the two hosts: whoever can still run ends within time and says why; `theirs` is how ranks 2 and 3 end. Another
    number of processes, on one host, goes on. mpirun itself waits for a host that does not answer, until somebody ends it."""
    def test():
        two = hosts()
        run = Started(4, *LINE, '--name', name, '--comm-timeout', 10, launcher=two.launcher(),
                      shell=f'"$@"; echo $? > {name}.$OMPI_COMM_WORLD_RANK').at_step(name, 5)
        began = time.monotonic()
        act(two)
        while time.monotonic() < began + 60:
            if set(run.ranks()) <= ({2, 3} if theirs is None else set()):
                break
            time.sleep(0.1)
        else:
            raise AssertionError(f'after 60 s there are still ranks {run.ranks()}:\n{run.text()}')
        text = run.text()
        undo(two)
        run.process.send_signal(signal.SIGINT)
        run.end(10)
        who = rf'rank [23] \({two.spaces[1]}, pid \d+\)'
        assert re.search(rf'waiting for {who}.* since \d+(\.\d)? s', text), text
        assert re.search(rf'^stoke train: gave up waiting for .*{who}.* after \d+(\.\d)? s$', text, re.M), text
        for rank in (2, 3):
            file = path(f'{name}.{rank}')
            equal(open(file).read().strip() if os.path.exists(file) else None, theirs, f'status of rank {rank}')
        launch(3, '--resume', f'runs/{name}')
        as_alone(name)
    return test


def slow_for_a_while():
    """1 kbit/s: nothing to speak of arrives; then all goes on."""
    two = hosts()
    run = Started(4, *LINE, '--name', 'slow', '--comm-timeout', 60, launcher=two.launcher()).at_step('slow', 2)
    two.rate('1kbit')
    time.sleep(6)
    two.rate(None)
    text = run.end(60, 0)
    equal(said(text), [], text)
    as_alone('slow')


def cut(two):
    two.cable('down')


def mend(two):
    two.cable('up')


def freeze(two):
    two.signal(2, signal.SIGSTOP)


def melt(two):
    two.signal(2, signal.SIGKILL)


sys.exit(tap.run([
    ('the same bits on two hosts', same_bits),
    ('examples/mpirun.sh on two hosts', example),
    ('a cable is cut', lost('cut', cut, mend, '75')),
    ('a cable is slow for a while', slow_for_a_while),
    ('a host freezes', lost('frozen', freeze, melt, None)),
]))
