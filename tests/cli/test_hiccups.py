# SPDX-License-Identifier: Apache-2.0
"""Faults of the system that pass leave the same bytes as none; those that stay are told by their own name, and no file is
blamed for want of descriptors, memory or threads."""
import errno
import json
import os
import random
import resource
import shutil
import sys

import memory_rounds
from cli import contains, equal, make_set, path, stoke, stoke_json, tap

SET = make_set('hiccup-set', count=24, size='64x64', classes=5)
HASH = ('--size', '32', '--batch', '5', '--augment', 'standard', '--workers', '2', '--quarantine', path('bad.jsonl'))
PASSING = ('EIO', 'ESTALE', 'ETIMEDOUT', 'EMFILE', 'ENFILE', 'ENOMEM', 'EINTR')
FOR_EVER = 1000000
SPARSE = 1 if tap.FULL else 3  # `make test` takes every third of the moments


def faulty(fault, below='hiccup-set/'):
    """The environment in which calls fail; fault is (call, first, how many, name of errno)."""
    call, first, count, name = fault
    return {**os.environ, 'LD_PRELOAD': os.environ['STOKE_FAKE_FAULTS'], 'FAULTS_BELOW': below,
            'FAULTS': f'{call}:{first}:{count}:{getattr(errno, name)}'}


def digest(*args, env=None, code=0):
    return [batch['digest'] for batch in stoke_json('hash', *args, env=env, code=code)['batches']]


def no_record():
    assert not os.path.exists(path('bad.jsonl')), open(path('bad.jsonl')).read()


def passing(call, *set_and_settings, below='hiccup-set/', firsts):
    def test():
        wanted = digest(*set_and_settings)
        struck = 0
        for at, first in list(enumerate(firsts))[::SPARSE]:
            fault = (call, first, 1, PASSING[at % len(PASSING)])
            done = stoke('hash', *set_and_settings, '--json', env=faulty(fault, below))
            equal([batch['digest'] for batch in json.loads(done.stdout)['batches']], wanted, f'digests after {fault}')
            struck += 'tried again' in done.stderr
            no_record()
        assert struck > 0, 'no fault met a worker'
    return test


def packed():
    folder = path('hiccup-set-tar')
    stoke('pack', SET, '--out', folder, '--quiet')
    passing('pread', folder, *HASH, below='hiccup-set-tar/', firsts=range(138, 200, 6))()
    passing('open', folder, *HASH, below='hiccup-set-tar/', firsts=range(138, 200, 6))()


def cached():
    """A fault while the cache is filled or read: the same bytes, and the entry stays."""
    wanted = digest(SET, *HASH)
    for call in ('open', 'pread', 'write'):
        for at, first in enumerate((3, 9, 20)[::SPARSE]):
            cache = path('hiccup-cache')
            shutil.rmtree(cache, ignore_errors=True)
            fault = (call, first, 1, PASSING[(at * 2) % len(PASSING)])
            for turn in ('filling', 'reading'):
                answer = stoke_json('hash', SET, *HASH, '--cache', cache, env=faulty(fault, 'hiccup-cache/'))
                equal([batch['digest'] for batch in answer['batches']], wanted, f'{turn} with {fault}')
                equal((answer['cache']['damaged'], answer['cache']['warning']), (0, None), f'the cache, {turn} with {fault}')
            equal(answer['cache']['misses'], 0, f'decoded again after {fault}')
    no_record()


def entries_stay():
    """What cannot be read for a while is decoded again, and not thrown away."""
    cache = path('staying-cache')
    wanted = digest(SET, *HASH, '--cache', cache)
    names = sorted(os.path.join(at, name) for at, _, files in os.walk(cache) for name in files if len(name) > 20)
    before = {name: os.stat(name).st_ino for name in names}
    assert before, 'no entries'
    os.chmod(cache, 0o755)
    answer = stoke_json('hash', SET, *HASH, '--cache', cache, env=faulty(('pread', 2, FOR_EVER, 'EIO'), 'staying-cache/'))
    equal([batch['digest'] for batch in answer['batches']], wanted, 'batches')
    equal(answer['cache']['damaged'], 0, 'called damaged')
    assert all(os.path.exists(name) for name in names), 'an entry was removed'


def folders_that_cannot_be_read():
    """They are not empty ones: nothing is claimed or written."""
    folder = path('full-folder')
    os.makedirs(folder)
    with open(os.path.join(folder, 'thesis.tex'), 'w') as file:
        file.write('precious')
    for args in (['synth', folder, '--count', 1, '--size', 16], ['pack', SET, '--out', folder],
                 ['hash', SET, *HASH, '--cache', folder], ['dump', SET, '--size', 16, '--batches', 1, '--out', folder],
                 ['train', SET, '--size', 32, '--steps', 1, '--runs', path(), '--name', 'full-folder']):
        done = stoke(*args, code=None, env=faulty(('readdir', 1, FOR_EVER, 'EIO'), 'full-folder'))
        contains(done.stderr, 'full-folder', 'Input/output error')
        equal((done.returncode, os.listdir(folder)), (1, ['thesis.tex']), args[0])
    stoke('hash', SET, *HASH, env=faulty(('readdir', 3, 1, 'EIO')))  # a fault that passes


def training():
    settings = ('--size', '32', '--batch', '4', '--steps', '3', '--eval-every', '3', '--no-pictures', '--quiet')
    stoke('train', SET, *settings, '--name', 'calm')
    for at, (call, first) in enumerate((('open', 70), ('pread', 90), ('open', 110), ('pread', 120), ('stat', 4))[::SPARSE]):
        name = f'shaken{at}'
        stoke('train', SET, *settings, '--name', name, env=faulty((call, first, 1, PASSING[at])))
        equal(*(open(path('runs', run, 'last', 'model.safetensors'), 'rb').read() for run in (name, 'calm')), 'the network')
        assert not os.path.exists(path('runs', name, 'quarantine.jsonl')), 'a good file was called bad'


def looked_at():
    """Names of files that a moment's fault hides are found all the same: no class name is lost, no set, run or picture is called absent."""
    named = path('hiccup-named')
    shutil.copytree(SET, named)
    with open(os.path.join(named, 'classes.txt'), 'w') as stream:
        stream.write('sky\nroad\ncar\ntree\nwall\n')
    stoke('pack', SET, '--out', path('hiccup-named-tar'), '--quiet')
    stoke('train', named, '--size', '32', '--batch', '4', '--steps', '2', '--no-pictures', '--quiet', '--name', 'hiccup-named')
    train = ('train', named, '--size', '32', '--batch', '4', '--steps', '2', '--dry-run', '--name', 'dry')
    commands = [(train, 8), (('verify', path('hiccup-named-tar')), 4), (('eval', 'runs/hiccup-named'), 8),
                (('predict', 'runs/hiccup-named', os.path.join(named, 'images', '000000.jpg'), '--out', 'hiccup-named-masks', '--force'), 8)]
    for command, moments in commands:
        stoke(*command)
        for first in range(1, moments + 1, SPARSE):
            done = stoke(*command, code=None, env=faulty(('stat', first, 1, PASSING[first % 2]), 'hiccup-named'))
            equal(done.returncode, 0, f'{command[0]} after fault {first}: {done.stderr}')
            if command is train:
                contains(done.stdout + done.stderr, 'Names of the classes are those in')
        done = stoke(*command, code=1, env=faulty(('stat', 1, FOR_EVER, 'EIO'), 'hiccup-named'))
        contains(done.stderr, 'hiccup-named', 'Input/output error')


def other_commands():
    stoke('verify', SET, env=faulty(('open', 40, 1, 'EMFILE')))
    stoke('verify', SET, env=faulty(('pread', 40, 1, 'EIO')))
    stoke('pack', SET, '--out', path('packed'), '--quiet', env=faulty(('pread', 40, 1, 'EIO')))
    for force in ([], ['--force']):
        stoke('dump', SET, '--size', 16, '--batches', 1, '--out', path('dumped'), '--quiet', *force,
              env=faulty(('readdir', 1, 1, 'EIO'), 'dumped'))
    stoke('show', SET, '--out', path('shown.png'), '--count', 4, '--quiet', env=faulty(('open', 60, 1, 'ENFILE')))
    stoke('hash', SET, *HASH, '--quiet', env=faulty(('thread', 1, 2, 'EAGAIN')))


def staying(name, *words, call='open', first=60, code='resources'):
    """It ends the run with the real reason, and no file is called bad."""
    def test():
        done = stoke('hash', SET, *HASH, '--json', code=1, env=faulty((call, first, FOR_EVER, name)))
        error = json.loads(done.stdout)['error']
        equal(error['code'], code)
        contains(error['message'], *words)
        no_record()
    return test


def every_format():
    """Pictures of all formats: their libraries take memory themselves, and say in their own ways that there is none."""
    folder, rng = path('hiccup-formats'), random.Random(4)
    if not os.path.isdir(folder):
        for part in ('images', 'masks'):
            os.makedirs(os.path.join(folder, part))
        for number in range(10):
            memory_rounds.write_pair(rng, folder, number, memory_rounds.KINDS[number % len(memory_rounds.KINDS)], 90, 70)
    return folder


def memory_for_a_moment():
    """A worker that gets no memory waits and gets it: the same bytes, no file to blame, and counted."""
    settings = (every_format(), *HASH, '--order', 'sequential', '--prefetch', '1')
    wanted, struck = digest(*settings), 0
    # Not while headers are read, by threads too: libtiff 4.5 does not survive it.
    for first in range(151, 240, 2):
        done = stoke('hash', *settings, '--json', env=faulty(('memory', first, 1 + first % 3, 'ENOMEM')))
        equal([batch['digest'] for batch in json.loads(done.stdout)['batches']], wanted, f'digests after allocation {first} failed')
        struck += 'tried again' in done.stderr
        no_record()
    assert struck > 10, f'{struck} faults met a worker'


def no_memory():
    """For good: the run ends with that reason, soon, and no file is called bad, whatever its format."""
    for first in (95, 105, 115, 125):
        done = stoke('hash', every_format(), *HASH, '--json', code=1, env=faulty(('memory', first, FOR_EVER, 'ENOMEM')))
        error = json.loads(done.stdout)['error']
        equal(error['code'], 'no-memory', error['message'])
        contains(error['message'], 'no memory')
        no_record()


def headers_for_a_moment():
    """The same while headers are read."""
    wanted = digest(SET, *HASH)
    for first in range(1, 90, 6):
        equal(digest(SET, *HASH, env=faulty(('memory', first, 2, 'ENOMEM'))), wanted, f'digests after allocation {first} failed')
    no_record()


def unreadable():
    """What cannot be read after all is a bad file, with what the system said."""
    answer = stoke_json('hash', SET, *HASH, '--max-bad', 0, code=1, env=faulty(('pread', 60, FOR_EVER, 'EIO')))
    equal(answer['error']['code'], 'too-bad')
    contains(answer['error']['message'], 'cannot read: Input/output error')
    os.remove(path('bad.jsonl'))


def verify_blames_nobody():
    answer = stoke_json('verify', SET, code=1, env=faulty(('open', 30, FOR_EVER, 'EMFILE')))
    equal(answer['error']['code'], 'resources')
    contains(answer['error']['message'], 'Too many open files', 'ulimit -n')


def restored_pictures():
    """Scores of the few pictures that came before would be taken for those of the set."""
    pairs = path('hiccup-pairs')
    stoke('synth', pairs, '--task', 'restore', '--count', 24, '--size', '40x48', '--quiet')
    stoke('train', pairs, '--patch-size', 24, '--base-channels', 8, '--num-blocks', 1, '--batch', 2, '--steps', 1, '--name', 'restored', '--quiet')
    answer = stoke_json('eval', 'runs/restored', '--split', 'all', '--max-bad', '100%', code=1,
                        env=faulty(('open', 64, FOR_EVER, 'EMFILE'), 'hiccup-pairs/'))
    equal(answer['error']['code'], 'resources')
    contains(answer['error']['message'], 'Too many open files', 'ulimit -n')


def few_descriptors():
    """Really none left, as from `ulimit -n`."""
    done = stoke('hash', SET, *HASH, code=None,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)))
    assert done.returncode == 0 or 'Too many open files' in done.stderr, done.stderr
    no_record()


def list_that_cannot_be_written():
    """A warning, what the list lacks at the end, and a run that goes on."""
    bad = path('with-bad-files')
    shutil.copytree(SET, bad)
    for name in ('000003', '000007', '000011', '000015'):
        open(os.path.join(bad, 'images', name + '.jpg'), 'w').close()
    os.makedirs(path('a-folder'))
    wanted = digest(bad, '--size', '32', '--max-bad', 4, '--quarantine', '')
    for place, why in (('/dev/full', 'No space left'), (path('a-folder'), 'Is a directory'), (path('no', 'where'), 'No such')):
        done = stoke('hash', bad, '--size', '32', '--max-bad', 4, '--json', '--quarantine', place)
        equal([batch['digest'] for batch in json.loads(done.stdout)['batches']], wanted)
        contains(json.loads(done.stdout)['unrecorded'], why, '4 bad samples are not in this list: ')
        equal(done.stderr.count('warning: '), 2, done.stderr)
        contains(done.stderr, why, '4 bad samples are not in this list: ', '.jpg: empty file', '; and 1 more')
    written = ('hash', bad, '--size', '32', '--max-bad', 4, '--quarantine', path('written.jsonl'))
    equal((stoke_json(*written)['unrecorded'], len(open(path('written.jsonl')).readlines())), (None, 4))
    done = stoke('train', bad, '--size', '32', '--batch', '4', '--steps', '6', '--max-bad', 4, '--quarantine', '/dev/full',
                 '--name', 'full', '--no-pictures')
    contains(done.stderr, '/dev/full: cannot write: No space left on device', 'not in this list')
    contains(open(path('runs', 'full', 'log.jsonl')).read(), 'not in this list')
    shown = stoke('hash', bad, '--size', '32', '--max-bad', 4, '--quiet', '--quarantine', '/dev/stderr').stderr
    equal(shown.count('"reason":'), 4, shown)


def counted():
    """The same as Python and `bench data` show it."""
    answer = stoke_json('bench', 'data', SET, '--short', '--seconds', '0.3', '--quarantine', '',
                        env=faulty(('pread', 200, 2, 'EIO')))
    assert answer['retries'] in (0, 1, 2), answer['retries']  # the bare decoding beside it may have met them


sys.exit(tap.run([
    ('open fails once, at many moments', passing('open', SET, *HASH, firsts=range(2, 226, 8))),
    ('pread fails once, at many moments', passing('pread', SET, *HASH, firsts=range(1, 225, 8))),
    ('shards', packed),
    ('a cache', cached),
    ('cache entries that cannot be read', entries_stay),
    ('folders that cannot be read', folders_that_cannot_be_read),
    ('training', training),
    ('names that cannot be looked at for a moment', looked_at),
    ('other commands', other_commands),
    ('no descriptors', staying('EMFILE', 'hiccup-set', 'Too many open files', 'ulimit -n')),
    ('no descriptors on the machine', staying('ENFILE', 'Too many open files in system', 'fs.file-max')),
    ('no memory in the kernel', staying('ENOMEM', 'annot allocate memory', call='pread', code='no-memory')),
    ('no memory for a moment', memory_for_a_moment),
    ('no memory for headers, for a moment', headers_for_a_moment),
    ('no memory', no_memory),
    ('no threads', staying('EAGAIN', 'cannot start', 'ulimit -u', call='thread', first=1)),
    ('a disk that cannot be read', unreadable),
    ('verify blames nobody', verify_blames_nobody),
    ('restored pictures', restored_pictures),
    ('few descriptors', few_descriptors),
    ('a list that cannot be written', list_that_cannot_be_written),
    ('bench data counts', counted),
]))
