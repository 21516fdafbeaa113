# SPDX-License-Identifier: Apache-2.0
"""stoke monitor: one reading, lines, the summary, a CSV file, Ctrl-C, and a terminal of 80x24."""
import csv
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from cli import STOKE, WORK, contains, equal, path, stoke, stoke_json, tap

NONE = dict(os.environ, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1')


def fake(script='', **more):
    return dict(os.environ, STOKE_LIBNVML=os.environ['STOKE_FAKE_LIBNVML'], STOKE_FAKE_NVML=script, **more)


def once():
    answer = stoke_json('monitor', '--once', env=fake('process=4711'))
    card = answer['gpus'][0]
    equal(card['busy_percent'], {'value': 30, 'source': 'nvml'})
    equal(card['processes'][0]['pid'], 4711)
    equal(answer['machine']['memory_total']['source'], 'proc')
    assert 0 <= answer['machine']['cpu_percent']['value'] <= 100, answer['machine']
    text = stoke('monitor', '--once', env=fake()).stdout
    contains(text, 'Machine', 'gpu0 Fake GPU 24 GB', '30 % (nvml)', 'gpu1 Fake GPU 80 GB', '(proc)')


def lines_and_summary():
    done = stoke('monitor', '1', env=fake('process=4711'))
    equal(done.stderr, '')
    assert '\033' not in done.stdout, done.stdout
    assert re.search(r'^ +\d+\.\d s  processor \d+ %', done.stdout), done.stdout
    assert re.search(r'Summary of \d+\.\d s, \d+ reading', done.stdout), done.stdout
    contains(done.stdout, 'gpu0 busy 30 %', 'Graphics processors',
             'mean 30 %, p5 30 %, p95 30 %, peak 30 % (nvml)', 'below 10 % busy', ' Wh (estimated)', 'Verdict', 'Next: `stoke ')
    quiet = stoke('monitor', '0.2', '--quiet', env=fake()).stdout
    assert quiet.startswith('Summary'), quiet


def summary_for_programs():
    answer = stoke_json('monitor', '1', env=fake('process=4711'))
    assert 1 <= answer['readings'] <= 10, answer['readings']  # ten, unless the machine was too busy
    assert answer['seconds'] >= 0.9, answer['seconds']
    busy = answer['gpus'][0]['busy_percent']
    for name in ('mean', 'p5', 'p95', 'peak'):
        equal(busy[name], {'value': 30, 'source': 'nvml'}, name)
    equal(answer['gpus'][0]['energy_joule']['source'], 'estimated')  # the counter of the made-up card stands still
    equal(answer['gpus'][0]['processes'][0]['pid'], 4711)
    equal(answer['cannot_see'], None)
    stoke(answer['next'].split()[1], '--help')  # what it names is there


def no_card():
    answer = stoke_json('monitor', '0.3', env=NONE)
    equal(answer['gpus'], [])
    contains(answer['cannot_see'], '/nowhere/libnvidia-ml.so.1 cannot be opened')
    contains(answer['next'], 'stoke ')
    equal(answer['machine']['memory_used']['mean']['source'], 'proc')
    contains(stoke('monitor', '0.3', env=NONE).stdout, 'What cannot be seen', 'cannot be opened', 'No card was seen', 'Next: `stoke ')


def a_card_is_lost():
    answer = stoke_json('monitor', '0.5', env=fake('lost=0:60'))
    equal(answer['gpus'][0]['lost'], True)
    contains(answer['verdict'], 'fell off the bus')
    contains(stoke('monitor', '0.3', env=fake('lost=0:0')).stdout, 'busy (any kernel)', 'n/a')


def csv_file():
    name = path('readings.csv')
    stoke('monitor', '0.5', '--csv', name, '--quiet', env=fake('lost=1:0'))
    with open(name, newline='') as file:
        rows = list(csv.DictReader(file))
    assert 1 <= len(rows) <= 5, rows
    for row in rows:
        equal((row['gpu0_busy_percent'], row['gpu0_source'], row['machine_source']), ('30', 'nvml', 'proc'))
        equal((row['gpu1_busy_percent'], row['gpu1_source']), ('n/a', 'n/a'))
        assert None not in row and None not in row.values(), row
    times = [float(row['seconds']) for row in rows]
    equal(times, sorted(times))
    contains(stoke('monitor', '0.1', '--csv', path('no', 'folder.csv'), code=1, env=NONE).stderr, 'folder.csv')


def wrong_words():
    for word in ('soon', '1s', 'nan', 'inf', '-1e9', '1e99'):
        contains(stoke('monitor', '--', word, code=2).stderr, 'stoke monitor 60')
    contains(stoke('monitor', '5', '--once', code=2).stderr, '--once takes one reading')


def interrupt():
    for seconds, code in (('0', 0), ('600', 130)):
        run = subprocess.Popen([STOKE, 'monitor', seconds], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=fake(),
                               cwd=WORK)
        first = run.stdout.readline()  # it watches
        contains(first, 'processor')
        run.send_signal(signal.SIGINT)
        rest, errors = run.communicate(timeout=60)
        equal((run.returncode, errors), (code, ''))
        contains(rest, 'Summary of', 'Verdict', 'Next:')
    run = subprocess.Popen([STOKE, 'monitor', '0', '--json'], stdout=subprocess.PIPE, text=True, env=fake(), cwd=WORK)
    while True:  # until it handles SIGINT, by the kernel's word
        with open(f'/proc/{run.pid}/status') as status:
            if int(re.search(r'SigBlk:\s*(\w+)', status.read())[1], 16) >> (signal.SIGINT - 1) & 1:
                break
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    assert json.loads(run.communicate(timeout=60)[0])['readings'] >= 1


def resize(file, rows, columns):
    fcntl.ioctl(file, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))


def read_until(file, wanted, seconds=60):
    """What the terminal got, until `wanted` frames are whole or it is closed."""
    text, end = b'', time.monotonic() + seconds
    while time.monotonic() < end and text.count(b'\033[J') < wanted:
        if select.select([file], [], [], 0.2)[0]:
            try:
                more = os.read(file, 65536)
            except OSError:  # closed by the other side
                break
            if not more:
                break
            text += more
    return text.decode()


def frame_lines(text):
    """The last whole frame as lines without their sequences."""
    frame = text[:text.rindex('\033[J')]
    frame = frame[frame.rindex('\033[H') + 3:]
    return re.sub('\033\\[[0-9;?]*[A-Za-z]', '', frame).replace('\r', '').split('\n'), frame


def terminal(env, rows=24, columns=80, flags=()):
    ours, theirs = pty.openpty()
    resize(ours, rows, columns)
    run = subprocess.Popen([STOKE, 'monitor', *flags], stdin=theirs, stdout=theirs, stderr=theirs, env=dict(env, TERM='xterm'),
                           cwd=WORK, start_new_session=True)
    os.close(theirs)
    return run, ours


def finish(run, file):
    run.send_signal(signal.SIGINT)
    rest = read_until(file, 1 << 30)
    equal(run.wait(60), 0)
    os.close(file)
    contains(rest, '\033[?25h\033[?1049l', 'Summary of', 'Next:')
    assert '\033' not in rest.split('\033[?1049l')[1], 'sequences after the screen was given back'


def live_view():
    run, file = terminal(fake('process=4711', LC_ALL='C.UTF-8', NO_COLOR=''))
    text = read_until(file, 2)
    contains(text, '\033[?1049h', 'busy      [\033[31m█', 'busy      [\033[33m█')  # 30 % and 70 % of what was paid for
    lines, _ = frame_lines(text)
    assert len(lines) <= 24 and max(map(len, lines)) <= 80, lines
    contains('\n'.join(lines), 'Ctrl-C: summary', 'processor', 'memory', 'disk', 'gpu0 Fake GPU 24 GB', '[██████              ] 30 %',
             '100 W of 400 W', 'held down by: power', '4711', '4.0 GiB of 24.0 GiB', 'nvml')
    resize(file, 10, 40)  # the kernel tells it by SIGWINCH, but only the foreground group of a terminal that is controlling
    run.send_signal(signal.SIGWINCH)
    lines, _ = frame_lines(read_until(file, 2))
    assert len(lines) <= 10 and max(map(len, lines)) <= 40, lines
    contains(lines[-1], 'more lines: make the window taller')
    resize(file, 2, 3)
    run.send_signal(signal.SIGWINCH)
    lines, _ = frame_lines(read_until(file, 2))
    assert len(lines) <= 2 and max(map(len, lines)) <= 3, lines
    finish(run, file)


def no_colour():
    for env, flags in ((fake(NO_COLOR='1', LC_ALL='C'), ()), (fake(NO_COLOR='', LC_ALL='C'), ('--no-colour',))):
        run, file = terminal(env, flags=flags)
        _, frame = frame_lines(read_until(file, 1))
        equal(re.findall('\033\\[[0-9;]*m', frame), [])
        assert frame.isascii(), frame
        contains(frame, '[######              ]')
        finish(run, file)


def terminal_without_card():
    run, file = terminal(NONE)
    lines, _ = frame_lines(read_until(file, 1))
    contains(' '.join(lines), 'What cannot be seen', '/nowhere/libnvidia-ml.so.1', 'processor')
    assert max(map(len, lines)) <= 80, lines
    finish(run, file)


def as_people_know_them():
    """Utilisation and memory in percent and GiB, mean and peak; without a card the processors get the verdict."""
    text = stoke('monitor', 1, env=fake()).stdout
    contains(text, 'gpu0 busy 30 %, memory 17 % (4.0 GiB of 24.0 GiB)', 'mean 17 % (4.0 GiB), peak 17 % (4.0 GiB) (nvml)')
    assert ' GB,' not in text and ' GB)' not in text, text
    text = stoke('monitor', 1, env=NONE).stdout
    contains(text, 'No card was seen', 'rocessors were busy')


sys.exit(tap.run([
    ('as people know them', as_people_know_them),
    ('once', once),
    ('lines and summary', lines_and_summary),
    ('summary for programs', summary_for_programs),
    ('no card', no_card),
    ('a card is lost', a_card_is_lost),
    ('CSV', csv_file),
    ('wrong words', wrong_words),
    ('Ctrl-C', interrupt),
    ('live view', live_view),
    ('no colour', no_colour),
    ('a terminal without a card', terminal_without_card),
]))
