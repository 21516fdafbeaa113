# SPDX-License-Identifier: Apache-2.0
"""One SIGTERM or Ctrl-C ends every command within 5 s, at any moment and whatever it is waiting for; nothing half written
and no process stays behind.

STOKE_TEST_ROUNDS=50 tries that many random moments of every command instead of one (20 minutes), STOKE_INTERRUPT_SEED
repeats a run, STOKE_INTERRUPT_ONLY=train,pack picks commands.
"""
import fcntl
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

from cli import COMMANDS, STOKE, WORK, contains, equal, files_below, make_set, path, stoke, tap

MOMENTS = tap.rounds(1, 2)
ONLY = os.environ.get('STOKE_INTERRUPT_ONLY', '')
SEED = int(os.environ.get('STOKE_INTERRUPT_SEED', time.time_ns() % 1000000))
SECONDS = 5
SLACK = 5  # other tests have the processors as well
SET = make_set('set', count=60, size='128x128', classes=5)
SMALL = ('--size', '64', '--batch', '4')
RUN = path('runs', 'made')
CONFIG = path('flat.yaml')

# What each does for a second or more; '{out}' is a fresh folder. Every command of the program is here.
TRIED = {
    'synth': ['synth', '{out}', '--count', '3000', '--size', '256'],
    'verify': ['verify', SET, '--csv', '{out}/v.csv', '--json'],
    'show': ['show', SET, '--out', '{out}/show.png', '--count', '40', '--size', '512'],
    'train': ['train', SET, *SMALL, '--steps', '400', '--eval-every', '20', '--save-every', '5', '--runs', '{out}', '--tensorboard'],
    'eval': ['eval', RUN, '--split', 'all', '--out', '{out}'],
    'predict': ['predict', RUN, SET + '/images', '--out', '{out}', '--mode', 'slide'],
    'find-lr': ['find-lr', SET, *SMALL, '--out', '{out}/lr.svg'],
    'find-batch': ['find-batch', '--model', 'b0', '--size', '64', '--classes', '5', '--device', 'native', '--journal', '{out}/j'],
    'recipe progressive': ['recipe', 'progressive', SET, '--stages', 'b0@32:20,b0@64:20', '--batch', '4', '--runs', '{out}'],
    'report': ['report', RUN],
    'devices': ['devices'],
    'estimate': ['estimate', '--model', 'b2', '--size', '512'],
    'plan': ['plan', 'b5', '--batch', '16', '--svg', '{out}/plan.svg'],
    'recommend': ['recommend', '--vram', '16', '--write', '{out}/r.yaml'],
    'optimize': ['optimize', '--config', CONFIG, '--benchmark', '--device', 'native', '--gpu', 'rtx3060', '--out', '{out}/o.yaml'],
    'monitor': ['monitor', '5', '--csv', '{out}/m.csv'],
    'check': ['check', '--config', CONFIG],
    'why': ['why', 'slow', '--run', RUN],
    'diagnose': ['diagnose', SET, *SMALL, '--classes', '5', '--device', 'native', '--html', '{out}/d.html'],
    'selftest': ['selftest'],
    'doctor': ['doctor'],
    'hash': ['hash', SET, '--size', '1024', '--batch', '2', '--cache', '{out}/cache'],
    'dump': ['dump', SET, '--out', '{out}', '--batches', '0', '--batch', '2', '--size', '512'],
    'pack': ['pack', SET, '--out', '{out}', '--shard-size', '64k'],
    'config': ['config', SET],
    'ops': ['ops'],
    'bench data': ['bench', 'data', '--seconds', '20', '--samples', '16'],
    'bench pix': ['bench', 'pix'],
    'bench net': ['bench', 'net'],
    'bench step': ['bench', 'step', *SMALL],
    'bench comm': ['bench', 'comm'],
    'bench transfer': ['bench', 'transfer', '--device', 'host'],
    'bench device': ['bench', 'device', SET, '--device', 'host'],
    # the same command in another state
    'pack a cache': ['pack', SET, '--format', 'cache', '--out', '{out}', '--size', '256'],
    'train --resume': ['train', '--resume', '{out}/run'],
}


def is_whole(file):
    """Of kinds that can be told; by their beginning and their end."""
    with open(file, 'rb') as stream:
        data = stream.read()
    if file.endswith('.png'):
        return data.startswith(b'\x89PNG') and data.endswith(b'IEND\xaeB`\x82')
    if file.endswith('.jpg'):
        return data.startswith(b'\xff\xd8') and data.endswith(b'\xff\xd9')
    if file.endswith('.json'):
        return json.loads(data) is not None
    if file.endswith('.html'):
        return data.rstrip().endswith(b'</html>')
    if file.endswith('.svg'):
        return data.rstrip().endswith(b'</svg>')
    if file.endswith('.tar'):
        return len(data) % 512 == 0 and data.endswith(bytes(1024))
    if file.endswith('.safetensors'):
        header = struct.unpack('<Q', data[:8])[0]
        tensors = [value for key, value in json.loads(data[8:8 + header]).items() if key != '__metadata__']
        return len(data) == 8 + header + max(value['data_offsets'][1] for value in tensors)
    return True


def members(session):
    """Processes of a session that are not yet gone."""
    found = []
    for name in os.listdir('/proc'):
        try:
            with open(f'/proc/{name}/stat') as stat:
                fields = stat.read().rpartition(')')[2].split()
        except (OSError, ValueError):
            continue
        if name.isdigit() and int(fields[3]) == session and fields[0] not in 'ZX':
            found.append(int(name))
    return found


def end(process, number, what):
    """Sends the signal; returns the exit status as a shell tells it."""
    process.send_signal(number)
    begin = time.monotonic()
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f'{what}: goes on after 60 s') from None
    took = time.monotonic() - begin
    assert took < SECONDS + SLACK, f'{what}: took {took:.1f} s\n{err}'
    code = process.returncode
    for _ in range(50):
        if not members(process.pid):
            break
        time.sleep(0.1)
    equal(members(process.pid), [], f'{what}: processes left')
    return 128 - code if code < 0 else code, out, err


def start(args, temporary, env=None):
    return subprocess.Popen([STOKE, *args], cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, start_new_session=True, env={**os.environ, **(env or {}), 'TMPDIR': temporary})


def leaves_nothing(out, temporary, what):
    equal(os.listdir(temporary), [], f'{what}: left in the folder for temporary files')
    left = [name for name in files_below(out) if '.tmp' in name or '/tmp/' in name]
    equal(left, [], f'{what}: left behind')
    for name in files_below(out):
        assert is_whole(os.path.join(out, name)), f'{what}: {name} is not whole'


def moments(name, args):
    def test():
        codes = []
        rng = random.Random(f'{SEED} {name}')  # the same moments in whatever part it is
        for _ in range(MOMENTS):
            number = rng.choice((signal.SIGTERM, signal.SIGINT))
            seconds = rng.random() ** 2 * 1.5
            what = f'{name} at {seconds:.3f} s, signal {number}, seed {SEED}'
            out, temporary = path('out'), path('temporary')
            for folder in (out, temporary):
                shutil.rmtree(folder, ignore_errors=True)
                os.makedirs(folder)
            if '{out}' in args:
                os.rmdir(out)  # made by the command
            if name == 'train --resume':
                shutil.copytree(RUN, os.path.join(out, 'run'))
            process = start([word.replace('{out}', out) for word in args], temporary)
            time.sleep(seconds)
            code, _, err = end(process, number, what)
            assert code in (0, 128 + number), f'{what}: exit {code}\n{err}'
            leaves_nothing(out, temporary, what)
            codes.append(code)
        if MOMENTS > 1:
            print(f'# {name}: {sum(code != 0 for code in codes)} of {MOMENTS} ended by the signal', flush=True)
    return test


def stuck(name, args, call, first):
    """A call that does not come back: the command ends all the same."""
    def test():
        out, temporary = path('out'), path('temporary')
        for folder in (out, temporary):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        process = start([word.replace('{out}', out) for word in args], temporary,
                        {'LD_PRELOAD': os.environ['STOKE_FAKE_FAULTS'], 'FAULTS_BELOW': '/set/', 'FAULTS': f'{call}:{first}:1:0'})
        time.sleep(1.5)
        equal(process.poll(), None, 'it should stand still')
        code, _, err = end(process, signal.SIGTERM, name)
        equal(code, 128 + signal.SIGTERM, err)
        leaves_nothing(out, temporary, name)
    return test


def another_request():
    """The second ends it at once, by the signal itself."""
    process = start(['hash', SET, '--size', '64'], WORK,
                    {'LD_PRELOAD': os.environ['STOKE_FAKE_FAULTS'], 'FAULTS_BELOW': '/set/', 'FAULTS': 'open:3:1:0'})
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    time.sleep(1.2)
    equal(process.poll(), None, 'it should stand still')
    end(process, signal.SIGTERM, 'a second SIGTERM')
    equal(process.returncode, -signal.SIGTERM)


def waits_for_a_lock():
    """Somebody has the cache for himself and does not let go."""
    cache = path('locked')
    stoke('hash', SET, '--size', '32', '--cache', cache, '--quiet')
    with open(os.path.join(cache, 'usage'), 'r+b') as usage:
        fcntl.fcntl(usage, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 1, 1, 0))  # F_OFD_SETLK, byte 1
        process = start(['hash', SET, '--size', '32', '--cache', cache, '--quiet'], WORK)
        time.sleep(1)
        equal(process.poll(), None, 'it should wait for the lock')
        equal(end(process, signal.SIGINT, 'waiting for a lock')[0], 130)


def output_that_nobody_reads():
    """Its standard output is full."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while os.write(write, bytes(4096)):
            pass
    except BlockingIOError:
        os.set_blocking(write, True)
    process = subprocess.Popen([STOKE, 'hash', SET, '--size', '32', '--quiet'], stdout=write, stderr=subprocess.PIPE, text=True,
                               cwd=WORK, start_new_session=True)
    os.close(write)
    time.sleep(1)
    equal(process.poll(), None, 'it should wait for its reader')
    equal(end(process, signal.SIGTERM, 'writing to a pipe')[0], 143)
    os.close(read)


def pipes_in_place_of_files():
    """None is waited for: the command ends by itself."""
    fifo = path('fifo')
    os.mkfifo(fifo)
    bad = path('bad-set')
    shutil.copytree(SET, bad)
    open(os.path.join(bad, 'images', '000003.jpg'), 'w').close()
    done = stoke('hash', bad, '--size', '32', '--max-bad', 5, '--quarantine', fifo)
    contains(done.stderr, 'a pipe that nobody reads', '1 bad sample is not in this list', '000003.jpg')
    for args in (['hash', SET, '--from', fifo], ['hash', '--list', fifo], ['hash', SET, '--label-map', fifo],
                 ['hash', SET, '--config', fifo], ['hash', SET, '--augment', './fifo'], ['hash', SET, '--cache', fifo],
                 ['hash', SET, '--order', 'weighted', '--weights', fifo], ['dump', SET, '--out', fifo],
                 ['show', SET, '--out', fifo], ['pack', SET, '--out', fifo], ['train', SET, '--resume', fifo],
                 ['eval', fifo, '--data', SET], ['predict', fifo, SET], ['report', fifo], ['monitor', '1', '--attach', fifo],
                 ['monitor', '1', '--csv', fifo], ['optimize', '--config', fifo], ['check', '--config', fifo],
                 ['diagnose', SET, '--trace', fifo], ['diagnose', SET, '--config', fifo], ['find-batch', '--journal', fifo],
                 ['recommend', '--vram', '8', '--write', fifo], ['why', 'slow', '--run', fifo],
                 ['bench', 'data', '--short', '--live', fifo]):
        done = stoke(*args, code=None)  # the helper gives up after 240 s
        assert done.returncode in (1, 2), f'{args}: exit {done.returncode}\n{done.stdout}{done.stderr}'


for ignored in (signal.SIGINT, signal.SIGHUP):  # as by a shell that starts the suite in the background
    signal.signal(ignored, signal.SIG_DFL)
stoke('train', SET, *SMALL, '--steps', 400, '--stop-after', 2, '--name', 'made', '--quiet')
with open(CONFIG, 'w') as stream:
    stream.write(f'data:\n  root: {SET}\n  batch_size: 4\n  num_workers: 2\nmodel:\n  name: segformer-b0\n  num_classes: 5\n'
                 'training:\n  image_size: 64\n  lr: 3.0e-4\n  use_amp: yes\n')
assert not set(COMMANDS) - set(TRIED), f'not tried: {set(COMMANDS) - set(TRIED)}'
tests = [(name, moments(name, args)) for name, args in TRIED.items() if not ONLY or name in ONLY.split(',')]
if not ONLY:
    tests += [
        ('a set whose first file does not open', stuck('hash', ['hash', SET, '--size', '64'], 'open', 3)),
        ('a worker that does not come back', stuck('hash', ['hash', SET, '--size', '64'], 'pread', 150)),
        ('a training that does not get its batch',
         stuck('train', ['train', SET, *SMALL, '--steps', '50', '--runs', '{out}'], 'pread', 150)),
        ('verify does not come back', stuck('verify', ['verify', SET], 'open', 20)),
        ('pack does not come back', stuck('pack', ['pack', SET, '--out', '{out}'], 'pread', 20)),
        ('a second request', another_request),
        ('waiting for a lock', waits_for_a_lock),
        ('output that nobody reads', output_that_nobody_reads),
        ('pipes in place of files', pipes_in_place_of_files),
    ]
sys.exit(tap.run(tests))
