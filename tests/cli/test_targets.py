# SPDX-License-Identifier: Apache-2.0
"""Sets of pictures to be restored: synth, verify, show, hash, dump, pack and settings files."""
import hashlib
import json
import os
import shutil
import sys

from cli import contains, equal, files_below, hashed, path, stoke, stoke_json, tap

SET = path('pairs')
stoke('synth', SET, '--task', 'restore', '--degrade', 'mix', '--scale', 2, '--count', 10, '--size', '96x64', '--quiet')
USUAL = (SET, '--scale', 2, '--size', '24x20', '--batch', 4, '--augment', 'strong')


def digest(folder):
    return [(name, hashlib.sha256(open(os.path.join(folder, name), 'rb').read()).hexdigest())
            for name in files_below(folder)]


def copied(name):
    folder = path(name)
    shutil.copytree(SET, folder)
    return folder


def synth_makes_pairs():
    again = path('again')
    answer = stoke_json('synth', again, '--task', 'restore', '--degrade', 'mix', '--scale', 2, '--count', 10, '--size', '96x64',
                        '--threads', 1)
    equal((answer['task'], answer['degrade'], answer['scale'], answer['height']), ('restore', 'mix', 2, 96))
    equal(digest(again), digest(SET), 'files')
    equal([len(files_below(os.path.join(SET, part))) for part in ('images', 'targets')], [10, 10])
    equal('degrade' in stoke_json('synth', path('masks'), '--count', 2, '--size', 32), False)
    contains(stoke('synth', SET, '--count', 2, '--size', 32, code=1).stderr, 'a set of the other task (targets)')
    contains(stoke('synth', path('masks'), '--task', 'restore', '--count', 2, '--size', 32, code=1).stderr, 'other task (masks)')
    contains(stoke('synth', path('x'), '--scale', 2, code=2).stderr, 'set --task restore')
    contains(stoke('synth', path('x'), '--task', 'restore', '--degrade', 'none', code=2).stderr, 'leaves nothing to restore')
    contains(stoke('synth', path('x'), '--task', 'restore', '--scale', 3, code=2).stderr, '--scale 3 must divide its sides')
    text = stoke('synth', path('x'), '--task', 'restore', '--degrade', 'blur', '--count', 1, '--size', 64)
    contains(text.stdout, '1 pair of 64x64 to 64x64', 'degraded by blur')
    contains(text.stderr, 'next: stoke verify ')


def verify_reads_both():
    answer = stoke_json('verify', SET, '--scale', 2)
    equal((answer['pairs'], answer['ok'], answer['bad'], answer['masks'], answer['targets']), (10, 10, [], False, True))
    equal((answer['mask_bytes'], answer['target_bytes'] > 0, answer['classes']), (0, True, []))
    contains(stoke('verify', SET, '--scale', 2).stdout, '10 pairs, 10 good', 'targets ')
    bad = stoke_json('verify', SET, code=1)
    equal((bad['ok'], len(bad['bad']), bad['bad'][0]['code']), (0, 10, 'size'))
    contains(bad['bad'][0]['reason'], 'the target is 96x64', 'is 48x32', '`scale` 2 would fit')


def verify_names_what_is_missing():
    folder = copied('missing')
    os.remove(os.path.join(folder, 'images', '000003.png'))
    os.remove(os.path.join(folder, 'targets', '000005.png'))
    with open(os.path.join(folder, 'targets', '000007.png'), 'r+b') as file:
        file.truncate(700)
    answer = stoke_json('verify', folder, '--scale', 2, code=1)
    equal(sorted((os.path.basename(x['path']), x['kind']) for x in answer['left_out']),
          [('000003.png', 'target without image'), ('000005.png', 'image without target')])
    equal([os.path.basename(x['path']) for x in answer['bad']], ['000007.png'])
    contains(stoke('verify', folder, '--scale', 2, code=1).stdout, 'image without target: ', 'no target has its stem')


def batches_do_not_depend_on_the_machine():
    whole = hashed(*USUAL)
    for other in (('--workers', 3), ('--workers', 0, '--prefetch', 5), ('--resume-at', 1, '--resume-workers', 1),
                  ('--cache-ram', '4M'), ('--cache', path('cache')), ('--cache', path('cache'))):
        equal(hashed(*USUAL, *other)['all'], whole['all'], str(other))
    equal(hashed(*USUAL, '--world', 2, '--ranks-all')['all'], whole['all'], 'ranks')
    by_name = hashed('--images', os.path.join(SET, 'images'), '--targets', os.path.join(SET, 'targets'), *USUAL[1:])
    equal(by_name['all'], whole['all'], 'named folders')
    assert hashed(*USUAL, '--photometric', 'both')['all'] != whole['all']


def lists_and_settings():
    with open(path('pairs.csv'), 'w') as out:
        for name in sorted(os.listdir(os.path.join(SET, 'images'))):
            out.write(f'pairs/images/{name},pairs/targets/{name}\n')
    listed = hashed('--list', path('pairs.csv'), '--task', 'restore', *USUAL[1:])
    with open(path('stoke.yaml'), 'w') as out:
        out.write(stoke('config', '--list', path('pairs.csv'), '--task', 'restore', *USUAL[1:]).stdout)
    equal(hashed('--config', path('stoke.yaml'))['all'], listed['all'])
    with open(path('other.yaml'), 'w') as out:
        json.dump({'images_dir': os.path.join(SET, 'images'), 'gt_dir': os.path.join(SET, 'targets'), 'upscale': 2,
                   'img_size': [24, 20], 'batch_size': 4, 'augment': 'strong'}, out)
    equal(hashed('--config', path('other.yaml'))['all'], hashed(*USUAL)['all'], "another trainer's names")
    # A set that flags name replaces the whole one of a file.
    equal(hashed(path('masks'), '--config', path('other.yaml'), '--scale', 1, '--size', 16)['all'],
          hashed(path('masks'), '--size', 16, '--batch', 4, '--augment', 'strong')['all'])


def dumped_targets_are_the_batch():
    out = path('dump')
    stoke('dump', *USUAL, '--dtype', 'u8', '--layout', 'hwc', '--out', out, '--batches', 0)
    with open(os.path.join(out, 'index.json')) as file:
        index = json.load(file)
    equal([b['digest'] for b in index['batches']],
          [b['digest'] for b in hashed(*USUAL, '--dtype', 'u8', '--layout', 'hwc')['batches']])
    equal('masks' in index['batches'][0], False)
    with open(os.path.join(out, index['batches'][0]['targets']), 'rb') as file:
        contains(file.read(128).decode('latin-1'), '(4, 48, 40, 3)', '|u1')
    assert not [name for name in os.listdir(out) if name.startswith('masks')]


def pictures_are_drawn():
    answer = stoke_json('show', *USUAL, '--count', 3, '--out', path('samples.png'))
    equal((answer['height'], answer['width'], len(answer['samples'])), (24, 20, 3))
    ops = stoke_json('show', SET, '--scale', 2, '--ops', '--out', path('ops.png'))
    equal((ops['draws'], ops['refused']), (4, []))
    for name in ('samples.png', 'ops.png'):
        assert os.path.getsize(path(name)) > 1000


def caches_are_filled_and_shards_refused():
    filled = stoke_json('pack', *USUAL, '--format', 'cache', '--out', path('kept'))
    equal((filled['stored'], filled['found'], filled['left_out']), (10, 0, 0))
    equal(stoke_json('pack', *USUAL, '--format', 'cache', '--out', path('kept'))['found'], 10)
    equal(hashed(*USUAL, '--cache', path('kept'))['cache']['hits'], 10)
    error = stoke('pack', SET, '--scale', 2, '--out', path('shards'), code=1).stderr
    contains(error, 'these samples have targets (--task restore)', 'pack --format cache')
    assert not os.path.exists(path('shards'))
    stoke('pack', path('masks'), '--out', path('shards'), '--quiet')
    contains(stoke('verify', path('shards'), '--task', 'restore', code=1).stderr, 'tar shards hold images and masks')


def what_needs_targets_says_so():
    contains(stoke('hash', path('masks'), '--task', 'restore', code=1).stderr, 'no images with targets found', 'input/target')
    contains(stoke('hash', '--images', SET, '--task', 'restore', code=2).stderr, 'needs targets', '--targets')
    contains(stoke('hash', '--images', SET, '--masks', SET, '--targets', SET, code=2).stderr, 'not both')
    contains(stoke('hash', path('masks'), '--scale', 2, code=2).stderr, '--scale 2 is that of targets')
    contains(stoke('hash', *USUAL, '--device', 'host', code=1).stderr, 'stay in host memory')
    contains(stoke('hash', *USUAL, '--order', 'balanced', code=2).stderr, 'masks')


def check_finds_targets():
    """In files of ours and of others; another set on the command line replaces all of it."""
    with open(path('ours.yaml'), 'w') as file:
        print('model: resnet\nbatch: 2\nworkers: 1\nclip_norm: 1\npatch_size: 16\nscale: 2\nimages: pairs/images\ntargets: pairs/targets',
              file=file)
    with open(path('theirs.yaml'), 'w') as file:
        print('base_channels: 8\nnum_blocks: 1\npatch_size: 16\nbatch_size: 2\nupscale: 2\nimages_dir: pairs/images\ntargets_dir: pairs/targets',
              file=file)
    for words in (['ours.yaml'], ['ours.yaml', '--data', SET], ['theirs.yaml'], ['theirs.yaml', '--data', SET]):
        lines = {line['title']: line for line in stoke_json('check', path(words[0]), *words[1:], code=None)['lines']}
        equal((lines['data set']['verdict'], 'without masks' in str(lines['data set'])), ('pass', False), ' '.join(words))
    with open(path('theirs.yaml')) as file, open(path('same-size.yaml'), 'w') as other:
        other.write(file.read().replace('upscale: 2', ''))
    both = [[line for line in stoke('check', path(name), '--data', SET, code=None).stdout.splitlines() if line.startswith('n/a   memory ')]
            for name in ('theirs.yaml', 'same-size.yaml')]
    assert both[0] != both[1], f'the scale makes no difference: {both}'


def no_empty_name():
    contains(stoke('hash', '--images', os.path.join(SET, 'images'), '--targets', '', code=2).stderr, '--targets: the name is empty')


sys.exit(tap.run([
    ('synth makes pairs', synth_makes_pairs),
    ('verify reads both', verify_reads_both),
    ('verify names what is missing', verify_names_what_is_missing),
    ('batches do not depend on the machine', batches_do_not_depend_on_the_machine),
    ('lists and settings', lists_and_settings),
    ('dumped targets are the batch', dumped_targets_are_the_batch),
    ('pictures are drawn', pictures_are_drawn),
    ('caches are filled, shards refused', caches_are_filled_and_shards_refused),
    ('what needs targets says so', what_needs_targets_says_so),
    ('check finds targets', check_finds_targets),
    ('an empty name is a slip', no_empty_name),
]))
