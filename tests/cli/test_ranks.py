# SPDX-License-Identifier: Apache-2.0
"""Processes that train together, as mpirun starts them: the same bits for any number of them, and what becomes of all when
something befalls one."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from cli import ROOT, STOKE, WORK, contains, equal, files_below, make_set, path, stoke, tap
from launching import ENV, LANES, MPIRUN, SMALL, Started, launch, needed, said, small_set, wait_for, weights

needed()
SET = small_set()


def same_bits(model, data, patch, *more, worlds=((3, 4), (1, 2, 3, 4))):
    """Of any number of processes and threads: the networks of one."""
    def test():
        first = '-'.join((model, *more)).replace('--', '')
        base = [data, *(patch or SMALL), *LANES, '--model', model, '--steps', 4, '--eval-every', 2, '--quiet', *more]
        stoke('train', *base, '--threads', 1, '--name', first)
        for world in tap.rounds(*worlds):
            for threads in tap.rounds((world % 2 + 1,), (1, 2)) if world > 1 else (2,):
                name = f'{first}-{world}x{threads}'
                launch(world, *base, '--threads', threads, '--name', name)
                for which in ('last', 'best'):
                    equal(weights(name, which) == weights(first, which), True, f'{which} of {name} is that of one process')
    return test


def segments():
    same_bits('b0', SET, None)()


def pairs():
    if not os.path.exists(path('pairs')):
        stoke('synth', path('pairs'), '--task', 'restore', '--count', 24, '--size', '48x64', '--seed', 4, '--quiet')
    return path('pairs')


RESTORE = ['--patch-size', '32', '--batch', '2', '--workers', '1', '--seed', '5', '--base-channels', '8']


def restores():
    same_bits('resnet', pairs(), RESTORE)()


def one_batch_norm():
    """Over all lanes: the same bits, another run, and of one lane what each batch norm by itself is."""
    same_bits('b0', SET, None, '--batch-norm', 'sync', worlds=((2, 4), (1, 2, 3, 4)))()
    stoke('train', SET, *SMALL, *LANES, '--steps', 4, '--eval-every', 2, '--quiet', '--name', 'local')
    assert weights('local') != weights('b0-batch-norm-sync'), 'sync is local'
    contains(stoke('train', '--resume', 'runs/local', '--batch-norm', 'sync', code=1).stderr, '--batch-norm was not set and is sync')
    for norm in ('local', 'sync'):
        stoke('train', SET, *SMALL, '--steps', 2, '--eval-every', 0, '--quiet', '--batch-norm', norm, '--name', 'one-' + norm)
    assert weights('one-local') == weights('one-sync'), 'one lane'


LONG = [SET, *SMALL, *LANES, '--threads', 1, '--save-every', 3]


def whoever_goes_on(task, data, *line):
    """Four processes, one killed; two, asked to stop; three; one: the bits of a run in one go. The line is the same each time."""
    def test():
        line_of_all = [*data(), *line, *LANES, '--threads', 1, '--save-every', 3, '--steps', 30, '--eval-every', 10]
        goes_on(f'unbroken-{task}', f'broken-{task}', line_of_all)
    return test


def goes_on(unbroken, broken, line):
    stoke('train', *line, '--name', unbroken, '--quiet')
    line += ['--name', broken, '--continue']
    run = Started(4, *line).at_step(broken, 7)
    os.kill(run.ranks()[2], signal.SIGKILL)
    run.end(5)
    run = Started(2, *line).at_step(broken, 13)
    run.process.send_signal(signal.SIGINT)
    run.end(5)
    with open(path('runs', broken, 'log.jsonl')) as log:
        saved = [entry['step'] for entry in map(json.loads, log) if entry['kind'] == 'save'][-1]
    launch(3, *line, '--stop-after', 6, '--rank-logs')
    for rank in range(3):
        with open(path('runs', broken, f'log.rank{rank}.jsonl')) as stream:
            steps = [json.loads(text) for text in stream]
        equal(len(steps), min(6, 30 - saved), 'lines of a rank')
        assert all(0 <= step['data_seconds'] + step['others_seconds'] <= step['seconds'] for step in steps), steps
    done = stoke('train', *line)
    contains(done.stdout, '30 of 30 steps')
    for which in ('last', 'best'):
        equal(weights(broken, which) == weights(unbroken, which), True, f'{which} has the bits of a run in one go')
    contains(stoke('train', *line).stdout, 'all steps are done')


def begins_or_goes_on():
    line = [SET, *SMALL, '--threads', 1, '--steps', 4]
    contains(stoke('train', *line, '--continue', code=2).stderr, '--continue needs the run\'s --name')
    stoke('train', *line, '--name', 'again', '--continue', '--stop-after', 2)
    contains(stoke('train', *line, '--name', 'again', code=2).stderr, 'exists already')
    contains(stoke('train', '--resume', 'runs/again', '--continue', code=2).stderr, '--continue goes with --name')
    contains(stoke('train', '--name', 'again', '--continue').stdout, '4 of 4 steps')  # settings are the run's


def asked(number, whom, status):
    """A signal to mpirun or to one rank: all save and stop."""
    def test():
        name = f'asked-{number.name}-{whom}'
        run = Started(3, *LONG, '--steps', 5000, '--eval-every', 5000, '--name', name, '--save-every', 5000).at_step(name, 20)
        if whom == 'all':
            run.process.send_signal(number)
        else:
            os.kill(run.ranks()[whom], number)
        text = run.end(5, status)
        contains(text, 'interrupted; the state at step ')
        step = int(re.search(r'the state at step (\d+) is saved', text)[1])
        contains(launch(2, '--resume', f'runs/{name}', '--stop-after', 1).stdout, f'{step + 1} of 5000 steps')
    return test


def usr1_alone():
    """SIGUSR1 to a run of one process."""
    run = subprocess.Popen([STOKE, 'train', *map(str, LONG), '--steps', '5000', '--name', 'usr1'], cwd=WORK, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
    wait_for(path('runs', 'usr1', 'log.jsonl'), run)
    run.send_signal(signal.SIGUSR1)
    error = run.communicate(timeout=60)[1]
    equal(run.returncode, 128 + signal.SIGUSR1, error)
    contains(error, 'is saved')


def dead():
    run = Started(3, *LONG, '--steps', 5000, '--eval-every', 5000, '--name', 'dead').at_step('dead', 4)
    wait_for(path('runs', 'dead', 'state.safetensors'), run.process)
    os.kill(run.ranks()[1], signal.SIGKILL)
    text = run.end(5)
    contains(text, 'signal 9')  # mpirun's sentence
    assert len(said(text)) <= 1, text
    launch(2, '--resume', 'runs/dead', '--stop-after', 1)


def stopped(rank):
    """A process that does not answer is waited for, and named."""
    def test():
        name = f'stopped-{rank}'
        run = Started(3, *LONG, '--steps', 5000, '--eval-every', 5000, '--name', name, '--comm-timeout', 3).at_step(name, 6)
        pid = run.ranks()[rank]
        os.kill(pid, signal.SIGSTOP)
        text = run.end(3 + 5, 75)
        who = rf'rank {rank} \(\S+, pid {pid}\)'
        assert re.search(rf'waiting for {who} since [12]\.', text), text
        assert re.fullmatch(rf'stoke train: gave up waiting for {who} after [3-9]\.\d s', '\n'.join(said(text))), text
        launch(2, '--resume', f'runs/{name}', '--stop-after', 1)
    return test


def twenty_seconds():
    """With the default of comm_timeout the first notice comes after 20 s."""
    run = Started(2, *LONG, '--steps', 5000, '--eval-every', 5000, '--name', 'notice').at_step('notice', 6)
    os.kill(run.ranks()[1], signal.SIGSTOP)
    time.sleep(23)
    os.kill(run.ranks()[1], signal.SIGCONT)
    os.kill(run.ranks()[1], signal.SIGUSR1)
    contains(run.end(5, 128 + signal.SIGUSR1), 'remark: waiting for rank 1 (', ' since 20 s')


def patient():
    """What rank 0 does alone may take longer than one process is waited for."""
    slow = make_set('slow', count=60, size='256x256', classes=4)
    for tries in range(4):
        done = launch(2, slow, *SMALL, '--steps', 1, '--val-split', 0.9, '--eval-mode', 'slide', '--threads', 1, '--name', f'patient-{tries}',
                      '--comm-timeout', 1.5, code=None)
        if 'processes to join after' not in done.stderr:  # MPI itself may take that long to begin, while other tests run
            equal(done.returncode, 0, done.stderr)
            return
    raise tap.Skip('the machine is too busy')


def refused(line, *parts, world=3, code=1, shell=None):
    """One sentence, once, and nothing is written."""
    def test():
        text = launch(world, *line, '--name', 'refused', code=code, shell=shell).stderr
        lines = said(text)
        equal(len(lines), 1, text)
        contains(lines[0], *parts)
        assert not os.path.exists(path('runs', 'refused')), files_below(path('runs', 'refused'))
    return test


def no_launcher():
    """An environment that speaks of several processes, and an MPI that sees one: it would train alone, in the same folder."""
    for names, launcher in (({'OMPI_COMM_WORLD_SIZE': '2', 'OMPI_COMM_WORLD_RANK': '0'}, 'mpirun started 2 processes'),
                            ({'SLURM_STEP_NUM_TASKS': '4', 'SLURM_PROCID': '3'}, 'srun started 4 processes')):
        text = stoke('train', *LINE, '--name', 'alone', env=dict(os.environ, **names), code=1).stderr
        contains(text, launcher, 'sees 1')
        assert not os.path.exists(path('runs', 'alone')), 'it began'


def another_set():
    other = make_set('other', count=39, size='64x64', classes=4)
    refused(['--steps', 2, *SMALL, *LANES], 'rank 1 (', ' at rank 0 and here ', shell=f'[ $OMPI_COMM_WORLD_RANK = 1 ] && set -- "$@" --data {other} || set -- "$@" --data {SET}; exec "$@"')()


def bad_file(norm):
    """The process that meets it stops all under policy stop; otherwise it says so, and the run goes on."""
    bad = path('bad-' + norm)
    shutil.copytree(SET, bad)
    name = files_below(os.path.join(bad, 'images'))[17]
    os.truncate(os.path.join(bad, 'images', name), 300)
    line = [bad, *SMALL, *LANES, '--threads', 1, '--steps', 3, '--eval-every', 0, '--batch-norm', norm]
    alone, replaced = f'bad-alone-{norm}', f'bad-replaced-{norm}'
    stoke('train', *line, '--name', alone, '--quiet')
    done = launch(4, *line, '--name', replaced)
    contains(done.stderr, 'training: bad files at ')
    equal(weights(replaced) == weights(alone), True, 'the same bits as in one process')
    contains(open(path('runs', replaced, 'quarantine.jsonl')).read(), name)
    ranks = set()
    for seed in range(6, 12):
        done = launch(4, *line, '--policy', 'stop', '--seed', seed, '--name', f'bad-{norm}-{seed}', code=1)
        lines = said(done.stderr)
        equal(len(lines), 1, done.stderr)
        contains(lines[0], name)
        ranks.update(re.findall(r'^stoke train: rank (\d)', lines[0]))
        if ranks:
            return
    raise AssertionError('no rank but the first met it')


def too_bad():
    """Counted over all processes: no one has met so many, and all end in the step in which one process does."""
    bad = path('too-bad')
    shutil.copytree(SET, bad)
    for name in files_below(os.path.join(bad, 'images'))[3:35:4]:
        os.truncate(os.path.join(bad, 'images', name), 300)

    def at(run):
        with open(path('runs', run, 'log.jsonl')) as log:
            return [entry['step'] for entry in map(json.loads, log) if entry['kind'] == 'end'][-1]

    line = [bad, *SMALL, *LANES, '--threads', 1, '--steps', 9, '--eval-every', 0, '--log-every', 1, '--max-bad', 5, '--save-every', 1]
    contains(stoke('train', *line, '--name', 'too-bad-alone', code=1).stderr, ' of 40 samples are bad, more than --max-bad allows (5):')
    for world in (2, 4):
        name = f'too-bad-{world}'
        done = launch(world, *line, '--name', name, code=1)
        equal(len(said(done.stderr)), 1, done.stderr)
        contains(said(done.stderr)[0], 'stoke train: 6 of 40 samples are bad, more than --max-bad allows (5):')
        equal(at(name), at('too-bad-alone'), 'the step')
        with open(path('runs', name, 'quarantine.jsonl')) as stream:
            listed = [json.loads(text)['image'] for text in stream]
        equal(len(listed), len(set(listed)), 'each once')
        equal(len(listed), 6)


def audited():
    """Processes that compute each other's lanes have the bits of those that do not; one alone says that it has nobody."""
    line = [SET, *SMALL, *LANES, '--threads', 1, '--steps', 4, '--eval-every', 2]
    done = stoke('train', *line, '--audit-every', 2, '--name', 'unaudited')
    contains(' '.join(done.stderr.split()), '--audit-every', 'there is nobody to compare with')
    done = launch(3, *line, '--audit-every', 3, '--name', 'audited', '--stop-after', 3)
    assert 'nobody' not in done.stderr, done.stderr
    own = 'exec "$@" --log-every $((OMPI_COMM_WORLD_RANK + 1)) --audit-every $((OMPI_COMM_WORLD_RANK + 1))'  # rank 0's are everyone's
    contains(launch(2, *line, '--name', 'audited', '--continue', shell=own).stdout, '4 of 4 steps')
    for which in ('last', 'best'):
        equal(weights('audited', which) == weights('unaudited', which), True, which)


def other_pixels():
    """The same names and sizes, and other pixels at one rank: its gradients are not those of the rank that looks."""
    other = path('other-pixels')
    stoke('synth', other, '--count', 40, '--size', '64x64', '--classes', 4, '--seed', 99, '--quiet')
    equal(files_below(other) == files_below(SET), True, 'the same names')
    right = shutil.copytree(SET, path('right-pixels'))
    for name in files_below(right):  # other sizes would be refused at once: what is behind the end of a picture is not read
        files = [os.path.join(folder, name) for folder in (right, other)]
        sizes = [os.path.getsize(file) for file in files]
        os.truncate(files[sizes.index(min(sizes))], max(sizes))
    shell = f'[ $OMPI_COMM_WORLD_RANK = 2 ] && set -- "$@" --data {other} || set -- "$@" --data {right}; exec "$@"'
    line = [*SMALL, *LANES, '--threads', 1, '--steps', 8, '--eval-every', 0, '--save-every', 3]
    lines = said(launch(3, *line, '--audit-every', 5, '--name', 'pixels', code=1, shell=shell).stderr)
    equal(len(lines), 1, lines)
    contains(lines[0], 'step 5: rank 2 (', ' has other gradients than rank 1 (', ' and than rank 0 (', 'of the same pictures', '--continue')
    with open(path('runs', 'pixels', 'log.jsonl')) as log:
        equal([entry['step'] for entry in map(json.loads, log) if entry['kind'] == 'save'], [3], 'saved')


def weight_in(run):
    """Bytes of a layer that is not trained, as they lie in memory."""
    content = weights(run)
    size = int.from_bytes(content[:8], 'little')
    at = json.loads(content[8:8 + size])['segformer.encoder.patch_embeddings.0.proj.weight']['data_offsets'][0]
    return content[8 + size + at:][:256]


def places(pid, what):
    """Where a process has these bytes."""
    found = []
    with open(f'/proc/{pid}/maps') as maps, open(f'/proc/{pid}/mem', 'rb', 0) as memory:
        for line in maps:
            span, rights, _, _, inode = line.split()[:5]
            begin, end = (int(part, 16) for part in span.split('-'))
            if not rights.startswith('rw') or int(inode):
                continue
            try:
                content = os.pread(memory.fileno(), end - begin, begin)
            except OSError:
                continue
            at = content.find(what)
            while at >= 0:
                found.append(begin + at)
                at = content.find(what, at + 1)
    return found


def flipped_bit():
    """A bit in the memory of one process that does not keep what is written: its weights are not those of the others."""
    line = [SET, *SMALL, '--replicas', 2, '--threads', 1, '--freeze-encoder', '--steps', 100000, '--eval-every', 0, '--save-every', 5, '--log-every', 1]
    run = Started(2, *line, '--name', 'flipped')
    wait_for(path('runs', 'flipped', 'last', 'model.safetensors'), run.process)
    pid, what = run.ranks()[1], weight_in('flipped')
    try:
        found = places(pid, what)
    except PermissionError:
        run.process.send_signal(signal.SIGINT)
        run.end(5)
        raise tap.Skip('the memory of another process is not to be written') from None
    assert found, 'the weights are not where they can be found'
    flipped = bytes([what[0] ^ 1]) + what[1:4]
    memory = os.open(f'/proc/{pid}/mem', os.O_WRONLY)
    until = time.monotonic() + 30
    try:
        while run.process.poll() is None and time.monotonic() < until:
            for place in found:
                os.pwrite(memory, flipped, place)
    except OSError:
        pass  # it has ended
    os.close(memory)
    text = run.end(5, 1)
    equal(len(said(text)), 1, text)
    assert re.search(r'stoke train: step \d+: rank 0 \(.*\) and rank 1 \(.*\) have other weights', text), text


def not_a_number(norm):
    done = launch(3, SET, *SMALL, *LANES, '--steps', 20, '--optimizer', 'sgd', '--lr', 1000, '--head-lr', 1000, '--clip-norm', 0,
                  '--warmup', 0, '--batch-norm', norm, '--name', 'nan-' + norm, code=1)
    lines = said(done.stderr)
    equal(len(lines), 1, done.stderr)
    contains(lines[0], 'step ', ' at a learning rate of ', '--lr', '0000')


def full_disk():
    """Rank 0 cannot write the state: all end, and the checkpoint before is whole."""
    line = [*LONG, '--steps', 12, '--eval-every', 100]
    launch(3, *line, '--name', 'full', '--stop-after', 3)
    before = open(path('runs', 'full', 'state.safetensors'), 'rb').read()
    done = launch(3, '--resume', 'runs/full', code=1, shell='[ $OMPI_COMM_WORLD_RANK = 0 ] && ulimit -f 40960; exec "$@"')
    lines = said(done.stderr)
    equal(len(lines), 1, done.stderr)
    contains(lines[0], 'runs/full/', 'File too large')
    equal(open(path('runs', 'full', 'state.safetensors'), 'rb').read() == before, True, 'the state is as it was')
    launch(2, '--resume', 'runs/full', '--stop-after', 1)


def by_script(run, *line, tools=None, code=0):
    """An example as people call it."""
    script = os.path.join(ROOT, 'examples', run[0])
    env = dict(ENV, STOKE=STOKE, OMPI_MCA_rmaps_base_oversubscribe='1')
    if tools:
        env.update(PATH=f'{tools}:{ENV["PATH"]}', MPIRUN=MPIRUN, SLURM_JOB_ID='7', SLURM_CPUS_PER_TASK='1')
    done = subprocess.run([script, *map(str, [*run[1:], *line])], capture_output=True, text=True, cwd=WORK, timeout=240, env=env)
    equal(done.returncode, code, done.stdout + done.stderr)
    return done


EXAMPLE = [SET, '--size', '64', '--batch', '2', '--threads', '1', '--steps', '4']


def example_of_mpirun():
    by_script(['mpirun.sh', 2, 'runs/scripted'], *EXAMPLE, '--stop-after', 2)
    contains(by_script(['mpirun.sh', 3, 'runs/scripted'], *EXAMPLE).stdout, '4 of 4 steps')


def example_of_slurm():
    """The job as it is written; srun and scontrol are played."""
    tools = path('tools')
    os.makedirs(tools)
    plays = {'srun': 'while [ "${1#-}" != "$1" ]; do shift; done\n"$MPIRUN" --bind-to none -np 2 "$@"\n[ ! -e asked ] || exit "$(cat asked)"',
             'scontrol': 'echo "$*" >> requeued'}
    for name, text in plays.items():
        with open(os.path.join(tools, name), 'w') as out:
            out.write('#!/bin/sh\n' + text + '\n')
        os.chmod(os.path.join(tools, name), 0o755)
    with open(path('asked'), 'w') as out:
        out.write('138')
    by_script(['slurm.sbatch', 'runs/job'], *EXAMPLE, '--stop-after', 2, tools=tools, code=138)
    os.remove(path('asked'))
    contains(open(path('requeued')).read(), 'requeue 7')
    os.remove(path('requeued'))
    contains(by_script(['slurm.sbatch', 'runs/job'], *EXAMPLE, tools=tools).stdout, '4 of 4 steps')
    assert not os.path.exists(path('requeued'))


RATES = 'exec "$@" --lr 0.00$((OMPI_COMM_WORLD_RANK + 1))'
TABLES = '[ $OMPI_COMM_WORLD_RANK = 1 ] && export STOKE_CPU=c; exec "$@"'
MISSING = '[ $OMPI_COMM_WORLD_RANK = 2 ] && cd /; exec "$@"'
HERE = os.path.basename(SET)
LINE = [SET, *SMALL, *LANES, '--steps', 2]

TESTS = [
    ('the same bits: b0', segments),
    ('SIGUSR1 to a rank', asked(signal.SIGUSR1, 2, 128 + signal.SIGUSR1)),
    ('a rank is killed', dead),
    ('a rank is stopped', stopped(2)),
    ('more processes than lanes', refused(LINE, '5 processes', '--replicas 4', world=5, code=2)),
    ('an MPI without its launcher', no_launcher),
    ('no data', refused(['nowhere', '--steps', 2], 'nowhere')),
    ('no data at one rank', refused([HERE, '--steps', 2, *SMALL, *LANES], 'rank 2', HERE, shell=MISSING)),
    ('another learning rate at one rank', refused(LINE, 'rank 1 (', 'lr is 0.001 at rank 0 and here 0.002', shell=RATES)),
    ('audits', audited),
    ('NaN', lambda: not_a_number('local')),
    ('examples/mpirun.sh', example_of_mpirun),
]
LATER = [
    ('the same bits: one batch norm', one_batch_norm),
    ('--continue', begins_or_goes_on),
    ('SIGTERM to one rank', asked(signal.SIGTERM, 1, 128 + signal.SIGTERM)),
    ('a bad file', lambda: bad_file('local')),
    ('a bad file, one batch norm', lambda: bad_file('sync')),
    ('many bad files', too_bad),
    ('other pixels at one rank', other_pixels),
    ('a bit that flips', flipped_bit),
    ('4, kill -9, 2, stop, 3, 1', whoever_goes_on('segment', lambda: [SET], *SMALL)),
    ('the same of pictures to restore', whoever_goes_on('restore', lambda: [pairs(), '--task', 'restore'], *RESTORE)),
    ('the same bits: resnet', restores),
    ('SIGUSR1 to one process', usr1_alone),
    ('another set at one rank', another_set),
    ('another CPU table at one rank', refused(LINE, 'rank 1 (', ' computes with c and rank 0 with ', 'STOKE_CPU', shell=TABLES)),
    ('examples/slurm.sbatch', example_of_slurm),
    ('a disk that is full', full_disk),
    ('rank 0 is stopped', stopped(0)),
    ('SIGTERM to mpirun', asked(signal.SIGTERM, 'all', None)),
    ('the first notice', twenty_seconds),
    ('rank 0 works for long', patient),
    ('NaN, one batch norm', lambda: not_a_number('sync')),
]

sys.exit(tap.run(TESTS + (LATER if tap.FULL else [])))
