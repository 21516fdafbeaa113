# SPDX-License-Identifier: Apache-2.0
"""Ranks under a real mpirun: the same bits for any number of them, who hangs is named, another MPI's launcher is refused."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # noqa: E402

RANKS, PLUGIN = os.environ['STOKE_RANKS'], os.environ.get('STOKE_MPI_PLUGIN')
# mpirun wants more words in a container: as root, and for more ranks than cores.
MPIRUN = ['mpirun', '--allow-run-as-root', '--oversubscribe', '--bind-to', 'none', '-np']
LAUNCHERS = re.compile(r'(OMPI|PMIX|PMI|MV2|SLURM|PRTE)_|(RANK|WORLD_SIZE|MASTER_ADDR|TORCHELASTIC_RUN_ID)$')
SURROUNDINGS = {name: value for name, value in os.environ.items() if not LAUNCHERS.match(name)}


def needed():
    if not PLUGIN:
        raise tap.Skip('built without mpi.h')
    if not shutil.which('mpirun'):
        raise tap.Skip('no mpirun')


def run(command, status=0, **env):
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**SURROUNDINGS, **env})
    assert done.returncode == status, f'{" ".join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout, done.stderr


def ranks(count, *words, status=0, engine=None):
    return run(MPIRUN + [str(count), RANKS, engine or PLUGIN, *words], status)


def same_bits():
    """Each rank compares with threads and with one process; here the ranks' results are compared with each other."""
    needed()
    said = {ranks(count, 'sum')[0] for count in (1, 2, 3, 4)}
    assert len(said) == 1 and re.fullmatch(r'sum [0-9a-f]{16}\n', next(iter(said))), said


def parts_in_pieces():
    needed()
    for count in (2, 3):
        assert ranks(count, 'pieces')[0] == f'pieces {count}\n'


def auto_finds_the_plugin():
    """Installed beside the program; what mpirun gives its ranks is what place.c looks for."""
    needed()
    with tempfile.TemporaryDirectory(prefix='stoke-test-') as prefix:
        os.makedirs(os.path.join(prefix, 'bin'))
        os.makedirs(os.path.join(prefix, 'lib', 'stoke'))
        program = shutil.copy(RANKS, os.path.join(prefix, 'bin'))
        command = MPIRUN + ['3', program, 'auto', 'numbers']
        _, said = run(command, status=1)
        assert 'this build has no libstoke-mpi.so' in said, said
        shutil.copy(PLUGIN, os.path.join(prefix, 'lib', 'stoke'))
        lines = run(command)[0].splitlines()
    assert re.match(r'library \S', lines[0]), lines
    assert len(lines) == 4, lines
    for rank, line in enumerate(lines[1:]):
        assert re.fullmatch(rf'rank {rank} \(\S+, pid \d+\)', line), line


def one_is_alone():
    needed()
    assert ranks(1, 'numbers', engine='auto')[0] == 'library none\n'
    assert run([RANKS, 'auto', 'numbers'])[0] == 'library none\n'


def who_hangs_is_named():
    needed()
    _, said = ranks(3, 'hang', '1', status=75)
    assert re.search(r'^rank [02]: gave up waiting for rank 1 \(\S+, pid \d+\) after 2\.\d s$', said, re.M), said
    assert re.search(r'^waiting for rank 1 \(\S+, pid \d+\) since (0\.8|0\.9|1\.\d) s$', said, re.M), said


def who_dies_ends_all():
    needed()
    began = time.monotonic()
    ranks(3, 'die', '1', status=137)
    assert time.monotonic() - began < 30, 'the others waited for their timeout of 60 s'


def another_launcher_is_refused():
    """As under mpiexec of MPICH with the plugin of Open MPI: each process believes to be alone."""
    needed()
    _, said = run([RANKS, PLUGIN, 'numbers'], status=1, PMI_RANK='0', PMI_SIZE='4')
    expected = (r'mpiexec started 4 processes, and the MPI of libstoke-mpi\.so \(.+\) sees 1: it is another MPI than the '
                r"launcher's; start with the mpirun of that MPI, or compile comm_mpi\.c with the launcher's")
    assert re.search(expected, said), said


def source_compiles_alone():
    """As somebody would on a cluster: mpicc, the installed headers and the one file."""
    needed()
    if not shutil.which('mpicc'):
        raise tap.Skip('no mpicc')
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    run(['mpicc', '-Wall', '-Wextra', '-Werror', '-Wno-unused-parameter', '-shared', '-fPIC', '-O2', '-I', os.path.join(root, 'include'),
         os.path.join(root, 'plugins', 'comm_mpi.c'), '-o', os.devnull])


sys.exit(tap.run([
    ('sums over 1, 2, 3 and 4 processes have the same bits', same_bits),
    ('large parts go in pieces', parts_in_pieces),
    ('`auto` finds the launcher and the plugin', auto_finds_the_plugin),
    ('one process is alone', one_is_alone),
    ('who hangs is named, and all end', who_hangs_is_named),
    ('who dies ends all', who_dies_ends_all),
    ("another MPI's launcher is refused", another_launcher_is_refused),
    ('the source compiles alone', source_compiles_alone),
]))
