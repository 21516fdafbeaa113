# SPDX-License-Identifier: Apache-2.0
"""stoke doctor: everything with its source, nothing that names a user."""
import os
import re
import sys

from cli import WORK, contains, equal, make_set, path, stoke, stoke_json, tap

NONE = dict(os.environ, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1')
SOURCES = {'nvml', 'sysfs', 'proc', 'fdinfo', 'driver', 'measured', 'table', 'estimated', 'emulated', 'n/a'}


def fake(script=''):
    return dict(os.environ, STOKE_LIBNVML=os.environ['STOKE_FAKE_LIBNVML'], STOKE_FAKE_NVML=script)


def figures(value, where=''):
    """Every figure of an answer with its place."""
    if isinstance(value, dict):
        if set(value) == {'value', 'source'}:
            yield where, value
        for key, inner in value.items():
            yield from figures(inner, f'{where}.{key}')
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from figures(inner, f'{where}[{number}]')


def figures_have_sources():
    answer = stoke_json('doctor', env=fake('cards=2 process=4711'))
    found = dict(figures(answer))
    assert len(found) > 50, len(found)
    for where, figure in found.items():
        contains(SOURCES, figure['source'])
        equal(figure['value'] is None, figure['source'] == 'n/a', where)
    equal(found['.machine.effective_cores']['source'], 'measured')
    assert found['.machine.usable']['value'] >= 1, found['.machine.usable']
    card = answer['gpus'][0]
    equal((card['name'], card['vendor'], card['lost']), ('Fake GPU 24 GB', 'nvidia', False))
    equal(card['memory_total'], {'value': 24 * 2**30, 'source': 'nvml'})
    equal(card['effective_percent']['source'], 'estimated')
    equal([p['pid'] for p in card['processes']], [4711])
    assert 'GPU-0000' not in str(answer), 'a serial number'
    contains(' '.join(answer['advice']), '1 other program is on it', '8 of 16 lanes', 'power limit')
    equal(answer['versions']['stoke'], stoke('--version').stdout.split()[1])
    for name in ('compiler', 'libc', 'spng', 'zlib', 'libyaml', 'libtiff', 'libwebp', 'xxhash'):
        assert re.search(r'\d+\.\d+', answer['versions'][name]), name


def for_people():
    done = stoke('doctor', env=fake())
    equal(done.stderr, '')
    contains(done.stdout, 'Versions', 'Processor and memory', 'Disk of this folder', 'Devices that', 'Graphics processors',
             'Missing or in the way', 'Fake GPU 24 GB', 'Fake GPU 80 GB', '30 % (nvml)', '24.0 GiB (nvml)', '100.0 W (nvml)',
             '60 C (nvml)', '(measured)', '(emulated)', '`stoke doctor --data DIR`')
    longest = max(done.stdout.splitlines(), key=len)
    assert len(longest) < 600, longest


def no_card():
    answer = stoke_json('doctor', env=NONE)
    equal(answer['gpus'], [])
    contains(' '.join(answer['advice']), '/nowhere/libnvidia-ml.so.1 cannot be opened; install')
    contains(stoke('doctor', env=NONE).stdout, 'none found; why, see below')


def sick_cards():
    advice = ' '.join(stoke_json('doctor', env=fake('init=18'))['advice'])
    contains(advice, 'reboot after an update of the driver')
    answer = stoke_json('doctor', env=fake('lost=0:30 mig=1'))
    lost, cut = answer['gpus']
    equal((lost['lost'], cut['lost'], cut['mig']), (True, False, True))
    equal([where for where, figure in figures(lost) if figure['value'] is not None], [])
    contains(' '.join(answer['advice']), 'fell off the bus', 'MIG')
    contains(stoke('doctor', env=fake('driver=535.54.03')).stdout, 'lists only the first of several programs')


def a_data_set():
    folder = make_set('set', count=6)
    home = dict(NONE, HOME=WORK)
    answer = stoke_json('doctor', '--data', folder, env=home)
    disk = answer['disk']
    equal((disk['data'], disk['samples']), ('~/set', '6'))
    # A chroot into a folder where nothing is mounted has no line for it, and then nothing is claimed.
    with open('/proc/self/mountinfo') as table:
        listed = any(line.split()[4] == '/' for line in table)
    assert disk['mount'].startswith(('/', '~')) and disk['filesystem'] if listed else not disk['filesystem'], disk
    equal(disk['cached_share']['source'], 'measured')
    assert 0 <= disk['cached_share']['value'] <= 1, disk
    text = stoke('doctor', '--data', folder, env=home).stdout
    contains(text, 'Disk of the data', '~/set', 'in the page cache')
    for shown in (text, str(answer)):
        assert WORK not in shown, 'the home is shown'


def users_are_hidden():
    for given, shown in (('/home/bob/none', '~/none'), ('/srv/home/bob/none', '/srv/~/none'), ('/media/bob/disk/none', '~/disk/none'),
                         ('bob@far/none', 'far/none'), ('/media/cdrom', '/media/cdrom')):
        answer = stoke_json('doctor', '--data', given, env=dict(NONE, HOME='/root'))
        equal(answer['disk']['data'], shown)
        assert 'bob' not in str(answer), answer


def no_data_set():
    os.makedirs(path('empty'), exist_ok=True)
    for name in ('empty', 'nowhere'):
        answer = stoke_json('doctor', '--data', path(name), env=dict(NONE, HOME=WORK))
        contains(' '.join(answer['advice']), 'no data set', f'~/{name}')
        equal(answer['disk']['samples'], None)
        assert WORK not in str(answer), answer
    equal(stoke('doctor', 'word', code=2).stdout, '')


sys.exit(tap.run([
    ('figures have sources', figures_have_sources),
    ('for people', for_people),
    ('no card', no_card),
    ('sick cards', sick_cards),
    ('a data set', a_data_set),
    ('users are hidden', users_are_hidden),
    ('no data set', no_data_set),
]))
