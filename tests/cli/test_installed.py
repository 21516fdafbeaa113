# SPDX-License-Identifier: Apache-2.0
"""The installed tree: the command, a program compiled by pkg-config alone, manual pages, completion."""
import glob
import os
import shlex
import shutil
import subprocess
import sys

from cli import COMMANDS, ROOT, STOKE, contains, equal, make_set, path, tap

BUILD = os.environ['STOKE_BUILD']
DEST = path('dest')
# Nothing of the surroundings may help: neither a build nor an earlier installation.
BARE = {'PATH': os.environ['PATH'], 'HOME': path()}


def run(*command, **env):
    done = subprocess.run(command, capture_output=True, text=True, cwd='/', env={**BARE, **env})
    assert done.returncode == 0, f'{" ".join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout


def below(*parts):
    """The one file that matches, below the prefix that the build was set up for."""
    found = glob.glob(os.path.join(DEST, '**', *parts), recursive=True)
    equal(len(found), 1, os.path.join(*parts))
    return found[0]


def installs():
    if not shutil.which('meson'):
        raise tap.Skip('no meson')
    run('meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', DESTDIR=DEST)


def command_starts():
    """Moved as a whole it still finds its library: the way from one to the other is in the command, unless it is for /usr."""
    equal(run(below('bin', 'stoke'), '--version'), run(STOKE, '--version'))


def command_starts_by_the_variable():
    run(below('bin', 'stoke'), '--version', LD_LIBRARY_PATH=os.path.dirname(below('libstoke.so.0')))


def pkg_config_compiles():
    if not shutil.which('pkg-config'):
        raise tap.Skip('no pkg-config')
    pc = below('pkgconfig', 'stoke.pc')
    libraries = os.path.dirname(below('libstoke.so.0'))
    equal(os.path.dirname(pc), os.path.join(libraries, 'pkgconfig'))
    prefix = os.path.dirname(os.path.dirname(below('bin', 'stoke')))
    flags = shlex.split(run('pkg-config', f'--define-variable=prefix={prefix}', '--cflags', '--libs', 'stoke',
                            PKG_CONFIG_PATH=os.path.dirname(pc)))
    program = path('iterate')
    run(*shlex.split(os.environ['CC']), os.path.join(ROOT, 'examples', 'iterate.c'), '-o', program, *flags)
    lines = run(program, make_set('set', count=12), LD_LIBRARY_PATH=libraries).splitlines()
    equal(len(lines), 2)
    contains(lines[0], 'batch   0: 8 samples')


def engine_for_processes():
    """Its source for every MPI, and the library where libstoke looks for it if this build has one."""
    below('share', 'stoke', 'comm_mpi.c')
    if not os.path.exists(os.path.join(BUILD, 'plugins', 'libstoke-mpi.so')):
        raise tap.Skip('built without mpi.h')
    equal(below('libstoke-mpi.so'), os.path.join(os.path.dirname(below('libstoke.so.0')), 'stoke', 'libstoke-mpi.so'))


def manual_pages():
    pages = {os.path.basename(page) for page in glob.glob(os.path.join(os.path.dirname(below('man1', 'stoke.1')), '*.1'))}
    wanted = {'stoke.1'} | {'stoke-' + name.replace(' ', '-') + '.1' for name in COMMANDS}
    assert wanted <= pages, sorted(wanted - pages)
    with open(below('man1', 'stoke-train.1')) as page:
        contains(page.read(), '.TH', '.SH NAME', 'stoke train')
    if shutil.which('man'):
        contains(run('man', below('man1', 'stoke-train.1')), 'stoke train')


def completion():
    """bash-completion looks for NAME or NAME.bash in this folder."""
    script = below('bash-completion', 'completions', 'stoke.bash')
    text = f'. {shlex.quote(script)}; COMP_WORDS=(stoke fi); COMP_CWORD=1; ' \
           '$(complete -p stoke | sed "s/.*-F \\([^ ]*\\).*/\\1/") stoke fi stoke; echo "${COMPREPLY[@]}"'
    equal(run('bash', '-c', text).split(), ['find-lr', 'find-batch'])


sys.exit(tap.run([
    ('it installs', installs),
    ('the command starts', command_starts),
    ('the command starts with LD_LIBRARY_PATH', command_starts_by_the_variable),
    ('pkg-config: examples/iterate.c compiles and runs', pkg_config_compiles),
    ('the engine for processes', engine_for_processes),
    ('manual pages', manual_pages),
    ('completion of bash', completion),
]))
