#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""verify and train know the same of a set: what its masks mean, what is wrong with it, and what to type."""
import json
import os
import sys

import numpy as np
from PIL import Image

from cli import contains, equal, path, stoke, stoke_json, tap


def make(name, mask, count=12, ending='png', image=None):
    """images/N.png of 36 x 48 and masks/N.`ending`; mask(n): an array."""
    folder = path(name)
    for part in ('images', 'masks'):
        os.makedirs(os.path.join(folder, part), exist_ok=True)
    picture = np.arange(36 * 48 * 3).reshape(36, 48, 3) % 251
    for n in range(count):
        Image.fromarray((picture if image is None else image).astype(np.uint8)).save(os.path.join(folder, 'images', f'{n}.png'))
        Image.fromarray(mask(n)).save(os.path.join(folder, 'masks', f'{n}.{ending}'), quality=80)
    return folder


def stripes(*values, height=36, width=48):
    rows = np.array(values)[np.arange(height) * len(values) // height]
    return np.repeat(rows[:, None], width, 1).astype(np.uint16 if max(values) > 255 else np.uint8)


def dry(folder, *options, code=0):
    return stoke('train', folder, '--dry-run', *options, code=code).stderr


def both_refuse(folder, *words):
    """The same sentence from both, up to the mask that is named."""
    answer = stoke_json('verify', folder, code=1)
    told = dry(folder, code=1)
    contains(answer['refusal'], *words)
    contains(told, *words)
    contains(stoke('verify', folder, code=1).stdout, 'training would not begin', *words)
    return answer


def jpeg_masks():
    both_refuse(make('jpeg', lambda n: stripes(0, 3, 11, 3, 0, 11), ending='jpg'), 'the masks are JPEG files', 'Save masks as PNG')
    # Who gives the number of classes is told as well, and stopped only by values beyond it.
    contains(stoke('verify', path('jpeg'), '--classes', 12, code=None).stdout, 'The masks are JPEG files')
    contains(dry(path('jpeg'), '--classes', 20), 'The masks are JPEG files')
    contains(dry(path('jpeg'), '--classes', 12, code=1), 'The masks are JPEG files', 'masks hold a value that is no class')


def nothing_to_learn():
    both_refuse(make('zero', lambda n: stripes(0)), 'nothing but 0', 'there is nothing to learn')
    both_refuse(make('void', lambda n: stripes(255)), 'nothing but 255', '--ignore-index')
    # With the number of classes it is a remark.
    said = 'The masks hold nothing but 0'
    contains(dry(path('zero'), '--classes', 2), said, 'there is nothing to learn')
    contains(stoke('verify', path('zero'), '--classes', 2).stdout, said)


def colours():
    def colored(n):
        mask = np.zeros((36, 48, 3), np.uint8)
        mask[:9] = 128, 64, 7
        return mask
    answer = both_refuse(make('colour', colored), 'is a colour picture', 'Colours of this mask: 128 64 7; 0 0 0', '--label-map')
    equal(len(answer['bad']), 12)
    shown = stoke('verify', path('colour'), code=1).stdout
    equal(shown.count('the mask is a colour picture'), 1, 'said once')
    contains(shown, '... and 11 more like it')


def foreground():
    folder = make('foreground', lambda n: stripes(0, 0, 0, 0, 0, 0, 0, 255))
    said = 'The masks hold 0 and 255: taken for 2 classes in this order'
    answer = stoke_json('verify', folder)
    equal(([c['id'] for c in answer['classes']], answer['n_classes'], answer['bad']), ([0, 1], 2, []))
    contains(answer['remarks'][0], said)
    contains(dry(folder), said)
    # Values that become classes are no fault of their files, whatever was asked for.
    folder = make('levels', lambda n: stripes(0, 127, 255))
    answer = stoke_json('verify', folder, '--classes', 3)
    equal(([c['id'] for c in answer['classes']], answer['ok']), ([0, 1, 2], 12))
    contains(dry(folder, '--classes', 3), '0:0,127:1,255:2')


def many_classes():
    def many(n):
        mask = np.zeros((36, 48), np.uint16)
        mask.flat[:300] = np.arange(300)
        return mask
    folder = make('many', many)
    both_refuse(folder, 'values up to 299', '--classes 300')
    said = '255 is one of 300 classes: 65535 stands for pixels without a class instead (--ignore-index)'
    answer = stoke_json('verify', folder, '--classes', 300)
    equal((len(answer['classes']), answer['ignore_index'], answer['ok']), (300, 65535, 12))
    contains(answer['remarks'], said + '.')
    contains(dry(folder, '--classes', 300), said)
    # A loader hands its masks to somebody else's loss: it does not choose, it says what to type.
    contains(stoke('hash', folder, '--classes', 300, '--size', 32, code=2).stderr, '255 is one of them', '--ignore-index 65535')
    stoke('hash', folder, '--classes', 300, '--size', 32, '--ignore-index', 65535)
    contains(stoke('hash', folder, '--size', 32, '--max-bad', 0, code=1).stderr, 'more than 256 classes want')


def other_sizes():
    folder = make('sizes', lambda n: stripes(0, 1, 2) if n % 2 else stripes(0, 1, 2, height=30, width=40))
    reason = 'the mask is 30x40 (height x width), its image is 36x48'
    contains(dry(folder, code=1), 'masks have another size than their image', '--max-bad', reason)
    answer = stoke_json('verify', folder, code=1)
    equal((len(answer['bad']), answer['bad'][0]['reason']), (6, reason))


def one_behind_the_classes():
    folder = make('behind', lambda n: stripes(0, 1, 2, 3))
    words = 'value 3 at', '--ignore-index 3'
    contains(stoke('verify', folder, '--classes', 3, code=1).stdout, *words)
    told = dry(folder, '--classes', 3, code=1)
    contains(told, 'masks hold a value that is no class', '--max-bad', *words)
    dry(folder, '--classes', 3, '--ignore-index', 3)
    dry(folder, '--classes', 3, '--max-bad', '100%')
    # One of many is the loader's business: more than a glance finds it, and it is told.
    folder = make('rare', lambda n: stripes(0, 1, 3 if n == 64 else 2), count=130)
    contains(dry(folder, '--classes', 3, '--max-bad', 2), '1 of ', 'holds a value that is no class', 'value 3 at')
    contains(dry(folder, '--classes', 2, code=1), 'of 105 masks hold', 'value 2 at')
    # A map that names none of the values.
    contains(dry(folder, '--label-map', '7:0,8:1', code=1), 'not in the label map')


def a_run_without_a_step():
    """Its name is free again, and nothing that was there before is gone."""
    folder = make('stepless', lambda n: stripes(0, 1, 2))
    for n in range(12):
        os.truncate(os.path.join(folder, 'images', f'{n}.png'), 100)
    command = ('train', folder, '--size', 32, '--batch', 2, '--steps', 1, '--runs', path('stepless-runs'), '--name', 'x')
    run = path('stepless-runs', 'x')
    contains(stoke(*command, code=1).stderr, 'samples are bad')
    assert not os.path.exists(run), os.listdir(run)
    os.makedirs(run)
    contains(stoke(*command, code=1).stderr, 'samples are bad')
    equal(os.listdir(run), [])


def which_way_up():
    """Every command takes images alike whose mask cannot tell by its size: as the others of the set."""
    folder = make('turned', lambda n: stripes(0, 1, 2) if n % 2 else stripes(0, 1, 2, height=48, width=36))
    for n in range(12):
        name = os.path.join(folder, 'images', f'{n}.png')
        exif = Image.Exif()
        exif[0x0112] = 3 if n % 2 else 6
        Image.open(name).save(name.replace('.png', '.jpg'), exif=exif)
        os.remove(name)
    said = '6 images have an orientation (EXIF) and a mask that fits both ways: taken upright like the others (--orientation apply'
    contains(stoke('verify', folder).stdout, said)
    contains(stoke('show', folder, '--size', 32, '--out', path('turned.png')).stderr, said)
    small = ('--size', 32, '--batch', 2, '--runs', path('runs'))
    contains(stoke('train', folder, *small, '--steps', 1, '--name', 'turned').stderr, said)
    contains(open(path('runs', 'turned', 'config.yaml'), encoding='utf-8').read(), '\norientation: apply\n')
    as_run = stoke_json('eval', path('runs', 'turned'), '--split', 'all')
    done = stoke('eval', path('runs', 'turned'), '--split', 'all', '--orientation', 'auto')
    contains(done.stderr, said)
    contains(done.stdout, f'mIoU {as_run["miou"]:.4f}')
    loading = (folder, '--size', 32, '--batch', 2)
    applied = digests('hash', *loading, '--orientation', 'apply')
    done = stoke('hash', *loading, '--world', 2, '--ranks-all')
    equal(done.stderr.count(said), 1, done.stderr)
    equal(digests('hash', *loading), applied, 'hash')
    equal(digests('hash', *loading, '--device', 'host', '--placement', 'device'), applied, 'a feed')
    stoke('pack', folder, '--format', 'cache', '--out', path('turned-cache'), '--size', 32)
    cached = stoke_json('hash', *loading, '--cache', path('turned-cache'))
    equal((cached['all'], cached['cache']['misses']), (applied, 0), 'a cache')
    for command in (('dump', *loading, '--out', path('turned-dump')), ('bench', 'data', folder, '--size', 32, '--short'),
                    ('diagnose', *loading, '--device', 'host', '--step-ms', 1, '--steps', 2)):
        contains(stoke(*command).stderr, said)


def digests(*command):
    return stoke_json(*command)['all']


def other_formats():
    """Pictures that nobody reads are named, by verify, train and whoever finds nothing else."""
    folder = make('formats', lambda n: stripes(0, 1, 2))
    for name in 'a.bmp', 'b.BMP', 'c.gif':
        open(os.path.join(folder, 'images', name), 'wb').close()
    write(os.path.join(folder, 'images'), 'notes.txt', 'a note is no picture')
    contains(stoke('verify', folder).stdout, 'Left out: 2 .bmp, 1 .gif; JPEG, PNG, WebP and TIFF are read')
    contains(dry(folder), 'Left out: 2 .bmp, 1 .gif')
    contains(stoke('hash', folder, '--size', 32).stderr, 'left out: 2 .bmp, 1 .gif')
    bare = path('formats', 'bare')
    os.makedirs(bare)
    open(os.path.join(bare, 'x.bmp'), 'wb').close()
    contains(stoke('verify', '--images', bare, code=1).stderr, 'no JPEG, PNG, WebP or TIFF files; there are: 1 .bmp')
    contains(stoke('verify', bare, code=1).stderr, 'Files that are not read: 1 .bmp')


def write(folder, name, text):
    with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
        file.write(text)


def named(folder, *options):
    return [c.get('name') for c in stoke_json('verify', folder, *options)['classes']]


def names():
    folder = make('named', lambda n: stripes(0, 1, 2))
    equal(named(folder), [None] * 3)
    equal(named(folder, '--names', 'sky,road,car'), ['sky', 'road', 'car'])
    equal(named(folder, '--names', '2:car,0:天空'), ['天空', None, 'car'])
    write(folder, 'n.txt', '# mine\nsky\n\nlane road \r\ncar\n')
    equal(named(folder, '--names', os.path.join(folder, 'n.txt')), ['sky', 'lane road', 'car'])
    write(folder, 'n.txt', '2: car\n0 sky\n1\troad\n')
    equal(named(folder, '--names', os.path.join(folder, 'n.txt')), ['sky', 'road', 'car'])
    write(folder, 'n.yaml', 'path: ../x\nnc: 3\nnames:\n  0: sky\n  1: road\n  2: car\n')
    equal(named(folder, '--names', os.path.join(folder, 'n.yaml')), ['sky', 'road', 'car'])
    for text in 'names: [sky, road, car]\n', 'names: {0: sky, 1: road, 2: car}\n', 'names: "sky,road,car"\n':
        write(folder, 'settings.yaml', text)
        equal(named(folder, '--config', os.path.join(folder, 'settings.yaml')), ['sky', 'road', 'car'])
    contains(stoke('verify', folder, '--names', 'sky,road,car').stdout, 'name', 'road')
    contains(stoke('verify', folder, '--names', path('nowhere.txt'), code=1).stderr, 'no list such as', 'no file')
    contains(stoke('verify', folder, '--names', 'a,,b', code=2).stderr, 'the name of class 1 is missing')
    contains(stoke('verify', folder, '--names', 'a\x1b[2J,b', code=2).stderr, 'control character')
    contains(dry(folder, '--names', 'sky,road'), '--names has 2 names for 3 classes')
    contains(dry(folder, '--names', 'a,b,c,d,e'), '5 classes, from the values 0 to 2 in the masks and 5 names, of which 2 occur in none')


def names_without_a_font():
    folder = make('fontless', lambda n: stripes(0, 1, 2), count=2)
    show = ('show', folder, '--size', 32, '--out', path('fontless.png'))
    for font, names, said in ((path('none.ttf'), '天空,b,c', 'show ? for U+5929'), (path('none.ttf'), 'a,b,c', None), ('none', '天空,b,c', None)):
        told = stoke(*show, '--names', names, env={**os.environ, 'STOKE_FONT': font}).stderr
        if said:
            contains(told, said, 'install fonts-wqy-microhei, or set STOKE_FONT=FILE')
        equal('no font here' in told, bool(said), told)


def names_beside_the_set():
    for name, text in (('classes.txt', 'a\nb\nc\n'), ('names.txt', 'a\nb\nc\n'), ('labels.txt', '0 a\n1 b\n2 c\n'),
                       ('data.yaml', 'names: [a, b, c]\n')):
        folder = make('beside-' + name, lambda n: stripes(0, 1, 2), count=5)
        write(folder, name, text)
        answer = stoke_json('verify', folder)
        equal([c['name'] for c in answer['classes']], ['a', 'b', 'c'], name)
        contains(answer['remarks'], f'Names of the classes are those in {folder}/{name}.')
        contains(dry(folder), f'{folder}/{name}')
        equal([c['name'] for c in stoke_json('verify', '--images', folder + '/images', '--masks', folder + '/masks')['classes']],
              ['a', 'b', 'c'])
    # A file of that name that is something else.
    folder = make('beside-other', lambda n: stripes(0, 1, 2), count=5)
    for text in 'images/1.png\nimages/2.png\nb\n', 'one\n', 'a\nb\n' * 40, '\x00\x01\n', ''.join(f'{i}\n' for i in range(5000)):
        write(folder, 'labels.txt', text)
        equal([c.get('name') for c in stoke_json('verify', folder)['classes']], [None] * 3, text[:20])
        contains(dry(folder), '3 classes')


def names_of_a_run():
    folder = make('run-set', lambda n: stripes(0, 1, 2), count=6)
    write(folder, 'classes.txt', '天空\nroad\ncar\n')
    run = os.path.join(path('runs'), 'named')
    stoke('train', folder, '--runs', path('runs'), '--name', 'named', '--steps', 2, '--size', 32, '--batch', 2)
    with open(os.path.join(run, 'last', 'config.json'), encoding='utf-8') as file:
        equal(json.load(file)['id2label'], {'0': '天空', '1': 'road', '2': 'car'})
    # The run has them: the file beside the set may go.
    os.remove(os.path.join(folder, 'classes.txt'))
    contains(open(os.path.join(run, 'config.yaml'), encoding='utf-8').read(), '0:天空,1:road,2:car')
    equal([c['name'] for c in stoke_json('eval', run, '--split', 'all')['classes']], ['天空', 'road', 'car'])
    stoke('train', '--config', os.path.join(run, 'config.yaml'), '--runs', path('runs'), '--name', 'again', '--dry-run')


sys.exit(tap.run([
    ('masks in JPEG', jpeg_masks),
    ('nothing to learn', nothing_to_learn),
    ('colours', colours),
    ('0 and 255', foreground),
    ('300 classes', many_classes),
    ('masks of another size', other_sizes),
    ('a value one behind the classes', one_behind_the_classes),
    ('a run without a step', a_run_without_a_step),
    ('which way up', which_way_up),
    ('other formats', other_formats),
    ('names', names),
    ('names without a font', names_without_a_font),
    ('names beside the set', names_beside_the_set),
    ('names of a run', names_of_a_run),
]))
