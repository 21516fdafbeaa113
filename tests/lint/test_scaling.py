# SPDX-License-Identifier: Apache-2.0
"""bench/peers/ddp.py and bench/scale_model.py without measuring: options, arithmetic, and what they make of kept results."""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, 'tests'), os.path.join(ROOT, 'bench', 'peers'), os.path.join(ROOT, 'bench')]
sys.dont_write_bytecode = True  # the source folder may be read-only
import tap
import ddp_report
import hosts
import scale_model


def turns(*medians, weights=None):
    return {'turns': [{'ms': [ms, ms + 1], 'median': ms, 'best': ms - 1, 'memory_bytes': 100 << 20, **({'weights': weights} if weights else {})}
                      for ms in medians]}


PART = {'model': 'b0', 'accumulate': 1, 'where': ddp_report.ONE_HOST,
        'entries': {'1x2': turns(200, 300, 200, weights='aa'), 'mpi': turns(250, 300, 220, weights='aa'), 'c10d': turns(400, weights='aa'),
                    'torch': turns(900, 900, 900), 'ddp': {'turns': [], 'skipped': 'no torch'}, 'lanes': turns(100, 100), 'allreduce': turns(110, 90)}}
RESULTS = {'rounds': 3, 'date': '2020-01-01', 'stoke': 'stoke 0', 'versions': {'torch': '1.0'}, 'form': 'eager', 'pictures': 8, 'size': 256,
           'machine': {'cpu': 'one', 'cores': 2, 'memory': '8 GiB', 'system': 'Linux'},
           'parts': [PART, {**PART, 'accumulate': 8, 'where': '1gbit', 'entries': {'mpi': turns(2000, weights='bb')}}]}
MODEL = {'about': 'made up.', 'counts': [8, 64], 'table': [{'model': 'b2', 'accumulate': 8, 'rate': '10gbit', 'shares': [0.914, 0.5]}],
         'checks': [{'model': 'b0', 'accumulate': 1, 'rate': '1gbit', 'predicted_ms': 110.0, 'measured_ms': 100.0, 'error': 0.1}]}


def program(name, *arguments):
    return subprocess.run([sys.executable, '-B', os.path.join(ROOT, 'bench', name), *arguments], capture_output=True, text=True)


def ratios_are_of_one_round():
    assert ddp_report.ratios(PART, 'mpi', '1x2') == [0.8, 1.0, 200 / 220]
    assert ddp_report.ratios(PART, 'ddp', 'torch') == ddp_report.ratios(PART, 'mpi', 'nobody') == []
    rows = {row[1]: row for row in ddp_report.rows(RESULTS) if row[0] == 'b0, one host'}
    assert rows[ddp_report.TITLES['mpi']][2:] == ['32.00', '36.53', '0.91', '0.80..1.00', '100', 'aa'], rows
    assert rows[ddp_report.TITLES['ddp']][-1] == 'no torch', rows
    last = list(ddp_report.rows(RESULTS))[-1]
    assert last[0] == 'b0, 8 batches a lane, two hosts, 1gbit' and last[2] == '32.00', last


def kept_results_make_the_page():
    with tempfile.TemporaryDirectory() as folder:
        kept = os.path.join(folder, 'r.json')
        with open(kept, 'w', encoding='utf-8') as stream:
            json.dump(RESULTS, stream)
        run = program('peers/ddp.py', '--from', kept)
        assert run.returncode == 0 and 'the same weights' in run.stdout and '0.909 of the speed' in run.stdout, run
        PART['entries']['c10d']['turns'][0]['weights'] = 'ab'
        with open(kept, 'w', encoding='utf-8') as stream:
            json.dump(RESULTS, stream)
        run = program('peers/ddp.py', '--from', kept)
        PART['entries']['c10d']['turns'][0]['weights'] = 'aa'
        assert run.returncode == 1 and 'OTHER WEIGHTS' in run.stdout, run
        with open(kept + '.model', 'w', encoding='utf-8') as stream:
            json.dump({'checks': MODEL['checks'], 'holds': False}, stream)
        run = program('peers/ddp.py', '--from', kept, '--model', kept + '.model', '--write-doc')
        assert run.returncode == 1 and 'did not hold' in run.stderr, run
    page = ddp_report.page([RESULTS], MODEL)
    for words in ('do not edit by hand', '| b0, one host | ' + ddp_report.TITLES['mpi'], 'modelled, not measured', '| 91 % | 50 % |', '+10 %'):
        assert words in page, words + '\n' + page
    assert 'disturbed' not in page
    PART['entries']['torch']['turns'][1]['others'] = 1.26
    assert 'other programs used up to 1.3 cores' in ddp_report.page([RESULTS], None)
    assert 'odelled' not in ddp_report.page([RESULTS], None)


def misuse_is_refused():
    for name in ('peers/ddp.py', 'scale_model.py'):
        assert program(name, '--help').returncode == 0
        for wrong in (['--cases', 'b7'], ['--cases', 'b0x0'], ['--rate', '7parsec'], ['--rounds', '0']):
            run = program(name, *wrong)
            assert run.returncode == 2 and run.stderr, (name, wrong, run)
    assert program('peers/ddp.py', '--entrants', 'nobody').returncode == 2
    assert program('peers/ddp.py', '--short', '--write-doc').returncode == 2
    assert (hosts.bits_per_second('1gbit'), hosts.bits_per_second('200mbit')) == (1e9, 2e8)


PARTS = {'forward': 30.0, 'backward': 60.0, 'update': 10.0, 'bytes': 12e6, 'cv': 0.0}
COSTS = {'exchange': [2.0, 1e-6], 'gather': [2.0, 1e-6], 'exchange_cpu': [0.0, 5e-7], 'gather_cpu': [0.0, 2.5e-7], 'wait': 0.5, 'message': 0.01,
         'latency': 0.2, 'copy': 1e9}


def near(value, wanted):
    assert abs(value - wanted) < 1e-6, (value, wanted)


def what_is_hidden():
    """Six pieces: 14 ms of exchange begin when a sixth of the backward pass is over."""
    near(scale_model.exposed_exchange(12, 60, 6), 2)  # the last piece alone
    near(scale_model.exposed_exchange(120, 60, 6), 70)  # all but what passed before the first was ready
    near(scale_model.exposed_gather(12, 60, 6), 2)  # the first piece alone
    near(scale_model.exposed_gather(120, 60, 6), 70)
    alone = 100 + 14 + 14 + 3 * 0.5 + (10 + 0.036) / 2 - 10
    near(scale_model.predicted(PARTS, COSTS, 1, 'none'), alone)
    near(scale_model.predicted(PARTS, COSTS, 1, 'exchange'), alone - 14 + 14 / 6 + 6)
    near(scale_model.predicted(PARTS, COSTS, 1, 'both'), alone - 28 + 28 / 6 + 9)
    near(scale_model.predicted(PARTS, COSTS, 8, 'none'), alone + 7 * 90)


def more_processes_are_not_faster():
    def share(count, accumulate=1, **more):
        alone = accumulate * 90 + 10
        return alone / scale_model.modelled({**PARTS, **more}, COSTS, accumulate, 'both', count, 125e3)
    shares = [share(count) for count in (2, 8, 64, 512, 4096)]
    assert shares == sorted(shares, reverse=True) and 0 < shares[-1] < shares[0] < 1, shares
    assert share(64, accumulate=8) > share(64) > share(64, cv=0.1)


def lines_through_figures():
    figures = {('exchange', size): {'us': 1000 + size, 'cpu_us': 5} for size in (64, 1000, 2000)}
    line = scale_model.line_of(figures, 'exchange', 'us')
    near(scale_model.at(line, 5000), 6)
    near(scale_model.line_of(figures, 'exchange', 'cpu_us')[1], 0)
    middle = scale_model.middle([{'a': 1, 'b': [1, 5]}, {'a': 3, 'b': [2, 6]}, {'a': 2, 'b': [9, 7]}])
    assert middle == {'a': 2, 'b': [2, 6]}, middle


def hosts_need_root():
    """Without it the rest is measured all the same, and why is said."""
    real, os.geteuid = os.geteuid, lambda: 1
    try:
        with hosts.two():
            raise AssertionError('made')
    except hosts.Unable as why:
        assert 'root' in str(why), why
    finally:
        os.geteuid = real
    with hosts.two(False) as nobody:
        assert nobody is None


sys.exit(tap.run([
    ('ratios are of one round', ratios_are_of_one_round),
    ('kept results make the page', kept_results_make_the_page),
    ('misuse is refused', misuse_is_refused),
    ('what is hidden', what_is_hidden),
    ('more processes are not faster', more_processes_are_not_faster),
    ('hosts need root', hosts_need_root),
    ('lines through figures', lines_through_figures),
]))
