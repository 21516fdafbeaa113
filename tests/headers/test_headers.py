# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone, twice in a row, as C11 and as C++11, without a warning."""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import public
import tap

WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wstrict-prototypes', '-Wundef', '-Werror']

parser = argparse.ArgumentParser()
parser.add_argument('--include', required=True)
parser.add_argument('--cc', required=True)
parser.add_argument('--cxx')
args = parser.parse_args()


def compiles(compiler, options, header):
    def test():
        if compiler is None:
            raise tap.Skip('no C++ compiler')
        source = f'#include <stoke/{header}>\n' * 2
        command = compiler.split() + options + ['-fsyntax-only', '-I', args.include, '-']
        result = subprocess.run(command, input=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert result.returncode == 0, ' '.join(command) + '\n' + result.stdout
    return test


headers = public.headers(args.include)
cxx_warnings = [w for w in WARNINGS if w != '-Wstrict-prototypes']  # C only
tests = []
for name in headers:
    tests.append((f'{name} as C11', compiles(args.cc, ['-std=c11', '-x', 'c'] + WARNINGS, name)))
    tests.append((f'{name} as C++11', compiles(args.cxx, ['-std=c++11', '-x', 'c++'] + cxx_warnings, name)))
sys.exit(tap.run(tests))
