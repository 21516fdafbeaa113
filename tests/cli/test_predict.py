# SPDX-License-Identifier: Apache-2.0
"""stoke predict: masks in the original size, and restored pictures, seen from Pillow; bad files, names, what is never written over."""
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib

import numpy as np
from PIL import Image

import network
from cli import STOKE, contains, equal, files_below, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=6, size='90x120')
PHOTOS = os.path.join(SET, 'images')
NET = network.write(path('net'))
SECOND = [230, 57, 70]  # the colour of class 1


def predict(name, *args, **more):
    return stoke_json('predict', *args, '--out', path(name), **more)


def mask(*parts):
    image = Image.open(path(*parts))
    return image, np.asarray(image)


def original_size_and_palette():
    answer = predict('plain', NET, PHOTOS)
    equal([answer[k] for k in ('pictures', 'written', 'bad', 'resized', 'slid', 'size', 'classes', 'model')],
          [6, 6, 0, 6, 0, [64, 64], 5, 'b0'])
    equal(files_below(path('plain')), [f'{i:06}.png' for i in range(6)])
    kinds = set()
    for entry in answer['files']:
        image, values = mask('plain', os.path.basename(entry['mask']))
        equal((image.mode, image.size), ('P', Image.open(entry['image']).size))
        equal((entry['width'], entry['height'], entry['mode'], entry['windows']), (120, 90, 'resize', 1))
        equal(image.getpalette()[3:6], SECOND, 'colour of class 1')
        assert 0 < entry['confidence'] <= 1, entry
        kinds |= set(np.unique(values))
    assert kinds <= set(range(5)) and len(kinds) > 1, kinds


def other_ways():
    one = os.path.join(PHOTOS, '000000.jpg')
    answer = predict('slide', NET, one, '--mode', 'slide', '--overlap', '0')
    equal((answer['slid'], answer['files'][0]['mode'], answer['files'][0]['windows']), (1, 'slide', 4))
    equal(mask('slide', '000000.png')[0].size, (120, 90))
    predict('flip', NET, one, '--flip')
    predict('size', NET, one, '--size', '96x128')
    plain = mask('plain', '000000.png')[1]
    for other in ('slide', 'flip', 'size'):
        assert not np.array_equal(plain, mask(other, '000000.png')[1]), f'{other} changes nothing'
    equal(predict('file', os.path.join(NET, 'model.safetensors'), one, '--size', 64)['size'], [64, 64])
    assert np.array_equal(plain, mask('file', '000000.png')[1]), 'the bare file is another network'
    contains(stoke('predict', NET, one, '--out', path('words')).stdout, '1 mask written to ', 'words/ in ', 'img/s')


def overlays():
    predict('over', NET, PHOTOS, '--overlay', '--opacity', '1')
    equal(len(files_below(path('over'))), 12)
    over = Image.open(path('over', '000000_overlay.jpg'))
    equal((over.mode, over.size), ('RGB', (120, 90)))
    values, pixels = mask('over', '000000.png')[1], np.asarray(over).astype(int)
    colors = np.array(mask('over', '000000.png')[0].getpalette()).reshape(-1, 3)
    inner = np.ones_like(values, bool)  # JPEG smears colours over borders
    for axis in (0, 1):
        for by in range(-4, 5):
            inner &= np.roll(values, by, axis) == values
    shown = inner & (values > 0)
    assert shown.sum() > 100, shown.sum()
    assert np.abs(pixels - colors[values])[shown].max() < 40, 'the overlay does not lie on the mask'


def overlays_have_limits():
    """A JPEG is at most 65500 pixels wide: the mask is written all the same, and the others' overlays."""
    Image.new('L', (65501, 1)).save(path('long.png'))
    few = [path('long.png'), os.path.join(PHOTOS, '000000.jpg')]
    answer = predict('long-out', NET, *few, '--overlay')
    equal(files_below(path('long-out')), ['000000.png', '000000_overlay.jpg', 'long.png'])
    equal([entry['overlay'] for entry in answer['files']], [None, path('long-out', '000000_overlay.jpg')])
    done = stoke('predict', NET, *few, '--overlay', '--out', path('long-out'), '--force')
    contains(done.stderr, '1 picture has no overlay')


def bad_files():
    folder = path('mixed')
    shutil.copytree(PHOTOS, folder)
    with open(os.path.join(folder, '000001.jpg'), 'r+b') as file:
        file.truncate(800)
    with open(os.path.join(folder, '000003.jpg'), 'w') as file:
        file.write('not a picture')
    os.remove(os.path.join(folder, '000005.jpg'))
    with open(os.path.join(folder, '000005.png'), 'wb') as file:  # 12 GB of pixels, it says
        file.write(b'\x89PNG\r\n\x1a\n')
        for part in (b'IHDR' + struct.pack('>IIBBBBB', 65000, 65000, 8, 2, 0, 0, 0), b'IDAT' + zlib.compress(b''), b'IEND'):
            file.write(struct.pack('>I', len(part) - 4) + part + struct.pack('>I', zlib.crc32(part)))
    answer = predict('mixed-out', NET, folder, code=1)
    equal((answer['written'], answer['bad']), (3, 3))
    equal(['error' in entry for entry in answer['files']], [False, True, False, True, False, True])
    contains(answer['files'][5]['error'], '000005.png', 'pixels')
    equal(files_below(path('mixed-out')), [f'{i:06}.png' for i in (0, 2, 4)])
    done = stoke('predict', NET, folder, '--out', path('mixed-2'), code=1)
    contains(done.stderr, '000001.jpg', '000003.jpg', '3 of 6 files gave no mask')
    contains(done.stdout, '3 masks')


def too_wide():
    """A picture over which windows would take more memory than there is (49 GB) has no mask; others have theirs."""
    if os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') > 32e9:
        return
    Image.new('L', (1 << 24, 1)).save(path('wide.png'))
    few = [path('wide.png'), os.path.join(PHOTOS, '000000.jpg')]
    answer = predict('wide-out', NET, *few, '--mode', 'slide', '--size', '512x32', code=1)
    equal((answer['written'], answer['bad']), (1, 1))
    contains(answer['files'][0]['error'], 'wide.png', 'GiB are available')


def names():
    for folder in ('a', 'b', 'b/sub'):
        os.makedirs(path('many', folder))
        shutil.copy(os.path.join(PHOTOS, '000000.jpg'), path('many', folder, 'x.jpg'))
    Image.open(path('many', 'a', 'x.jpg')).save(path('many', 'a', 'x.png'))
    files = [path('many', 'a', 'x.jpg'), path('many', 'b', 'x.jpg')]
    predict('n1', NET, *files)
    equal(files_below(path('n1')), ['a/x.png', 'b/x.png'])
    predict('n2', NET, path('many', 'b'))
    equal(files_below(path('n2')), ['sub/x.png', 'x.png'])
    predict('n3', NET, *files, path('many', 'a', 'x.png'), path('many', 'a', 'x.jpg'))
    equal(files_below(path('n3')), ['a/x.jpg.png', 'a/x.png.png', 'b/x.png'])
    equal(len(predict('n6', NET, path('many'))['files']), 4)
    equal(files_below(path('n6')), ['a/x.jpg.png', 'a/x.png.png', 'b/sub/x.png', 'b/x.png'])
    # Endings that make names alike again.
    os.makedirs(path('alike'))
    tangled = [path('alike', name) for name in ('y.jpg', 'y.png', 'y.jpg.png', 'y.png.jpg')]
    for name in tangled:
        Image.open(files[0]).save(name)
    predict('n7', NET, *tangled)
    equal(files_below(path('n7')), ['y.jpg.png', 'y.jpg.png.png', 'y.png.jpg.png', 'y.png.png'])
    # Links of one name to pictures of one folder.
    for folder, target in (('l1', 'y.jpg'), ('l2', 'y.png.jpg')):
        os.makedirs(path(folder))
        os.symlink(path('alike', target), path(folder, 'z.jpg'))
    predict('n8', NET, path('l1', 'z.jpg'), path('l2', 'z.jpg'))
    equal(files_below(path('n8')), ['alike/y.jpg.png', 'alike/y.png.jpg.png'])
    # A data set: its images, not its masks; named twice, predicted once.
    equal(predict('n4', NET, SET, PHOTOS)['pictures'], 6)
    equal(predict('n5', NET, '--data', SET, '--split', 'all')['pictures'], 6)


def nothing_is_written_over():
    one = os.path.join(PHOTOS, '000000.jpg')
    done = stoke('predict', NET, PHOTOS, '--out', path('plain'), code=1)
    contains(done.stderr, '000000.png: is there already', '--force')
    before = open(path('plain', '000000.png'), 'rb').read()
    stoke('predict', NET, one, '--out', path('plain'), '--force')
    equal(open(path('plain', '000000.png'), 'rb').read(), before, 'the same mask again')
    os.makedirs(path('own'))
    Image.open(one).save(path('own', 'p.png'))
    before = open(path('own', 'p.png'), 'rb').read()
    contains(stoke('predict', NET, path('own'), '--out', path('own'), '--force', code=1).stderr, 'the picture itself')
    equal(open(path('own', 'p.png'), 'rb').read(), before)


def asked_wrongly():
    contains(stoke('predict', NET, PHOTOS, code=2).stderr, '--out')
    contains(stoke('predict', NET, '--out', path('w'), code=2).stderr, 'pictures or folders')
    contains(stoke('predict', '--out', path('w'), code=2).stderr, 'run or network')
    contains(stoke('predict', '--data', SET, '--out', path('w'), code=2).stderr, 'run or network')
    contains(stoke('predict', NET, PHOTOS, '--data', SET, '--out', path('w'), code=2).stderr, 'pictures, or a data set')
    contains(stoke('predict', NET, PHOTOS, '--split', 'val', '--out', path('w'), code=2).stderr, '--split has no effect')
    contains(stoke('predict', path('nowhere'), PHOTOS, '--out', path('w'), code=1).stderr, 'nowhere', 'no such run')
    contains(stoke('predict', NET, path('nowhere'), '--out', path('w'), code=1).stderr, 'no such file or folder')
    contains(stoke('predict', SET, PHOTOS, '--out', path('w'), code=1).stderr, 'neither a run', 'config.json')
    contains(stoke('predict', NET, PHOTOS, '--out', path('w'), '--mode', 'slide', '--size', '66', code=2).stderr,
             'multiples of 4')
    contains(stoke('predict', NET, PHOTOS, '--out', path('w'), '--mask-values', '--mode', 'slyde', code=2).stderr, 'slide')
    os.makedirs(path('nothing'))
    contains(stoke('predict', NET, path('nothing'), '--out', path('w'), code=1).stderr, 'nothing')
    assert not os.path.exists(path('w')), 'a folder was made for nothing'


def make_run(name, settings, classes=2):
    folder = path(name)
    network.write(os.path.join(folder, 'best'), classes=classes, size=64, seed=1)
    network.write(os.path.join(folder, 'last'), classes=classes, size=64, seed=2)
    open(os.path.join(folder, 'log.jsonl'), 'w').close()
    with open(os.path.join(folder, 'config.yaml'), 'w') as file:
        file.write(settings)
    return folder


def run_folders():
    one = os.path.join(PHOTOS, '000000.jpg')
    run = make_run('run', 'size: 32x64\nlabel_map: 0:0,255:1\naugment: crop\nlr: 0.001\norientation: apply\n')
    answer = predict('r1', run, one)
    equal((answer['network'], answer['size'], answer['slid']), (os.path.join(run, 'best'), [32, 64], 1))
    predict('r2', os.path.join(run, 'best'), one)
    contains(stoke('predict', run, one, '--out', path('r1'), '--force').stderr, 'sees 32x64 (as in training)', 'memory:')
    equal(open(path('r1', '000000.png'), 'rb').read(), open(path('r2', '000000.png'), 'rb').read(), 'best/ itself')
    predict('r3', run, one, '--mask-values')
    assert np.array_equal(mask('r3', '000000.png')[1], mask('r1', '000000.png')[1] * np.uint8(255))
    equal(set(np.unique(mask('r3', '000000.png')[1])), {0, 255})
    equal(mask('r3', '000000.png')[0].getpalette()[-3:], SECOND)
    # Turned by its EXIF orientation, as the training turned pictures; or not.
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(one).save(path('turned.jpg'), exif=exif)
    predict('r4', run, path('turned.jpg'), '--overlay')
    equal((mask('r4', 'turned.png')[0].size, Image.open(path('r4', 'turned_overlay.jpg')).size), ((90, 120), (90, 120)))
    predict('r5', run, path('turned.jpg'), '--orientation', 'ignore')
    equal(mask('r5', 'turned.png')[0].size, (120, 90))
    shutil.rmtree(os.path.join(run, 'best'))
    equal(predict('r6', run, one)['network'], os.path.join(run, 'last'))
    shutil.rmtree(os.path.join(run, 'last'))
    contains(stoke('predict', run, one, '--out', path('r7'), code=1).stderr, 'neither best/ nor last/')
    contains(stoke('predict', make_run('bad', 'sise: 32\n'), one, '--out', path('r7'), code=1).stderr, 'config.yaml', 'size')


def upright_pictures():
    one = os.path.join(PHOTOS, '000000.jpg')
    # Without a word about it, upright as people see the picture; a run that ignored it is followed, and told of.
    answer = predict('r8', make_run('silent', 'size: 32x64\n'), path('turned.jpg'), one)
    equal((mask('r8', 'turned.png')[0].size, mask('r8', '000000.png')[0].size, answer['turned']), ((90, 120), (120, 90), 1))
    contains(answer['remarks'][0], '1 picture was turned upright', '--orientation ignore')
    answer = predict('r9', make_run('ignoring', 'size: 32x64\norientation: ignore\n'), path('turned.jpg'))
    equal((mask('r9', 'turned.png')[0].size, answer['turned']), ((120, 90), 0))
    contains(answer['remarks'][0], 'ignored, as in training', '--orientation apply')


def dark_pictures():
    """12 bits in a file of 16: the network sees black, and nobody is told by a mask."""
    grey = (np.arange(64 * 96).reshape(64, 96) % 4096).astype(np.uint16)
    Image.fromarray(grey).save(path('deep.png'))
    for more in [], ['--mode', 'slide'], ['--overlay']:
        run = make_run('deep', 'size: 32x64\n')
        answer = predict('d' + str(len(more)) + ''.join(more), run, path('deep.png'), *more)
        contains(answer['remarks'][0], '16-bit images with values', '--window p1:p99')
    equal(predict('d9', run, path('deep.png'), '--window', 'p1:p99')['remarks'], [])


def colors_of_the_set():
    with open(path('colors.txt'), 'w') as file:
        file.write('10 20 30 0 sky\n200 100 50 1 road\n')
    predict('c1', make_run('colored', f'label_map: {path("colors.txt")}\n'), os.path.join(PHOTOS, '000000.jpg'))
    equal(mask('c1', '000000.png')[0].getpalette()[:6], [10, 20, 30, 200, 100, 50])


def many_classes():
    answer = predict('wide', network.write(path('wide-net'), classes=300), os.path.join(PHOTOS, '000000.jpg'))
    image, values = mask('wide', '000000.png')
    equal((image.mode[0], image.size, answer['classes']), ('I', (120, 90), 300))  # I or I;16, as Pillow's version has it
    assert values.max() < 300 and len(np.unique(values)) > 1


def sixteen_bits():
    grey = np.asarray(Image.open(os.path.join(PHOTOS, '000000.jpg')).convert('L')).astype(np.uint16) * 16
    Image.fromarray(grey).save(path('deep.png'))
    predict('d1', NET, path('deep.png'), '--overlay')
    predict('d2', NET, path('deep.png'), '--window', '0:4095', '--overlay')
    over = [np.asarray(Image.open(path(d, 'deep_overlay.jpg'))).mean() for d in ('d1', 'd2')]
    assert over[1] > over[0] + 10, f'the window does not brighten: {over}'


def interrupted():
    """What is there is whole, and nothing else is."""
    folder = path('crowd')
    os.makedirs(folder)
    for i in range(300):
        os.link(os.path.join(PHOTOS, f'{i % 6:06}.jpg'), os.path.join(folder, f'{i:04}.jpg'))
    out = path('crowd-out')
    child = subprocess.Popen([STOKE, 'predict', NET, folder, '--out', out], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.time() + 120
    while time.time() < deadline and not (os.path.isdir(out) and len(os.listdir(out)) > 3):
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=120)
    equal(child.returncode, 130)
    found = files_below(out)
    contains(told.decode(), f'{len(found)} of 300 masks are in {out}', '--force')
    assert 3 < len(found) < 300, len(found)
    for name in found:
        assert name.endswith('.png') and len(name) == 8, name
        Image.open(os.path.join(out, name)).load()


def no_room():
    """A mask that cannot be written ends the work; half of it does not stay."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))
    done = stoke('predict', NET, PHOTOS, '--out', path('full'), code=1, preexec_fn=limit)
    contains(done.stderr, 'full/')
    equal(files_below(path('full')), [])


def pixels(*parts):
    return np.asarray(Image.open(path(*parts)).convert('RGB'))


def at_full_resolution():
    """A residual network has a logit for each pixel: windows over all of the picture have one answer, and it is numpy's."""
    net = network.Resnet(path('resnet'), classes=4)
    one = path('one.png')
    Image.open(os.path.join(PHOTOS, '000000.jpg')).crop((0, 0, 61, 47)).save(one)
    values = (pixels('one.png') / 255.0 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    logits = net.forward(values.transpose(2, 0, 1))
    answer = predict('full', net.folder, one, '--mode', 'slide', '--size', '47x61', '--precision', 'fp32')
    equal((answer['slid'], answer['files'][0]['windows'], answer['classes'], answer['task']), (1, 1, 4, 'segment'))
    chosen = np.take_along_axis(logits, mask('full', 'one.png')[1][None].astype(int), 0)[0]
    assert (logits.max(0) - chosen).max() < 1e-4 and len(np.unique(mask('full', 'one.png')[1])) > 1
    answer = predict('full2', net.folder, one, '--size', '33x29', '--mode', 'slide', '--overlap', '0.3')
    assert answer['files'][0]['windows'] > 4, answer
    same = (mask('full2', 'one.png')[1] == mask('full', 'one.png')[1]).mean()
    assert same > 0.8, f'{same} of windows of any size is as the whole'


def restored_pictures():
    """In tiles of any size what numpy makes of the whole picture; a picture of one pixel, and of 16 bits, too."""
    os.makedirs(path('small', 'sub'))
    Image.open(os.path.join(PHOTOS, '000001.jpg')).save(path('small', 'a.png'))
    Image.open(os.path.join(PHOTOS, '000002.jpg')).crop((3, 4, 40, 25)).save(path('small', 'sub', 'b.png'))
    Image.new('RGB', (1, 1), (200, 100, 0)).save(path('small', 'dot.png'))
    for scale in (1, 2):
        net = network.Resnet(path(f'restorer{scale}'), scale=scale)
        for tile in ('24x32', None):
            out = f'better{scale}{tile}'
            answer = predict(out, net.folder, path('small'), '--precision', 'fp32', *(['--size', tile] if tile else []))
            equal((answer['task'], answer['scale'], answer['written'], answer['bad']), ('restore', scale, 3, 0))
            assert not set(answer) & {'classes', 'resized', 'slid', 'size'}, answer
            equal(answer['tile'], [24, 32] if tile else [512, 512])
            equal(files_below(path(out)), ['a.png', 'dot.png', 'sub/b.png'])
            for entry in answer['files']:
                was, name = pixels(entry['image']), os.path.relpath(entry['image'], path('small'))
                image = Image.open(entry['restored'])
                equal((image.mode, image.size), ('RGB', (was.shape[1] * scale, was.shape[0] * scale)), name)
                equal((entry['width'], entry['height']), image.size)
                equal(entry['tiles'] > 1, bool(tile) and name != 'dot.png', name)
                wanted = net.restore(was)
                assert name == 'dot.png' or np.ptp(wanted) > 20, 'nothing to see'
                off = np.abs(np.asarray(image) - wanted).max()
                assert off < 0.5 + 1e-3, f'{name}, tiles {tile}: off by {off}'
    plain = pixels('better1None', 'a.png').astype(int)
    predict('better-flip', path('restorer1'), path('small', 'a.png'), '--flip')
    both = network.Resnet(path('restorer1'))
    own = pixels('small', 'a.png')
    wanted = (both.restore(own) + both.restore(own[:, ::-1])[:, ::-1]) / 2
    assert np.abs(pixels('better-flip', 'a.png') - wanted).max() < 1.51
    assert not np.array_equal(pixels('better-flip', 'a.png'), plain), '--flip changes nothing'
    Image.fromarray(np.asarray(Image.open(path('small', 'a.png')).convert('L')).astype(np.uint16) * 257).save(path('sixteen.png'))
    predict('better16', path('restorer1'), path('sixteen.png'), '--precision', 'fp32')
    wanted = both.restore(np.asarray(Image.open(path('small', 'a.png')).convert('L').convert('RGB')))
    assert np.abs(pixels('better16', 'sixteen.png') - wanted).max() < 0.5 + 1e-3


def restoring_says_what_it_does():
    net, one = path('restorer2'), path('small', 'a.png')
    done = stoke('predict', net, one, '--out', path('said'))
    contains(done.stderr, 'restores pictures 2 times as large in tiles of up to 512x512', 'memory: ')
    contains(done.stdout, '1 restored picture written to ')
    contains(stoke('predict', net, one, '--out', path('said'), code=1).stderr, 'a.png: is there already')
    for flag in (['--overlay'], ['--mask-values'], ['--overlap', '0.2'], ['--mode', 'slide'], ['--batch', '2'], ['--opacity', '1']):
        contains(stoke('predict', net, one, '--out', path('unsaid'), *flag, code=2).stderr, f'{flag[0]} is for masks', 'leave it out')
    contains(stoke('predict', net, one, '--out', path('unsaid'), '--size', 19, code=2).stderr, '20 x 20 at least')
    with open(path('small', 'no.png'), 'w') as file:
        file.write('no picture')
    contains(stoke('predict', net, path('small'), '--out', path('said2'), code=1).stderr, '1 of 4 files gave no restored picture')
    os.remove(path('small', 'no.png'))
    assert not os.path.exists(path('unsaid')), 'a folder was made for nothing'


def restoring_within_a_limit():
    """Smaller tiles give the same picture; and less than the smallest is refused."""
    net = network.Resnet(path('wide-restorer'), channels=32)
    Image.open(os.path.join(PHOTOS, '000003.jpg')).resize((700, 600)).save(path('large.png'))
    free = predict('free', net.folder, path('large.png'), '--precision', 'fp32')
    limit = free['plan']['bytes'] * 2 // 3
    less = predict('less', net.folder, path('large.png'), '--precision', 'fp32', '--memory-limit', limit)
    assert less['tile'][0] < free['tile'][0] and less['plan']['bytes'] <= limit, less
    assert np.abs(pixels('free', 'large.png').astype(int) - pixels('less', 'large.png')).max() <= 1
    contains(stoke('predict', net.folder, path('large.png'), '--out', path('none'), '--memory-limit', '4M', code=1).stderr, 'predicting needs')


sys.exit(tap.run([
    ('masks have the original size and a palette', original_size_and_palette),
    ('windows, mirror images, another size', other_ways),
    ('overlays', overlays),
    ('overlays have limits', overlays_have_limits),
    ('bad files among good ones', bad_files),
    ('a picture too wide for windows', too_wide),
    ('names', names),
    ('nothing is written over', nothing_is_written_over),
    ('asked wrongly', asked_wrongly),
    ('run folders', run_folders),
    ('pictures with an orientation', upright_pictures),
    ('12 bits in a file of 16', dark_pictures),
    ('colours of the set', colors_of_the_set),
    ('more than 256 classes', many_classes),
    ('16-bit pictures', sixteen_bits),
    ('interrupted', interrupted),
    ('no room', no_room),
    ('logits at full resolution', at_full_resolution),
    ('restored pictures', restored_pictures),
    ('restoring says what it does', restoring_says_what_it_does),
    ('restoring within a limit', restoring_within_a_limit),
]))
