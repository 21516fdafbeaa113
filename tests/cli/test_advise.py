# SPDX-License-Identifier: Apache-2.0
"""stoke estimate and stoke recommend: numbers that add up, answers that fit, files that are taken."""
import os
import sys

from cli import contains, equal, make_set, path, stoke, stoke_json, tap

TERMS = ['weights', 'gradients', 'optimizer', 'extra', 'activations', 'logits', 'batches', 'workspace',
         'context', 'fragments']
GIB = 1 << 30


def settings(answer):
    return {line['key']: line['value'] for line in answer['settings']}


def estimate_adds_up():
    answer = stoke_json('estimate', '--model', 'b4', '--batch', 8, '--size', 288, '--classes', 2)
    equal(answer['parameters'], 63994562)
    for engine in ('native', 'torch'):
        column = answer[engine]
        equal(list(column['bytes']), TERMS)
        equal(sum(column['bytes'].values()), column['total_bytes'], engine)
        assert column['low_bytes'] <= column['total_bytes'] <= column['high_bytes']
        equal(column['dominant'], 'activations')
        equal(column['source'], 'estimated')
    assert 'fits' not in answer, 'nobody asked'
    torch = answer['torch']
    assert torch['allocated_bytes'] < torch['reserved_high_bytes'] < torch['high_bytes'], torch
    assert torch['total_bytes'] < torch['card_bytes'], torch
    equal(answer['native']['card_bytes'], None)


def estimate_for_people():
    text = stoke('estimate', '--model', 'b2', '--batch', 4, '--size', '256x320', '--vram', 8).stdout
    contains(text, *TERMS, 'native', 'torch', '256 x 320', 'as asked', 'largest batch', 'largest size',
             'largest model', 'GiB', 'max_memory_allocated()', 'max_memory_reserved()', 'nvidia-smi')


def estimate_assumes_aloud():
    equal(stoke_json('estimate', '--model', 'b2', '--batch', 4)['assumed'], ['size', 'classes', 'precision'])
    contains(stoke('estimate', '--model', 'b2').stdout, 'assumed, since nobody says them: batch, size, classes, precision\n')
    folder, config = make_set('shown', count=2, size='96x160'), path('assumed.yaml')
    with open(config, 'w', encoding='utf-8') as file:
        file.write(f'data_root: {folder}\nmodel: segformer-b1\nbatch_size: 2\nnum_classes: 5\n')
    answer = stoke_json('estimate', '--config', config)
    equal((answer['height'], answer['width'], answer['assumed'], answer['torch']['precision']), (96, 160, ['precision'], 'fp32'))
    equal(stoke_json('estimate', '--config', config, '--size', 64, '--precision', 'fp16')['assumed'], [])
    with open(config, 'w', encoding='utf-8') as file:
        file.write('model: b1\nsize: 64\nbatch: 2\nclasses: 5\n')  # our own
    answer = stoke_json('estimate', '--config', config)
    equal((answer['model'], answer['assumed']), ('b1', []))
    with open(config, 'w', encoding='utf-8') as file:
        file.write('size: 64\nbatch: 2\nclasses: 5\n')
    equal(stoke_json('estimate', '--config', config)['assumed'], ['model'])


def estimate_backwards():
    ask = ['estimate', '--model', 'b2', '--size', 256, '--vram', 8]
    batch = stoke_json(*ask)['fits']['largest_batch']
    assert batch >= 8
    for b, fits in ((batch, True), (batch + 8, False)):
        answer = stoke_json(*ask, '--batch', b)
        equal(answer['fits']['as_asked'], fits, f'batch {b}')
        equal(answer['torch']['high_bytes'] <= 7 * GIB, fits, f'batch {b}')
    named = stoke_json('estimate', '--gpu', 'NVIDIA GeForce RTX 3090')['fits']
    equal(named['memory_bytes'], 24 * GIB)
    equal(named['largest_model'], 'b5')
    none = stoke_json('estimate', '--model', 'b5', '--vram', 1)['fits']
    equal((none['as_asked'], none['largest_batch'], none['largest_model']), (False, 0, None))


def estimate_resnet():
    ask = ['--size', 128, '--vram', 4, '--base-channels', 24, '--num-blocks', 3]
    answer = stoke_json('estimate', '--model', 'resnet', *ask)
    equal((answer['model'], answer['native']['problem']), ('resnet', None))
    equal(stoke_json('estimate', '--model', 'smallnet', *ask)['torch'], answer['torch'], 'its old name')
    assert answer['torch']['total_bytes'] > answer['native']['total_bytes'] > 0
    larger = stoke_json('estimate', '--model', 'resnet', *ask, '--scale', 2)
    assert larger['native']['bytes']['batches'] == 2.5 * answer['native']['bytes']['batches']
    contains(stoke('estimate', '--model', 'resnet').stdout, 'resnet, 32 channels, 4 blocks, 75747 parameters', 'restores pictures')
    contains(stoke('estimate', '--model', 'resnet', '--classes', 5).stdout, '5 classes')
    contains(stoke('estimate', '--task', 'restore', code=2).stderr, 'resnet restores')


def recommend_by_card():
    answer = stoke_json('recommend', '--gpu', 'rtx3060')
    equal(answer['memory_bytes'], 12 * GIB)
    equal((settings(answer)['model'], settings(answer)['batch_size']), ('b4', '8'))
    for line in answer['settings']:
        assert line['source'] in ('table', 'estimated', 'measured', 'given'), line
        assert line['why'], line


def recommend_for_cores():
    for cores, workers in ((6, '4'), (12, '8'), (64, '16')):
        answer = stoke_json('recommend', '--gpu', 'rtx3060', '--cores', cores)
        equal(settings(answer)['num_workers'], workers)
    line = {x['key']: x for x in stoke_json('recommend', '--gpu', 'rtx3060', '--cores', 6)['settings']}['num_workers']
    equal(line['source'], 'given')
    equal(settings(stoke_json('recommend', '--gpu', 'rtx3060', '--cores', 8, '--ranks', 64))['num_workers'], '1')
    # A card that is not here is in a machine of which nothing is known.
    env = dict(os.environ, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1')
    line = {x['key']: x for x in stoke_json('recommend', '--gpu', 'rtx3060', env=env)['settings']}['num_workers']
    equal((line['value'], line['source']), ('8', 'table'))
    contains(line['why'], 'not known here')


def recommend_what_to_expect():
    text = stoke('recommend', '--gpu', 'rtx3060').stdout
    contains(text, 'To expect (table):', '3 to 4 min', '5 to 7 h', '0.93 to 0.95')
    answer = stoke_json('recommend', '--gpu', '4090', '--task', 'resnet', '--cores', 24)
    equal([x['value'] for x in answer['expected']], ['85 %', '3 to 5 times'])
    equal((settings(answer)['use_perceptual'], settings(answer)['num_workers']), ('true', '12'))


def recommend_a_model():
    answer = stoke_json('recommend', '--choose-model', '--gpu', 'rtx3060', '--samples', 20000)
    equal([m['model'] for m in answer['models']], ['b0', 'b1', 'b2', 'b3', 'b4', 'b5'])
    equal([m['model'] for m in answer['models'] if m['chosen']], ['b4'])
    assert all(m['why'] and m['use'] for m in answer['models'])
    hours = [m['hours'] for m in answer['models']]
    equal(hours, sorted(hours))
    quick = stoke_json('recommend', '--choose-model', '--gpu', 'rtx3060', '--samples', 20000, '--hours', hours[1] * 1.01)
    equal([m['model'] for m in quick['models'] if m['chosen']], ['b1'])
    text = stoke('recommend', '--choose-model', '--vram', 8, '--samples', 100).stdout
    contains(text, 'Take b1.', '100 pictures are few', '4 M', '16 GB', '--gpu NAME adds times')


def recommend_sections():
    file = path('ds.yaml')
    stoke('recommend', '--gpu', 'RTX 3090', '--cores', 24, '--dialect', 'train_ds', '--write', file)
    contains(open(file).read(), 'train_ds:\n  batch_size: 24\n  num_workers: 16\n  pin_memory: true\n'
             '  persistent_workers: true\n  prefetch_factor: 8\n', 'validation_ds:\n  batch_size: 24\n  num_workers: 8\n')


def recommend_cuts():
    answer = stoke_json('recommend', '--vram', 16)
    line = {x['key']: x for x in answer['settings']}['batch_size']
    equal(line['source'], 'estimated')
    contains(line['why'], 'are 32, but with b5 at 288x288')
    contains(answer['remark'], 'disagree')
    got = settings(answer)
    equal(int(got['batch_size']) * int(got['accumulate']), 32)
    fits = stoke_json('estimate', '--model', got['model'], '--batch', got['batch_size'], '--size',
                      got['image_size'], '--vram', 16)['fits']
    equal(fits['as_asked'], True)


def recommend_writes_our_settings():
    file = path('own.yaml')
    done = stoke('recommend', '--vram', 4, '--write', file)
    contains(done.stderr, 'stoke train', 'on the processor, not on the card', '--dialect flat')
    taken = stoke_json('config', '--train', '--config', file)
    equal((taken['model'], taken['batch'], taken['size'], taken['lr'], taken['accumulate']),
          ('b0', 2, [224, 224], 2e-4, 4))
    equal((taken['schedule'], taken['clip_norm'], taken['epochs']), ('constant', 1, 50))


def recommend_writes_flat_settings():
    file = path('flat.yaml')
    stoke('recommend', '--gpu', 'GTX 1080', '--task', 'smallnet', '--dialect', 'flat', '--write', file)
    lines = dict(line.split(': ', 1) for line in open(file).read().splitlines()
                 if line and not line.startswith('#'))
    equal((lines['batch_size'], lines['base_channels'], lines['use_mixed_precision']), ('16', '64', 'true'))


def recommend_writes_a_resnet():
    """Its own settings, by its old name too, in a file that training reads."""
    file = path('resnet.yaml')
    stoke('recommend', '--gpu', '4070', '--task', 'smallnet', '--write', file)
    taken = stoke_json('config', '--train', '--config', file)
    equal((taken['model'], taken['base_channels'], taken['num_blocks'], taken['patch_size']), ('resnet', 96, 8, 192))


def recommend_without_a_card():
    env = dict(os.environ, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1')
    done = stoke('recommend', env=env)
    if 'no card is seen' in done.stderr:  # else AMD's or Intel's is here
        contains(done.stdout, 'a usual starting point for the processor alone', 'b0', 'measured', 'stoke find-batch')
        assert 'row of' not in done.stdout and 'document' not in done.stdout, done.stdout


def recommend_for_the_card_found():
    env = dict(os.environ, STOKE_LIBNVML=os.environ['STOKE_FAKE_LIBNVML'])
    answer = stoke_json('recommend', env=env)
    contains(answer['subject'], 'Fake GPU')
    equal(answer['memory_bytes'], 24 * GIB)
    equal(settings(answer)['prefetch_factor'], '8')


def asked_wrongly():
    contains(stoke('estimate', '--model', 'b7', code=2).stderr, 'resnet')
    contains(stoke('estimate', '--size', 8, code=2).stderr, '29 x 29')
    contains(stoke('recommend', '--gpu', '3091', code=2).stderr, 'RTX 3090', '--vram')
    contains(stoke('recommend', '--gpu', 'RTX 4090 Laptop GPU', code=2).stderr, 'laptop', '--vram')
    contains(stoke('recommend', '--write', '', code=2).stderr, 'empty')
    stoke('recommend', '--gpu', '4070', '--write', path('nowhere', 'x.yaml'), code=1)


def a_batch_left_to_training():
    """`batch: auto` of our own file is what training takes; a set that the size is read from is of use."""
    own = path('auto.yaml')
    with open(own, 'w', encoding='utf-8') as out:
        out.write('model: b0\nbatch: auto\nsize: 64\nclip_norm: 1\nval_split: 0.1\n')
    done = stoke('estimate', '--config', own)
    contains(done.stderr, 'batch is auto: 8, as `stoke train` takes it here')
    contains(done.stdout, 'batch 8, 64 x 64')
    contains(stoke('bench', 'step', '--config', own, '--dry-run').stderr, 'batch is auto: 8')
    theirs = path('root.yaml')
    folder = make_set('sized', count=2, size='64x96')
    with open(theirs, 'w', encoding='utf-8') as out:
        out.write(f'model: segformer-b0\nbatch_size: 2\ndata_root: {folder}\nnum_workers: 4\n')
    done = stoke('estimate', '--config', theirs)
    contains(done.stdout, '64 x 96')
    contains(done.stderr, 'not used here: num_workers')
    assert 'data_root' not in done.stderr, done.stderr


sys.exit(tap.run([
    ('a batch left to training', a_batch_left_to_training),
    ('estimate adds up', estimate_adds_up),
    ('estimate for people', estimate_for_people),
    ('estimate assumes aloud', estimate_assumes_aloud),
    ('estimate backwards', estimate_backwards),
    ('estimate of the small network', estimate_resnet),
    ('recommend by card', recommend_by_card),
    ('recommend for cores', recommend_for_cores),
    ('recommend says what to expect', recommend_what_to_expect),
    ('recommend a model', recommend_a_model),
    ('recommend writes sections', recommend_sections),
    ('recommend cuts what does not fit', recommend_cuts),
    ('recommend writes our settings', recommend_writes_our_settings),
    ('recommend writes flat settings', recommend_writes_flat_settings),
    ('recommend writes a small network', recommend_writes_a_resnet),
    ('recommend without a card', recommend_without_a_card),
    ('recommend for the card found', recommend_for_the_card_found),
    ('asked wrongly', asked_wrongly),
]))
