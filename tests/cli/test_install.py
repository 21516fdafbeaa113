# SPDX-License-Identifier: Apache-2.0
"""make install: PREFIX and DESTDIR reach Meson, also after a build that was set up for another prefix.

A real build would take minutes; programs called meson and ninja write down how they were called."""
import os
import stat
import subprocess
import sys

from cli import ROOT, contains, equal, path, tap

os.makedirs(path('bin'))
for program in ('meson', 'ninja'):
    with open(path('bin', program), 'w') as out:
        out.write('#!/bin/sh\necho "$(basename "$0") $* DESTDIR=$DESTDIR" >> "$CALLS"\n')
        os.fchmod(out.fileno(), stat.S_IRWXU)


def install(*settings):
    """The calls of meson and ninja, the exit status and stderr. -o build: as if the build were up to date."""
    calls = path('calls')
    open(calls, 'w').close()
    without = {k: v for k, v in os.environ.items() if k not in ('PREFIX', 'DESTDIR', 'BUILD', 'MAKEFLAGS', 'MAKELEVEL')}
    done = subprocess.run(['make', '-C', ROOT, '-o', 'build', 'install', *settings], capture_output=True, text=True,
                          env={**without, 'PATH': path('bin') + ':' + os.environ['PATH'], 'CALLS': calls})
    with open(calls) as stream:
        return stream.read().splitlines(), done.returncode, done.stderr


def prefix():
    calls, code, err = install('PREFIX=/opt/some where', 'BUILD=here')
    equal(code, 0, err)
    equal(calls, ['meson configure here --prefix=/opt/some where DESTDIR=', 'ninja -C here DESTDIR=',
                  'meson install -C here --no-rebuild DESTDIR='])


def default_prefix():
    contains(install()[0][0], '--prefix=/usr/local ')


def destdir():
    calls, _, _ = install('PREFIX=/usr', 'DESTDIR=/tmp/package')
    contains(calls[0], '--prefix=/usr ')
    contains(calls[-1], 'meson install', 'DESTDIR=/tmp/package')
    contains(install('DESTDIR=package')[0][-1], f'DESTDIR={ROOT}/package')


def relative_prefix():
    calls, code, err = install('PREFIX=local')
    equal(calls, [])
    assert code != 0
    contains(err, 'absolute')


sys.exit(tap.run([
    ('PREFIX', prefix),
    ('without PREFIX', default_prefix),
    ('DESTDIR', destdir),
    ('a relative PREFIX is refused', relative_prefix),
]))
