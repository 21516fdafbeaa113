# SPDX-License-Identifier: Apache-2.0
"""The YAML splice against PyYAML: yaml_live.py TOOL CORPUS

For every file of tests/yaml that is changed: what PyYAML loads from the result is what it loads from the original, except
at the named keys, and there it is the value that was meant, of the type that was meant. What is written as a plain value
by the splice is also tried on a list of texts that YAML 1.1 makes something else of.
"""
import math
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap

tool, corpus = sys.argv[1:]
try:
    import yaml
except ImportError:
    yaml = None
MEANT = {'true': True, 'True': True, 'false': False, 'null': None, '~': None}


QUOTED = ['double-quoted', 'single-quoted', 'float-quoted-stays-text']  # what stood in quotes stays a text


def cases():
    with open(os.path.join(corpus, 'cases.tsv'), encoding='utf-8') as table:
        for line in table:
            if line.startswith('#'):
                continue
            name, outcome, *edits = line.rstrip('\n').split('\t')
            if outcome == 'ok':
                yield name, [edit.replace('\\x07', '\x07').split('=', 1) for edit in edits]


def loaded(text):
    if yaml is None:
        raise tap.Skip('PyYAML is not installed: apt install python3-yaml')
    return yaml.safe_load(text)


def meant(text):
    """What a person who types the value wants: true, a number, or the text itself."""
    if text in MEANT:
        return MEANT[text]
    if re.fullmatch(r'[-+]?(0|[1-9][0-9]*)', text):
        return int(text)
    if re.fullmatch(r'[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?', text) and re.search(r'[.eE]', text):
        return float(text)
    return text


def steps(path):
    for quoted, plain, index in re.findall(r'"([^"]*)"|([^.\[\]"]+)|\[([0-9]+)\]', path):
        yield int(index) if index else quoted or plain


def same(a, b):
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def change(tree, path, value):
    *above, last = steps(path)
    for step in above:
        tree = tree[step]
    tree[last] = value


def case(name, edits):
    def test():
        file = os.path.join(corpus, name + '.yaml')
        with open(file, 'rb') as stream:
            try:
                tree = loaded(stream.read())
            except yaml.YAMLError as error:
                raise tap.Skip(f'PyYAML does not read this file, libyaml does: {error.problem}')
        done = subprocess.run([tool, file] + [f'{path}={value}' for path, value in edits], capture_output=True)
        assert done.returncode == 0, done.stdout.decode()
        with open(os.path.join(corpus, name + '.want'), 'rb') as stream:
            assert done.stdout == stream.read(), done.stdout
        for path, value in edits:
            change(tree, path, value if name in QUOTED else meant(value))
        got = loaded(done.stdout)
        assert same(got, tree), f'got {got}\nwanted {tree}'
    return test


# Each must come back as meant() says, as a new key, in place of a plain value, and inside { }.
TEXTS = ['8', '-3', '0', '0.5', '1.', '3e-4', '3E4', '1.5e3', '1e+05', '6e-5', '.5', '010', '0x10', '0b11', '1_000', '12:30', '1:30:45.5',
         '2024-01-02', '2024-01-02 03:04:05', 'true', 'false', 'yes', 'no', 'on', 'off', 'y', 'n', 'null', '~', 'Null?', '=', '<<',
         '', ' ', ' a', 'a ', 'a: b', 'a:', ':a', 'a #b', '#a', '- a', '-', '--- a', '...', '?', '? a', '!tag', '&a', '*a', '|', '>', '%x',
         '@x', '`x', "it's", 'say "x"', '"', "'", 'a,b', '[1]', '{a}', 'a]b', 'C:\\data', './data/train', '/data/a b', '中文 路径', 'é',
         'a\tb', 'a\nb', '\x07', '\x7f', '\x85', '\u2028', '\ufeff', '\U0001f600', 'nan', 'inf', '1e400', '1e', 'e5', '+', '+1', '0o17', '16-32']


def texts(form, path):
    def test():
        with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
            file.write(form)
            file.flush()
            wrong = []
            for text in TEXTS:
                done = subprocess.run([tool, file.name, f'{path}={text}'], capture_output=True)
                tree = loaded(form)
                wanted = meant(text)
                change(tree, path, wanted if wanted not in (math.inf, -math.inf) else text)
                got = done.returncode or loaded(done.stdout)
                if not same(got, tree) and not (text == '1e400' and got):
                    wrong.append((text, done.stdout, got))
            assert not wrong, wrong
    return test


sys.exit(tap.run([(name, case(name, edits)) for name, edits in cases()] + [
    ('texts as new keys', texts('a: 1\n', 'k')),
    ('texts as new values', texts('k: x # c\na: 1\n', 'k')),
    ('texts inside braces', texts('m: {k: x, a: 1}\n', 'm.k')),
    ('texts inside lists', texts('m: [x, 1]\n', 'm[0]')),
    ('texts as keys of braces', texts('m: {a: 1}\n', 'm.k')),
]))
