# SPDX-License-Identifier: Apache-2.0
"""stoke optimize: the file it writes, what it says of it, and what it leaves alone."""
import json
import os
import sys

from cli import contains, equal, path, stoke, stoke_json, tap

try:
    import yaml
except ImportError:
    yaml = None

SECTIONS = '''# 人脸解析训练配置
data:
  root: data/faces   # 数据
  batch_size: 8      # as in the paper
  num_workers: 0
  image_size: 288

training:
  lr: 3e-4
  epochs: 30
  use_amp: no
'''
FLAT = 'batch_size: 8\nnum_workers: 2\nuse_mixed_precision: false\nlearning_rate: 0.001\n'
TRAIN_DS = '''train_ds:
  batch_size: 4
  num_workers: 0
val_ds:
  batch_size: 1
  num_workers: 0
trainer:
  max_epochs: 5
'''
SMALL = 'base_channels: 64\nnum_blocks: 6\npatch_size: 128\nbatch_size: 16\nnum_workers: 0\n'
CARD = ['--gpu', 'RTX 3090', '--cores', '9']
MARK = '# added by stoke optimize: your trainer must read these'


def write(name, text):
    file = path(name)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, 'wb') as out:
        out.write(text if isinstance(text, bytes) else text.encode())
    return file


def read(file):
    with open(file, 'rb') as stream:
        return stream.read()


def loaded(file):
    if yaml is None:
        raise tap.Skip('PyYAML is not installed: apt install python3-yaml')
    return yaml.safe_load(read(file))


def changes(answer):
    return {change['path']: (change['from'], change['to']) for change in answer['changes']}


def sections():
    config = write('a/configs/face_config.yaml', SECTIONS)
    answer = stoke_json('optimize', '--config', config, *CARD)
    target = path('a/configs/face_gpu_optimized.yaml')
    equal((answer['target'], answer['written'], answer['backup']), (target, True, None))
    equal(read(config).decode(), SECTIONS, 'the original')
    got = changes(answer)
    equal(got['data.num_workers'], ('0', '6'))
    equal(got['training.use_amp'], ('no', 'true'))
    equal(got['data.pin_memory'], (None, 'true'))
    equal((got['data.non_blocking'], got['data.cuda_prefetch']), ((None, 'true'), (None, 'true')))
    equal(got['data.persistent_workers'], (None, 'true'))
    equal(got['data.prefetch_factor'], (None, '8'))
    equal(got['training.grad_clip'], (None, '1.0'))
    equal(got['training.use_gpu_augmentation'], (None, 'true'))
    assert int(got['data.batch_size'][1]) > 8, got
    for change in answer['changes']:
        assert change['why'] and change['effect'] and change['source'] in ('table', 'estimated', 'given'), change
    proof = answer['proof']
    equal((proof['bytes_equal'], proof['tree_equal'], proof['bytes_before']), (True, True, len(SECTIONS.encode())))
    equal(proof['spans'], len(answer['changes']))
    # Line by line: what is not a named key is as it was, but for a comment above the new keys of each section.
    named = [p.split('.')[-1] + ':' for p in got] + [MARK]
    equal(read(target).decode().count(MARK), 2)
    contains(read(target).decode(), f'  num_workers: 6\n  image_size: 288\n  {MARK}\n  pin_memory: true\n')
    old = [line for line in SECTIONS.splitlines() if not any(n in line for n in named)]
    new = [line for line in read(target).decode().splitlines() if not any(n in line for n in named)]
    equal(new, old)
    tree = loaded(target)
    equal(tree['data']['num_workers'], 6)
    equal((tree['training']['use_amp'], tree['training']['grad_clip']), (True, 1.0))


def logging():
    config = write('g/x.yaml', 'num_workers: 2\ntrainer:\n  print_freq: 1\n')
    answer = stoke_json('optimize', '--config', config, *CARD, '--dry-run')
    equal(changes(answer)['trainer.print_freq'], ('1', '50'))
    contains([c['why'] for c in answer['changes'] if c['setting'] == 'log_every'][0], 'loss.item()', 'waits')


def card_found():
    config = write('k/x.yaml', FLAT)
    fake = dict(os.environ, STOKE_LIBNVML=os.environ['STOKE_FAKE_LIBNVML'])
    answer = stoke_json('optimize', '--config', config, '--cores', 9, '--dry-run', env=fake)
    equal((answer['card_found']['memory_bytes'], answer['card_found']['source']), (24 << 30, 'nvml'))
    contains(answer['card_found']['name'], 'Fake GPU')
    equal(changes(answer)['use_mixed_precision'], ('false', 'true'))
    contains(stoke('optimize', '--config', config, '--dry-run', env=fake).stderr, 'for the card found here', 'Fake GPU', '(nvml)')
    named = stoke_json('optimize', '--config', config, *CARD, '--dry-run', env=fake)
    equal(named['card_found'], None, 'looked for a card though one was named')
    # A lost card is none; the second one is taken.
    lost = stoke('optimize', '--config', config, '--dry-run', env=dict(fake, STOKE_FAKE_NVML='lost=0:0'))
    contains(lost.stderr, 'for the card found here')


NO_CARD = dict(os.environ, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1')


def no_card():
    """Basic mode: a file and exit 0; all that needs no memory of a card to be known is done."""
    for name, text in (('flat', FLAT), ('sections', SECTIONS), ('ds', TRAIN_DS), ('small', SMALL)):
        done = stoke('optimize', '--config', write(f'nc/{name}.yaml', text), env=NO_CARD)
        if 'found here' in done.stderr:  # AMD's or Intel's is here
            raise tap.Skip('a card is here')
        contains(done.stderr, 'no card is seen here', '--gpu', '--vram')
        assert 'libnvidia' not in done.stderr, done.stderr
        answer = stoke_json('optimize', '--config', path(f'nc/{name}.yaml'), '--dry-run', env=NO_CARD)
        got = {c['setting']: c['to'] for c in answer['changes']}
        wanted = {'mixed_precision', 'pin_memory', 'persistent_workers', 'prefetch_factor', 'grad_clip'}
        assert wanted <= set(got), (name, got)
        equal('compile' in got, name != 'ds', name)  # Lightning's Trainer has no such argument
        equal(got['prefetch_factor'], '4')
        assert 'batch_size' not in got, got
        contains('\n'.join(answer['remarks']), 'is left', 'memory of the card')
        assert os.path.exists(path(f'nc/{name}_gpu_optimized.yaml'))
    got = changes(stoke_json('optimize', '--config', path('nc/sections.yaml'), '--dry-run', env=NO_CARD))
    equal(got['training.use_gpu_augmentation'], (None, 'true'))
    # A file for the processor gains nothing by what a card would.
    cpu = stoke_json('optimize', '--config', write('nc/cpu.yaml', FLAT + 'device: cpu\n'), '--dry-run', env=NO_CARD)
    assert not {'pin_memory', 'compile', 'use_mixed_precision'} & set(changes(cpu)), cpu


def another_machine():
    """A card that is not here says nothing of the cores here, nor they of its machine."""
    config = write('am/x.yaml', FLAT.replace('num_workers: 2', 'num_workers: 12'))
    ask = ['optimize', '--config', config, '--gpu', 'RTX 4090', '--dry-run']
    answer = stoke_json(*ask, env=NO_CARD)
    assert 'num_workers' not in changes(answer), answer
    contains('\n'.join(answer['remarks']), 'num_workers: 12 is left', 'another machine')
    contains(stoke(*ask, env=NO_CARD).stderr, '--cores N')
    for cores, workers in ((6, '4'), (9, '6'), (12, None)):
        answer = stoke_json(*ask, '--cores', cores, env=NO_CARD)
        equal(changes(answer).get('num_workers', (None, None))[1], workers, f'{cores} cores')
        for change in answer['changes']:
            if change['setting'] == 'num_workers':
                equal(change['source'], 'given')
    # The same card by another name is the one found here.
    fake = dict(os.environ, STOKE_LIBNVML=os.environ['STOKE_FAKE_LIBNVML'])
    name = stoke_json('optimize', '--config', config, '--dry-run', env=fake)['card_found']['name']
    here = stoke_json('optimize', '--config', config, '--gpu', name.lower(), '--vram', 24, '--dry-run', env=fake)
    assert 'another machine' not in '\n'.join(here['remarks']), here


def learning_rate():
    config = write('lr/x_config.yaml', SECTIONS)
    answer = stoke_json('optimize', '--config', config, *CARD)
    remarks = '\n'.join(answer['remarks'])
    contains(remarks, 'training.lr: 3e-4 is kept', 'linear rule', 'square root rule', 'PyYAML reads 3e-4 as a text', '3.0e-4')
    contains(read(answer['target']).decode(), 'lr: 3e-4\n')


def dialects():
    flat = stoke_json('optimize', '--config', write('d/flat.yaml', FLAT), *CARD)
    equal(changes(flat)['use_mixed_precision'], ('false', 'true'))
    equal(flat['target'], path('d/flat_gpu_optimized.yaml'))
    assert 'use_gpu_augmentation' not in changes(flat), 'a key this dialect does not have'
    equal(read(flat['target']).decode().count(MARK), 1)
    ds = stoke_json('optimize', '--config', write('d/ds_config.yml', TRAIN_DS), *CARD)
    got = changes(ds)
    equal(got['train_ds.num_workers'], ('0', '6'))
    equal(got['val_ds.num_workers'], ('0', '3'), 'half of the workers of training')
    equal([p for p in got if p.startswith('val_ds')], ['val_ds.num_workers'])
    assert MARK not in read(ds['target']).decode(), 'DataLoader and Lightning know all of these'
    equal(ds['target'], path('d/ds_gpu_optimized.yml'))
    own = write('d/stoke.yaml', stoke('config').stdout)
    answer = stoke_json('optimize', '--config', own, *CARD)
    equal([p for p in changes(answer) if p in ('pin_memory', 'compile', 'persistent_workers')], [])
    stoke('config', '--config', answer['target'])  # still ours to read
    with open(own, 'a') as out:
        out.write('placement: host\ntransfer: pageable\ndepth: 3\nlog_every: 1\n')
    answer = stoke_json('optimize', '--config', own, *CARD, '--out', path('d/fed.yaml'))
    got = changes(answer)
    equal((got['placement'], got['transfer'], got['log_every']), (('host', 'auto'), ('pageable', 'stream'), ('1', 'auto')))
    stoke('config', '--train', '--config', answer['target'])
    equal(stoke_json('check', '--config', answer['target'], code=None)['dialect'], 'stoke.yaml')


LIGHTNING = """train_ds:
  batch_size: 16-32  # by memory
  num_workers: 0
validation_ds:
  num_workers: 0
trainer:
  accelerator: gpu
  devices: -1
  precision: 32
  max_epochs: 5
"""
# Arguments of pl.Trainer and of torch's DataLoader that may be written.
TRAINER = {'precision', 'gradient_clip_val', 'benchmark', 'accelerator', 'devices', 'max_epochs'}
LOADER = {'batch_size', 'num_workers', 'pin_memory', 'persistent_workers', 'prefetch_factor'}


def lightning():
    answer = stoke_json('optimize', '--config', write('pl/x.yaml', LIGHTNING), *CARD)
    got = changes(answer)
    equal(got['trainer.precision'], ('32', '16-mixed'))
    equal((got['trainer.gradient_clip_val'], got['trainer.benchmark']), ((None, '1.0'), (None, 'true')))
    contains(read(answer['target']).decode(), 'batch_size: 16-32  # by memory\n')
    tree = loaded(answer['target'])
    equal(set(tree['trainer']) - TRAINER, set())
    equal((set(tree['train_ds']) | set(tree['validation_ds'])) - LOADER, set())
    equal(set(tree), {'train_ds', 'validation_ds', 'trainer'})
    for precision in ('16-mixed', 'bf16-mixed', '"16"'):
        text = LIGHTNING.replace('precision: 32', f'precision: {precision}')
        got = changes(stoke_json('optimize', '--config', write('pl/y.yaml', text), *CARD, '--dry-run'))
        assert not [p for p in got if 'precision' in p], (precision, got)
    quoted = LIGHTNING.replace('precision: 32', 'precision: "32-true"')
    equal(changes(stoke_json('optimize', '--config', write('pl/z.yaml', quoted), *CARD, '--dry-run'))['trainer.precision'],
          ('32-true', '16-mixed'))


def arguments_of_a_class():
    text = ('trainer:\n  accelerator: gpu\n  max_epochs: 5\ndata:\n  class_path: mine.Faces\n  init_args:\n'
            '    batch_size: 8\n    num_workers: 0\n')
    answer = stoke_json('optimize', '--config', write('cli/x.yaml', text), *CARD)
    got = changes(answer)
    equal(got['data.init_args.num_workers'], ('0', '6'))
    equal(got['trainer.precision'], (None, '16-mixed'))
    equal(set(loaded(answer['target'])['data']['init_args']), {'batch_size', 'num_workers'})
    assert MARK not in read(answer['target']).decode()
    contains('\n'.join(answer['remarks']), 'data.init_args.pin_memory is not added', 'wanted was pin_memory: true')


def lightning_below_a_command():
    """LightningCLI writes its sections below `fit:`; Trainer has no grad_clip and no compile."""
    text = ('fit:\n  trainer:\n    accelerator: gpu\n    max_epochs: 1\n  data:\n    class_path: mine.Faces\n'
            '    init_args:\n      batch_size: 2\n      num_workers: 0\n')
    answer = stoke_json('optimize', '--config', write('fit/x.yaml', text), *CARD)
    tree = loaded(answer['target'])
    equal(set(tree), {'fit'})
    equal(set(tree['fit']['trainer']), {'accelerator', 'max_epochs', 'precision', 'gradient_clip_val', 'benchmark'})
    equal(set(tree['fit']['data']), {'class_path', 'init_args'})
    equal(set(tree['fit']['data']['init_args']), {'batch_size', 'num_workers'})


def arguments_of_trainer_alone():
    text = 'accelerator: gpu\ndevices: 2\nstrategy: ddp\nprecision: 32\nmax_epochs: 5\n'
    answer = stoke_json('optimize', '--config', write('alone/x.yaml', text), *CARD)
    equal(set(loaded(answer['target'])),
          {'accelerator', 'devices', 'strategy', 'precision', 'max_epochs', 'gradient_clip_val', 'benchmark'})
    contains('\n'.join(answer['remarks']), 'nothing of loading is in the file', 'arguments of your DataLoader')
    # Beside settings of loading somebody's own code reads both: new ones are marked.
    answer = stoke_json('optimize', '--config', write('alone/y.yaml', text + 'num_workers: 0\n'), *CARD)
    written = read(answer['target']).decode()
    assert written.index(MARK) < written.index('pin_memory: true'), written
    equal(written.count(MARK), 1)


def sections_of_a_dataloader():
    text = ('data:\n  train_dataloader:\n    batch_size: 8\n    num_workers: 8\n'
            '  val_dataloader:\n    batch_size: 8\n    num_workers: 8\n')
    answer = stoke_json('optimize', '--config', write('dl/x.yaml', text), *CARD)
    data = loaded(answer['target'])['data']
    equal(set(data['train_dataloader']), LOADER)
    equal(set(data['val_dataloader']), {'batch_size', 'num_workers'})


def targets_of_hydra():
    text = ('trainer:\n  _target_: lightning.Trainer\n  max_epochs: 1\n'
            'datamodule:\n  _target_: src.Faces\n  batch_size: 2\n  num_workers: 0\n')
    answer = stoke_json('optimize', '--config', write('hy/x.yaml', text), *CARD)
    tree = loaded(answer['target'])
    equal(set(tree['datamodule']), {'_target_', 'batch_size', 'num_workers'})
    equal(set(tree['trainer']), {'_target_', 'max_epochs', 'precision', 'gradient_clip_val', 'benchmark'})
    contains('\n'.join(answer['remarks']), 'datamodule.persistent_workers is not added', 'your class')
    known = text.replace('src.Faces', 'torch.utils.data.DataLoader')
    equal(set(loaded(stoke_json('optimize', '--config', write('hy/y.yaml', known), *CARD)['target'])['datamodule']),
          LOADER | {'_target_'})


def merged_defaults():
    """Keys are written out in the section that merges them; others who share them keep theirs, but for half the workers."""
    text = ('defaults: &d\n  num_workers: 0\n  pin_memory: false\ntrain_ds:\n  <<: *d\n  batch_size: 8\n'
            'validation_ds:\n  <<: *d\n  batch_size: 8\n')
    answer = stoke_json('optimize', '--config', write('merge/x.yaml', text), *CARD)
    tree = loaded(answer['target'])
    equal(set(tree['train_ds']), LOADER)
    equal((tree['train_ds']['num_workers'], tree['train_ds']['pin_memory']), (6, True))
    equal((tree['defaults'], tree['validation_ds']['num_workers']), ({'num_workers': 0, 'pin_memory': False}, 3))
    # Of a machine whose cores nobody knows, too: it is half of what training has.
    text = text.replace('num_workers: 0', 'num_workers: 8')
    tree = loaded(stoke_json('optimize', '--config', write('merge/y.yaml', text), '--gpu', 'RTX 3090', env=NO_CARD)['target'])
    equal((tree['train_ds']['num_workers'], tree['validation_ds']['num_workers']), (8, 4))


def own_sections_of_lightning():
    text = 'trainer:\n  accelerator: gpu\n  max_epochs: 5\ndata:\n  batch_size: 8\n  num_workers: 0\n'
    answer = stoke_json('optimize', '--config', write('own/x.yaml', text), *CARD)
    head, data = read(answer['target']).decode().split('data:\n')
    assert MARK not in head and data.count(MARK) == 1, (head, data)
    assert data.index(MARK) < data.index('pin_memory: true'), data


def workers_that_are_no_number():
    text = 'train_ds:\n  batch_size: 8\n  num_workers: %s\nvalidation_ds:\n  num_workers: 8\n'
    for said in ('8-16', 'auto'):
        got = changes(stoke_json('optimize', '--config', write('said/x.yaml', text % said), *CARD, '--dry-run'))
        assert not [p for p in got if 'num_workers' in p], (said, got)
    remarks = stoke_json('optimize', '--config', write('said/x.yaml', text % '8-16'), *CARD, '--dry-run')['remarks']
    contains('\n'.join(remarks), 'train_ds.num_workers: 8-16 is a range and is left')
    got = changes(stoke_json('optimize', '--config', write('said/x.yaml', text % 0), *CARD, '--dry-run'))
    equal(got['validation_ds.num_workers'], ('8', '3'))
    # As many as training has is too many as well; a number in between stays.
    same = text.replace('num_workers: 8', 'num_workers: %s')
    for said, wanted in ((6, ('6', '3')), (4, None), (1, ('1', '3'))):
        got = changes(stoke_json('optimize', '--config', write('said/y.yaml', same % (6, said)), *CARD, '--dry-run'))
        equal(got.get('validation_ds.num_workers'), wanted)


def dict_over_several_lines():
    text = ('config = {\n    "batch_size": 8,  # a, b\n    "num_workers": 0,  # {\n    "amp": False,\n'
            '    "model": {"name": "segformer-b0"},\n}\nloader = dict(\n    pin_memory=False,\n    shuffle=True)\n')
    answer = stoke_json('optimize', '--config', write('dict/x.py', text), *CARD)
    got = changes(answer)
    equal((got['config.num_workers'], got['config.amp'], got['loader.pin_memory']), (('0', '6'), ('false', 'true'), ('false', 'true')))
    contains('\n'.join(answer['remarks']), 'over several lines', 'wanted was grad_clip: 1.0')
    before, after = {}, {}
    exec(text, before)
    exec(read(answer['target']).decode(), after)
    equal({k for k in before['config'] if before['config'][k] != after['config'][k]}, set(p[7:] for p in got if p.startswith('config.')))
    equal(after['loader'], {'pin_memory': True, 'shuffle': True})
    contains(read(answer['target']).decode(), '"num_workers": 6,  # {\n')


def hugging_face():
    text = ('output_dir: out\nper_device_train_batch_size: 8\nnum_train_epochs: 3\nlearning_rate: 5.0e-5\n'
            'fp16: false\ndataloader_num_workers: 0\n')
    answer = stoke_json('optimize', '--config', write('hf/x.yaml', text), *CARD)
    got = changes(answer)
    equal((got['fp16'], got['dataloader_num_workers']), (('false', 'true'), ('0', '6')))
    equal(got['torch_compile'], (None, 'true'))
    names = {'per_device_train_batch_size', 'fp16', 'torch_compile', 'dataloader_num_workers',
             'dataloader_persistent_workers', 'dataloader_prefetch_factor'}
    equal(set(got) - names, set())
    remarks = '\n'.join(answer['remarks'])
    contains(remarks, "max_grad_norm: 1.0 is right already: TrainingArguments' default",
             "dataloader_pin_memory: true is right already: TrainingArguments' default")
    off = text + 'max_grad_norm: 0\ndataloader_pin_memory: false\n'
    got = changes(stoke_json('optimize', '--config', write('hf/off.yaml', off), *CARD, '--dry-run'))
    equal((got['max_grad_norm'], got['dataloader_pin_memory']), (('0', '1.0'), ('false', 'true')))
    assert MARK not in read(answer['target']).decode()
    bf16 = text.replace('fp16: false', 'fp16: false\nbf16: true')
    got = changes(stoke_json('optimize', '--config', write('hf/y.yaml', bf16), *CARD, '--dry-run'))
    assert 'fp16' not in got and 'bf16' not in got, got
    # What is not said is 8 samples a batch and a rate of 5e-5; new keys go to their like.
    text = 'model: segformer-b0\nimage_size: 64\nargs:\n  num_train_epochs: 3\n  logging_steps: 10\n  save_strategy: epoch\n'
    answer = stoke_json('optimize', '--config', write('hf/z.yaml', text), *CARD, '--dry-run')
    got = changes(answer)
    equal((got['args.per_device_train_batch_size'], got['args.fp16']), ((None, '24'), (None, 'true')))
    contains('\n'.join(answer['remarks']), 'learning_rate: 5e-5 is kept')


def upper_case():
    text = ('BATCH_SIZE: 8\nMODEL_NAME: nvidia/segformer-b4-finetuned-ade-512-512\nINIT_LR: 0.0003\n'
            'NUM_WORKERS: 0\nIMAGE_SIZE: [288, 288]\n')
    answer = stoke_json('optimize', '--config', write('up/x.yaml', text), *CARD)
    assert all(p == p.upper() for p in changes(answer)), answer
    contains(list(changes(answer)), 'PIN_MEMORY', 'USE_MIXED_PRECISION', 'GRAD_CLIP')
    equal(changes(answer)['BATCH_SIZE'], ('8', '24'))
    contains('\n'.join(answer['remarks']), 'INIT_LR: 0.0003 is kept', 'square root rule')
    contains(read(answer['target']).decode(), 'INIT_LR: 0.0003\n', f'{MARK}\nUSE_MIXED_PRECISION: true\n')


def python_and_json():
    """Literals in their place; new fields beside the others, with a comment where the file can have one."""
    text = ('from dataclasses import dataclass\n\n\n@dataclass\nclass TrainingConfig:\n    BATCH_SIZE: int = 8  # fits\n'
            '    MODEL_NAME: str = "nvidia/segformer-b4-finetuned-ade-512-512"\n    NUM_WORKERS: int = 0\n'
            '    PIN_MEMORY: bool = False\n    INIT_LR: float = 3e-4\n    IMAGE_SIZE: tuple = (288, 288)\n')
    answer = stoke_json('optimize', '--config', write('py/config.py', text), *CARD)
    got = read(answer['target']).decode()
    equal(answer['target'], path('py/config_gpu_optimized.py'))
    contains(got, '    BATCH_SIZE: int = 24  # fits\n', '    NUM_WORKERS: int = 6\n    PIN_MEMORY: bool = True\n    INIT_LR: float = 3e-4\n',
             f'    {MARK}\n    USE_MIXED_PRECISION: bool = True\n')
    compile(got, 'config.py', 'exec')
    assert 'PyYAML' not in '\n'.join(answer['remarks']), answer['remarks']
    arguments = {'per_device_train_batch_size': 8, 'fp16': False, 'dataloader_num_workers': 0, 'learning_rate': 5e-05}
    answer = stoke_json('optimize', '--config', write('py/args.json', json.dumps(arguments, indent=2)), *CARD)
    changed = json.loads(read(answer['target']))
    equal((changed['fp16'], changed['dataloader_num_workers'], changed['torch_compile']), (True, 6, True))
    equal(changed['learning_rate'], 5e-05)


def unknown_values():
    text = 'batch_size: 16-32\nnum_workers: auto\npin_memory: maybe\nprefetch_factor: deep\nprecision: sometimes\nlr: fast\n'
    answer = stoke_json('optimize', '--config', write('uv/x.yaml', text), *CARD)
    for line in text.splitlines():
        contains(read(answer['target']).decode().splitlines(), line)
    contains('\n'.join(answer['remarks']), 'batch_size: 16-32', 'num_workers: auto is no number', 'maybe is neither', 'lr: fast is no number')
    # Of a range it is said what fits, where the network is known.
    known = 'model: segformer-b5\nimage_size: 512\nbatch_size: 16-32\n'
    remarks = '\n'.join(stoke_json('optimize', '--config', write('uv/y.yaml', known), *CARD, '--dry-run')['remarks'])
    contains(remarks, 'the range 16-32 is left', 'up to 8 fits')
    large = f'model: segformer-b2\nimage_size: 288\nbatch_size: {2 ** 63 - 1}\naccumulate: 4\n'
    remarks = '\n'.join(stoke_json('optimize', '--config', write('uv/z.yaml', large), *CARD, '--dry-run')['remarks'])
    contains(remarks, f'batch_size: {2 ** 63 - 1} is no size of a batch and is left')
    assert 'samples that a step saw' not in remarks, remarks


def workers_and_cores():
    config = write('w/x.yaml', 'batch_size: 4\nnum_workers: 16\npersistent_workers: true\nprefetch_factor: 8\n')
    equal(changes(stoke_json('optimize', '--config', config, '--gpu', 'rtx3090', '--cores', 8, '--dry-run'))['num_workers'], ('16', '5'))
    got = changes(stoke_json('optimize', '--config', config, '--gpu', 'rtx3090', '--cores', 8, '--ranks', 4, '--dry-run'))
    equal(got['num_workers'], ('16', '1'))
    for cards in ('2', '[0, 1]', '"0,1"'):  # what `check` divides the cores by
        two = write('w/two.yaml', f'data:\n  batch_size: 4\n  num_workers: 0\ntrainer:\n  devices: {cards}\n')
        got = changes(stoke_json('optimize', '--config', two, '--gpu', 'rtx3090', '--cores', 8, '--dry-run'))
        equal(got['data.num_workers'], ('0', '3'))
    # Nobody said how many cores that machine has: instead of none the usual number, which is what `check` sends here for.
    zero = write('w/z.yaml', 'batch_size: 4\nnum_workers: 0\n')
    contains(stoke('check', '--config', zero, '--gpu', 'rtx3090', env=NO_CARD, code=None).stdout, f'stoke optimize --config {zero} --gpu')
    answer = stoke_json('optimize', '--config', zero, '--gpu', 'rtx3090', '--dry-run', env=NO_CARD)
    change = next(change for change in answer['changes'] if change['setting'] == 'num_workers')
    equal((change['to'], change['source']), ('8', 'table'))
    contains(change['why'], 'a usual start', 'not known here')
    contains(stoke('optimize', '--config', zero, '--gpu', 'rtx3090', '--dry-run', env=NO_CARD).stderr, '--cores N')
    none = write('w/y.yaml', 'batch_size: 4\npersistent_workers: true\nprefetch_factor: 8\n')  # so 0, and PyTorch refuses both
    got = changes(stoke_json('optimize', '--config', none, '--gpu', 'rtx3090', '--dry-run', env=NO_CARD))
    equal(got['num_workers'], (None, '8'))
    assert 'persistent_workers' not in got, got
    some = write('w/s.yaml', 'batch_size: 4\nnum_workers: 3\n')
    assert 'num_workers' not in changes(stoke_json('optimize', '--config', some, '--gpu', 'rtx3090', '--dry-run', env=NO_CARD))


def model_scale():
    config = write('m/x.yaml', SMALL)
    plain = stoke_json('optimize', '--config', config, '--gpu', 'RTX 4090', '--cores', 16, '--dry-run')
    assert 'base_channels' not in changes(plain), plain
    contains('\n'.join(plain['remarks']), 'base_channels: 64 is left', 'allow_model_scale', 'changes the experiment')
    assert int(changes(plain)['batch_size'][1]) > 16, plain
    equal(changes(plain)['num_workers'], ('0', '11'))
    grown = stoke_json('optimize', '--config', config, '--gpu', 'RTX 4090', '--cores', 16, '--dry-run', '--allow-model-scale')
    got = changes(grown)
    equal((got['base_channels'], got['num_blocks'], got['patch_size']), (('64', '128'), ('6', '12'), ('128', '256')))
    effect = [change['effect'] for change in grown['changes'] if change['path'] == 'base_channels']
    contains(effect[0], 'changes the experiment')
    equal(got['batch_size'], ('16', '32'), 'what fits of the larger network')


def a_perceptual_loss_takes_more():
    """No estimate has its frozen network: the batch is not raised by one, nor is it said how many fit."""
    for word in 'true', 'vgg16.safetensors':
        config = write('p/x.yaml', SMALL + f'use_perceptual: {word}\n')
        answer = stoke_json('optimize', '--config', config, '--gpu', 'RTX 4090', '--cores', 16, '--dry-run')
        assert 'batch_size' not in changes(answer), answer
        remarks = '\n'.join(answer['remarks'])
        contains(remarks, 'batch_size: 16 is left', 'perceptual loss, which is not estimated')
        assert 'fits' not in remarks, remarks
        contains(stoke('check', '--config', config, '--gpu', 'RTX 4090').stdout, 'what its perceptual loss takes not counted')
    config = write('p/off.yaml', SMALL + 'use_perceptual: false\n')
    answer = stoke_json('optimize', '--config', config, '--gpu', 'RTX 4090', '--cores', 16, '--dry-run')
    assert int(changes(answer)['batch_size'][1]) > 16, answer


def batch_of(text, *words, code=0):
    """From and to of the batch, None where it is left; its reason, or the remark about it."""
    answer = stoke_json('optimize', '--config', write('net/x.yaml', text), *(words or CARD), '--dry-run', code=code)
    change = next((c for c in answer['changes'] if c['setting'] == 'batch_size'), None)
    remarks = [line for line in answer['remarks'] if line.startswith('batch')]
    return (change and (change['from'], change['to'])), change['why'] if change else remarks[0]


def the_network_named():
    """A batch is judged by the memory of the network that the file names, or not at all."""
    for name in ('deeplabv3_resnet50', 'unet\nbase_channels: 64'):
        found, why = batch_of(f'model: {name}\nimage_size: 480\nbatch_size: 16\n')
        equal(found, None, name)
        contains(why, '16 is left', name.split()[0], 'not known', 'BatchSizeOptimizer')
        assert 'GiB' not in why, why
    # Without a name it is what is usual, and that is said; it is never lowered.
    found, why = batch_of('batch_size: 16\nimage_size: 288\n')
    equal(found, ('16', '24'))
    contains(why, 'names no network', 'b5 at 288x288', 'GiB')
    found, why = batch_of('batch_size: 600\n')
    equal(found, None)
    contains(why, '600 is left')
    # With neither a name nor a size nothing is raised.
    found, why = batch_of('batch_size: 16\n')
    equal(found, None)
    contains(why, '24 are usual for this card, not estimated: your network and picture size are not in the file')
    # A SegFormer is judged by its own memory at its own size.
    found, why = batch_of('model: nvidia/segformer-b2\nimage_size: 512\nnum_classes: 11\nbatch_size: 2\n')
    contains(why, 'b2 at 512x512', 'GiB')
    small = int(found[1])
    found, why = batch_of('model: mit_b5\nimage_size: [512, 1024]\nbatch_size: 2\n')
    contains(why, 'b5 at 512x1024', 'up to')
    assert int(found[1]) < small <= 24, (found, small)
    # Without a size nothing is known of its memory; one that the set shows will do.
    found, why = batch_of('model: segformer-b5\nbatch_size: 2\n', '--gpu', 'RTX 4090')
    equal(found, None)
    contains(why, '2 is left', 'size of pictures', 'image_size')
    stoke('synth', path('wide'), '--count', 2, '--size', '1024x1024')
    found, why = batch_of(f'data_root: {path("wide")}\nmodel: segformer-b5\nbatch_size: 2\n', '--gpu', 'RTX 4090')
    equal(found, ('2', '1'))
    contains(why, 'b5 at 1024x1024 as in the set', 'up to 1 fits')
    # `stoke train` computes on the processor: the card's memory says nothing of its batch.
    found, why = batch_of('model: b0\nbatch: 4\nsize: 96\n')
    equal(found, None)
    contains(why, '4 is left', 'on the processor', 'find-batch')


def largest(card, model, *words):
    return stoke_json('estimate', '--model', model, '--gpu', card, '--precision', 'fp16', *words)['fits']['largest_batch']


def what_fits():
    """Up to what fits, down to what fits, and never what the estimate denies or denies what it allows."""
    found, why = batch_of('model: segformer-b5\nimage_size: 1024\nbatch_size: 2\n', '--gpu', 'RTX 4090')
    equal((found, largest('RTX 4090', 'b5', '--size', 1024)), (('2', '1'), 1))
    contains(why, 'b5 at 1024x1024', "GiB of 24 GiB", 'up to 1 fits')
    found, why = batch_of('model: segformer-b5\nimage_size: 512\nbatch_size: 4\n', '--gpu', 'RTX 3060')
    equal((found, largest('RTX 3060', 'b5', '--size', 512)), (None, 4))
    contains(why, 'batch_size: 4 is left', 'up to 4 fits')
    small = ['--base-channels', 32, '--num-blocks', 4, '--size', 128]
    found, why = batch_of(SMALL.replace('64', '32').replace('6\n', '4\n', 1) + 'unused: 1\n', '--gpu', 'RTX 4090')
    equal(found, ('16', '64'))
    assert largest('RTX 4090', 'resnet', *small) >= 64
    high = 'base_channels: 128\nnum_blocks: 12\npatch_size: 256\nbatch_size: 64\n'
    found, why = batch_of(high, '--gpu', 'RTX 4090')
    equal(found, ('64', '32'))
    most = largest('RTX 4090', 'resnet', '--base-channels', 128, '--num-blocks', 12, '--size', 256)
    contains(why, '128 channels, 12 blocks at 256x256', f'up to {most} fits', "GiB of 24 GiB")
    assert 32 <= most < 64, most
    # Not even one: said, and left at the least.
    found, why = batch_of('model: segformer-b5\nimage_size: 2048\nbatch_size: 1\n', '--gpu', 'GTX 1650')
    equal(found, None)
    contains(why, 'will probably not fit')
    config = write('one/x.yaml', 'model: segformer-b5\nimage_size: 1024\nbatch_size: 4\nuse_amp: true\n')
    remarks = '\n'.join(stoke_json('optimize', '--config', config, '--vram', 12, '--dry-run')['remarks'])
    fits = stoke_json('estimate', '--model', 'b5', '--size', 1024, '--batch', 1, '--precision', 'fp16', '--vram', 12)['fits']
    side, model = fits['largest_side'], fits['largest_model']
    assert model in ('b0', 'b1', 'b2', 'b3', 'b4'), fits
    contains(remarks, 'not one picture fits: b5 at 1024x1024', f'pictures of up to {side}x{side} would; at 1024x1024, {model}')


def by_trials():
    """Never refused: our networks run here, others keep their batch, and a simulated GPU says that it is one."""
    for name, text, said in (('lmsa', SECTIONS + 'model:\n  name: lmsa\n', "'lmsa'"),
                             ('none', FLAT, 'names no network')):
        done = stoke('optimize', '--config', write(f'tr/{name}_gpu_optimized.yaml', text), '--benchmark', env=NO_CARD)
        contains(done.stderr, 'no trials', said, 'batch stays', 'BatchSizeOptimizer')
        target = path(f'tr/{name}_gpu_optimized_optimized.yaml')
        contains(read(target).decode(), 'pin_memory: true')
        equal(loaded(target).get('batch_size', 8), 8)
    ours = 'model: segformer-b0\nimage_size: 32\nnum_classes: 2\nbatch_size: 64\nnum_workers: 0\n'
    config = write('tr/ours_gpu_optimized.yaml', ours)
    done = stoke('optimize', '--config', config, '--benchmark', '--steps', 3, env=NO_CARD)
    contains(done.stdout, 'Measured on this processor: b0, 32x32, 2 classes')
    contains(done.stderr, 'trials run on this processor')
    assert os.path.exists(path('tr/ours_gpu_optimized_optimized.yaml'))
    paper = stoke('optimize', '--config', config, '--benchmark', '--gpu', 'RTX 3060', '--dry-run', '--time1', 1)
    assert paper.stdout.startswith('Emulated, nothing ran on a card: b0'), paper.stdout
    unknown = stoke('optimize', '--config', path('tr/lmsa_gpu_optimized.yaml'), '--benchmark', '--gpu', 'rtx3060', '--dry-run')
    assert 'batch_size ' not in unknown.stdout, unknown.stdout


def trials_and_estimate_agree():
    config = write('ag/x.yaml', 'model: segformer-b2\nimage_size: 256\nnum_classes: 4\nbatch_size: 4\nuse_amp: true\n')
    found = stoke_json('find-batch', '--config', config, '--device', 'sim:rtx3060', '--time1', 1)
    most = largest('RTX 3060', 'b2', '--size', 256, '--classes', 4)
    equal(found['largest_fit'] if 'largest_fit' in found else found['result']['largest_fit'], most)


def nothing_to_change():
    config = write('n/x_config.yaml', SECTIONS)
    first = stoke_json('optimize', '--config', config, *CARD)
    second = stoke_json('optimize', '--config', first['target'], *CARD)
    equal(changes(second), {}, 'changes of the changed file')
    equal(read(second['target']), read(first['target']))
    contains('\n'.join(second['remarks']), 'data.num_workers: 6 is right already')
    contains(stoke('optimize', '--config', first['target'], *CARD, '--dry-run').stdout, 'Nothing to change')


def targets():
    config = write('t/x_config.yaml', FLAT)
    target = path('t/x_gpu_optimized.yaml')
    stoke('optimize', '--config', config, *CARD)
    again = stoke('optimize', '--config', config, *CARD)
    contains(again.stdout, 'has this result already')
    write('t/x_gpu_optimized.yaml', 'mine: 1\n')
    contains(stoke('optimize', '--config', config, *CARD, code=1).stderr, 'differs', '--force')
    equal(read(target), b'mine: 1\n')
    equal(sorted(os.listdir(path('t'))), ['x_config.yaml', 'x_gpu_optimized.yaml'])
    stoke('optimize', '--config', config, *CARD, '--force')
    assert b'mine' not in read(target)
    contains(stoke('optimize', '--config', config, *CARD, '--out', config, code=2).stderr, '--in-place')
    equal(read(config).decode(), FLAT)
    before = sorted(os.listdir(path('t')))
    stoke('optimize', '--config', config, *CARD, '--out', path('t/y.yaml'), '--dry-run')
    equal(sorted(os.listdir(path('t'))), before, 'files after --dry-run')


def in_place():
    config = write('i/x.yaml', FLAT.replace('\n', '\r\n'))
    os.chmod(config, 0o640)
    done = stoke('optimize', '--config', config, *CARD, '--in-place')
    contains(done.stdout, 'the old file is', 'x.yaml.bak', 'Proof:')
    equal(read(config + '.bak').decode(), FLAT.replace('\n', '\r\n'))
    assert b'num_workers: 6\r\n' in read(config) and b'use_mixed_precision: true\r\n' in read(config), read(config)
    equal(read(config).count(b'\n'), read(config).count(b'\r\n'), 'line ends')
    equal([os.stat(config + end).st_mode & 0o777 for end in ('', '.bak')], [0o640, 0o640])
    write('i/x.yaml', FLAT)
    contains(stoke('optimize', '--config', config, *CARD, '--in-place', code=1).stderr, 'older backup', '--force')
    equal(read(config).decode(), FLAT)
    stoke('optimize', '--config', config, '--in-place', '--out', 'y', code=2)
    good = write('i/good.yaml', read(stoke_json('optimize', '--config', config, *CARD)['target']))
    answer = stoke_json('optimize', '--config', good, *CARD, '--in-place')
    equal((answer['written'], answer['backup'], answer['proof']), (False, None, None), 'nothing to change')
    assert not os.path.exists(good + '.bak')


def ambiguity_and_map():
    text = 'data:\n  batch_size: 8\n  image_size: 288\ntraining:\n  batch_size: 8\n  num_workers: 2\n'
    config = write('q/x.yaml', text)
    done = stoke('optimize', '--config', config, *CARD, code=2)
    contains(done.stderr, 'data.batch_size (line 2)', 'training.batch_size (line 5)', '--map batch_size=')
    equal(os.listdir(path('q')), ['x.yaml'])
    answer = stoke_json('optimize', '--config', config, *CARD, '--map', 'batch_size=data.batch_size')
    contains(list(changes(answer)), 'data.batch_size')
    assert 'training.batch_size' not in changes(answer)
    other = write('q/o.yaml', 'loader:\n  bs: 2\n  nw: 0\nimage_size: 288\n')
    answer = stoke_json('optimize', '--config', other, *CARD, '--map', 'batch_size=loader.bs,num_workers=loader.nw')
    equal(changes(answer)['loader.nw'], ('0', '6'))
    contains(list(changes(answer)), 'loader.bs')
    contains(stoke('optimize', '--config', other, *CARD, '--map', 'bach=loader.bs', code=None).stderr, "no setting is called 'bach'", 'batch_size')
    contains(stoke('optimize', '--config', other, *CARD, '--map', 'batch_size', code=2).stderr, 'setting=path')


def refusals():
    shared = 'train: &t\n  batch_size: 4\n  num_workers: 0\nother: *t\nimage_size: 288\n'
    answer = stoke_json('optimize', '--config', write('r/s.yaml', shared), *CARD)
    contains('\n'.join(answer['remarks']), 's.yaml:2: train.batch_size is left as it is', 'anchor')
    assert not any(p.startswith('train.') for p in changes(answer)), answer
    for name, text, words in (('two', FLAT + 'batch_size: 9\n', [':5:', 'twice']),
                              ('docs', FLAT + '---\na: 1\n', [':5:', 'second document']),
                              ('latin', b'# caf\xe9\nbatch_size: 1\n', [':1:', 'UTF-8']),
                              ('tabs', 'data:\n\tbatch_size: 1\n', [':2:', 'tabs'])):
        done = stoke('optimize', '--config', write(f'r/{name}.yaml', text), *CARD, code=1)
        contains(done.stderr, name + '.yaml', *words)
        assert not os.path.exists(path(f'r/{name}_gpu_optimized.yaml'))


def asked_wrongly():
    contains(stoke('optimize', code=2).stderr, '--config')
    contains(stoke('optimize', '--config', path('none.yaml'), *CARD, code=1).stderr, 'none.yaml')
    config = write('u/x.yaml', FLAT)
    contains(stoke('optimize', '--config', config, '--gpu', 'abacus', code=None).stderr, 'abacus')
    equal(os.listdir(path('u')), ['x.yaml'])


def for_people():
    config = write('p/x_config.yaml', SECTIONS)
    done = stoke('optimize', '--config', config, *CARD)
    contains(done.stdout, 'key', 'from', 'to', 'source', '(new)', 'why:', 'effect:', 'Left as it is', 'Proof:', 'Written: ')
    contains(done.stderr, 'next: ')


def said_only_where_it_is():
    """JSON and braces have no place for a comment, and none is spoken of."""
    below = 'the keys below the comment'
    for name, text, spoken in (('x.json', '{"batch_size": 8, "num_workers": 2}\n', False), ('y.yaml', '{batch_size: 8, num_workers: 2}\n', False),
                               ('z.yaml', 'batch_size: 8\nnum_workers: 2\n', True)):
        done = stoke('optimize', '--config', write('said/' + name, text), *CARD)
        equal(below in done.stderr, spoken, name)
        contains(done.stderr, 'count only where your trainer reads them')


def old_card():
    """One opinion of mixed precision on a card before Volta: it saves memory, no time."""
    file = write('old/x.yaml', SMALL + 'use_mixed_precision: false\n')
    card = ['--gpu', 'GTX 1080', '--cores', '9']
    change = [c for c in stoke_json('optimize', '--config', file, *card)['changes'] if c['setting'] == 'mixed_precision'][0]
    contains(change['why'], 'saves memory', 'no time')
    for config, verdict in ((file, 'warn'), (path('old/x_gpu_optimized.yaml'), 'pass')):
        line = [x for x in stoke_json('check', '--config', config, *card, code=None)['lines'] if x['key'] == 'mixed_precision'][0]
        equal(line['verdict'], verdict)
        contains(line['figure'], 'saves memory, no time')
    slow = stoke_json('why', 'slow', '--config', file, *card)
    equal([r['found'] for r in slow['reasons'] if '32 bits' in r['cause']], [False])


def one_number_of_classes():
    file = write('cls/x.yaml', SMALL)
    contains('\n'.join(stoke_json('optimize', '--config', file, '--gpu', 'GTX 1080', '--dry-run')['remarks']), 'taken to restore pictures')
    lines = stoke_json('check', '--config', file, '--gpu', 'GTX 1080', code=None)['lines']
    contains([x['figure'] for x in lines if x['key'] == 'memory'][0], 'restores pictures')
    equal(stoke_json('estimate', '--config', file)['classes'], 3)
    file = write('cls/b.yaml', 'model: mit_b0\nbatch_size: 4\nimage_size: 64\n')
    contains('\n'.join(stoke_json('optimize', '--config', file, '--gpu', 'GTX 1080', '--dry-run')['remarks']), '19 assumed')
    lines = stoke_json('check', '--config', file, '--gpu', 'GTX 1080', code=None)['lines']
    contains([x['figure'] for x in lines if x['key'] == 'memory'][0], '19 classes assumed')


def measured_workers():
    """What diagnose found counts more than the table and the rule about cores; in our own files too."""
    file = write('measured/x_config.yaml', SECTIONS)
    answer = stoke_json('optimize', '--config', file, '--gpu', 'RTX 3090', '--cores', '2', '--workers', '2')
    equal(changes(answer)['data.num_workers'], ('0', '2'))
    change = [c for c in answer['changes'] if c['path'] == 'data.num_workers'][0]
    equal(change['source'], 'measured')
    contains(change['why'], 'stoke diagnose')
    assert 'data.persistent_workers' in changes(answer)
    file = write('measured/y_config.yaml', FLAT)
    answer = stoke_json('optimize', '--config', file, '--gpu', 'RTX 3090', '--cores', '2', '--workers', '2')
    assert 'num_workers' not in changes(answer), 'two are right although there are two cores only'


sys.exit(tap.run([
    ('sections', sections),
    ('logging at every step', logging),
    ('the card found', card_found),
    ('the learning rate is kept', learning_rate),
    ('no card', no_card),
    ('another machine', another_machine),
    ('dialects', dialects),
    ('Lightning', lightning),
    ('arguments of a class', arguments_of_a_class),
    ('Lightning below a command', lightning_below_a_command),
    ('arguments of Trainer alone', arguments_of_trainer_alone),
    ('sections of a DataLoader', sections_of_a_dataloader),
    ('targets of Hydra', targets_of_hydra),
    ('merged defaults', merged_defaults),
    ('own sections of Lightning files', own_sections_of_lightning),
    ('workers that are no number', workers_that_are_no_number),
    ('a dict over several lines', dict_over_several_lines),
    ('Hugging Face', hugging_face),
    ('upper case', upper_case),
    ('Python and JSON', python_and_json),
    ('values that are no numbers', unknown_values),
    ('what fits', what_fits),
    ('trials and estimate agree', trials_and_estimate_agree),
    ('workers and cores', workers_and_cores),
    ('workers that were measured', measured_workers),
    ('comments where they are', said_only_where_it_is),
    ('an old card', old_card),
    ('one number of classes', one_number_of_classes),
    ('the size of the model', model_scale),
    ('a perceptual loss takes more than is estimated', a_perceptual_loss_takes_more),
    ('the network that the file names', the_network_named),
    ('nothing to change', nothing_to_change),
    ('targets', targets),
    ('in place', in_place),
    ('several candidates, and --map', ambiguity_and_map),
    ('refusals', refusals),
    ('asked wrongly', asked_wrongly),
    ('for people', for_people),
] + tap.rounds([], [('by trials', by_trials)])))  # 20 s of trials
