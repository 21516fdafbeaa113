# SPDX-License-Identifier: Apache-2.0
"""Help, misuse, version: what a person meets first."""
import os
import re
import subprocess
import sys

from cli import COMMANDS, STOKE, contains, equal, make_set, path, stoke, stoke_json, tap


def overview():
    for args in ([], ['help'], ['--help'], ['-h'], ['help', '--help'], ['help', '-h'], ['--help', '--help']):
        done = stoke(*args)
        contains(done.stdout, 'Usage: stoke COMMAND', 'Examples:', '\nData:\n', '\nTraining, on the processor:\n', '\nTuning:\n', *[c.split()[0] for c in COMMANDS])
        equal(done.stderr, '')
        listed = done.stdout.split('Help:')[0]
        assert not any(f'\n  {name} ' in listed for name in ('man', 'completion', 'trial', 'try-driver')), 'hidden commands are listed'


def version():
    done = stoke('--version')
    assert re.match(r'stoke \d+\.\d+\.\d+', done.stdout) and not done.stderr, done
    contains(stoke('--version', env={**os.environ, 'STOKE_CPU': 'avx9'}).stderr, 'STOKE_CPU=avx9 is ignored')
    equal(stoke('--version', env={**os.environ, 'STOKE_CPU': 'c'}).stderr, '')


def help_of(command):
    def test():
        words = command.split()
        done = stoke(*words, '--help')
        contains(done.stdout, f'Usage: stoke {command}', 'Examples:', '--json', '--quiet', 'Exit status')
        equal(done.stderr, '')
        equal(stoke('help', *words).stdout, done.stdout, 'help COMMAND')
        equal(stoke(*words, '-h').stdout, done.stdout, '-h')
        longest = max(len(line) for line in done.stdout.splitlines() if not line.startswith('  stoke '))
        assert longest <= 100, f'a line of {longest} letters'
    return test


def help_data():
    contains(stoke('help', 'data').stdout, '--memory-limit', '--label-map', '--augment', '--world')
    contains(stoke('help', 'training').stdout, '--head-lr', '--[no-]pictures', 'Optimiser:')


def help_about_one_thing():
    for words in (['verify', 'show'], ['data', 'verify'], ['bench', 'data', 'show'], ['bench', 'dta']):
        done = stoke('help', *words, code=2)
        contains(done.stderr, words[-1])
        equal(done.stdout, '')
    equal(stoke('help', 'verify', '--help').stdout, stoke('help', 'verify').stdout)


def bench_lists_subjects():
    for args in (['bench'], ['bench', '--help'], ['help', 'bench']):
        contains(stoke(*args).stdout, 'data', 'Examples:')


def unknown_command():
    done = stoke('verfiy', code=2)
    contains(done.stderr, "did you mean 'verify'")
    equal(done.stdout, '')
    assert 'did you mean' not in stoke('xyzzy', code=2).stderr, 'a wild guess'
    contains(stoke('bench', 'dta', code=2).stderr, "did you mean 'bench data'")
    contains(stoke('help', 'shwo', code=2).stderr, "did you mean 'show'")
    contains(stoke('--hlep', code=2).stderr, "unknown option '--hlep': did you mean '--help'?")
    contains(stoke('--verison', code=2).stderr, "did you mean '--version'?")


def unknown_option():
    done = stoke('hash', '--bacth', '4', code=2)
    contains(done.stderr, '--batch', 'stoke hash --help')
    equal(done.stdout, '')


def bad_values():
    contains(stoke('synth', 'x', '--count', 'many', code=2).stderr, 'count')
    contains(stoke('synth', 'x', '--classes', '1', code=2).stderr, 'classes')
    contains(stoke('hash', 'x', '--policy', 'ignore', code=2).stderr, 'replace')
    contains(stoke('hash', 'x', '--batch', code=2).stderr, 'needs a value')
    stoke('synth', code=2)
    stoke('synth', 'a', 'b', code=2)


def empty_names():
    folder = make_set('empty-names', count=2)
    for args in (['synth', ''], ['verify', ''], ['verify', '--images', ''], ['verify', folder, '--csv', ''],
                 ['dump', folder, '--out', ''], ['show', folder, '--out='], ['hash', folder, '--state', ''],
                 ['hash', folder, '--config', '']):
        done = stoke(*args, code=2)
        contains(done.stderr, 'empty')
        equal(done.stdout, '')


def data_twice_or_not_at_all():
    contains(stoke('verify', 'a', '--data', 'b', code=2).stderr, 'already given')
    for command in ('verify', 'show', 'hash', 'dump'):
        contains(stoke(command, code=2).stderr, 'no data given', 'stoke synth')


def missing_folder():
    contains(stoke('verify', path('nowhere'), code=1).stderr, 'nowhere')
    answer = stoke_json('verify', path('nowhere'), code=1)
    contains(answer['error']['message'], 'nowhere')


def full_stdout():
    folder = make_set('full', count=2)
    with open('/dev/full', 'w') as full:
        done = subprocess.run([STOKE, 'hash', folder, '--quiet'], stdout=full, stderr=subprocess.PIPE, text=True)
    equal(done.returncode, 1)
    contains(done.stderr, 'standard output')


sys.exit(tap.run([
    ('overview', overview),
    ('version', version),
    ('help data', help_data),
    ('help about one thing', help_about_one_thing),
    ('bench lists its subjects', bench_lists_subjects),
    ('unknown command', unknown_command),
    ('unknown option', unknown_option),
    ('bad values', bad_values),
    ('empty names', empty_names),
    ('data given twice or not at all', data_twice_or_not_at_all),
    ('missing folder', missing_folder),
    ('full stdout', full_stdout),
] + [(f'help of {c}', help_of(c)) for c in COMMANDS]))
