# SPDX-License-Identifier: Apache-2.0
"""bench/peers/data.py without measuring: its options, and what it makes of kept results."""
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
sys.dont_write_bytecode = True  # the source folder may be read-only
import tap

PEERS = os.path.join(ROOT, 'bench', 'peers')


def turns(*rates, others=0.0, **more):
    return [{'samples_per_s': rate, 'cpu_ms': 2000 / rate, 'others': others, **more} for rate in rates]


RESULTS = {
    'command': '--rounds 3', 'set': 'stoke synth', 'rounds': 3, 'seconds': 4, 'date': '2020-01-01', 'stoke': 'stoke 0',
    'machine': {'cpu': 'a <fast> one', 'cores': 2, 'memory': '8 GiB', 'system': 'Linux'},
    'versions': {'torch': {'torch': '1.0'}},
    'entries': [
        {'key': 'bare', 'title': 'bare decoding', 'kind': 'bare', 'group': 'full', 'turns': turns(800, 1000, 900)},
        {'key': 'stokehold', 'title': 'ours', 'kind': 'stoke', 'group': 'full', 'turns': turns(700, 720, 500, memory_bytes=64 << 20)},
        {'key': 'stokehold-python', 'title': 'python', 'kind': 'loader', 'group': 'full',
         'turns': turns(650, 600, 690, memory_bytes=512 << 20, memory_before_bytes=128 << 20, first_batch_s=0.25)},
        {'key': 'pil', 'title': 'a <peer>', 'kind': 'peer', 'group': 'full', 'turns': turns(70, 80, 50, others=1.0)},
        {'key': 'dali', 'title': 'absent', 'kind': 'peer', 'group': 'full', 'turns': [], 'skipped': 'not installed'}]}


def data(*arguments):
    return subprocess.run([sys.executable, '-B', os.path.join(PEERS, 'data.py'), *arguments], capture_output=True, text=True)


def kept_results_make_table_and_chart():
    with tempfile.TemporaryDirectory() as folder:
        kept, chart = os.path.join(folder, 'r.json'), os.path.join(folder, 'r.svg')
        with open(kept, 'w', encoding='utf-8') as stream:
            json.dump(RESULTS, stream)
        run = data('--from', kept, '--svg', chart)
        assert run.returncode == 0, run.stderr
        table, bars = run.stdout.split('\n\n', 1)
        rows = {line.split('  ')[0]: line.split() for line in table.splitlines()}
        assert rows['ours'][1:7] == ['700', '500..720', '2.86', '64', 'n/a', '0.78'], rows['ours']
        assert rows['python'][4:7] == ['512', '(128)', '0.25'], rows['python']
        assert '10.00x' in rows['a <peer>'] and 'disturbed' in rows['a <peer>'], rows['a <peer>']
        assert rows['absent'][-2:] == ['not', 'installed'], rows['absent']
        assert bars.count('#') > 48, bars
        texts = [element.text for element in xml.etree.ElementTree.parse(chart).iter() if element.text]
        assert 'a <peer>' in texts and '700' in texts, texts


def the_page_has_every_entrant():
    sys.path.insert(0, PEERS)
    import report
    page = report.page(RESULTS, 'peers.svg')
    for entry in RESULTS['entries']:
        assert f"| {entry['title']} |" in page, page
    assert '| torch | torch 1.0 |' in page, page


def migration_has_its_figures():
    sys.path.insert(0, PEERS)
    import data as program
    import report
    table = report.migration(RESULTS)
    assert '| a <peer> | 70 | 9.29x | n/a | n/a |' in table and '| python | 650 | - | 512 (128) | 0.25 |' in table, table
    assert '| absent | not installed | - | - | - |' in table and 'ours' not in table, table
    with open(os.path.join(ROOT, 'docs', 'migration.md'), encoding='utf-8') as stream:
        page = stream.read()
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, 'page.md')
        with open(copy, 'w', encoding='utf-8') as stream:
            stream.write(page)
        for _ in range(2):  # filling again replaces
            program.fill(copy, table)
        with open(copy, encoding='utf-8') as stream:
            filled = stream.read()
    assert filled.count(table) == 1 and filled.endswith(page[page.index('<!-- end of figures -->'):]), filled


def migration_shows_what_runs():
    """A piece of Python on that page is from the file that is named before it."""
    with open(os.path.join(ROOT, 'docs', 'migration.md'), encoding='utf-8') as stream:
        pieces = re.findall(r'\]\(\.\./(bench/peers/peers/\w+\.py)\)[^\n]*\n\n```python\n(.*?)```', stream.read(), re.DOTALL)
    assert len(pieces) == 6, [name for name, _ in pieces]
    for name, piece in pieces:
        with open(os.path.join(ROOT, name), encoding='utf-8') as stream:
            lines = {line.strip() for line in stream}
        lost = [line for line in piece.splitlines() if line.strip() not in lines]
        assert not lost, f'{name} has no {lost}'


def misuse_is_refused():
    assert data('--help').returncode == 0
    for wrong in (['--only', 'nobody'], ['--rounds', '0'], ['--nonsense']):
        run = data(*wrong)
        assert run.returncode == 2 and run.stderr, (wrong, run)


def every_peer_has_its_file():
    sys.path.insert(0, PEERS)
    import roster
    for entrant in roster.ENTRANTS:
        if entrant.kind in ('peer', 'loader'):
            assert entrant.environment in roster.ENVIRONMENTS, entrant.key
            assert os.path.exists(os.path.join(PEERS, 'peers', entrant.module + '.py')), entrant.key
    keys = [entrant.key for entrant in roster.ENTRANTS]
    assert len(keys) == len(set(keys)), keys


sys.exit(tap.run([
    ('kept results make a table and a chart', kept_results_make_table_and_chart),
    ('the page has every entrant', the_page_has_every_entrant),
    ('the page on migration gets its figures', migration_has_its_figures),
    ('the page on migration shows what runs', migration_shows_what_runs),
    ('misuse is refused', misuse_is_refused),
    ('every peer has its file', every_peer_has_its_file),
]))
