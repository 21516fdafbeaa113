# SPDX-License-Identifier: Apache-2.0
"""Under a real Slurm of one node, started here: srun, and the example with its signal and its place in the queue. The example with a
played srun is in test_ranks.py."""
import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
import time

from cli import ROOT, STOKE, WORK, contains, equal, path, stoke, tap
from launching import ENV, SMALL, kill_marked, needed, small_set, weights

PROGRAMS = ('slurmctld', 'slurmd', 'sbatch', 'srun', 'squeue', 'scancel', 'scontrol')
needed()
missing = [name for name in PROGRAMS if not shutil.which(name)]
if missing or os.geteuid():
    print('1..0 # SKIP ' + (f'no {missing[0]} (slurmctld, slurmd, slurm-client)' if missing else 'slurmd wants root'))
    sys.exit(0)

# No key service, no cgroups: a cluster that is there after a few seconds.
SETTINGS = """ClusterName=stokehold
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
SET = small_set()
LINE = [SET, *SMALL, '--threads', 1, '--steps', 60, '--save-every', 3, '--eval-every', 30]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(('127.0.0.1', 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def waiting():
    return subprocess.run(['squeue', '-h', '-o', '%i %T'], env=ENV, capture_output=True, text=True).stdout


def end():
    """Jobs first: whoever serves them is none of our children."""
    subprocess.run(['scancel', '--user=root'], env=ENV, capture_output=True)
    until = time.monotonic() + 10
    while waiting() and time.monotonic() < until:
        time.sleep(0.2)
    kill_marked(os.getpid())


def begin():
    """The cluster; what it runs on has the mark of this program, by which it is ended."""
    folder = path('slurm')
    os.makedirs(os.path.join(folder, 'state'))
    file = os.path.join(folder, 'slurm.conf')
    with open(file, 'w') as out:
        out.write(SETTINGS.format(host=socket.gethostname().partition('.')[0], ports=free_ports(2), folder=folder, cpus=os.cpu_count()))
    ENV.update(SLURM_CONF=file, STOKE=STOKE, SLURM_OVERLAP='1')
    for name in ('slurmctld', 'slurmd'):
        with open(os.path.join(folder, name + '.txt'), 'w') as out:
            subprocess.Popen([name, '-D', '-f', file], env=ENV, stdout=out, stderr=out, cwd=WORK, start_new_session=True)
    atexit.register(end)
    until = time.monotonic() + 30
    while subprocess.run(['srun', '-n', '1', '--immediate=2', 'true'], env=ENV, capture_output=True).returncode:
        if time.monotonic() > until:
            texts = [open(os.path.join(folder, name + '.txt')).read()[-500:] for name in ('slurmctld', 'slurmd')]
            print('1..0 # SKIP Slurm does not start here: ' + ' '.join(' '.join(texts).split()))
            sys.exit(0)
        time.sleep(0.2)


def unbroken(replicas):
    name = f'alone-{replicas}'
    if not os.path.exists(path('runs', name)):
        stoke('train', *LINE, '--replicas', replicas, '--name', name, '--quiet')
    return weights(name)


def by_srun():
    done = subprocess.run(['srun', '--mpi=pmix', '-n', '2', STOKE, 'train', *map(str, LINE), '--replicas', '8', '--name', 'by-srun'],
                          env=ENV, cwd=WORK, capture_output=True, text=True, timeout=120)
    equal(done.returncode, 0, done.stdout + done.stderr)
    equal(weights('by-srun') == unbroken(8), True, 'the bits of one process')


def wait_for(what, text):
    until = time.monotonic() + 90
    while not what():
        assert time.monotonic() < until, text()
        time.sleep(0.1)


def by_sbatch():
    """As before its limit the job is told to stop: it saves, is put back, goes on, and is complete."""
    out = path('job.txt')

    def text():
        return open(out).read() if os.path.exists(out) else ''

    done = subprocess.run(['sbatch', '--parsable', f'--output={out}', os.path.join(ROOT, 'examples', 'slurm.sbatch'), 'runs/job', *map(str, LINE)],
                          env=ENV, cwd=WORK, capture_output=True, text=True, timeout=30)
    equal(done.returncode, 0, done.stderr)
    job = done.stdout.strip()
    log = path('runs', 'job', 'log.jsonl')
    wait_for(lambda: os.path.exists(log) and '"step": 4,' in open(log).read(), text)
    subprocess.run(['scancel', '--signal=USR1', job], env=ENV, check=True)
    wait_for(lambda: re.search(r'interrupted; the state at step \d+ is saved', text()), text)
    wait_for(lambda: 'PENDING' in waiting(), text)
    subprocess.run(['scontrol', 'update', f'JobId={job}', 'StartTime=now'], env=ENV, check=True)  # it would wait for two minutes
    wait_for(lambda: '60 of 60 steps' in text(), text)
    contains(text(), 'goes on after step')
    equal(weights('job') == unbroken(8), True, 'the bits of one process')


begin()
sys.exit(tap.run([
    ('srun --mpi=pmix', by_srun),
    ('examples/slurm.sbatch', by_sbatch),
]))
