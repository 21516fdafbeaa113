# SPDX-License-Identifier: Apache-2.0
"""stoke find-batch and optimize --benchmark: trials in children that run out of memory, are killed, hang; going on; simulated GPUs."""
import json
import os
import shlex
import signal
import subprocess
import sys
import time

from cli import STOKE, WORK, contains, equal, make_set, path, stoke, stoke_json, tap

DATA = make_set('set', count=12, size='32x32', classes=4)
CARD = ['find-batch', '--model', 'b2', '--size', 288, '--classes', 19, '--device', 'sim:rtx3060']
SECTIONS = '''# faces, as in the paper
data:
  root: nowhere/faces   # not on this machine
  batch_size: %d   # why not
  num_workers: 2
model:
  name: segformer-b2
  num_classes: 19
training:
  image_size: 288
  lr: 3.0e-4
  use_amp: yes
'''
SMALL = 'base_channels: 64\nnum_blocks: 6\npatch_size: 128\nnum_classes: 4\nbatch_size: 16\nnum_workers: 0\n'


def write(name, text):
    file = path(name)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, 'w') as out:
        out.write(text)
    return file


def read(file):
    with open(file) as stream:
        return stream.read()


def own(name, **more):
    """Settings of ours: a network that is the same on every machine, whatever its cores."""
    settings = {'model': 'b0', 'size': 32, 'classes': 4, 'threads': 1, 'precision': 'fp32', **more}
    return write(name, ''.join(f'{key}: {value}\n' for key, value in settings.items()))


def outcomes(answer):
    return [(trial['batch'], trial['outcome']) for trial in answer['trials']]


def planned(size, batch):
    """Bytes of a network as own() has it."""
    return stoke_json('bench', 'step', '--batch', batch, '--size', size, '--classes', 4, '--threads', 1, '--dry-run')['planned_bytes']


def chosen(answer, batches):
    """One of these, or none: on a busy machine nothing is suggested, and that is said."""
    return answer['batch'] in batches if not answer['too_busy'] else answer['batch'] is None and 'too busy to tell' in answer['why']


def simulated_gpu():
    answer = stoke_json(*CARD)
    assert answer['batch'] and answer['batch'] % 8 == 0, answer
    equal([t['batch'] for t in answer['trials'][:4]], [1, 2, 4, 8])
    equal((answer['source'], answer['memory_source'], answer['device']), ('emulated', 'estimated', 'sim:rtx3060'))
    assert answer['memory_fit']['linear'] and answer['memory_fit']['r2'] > 0.98, answer
    last = answer['trials'][-1]
    equal((last['batch'], last['with_loader'], last['busy']), (answer['batch'], True, None))
    assert answer['images_per_s'] >= 0.95 * answer['best_images_per_s'], answer
    assert answer['budget_bytes'] < answer['memory_bytes'] == 12 << 30, answer
    contains(answer['why'], 'Memory: ', 'Throughput: ', 'Loader: n/a', ' bind')
    more = stoke_json(*CARD[:-1], 'sim:h100')
    assert more['largest_fit'] > answer['largest_fit'], (more, answer)
    less = stoke_json(*CARD, '--vram', 4)
    equal(less['bound'], 'memory')
    assert less['largest_fit'] < answer['largest_fit'] and less['batch'] <= less['largest_fit'], less
    none = stoke_json(*CARD, '--vram', 0.9, code=1)
    equal((none['batch'], outcomes(none)), (None, [(1, 'oom')]))
    contains(none['why'], 'Not even one sample')
    contains(none['next'], 'stoke estimate --model b2')


def really_out_of_memory():
    config = own('oom/train.yaml', size=128)
    four, eight = planned(128, 4), planned(128, 8)
    assert eight * 7 > four * 8, (four, eight)
    limit = (four * 8 / 7 + eight) / 2  # an eighth is left free: 4 are allowed, 8 are not
    answer = stoke_json('find-batch', '--config', config, '--vram', limit / 2**30, '--steps', 3)
    contains(outcomes(answer), (4, 'ok'), (8, 'oom'))
    contains([t['message'] for t in answer['trials'] if t['batch'] == 8][0], 'memory')
    assert chosen(answer, range(1, 8)) and answer['largest_ok'] >= 4 and answer['smallest_oom'] <= 8, answer
    equal((answer['source'], answer['device']), ('measured', 'native'))
    assert all(t['step_ms'] > 0 for t in answer['trials'] if t['outcome'] == 'ok'), answer


def children(pid):
    try:
        with open(f'/proc/{pid}/task/{pid}/children') as stream:
            return [int(word) for word in stream.read().split()]
    except OSError:
        return []


def next_child(process, before=()):
    """A child that is not among those before, once it runs `stoke trial`."""
    while process.poll() is None:
        for child in children(process.pid):
            try:
                with open(f'/proc/{child}/cmdline', 'rb') as stream:
                    if child not in before and b'trial' in stream.read().split(b'\0'):
                        return child
            except OSError:
                pass
        time.sleep(0.002)
    raise AssertionError('it ended: ' + process.communicate()[1])


def start(*args):
    if not os.path.exists(f'/proc/self/task/{os.getpid()}/children'):
        raise tap.Skip('the kernel does not list children')
    return subprocess.Popen([STOKE, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=WORK)


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f'/proc/{pid}/stat') as stream:
        return stream.read().rsplit(')', 1)[1].split()[0] == 'Z'


def killed_children():
    slow = own('kill/slow.yaml', size=512)
    process = start('find-batch', '--config', slow)
    first = next_child(process)
    os.kill(first, signal.SIGSEGV)
    second = next_child(process, (first,))
    os.kill(second, signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    equal(process.returncode, 1, out + err)
    equal(err.count('batch 1: crash'), 2, err)
    contains(err, "not the batch's fault", 'signal 11', 'signal 9')
    # An accident is forgiven.
    quick = own('kill/quick.yaml')
    process = start('find-batch', '--config', quick, '--vram', 0.2, '--steps', 1000, '--json', '--timeout', 600)
    first = next_child(process)
    os.kill(first, signal.SIGKILL)
    second = next_child(process, (first,))
    # The rest need not be waited for: it is stopped, and leaves nothing behind.
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    equal(process.returncode, 130, out + err)
    contains(err, 'batch 1: crash', '--journal FILE', 'interrupted')
    assert is_gone(second), 'the child is still there'


def hangs():
    slow = own('hang/slow.yaml', size=512)
    done = stoke('find-batch', '--config', slow, '--timeout', 0.2, code=1)
    equal(done.stderr.count('batch 1: timeout'), 2, done.stderr)
    contains(done.stderr, 'ended with timeout', 'after 0.2 s')


def goes_on():
    config = own('go/train.yaml')
    journal = path('go/trials.jsonl')
    command = ['find-batch', '--config', config, '--vram', planned(32, 20) * 8 / 7 / 2**30, '--steps', 3, '--journal', journal]
    process = start(*command)
    while process.poll() is None and not (os.path.exists(journal) and read(journal).count('\n') >= 3):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    equal(process.returncode, 130, out + err)
    contains(err, 'the same command goes on')
    before = read(journal)
    lines = [json.loads(line) for line in before.splitlines()]
    contains(lines[0]['key'], 'b0 32x32 4 classes')
    with open(journal, 'a') as out:
        out.write('{"batch": 64, "outc')  # as a power cut leaves it
    answer = stoke_json(*command)
    assert read(journal).startswith(before), 'lines were lost'
    for line, done in zip(lines[1:], answer['trials']):
        equal([done[key] for key in ('batch', 'step_ms', 'reserved_bytes')], [line[key] for key in ('batch', 'step_ms', 'reserved_bytes')])
    after = read(journal)
    equal(after.count('\n'), 1 + len(answer['trials']))
    again = stoke(*command)
    assert 'batch 1:' not in again.stderr, 'a trial was repeated'
    equal(read(journal), after)
    at_last = stoke_json(*command)
    del at_last['plan'], answer['plan']  # what a process holds differs from one start to the next
    equal(at_last, answer)
    notes = write('go/notes.txt', 'my notes\n')
    contains(stoke(*command[:-1], notes, code=1).stderr, 'no journal of a batch search')
    equal(read(notes), 'my notes\n')


def loader():
    common = ['find-batch', DATA, '--device', 'sim:t4', '--model', 'b0']
    config = write('loader/x_config.yaml', 'batch_size: 4\nnum_workers: 1\nnum_classes: 4\nimage_size: 32\n')
    slow = stoke_json(*common, '--config', config, '--time1', 1e-6)
    equal(slow['bound'], 'loader')
    assert 0 <= slow['busy'] < 0.85, slow
    contains(slow['next'], f'stoke diagnose --config {config} {DATA} --batch={slow["batch"]} --size=32x32 --device sim:t4 --step-ms=')
    stoke(*shlex.split(slow['next'])[1:], '--steps', 4)  # can be typed as it is
    contains(slow['why'], 'The loader binds')
    assert slow['lr_factor_linear'] == slow['batch'] / 4, slow
    assert all(t['batch'] <= 12 for t in slow['trials']), slow


def void_value():
    """The last value of the masks stands for pixels without a class, as in CamVid."""
    common = ['find-batch', DATA, '--device', 'sim:t4', '--model', 'b0', '--size', 32]
    equal(stoke_json(*common)['classes'], 4)
    equal(stoke_json(*common, '--ignore-index', 3)['classes'], 3)
    contains(stoke(*common, '--classes', 3, code=1).stderr, 'value 3')
    answer = stoke_json(*common, '--classes', 3, '--ignore-index', 3)
    equal((answer['classes'], answer['trials'][-1]['outcome']), (3, 'ok'))


def benchmark_of_a_pytorch_file():
    text = SECTIONS % 8
    config = write('opt/configs/face_config.yaml', text)
    answer = stoke_json('optimize', '--config', config, '--gpu', 'RTX 3060', '--cores', 9, '--benchmark')
    target = path('opt/configs/face_config_optimized.yaml')
    equal((answer['target'], answer['written'], read(config)), (target, True, text))
    change = [c for c in answer['changes'] if c['path'] == 'data.batch_size'][0]
    equal((change['from'], change['to'], change['source']), ('8', str(answer['benchmark']['batch']), 'emulated'))
    contains(change['why'], 'found by trials', 'sim:rtx3060')
    contains(read(target), f"batch_size: {change['to']}   # why not", 'num_workers: 6', 'root: nowhere/faces   # not')
    contains('\n'.join(answer['remarks']), 'training.lr: 3.0e-4 is kept', 'linear rule')
    equal(answer['benchmark']['device'], 'sim:rtx3060')
    # What does not fit is lowered.
    large = write('opt/large.yaml', SECTIONS % 512)
    answer = stoke_json('optimize', '--config', large, '--vram', 4, '--device', 'sim:gtx1650', '--benchmark', '--dry-run')
    change = [c for c in answer['changes'] if c['path'] == 'data.batch_size'][0]
    assert int(change['to']) < 512, change
    contains(change['effect'], 'of 512 samples a batch')
    assert not os.path.exists(path('opt/large_optimized.yaml'))
    # Where nothing fits the rest is still done, and said.
    none = stoke('optimize', '--config', large, '--vram', 0.8, '--device', 'sim:gtx1650', '--benchmark')
    contains(none.stderr, 'the batch stays', 'Not even one sample')
    contains(read(path('opt/large_optimized.yaml')), 'pin_memory: true')


def benchmark_of_our_file():
    config = own('ours/x.yaml', data=DATA, batch=2, eval_every=0)
    text = read(config)
    answer = stoke_json('optimize', '--config', config, '--benchmark', '--steps', 3)
    equal((answer['target'], read(config)), (path('ours/x_optimized.yaml'), text))
    if answer['benchmark']['too_busy']:
        raise tap.Skip('others take the cores: no batch is found by trials')
    change = [c for c in answer['changes'] if c['setting'] == 'batch_size'][0]
    equal((change['from'], change['source']), ('2', 'measured'))
    last = answer['benchmark']['trials'][-1]
    assert last['with_loader'] and 0 < last['busy'] <= 1, last
    stoke('config', '--train', '--config', answer['target'])  # still ours to read


def scaled_first():
    config = write('scale/x.yaml', SMALL)
    plain = stoke_json('optimize', '--config', config, '--gpu', 'rtx3090', '--cores', 9, '--benchmark', '--dry-run')
    done = stoke('optimize', '--config', config, '--gpu', 'rtx3090', '--cores', 9, '--benchmark', '--allow-model-scale', '--dry-run', '--json')
    grown = json.loads(done.stdout)
    contains(done.stderr, 'changes the experiment')
    assert grown['benchmark']['largest_fit'] < plain['benchmark']['largest_fit'], 'the trials were of the small model'
    equal(grown['benchmark']['size'], [256, 256])
    contains([c['path'] for c in grown['changes']], 'base_channels')


def for_people():
    done = stoke(*CARD, '--ranks', 2)
    contains(done.stdout, 'b2, 288x288, 19 classes, on sim:rtx3060', 'batch  trial', 'confirms', 'budget: ', 'memory: ', 'ms x batch (emulated)',
             'x 2 processes = ', 'learning rate: left as it is')
    contains(done.stderr, 'batch 8: ', ' ms a step')
    equal(stoke(*CARD, '--quiet').stderr, '')


def asked_wrongly():
    contains(stoke('find-batch', '--size', 32, '--device', 'sim:rtx9999', code=1).stderr, 'rtx9999')
    contains(stoke('find-batch', '--size', 32, '--device', 'cuda:7', code=2).stderr, 'cuda:7')
    theirs = write('theirs.yaml', 'model: their_unet\nbatch_size: 4\nimage_size: 32\nnum_classes: 3\n')
    contains(stoke('find-batch', '--config', theirs, code=2).stderr, "'their_unet' is no network that runs here", 'BatchSizeOptimizer')
    contains(stoke('find-batch', '--model', 'b9', code=2).stderr, 'b9')
    contains(stoke('find-batch', path('nowhere'), code=1).stderr, 'nowhere')
    contains(stoke('find-batch', '--config', path('none.yaml'), code=1).stderr, 'none.yaml')
    assert 'trial ' not in stoke('help').stdout.replace('trials', ''), 'the hidden command is listed'


sys.exit(tap.run([
    ('a simulated GPU', simulated_gpu),
    ('really out of memory', really_out_of_memory),
    ('children that are killed', killed_children),
    ('children that hang', hangs),
    ('a search goes on', goes_on),
    ('the loader', loader),
    ('a value without a class', void_value),
    ('optimize --benchmark for PyTorch', benchmark_of_a_pytorch_file),
    ('optimize --benchmark for ours', benchmark_of_our_file),
    ('the model is scaled first', scaled_first),
    ('for people', for_people),
    ('asked wrongly', asked_wrongly),
]))
