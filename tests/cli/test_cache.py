# SPDX-License-Identifier: Apache-2.0
"""The cache changes how fast batches come, never what is in them: cold, warm, damaged, full, shared or killed."""
import glob
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

from cli import STOKE, contains, equal, make_set, path, stoke, stoke_json, tap

SEED = 20261118
SET = make_set('set', count=22)
COUNT = 22


def base(folder=SET, *more):
    return [folder, '--batch', 4, '--seed', 5, '--quarantine', '', *more]


def digest(*args, **more):
    return stoke_json('hash', *args, '--quiet', **more)


def entries(cache):
    return sorted(glob.glob(os.path.join(cache, '??', '*.stk')))


def size_of(cache):
    return sum(os.path.getsize(name) for name in entries(cache))


def same_bytes(name, *settings):
    """Without, cold, warm, warm with others' threads, in memory, and both: one digest."""
    def test():
        cache = path('cache-' + name)
        args = base(SET, *settings)
        wanted = digest(*args)['all']
        # In one thread: of two, one may be in the next epoch already and store a sample before the other looks for it.
        cold = digest(*args, '--cache', cache, '--workers', 0)
        equal(cold['all'], wanted, 'cold')
        equal((cold['cache']['hits'], cold['cache']['misses'], cold['cache']['stored']), (0, COUNT, COUNT), 'cold')
        threads = digest(*args, '--cache', path('cache-threads-' + name), '--workers', 3)
        equal(threads['all'], wanted, 'cold, 3 workers')
        equal(threads['cache']['hits'] + threads['cache']['misses'], COUNT, 'cold, 3 workers')
        for workers in (0, 2):
            warm = digest(*args, '--cache', cache, '--workers', workers)
            equal(warm['all'], wanted, f'warm, {workers} workers')
            # What was delivered, however far the workers got ahead.
            equal((warm['cache']['hits'], warm['cache']['misses'], warm['cache']['damaged']), (COUNT, 0, 0), 'warm')
        equal(digest(*args, '--cache-ram', '16M')['all'], wanted, 'in memory')
        equal(digest(*args, '--cache', cache, '--cache-ram', '50K')['all'], wanted, 'disk and a little memory')
        equal(digest(*args, '--cache', path('cache-small-' + name), '--cache-disk', '30K', '--cache-ram', '50K')['all'],
              wanted, 'small budgets')
        other = base(SET, *settings, '--epoch', 3)
        equal(digest(*other, '--cache', cache)['all'], digest(*other)['all'], 'another epoch')
    return test


def fast_mode():
    """A crop may be decoded from another scale without a cache; with one, what it holds makes no difference."""
    for augment in ('none', 'crop', 'strong'):
        args = base(SET, '--decode', 'fast', '--size', '10x14', '--augment', augment)
        cache = path('fast-' + augment)
        cold = digest(*args, '--cache', cache)['all']
        equal(digest(*args, '--cache', cache)['all'], cold, 'warm')
        equal(digest(*args, '--cache-ram', '16M')['all'], cold, 'in memory')
        equal(digest(*args, '--cache', path('fast-full-' + augment), '--cache-disk', 1)['all'], cold, 'no room')
        if augment == 'none':
            equal(digest(*args)['all'], cold, 'without')
    exact = digest(*base(SET, '--size', '10x14'))['all']
    equal(digest(*base(SET, '--size', '10x14'), '--cache', path('fast-none'))['all'], exact, 'exact after fast')


def content_not_names():
    """Copied elsewhere and packed into shards, the samples are found again."""
    cache, shards, copy = path('content'), path('shards'), path('copy')
    args = ['--size', '24x32', '--augment', 'light']
    wanted = digest(*base(SET, *args), '--cache', cache)['all']
    stoke('pack', SET, '--out', shards, '--shard-samples', 5, '--quiet')
    shutil.copytree(SET, copy)
    for folder in (shards, copy):
        answer = digest(*base(folder, *args), '--cache', cache)
        equal(answer['all'], wanted, folder)
        equal(answer['cache']['misses'], 0, 'misses')
        equal(digest(*base(folder, *args))['all'], wanted, 'without')


def settings_are_part_of_the_key():
    """One folder for all: nobody gets what was made for others."""
    cache = path('settings')
    many = [['--size', '20x20'], ['--size', '20x24'], ['--size', '20x20', '--label-map', '0:0,1:1,*:ignore'],
            ['--size', '20x20', '--label-map', '0:1,1:0,*:ignore'], ['--size', '20x20', '--augment', 'crop'],
            ['--size', '20x20', '--classes', 5], ['--size', '20x20', '--decode', 'fast']]
    for _ in range(2):
        for settings in many:
            equal(digest(*base(SET, *settings), '--cache', cache)['all'], digest(*base(SET, *settings))['all'], settings)
    stoke('hash', *base(SET, '--size', '20x20', '--classes', 2, '--policy', 'stop'), '--cache', cache, code=1)


def damaged_entries():
    cache, rng = path('damaged'), random.Random(SEED)
    args = base(SET, '--size', '32x48', '--augment', 'light')
    print(f'# seed {SEED}')
    wanted = digest(*args, '--cache', cache)['all']
    for round_ in range(4):
        victims = rng.sample(entries(cache), 6)
        for victim in victims:
            with open(victim, 'r+b') as stream:
                size = os.path.getsize(victim)
                if round_ % 2:
                    stream.truncate(rng.randrange(size))
                else:
                    stream.seek(rng.randrange(size))
                    byte = stream.read(1)
                    stream.seek(-1, os.SEEK_CUR)
                    stream.write(bytes([byte[0] ^ 1 << rng.randrange(8)]))
        answer = digest(*args, '--cache', cache, '--workers', 0)  # two threads may both meet the same one
        equal(answer['all'], wanted, f'round {round_}')
        equal(answer['cache']['damaged'], len(victims), 'damaged')
        answer = digest(*args, '--cache', cache)
        equal((answer['all'], answer['cache']['damaged'], answer['cache']['misses']), (wanted, 0, 0), 'made again')


def killed_runs():
    big, cache, rng = make_set('big', count=300, size='200x200'), path('killed'), random.Random(SEED)
    args = base(big, '--size', '96x96')
    wanted = digest(*args)['all']
    for _ in range(5):
        run = subprocess.Popen([STOKE, 'hash', *map(str, args), '--cache', cache], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.02, 0.3))
        run.send_signal(signal.SIGKILL)
        run.wait()
    answer = digest(*args, '--cache', cache)
    equal((answer['all'], answer['cache']['damaged']), (wanted, 0), 'after kills')
    equal(os.listdir(os.path.join(cache, 'tmp')), [], 'leftovers')
    answer = digest(*args, '--cache', cache, '--cache-disk', '1G')
    equal(answer['cache']['disk_bytes'], size_of(cache), 'bytes')


def two_at_once():
    cache = path('together')
    args = base(SET, '--size', '32x48')
    wanted = digest(*args)['all']
    runs = [subprocess.Popen([STOKE, 'hash', *map(str, args), '--cache', cache, '--quiet'], stdout=subprocess.PIPE, text=True)
            for _ in range(3)]
    for run in runs:
        equal(run.communicate()[0].split()[-1], wanted, 'one of three')
    equal(digest(*args, '--cache', cache)['cache']['damaged'], 0, 'damaged')


def changed_file():
    """Written over in place, with the same size and the old time of change."""
    folder, cache = path('changing'), path('changed')
    shutil.copytree(SET, folder)
    images = sorted(glob.glob(os.path.join(folder, 'images', '*')), key=os.path.getsize)
    args = base(folder, '--size', '32x48')
    time.sleep(3.2)  # what is younger is read every time anyway
    before = digest(*args, '--cache', cache)['all']
    digest(*args, '--cache', cache)
    old = os.stat(images[-1])
    with open(images[0], 'rb') as stream:
        fresh = stream.read()
    with open(images[-1], 'r+b') as stream:
        stream.write(fresh + bytes(old.st_size - len(fresh)))
    os.utime(images[-1], ns=(old.st_atime_ns, old.st_mtime_ns))
    equal(os.path.getsize(images[-1]), old.st_size, 'size')
    answer = digest(*args, '--cache', cache)
    equal(answer['all'], digest(*args)['all'], 'after the change')
    assert answer['all'] != before, 'the change was not noticed'


def disk_budget():
    cache = path('budget')
    args = base(SET, '--size', '32x48')
    wanted = digest(*args)['all']
    answer = digest(*args, '--cache', cache, '--cache-disk', '40K')
    equal(answer['all'], wanted, 'small')
    assert 20000 < size_of(cache) <= 40960, size_of(cache)
    equal(answer['cache']['disk_bytes'], size_of(cache), 'bytes')
    equal(answer['cache']['warning'], None, 'a full budget is no fault')
    used = size_of(cache)
    equal(digest(*args, '--cache', cache, '--cache-disk', '40K')['all'], wanted, 'again')
    equal(size_of(cache), used, 'nothing was added')
    digest(*args, '--cache', cache)
    equal(len(entries(cache)), COUNT, 'without a budget')


def full_disk():
    cache = path('full')
    args = [*base(SET, '--size', '64x64'), '--workers', 2, '--cache', cache]
    wanted = digest(*base(SET, '--size', '64x64'))['all']
    done = stoke('hash', *args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)))
    equal(done.stdout.split()[-1], wanted, 'digest')
    equal(done.stderr.count('warning:'), 1, 'warnings')
    contains(done.stderr, 'the cache is not written any more (File too large)')
    equal((entries(cache), os.listdir(os.path.join(cache, 'tmp'))), ([], []), 'left behind')
    done = stoke('pack', SET, '--format', 'cache', '--out', cache, '--size', '64x64', '--quarantine', '', code=1,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)))
    contains(done.stdout, f'left out: {COUNT}, the folder cannot be written')
    equal(done.stderr.count('warning:'), 1, 'warnings of pack')


def unwritable_folder():
    cache = path('unwritable')
    args = [*base(SET, '--size', '32x48'), '--cache', cache]
    wanted = digest(*args)['all']
    os.remove(os.path.join(cache, 'usage'))
    os.mkdir(os.path.join(cache, 'usage'))  # nobody can write now, not even root
    os.remove(entries(cache)[0])
    done = stoke('hash', *args)
    equal(done.stdout.split()[-1], wanted, 'digest')
    contains(done.stderr, 'warning: the cache is not written any more (Is a directory)', 'cache: ')
    equal(len(entries(cache)), COUNT - 1, 'entries')
    blocked = path('a-file')
    open(blocked, 'w').close()
    contains(stoke('hash', *base(SET), '--cache', blocked + '/x', code=1).stderr, 'a-file', 'cannot make folder')


def bad_files():
    folder = path('bad')
    shutil.copytree(SET, folder)
    images = sorted(glob.glob(os.path.join(folder, 'images', '*')))
    masks = sorted(glob.glob(os.path.join(folder, 'masks', '*')))
    with open(images[3], 'r+b') as stream:  # the lower part is missing: some crops do not touch it
        stream.truncate(os.path.getsize(images[3]) * 2 // 3)
    with open(masks[7], 'wb') as stream:
        stream.write(b'no picture')
    for augment in ('none', 'crop'):
        for policy in ('replace', 'skip'):
            args = base(folder, '--size', '16x16', '--augment', augment, '--policy', policy, '--max-bad', 4)
            wanted = digest(*args)['all']
            cache = path(f'bad-{augment}')
            for state in ('cold', 'warm'):
                equal(digest(*args, '--cache', cache)['all'], wanted, (augment, policy, state))


def filled_ahead():
    cache = path('filled')
    settings = ['--size', '24x24', '--augment', 'standard', '--quarantine', '']
    answer = stoke_json('pack', SET, '--format', 'cache', '--out', cache, *settings)
    equal((answer['stored'], answer['found'], answer['bad'], answer['left_out']), (COUNT, 0, 0, 0), 'first')
    answer = stoke_json('pack', SET, '--format', 'cache', '--cache', cache, *settings)
    equal((answer['stored'], answer['found']), (0, COUNT), 'again')
    answer = digest(SET, *settings, '--cache', cache)
    equal(answer['all'], digest(SET, *settings)['all'], 'digest')
    equal(answer['cache']['misses'], 0, 'misses')
    answer = stoke_json('pack', SET, '--format', 'cache', '--out', path('part'), '--cache-disk', '20K', *settings)
    assert answer['left_out'] and answer['stored'] and answer['stored'] + answer['left_out'] == COUNT, answer
    assert size_of(path('part')) <= 20480
    text = stoke('pack', SET, '--format', 'cache', '--out', path('part'), '--cache-disk', '20K', *settings).stdout
    contains(text, 'there before', 'the budget (--cache-disk) is full')
    contains(stoke('pack', SET, '--format', 'cache', code=2).stderr, 'name the folder of the cache')


def bench_tells():
    answer = stoke_json('bench', 'data', SET, '--short', '--cache', path('bench'), '--quarantine', '')
    assert answer['cache']['hits'] > 0 and answer['cache']['damaged'] == 0, answer['cache']
    contains(stoke('hash', *base(SET), '--cache-disk', '1M', code=2).stderr, '--cache-disk has no effect without cache')


sys.exit(tap.run([
    ('the same bytes: none', same_bytes('none', '--size', '32x48')),
    ('the same bytes: none, at the size of the set', same_bytes('own-size')),
    ('the same bytes: bytes straight into the batch',
     same_bytes('direct', '--size', '32x48', '--dtype', 'u8', '--layout', 'hwc')),
    ('the same bytes: wide masks', same_bytes('wide', '--size', '32x48', '--classes', 300, '--ignore-index', 65535, '--mask-dtype', 'i64')),
    ('the same bytes: crop', same_bytes('crop', '--size', '24x24', '--augment', 'crop')),
    ('the same bytes: standard', same_bytes('standard', '--size', '32x32', '--augment', 'standard')),
    ('the same bytes: standard, at the size of the set', same_bytes('standard-own', '--augment', 'standard')),
    ('the same bytes: strong', same_bytes('strong', '--size', '32x32', '--augment', 'strong')),
    ('the same bytes: medical', same_bytes('medical', '--size', '24x24', '--augment', 'medical')),
    ('fast mode does not depend on what is cached', fast_mode),
    ('content counts, not names: folder, copy, shards', content_not_names),
    ('settings are part of the key', settings_are_part_of_the_key),
    ('damaged entries are made again', damaged_entries),
    ('killed runs leave no harm', killed_runs),
    ('three processes fill one cache', two_at_once),
    ('a changed file is noticed', changed_file),
    ('the disk budget is kept', disk_budget),
    ('a full disk is one warning', full_disk),
    ('a folder that cannot be written', unwritable_folder),
    ('bad files are as bad with a cache', bad_files),
    ('filled ahead by pack', filled_ahead),
    ('bench tells; settings without effect are refused', bench_tells),
]))
