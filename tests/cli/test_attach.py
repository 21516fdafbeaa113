# SPDX-License-Identifier: Apache-2.0
"""stoke monitor --attach and --prometheus: a real run in the background, killed in the end; a page that is none; metrics, line by line."""
import csv
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from cli import STOKE, WORK, contains, equal, make_set, path, stoke, stoke_json, tap

SET = make_set('set', count=12, size='64x64', classes=4)
NONE = dict(os.environ, STOKE_LIBNVML='/nowhere/libnvidia-ml.so.1')
CARDS = dict(os.environ, STOKE_LIBNVML=os.environ['STOKE_FAKE_LIBNVML'], STOKE_FAKE_NVML='lost=1:0')
job = None


def value(answer, name):
    return answer['job'][name]['value']


def attach_to_a_run():
    """A run that would take minutes; the tests after this one watch it too."""
    global job
    job = subprocess.Popen([STOKE, 'train', SET, '--size', '64', '--batch', '2', '--threads', '1', '--steps', '100000',
                            '--name', 'long', '--quiet'], cwd=WORK, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while job.poll() is None:
        if os.path.exists(path('runs/long/live')):
            answer = stoke_json('monitor', '--once', '--attach', 'runs/long', env=NONE)
            if answer['job']['state'] == 'training' and value(answer, 'step') > 2:
                break
        time.sleep(0.01)
    equal(job.poll(), None, 'the run')
    equal((answer['job']['pid'], answer['job']['run'], answer['job']['alive'], answer['job']['what']),
          (job.pid, 'runs/long', True, 'train b0'))
    equal((value(answer, 'steps'), value(answer, 'slots'), answer['job']['period']), (100000, 3, 'since it began'))
    assert 0 <= value(answer, 'ready') <= 3 and value(answer, 'samples') >= 4, answer['job']
    assert 0 <= value(answer, 'data_wait') <= 1 and value(answer, 'samples_s') > 0 and value(answer, 'loss') > 0, answer['job']
    equal(answer['job']['cache_hits'], {'value': None, 'source': 'n/a'})  # it has no cache
    equal(answer['job']['device_busy'], {'value': None, 'source': 'n/a'})
    stages = {stage['name']: stage for stage in answer['job']['stages']}
    assert stages['decode image']['cpu_ms']['value'] > 0 and stages['read']['wall_ms']['source'] == 'measured', stages
    text = stoke('monitor', '--once', '--attach', 'runs/long/live', env=NONE).stdout  # the page itself will do
    contains(text, '\nJob\n', f'train b0, process {job.pid}', ' of 100000', 'batches ready (measured)', 'to decode image', 'ms CPU')


def summary_and_table():
    done = stoke('monitor', '0.4', '--attach', 'runs/long', '--csv', path('job.csv'), env=NONE)
    contains(done.stdout, '\nJob\n', 'waited for data', 'Verdict')
    with open(path('job.csv'), newline='') as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert None not in row and None not in row.values(), row
        equal((row['job_slots'], row['job_source']), ('3', 'measured'))
    steps = [int(row['job_step']) for row in rows]
    assert steps == sorted(steps) and steps[0] > 0, steps


# ---- Prometheus ----

SAMPLE = re.compile(r'(stoke_[a-z0-9_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? ([-+]?(?:[0-9.]+(?:e[-+]?[0-9]+)?|Inf)|NaN)$')


def parse(text):
    """{(name, labels): value}, strictly as text format 0.0.4 has it: HELP, TYPE, samples of that name, the next."""
    assert text.endswith('\n'), 'the last line has no end'
    samples, seen, name, kind = {}, set(), None, None
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith('# HELP '):
            name = line.split(' ', 3)[2]
            assert name not in seen and line.split(' ', 3)[3], line
            seen.add(name)
            typed = next(lines).split(' ')
            equal(typed[:3], ['#', 'TYPE', name])
            assert typed[3] in ('gauge', 'counter') and (typed[3] == 'counter') == name.endswith('_total'), typed
            continue
        match = SAMPLE.match(line)
        assert match and match[1] == name, f'{line!r} below {name}'
        key = (match[1], match[2] or '')
        assert key not in samples, f'{key} twice'
        samples[key] = float(match[3])
        assert samples[key] == samples[key], f'{line}: what is not known is left out'
    equal({key[0] for key in samples}, seen, 'names with samples')
    return samples


def fetch(url, method='GET', data=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method, data=data), timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def serving(env, *flags):
    run = subprocess.Popen([STOKE, 'monitor', '0', '--json', '--prometheus', '0', *flags], cwd=WORK, env=env,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = run.stderr.readline()
    url = re.search(r'http://127\.0\.0\.1:\d+/metrics', line)
    assert url, line
    while not fetch(url[0])[2]:  # until the first reading
        time.sleep(0.01)
    return run, url[0]


def finish(run):
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    equal((run.returncode, err), (0, ''))
    return json.loads(out)


def metrics_of_cards():
    run, url = serving(CARDS)
    status, headers, text = fetch(url)
    equal((status, headers['Content-Type']), (200, 'text/plain; version=0.0.4; charset=utf-8'))
    samples = parse(text)
    first = 'gpu="0",uuid="GPU-00000000-0000-0000-0000-000000000000"'
    once = stoke_json('monitor', '--once', env=CARDS)
    equal(samples['stoke_memory_total_bytes', ''], once['machine']['memory_total']['value'])
    equal(samples['stoke_gpu_memory_total_bytes', first], once['gpus'][0]['memory_total']['value'])
    equal(samples['stoke_gpu_busy_ratio', first], 0.3)
    equal(samples['stoke_gpu_clock_hertz', first], 1.5e9)
    equal(samples['stoke_gpu_energy_joules_total', first], 123.456)
    equal(samples['stoke_gpu_lost', first], 0)
    second = [key for key in samples if 'gpu="1"' in key[1]]  # it fell off the bus: nothing is known of it
    equal({name for name, _ in second}, {'stoke_gpu_lost', 'stoke_gpu_info'})
    equal([samples[key] for key in second if key[0] == 'stoke_gpu_lost'], [1])
    assert not [name for name, _ in samples if name.startswith('stoke_job_')], 'nothing is attached'
    for bad in ('', 'metric', 'metrics/', 'metrics2'):
        equal(fetch(url.replace('metrics', bad))[0], 404, bad)
    for method, data in (('POST', b'x' * 100000), ('PUT', b''), ('DELETE', None)):
        status, headers, _ = fetch(url, method, data)
        equal((status, headers['Allow']), (405, 'GET, HEAD'), method)
    equal(fetch(url, 'HEAD')[0], 200)
    port = int(url.split(':')[2].split('/')[0])
    contains(stoke('monitor', '1', '--prometheus', port, code=1, env=NONE).stderr, f'port {port} of 127.0.0.1 is in use')
    idle = socket.create_connection(('127.0.0.1', port))  # one who never asks does not hold up the end
    equal(finish(run)['gpus'][0]['name'], 'Fake GPU 24 GB')
    idle.close()


def who_drips_is_sent_away():
    """Connections that send a byte now and then are never idle; they keep nobody out, and their time ends."""
    run, url = serving(NONE)
    port = int(url.split(':')[2].split('/')[0])
    drips = [socket.create_connection(('127.0.0.1', port)) for _ in range(31)]  # as many as one address has but one
    begin, alive, answers = time.monotonic(), len(drips), 0
    while alive and time.monotonic() < begin + 60:
        for drip in drips:
            try:
                drip.send(b'G')
            except OSError:
                pass
        if answers < 10:
            equal(fetch(url)[0], 200)
            answers += 1
        alive = 0
        for drip in drips:
            try:
                alive += drip.recv(1, socket.MSG_DONTWAIT) != b''
            except BlockingIOError:
                alive += 1
            except OSError:
                pass
        time.sleep(0.1)
    equal(alive, 0, 'connections that are still open')
    equal(answers, 10, 'answers meanwhile')
    for drip in drips:
        drip.close()
    finish(run)


def ask_bytes(port, request):
    """What comes back for any bytes, within half a second: who waits for more is left."""
    answer = b''
    with socket.create_connection(('127.0.0.1', port), timeout=0.5) as peer:
        try:
            peer.sendall(request)
            peer.shutdown(socket.SHUT_WR)
            while part := peer.recv(65536):
                answer += part
        except (ConnectionError, TimeoutError):
            pass
    return answer


def changed(rng, request):
    """A request with bytes changed, doubled, put in, left out, or cut."""
    request = bytearray(request)
    put_in = (b'\r\n', b'\0', b'%00', b'../', b'?a=b', b' ', b':', b'A' * 5000, b'Transfer-Encoding: chunked\r\n')
    for _ in range(rng.randint(1, 3)):
        at, length, kind = rng.randrange(len(request) + 1), rng.randint(1, 12), rng.randrange(5)
        if kind == 0:
            request[at:at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            request[at:at] = request[at:at + length] * rng.choice((1, 2, 100))
        elif kind == 2:
            request[at:at] = rng.choice(put_in)
        else:
            del request[at:at + length if kind == 3 else None]
    return bytes(request)


def metrics_asked_for_with_anything():
    seed = 20261117
    rng, seen = random.Random(seed), set()
    run, url = serving(NONE)
    port = int(url.split(':')[2].split('/')[0])
    requests = (b'GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', b'HEAD /metrics HTTP/1.0\r\n\r\n',
                b'POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello',
                b'PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n')
    for number in range(120):
        request = changed(rng, rng.choice(requests))
        answer = ask_bytes(port, request)
        status, what = answer.split(b'\r\n')[0], f'seed {seed}, number {number}: {request[:200]!r}'
        assert not answer or re.match(rb'HTTP/1\.[01] (200|4\d\d|501|505) ', status), f'{what} gave {answer[:200]!r}'
        seen.add(status[9:12])
        if b' 200 ' in status and request.startswith(b'GET'):
            assert answer.split(b'\r\n\r\n', 1)[1].startswith(b'# HELP '), f'{what} gave {answer[:200]!r}'
    assert {b'200', b'400', b'404', b'405'} <= seen, seen
    equal(fetch(url)[0], 200)
    finish(run)


def metrics_of_a_job():
    run, url = serving(NONE, '--attach', 'runs/long')
    samples = parse(fetch(url)[2])
    equal((samples['stoke_job_up', ''], samples['stoke_job_slots', ''], samples['stoke_job_steps', '']), (1, 3, 100000))
    equal(samples['stoke_job_info', 'what="train b0"'], 1)
    equal(sum(number for (name, _), number in samples.items() if name == 'stoke_job_phase'), 1)
    assert samples['stoke_job_samples_total', ''] > 0 and samples['stoke_job_step_seconds_total', ''] > 0, samples
    assert ('stoke_job_stage_cpu_seconds_total', 'stage="decode image"') in samples, samples
    assert ('stoke_job_cache_hits_total', '') not in samples and ('stoke_job_device_busy_ratio', '') not in samples, samples
    equal(finish(run)['job']['pid'], job.pid)


def wrong_places_to_serve():
    for flags, told in ((('--prometheus', 'http'), 'is no port'), (('--prometheus', '65536'), 'is no port'),
                        (('--prometheus', '0', '--bind', 'localhost'), 'no address in numbers'),
                        (('--prometheus', '0', '--bind', '192.0.2.1'), 'an address of this machine')):
        contains(stoke('monitor', '1', *flags, code=2, env=NONE).stderr, told)
    contains(stoke('monitor', '--once', '--prometheus', '0', code=2, env=NONE).stderr, '--once')


# ---- the end ----

def killed_while_watched():
    watch = subprocess.Popen([STOKE, 'monitor', '0', '--attach', 'runs/long'], cwd=WORK, env=NONE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    contains(watch.stdout.readline() + watch.stdout.readline(), 'job ', ' of 100000')
    job.kill()
    out, err = watch.communicate(timeout=60)  # nobody interrupts it
    equal((watch.returncode, err), (0, ''))
    contains(out, 'job ended without saying so', 'Summary of', 'The job ended without saying so at step ',
             'Next: `stoke why oom --run runs/long`')
    job.wait()
    answer = stoke_json('monitor', '0', '--attach', 'runs/long', env=NONE)  # ends at once
    equal((answer['job']['state'], answer['job']['alive'], answer['readings']), ('ended without saying so', False, 1))
    assert value(answer, 'step') > 0, answer['job']


def a_run_that_ended():
    stoke('train', SET, '--size', '64', '--batch', '2', '--steps', '3', '--name', 'short', '--quiet')
    answer = stoke_json('monitor', '0', '--attach', 'runs/short', env=NONE)
    equal((answer['job']['state'], value(answer, 'step'), answer['next']), ('ended', 3, 'stoke report runs/short'))
    contains(answer['verdict'], 'The job has ended.')  # three steps say nothing about data


def no_room_for_a_page():
    """What stands in its way costs a remark, not the run."""
    os.remove(path('runs/short/live'))
    os.mkdir(path('runs/short/live'))
    done = stoke('train', '--resume', 'runs/short')
    contains(done.stderr, 'nobody can watch this run with `stoke monitor --attach`')
    os.rmdir(path('runs/short/live'))


def no_page():
    contains(stoke('monitor', '1', '--attach', 'runs', code=1, env=NONE).stderr, 'runs/live: there is no such page', 'stoke train')
    contains(stoke('monitor', '1', '--attach', 'runs/short/config.yaml', code=1, env=NONE).stderr, 'not a page of statistics')
    contains(stoke('monitor', '1', '--attach', '/dev/zero', code=1, env=NONE).stderr, '/dev/zero')


def benches():
    stoke('bench', 'device', SET, '--batch', '2', '--size', '32', '--steps', '20', '--step-ms', '0.01', '--live', 'fed', '--quiet')
    answer = stoke_json('monitor', '0', '--attach', 'fed', env=NONE)
    equal((answer['job']['state'], answer['job']['what'], answer['job']['run']),
          ('ended', 'bench device, sim:rtx3090 (emulated)', None))
    equal((value(answer, 'step'), value(answer, 'data_wait')), (25, None))
    assert 0 < value(answer, 'device_busy') < 0.9, answer['job']  # no loader makes a batch in 0.01 ms
    contains(answer['verdict'], 'The device was busy', 'batches come too slowly', "Most of a sample's time goes to")
    equal(answer['next'], 'stoke diagnose --config FILE')
    stoke('bench', 'data', SET, '--batch', '2', '--short', '--seconds', '0.2', '--live', 'loaded', '--quiet')
    answer = stoke_json('monitor', '0', '--attach', 'loaded', env=NONE)
    equal((answer['job']['what'], value(answer, 'data_wait'), value(answer, 'step')), ('bench data', None, None))
    assert value(answer, 'samples') > 0, answer['job']


def tests():
    try:
        return tap.run([
            ('attach to a run', attach_to_a_run),
            ('summary and table', summary_and_table),
            ('metrics of cards', metrics_of_cards),
            ('connections that drip', who_drips_is_sent_away),
            ('metrics, asked for with anything', metrics_asked_for_with_anything),
            ('metrics of a job', metrics_of_a_job),
            ('wrong places to serve', wrong_places_to_serve),
            ('killed while it is watched', killed_while_watched),
            ('a run that ended', a_run_that_ended),
            ('no room for a page', no_room_for_a_page),
            ('no page', no_page),
            ('benches', benches),
        ])
    finally:
        if job and job.poll() is None:
            job.kill()


sys.exit(tests())
