# SPDX-License-Identifier: Apache-2.0
"""stoke check: the list before a training starts, its exit status, and what it says when it cannot see."""
import os
import shlex
import sys

from cli import contains, equal, make_set, path, stoke, stoke_json, tap

DATA = make_set('faces', count=9)
NO_CARD = dict(os.environ, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1')
CARD = dict(os.environ, STOKE_LIBNVML=os.environ['STOKE_FAKE_LIBNVML'])
SECTIONS = 'data:\n  root: %s\n  batch_size: 4\n  num_workers: %s\n  image_size: 64\ntraining:\n  use_amp: %s\n  epochs: 3\nmodel:\n  name: segformer-b0\n'


def write(name, text):
    with open(path(name), 'w') as out:
        out.write(text)
    return path(name)


def lines(*args, code=0, env=NO_CARD):
    answer = stoke_json('check', *args, code=code, env=env)
    keys = [line['key'] for line in answer['lines']]
    equal(len(set(keys)), len(keys), 'keys that differ')
    counts = {verdict: sum(line['verdict'] == verdict for line in answer['lines']) for verdict in ('pass', 'warn', 'fail', 'n/a')}
    equal([answer['pass'], answer['warn'], answer['fail'], answer['na']], list(counts.values()), 'counts')
    for line in answer['lines']:
        assert line['figure'], line
        assert line['verdict'] not in ('warn', 'fail') or line['fix'], f'no remedy: {line}'
        assert line['verdict'] != 'pass' or (line['fix'] is None and line['source'] != 'n/a'), line
    return answer, {line['key']: line for line in answer['lines']}


def our_own_file():
    file = write('train.yaml', stoke('config', '--train', DATA, '--size', 64, '--batch', 2, '--classes', 5, '--workers', 1).stdout)
    answer, line = lines('--config', file)
    equal((answer['engine'], answer['dialect'], answer['ready']), ('native', 'stoke.yaml', True))
    equal(sorted(line), ['data', 'disk', 'huge_pages', 'memory', 'numa', 'page_cache', 'workers'], 'lines: nothing of cards and PyTorch')
    contains(line['data']['figure'], '9 pairs')
    contains(line['memory']['figure'], 'b0, batch 2, 64x64:', 'the host has free ')
    equal(line['data']['verdict'], 'pass')


def what_training_chooses():
    file = write('auto.yaml', f'data: {DATA}\n')
    line = lines('--config', file)[1]
    equal(line['memory']['verdict'], 'n/a')
    contains(line['memory']['fix'], f'stoke train --config {file} --dry-run')
    bare = write('bare.yaml', 'seed: 5\n')
    remedy = lines('--config', bare, '--data', DATA)[1]['memory']['fix']
    equal(remedy, f'stoke train --config {bare} --data {DATA} --dry-run')
    equal(stoke(*remedy.split()[1:], '--quiet').stdout, '')


def without_a_card():
    file = write('x_config.yaml', SECTIONS % (DATA, 0, 'false'))
    answer, line = lines('--config', file)
    equal((answer['engine'], answer['dialect'], answer['ready']), ('torch', 'sections', True))
    for key in ('driver', 'versions', 'mixed_precision', 'memory'):
        equal(line[key]['verdict'], 'n/a', key)
    contains(answer['no_card'], '/nowhere/libnvidia-ml.so.1')
    contains(line['memory']['fix'], '--gpu NAME')
    text = stoke('check', '--config', file, env=NO_CARD).stdout
    equal(text.count('libnvidia-ml'), 1, 'said once')
    assert text.rstrip().splitlines()[-1].startswith('No card is seen here: '), 'and last'
    contains(line['memory']['figure'], 'the card: what it has is not known')
    equal((line['workers']['verdict'], line['pin_memory']['verdict']), ('warn', 'n/a'))
    contains(line['workers']['fix'], f'stoke optimize --config {file}')
    assert 'persistent_workers' not in line and 'shm' not in line, 'without workers there is nothing to say of them'


def with_a_card():
    file = write('y_config.yaml', SECTIONS % (DATA, 2, 'bf16'))
    line = lines('--config', file, env=CARD)[1]
    contains(line['driver']['figure'], 'Fake GPU 24 GB', 'card 0 of 2', '550.54.14')
    equal((line['driver']['verdict'], line['driver']['source']), ('pass', 'nvml'))
    equal((line['mixed_precision']['verdict'], line['bf16']['verdict'], line['memory']['verdict']), ('pass', 'pass', 'pass'))
    equal(line['pcie']['verdict'], 'warn')  # 8 lanes of 16
    contains(line['pcie']['figure'], '8 lanes of 16')
    equal(line['clocks']['verdict'], 'warn')
    contains(line['clocks']['figure'], 'power limit')
    equal(line['persistent_workers']['verdict'], 'warn')
    big = write('big.yaml', SECTIONS.replace('64', '1024').replace('size: 4', 'size: 64') % (DATA, 2, 'true'))
    answer, line = lines('--config', big, '--model', 'b5', code=1, env=CARD)
    equal((line['memory']['verdict'], answer['ready']), ('fail', False))
    contains(line['memory']['fix'], 'stoke estimate --model b5 --batch 64 --size 1024x1024')
    stoke(*line['memory']['fix'].split()[1:])
    contains(stoke('check', '--config', big, '--gpu', 2, code=2, env=CARD).stderr, 'there is no card 2')


def a_card_elsewhere():
    """Named, it need not be here; what depends on its machine is not said of this one."""
    file = write('e_config.yaml', SECTIONS.replace('64', '512').replace('size: 4', 'size: 64') % (DATA, 8, 'false'))
    answer, line = lines('--config', file, '--gpu', 'RTX 3060', code=1)
    equal((line['memory']['verdict'], line['mixed_precision']['verdict'], line['workers']['verdict']), ('fail', 'warn', 'n/a'))
    contains(line['memory']['figure'], 'RTX 3060 has 12.0 GiB', ' GiB and 1 GiB to spare')
    contains(line['workers']['fix'], "--gpu 'RTX 3060' --cores N")
    equal(answer['no_card'], None)
    assert 'shm' not in line and 'numa' not in line, 'of this machine'
    line = lines('--config', file, '--gpu', 'RTX 3060', '--cores', 12, code=1)[1]
    contains(line['workers']['figure'], '12 cores: 8 usual')
    contains(line['pin_memory']['fix'], "--gpu 'RTX 3060' --cores 12")
    equal(lines('--config', file, '--vram', 80)[1]['memory']['verdict'], 'pass')
    contains(lines('--config', file, '--gpu', 1, env=CARD)[1]['driver']['figure'], 'Fake GPU 80 GB')
    contains(stoke('check', '--config', file, '--gpu', 'RTX 4900', code=2).stderr, 'did you mean RTX 4090?', '--vram')


def several_cards():
    """devices: -1 is all that are seen, one process for each; their loaders share the cores."""
    file = write('ddp.yaml', 'trainer:\n  devices: -1\n  strategy: ddp\ntrain_ds:\n  batch_size: 4\n  num_workers: 1\n')
    line = lines('--config', file, env=CARD)[1]
    contains(line['devices']['figure'], '2 (devices: -1); a step sees 4 x 2 = 8 samples')
    contains(line['workers']['figure'], 'for 2 processes')
    equal(lines('--config', file)[1]['devices']['verdict'], 'n/a')
    for said, n in (('[0, 1]', 2), ('"0,1"', 2), ('[1]', 1)):
        file = write('listed.yaml', f'trainer:\n  devices: {said}\n  strategy: ddp\ntrain_ds:\n  batch_size: 4\n  num_workers: 1\n')
        contains(lines('--config', file, env=CARD)[1]['devices']['figure'], f'{n} (devices: ')
    line = lines('--config', write('three.yaml', 'devices: 3\nbatch_size: 4\nnum_workers: 1\n'), code=1, env=CARD)[1]
    equal(line['devices']['verdict'], 'fail')


def the_remedies_work():
    """What the list says to type can be typed, and after it the list is shorter."""
    file = write('my faces_config.yaml', SECTIONS % (DATA, 0, 'false'))
    before = lines('--config', file, env=CARD)[1]
    remedies = {line['fix'] for line in before.values() if line['fix'] and line['fix'].startswith('stoke optimize')}
    equal(remedies, {f"stoke optimize --config '{file}' --vram 24"})
    stoke(*shlex.split(remedies.pop())[1:], env=CARD)
    after = lines('--config', path('my faces_gpu_optimized.yaml'), env=CARD)[1]
    for key in ('workers', 'pin_memory', 'mixed_precision'):
        equal((before[key]['verdict'], after[key]['verdict']), ('warn', 'pass'), key)
    equal(after['persistent_workers']['verdict'], 'pass')


def what_stops_pytorch():
    file = write('z.yaml', 'train_ds:\n  batch_size: 4\n  num_workers: 0\n  persistent_workers: true\n  prefetch_factor: 2\n')
    answer, line = lines('--config', file, code=1)
    equal(answer['dialect'], 'train_ds')
    equal((line['persistent_workers']['verdict'], line['prefetch']['verdict']), ('fail', 'fail'))
    equal(line['data']['verdict'], 'n/a')


def data_that_is_not_whole():
    broken = make_set('broken', count=5)
    os.remove(os.path.join(broken, 'masks', sorted(os.listdir(os.path.join(broken, 'masks')))[0]))
    file = write('flat.yaml', f'batch_size: 3\nnum_workers: 1\ndata_root: {broken}\n')
    line = lines('--config', file)[1]
    equal(line['data']['verdict'], 'warn')
    contains(line['data']['figure'], '4 pairs; 1 file')
    equal(line['drop_last']['verdict'], 'warn')  # 4 = 3 + 1
    line = lines('--config', file, '--data', path('nowhere'), code=1)[1]
    equal(line['data']['verdict'], 'fail')
    contains(line['data']['figure'], 'nowhere')


def for_people():
    file = write('p_config.yaml', SECTIONS % (DATA, 0, 'false'))
    done = stoke('check', '--config', file, env=NO_CARD)
    equal(done.stderr, '')
    contains(done.stdout, 'for PyTorch on a card (sections)', '\nwarn  workers ', '-> stoke optimize', '\nn/a   driver and card ',
             'pass, ', '0 fail')


def what_is_not_said():
    theirs = write('hf.yaml', 'per_device_train_batch_size: 8\nnum_train_epochs: 3\n')
    answer = lines('--config', theirs, '--gpu', 'RTX 3090')[1]
    equal((answer['pin_memory']['verdict'], answer['pin_memory']['figure']), ('pass', 'not said, so on'))
    contains(answer['workers']['figure'], 'not said, so 0')
    flat = write('few.yaml', 'batch_size: 8\nnum_workers: 4\n')
    answer = lines('--config', flat, '--gpu', 'RTX 3090')[1]
    contains(answer['pin_memory']['figure'], 'not said, so off')


def workers_that_python_computes():
    """Some number stands there: neither 'not said' nor the errors of a loader without workers."""
    text = ('BATCH_SIZE = 4\nIMAGE_SIZE = (64, 64)\nMODEL_NAME = "segformer-b0"\nEPOCHS = 3\n'
            'NUM_WORKERS = %s\nPERSISTENT_WORKERS = True\nPREFETCH_FACTOR = 4\n')
    file = write('computed.py', text % 'os.cpu_count() // 2')
    answer, line = lines('--config', file)
    equal((answer['fail'], line['workers']['verdict'], line['persistent_workers']['verdict']), (0, 'n/a', 'pass'))
    contains(line['workers']['figure'], 'os.cpu_count() // 2', 'where it runs')
    assert 'o workers make batches' not in stoke('why', 'slow', '--config', file, env=NO_CARD).stdout
    equal(lines('--config', write('none.py', text % 0), code=1)[1]['persistent_workers']['verdict'], 'fail')


def a_batch_that_python_computes():
    _, line = lines('--config', write('computed.py', 'MODEL = "b0"\nIMAGE_SIZE = 64\nBATCH_SIZE: int = 2 * 2\n'))
    contains(line['memory']['figure'], 'a batch of 2 * 2')
    contains(line['memory']['fix'], 'as a number')


def asked_wrongly():
    contains(stoke('check', code=2).stderr, 'stoke check --config train.yaml')
    contains(stoke('check', '--config', path('none.yaml'), code=2).stderr, 'none.yaml')
    contains(stoke('check', '--config', write('bad.yaml', 'a: [1\n'), code=2).stderr, 'bad.yaml')
    own = write('own.yaml', 'clip_norm: 1\nval_split: 0.1\nbatch: many\n')
    contains(stoke('check', '--config', own, code=2).stderr, 'batch')
    two = write('two.yaml', 'a:\n  batch_size: 1\nb:\n  batch_size: 2\n')
    contains(stoke('check', '--config', two, code=2).stderr, '--map batch_size=')
    equal(lines('--config', two, '--map', 'batch_size=b.batch_size')[0]['fail'], 0)
    contains(stoke('check', '--config', own.replace('own', 'flat'), '--model', 'b9', code=2).stderr, 'b9')


sys.exit(tap.run([
    ('our own file', our_own_file),
    ('what training chooses', what_training_chooses),
    ('without a card', without_a_card),
    ('with a card', with_a_card),
    ('a card that is elsewhere', a_card_elsewhere),
    ('several cards', several_cards),
    ('the remedies work', the_remedies_work),
    ('what stops PyTorch', what_stops_pytorch),
    ('data that is not whole', data_that_is_not_whole),
    ('for people', for_people),
    ('what is not said', what_is_not_said),
    ('workers that Python computes', workers_that_python_computes),
    ('a batch that Python computes', a_batch_that_python_computes),
    ('asked wrongly', asked_wrongly),
]))
