# SPDX-License-Identifier: Apache-2.0
"""What the public headers declare with STOKE_API is exactly what libstoke.so exports: test_symbols.py INCLUDE LIBRARY"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import public
import tap

include, library = sys.argv[1:]
COMMENT = re.compile(r'/\*.*?\*/', re.DOTALL)
DECLARATION = re.compile(r'^STOKE_API\b[^;(]*?(\w+)\s*\(', re.MULTILINE)


def declared(header):
    with open(os.path.join(include, 'stoke', header), encoding='utf-8') as stream:
        return set(DECLARATION.findall(COMMENT.sub('', stream.read())))


def exported():
    output = subprocess.run(['nm', '-D', '--defined-only', library], stdout=subprocess.PIPE, check=True, text=True).stdout
    # "0000000000001139 T stoke_version@@STOKE_0"; type A lines are the version nodes themselves.
    fields = [line.split() for line in output.splitlines()]
    return {field[-1].split('@')[0] for field in fields if field[-2] != 'A'}


headers = [name for name in public.headers(include) if name not in ('stoke.h', 'tools/tools.h', 'augment_plan.h')]  # those declare no function
symbols = exported()
all_declared = set().union(*map(declared, headers))


def names_start_with_stoke():
    assert symbols, f'{library} exports nothing'
    strange = sorted(name for name in symbols if not name.startswith('stoke_'))
    assert not strange, 'exported without the prefix: ' + ', '.join(strange)


def nothing_undeclared():
    undeclared = sorted(symbols - all_declared)
    assert not undeclared, 'exported but in no public header: ' + ', '.join(undeclared)


def promise_stays_small():
    """A function is added to the promise when strangers need it, not because a command of ours does: that is what tools/ is for."""
    promised = set().union(*(declared(header) for header in headers if not header.startswith('tools/')))
    assert len(promised) <= 130, f'{len(promised)} functions are promised'


def is_exported(header):
    def test():
        names = declared(header)
        assert names, 'no STOKE_API declaration found: did the style of the header change?'
        missing = sorted(names - symbols)
        assert not missing, 'declared but not exported: ' + ', '.join(missing)
    return test


sys.exit(tap.run([
    ('every exported symbol starts with stoke_', names_start_with_stoke),
    ('every exported symbol is declared', nothing_undeclared),
    ('the promise stays small', promise_stays_small),
] + [(f'{header} is exported', is_exported(header)) for header in headers]))
