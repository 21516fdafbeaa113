# SPDX-License-Identifier: Apache-2.0
"""stoke pack and tar shards as a source, beside GNU tar."""
import glob
import os
import shutil
import signal
import subprocess
import sys
import time

from cli import STOKE, WORK, contains, equal, files_below, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=14)
SHARDS = path('shards')
stoke('pack', SET, '--out', SHARDS, '--shard-samples', 5, '--quiet')


def tar(*args, **more):
    if not shutil.which('tar'):
        raise tap.Skip('no tar')
    return subprocess.run(['tar', *args], check=True, capture_output=True, text=True, **more).stdout


def read(name):
    with open(name, 'rb') as stream:
        return stream.read()


def digests(data, *options):
    return stoke('hash', data, '--quiet', *options).stdout


def tar_lists_and_unpacks():
    listing = tar('-tvf', os.path.join(SHARDS, '000002.tar')).splitlines()
    equal(len(listing), 8)
    contains(listing[0], '-rw-r--r-- 0/0', '1970-01-01', ' 000010.jpg')
    contains(listing[1], ' 000010.mask.png')
    os.makedirs(path('unpacked'))
    for number in range(3):
        tar('-xf', os.path.join(SHARDS, f'{number:06d}.tar'), '-C', path('unpacked'))
    equal(len(files_below(path('unpacked'))), 28)
    for number in range(14):
        name = f'{number:06d}'
        equal(read(path('unpacked', name + '.jpg')), read(os.path.join(SET, 'images', name + '.jpg')), name)
        equal(read(path('unpacked', name + '.mask.png')), read(os.path.join(SET, 'masks', name + '.png')), name)


def same_digests():
    settings = [(), ('--order', 'sequential'), ('--order', 'balanced'), ('--epoch', '3', '--seed', '9'),
                ('--split', 'val', '--val-split', '0.4'), ('--split', 'train', '--val-split', '0.4'),
                ('--workers', '0', '--size', '32'), ('--dtype', 'u8', '--layout', 'hwc')]
    # presets come and go; `light` stays
    settings += [('--augment', preset, '--size', '24') for preset in ('light', 'crop', 'standard', 'strong', 'face', 'medical')
                 if preset == 'light' or stoke('hash', SET, '--quiet', '--augment', preset, code=None).returncode == 0]
    for options in settings:
        equal(digests(SHARDS, '--batch', '4', *options), digests(SET, '--batch', '4', *options), ' '.join(options))
    equal(digests(os.path.join(SHARDS, '{000000..000002}.tar')), digests(SET), 'pattern')


def archives_of_gnu_tar():
    if not os.path.isdir(path('unpacked')):
        raise tap.Skip('nothing was unpacked')
    for kind in ('gnu', 'pax', 'ustar', 'v7'):
        archive = path(kind + '.tar')
        tar('--format=' + kind, '-cf', archive, '-C', path('unpacked'), '.')
        equal(digests(archive), digests(SET), kind)
        contains(stoke('verify', archive).stdout, '14 pairs, 14 good, 0 bad, 0 left out')
    # names that only extensions can hold
    deep = os.path.join(path('deep'), *['folder-%02d' % i for i in range(30)])
    os.makedirs(deep)
    shutil.copy(os.path.join(SET, 'images', '000000.jpg'), os.path.join(deep, 'n' * 120 + '.jpg'))
    shutil.copy(os.path.join(SET, 'masks', '000000.png'), os.path.join(deep, 'n' * 120 + '.mask.png'))
    for kind in ('gnu', 'pax'):
        tar('--format=' + kind, '-cf', path('deep.tar'), '-C', path('deep'), '.')
        contains(stoke('verify', path('deep.tar')).stdout, '1 pair, 1 good')
    os.unlink(path('deep.tar'))


def long_names_are_packed_for_tar():
    folder = path('long')
    below = os.path.join(*['folder-%02d' % i for i in range(30)])
    for side, source in (('images', '000000.jpg'), ('masks', '000000.png')):
        os.makedirs(os.path.join(folder, side, below))
        shutil.copy(os.path.join(SET, side, source),
                    os.path.join(folder, side, below, 'v1.2 100% ' + 'n' * 120 + source[-4:]))
    stoke('pack', folder, '--out', path('long-shards'), '--quiet')
    equal(digests(path('long-shards')), digests(folder))
    names = tar('-tf', path('long-shards', '000000.tar')).splitlines()
    equal(names[0], os.path.join(below, 'v1%2E2 100%25 ' + 'n' * 120 + '.jpg'))


def report_and_json():
    answer = stoke_json('pack', SET, '--out', path('json'), '--shard-size', '20K')
    equal((answer['samples'], answer['kept'], answer['left_out']), (14, 0, []))
    sizes = [os.path.getsize(path('json', name)) for name in files_below(path('json')) if name.endswith('.tar')]
    equal((len(sizes), sum(sizes)), (answer['shards'], answer['bytes']))
    assert max(sizes) <= 20 * 1024 and answer['shards'] > 1, sizes
    again = stoke_json('pack', SET, '--out', path('json'), '--shard-size', '20K')
    equal((again['kept'], again['written_bytes']), (answer['shards'], 0))
    done = stoke('pack', SET, '--out', path('json'), '--shard-size', '20K', '--quiet')
    contains(done.stdout, '14 samples in', 'finished before')
    equal(done.stderr, '')


def asked_wrongly():
    contains(stoke('pack', SET, code=2).stderr, '--out DIR')
    contains(stoke('pack', SET, '--out', path('x'), '--prefix', 'a/b', code=2).stderr, 'prefix')
    contains(stoke('pack', SET, '--out', SHARDS, '--quiet', code=1).stderr, 'other settings (--shard-size', '--force')
    contains(stoke('pack', SET, '--out', SET, code=1).stderr, 'was not made by pack')
    # What shapes samples does not shape files, and a set is named by one word.
    contains(stoke('pack', SET, '--out', path('mapped'), '--label-map', '0:0,255:255').stderr, '--label-map has no effect')
    shards = sorted(glob.glob(os.path.join(SHARDS, '*.tar')))
    contains(stoke('verify', *shards[:1] * 2, code=2).stderr, 'one argument too many', 'in quotes')
    contains(stoke('pack', SET, '--format', 'cache', '--out', path('filled')).stdout, 'kept, ', 'B, 0 there before')
    contains(stoke('hash', path('filled'), code=1).stderr, 'this is a cache')
    contains(stoke('pack', SHARDS, '--out', SHARDS, '--force', code=2).stderr, 'the set itself lies there')
    contains(stoke('verify', path('none.tar'), code=1).stderr, 'none.tar: cannot open')


def set_with_its_own_split():
    folder = path('own')
    for part in ('train', 'val'):
        for side in ('images', 'masks'):
            shutil.copytree(os.path.join(SET, side), os.path.join(folder, part, side))
    stoke('pack', folder, '--out', path('own-shards'), '--shard-samples', '10', '--quiet')
    equal([name for name in files_below(path('own-shards')) if name.endswith('.tar')],
          ['train-000000.tar', 'train-000001.tar', 'val-000000.tar', 'val-000001.tar'])
    for options in ((), ('--split', 'train'), ('--split', 'val')):
        equal(digests(path('own-shards'), *options), digests(folder, *options), ' '.join(options))
    contains(stoke('verify', path('own-shards'), '--val-split', '0.1', code=2).stderr, 'its own val shards')


def bad_files():
    folder = path('bad')
    shutil.copytree(SET, folder)
    os.unlink(os.path.join(folder, 'masks', '000003.png'))
    os.symlink('nowhere', os.path.join(folder, 'masks', '000003.png'))
    done = stoke('pack', folder, '--out', path('bad-shards'), code=1)
    contains(done.stderr, os.path.join(folder, 'masks', '000003.png'), 'No such file')
    assert not os.path.exists(path('bad-shards')), 'something was written'
    answer = stoke_json('pack', folder, '--out', path('bad-shards'), '--policy', 'skip')
    equal((answer['samples'], len(answer['left_out'])), (13, 1))
    listed = path('left-out.jsonl')
    stoke('pack', folder, '--out', path('listed-shards'), '--policy', 'skip', '--quarantine', listed, '--quiet')
    lines = open(listed, encoding='utf-8').readlines()
    equal(len(lines), 1)
    contains(lines[0], '000003.jpg', os.path.join(folder, 'masks', '000003.png') + ': cannot open: No such file')
    assert not os.path.exists(path('quarantine.jsonl')), 'a list that nobody asked for'
    contains(stoke('pack', folder, '--out', path('unlisted-shards'), '--policy', 'skip', '--quarantine', '/dev/full').stderr,
             'warning: /dev/full: cannot write: No space left', '1 bad sample is not in this list')
    # a picture that cannot be decoded is packed as it is, and found by verify by shard and member
    with open(os.path.join(folder, 'images', '000005.jpg'), 'r+b') as stream:
        stream.truncate(300)
    stoke('pack', folder, '--out', path('bad-shards'), '--policy', 'skip', '--force', '--quiet')
    report = stoke_json('verify', path('bad-shards'), code=1)
    equal([bad['path'] for bad in report['bad']], [path('bad-shards', '000000.tar') + ':000005.jpg'])


def wait_and_send(args, when, number):
    process = subprocess.Popen([STOKE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=WORK)
    end = time.monotonic() + 60
    while not when() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    if process.poll() is not None:
        raise tap.Skip('it was done before the signal came')
    process.send_signal(number)
    process.communicate(timeout=60)
    return process.returncode


def killed_and_resumed():
    for number, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
        out = path(f'killed-{int(number)}')
        args = ['pack', SET, '--out', out, '--shard-samples', '1', '--quiet']
        equal(wait_and_send(args, lambda: os.path.exists(os.path.join(out, '000002.tar')), number), code)
        left = [name for name in files_below(out) if '.tmp' in name]
        assert number == signal.SIGKILL or not left, left
        kept = len([name for name in files_below(out) if name.endswith('.tar')])
        answer = stoke_json(*args)
        equal(answer['shards'], 14)
        assert kept - 1 <= answer['kept'] <= kept, (kept, answer)
        assert not [name for name in files_below(out) if '.tmp' in name], 'a leftover'
        equal(digests(out), digests(SET))


def full_disk():
    """On a file system of 32 kB, where that can be made; else a limit on the size of files stands for it."""
    small = path('small')
    os.makedirs(small)
    if os.geteuid() == 0 and subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=32k', 'none', small],
                                            capture_output=True).returncode == 0:
        try:
            done = stoke('pack', SET, '--out', os.path.join(small, 'out'), '--shard-samples', '5', '--quiet', code=1)
            contains(done.stderr, '.tar', 'No space left on device')
            names = files_below(small)
            assert not [name for name in names if '.tmp' in name], names
            return
        finally:
            subprocess.run(['umount', small], check=True)
    done = subprocess.run(['bash', '-c', 'ulimit -f 10; exec "$0" "$@"', STOKE, 'pack', SET, '--out', small, '--quiet'],
                          capture_output=True, text=True)
    equal(done.returncode, 1)
    contains(done.stderr, '000000.tar: cannot write: File too large')
    assert not [name for name in files_below(small) if '.tmp' in name], files_below(small)


def read_only_folder():
    folder = path('frozen')
    shutil.copytree(SHARDS, folder)
    for name in files_below(folder):
        if name.endswith('.idx'):
            os.unlink(os.path.join(folder, name))
    os.chmod(folder, 0o555)
    try:
        # Root writes all the same, unless it gives up that right. It stays root: another user may not read a clone in /root.
        drop = ['setpriv', '--bounding-set=-all', '--inh-caps=-all'] if os.geteuid() == 0 else []
        if drop and not shutil.which('setpriv'):
            raise tap.Skip('running as root, without setpriv')
        if subprocess.run([*drop, STOKE, '--version'], capture_output=True, cwd='/').returncode:
            raise tap.Skip('root cannot give up its rights here, or the build belongs to another user')
        done = subprocess.run([*drop, STOKE, 'hash', folder, '--quiet', '--quarantine', ''], capture_output=True, text=True, cwd='/')
        equal((done.returncode, done.stderr), (0, ''))
        equal(done.stdout, digests(SET))
        assert not [name for name in files_below(folder) if name.endswith('.idx')], 'an index was written'
        contains(subprocess.run([*drop, STOKE, 'pack', SET, '--out', os.path.join(folder, 'x')], capture_output=True,
                                text=True, cwd='/').stderr, 'cannot make folder')
    finally:
        os.chmod(folder, 0o755)


def hostile_archive_is_named():
    archive = path('cut.tar')
    data = read(os.path.join(SHARDS, '000000.tar'))
    with open(archive, 'wb') as stream:
        stream.write(data[:len(data) // 2])
    contains(stoke('verify', archive, code=1).stderr, 'cut.tar: member ', ' at byte ')
    for options in (('verify',), ('hash',), ('show', '--out', path('x.png'))):
        stoke(options[0], archive, *options[1:], code=1)
    with open(archive, 'wb') as stream:
        stream.write(b'\x1f\x8b' + data)
    contains(stoke('verify', archive, code=1).stderr, 'gzip', 'not supported', 'stoke pack')


def other_commands():
    equal(stoke_json('verify', SHARDS, '--classes', '5')['ok'], 14)
    stoke('show', SHARDS, '--out', path('show.png'), '--quiet')
    stoke('dump', SHARDS, '--out', path('dump'), '--quiet')
    stoke('dump', SET, '--out', path('dump-set'), '--quiet')
    equal(read(path('dump', 'images_000000.npy')), read(path('dump-set', 'images_000000.npy')))
    answer = stoke_json('bench', 'data', SHARDS, '--short', '--samples', '6', '--batch', '2')
    equal((answer['samples'], answer['bad_samples']), (6, 0))


sys.exit(tap.run([
    ('tar lists and unpacks what was packed', tar_lists_and_unpacks),
    ('folder and shards give the same batches', same_digests),
    ('archives of GNU tar in four formats are read', archives_of_gnu_tar),
    ('long and odd names are packed for tar', long_names_are_packed_for_tar),
    ('the report adds up', report_and_json),
    ('misuse is explained', asked_wrongly),
    ('a set with train and val becomes their shards', set_with_its_own_split),
    ('bad files stop it or are left out', bad_files),
    ('killed or interrupted, it goes on where it was', killed_and_resumed),
    ('a full disk leaves no half shard', full_disk),
    ('shards in a folder that cannot be written', read_only_folder),
    ('a hostile archive is named', hostile_archive_is_named),
    ('verify, show, dump and bench read shards', other_commands),
]))
