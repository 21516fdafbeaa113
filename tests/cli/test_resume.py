# SPDX-License-Identifier: Apache-2.0
"""A run that was killed goes on to the same bits: weights, moments, average, counters, log."""
import os
import shutil
import signal
import subprocess
import sys
import time

import run_folder
from cli import STOKE, WORK, contains, equal, make_set, path, stoke, tap

SET = make_set('set', count=14, size='48x48', classes=4)
# 11 pictures to train on are 6 batches: step 9 is in the middle of the second epoch.
COMMON = ['train', SET, '--size', '32', '--batch', '2', '--steps', '20', '--eval-every', '7', '--save-every', '3',
          '--log-every', '1', '--no-pictures', '--no-tensorboard', '--threads', '2', '--quiet']
KINDS = {
    'adamw': ['--average', '0.9'],
    'sgd': ['--optimizer', 'sgd', '--accumulate', '2', '--freeze-encoder', '--precision', 'bf16', '--augment', 'hflip'],
}


def folder(name):
    return path('runs', name)


def whole(kind):
    """The same run in one go; made once."""
    if not os.path.exists(folder(kind)):
        stoke(*COMMON, *KINDS[kind], '--name', kind)
    return folder(kind)


def kill_when(args, name, when):
    """Runs stoke until when() holds and kills it then. A run that was faster than the test is tried once more."""
    for _ in range(5):
        process = subprocess.Popen([STOKE, *args], cwd=WORK, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while not when() and process.poll() is None:
            time.sleep(0.001)
        process.kill()
        _, told = process.communicate()
        if process.returncode == -signal.SIGKILL:
            return
        assert process.returncode == 0, told
        shutil.rmtree(folder(name))
    raise AssertionError('it was done before it could be killed, five times')


def seen(name, kind, step):
    return lambda: any(line['kind'] == kind and line['step'] >= step for line in run_folder.read_log(folder(name)))


def resume(name, *more, code=0):
    return stoke('train', '--resume', f'runs/{name}', *more, code=code)


def same(kind, name):
    found = run_folder.differences(whole(kind), folder(name))
    assert not found, f'{len(found)} differences:\n' + '\n'.join(found[:20])
    equal(run_folder.temporaries(folder(name)), [], 'temporary files')
    steps = [line['step'] for line in run_folder.read_log(folder(name)) if line['kind'] == 'step']
    equal(steps, list(range(1, 21)), 'steps in the log')


def killed_at_step_9():
    kill_when(COMMON + KINDS['adamw'] + ['--name', 'nine'], 'nine', seen('nine', 'save', 9))
    counters, _ = run_folder.read_state(folder('nine'))
    assert 9 <= counters['step'] < 20, counters['step']
    equal(counters['epoch'], 1)
    done = resume('nine')
    contains(done.stderr, f'goes on after step {counters["step"]}')
    same('adamw', 'nine')


def killed_in_a_checkpoint():
    """The one before stays; what was half written goes when the run goes on."""
    left = lambda: any('state.safetensors.tmp-' in name for name in run_folder.temporaries(folder('half')))
    name = 'half'
    for _ in range(5):
        kill_when(COMMON + KINDS['sgd'] + ['--name', name], name, lambda: seen(name, 'save', 6)() and left())
        if left():
            break
        shutil.rmtree(folder(name))
    else:
        raise tap.Skip('no checkpoint was ever half written when the run was killed')
    assert 6 <= run_folder.saved_step(folder(name)) < 20
    resume(name)
    same('sgd', name)


def killed_before_the_first_checkpoint():
    args = [value if value != '3' else '100' for value in COMMON] + KINDS['sgd']
    kill_when(args + ['--name', 'early'], 'early', seen('early', 'step', 2))
    assert run_folder.saved_step(folder('early')) == 0
    contains(resume('early').stderr, 'has no checkpoint yet')
    same('sgd', 'early')


def in_four_sessions():
    stoke(*COMMON, *KINDS['adamw'], '--name', 'four', '--stop-after', 5)
    equal(run_folder.saved_step(folder('four')), 5)
    resume('four', '--stop-after', 1)
    resume('four', '--stop-after', 8)
    equal(run_folder.saved_step(folder('four')), 14)
    resume('four', '--stop-after', 0)
    same('adamw', 'four')


def killed_between_state_and_weights():
    """The last checkpoint is there, last/ is still that of the one before: the run goes on to put it right."""
    stoke(*COMMON, *KINDS['sgd'], '--name', 'late', '--stop-after', 6)
    old = open(os.path.join(folder('late'), 'last', 'model.safetensors'), 'rb').read()
    resume('late', '--stop-after', 0)
    with open(os.path.join(folder('late'), 'last', 'model.safetensors'), 'wb') as stream:
        stream.write(old)
    resume('late', '--stop-after', 0)
    same('sgd', 'late')


def damaged_state():
    shutil.copytree(whole('sgd'), folder('damaged'))
    state = os.path.join(folder('damaged'), 'state.safetensors')
    good = open(state, 'rb').read()
    for name, bad in (('flipped', good[:-100] + bytes([good[-100] ^ 1]) + good[-99:]), ('cut', good[:-4]),
                      ('empty', b''), ('step', good.replace(b'\\"step\\": 20', b'\\"step\\": 19', 1))):
        assert bad != good, name
        with open(state, 'wb') as stream:
            stream.write(bad)
        done = resume('damaged', code=1)
        contains(done.stderr, 'runs/damaged/state.safetensors: ')
        equal(open(state, 'rb').read() == bad, True, f'{name}: the file is as it was')
    weights = os.path.join(folder('damaged'), 'last', 'model.safetensors')
    shutil.copyfile(weights, state)
    contains(resume('damaged', code=1).stderr, 'not the state of a run', '--pretrained')


def files_changed_under_their_names():
    """Worth a remark, once, and no refusal; a state from before files were looked at says nothing."""
    data = make_set('changing', count=12, size='32x32', classes=3)
    stoke('train', data, '--size', 32, '--batch', 2, '--steps', 6, '--stop-after', 2, '--name', 'changing', '--threads', 1)
    again = ['train', '--resume', 'runs/changing', '--stop-after', '1']
    assert 'changed since' not in stoke(*again).stderr, 'nothing has changed'
    for name in ('images/000003.jpg', 'masks/000004.png'):
        os.utime(os.path.join(data, name))
    contains(stoke(*again).stderr, 'remark: 2 of 24 files changed since the last checkpoint (first: ')
    assert 'changed since' not in stoke(*again).stderr, 'it was said before'
    os.utime(os.path.join(data, 'images/000005.jpg'), (1e9, 1e9))  # an older file was put there
    contains(stoke(*again).stderr, 'another size or time')


def shards_changed_under_their_names():
    """Each shard counts once, however many pictures and masks of training and validation it holds."""
    stoke('pack', make_set('shard-source', count=12, size='32x32', classes=3), '--out', path('changing-tar'), '--shard-samples', 6, '--quiet')
    stoke('train', path('changing-tar'), '--size', 32, '--batch', 2, '--steps', 6, '--stop-after', 2, '--name', 'tar', '--threads', 1)
    os.utime(path('changing-tar', '000001.tar'))
    contains(stoke('train', '--resume', 'runs/tar', '--stop-after', '1').stderr, 'remark: 1 of 2 shards changed since the last checkpoint (first: ')


def files_of_others_stay():
    """What only ends as a half-written file does is the user's; ours goes."""
    stoke(*COMMON, *KINDS['sgd'], '--name', 'swept', '--stop-after', 2)
    ours = ['state.safetensors.tmp-0123ab', 'best/config.json.tmp-0123ab', 'predictions/000002.png.tmp-0123ab', 'curves/lr.svg.tmp-0123ab']
    mine = ['notes.txt.tmp-0123ab', 'best/model.onnx.tmp-0123ab', 'predictions/my.png.tmp-0123ab', 'curves/mine.svg.tmp-0123ab']
    for name in ours + mine:
        os.makedirs(os.path.dirname(os.path.join(folder('swept'), name)), exist_ok=True)
        open(os.path.join(folder('swept'), name), 'w').close()
    resume('swept', '--stop-after', 1)
    equal([name for name in ours + mine if os.path.exists(os.path.join(folder('swept'), name))], mine)


def package_reads_the_state():
    """And would write the same bytes, but for the order of the two notes."""
    sys.path.append(os.environ.get('STOKE_TEST_PYTHON', ''))  # the environment of scripts/install-deps
    try:
        from safetensors import safe_open
        from safetensors.numpy import load_file, save
    except ImportError as error:
        raise tap.Skip('the safetensors package of Python is not installed') from error
    state = os.path.join(whole('adamw'), 'state.safetensors')
    with safe_open(state, 'numpy') as file:
        metadata = file.metadata()
    equal(sorted(metadata), ['stoke_state', 'stoke_state_xxh3'])
    wanted = open(state, 'rb').read()
    tensors = load_file(state)
    assert any(save(tensors, metadata=metadata) == wanted for _ in range(50)), 'the bytes are others'


sys.exit(tap.run([
    ('kill -9 at step 9 of 20', killed_at_step_9),
    ('kill -9 while a checkpoint is written', killed_in_a_checkpoint),
    ('kill -9 before the first checkpoint', killed_before_the_first_checkpoint),
    ('kill -9 between the last state and last/', killed_between_state_and_weights),
    ('in four sessions', in_four_sessions),
    ('a damaged state is refused', damaged_state),
    ('files that changed under their names', files_changed_under_their_names),
    ('shards that changed under their names', shards_changed_under_their_names),
    ('files of others in a run', files_of_others_stay),
    ('the safetensors package reads the state', package_reads_the_state),
]))
