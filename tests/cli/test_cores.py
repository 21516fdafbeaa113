# SPDX-License-Identifier: Apache-2.0
"""Several processes of a host share its cores, as launchers say it in the environment: workers, threads, what is told of this process."""
import os
import shutil
import subprocess
import sys

from cli import STOKE, contains, equal, make_set, stoke, stoke_json, tap

# Names that the test's own launcher may have set.
MINE = ('OMPI_', 'PMI_', 'PMIX_', 'MPI_', 'MV2_', 'SLURM_', 'TORCHELASTIC_')
ALONE = {name: value for name, value in os.environ.items()
         if not name.startswith(MINE) and name not in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE')}
SET = make_set('set', count=6, size='32x48', classes=3)


def torchrun(rank, world, here=None):
    return dict(ALONE, RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(here or world))


def mpirun(rank, world, here):
    return dict(ALONE, OMPI_COMM_WORLD_SIZE=str(world), OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_LOCAL_SIZE=str(here),
                OMPI_COMM_WORLD_LOCAL_RANK=str(rank % here))


def machine(env):
    return stoke_json('doctor', env=env)


def cores(env):
    return int(machine(env)['machine']['usable']['value'])


def hash_lines(*args, env=ALONE):
    """Digests, and what was said beside them."""
    done = stoke('hash', SET, '--size', 32, '--batch', 2, *args, env=env)
    return done.stdout, done.stderr


def parts_add_up():
    alone = cores(ALONE)
    for n in (2, 3):
        parts = [cores(torchrun(rank, n)) for rank in range(n)]
        equal(sum(parts), max(alone, n), f'{n} processes on {alone} cores: {parts}')
        equal(parts, sorted(parts, reverse=True))
    equal(cores(torchrun(1, 4, here=1)), alone, 'one process per host')
    contains(' '.join(machine(mpirun(1, 2, 2))['advice']), "2 processes share this host's")


def one_process_sees_no_change():
    plain, _ = hash_lines()
    for env in (torchrun(0, 1), dict(torchrun(0, 1), LOCAL_WORLD_SIZE='4'), dict(ALONE, SLURM_NTASKS='4', SLURM_PROCID='0')):
        digests, said = hash_lines(env=env)
        equal(digests, plain)
        assert 'processes share' not in said and 'bound' not in said, said
        equal((cores(env), workers(env)), (cores(ALONE), workers(ALONE)))


def remarks_and_the_same_bytes():
    """`hash` names its ranks itself; what the launcher says divides the cores, and no byte depends on that."""
    plain, _ = hash_lines()
    digests, said = hash_lines(env=torchrun(1, 2))
    equal(digests, plain)
    contains(said, "remark: 2 processes share this host's")
    digests, said = hash_lines('--workers', 1, env=torchrun(1, 2))
    equal(digests, plain)
    assert 'processes share' not in said, 'the number of workers was given'


def workers(env, *args):
    terms = stoke_json('hash', SET, '--size', 32, '--batch', 2, *args, env=env)['plan']['terms']
    return next(term['count'] for term in terms if term['name'] == 'workers')


def workers_follow():
    env = torchrun(1, 2)
    equal(workers(env), max(cores(env) - (cores(ALONE) - workers(ALONE)), 1))
    equal(workers(env, '--workers', 5), 5)


def recommend_and_devices():
    env = torchrun(1, 2)
    mine = cores(env)
    host = next(device for device in stoke_json('devices', env=env)['devices'] if device['name'] == 'host')
    equal(host['compute_units'], mine)
    given = stoke_json('recommend', '--gpu', 'rtx3060', '--cores', 6, env=env)['settings']
    equal(given, stoke_json('recommend', '--gpu', 'rtx3060', '--cores', 6, env=ALONE)['settings'], 'cores were given')


def bound(mask, env):
    return subprocess.run(['taskset', '-c', mask, STOKE, 'hash', SET, '--size', '32', '--batch', '2', '--json'], env=env, text=True,
                          capture_output=True, check=True)


def a_bound_rank_keeps_its_mask():
    allowed = sorted(os.sched_getaffinity(0))
    if not shutil.which('taskset') or len(allowed) < 2:
        raise tap.Skip('no taskset, or one core')
    first = str(allowed[0])
    one = bound(first, mpirun(0, 2, 1))  # mpirun binds to one core where it starts up to two processes
    contains(one.stderr, 'mpirun bound this rank to 1 of ', ' cores: --bind-to none, or --map-by slot:PE=N')
    assert 'bound this rank' not in bound(first, ALONE).stderr
    assert 'bound this rank' not in bound(first, torchrun(0, 2, here=1)).stderr
    every = bound(','.join(map(str, allowed)), mpirun(0, 2, 2)).stderr
    contains(every, "2 processes share this host's")


def real_mpirun():
    """As Open MPI starts them: bound, and not."""
    mpi = shutil.which('mpirun')
    if not mpi or 'Open MPI' not in subprocess.run([mpi, '--version'], capture_output=True, text=True, check=False).stdout:
        raise tap.Skip('no Open MPI')
    env = dict(ALONE, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    done = subprocess.run([mpi, '--oversubscribe', '--bind-to', 'none', '-np', '2', STOKE, 'hash', SET, '--size', '32', '--batch', '2'],
                          env=env, capture_output=True, text=True, timeout=120, check=False)
    equal(done.returncode, 0, done.stderr)
    contains(done.stderr, "2 processes share this host's")


sys.exit(tap.run([
    ('parts add up', parts_add_up),
    ('one process sees no change', one_process_sees_no_change),
    ('remarks, and the same bytes', remarks_and_the_same_bytes),
    ('workers follow', workers_follow),
    ('recommend and devices', recommend_and_devices),
    ('a bound rank keeps its mask', a_bound_rank_keeps_its_mask),
    ('mpirun itself', real_mpirun),
]))
