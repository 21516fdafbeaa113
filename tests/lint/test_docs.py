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
    """docs/augmentation.md has a line for everything ops.def and names.c have, and for nothing else."""
    described = set(re.findall(r'^\| `(\w+)` \|', read('docs/augmentation.md'), re.MULTILINE))
    ops = set(re.findall(r'^STK_OP\((\w+)\)', read('src/augment/ops.def'), re.MULTILINE))
    presets = set(re.findall(r'^    \{ "(\w+)", "', read('src/augment/names.c'), re.MULTILINE))
    assert ops and presets, 'nothing found: did the style of the lists change?'
    assert described == ops | presets, sorted(described ^ (ops | presets))


def commands_are_listed():
    """docs/commands.md has every command of cli/commands.def, but those that only hold others."""
    page = read('docs/commands.md')
    words = re.findall(r'^CLI_(?:SUB)?COMMAND\((?:\w+, )?\w+, "([\w -]+)"\)', read('cli/commands.def'), re.MULTILINE)
    inside = {word.split()[0] for word in words if ' ' in word}
    assert words, 'nothing found: did the style of the list change?'
    lost = [word for word in words if word not in inside and not re.search(r'`stoke %s[ `]' % word, page)]
    assert not lost, f'not in docs/commands.md: {lost}'


def pages_keep_their_size():
    """What is read in one go stays short: lines of a page, terms of the glossary, bytes of all pictures."""
    for page, most in [('README.md', 120), ('docs/map.md', 60), ('docs/tuning.md', 150)]:
        assert read(page).count('\n') <= most, f'{page} has more than {most} lines'
    assert len(re.findall(r'^\| \*\*', read('docs/glossary.md'), re.MULTILINE)) <= 30, 'more than 30 terms'
    wide = [number for number, line in enumerate(read('docs/design.md').splitlines(), 1) if len(line) > 140]
    assert not wide, f'docs/design.md: lines of more than 140 characters: {wide}'
    pictures = glob.glob(os.path.join(ROOT, 'docs', 'img', '*'))
    assert pictures and sum(map(os.path.getsize, pictures)) <= 300000, 'pictures of more than 300 kB (scripts/make-images)'


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
    ('every command is listed', commands_are_listed),
    ('pages keep their size', pages_keep_their_size),
    ('every fuzz target is listed', fuzz_targets_are_listed),
    ('the quick start is two commands', quick_start_is_two_commands),
] + [(f'links of {page}', links_lead_somewhere(page)) for page in PAGES]
  + [(f'files named in {page}', named_files_exist(page)) for page in PAGES]))
