# SPDX-License-Identifier: Apache-2.0
"""Interrupts and full disks leave whole files or none."""
import json
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
from PIL import Image

from cli import STOKE, WORK, contains, equal, files_below, make_set, path, stoke, tap

SET = make_set('set', count=60, size='96x128')
os.makedirs(path('show'))
BENCH = ('bench', 'data', '--seconds', '30', '--samples', '16')


def interrupt(args, when, number=signal.SIGINT):
    """Starts stoke, waits until when() holds, sends the signal; returns the finished process's code and output."""
    process = subprocess.Popen([STOKE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=WORK)
    end = time.monotonic() + 60
    while not when() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    early = process.poll() is not None
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return early, process.returncode, out, err


def no_temporary_files(folder):
    left = [name for name in files_below(folder) if '.tmp' in name] if os.path.isdir(folder) else []
    assert not left, f'left behind: {left}'


def interrupted_dump():
    folder = path('dump')
    args = ['dump', SET, '--out', folder, '--batches', '0', '--batch', '1', '--size', '512']
    early, code, _, _ = interrupt(args, lambda: os.path.exists(os.path.join(folder, 'images_000002.npy')))
    if early:
        raise tap.Skip('it was done before the signal came')
    equal(code, 130)
    no_temporary_files(folder)
    assert not os.path.exists(os.path.join(folder, 'index.json')), 'an index of an unfinished dump'
    for name in files_below(folder):
        np.load(os.path.join(folder, name), allow_pickle=False)


def interrupted_synth():
    folder = path('synth')
    args = ['synth', folder, '--count', '3000', '--size', '256']
    early, code, out, _ = interrupt(args, lambda: os.path.exists(os.path.join(folder, 'masks', '000003.png')))
    if early:
        raise tap.Skip('it was done before the signal came')
    equal((code, out), (130, ''))
    no_temporary_files(folder)
    for name in files_below(folder):
        if name == '.stokehold':
            continue
        with Image.open(os.path.join(folder, name)) as image:
            image.load()


def terminated_bench():
    temporary = path('tmp')
    os.makedirs(temporary)
    process = subprocess.Popen([STOKE, 'bench', 'data', '--seconds', '30', '--samples', '16'], cwd=WORK,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, 'TMPDIR': temporary})
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    equal((process.returncode, out), (143, b''))
    equal(os.listdir(temporary), [], 'temporary folder')


def twice_in_a_moment(number, *args, folder):
    """As `timeout` does it: the process and then its whole group, so the process gets the signal twice."""
    def test():
        place = path(folder)
        os.makedirs(place, exist_ok=True)
        process = subprocess.Popen([STOKE, *args], cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, env={**os.environ, 'TMPDIR': place})
        end = time.monotonic() + 60
        while not files_below(place) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(0.3)
        assert process.poll() is None, 'it was done before the signal came'
        process.send_signal(number)
        time.sleep(0.002)  # or the second is merged with the first, which is still pending
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=60)
        equal((process.returncode, out), (128 + number, ''))
        contains(err, 'interrupted')
        no_temporary_files(place)
        if args[0] == 'bench':
            equal(os.listdir(place), [], 'temporary folder')
    return test


def nohup():
    process = subprocess.Popen([STOKE, 'hash', SET, '--size', '512'], cwd=WORK, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.stderr.readline()  # it has begun
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    equal(process.returncode, 0)


def closed_pipe():
    """`stoke bench data | head -1`: the reader is gone before the report comes."""
    temporary = path('tmp-pipe')
    os.makedirs(temporary)
    process = subprocess.Popen([STOKE, 'bench', 'data', '--short', '--seconds', '0.3'], cwd=WORK, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env={**os.environ, 'TMPDIR': temporary})
    process.stdout.close()
    process.wait(timeout=60)
    equal(os.listdir(temporary), [], 'temporary folder')


def limited(blocks):
    """As the shell's ulimit -f: a write beyond fails like a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (blocks * 512, blocks * 512))


def full_disk(name, args, folder):
    def test():
        done = stoke(*args, code=1, preexec_fn=limited(8))
        contains(done.stderr, f'stoke {name}: ', 'annot write')
        equal(done.stdout, '')
        no_temporary_files(folder)
        whole = [n for n in files_below(folder) if n.endswith(('.npy', '.png', '.json'))] if os.path.isdir(folder) else []
        for file in whole:
            assert os.path.getsize(os.path.join(folder, file)) < 8 * 512, f'{file} is there'
    return test


def unwritable():
    for args in (['show', SET, '--out', '/nowhere/a.png'], ['dump', SET, '--out', '/proc/dump'],
                 ['hash', SET, '--state', '/nowhere/state'], ['verify', SET, '--csv', '/nowhere/a.csv'],
                 ['synth', '/proc/set']):
        done = stoke(*args, code=1)
        equal(done.stdout, '', 'stdout')
        assert done.stderr.strip(), args


def interrupted_verify():
    """The CSV is opened before all is read, so that a name that cannot be written costs no time; it must go again."""
    early, code, _, _ = interrupt(['verify', SET, '--csv', path('late.csv'), '--workers', '1'],
                                  lambda: any(name.startswith('late.csv.tmp') for name in os.listdir(WORK)))
    assert not [name for name in os.listdir(WORK) if name.startswith('late.csv.tmp')], 'left behind'
    if early:
        raise tap.Skip('it was done before the signal came')
    assert code == 0 or not os.path.exists(path('late.csv')), code


def old_result_survives():
    out = path('kept.json')
    with open(out, 'w') as stream:
        stream.write('{"old": true}')
    stoke('hash', path('nowhere'), '--state', out, code=1)
    equal(json.load(open(out)), {'old': True})


def special_files_stay():
    """A rename would put a regular file in the place of a device, pipe or folder. (No device here: root could lose it.)"""
    pipe, folder, astray = path('pipe'), path('a-folder'), path('astray')
    os.mkfifo(pipe)
    os.mkdir(folder)
    os.symlink(path('nothing'), astray)
    for target, reason in ((pipe, 'not a regular file'), (folder, 'is a folder'),
                           (astray, 'leads nowhere')):
        before = os.lstat(target)
        for args in (['verify', SET, '--csv', target], ['hash', SET, '--batches', 1, '--state', target]):
            done = stoke(*args, code=1)
            contains(done.stderr, target, reason)
            equal(done.stdout, '', 'stdout')
        after = os.lstat(target)
        equal((after.st_ino, after.st_mode, after.st_rdev), (before.st_ino, before.st_mode, before.st_rdev), target)
    no_temporary_files(WORK)


def links_are_followed():
    real, link = path('a-folder-of-results', 'real.csv'), path('link.csv')
    os.mkdir(os.path.dirname(real))
    with open(real, 'w') as stream:
        stream.write('old')
    os.symlink(os.path.relpath(real, WORK), link)
    stoke('verify', SET, '--csv', link, code=1)  # what it leads to is there already
    stoke('verify', SET, '--csv', link, '--force')
    assert os.path.islink(link), 'the link was replaced'
    contains(open(real).read(), 'path,kind,reason')
    no_temporary_files(WORK)


signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the suite may run under nohup, which programs inherit
sys.exit(tap.run([
    ('Ctrl-C in dump', interrupted_dump),
    ('Ctrl-C in synth', interrupted_synth),
    ('SIGTERM in bench', terminated_bench),
    ('SIGINT twice in a moment: synth',
     twice_in_a_moment(signal.SIGINT, 'synth', 'twice', '--count', '3000', folder='twice')),
    ('SIGINT twice in a moment: bench', twice_in_a_moment(signal.SIGINT, *BENCH, folder='tmp-int')),
    ('SIGTERM twice in a moment: bench', twice_in_a_moment(signal.SIGTERM, *BENCH, folder='tmp-term')),
    ('SIGHUP twice in a moment: bench', twice_in_a_moment(signal.SIGHUP, *BENCH, folder='tmp-hup')),
    ('SIGHUP under nohup', nohup),
    ('closed pipe in bench', closed_pipe),
    ('full disk: dump', full_disk('dump', ['dump', SET, '--out', path('full'), '--quarantine', ''], path('full'))),
    ('full disk: show', full_disk('show', ['show', SET, '--out', path('show', 'a.png')], path('show'))),
    ('full disk: synth', full_disk('synth', ['synth', path('full-set'), '--count', 4, '--size', 512], path('full-set'))),
    ('places that cannot be written', unwritable),
    ('Ctrl-C in verify', interrupted_verify),
    ('a failure keeps the old result', old_result_survives),
    ('devices, pipes and folders are refused', special_files_stay),
    ('symbolic links are followed', links_are_followed),
]))
