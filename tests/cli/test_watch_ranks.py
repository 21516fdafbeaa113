# SPDX-License-Identifier: Apache-2.0
"""What processes that train together do, for people to see: rows of the monitor, the rank that holds up the others and why, and
the check before it."""
import csv
import glob
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

from cli import STOKE, WORK, contains, equal, make_set, path, stoke, stoke_json, tap

MPIRUN = shutil.which('mpirun')
PLUGIN = glob.glob(os.path.join(os.path.dirname(os.path.dirname(STOKE)), '**', 'libstoke-mpi.so'), recursive=True)
ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
if not MPIRUN or not PLUGIN:
    print('1..0 # SKIP ' + ('this build has no libstoke-mpi.so' if MPIRUN else 'no mpirun'))
    sys.exit(0)

SET = make_set('set', count=24, size='64x64', classes=4)
OTHER = make_set('other', count=22, size='64x64', classes=4)
TRAIN = ['train', SET, '--size', '64', '--batch', '2', '--workers', '1', '--threads', '1', '--replicas', '2', '--seed', '5', '--eval-every', '100000']
LAUNCH = [MPIRUN, '--oversubscribe', '--bind-to', 'none', '-np', '2']


def words(args, each=''):
    """Of two processes; `each` is a line of shell that every one runs first, with its number in $R."""
    return [*LAUNCH, 'sh', '-c', f'R=$OMPI_COMM_WORLD_RANK; {each} exec "$@"', 'sh', STOKE, *map(str, args)]


def launch(*args, each='', code=0, env=ENV):
    done = subprocess.run(words(args, each), capture_output=True, text=True, cwd=WORK, timeout=240, env=env)
    equal(done.returncode, code, done.stdout + done.stderr)
    return done


def wait_until(process, ready):
    until = time.monotonic() + 90
    while not ready():
        assert process.poll() is None and time.monotonic() < until, 'it does not come so far'
        time.sleep(0.05)


# ---- while it runs ----

def rows():
    return stoke_json('monitor', 'runs/long', '--once')['job']['ranks']


def fetch(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def monitor_shows_a_row_per_rank():
    job = subprocess.Popen(words([*TRAIN, '--steps', 100000, '--name', 'long', '--quiet']), cwd=WORK, env=ENV, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    try:
        wait_until(job, lambda: os.path.exists(path('runs/long/live.ranks')) and len(rows()) == 2 and rows()[0]['step'] > 3)
        found = rows()
        equal([row['rank'] for row in found], [0, 1])
        host = os.uname().nodename
        for row in found:
            equal((row['host'], row['workers'], row['threads']), (host, 1, 1))
            assert f'stoke\0train\0{SET}\0'.encode() in open(f"/proc/{row['pid']}/cmdline", 'rb').read(), row
            assert row['resident_bytes'] > 10e6 and row['images_s'] > 0 and row['compute'] > 0, row
            shares = sum(row[key] for key in ('compute', 'data_wait', 'others_wait', 'exchange', 'rest'))
            assert abs(shares - 1) < 1e-9, row
            assert row['cpu_share'] is None or 0 < row['cpu_share'] <= 1, row
        assert found[0]['pid'] != found[1]['pid'], found
        contains(stoke('monitor', '--once', 'runs/long').stdout, 'rank  host', 'data wait', 'CPU got')
        contains(stoke('monitor', '1.5', 'runs/long/live', '--csv', path('job.csv')).stdout, '2 ranks; rank ')
        with open(path('job.csv'), newline='') as file:
            table = list(csv.DictReader(file))
        for row in table:
            assert None not in row and None not in row.values(), row
            assert float(row['rank1_resident_bytes']) > 10e6 and row['rank1_source'] == 'measured', row
        watcher = subprocess.Popen([STOKE, 'monitor', '20', 'runs/long', '--prometheus', '0', '--json'], cwd=WORK, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        url = watcher.stderr.readline().rpartition(' ')[2].strip()
        wait_until(watcher, lambda: f'stoke_job_rank_resident_bytes{{rank="1",host="{host}"}} ' in fetch(url))
        contains(fetch(url), '# TYPE stoke_job_rank_others_wait_seconds_total counter\n')
        watcher.send_signal(signal.SIGINT)
        watcher.wait(30)
        os.kill(found[1]['pid'], signal.SIGUSR1)  # save and stop
        equal(job.wait(90), 138)
    finally:
        job.kill()
    answer = stoke_json('monitor', '--once', 'runs/long')
    equal((answer['job']['state'], len(answer['job']['ranks'])), ('ended', 2))
    with open(path('runs/long/report.html')) as page:
        contains(page.read(), '<h2>Ranks</h2>', f'<td class="file">{host}</td>')
    # One process goes on: it has no ranks to show.
    stoke('train', '--resume', 'runs/long', '--stop-after', 2, '--quiet')
    equal(os.path.exists(path('runs/long/live.ranks')), False)
    equal(stoke_json('monitor', '--once', 'runs/long')['job']['ranks'], [])


# ---- who holds up the others ----

def adds_up(answer):
    for row in answer['ranks']:
        parts = sum(row[key + '_seconds'] for key in ('data', 'compute', 'others', 'exchange', 'rest'))
        assert abs(parts - row['seconds']) < 1e-9, row
        assert abs(sum(row[f'cost_{key}_seconds'] for key in ('data', 'compute', 'rest')) - row['cost_seconds']) < 1e-9, row


def other_programs_are_named():
    """Rank 1 has a core of its own, which two programs want as well."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise tap.Skip('no second core')
    busy = [subprocess.Popen(['taskset', '-c', str(cores[1]), 'sh', '-c', 'while :; do :; done']) for _ in range(2)]
    try:
        pin = f'case $R in 0) set -- taskset -c {cores[0]} "$@" ;; 1) set -- nice -n 5 taskset -c {cores[1]} "$@" ;; esac;'
        launch(*TRAIN, '--steps', 20, '--name', 'busy', '--quiet', each=pin)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    answer = stoke_json('diagnose', 'runs/busy')
    adds_up(answer)
    row = answer['ranks'][1]
    equal((row['cause'], answer['ranks'][0]['cause']), ('other programs', 'none'), answer)
    assert row['last_share'] > 0.6 and row['cost_seconds'] > 0.1 * answer['seconds'], row
    contains(stoke('diagnose', 'runs/busy').stdout, 'One rank stands out', f"rank 1 ({row['host']}, pid {row['pid']}) was last in ",
             'another program wants its cores')


def slow_data_is_named():
    """Rank 1 reads its files from a disk that takes 40 ms longer for each, with fewer workers."""
    slow = (f'case $R in 0) set -- "$@" --workers 2 ;; 1) FAULTS=open:1:1000000:-40 FAULTS_BELOW={SET} LD_PRELOAD=$STOKE_FAKE_FAULTS; '
            'export FAULTS FAULTS_BELOW LD_PRELOAD ;; esac;')
    done = launch(*TRAIN, '--steps', 24, '--name', 'slow', each=slow)
    contains(done.stderr, 'rank 1 waits for data ')
    answer = stoke_json('diagnose', 'runs/slow')
    adds_up(answer)
    row = answer['ranks'][1]
    equal((row['cause'], answer['ranks'][0]['cause']), ('data', 'none'), answer)
    contains(row['why'], 'it waited for data; 1 worker where others have 2')
    assert row['data_seconds'] > 10 * answer['ranks'][0]['data_seconds'], answer
    # The log of an older stoke, and of one process, has none of it.
    stoke('train', SET, '--size', 64, '--batch', 2, '--steps', 2, '--name', 'one', '--quiet')
    equal(stoke_json('diagnose', 'runs/one')['world'], 0)
    contains(stoke('diagnose', 'runs/one').stdout, 'One process trained this run')


# ---- before it runs ----

def check_compares_what_each_sees():
    with open(path('train.yaml'), 'w') as file:
        file.write(stoke('config', '--train', SET, '--size', 64, '--batch', 2, '--classes', 5, '--workers', 1).stdout)
    done = launch('check', '--config', 'train.yaml')
    equal(done.stdout.count('pass  ranks '), 1, done.stdout)
    contains(done.stdout, '2 ranks on 1 host', ' of the same names and sizes on all', 'each sends ', 'apart at most', '0 fail')
    other = f'case $R in 1) set -- "$@" --data {OTHER} ;; esac;'
    done = launch('check', '--config', 'train.yaml', each=other, code=1)
    contains(done.stdout, 'fail  data of ranks ', 'rank 1 (', 'has another set: 22 pairs, rank 0 has 24', '-> the same set on all hosts')
    gone = 'case $R in 1) cd / ;; esac;'
    contains(launch('check', '--config', 'train.yaml', each=gone, code=1).stdout, 'fail  ranks ', 'train.yaml: cannot open')
    done = launch('check', '--config', 'gone.yaml', code=2)
    equal(done.stderr.count('stoke check: '), 1, done.stderr)


sys.exit(tap.run([
    ('a row per rank', monitor_shows_a_row_per_rank),
    ('other programs are named', other_programs_are_named),
    ('slow data is named', slow_data_is_named),
    ('a check of what each sees', check_compares_what_each_sees),
]))
