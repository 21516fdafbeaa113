# SPDX-License-Identifier: Apache-2.0
"""stoke show --ops: the picture has a strip for everything there is, and its tiles are what the ops make."""
import os
import sys

import numpy as np
from PIL import Image

from cli import ROOT, contains, equal, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=5, size='40x56')
HEIGHT, WIDTH = 40, 56
# The page: margin, gap between tiles, seam between a tile and its overlay; the colours of paper and rules.
MARGIN, ASIDE, SEAM = 28, 8, 4
PAPER, RULE = (248, 248, 250), (216, 219, 226)


def first_tile(pixels):
    """The top of the first tile: below all texts, whose lines have paper between the letters."""
    lines = pixels[:, MARGIN:MARGIN + WIDTH]
    solid = ~((lines == PAPER).all(2) | (lines == RULE).all(2)).any(1)
    return int(np.argmax(solid))


def strip(*args, draws=3, folder=SET):
    """The tiles of a single strip at their own size: [as it is, draws...], images and overlays."""
    out = path('strip.png')
    answer = stoke_json('show', folder, '--ops', '--columns', draws, '--size', f'{HEIGHT}x{WIDTH}', '--tile', WIDTH, '--out',
                        out, *(() if '--sample' in args else ('--sample', 0)), *args)
    with Image.open(out) as picture:
        pixels = np.asarray(picture)
    lefts = [MARGIN + i * (WIDTH + ASIDE) for i in range(draws + 1)]
    top = first_tile(pixels)
    images = [pixels[top:top + HEIGHT, x:x + WIDTH] for x in lefts]
    overlays = [pixels[top + HEIGHT + SEAM:top + 2 * HEIGHT + SEAM, x:x + WIDTH] for x in lefts]
    return answer, images, overlays


def everything():
    out = path('ops.png')
    answer = stoke_json('show', SET, '--ops', '--columns', 3, '--sample', 0, cwd=path())
    equal((answer['path'], answer['draws'], answer['sample']), ('ops.png', 3, '000000'))
    equal((answer['height'], answer['width']), (HEIGHT // 2, WIDTH // 2), 'half the sample')
    assert {'hflip', 'random_crop', 'center_crop'} <= set(answer['ops']), answer['ops']
    equal({'none', 'light'} - set(answer['presets']), set(), 'presets')
    # Every op acts, forced as it is; normalize shows in floats only, and this is a picture of bytes.
    equal(set(answer['unchanged']) & set(answer['ops']), {'normalize'}, 'ops that do nothing')
    assert 'none' in answer['unchanged']
    with Image.open(out) as image:
        equal((image.format, image.mode), ('PNG', 'RGB'))
        strips = len(answer['ops']) + len(answer['presets'])
        assert image.width >= 2 * MARGIN + 2 * (4 * 192 + 3 * ASIDE), image.size
        assert image.height >= strips / 2 * 192 * HEIGHT // WIDTH, (image.size, strips)
        assert image.height < 4 * image.width, 'a ribbon'


def tiles_are_what_the_op_makes():
    answer, images, overlays = strip('--only', 'hflip')
    equal((answer['ops'], answer['presets']), (['hflip'], []))
    with Image.open(os.path.join(SET, 'images', '000000.jpg')) as image:
        assert np.abs(images[0].astype(int) - np.asarray(image.convert('RGB'))).max() <= 2, 'not the sample'
    assert (images[0] != images[0][:, ::-1]).any() and (overlays[0] != images[0]).any()
    assert (images[1] == images[0][:, ::-1]).all(), 'p is not 1'
    assert (overlays[1] == overlays[0][:, ::-1]).all(), 'the mask does not follow'
    for draw in range(2, 4):
        assert (images[draw] == PAPER).all(), 'the same draw again'


def masks_where_they_change():
    for op, change in (('rotate', True), ('gamma', False), ('cutmix', True), ('mixup', True), ('erasing', False)):
        _, images, overlays = strip('--only', op, '--sample', 1)
        assert not (images[1] == PAPER).all(2).any()
        equal(not (overlays[1][:20] == PAPER).all(2).any(), change, op)


def mixed_with_a_far_one():
    """Of five samples 0 is mixed with 2, not with its neighbour: cutmix draws come from these two."""
    with Image.open(os.path.join(SET, 'images', '000002.jpg')) as image:
        far = np.asarray(image.convert('RGB')).astype(int)
    _, images, _ = strip('--only', 'cutmix', draws=8)
    for image in images[1:]:
        own = np.abs(image.astype(int) - images[0]).max(2) <= 2
        other = np.abs(image.astype(int) - far).max(2) <= 2
        assert (own | other).all(), 'a pixel of neither'
    assert any((np.abs(image.astype(int) - far).max(2) <= 2).mean() > 0.3 for image in images[1:])


def fine_detail_is_not_averaged():
    """Noise is shown pixel by pixel where the tile is smaller than the picture."""
    out = path('fine.png')
    stoke('show', SET, '--ops', '--only', 'gaussian_noise', '--size', '80x112', '--tile', WIDTH, '--out', out)
    with Image.open(out) as picture:
        pixels = np.asarray(picture).astype(int)
    top = first_tile(pixels)
    left = MARGIN + WIDTH + ASIDE
    noise = pixels[top:top + HEIGHT, left:left + WIDTH] - pixels[top:top + HEIGHT, MARGIN:MARGIN + WIDTH]
    assert 5 < noise.std() < 9, noise.std()  # 0.03 * 255 is 7.7; averaged down it would be 3.8


def what_does_not_go_with_the_set_says_so():
    """Face swaps classes 4 and 5: with 5 classes there is no 5. The page is made all the same."""
    answer = stoke_json('show', SET, '--ops', '--columns', 2, '--classes', 5, '--out', path('five.png'))
    equal((answer['refused'], 'face' in answer['presets']), (['face'], True))


def draws_differ():
    _, images, _ = strip('--only', 'light', draws=8)
    kinds = {image.tobytes() for image in images}
    equal(kinds, {images[0].tobytes(), images[0][:, ::-1].tobytes()})
    _, again, _ = strip('--only', 'light', '--workers', 2, '--order', 'shuffle', '--batch', 1, draws=8)
    assert all((a == b).all() for a, b in zip(images, again)), 'other settings change the picture'
    _, later, _ = strip('--only', 'light', '--epoch', 2, draws=6)
    assert all((a == b).all() for a, b in zip(images[3:], later[1:])), 'draws are not those of the epochs'


def other_samples():
    first = [strip('--only', 'none', '--sample', i)[1][0].tobytes() for i in range(5)]
    equal(len(set(first)), 5)
    with Image.open(os.path.join(SET, 'images', '000003.jpg')) as image:
        got = np.frombuffer(first[3], np.uint8).reshape(HEIGHT, WIDTH, 3).astype(int)
        assert np.abs(got - np.asarray(image.convert('RGB'))).max() <= 2
    contains(stoke('show', SET, '--ops', '--sample', 5, code=2).stderr, '--sample 5', '5 samples')


def a_sample_to_look_at():
    """Not the first: neither a dark one, nor a bright one, nor one of a single class."""
    folder = path('night')
    for part in ('images', 'masks'):
        os.makedirs(os.path.join(folder, part))
    for n, (light, classes) in enumerate(((5, 4), (250, 4), (120, 1), (120, 3), (120, 3))):
        Image.fromarray(np.full((HEIGHT, WIDTH, 3), light, np.uint8)).save(os.path.join(folder, 'images', f'{n}.png'))
        mask = np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) % classes
        Image.fromarray(mask.astype(np.uint8)).save(os.path.join(folder, 'masks', f'{n}.png'))
    command = ('show', folder, '--ops', '--only', 'hflip', '--out', path('night.png'))
    equal(stoke_json(*command)['sample'], '3')
    equal(stoke_json(*command, '--sample', 0)['sample'], '0')


def one_sample_without_mask():
    folder = path('lonely')
    os.makedirs(folder)
    with Image.open(os.path.join(SET, 'images', '000001.jpg')) as image:
        image.save(os.path.join(folder, 'a.png'))
    out = path('lonely.png')
    stoke('show', '--images', folder, '--ops', '--columns', 2, '--out', out)
    assert os.path.getsize(out) > 1000


def same_on_every_processor():
    """All ops and presets at once: the picture drawn by the C functions is that of the fastest ones."""
    pictures = []
    for table in ('c', 'avx512'):
        out = path(table + '.png')
        stoke('show', SET, '--ops', '--columns', 4, '--size', '33x61', '--tile', 61, '--out', out, env={**os.environ, 'STOKE_CPU': table})
        with Image.open(out) as image:
            pictures.append(np.asarray(image))
    assert (pictures[0] == pictures[1]).all(), f'{(pictures[0] != pictures[1]).sum()} samples differ'


def page_names_every_setting():
    with open(os.path.join(ROOT, 'docs', 'augmentation.md'), encoding='utf-8') as page:
        rows = {line.split('`')[1]: line for line in reversed(list(page)) if line.startswith('| `')}  # the first one counts
    for op in stoke_json('ops')['ops']:
        contains(rows[op['name']], *[f'`{setting["name"]}`' for setting in op['settings']])


def mixed_samples():
    """Mixing changes the captions, not the names; a list too long for a line makes the title longer, not nonsense."""
    out, plain = path('mixed.png'), path('plain.png')
    settings = ['--count', 4, '--columns', 1, '--tile', 64]
    wanted = stoke_json('show', SET, *settings, '--out', plain)['samples']
    equal(stoke_json('show', SET, *settings, '--out', out, '--augment', 'mixup(p=1,alpha=1),gamma(p=0),hue(p=0)')['samples'], wanted)
    with Image.open(out) as mixed, Image.open(plain) as image:
        assert mixed.height > image.height + 30, 'the title is cut'


def misuse():
    contains(stoke('show', SET, '--ops', '--only', 'nothing', code=2).stderr, 'nothing')
    contains(stoke('show', SET, '--only', 'hflip', code=2).stderr, '--ops')
    contains(stoke('show', SET, '--ops', '--augment', 'hflip', code=2).stderr, '--augment hflip', '--only')
    contains(stoke('show', SET, '--sample', 1, code=2).stderr, '--ops')
    contains(stoke('show', SET, '--ops', '--out', 'x.jpg', code=2).stderr, '.png')
    stoke('show', path('nowhere'), '--ops', code=1)
    assert not os.path.exists(path('x.jpg'))


sys.exit(tap.run([
    ('a strip for every op and preset', everything),
    ('tiles are what the op makes', tiles_are_what_the_op_makes),
    ('masks where they change', masks_where_they_change),
    ('mixed with a far sample', mixed_with_a_far_one),
    ('fine detail is not averaged', fine_detail_is_not_averaged),
    ('what does not go with the set says so', what_does_not_go_with_the_set_says_so),
    ('draws differ, and depend on the epoch alone', draws_differ),
    ('other samples', other_samples),
    ('a sample to look at', a_sample_to_look_at),
    ('one sample without a mask', one_sample_without_mask),
    ('the same picture on every processor', same_on_every_processor),
    ('docs/augmentation.md names every setting', page_names_every_setting),
    ('mixed samples', mixed_samples),
    ('misuse', misuse),
]))
