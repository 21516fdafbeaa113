# SPDX-License-Identifier: Apache-2.0
"""stoke dump and stoke show, seen from NumPy and Pillow."""
import json
import os
import shutil
import sys

import numpy as np
from PIL import Image

from cli import contains, equal, files_below, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=10)
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def pillow(name):
    image = np.asarray(Image.open(os.path.join(SET, 'images', name + '.jpg')).convert('RGB'))
    return image, np.asarray(Image.open(os.path.join(SET, 'masks', name + '.png')))


def dump(name, *options):
    folder = path(name)
    answer = stoke_json('dump', SET, '--out', folder, '--batches', 0, '--batch', 4, *options)
    index = json.load(open(answer['index']))
    equal(len(index['batches']), answer['batches'])
    return folder, index


def load(folder, batch, kind):
    return np.load(os.path.join(folder, batch[kind]), allow_pickle=False)


def bytes_equal_pillow():
    folder, index = dump('u8', '--dtype', 'u8', '--layout', 'hwc', '--normalize', 'none', '--decode', 'exact')
    seen = []
    for batch in index['batches']:
        images, masks, ids = (load(folder, batch, kind) for kind in ('images', 'masks', 'ids'))
        equal((images.dtype, masks.dtype, ids.dtype), (np.uint8, np.uint8, np.uint64))
        equal(images.shape, (batch['count'], 40, 56, 3))
        equal(masks.shape, (batch['count'], 40, 56))
        for row, name in enumerate(batch['names']):
            image, mask = pillow(name)
            assert np.array_equal(images[row], image), f'{name}: image differs from Pillow'
            assert np.array_equal(masks[row], mask), f'{name}: mask differs from Pillow'
        seen += list(ids)
    equal(sorted(seen), list(range(10)), 'ids')
    equal(files_below(folder), sorted(['index.json'] + [f'{k}_{i:06}.npy' for k in ('images', 'masks', 'ids')
                                                        for i in range(3)]))


def mixed_rows():
    """A mixup op brings the second masks and the share of the first."""
    plain, before = dump('plain', '--augment', 'hflip', '--size', 32)
    mixed, index = dump('blended', '--augment', 'hflip,mixup(p=0.8,alpha=1)', '--size', 32)
    blended = 0
    for old, new in zip(before['batches'], index['batches']):
        assert 'masks_b' not in old and 'lambda' not in old
        images, masks = load(plain, old, 'images'), load(plain, old, 'masks')
        share, other = load(mixed, new, 'lambda'), load(mixed, new, 'masks_b')
        equal((share.dtype, share.shape, other.shape), (np.float32, (new['count'],), masks.shape))
        assert np.array_equal(load(mixed, new, 'masks'), masks)
        back = np.roll(np.arange(new['count']), 1)
        for row in range(new['count']):
            blended += share[row] != 1
            wanted = share[row] * images[row] + (np.float32(1) - share[row]) * images[back[row]]
            assert np.array_equal(load(mixed, new, 'images')[row], wanted), f'row {row} is not the blend'
            assert np.array_equal(other[row], masks[back[row] if share[row] != 1 else row])
    assert blended > 3, f'{blended} of 10 rows blended'
    stoke('dump', SET, '--out', mixed, code=1)  # masks_b and lambda files are known as dumped ones


def floats_chw():
    folder, index = dump('f32', '--normalize', 'imagenet', '--mask-dtype', 'i64')
    batch = index['batches'][1]
    images, masks = load(folder, batch, 'images'), load(folder, batch, 'masks')
    equal((images.dtype, masks.dtype, images.shape), (np.float32, np.int64, (4, 3, 40, 56)))
    for row, name in enumerate(batch['names']):
        image, mask = pillow(name)
        wanted = ((image / 255 - MEAN) / STD).transpose(2, 0, 1)
        assert np.abs(images[row] - wanted).max() < 1e-5, f'{name}: off by {np.abs(images[row] - wanted).max()}'
        assert np.array_equal(masks[row], mask)


def half_floats():
    folder, index = dump('f16', '--dtype', 'f16')
    images = load(folder, index['batches'][0], 'images')
    equal(images.dtype, np.float16)
    wanted = pillow(index['batches'][0]['names'][0])[0].transpose(2, 0, 1) / 255
    assert np.abs(images[0] - wanted).max() < 1e-3


def bfloats():
    folder, index = dump('bf16', '--dtype', 'bf16')
    equal(index['image_dtype'], 'bfloat16')
    assert 'uint16' in index['note']
    images = load(folder, index['batches'][0], 'images')
    equal(images.dtype, np.uint16)
    values = (images.astype(np.uint32) << 16).view(np.float32)
    wanted = pillow(index['batches'][0]['names'][0])[0].transpose(2, 0, 1) / 255
    assert np.abs(values[0] - wanted).max() < 4e-3


def default_is_one_batch():
    folder = path('one')
    equal(stoke_json('dump', SET, '--out', folder)['batches'], 1)
    equal(len(files_below(folder)), 4)


def digests_agree_with_hash():
    _, index = dump('digests', '--augment', 'light', '--size', 24)
    hashes = stoke_json('hash', SET, '--batch', 4, '--augment', 'light', '--size', 24)
    equal([b['digest'] for b in index['batches']], [b['digest'] for b in hashes['batches']])


def picture():
    out = path('grid.png')
    done = stoke('show', SET, '--count', 5, '--size', 32, '--tile', 64, '--out', out)
    equal(done.stdout.strip(), out)
    with Image.open(out) as image:
        equal((image.format, image.mode), ('PNG', 'RGB'))
        # five samples, each with its overlay beside it
        assert image.width * image.height >= 5 * 2 * 64 * 64, image.size
        assert len(image.getcolors(1 << 24)) > 100, 'no picture in it'


def picture_without_masks():
    out = path('plain.png')
    answer = stoke_json('show', '--images', os.path.join(SET, 'images'), '--order', 'sequential', '--count', 3,
                        '--columns', 2, '--out', out)
    equal(answer['samples'], ['000000', '000001', '000002'])
    with_masks = path('with-masks.png')
    stoke('show', SET, '--order', 'sequential', '--count', 3, '--columns', 2, '--out', with_masks)
    with Image.open(out) as plain, Image.open(with_masks) as pairs:
        # no overlay beside a sample, no legend ("0 100 %") below
        assert plain.width < pairs.width and plain.height < pairs.height, (plain.size, pairs.size)


def bad_files_are_counted(policy, words, counts):
    def test():
        folder = path('bad-' + policy)
        shutil.copytree(SET, folder)
        os.truncate(os.path.join(folder, 'images', '000004.jpg'), 100)
        settings = [folder, '--batch', 5, '--policy', policy, '--max-bad', 3, '--quarantine', '']
        for args in (['dump', *settings, '--batches', 0, '--out', path('dump-' + policy)],
                     ['show', *settings, '--count', 10, '--out', path(policy + '.png')],
                     ['hash', *settings]):
            answer = stoke(*args, '--json')
            contains(answer.stderr, words)
            equal(tuple(json.loads(answer.stdout)[key] for key in ('replaced', 'skipped')), counts, args[0])
        assert 'bad files' not in stoke('hash', SET).stderr
    return test


def pictures_are_png():
    for name in ('x.jpg', 'x', 'x.png.gz', '/dev/stdout'):
        done = stoke('show', SET, '--count', 1, '--out', name, code=2)
        contains(done.stderr, name, '.png')
        assert name.startswith('/') or not os.path.exists(path(name)), name
    stoke('show', SET, '--count', 1, '--out', path('CAPITALS.PNG'))


def dumps_are_not_mixed():
    folder = path('mixed')
    first = [SET, '--out', folder, '--batch', 4, '--batches', 3]
    stoke('dump', *first)
    written = {name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in files_below(folder)}
    done = stoke('dump', SET, '--out', folder, '--batch', 2, code=1)
    contains(done.stderr, folder, '--force')
    equal(done.stdout, '')
    equal({name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in files_below(folder)}, written, 'files')
    os.remove(os.path.join(folder, 'index.json'))
    stoke('dump', *first, code=1)
    stoke('dump', SET, '--out', folder, '--batch', 2, '--force')
    equal(sorted(files_below(folder)), sorted(written), 'nothing is removed')
    index = json.load(open(os.path.join(folder, 'index.json')))
    equal([batch['images'] for batch in index['batches']], ['images_000000.npy'], 'index')
    other = path('other-files')
    os.mkdir(other)
    for name in ('notes.txt', 'images_of_cats.npy', 'ids_.npy'):
        open(os.path.join(other, name), 'w').close()
    stoke('dump', SET, '--out', other)


sys.exit(tap.run([
    ('mixed rows', mixed_rows),
    ('u8 batches equal Pillow', bytes_equal_pillow),
    ('float32 CHW, ImageNet', floats_chw),
    ('float16', half_floats),
    ('bfloat16 as uint16', bfloats),
    ('one batch by default', default_is_one_batch),
    ('digests agree with hash', digests_agree_with_hash),
    ('replaced rows are counted', bad_files_are_counted('replace', 'bad files: 1 row replaced, 0 left out', (1, 0))),
    ('skipped rows are counted', bad_files_are_counted('skip', 'bad files: 0 rows replaced, 1 left out', (0, 1))),
    ('dumps are not mixed', dumps_are_not_mixed),
    ('show writes a picture', picture),
    ('pictures are PNG', pictures_are_png),
    ('show without masks', picture_without_masks),
]))
