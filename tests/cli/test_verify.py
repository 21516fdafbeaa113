# SPDX-License-Identifier: Apache-2.0
"""stoke synth and stoke verify: a clean set, every kind of damage, real files."""
import csv
import hashlib
import json
import os
import shutil
import sys

from PIL import Image

from cli import contains, equal, files_below, make_set, path, stoke, stoke_json, tap

CLEAN = make_set('clean', count=8)


def damaged(name, damage):
    folder = path(name)
    shutil.copytree(CLEAN, folder)
    damage(folder)
    return folder


def image(folder, number):
    return os.path.join(folder, 'images', f'{number:06}.jpg')


def mask(folder, number):
    return os.path.join(folder, 'masks', f'{number:06}.png')


def digest(folder):
    return [(name, hashlib.sha256(open(os.path.join(folder, name), 'rb').read()).hexdigest())
            for name in files_below(folder)]


def synth_is_reproducible():
    again = path('again')
    answer = stoke_json('synth', again, '--count', 8, '--size', '40x56', '--classes', 5, '--seed', 3, '--threads', 1)
    equal(answer['count'], 8)
    equal(digest(again), digest(CLEAN), 'files')
    equal([len(files_below(os.path.join(CLEAN, part))) for part in ('images', 'masks')], [8, 8])


def clean_set():
    answer = stoke_json('verify', CLEAN, '--classes', 5)
    equal((answer['pairs'], answer['ok'], answer['bad'], answer['orphans']), (8, 8, [], []))
    equal(sum(c['pixels'] for c in answer['classes']), 8 * 40 * 56, 'pixels')
    assert all(c['id'] < 5 for c in answer['classes'])
    text = stoke('verify', CLEAN, '--classes', 5).stdout
    contains(text, '8 pairs, 8 good, 0 bad', '40x56', 'class', 'pixels')


def histogram_is_right():
    counts = {}
    for number in range(8):
        for value in Image.open(mask(CLEAN, number)).tobytes():
            counts[value] = counts.get(value, 0) + 1
    answer = stoke_json('verify', CLEAN)
    equal({c['id']: c['pixels'] for c in answer['classes']}, counts, 'histogram')


def deep_images():
    """16 bits that use 11: said by verify and, once, by those who would show or train on black pictures."""
    folder = path('deep')
    for part in ('images', 'masks'):
        os.makedirs(os.path.join(folder, part))
    for number in range(3):
        Image.frombytes('I;16', (16, 16), bytes().join((800 + 100 * (i % 15)).to_bytes(2, 'little') for i in range(256))).save(
            os.path.join(folder, 'images', f'{number}.png'))
        Image.frombytes('L', (16, 16), bytes(range(2)) * 128).save(os.path.join(folder, 'masks', f'{number}.png'))
    said = '16-bit images with values 800 to 2200, 2.1 % of the range'
    contains(stoke('verify', folder).stdout, 'depth  3 of the images have 16 bits, values 800 to 2200', said, '--window p1:p99')
    answer = stoke_json('verify', folder)
    equal((answer['images16'], answer['values16'], len(answer['remarks'])), (3, [800, 2200], 2))
    contains(answer['remarks'][1], said)
    equal(len(stoke_json('verify', folder, '--window', 'p1:p99')['remarks']), 1)
    equal(stoke_json('verify', CLEAN)['images16'], 0)
    for command in (['hash', '--world', 2, '--ranks-all'], ['show', '--out', path('deep.png')],
                    ['show', '--ops', '--only', 'hflip', '--out', path('deep-ops.png')],
                    ['dump', '--out', path('deep-dump')]):
        equal(stoke(command[0], folder, *command[1:], '--batch', 1).stderr.count('remark: ' + said), 1, command)
        shown = stoke(command[0], folder, *command[1:], '--quiet', *(['--force'] if command[0] == 'dump' else []))
        equal(shown.stderr, '', f'{command} --quiet')


def one_bad(name, damage, which, *words, options=()):
    """One damage, one line in `bad`, with the path and words of the reason; the rest stays good."""
    def test():
        folder = damaged(name, damage)
        answer = stoke_json('verify', folder, *options, code=1)
        equal(len(answer['bad']), 1, f'bad files in {answer["bad"]}')
        bad = answer['bad'][0]
        equal(bad['path'], which(folder), 'path')
        contains(bad['reason'].lower(), *words)
        equal(answer['ok'], 7, 'good pairs')
        text = stoke('verify', folder, *options, code=1).stdout
        contains(text, which(folder), '1 bad')
    return test


def truncate(folder):
    os.truncate(image(folder, 2), os.path.getsize(image(folder, 2)) // 2)


def truncate_mask(folder):
    os.truncate(mask(folder, 2), os.path.getsize(mask(folder, 2)) - 30)


def empty(folder):
    os.truncate(image(folder, 3), 0)


def wrong_type(folder):
    with open(image(folder, 4), 'w') as out:
        out.write('This is a text, not a picture.\n' * 20)


def other_size(folder):
    picture = Image.open(mask(folder, 5))
    picture.crop((0, 0, 55, 40)).save(mask(folder, 5))


def bad_label(folder):
    picture = Image.open(mask(folder, 6)).copy()
    picture.putpixel((7, 9), 77)
    picture.save(mask(folder, 6))


def bad_files_in_a_list():
    """Where one is named; a sample has one record, and a list that cannot be written is told."""
    folder = damaged('listed', truncate)
    with open(mask(folder, 5), 'w', encoding='ascii') as stream:
        stream.write('no mask')
    stoke('verify', folder, code=1)
    assert not os.path.exists(path('quarantine.jsonl')), 'nothing is written that nobody asked for'
    for name in ('bad.jsonl', 'quarantine.jsonl'):
        bad = stoke_json('verify', folder, '--quarantine', name, code=1)
        with open(path(name), encoding='utf-8') as stream:
            records = [json.loads(line) for line in stream]
        os.remove(path(name))
        equal([record['reason'] for record in records], [f'{line["path"]}: {line["reason"]}' for line in bad['bad']])
        equal((len(records), bad['unrecorded'], sorted(records[0])), (2, None, ['code', 'id', 'image', 'mask', 'name', 'reason', 'time']))
    done = stoke('verify', folder, '--quarantine', '/dev/full', '--json', code=1)
    contains(json.loads(done.stdout)['unrecorded'], '/dev/full', '2 bad samples are not in this list')
    contains(done.stderr, 'warning: /dev/full')


def missing_mask():
    folder = damaged('missing', lambda f: os.remove(mask(f, 1)))
    answer = stoke_json('verify', folder, code=1)
    equal((answer['pairs'], answer['ok']), (7, 7))
    equal(answer['orphans'], [image(folder, 1)], 'orphans')
    stoke('verify', folder, '--allow-orphans', code=0)
    contains(stoke('hash', folder).stderr, 'left out: 1 file')


def missing_image():
    folder = damaged('imageless', lambda f: os.remove(image(f, 1)))
    answer = stoke_json('verify', folder, code=1)
    equal(answer['orphans'], [mask(folder, 1)], 'orphans')


def duplicate_stem():
    folder = damaged('twice', lambda f: Image.open(image(f, 0)).save(image(f, 0)[:-3] + 'png'))
    answer = stoke_json('verify', folder, code=1)
    assert answer['duplicates'], answer
    assert any(d.endswith(('000000.png', '000000.jpg')) for d in answer['duplicates'])
    assert all(d['reason'] and d['kind'] for d in answer['left_out'])


def findings_as_csv():
    folder = damaged('csv', lambda f: (truncate(f), os.remove(mask(f, 1))))
    table = path('findings.csv')
    stoke('verify', folder, '--csv', table, code=1)
    with open(table, newline='') as stream:
        rows = list(csv.DictReader(stream))
    equal([r['kind'] for r in rows], ['bad', 'image without mask'])
    equal(rows[0]['path'], image(folder, 2))
    assert rows[0]['reason']


def folder_without_masks():
    answer = stoke_json('verify', '--images', os.path.join(CLEAN, 'images'))
    equal((answer['pairs'], answer['ok'], answer['masks']), (8, 8, False))


def masks_of_two_values():
    """0 and 255, where 255 is also the ignore_index: two classes, as training takes them. Else what is ignored is looked at."""
    def repaint(values):
        def damage(folder):
            for number in range(8):
                pixels = bytes(values[i % len(values)] for i in range(40 * 56))
                Image.frombytes('L', (56, 40), pixels).save(mask(folder, number))
        return damage
    folder = damaged('two-values', repaint([0, 255, 255, 255, 255]))
    def odd(*args):
        return [r for r in stoke_json('verify', *args)['remarks'] if 'never occurs' in r]
    taken = 'The masks hold 0 and 255: taken for 2 classes in this order (--label-map 0:0,255:1; if 255 means no class here'
    for few in damaged('few', repaint([0, 0, 0, 255])), folder:
        for options in [], ['--classes', 2]:
            answer = stoke_json('verify', few, *options)
            contains(answer['remarks'][0], taken)
            equal([c['id'] for c in answer['classes']], [0, 1])
    contains(stoke('verify', folder, '--classes', 2).stdout, taken)
    contains(odd(folder, '--classes', 3)[0], '80 % of the pixels are 255 = --ignore-index, and class 1 never occurs: if 255 is a '
             'class, use --label-map 0:0,255:1')
    equal(stoke_json('verify', folder, '--label-map', '0:0,255:1')['remarks'], [], 'after the advice')
    contains(odd(folder, '--label-map', '0:0,*:ignore')[0], '--label-map must say so')
    equal(odd(CLEAN), [])
    three = damaged('three-values', repaint([0, 1, 255, 255, 255]))
    equal(odd(three), [], 'two classes and much to ignore')
    contains(odd(three, '--classes', 3)[0], 'class 2 never', '--label-map 0:0,1:1,255:2')
    ground = damaged('ground', repaint([1, 255, 255]))
    contains(odd(ground, '--classes', 3)[0], '67 %', 'class 0 never', '--label-map 1:1,255:0')
    equal(odd(damaged('zero', repaint([0, 0, 1])), '--ignore-index', 0), [], '0 ignored')


def real_data(name, *options):
    """Every bad file has a reason, nothing crashes, and the counts add up."""
    def test():
        folder = os.path.join(os.environ.get('STOKE_TEST_DATA', ''), name)
        if not os.path.isdir(folder):
            raise tap.Skip(f'no test data in {folder}')
        done = stoke_json('verify', *[o.format(folder) for o in options], code=None)
        assert 'error' not in done, done
        assert done['pairs'] > 0
        equal(done['ok'] + len({b['path'] for b in done['bad']}), done['pairs'], 'good and bad')
        assert all(b['reason'] and b['path'] for b in done['bad'])
    return test


sys.exit(tap.run([
    ('16-bit images', deep_images),
    ('synth gives the same bytes', synth_is_reproducible),
    ('a clean set', clean_set),
    ('histogram against Pillow', histogram_is_right),
    ('truncated image', one_bad('truncated', truncate, lambda f: image(f, 2))),
    ('truncated mask', one_bad('truncated_mask', truncate_mask, lambda f: mask(f, 2))),
    ('empty file', one_bad('empty', empty, lambda f: image(f, 3), 'empty')),
    ('wrong type', one_bad('type', wrong_type, lambda f: image(f, 4))),
    ('mask of another size', one_bad('size', other_size, lambda f: mask(f, 5), '55', '56')),
    ('label that is no class', one_bad('label', bad_label, lambda f: mask(f, 6), '77', 'x 7', 'y 9',
                                       options=('--classes', 5))),
    ('bad files in a list', bad_files_in_a_list),
    ('missing mask', missing_mask),
    ('missing image', missing_image),
    ('two files with one stem', duplicate_stem),
    ('findings as CSV', findings_as_csv),
    ('folder without masks', folder_without_masks),
    ('masks of 0 and 255', masks_of_two_values),
    ('real data: formats', real_data('formats', '--images', '{}')),
    ('real data: pngsuite', real_data('pngsuite', '--images', '{}')),
    ('real data: camvid', real_data('camvid', '{}', '--classes', '11', '--label-map', '*:0')),
    ('real data: membrane', real_data('membrane', '{}', '--label-map', '0:0,255:1', '--classes', '2')),
]))
