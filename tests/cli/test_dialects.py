# SPDX-License-Identifier: Apache-2.0
"""Settings files as people write them, in every dialect: each command reads them, and the three steps lead from such a file to a trained network."""
import json
import os
import sys

from cli import WORK, contains, equal, make_set, path, stoke, stoke_json, tap

DATA = make_set('data', count=12, size='40x40', classes=4)

FLAT = '''# as in a paper's repository
model_name: nvidia/segformer-b0-finetuned-ade-512-512   # pretrained elsewhere
data_root: data
batch_size: "4"
num_workers: 0
learning_rate: 1.0e-3
num_epochs: 2
use_mixed_precision: false
image_size: 32
num_classes: 4
val_split: 0.25
weight_decay_end: 0.1
logger: {name: x}
'''
SECTIONS = '''data:
  root: ./data
  batch_size: 4
  num_workers: 1
  val_split: 0.25
model:
  name: segformer-b0
  num_classes: 4
training:
  epochs: 1
  lr: 0.001
  use_amp: true
  use_gpu_augmentation: false
  image_size: [32, 32]
'''
TRAIN_DS = '''model: mit_b0
num_classes: 4
image_size: (32, 32)
train_ds:
  root: data
  batch_size: 4-8
  num_workers: 1
  pin_memory: true
  persistent_workers: true
  prefetch_factor: 2
validation_ds:
  batch_size: 2
  num_workers: 1
optim:
  name: sgd
  lr: 0.01
'''
LIGHTNING = '''loader: &loader
  batch_size: 4
data:
  <<: *loader
  data_dir: data
  num_workers: 1
  image_size: 32
model: {encoder_name: mit_b0, num_classes: 4, lr: 1.0e-3}
trainer:
  accelerator: gpu
  devices: -1
  strategy: ddp
  precision: 16-mixed
  max_epochs: 1
  accumulate_grad_batches: 2
  gradient_clip_val: 0.5
  log_every_n_steps: 5
'''
HUGGING_FACE = '''{
  "model_name_or_path": "nvidia/mit-b0",
  "data_dir": "data",
  "image_size": 32,
  "num_labels": 4,
  "per_device_train_batch_size": 4,
  "per_device_eval_batch_size": 4,
  "dataloader_num_workers": 1,
  "fp16": false,
  "num_train_epochs": 1.0,
  "max_steps": -1,
  "learning_rate": 6e-05,
  "lr_scheduler_type": "cosine",
  "warmup_ratio": 0.1
}
'''
UPPER = '''TrainingConfig:
  BATCH_SIZE: 4
  MODEL_NAME: nvidia/segformer-b0-finetuned-ade-512-512
  NUM_EPOCHS: 1
  INIT_LR: 3.0e-4
  USE_SCHEDULER: true
  NUM_WORKERS: 1
DatasetConfig:
  IMAGE_SIZE: [32, 32]
  NUM_CLASSES: 4
  DATA_ROOT: data
'''
PYTHON = '''"""Settings of a training."""
import os
from dataclasses import dataclass


@dataclass
class TrainingConfig:
    BATCH_SIZE: int = 4   # of one card
    MODEL_NAME: str = "nvidia/segformer-b0-finetuned-ade-512-512"
    NUM_EPOCHS: int = 1
    INIT_LR: float = 3e-4
    NUM_WORKERS: int = 1
    OUT = os.path.join("out", "x")


@dataclass
class DatasetConfig:
    IMAGE_SIZE: tuple = (32, 32)
    NUM_CLASSES: int = 4
    DATA_ROOT: str = "data"


raise SystemExit("never executed")
'''
OWN = 'data: data\nmodel: b0\nsize: 32\nbatch: 4\nworkers: 1\nclasses: 4\nclip_norm: 0\nval_split: 0.25\n'
FILES = {'flat.yaml': FLAT, 'sections.yaml': SECTIONS, 'train_ds.yaml': TRAIN_DS, 'lightning.yaml': LIGHTNING, 'hf.json': HUGGING_FACE,
         'upper.yaml': UPPER, 'constants.py': PYTHON, 'own.yaml': OWN}


def config(name, text=None):
    stem, ending = os.path.splitext(name)
    file = path('configs', f'{stem}_config{ending}')
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, 'w') as out:
        out.write(FILES[name] if text is None else text)
    return os.path.relpath(file, WORK)


def commands_read(name):
    def test():
        file = config(name)
        commands = [['verify'], ['hash', '--batch', 2], ['check'], ['why', 'loading'], ['config'], ['estimate'],
                    ['recommend', '--choose-model', '--vram', 8]]
        if name in ('lightning.yaml', 'constants.py'):
            commands += [['dump', '--out', path('dumped-' + name), '--batches', 1, '--batch', 2], ['show', '--out', path('shown.png')],
                         ['pack', '--out', path('packed-' + name)], ['recipe', 'progressive', '--dry-run']]
        if name == 'constants.py':  # a sweep takes 3 s, and the others are read by the same way
            commands += [['find-lr', '--sweep-steps', 100, '--batch', 2, '--out', path('lr.svg')]]
        for command in commands:
            done = stoke(*command, '--config', file, code=None)
            # 1: what `check` found wrong
            assert done.returncode == 0 or (done.returncode == 1 and command[0] == 'check'), f'{command} {name}: {done.returncode}\n{done.stderr}'
        settings = stoke_json('config', '--train', '--config', file)
        equal((settings['data'].lstrip('./'), settings['batch'], settings['size'], settings['classes'], settings['model']),
              ('data', 4, [32, 32], 4, 'b0'), name)
    return test


def what_was_understood_has_its_line():
    text = stoke('config', '--train', '--config', config('flat.yaml')).stdout
    for line in ('batch: 4  (line 4: batch_size)', 'model: "b0"  (line 2: model_name)', 'lr: 0.001  (line 6: learning_rate)'):
        contains(text, '#   ' + line)


def keys_of_no_use_are_one_remark():
    done = stoke('hash', '--config', config('flat.yaml'), '--batch', 4)
    lines = [line for line in done.stderr.splitlines() if 'not used here' in line]
    equal(len(lines), 1)
    contains(lines[0], 'configs/flat_config.yaml: not used here: ')
    equal('batch_size' in lines[0], False)
    equal('not used here' in stoke('hash', '--config', config('flat.yaml'), '--quiet').stderr, False)


def a_slip_in_a_file_of_ours():
    """A file of ours with a key of others is read as somebody's, but not what is a letter off: training would go on without it."""
    ours = 'data: data\nmodel: b0\nsize: 32\nlr: 0.01\n'
    for foreign in ('batch_size: 4\n', 'image_size: 32\n', 'batch: 4\nimage_size: 32\n'):
        for slip, meant in (('epohcs: 5', 'epochs'), ('clip_nrm: 1', 'clip_norm'), ('val_spilt: 0.2', 'val_split'), ('eval-evry: 5', 'eval_every')):
            file = config('slip.yaml', ours + foreign + slip + '\n')
            line = len((ours + foreign).splitlines()) + 1
            for command in (['config', '--train'], ['config'], ['train', '--dry-run'], ['check'], ['why', 'slow'], ['find-batch'], ['estimate'], ['diagnose'],
                            ['optimize', '--dry-run'])[:None if foreign == 'batch_size: 4\n' and meant == 'epochs' else 1]:
                done = stoke(*command, '--config', file, code=None)
                assert done.returncode in (1, 2), (command, done.returncode)
                contains(done.stderr, f"{file}:{line}: unknown setting '{slip.split(':')[0]}': did you mean {meant}?")
    # What nobody here is called, and what is near a setting that the file has, is no slip.
    for more in ('scheduler_gamma: 0.5', 'mode: train', 'lrs: 3'):
        contains(stoke('config', '--train', '--config', config('slip.yaml', ours + 'batch_size: 4\n' + more + '\n')).stderr, 'not used here', more.split(':')[0])
    # In somebody's file nothing is: of these each is a letter from one of ours.
    theirs = config('slip.yaml', 'model: mit_b0\nlr: 0.01\noptimizer: adamw\nbatch_size: 4\nbetas: [0.9, 0.999]\nstep: 10\nnamed: x\n')
    contains(stoke('config', '--train', '--config', theirs).stderr, 'not used here: betas, step, named')
    # A key of ours counts in somebody's file, too.
    equal(stoke_json('config', '--train', '--config', config('slip.yaml', FLAT + 'clip_norm: 0.25\n'))['clip_norm'], 0.25)


def flags_are_above_the_file():
    settings = stoke_json('config', '--train', '--config', config('lightning.yaml'), '--batch', 2, '--model', 'segformer-b1', '--precision', 'bf16-true')
    equal((settings['batch'], settings['model'], settings['precision'], settings['accumulate']), (2, 'b1', 'bf16', 2))


def another_network_is_not_trained_in_silence():
    file = config('flat.yaml', FLAT.replace('nvidia/segformer-b0-finetuned-ade-512-512', 'deeplabv3_resnet50'))
    message = stoke('train', '--config', file, '--steps', 1, code=None)
    equal(message.returncode != 0, True)
    contains(message.stderr, 'deeplabv3_resnet50 is no network that is trained here')
    contains(message.stderr, '--model b0')
    stoke('train', '--config', file, '--steps', 1, '--model', 'b0', '--runs', path('other'))


def three_steps(name):
    def test():
        file = config(name)
        stem, ending = os.path.splitext(file)
        first, second = (stem.removesuffix('_config') + '_gpu_optimized' + more + ending for more in ('', '_optimized'))
        stoke('optimize', '--config', file)
        stoke('optimize', '--config', first, '--benchmark')
        assert os.path.exists(path(second)), f'{second} was not written: {os.listdir(path("configs"))}'
        runs = path('runs', name)
        stoke('train', '--config', second, '--steps', 2, '--size', 32, '--batch', 2, '--runs', runs)
        (run,) = os.listdir(runs)
        with open(os.path.join(runs, run, 'best', 'config.json')) as stream:
            equal(json.load(stream)['model_type'], 'segformer')
    return test


def trains_from(name):
    def test():
        runs = path('direct', name)
        stoke('train', '--config', config(name), '--steps', 2, '--batch', 2, '--runs', runs)
        (run,) = os.listdir(runs)
        assert os.path.exists(os.path.join(runs, run, 'best', 'model.safetensors')), name
    return test


STEPPED = FILES if tap.FULL else ('flat.yaml', 'hf.json', 'constants.py')  # one of each kind of file: the splice is the same for all YAML
sys.exit(tap.run([
    ('what was understood has its line', what_was_understood_has_its_line),
    ('keys of no use are one remark', keys_of_no_use_are_one_remark),
    ('a slip in a file of ours', a_slip_in_a_file_of_ours),
    ('flags are above the file', flags_are_above_the_file),
    ('another network is not trained in silence', another_network_is_not_trained_in_silence),
] + [(f'commands read {name}', commands_read(name)) for name in FILES]
  + [(f'a network is trained from {name}', trains_from(name)) for name in FILES]
  + [(f'three steps lead from {name} to a trained network', three_steps(name)) for name in STEPPED]))
