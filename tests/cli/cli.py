# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command share: running it, a small synthetic set, a folder that goes away."""
import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
import tap  # noqa: F401 - for the tests

STOKE = os.environ['STOKE']


def commands():
    """Words of all commands that do something, as cli/commands.def lists them."""
    with open(os.path.join(ROOT, 'cli', 'commands.def'), encoding='utf-8') as stream:
        lines = re.findall(r'^CLI_(?:SUB)?COMMAND\(.*"(.*)"\)$', stream.read(), re.M)
    return [words for words in lines if words not in ('recipe', 'bench')]


COMMANDS = commands()
READERS = ['verify', 'show', 'hash', 'dump', 'pack', 'config', 'bench data']  # commands that take the data options

WORK = tempfile.mkdtemp(prefix='stoke-test-')
atexit.register(shutil.rmtree, WORK, ignore_errors=True)


def path(*parts):
    return os.path.join(WORK, *parts)


def stoke(*args, code=0, cwd=None, **more):
    """Runs stoke and checks its exit status; None accepts any."""
    done = subprocess.run([STOKE, *map(str, args)], capture_output=True, text=True, cwd=cwd or WORK, timeout=240, **more)
    assert code is None or done.returncode == code, (
        f'stoke {" ".join(map(str, args))}: exit {done.returncode}, not {code}\n{done.stdout}{done.stderr}')
    return done


def stoke_json(*args, code=0, **more):
    done = stoke(*args, '--json', code=code, **more)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise AssertionError(f'stoke {" ".join(map(str, args))}: not JSON: {error}\n{done.stdout[:2000]}') from error


def hashed(*args):
    """The answer of `stoke hash` without its plan, in which the process's own bytes of the moment are."""
    answer = stoke_json('hash', *args)
    answer.pop('plan', None)
    return answer


def make_set(name, count=10, size='40x56', classes=5, seed=3):
    folder = path(name)
    stoke('synth', folder, '--count', count, '--size', size, '--classes', classes, '--seed', seed, '--quiet')
    return folder


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(where, name), folder)
                  for where, _, names in os.walk(folder) for name in names)


def equal(got, wanted, what='value'):
    assert got == wanted, f'{what}: got {got!r}, wanted {wanted!r}'


def contains(text, *parts):
    for part in parts:
        assert part in text, f'{part!r} is not in:\n{text}'
