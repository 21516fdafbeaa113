# SPDX-License-Identifier: Apache-2.0
"""make install: PREFIX, LIBDIR and DESTDIR reach Meson, also after a build that was set up for other folders.

A real build would take minutes; programs called meson, ninja and ldconfig write down how they were called. test_installed.py looks at what
a real one leaves behind."""
import os
import stat
import subprocess
import sys

from cli import ROOT, contains, equal, path, tap

PREFIX = path('some where')


def program(file, text):
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, 'w') as out:
        out.write('#!/bin/sh\n' + text)
        os.fchmod(out.fileno(), stat.S_IRWXU)


for name in ('meson', 'ninja', 'ldconfig'):
    program(path('bin', name), 'echo "$(basename "$0") $* DESTDIR=$DESTDIR" >> "$CALLS"\n')
program(os.path.join(PREFIX, 'bin', 'stoke'), 'echo stoke 1.2.3\n')


def install(*settings):
    """The calls of these programs, the exit status, stdout and stderr. -o build: as if the build were up to date."""
    calls = path('calls')
    open(calls, 'w').close()
    without = {k: v for k, v in os.environ.items() if k not in ('PREFIX', 'LIBDIR', 'DESTDIR', 'BUILD', 'MAKEFLAGS', 'MAKELEVEL')}
    done = subprocess.run(['make', '-C', ROOT, '-o', 'build', 'install', *settings], capture_output=True, text=True,
                          env={**without, 'PATH': path('bin') + ':' + os.environ['PATH'], 'CALLS': calls})
    with open(calls) as stream:
        return stream.read().splitlines(), done.returncode, done.stdout, done.stderr


def prefix():
    calls, code, out, err = install('PREFIX=' + PREFIX, 'BUILD=here')
    equal(code, 0, err)
    refresh = ['ldconfig  DESTDIR='] if os.geteuid() == 0 else []
    equal(calls, [f'meson configure here --prefix={PREFIX} --libdir=lib DESTDIR=', 'ninja -C here DESTDIR=',
                  'meson install -C here --no-rebuild --quiet DESTDIR=', *refresh, 'ldconfig -p DESTDIR='])
    # Where nobody looks: what to set, to the letter.
    contains(out, f'installed: {PREFIX}/bin/stoke, stoke 1.2.3', f"export PATH='{PREFIX}/bin':$PATH",
             f"export LD_LIBRARY_PATH='{PREFIX}/lib'", f"export PKG_CONFIG_PATH='{PREFIX}/lib/pkgconfig'")


def does_not_start():
    program(path('broken', 'bin', 'stoke'), 'exit 127\n')
    _, code, out, err = install('PREFIX=' + path('broken'))
    assert code != 0, out
    contains(err, 'does not start')


def destdir():
    calls, _, out, _ = install('DESTDIR=/tmp/package')
    contains(calls[0], '--prefix=/usr/local --libdir=lib ')
    contains(calls[-1], 'meson install', 'DESTDIR=/tmp/package')  # and nothing after it: no ldconfig
    calls, _, _, _ = install('PREFIX=/usr', 'LIBDIR=lib64', 'DESTDIR=package')
    contains(calls[0], '--prefix=/usr --libdir=lib64 ')
    contains(calls[-1], f'DESTDIR={ROOT}/package')


def relative_prefix():
    calls, code, _, err = install('PREFIX=local')
    equal(calls, [])
    assert code != 0
    contains(err, 'absolute')


sys.exit(tap.run([
    ('PREFIX, and what is to be set', prefix),
    ('a command that does not start is a failure', does_not_start),
    ('DESTDIR, and without PREFIX', destdir),
    ('a relative PREFIX is refused', relative_prefix),
]))
