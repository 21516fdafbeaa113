# SPDX-License-Identifier: Apache-2.0
"""stoke optimize: the file it writes, what it says of it, and what it leaves alone."""
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
    equal(got['data.num_workers'], ('0', '8'))
    equal(got['training.use_amp'], ('no', 'true'))
    equal(got['data.pin_memory'], (None, 'true'))
    equal((got['data.non_blocking'], got['data.cuda_prefetch']), ((None, 'true'), (None, 'true')))
    equal(got['data.persistent_workers'], (None, 'true'))
    equal(got['data.prefetch_factor'], (None, '4'))
    equal(got['training.grad_clip'], (None, '1.0'))
    equal(got['training.use_gpu_augmentation'], (None, 'true'))
    assert int(got['data.batch_size'][1]) > 8, got
    for change in answer['changes']:
        assert change['why'] and change['effect'] and change['source'] in ('table', 'estimated', 'measured'), change
    proof = answer['proof']
    equal((proof['bytes_equal'], proof['tree_equal'], proof['bytes_before']), (True, True, len(SECTIONS.encode())))
    equal(proof['spans'], len(answer['changes']))
    # Line by line: what is not a named key is as it was.
    named = [p.split('.')[-1] + ':' for p in got]
    old = [line for line in SECTIONS.splitlines() if not any(n in line for n in named)]
    new = [line for line in read(target).decode().splitlines() if not any(n in line for n in named)]
    equal(new, old)
    tree = loaded(target)
    equal(tree['data']['num_workers'], 8)
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
    none = stoke('optimize', '--config', config, '--dry-run', env=dict(fake, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1'))
    if 'found here' not in none.stderr:  # else AMD's or Intel's is here
        contains(none.stderr, 'no card is seen', '--gpu', '--vram')
        assert 'pin_memory' not in none.stdout, none.stdout


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
    ds = stoke_json('optimize', '--config', write('d/ds_config.yml', TRAIN_DS), *CARD)
    got = changes(ds)
    equal(got['train_ds.num_workers'], ('0', '8'))
    equal(got['trainer.grad_clip'], (None, '1.0'))
    assert not any(p.startswith('val_ds') for p in got), got
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


def workers_and_cores():
    config = write('w/x.yaml', 'batch_size: 4\nnum_workers: 16\npersistent_workers: true\nprefetch_factor: 8\n')
    equal(changes(stoke_json('optimize', '--config', config, '--gpu', 'rtx3090', '--cores', 8, '--dry-run'))['num_workers'], ('16', '7'))
    got = changes(stoke_json('optimize', '--config', config, '--gpu', 'rtx3090', '--cores', 8, '--ranks', 4, '--dry-run'))
    equal(got['num_workers'], ('16', '1'))
    got = changes(stoke_json('optimize', '--config', config, '--gpu', 'rtx3090', '--cores', 1, '--dry-run'))
    equal(got['num_workers'], ('16', '0'))
    equal((got['persistent_workers'], got['prefetch_factor']), (('true', 'false'), ('8', 'null')))


def model_scale():
    config = write('m/x.yaml', SMALL)
    plain = stoke_json('optimize', '--config', config, '--gpu', 'RTX 4090', '--cores', 16, '--dry-run')
    assert 'base_channels' not in changes(plain), plain
    contains('\n'.join(plain['remarks']), 'base_channels: 64 is left', '--allow-model-scale', 'another experiment')
    assert int(changes(plain)['batch_size'][1]) > 16, plain
    equal(changes(plain)['num_workers'], ('0', '12'))
    grown = stoke_json('optimize', '--config', config, '--gpu', 'RTX 4090', '--cores', 16, '--dry-run', '--allow-model-scale')
    got = changes(grown)
    equal((got['base_channels'], got['num_blocks'], got['patch_size']), (('64', '128'), ('6', '12'), ('128', '256')))
    effect = [change['effect'] for change in grown['changes'] if change['path'] == 'base_channels']
    contains(effect[0], 'another experiment')


def nothing_to_change():
    config = write('n/x_config.yaml', SECTIONS)
    first = stoke_json('optimize', '--config', config, *CARD)
    second = stoke_json('optimize', '--config', first['target'], *CARD)
    equal(changes(second), {}, 'changes of the changed file')
    equal(read(second['target']), read(first['target']))
    contains('\n'.join(second['remarks']), 'data.num_workers: 8 is right already')
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
    assert b'num_workers: 8\r\n' in read(config) and b'use_mixed_precision: true\r\n' in read(config), read(config)
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
    text = 'data:\n  batch_size: 8\ntraining:\n  batch_size: 8\n  num_workers: 2\n'
    config = write('q/x.yaml', text)
    done = stoke('optimize', '--config', config, *CARD, code=2)
    contains(done.stderr, 'data.batch_size (line 2)', 'training.batch_size (line 4)', '--map batch_size=')
    equal(os.listdir(path('q')), ['x.yaml'])
    answer = stoke_json('optimize', '--config', config, *CARD, '--map', 'batch_size=data.batch_size')
    contains(list(changes(answer)), 'data.batch_size')
    assert 'training.batch_size' not in changes(answer)
    other = write('q/o.yaml', 'loader:\n  bs: 2\n  nw: 0\n')
    answer = stoke_json('optimize', '--config', other, *CARD, '--map', 'batch_size=loader.bs,num_workers=loader.nw')
    equal(changes(answer)['loader.nw'], ('0', '8'))
    contains(list(changes(answer)), 'loader.bs')
    contains(stoke('optimize', '--config', other, *CARD, '--map', 'bach=loader.bs', code=None).stderr, "no setting is called 'bach'", 'batch_size')
    contains(stoke('optimize', '--config', other, *CARD, '--map', 'batch_size', code=2).stderr, 'setting=path')


def refusals():
    shared = 'train: &t\n  batch_size: 4\n  num_workers: 0\nother: *t\n'
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
    ('dialects', dialects),
    ('workers and cores', workers_and_cores),
    ('workers that were measured', measured_workers),
    ('the size of the model', model_scale),
    ('nothing to change', nothing_to_change),
    ('targets', targets),
    ('in place', in_place),
    ('several candidates, and --map', ambiguity_and_map),
    ('refusals', refusals),
    ('asked wrongly', asked_wrongly),
    ('for people', for_people),
]))
