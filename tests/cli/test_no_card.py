# SPDX-License-Identifier: Apache-2.0
"""A machine without a GPU: every command that advises, on every dialect of settings files, does what it can and says what it cannot."""
import json
import os
import sys

from cli import contains, equal, make_set, path, stoke, tap

DATA = make_set('data', count=12, size='40x40', classes=4)
ENV = dict(os.environ, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1')

# Networks of our own: SegFormer, and the small residual one by its sizes, its name and its old name.
FILES = {
    'own.yaml': 'data: data\nmodel: b0\nsize: 32\nbatch: 4\nworkers: 1\nclasses: 4\n',
    'own_resnet.yaml': 'data: data\nmodel: resnet\nsize: 16\nbatch: 4\nworkers: 1\nclasses: 4\n',
    'flat.yaml': 'model_name: nvidia/mit-b0\ndata_root: data\nbatch_size: 4\nnum_workers: 0\nlearning_rate: 0.001\nimage_size: 32\nnum_classes: 4\n',
    'lightweight.yaml': 'base_channels: 8\nnum_blocks: 2\npatch_size: 16\nbatch_size: 16\nnum_workers: 0\n',
    'named.yaml': 'model: smallnet\nbase_channels: 8\nnum_blocks: 2\npatch_size: 16\nbatch_size: 4\nuse_mixed_precision: false\n',
    'sections.yaml': 'data:\n  root: data\n  batch_size: 4\n  num_workers: 0\nmodel: {name: segformer-b0, num_classes: 4}\ntraining:\n  lr: 0.001\n  image_size: 32\n',
    'train_ds.yaml': 'model: mit_b0\nnum_classes: 4\nimage_size: 32\ntrain_ds: {root: data, batch_size: 4, num_workers: 0}\nvalidation_ds: {batch_size: 2, num_workers: 0}\n',
    'lightning.yaml': 'data: {data_dir: data, batch_size: 4, num_workers: 0, image_size: 32}\nmodel: {encoder_name: mit_b0, num_classes: 4}\n'
                      'trainer: {accelerator: gpu, devices: 1, max_epochs: 1}\n',
    'lightning_resnet.yaml': 'model:\n  class_path: nets.Small\n  init_args: {base_channels: 8, num_blocks: 2}\n'
                             'data:\n  class_path: sets.Data\n  init_args: {batch_size: 4, num_workers: 0, patch_size: 16}\ntrainer: {max_epochs: 1}\n',
    'hf.json': json.dumps({'model_name_or_path': 'nvidia/mit-b0', 'data_dir': 'data', 'image_size': 32, 'num_labels': 4,
                           'per_device_train_batch_size': 4, 'dataloader_num_workers': 0, 'learning_rate': 6e-5}, indent=1),
    'constants.py': 'class TrainingConfig:\n    BATCH_SIZE: int = 4\n    MODEL_NAME = "nvidia/mit-b0"\n    NUM_WORKERS = 0\n\n\n'
                    'class DatasetConfig:\n    IMAGE_SIZE = (32, 32)\n    NUM_CLASSES = 4\n    DATA_ROOT = "data"\n',
    'small.py': 'BASE_CHANNELS = 8\nNUM_BLOCKS = 2\nPATCH_SIZE = 16\nBATCH_SIZE = 4\nNUM_WORKERS = 0\n',
    'theirs.yaml': 'model: lmsa_net\nbatch_size: 4\nnum_workers: 0\nimage_size: 32\nlr: 0.001\n',
}
OURS = ('own.yaml', 'own_resnet.yaml')
RESNET = ('own_resnet.yaml', 'lightweight.yaml', 'named.yaml', 'lightning_resnet.yaml', 'small.py')
BASIC = {'mixed_precision', 'num_workers', 'pin_memory', 'persistent_workers', 'prefetch_factor', 'grad_clip'}


def config(name):
    stem, ending = os.path.splitext(name)
    file = path('configs', f'{stem}_config{ending}')
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, 'w') as out:
        out.write(FILES[name])
    return os.path.relpath(file, path())


def run(*command, code=0):
    done = stoke(*command, env=ENV, code=code)
    if 'found here' in done.stderr:  # AMD's or Intel's is here
        raise tap.Skip('a card is here')
    return done


def answer(*command, code=0):
    return json.loads(run(*command, '--json', code=code).stdout)


def optimized(name):
    stem, ending = os.path.splitext(name)
    return path('configs', f'{stem}_gpu_optimized{ending}')


def writes(name):
    """The basic mode: a file is written, and what a card decides is left and said."""
    def test():
        file = config(name)
        done = answer('optimize', '--config', file, '--allow-model-scale')
        assert done['written'] and os.path.exists(optimized(name)), done
        equal(done['card_found'], None)
        got, remarks = {c['setting']: c['to'] for c in done['changes']}, '\n'.join(done['remarks'])
        assert not {'batch_size', 'base_channels', 'num_blocks', 'patch_size'} & set(got), got
        if name in OURS:
            contains(remarks, 'batch: 4 is left', '`stoke find-batch`')
            return
        contains(remarks, 'none is seen or named here', 'is left: ')
        if name in RESNET:
            contains(remarks, 'left: how large the network may grow depends on the card')
        if name != 'theirs.yaml':
            contains(remarks, 'depends on the memory of the card')
        # On by default; arguments that a class of one's own may not take.
        lacks = {'hf.json': {'pin_memory', 'grad_clip', 'prefetch_factor'},
                 'lightning_resnet.yaml': {'pin_memory', 'persistent_workers', 'prefetch_factor'}}.get(name, set())
        assert BASIC - lacks <= set(got), (name, got)
        again = answer('optimize', '--config', os.path.relpath(optimized(name), path()), '--dry-run')
        equal([c['setting'] for c in again['changes']], [], 'of a file that is optimized')
    return test


def reads(name):
    def test():
        file = config(name)
        run('recommend', '--config', file)
        checked = answer('check', '--config', file)
        memory = [line for line in checked['lines'] if line['key'] == 'memory'][0]
        if name == 'theirs.yaml':
            contains(run('estimate', '--config', file, code=2).stderr, 'lmsa_net')
        else:
            model = 'resnet' if name in RESNET else 'b0'
            contains(memory['figure'], model)
            estimate = answer('estimate', '--config', file)
            equal((estimate['model'], estimate['native']['problem']), (model, None))
            assert 0 < estimate['native']['total_bytes'] < 1 << 30, estimate
        for trouble in ('slow', 'oom', 'unstable', 'loading'):
            run('why', trouble, '--config', file)
        run('diagnose', DATA, '--config', file, '--steps', 4, '--step-ms', 2, '--size', 32)
    return test


def tries(name):
    """The native engine trains what the file names, on this processor."""
    def test():
        file = config(name)
        found = answer('find-batch', '--config', file, '--steps', 3, '--although-busy')
        equal((found['source'], found['device'], found['model']), ('measured', 'native', 'resnet' if name in RESNET else 'b0'))
        assert found['batch'] and all(t['outcome'] == 'ok' for t in found['trials']), found
        config(name)
        done = run('optimize', '--config', file, '--benchmark', '--steps', 3, '--dry-run')
        contains(done.stdout, 'Measured on this processor: ')
        if name not in OURS:
            contains(done.stderr, 'trials run on this processor with our own network')
    return test


def sizes_count():
    """The trial is of the network that the file describes, and the estimate agrees with it."""
    small, large = FILES['lightweight.yaml'], FILES['lightweight.yaml'].replace('base_channels: 8', 'base_channels: 32').replace('16\nnum_w', '2\nnum_w')
    held = []
    for text in (small, large):
        FILES['sized.yaml'] = text + 'use_mixed_precision: false\n'
        file = config('sized.yaml')
        trials = answer('find-batch', '--config', file, '--steps', 3, '--although-busy', '--size', 64)['trials']
        held.append([t['allocated_bytes'] for t in trials if t['batch'] == 4][0])
    assert held[1] > 2 * held[0], held
    # What is kept of the network is `stoke plan`'s, which knows no file.
    plan = answer('plan', 'resnet', '--task', 'restore', '--base-channels', 32, '--num-blocks', 2, '--size', 64, '--batch', 4)
    taken = plan['parameters_bytes'] + plan['packed_bytes'] + plan['tensors_bytes'] + plan['workspace_bytes']
    assert taken <= held[1] <= taken + (64 << 20), (taken, held[1])  # the process besides


def of_others():
    file = config('theirs.yaml')
    contains(run('find-batch', '--config', file, code=2).stderr, "'lmsa_net' is no network that runs here", 'BatchSizeOptimizer')
    done = run('optimize', '--config', file, '--benchmark')
    contains(done.stderr, 'no trials', "'lmsa_net'", 'batch stays')
    assert os.path.exists(path('configs', 'theirs_config_optimized.yaml'))


def advice_for_what_the_file_names():
    small = {line['key'] for line in answer('recommend', '--config', config('lightweight.yaml'), '--vram', 8)['settings']}
    assert {'base_channels', 'num_blocks', 'patch_size'} <= small, small
    large = {line['key'] for line in answer('recommend', '--config', config('flat.yaml'), '--vram', 8)['settings']}
    assert 'model' in large and 'base_channels' not in large, large
    told = {line['key'] for line in answer('recommend', '--config', config('lightweight.yaml'), '--task', 'segformer')['settings']}
    assert 'model' in told, told


def files_that_cannot_be_read():
    """One sentence names the file, once."""
    for name, data in (('broken.yaml', b'a: [1\nb: 2\n'), ('latin.yaml', b'# caf\xe9\na: 1\n'), ('twice.yaml', b'batch_size: 1\nbatch_size: 2\n'),
                       ('documents.yaml', b'a: 1\n---\nb: 2\n'), ('folder.yaml', None), ('nowhere.yaml', None)):
        if data is not None:
            with open(path(name), 'wb') as out:
                out.write(data)
        elif name == 'folder.yaml':
            os.makedirs(path(name))
        for command in (['optimize'], ['recommend'], ['check'], ['estimate'], ['diagnose'], ['find-batch'], ['why', 'slow'], ['train'], ['config']):
            done = run(*command, '--config', name, code=None)
            assert done.returncode in (1, 2), (command, name, done.returncode)
            equal(done.stderr.count(name), 1, f'{command} {name}: {done.stderr}')


TRIED = FILES if tap.FULL else ('own_resnet.yaml', 'lightweight.yaml', 'lightning_resnet.yaml', 'small.py', 'hf.json')
sys.exit(tap.run([(f'{name} is optimized', writes(name)) for name in FILES]
                 + [(f'{name} is read by all that advise', reads(name)) for name in FILES]
                 + [(f'{name} is tried on the processor', tries(name)) for name in TRIED if name != 'theirs.yaml']
                 + [('the sizes of the network count', sizes_count),
                    ('a network of others', of_others),
                    ('advice for what the file names', advice_for_what_the_file_names),
                    ('files that cannot be read', files_that_cannot_be_read)]))
