# SPDX-License-Identifier: Apache-2.0
"""The pages say what is so: links lead somewhere, files they name exist, the two READMEs are in step."""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
import tap

PAGES = ['README.md', 'README.zh.md', 'CONTRIBUTING.md', 'CHANGELOG.md'] + sorted(
    os.path.relpath(page, ROOT) for page in glob.glob(os.path.join(ROOT, 'docs', '*.md')))
ROOTS = ('src/', 'include/', 'cli/', 'scripts/', 'tests/', 'examples/', 'bench/', 'docs/', 'configs/', '.ci/')


def read(page):
    with open(os.path.join(ROOT, page), encoding='utf-8') as stream:
        return stream.read()


def code_blocks(text):
    return re.findall(r'^```\w*\n(.*?)^```', text, re.DOTALL | re.MULTILINE)


def links_lead_somewhere(page):
    def test():
        links = re.findall(r'\]\(([^)#]+)', read(page))
        here = os.path.dirname(os.path.join(ROOT, page))
        lost = [link for link in links if '://' not in link and not os.path.exists(os.path.join(here, link))]
        assert not lost, 'nothing at ' + ', '.join(lost)
    return test


def named_files_exist(page):
    """Paths from the root, written out in full; names with a placeholder (NAME, *, ...) are not files."""
    def test():
        names = re.findall(r'(?<![\w/.<])((?:%s)[\w./-]*\w)(?![\w*<-])' % '|'.join(map(re.escape, ROOTS)), read(page))
        lost = sorted({name for name in names if not re.search(r'NAME|ROOM|\.\.\.', name)
                       and not os.path.exists(os.path.join(ROOT, name))})
        assert not lost, 'no such file: ' + ', '.join(lost)
    return test


def readmes_are_in_step():
    english, chinese = read('README.md'), read('README.zh.md')
    assert code_blocks(english) == code_blocks(chinese), 'the code blocks differ'
    for what, pattern in [('headings', r'^(#+) '), ('list items', r'^(- )'), ('commands', r'^\| (`stoke.*?`) \|')]:
        a, b = (re.findall(pattern, text, re.MULTILINE) for text in (english, chinese))
        assert a == b, f'{what} differ: {a} and {b}'


def ops_and_presets_are_described():
    """docs/augmentation.md has a line for everything ops.def and presets.c have, and for nothing else."""
    described = set(re.findall(r'^\| `(\w+)` \|', read('docs/augmentation.md'), re.MULTILINE))
    ops = set(re.findall(r'^STK_OP\((\w+)\)', read('src/augment/ops.def'), re.MULTILINE))
    presets = set(re.findall(r'^    \{ "(\w+)", "', read('src/augment/presets.c'), re.MULTILINE))
    assert ops and presets, 'nothing found: did the style of the lists change?'
    assert described == ops | presets, sorted(described ^ (ops | presets))


def fuzz_targets_are_listed():
    """tests/fuzz/README.md names every target beside what it reads, each has seeds, and none is named that is not there."""
    targets = {os.path.basename(file)[5:-2] for file in glob.glob(os.path.join(ROOT, 'tests', 'fuzz', 'fuzz_*.c'))}
    rows = re.findall(r'^\|[^|]+\|([^|]+)\|$', read('tests/fuzz/README.md'), re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r'`(\w+)`', row)}
    assert targets and listed == targets, sorted(listed ^ targets)
    empty = [name for name in targets if not os.listdir(os.path.join(ROOT, 'tests', 'fuzz', 'corpus', name))]
    assert not empty, f'no seeds: {empty}'


def quick_start_is_two_commands():
    assert code_blocks(read('README.md'))[0] == 'make demo\nmake test\n', code_blocks(read('README.md'))[0]


sys.exit(tap.run([
    ('the two READMEs are in step', readmes_are_in_step),
    ('every op and preset is described', ops_and_presets_are_described),
    ('every fuzz target is listed', fuzz_targets_are_listed),
    ('the quick start is two commands', quick_start_is_two_commands),
] + [(f'links of {page}', links_lead_somewhere(page)) for page in PAGES]
  + [(f'files named in {page}', named_files_exist(page)) for page in PAGES]))
