# SPDX-License-Identifier: Apache-2.0
"""scripts/test counts what a program did, also when it crashed, said nothing or was cut off, and says how far it is."""
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
sys.dont_write_bytecode = True  # the source folder may be read-only
import tap

loader = importlib.machinery.SourceFileLoader('counter', os.path.join(ROOT, 'scripts', 'test'))
counter = importlib.util.module_from_spec(importlib.util.spec_from_loader('counter', loader))
loader.exec_module(counter)


def counts(expected, stdout, protocol='tap', result='OK', code=0, reason=None):
    """A test: the record of such a program is counted as `expected` = (passed, failed, skipped)."""
    def test():
        tally = counter.Tally()
        record = {'name': 'stokehold:unit / x', 'stdout': stdout, 'result': result, 'returncode': code, 'duration': 2.0}
        counter.count_program(record, protocol, tally)
        got = (tally.passed, len(tally.failed), len(tally.skipped))
        assert got == expected, f'{got} instead of {expected}'
        assert reason is None or reason in str(tally.failed + tally.skipped), tally.failed + tally.skipped
    return test


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, lines):
    """What is written while a program says these lines, and what it said."""
    process = subprocess.Popen(['printf', '%s', '\n'.join(lines) + '\n'], stdout=subprocess.PIPE, text=True)
    said = counter.watch(process, counter.Progress('programs', stream))
    process.stdout.close()
    assert said.splitlines() == lines, said
    return stream.getvalue()


MESON_SAYS = [f'{n:3}/40 stokehold:unit / t{n}   {"ERROR" if n == 7 else "OK"}   0.05s   3 subtests passed' for n in range(1, 41)]


def a_line_every_tenth():
    lines = shown(io.StringIO(), ['ninja: no work to do.', *MESON_SAYS]).splitlines()
    assert lines[:4] == ['programs: 1 of 40', 'programs: 4 of 40', 't7: error, more at the end', 'programs: 8 of 40'], lines
    assert len(lines) == 12 and lines[-1] == 'programs: 40 of 40', lines


def one_line_on_a_terminal():
    text = shown(Terminal(), MESON_SAYS)
    assert text.count('\n') == 1 and 't7: error, more at the end\n' in text, repr(text)
    assert text.endswith('programs: 40 of 40, t40\r\033[K'), repr(text[-60:])


def skips_are_grouped():
    skipped = [('a: one', 'no card'), ('b', 'no torch'), ('a: two', 'no card'), ('c: x: y', 'no card')]
    assert counter.group(skipped) == [('no card', 3, ['a (2)', 'c']), ('no torch', 1, ['b'])], counter.group(skipped)


sys.exit(tap.run([
    ('progress: a line every tenth in a file, failures as they come', a_line_every_tenth),
    ('progress: one line on a terminal', one_line_on_a_terminal),
    ('skips are grouped by their reason', skips_are_grouped),
    ('plain lines', counts((2, 0, 0), '1..2\nok 1 - a\nok 2 - b # not a directive\n')),
    ('a failed line and its exit status are one failure',
     counts((1, 1, 0), '1..2\nok 1 - a\nnot ok 2 - b\n# 1 != 2\n', result='FAIL', code=1, reason='1 != 2')),
    ('a skip with reason', counts((1, 0, 1), '1..2\nok 1 - a\nok 2 - b # SKIP no data\n', reason='no data')),
    ("cmocka's skip", counts((0, 0, 1), '1..1\nnot ok 1 # SKIP skipped\n', result='FAIL')),
    ('all skipped', counts((0, 0, 1), '1..0 # SKIP no compiler\n', result='SKIP', reason='no compiler')),
    ('a silent program', counts((0, 1, 0), '', result='SKIP', reason='no TAP plan')),
    ('a crash before the plan', counts((0, 1, 0), '', result='ERROR', code=-11, reason='signal 11')),
    ('a crash in the middle', counts((1, 1, 0), '1..3\nok 1 - a\n', result='ERROR', code=-6, reason='1 of 3')),
    ('a crash after the last line', counts((1, 1, 0), '1..1\nok 1 - a\n', result='ERROR', code=-6)),
    ('a leak found at exit', counts((1, 1, 0), '1..1\nok 1 - a\n', result='ERROR', code=1, reason='exit status 1')),
    ('a failure and a crash are two', counts((0, 2, 0), '1..2\nnot ok 1 - a\n', result='ERROR', code=-11)),
    ('an early, peaceful exit', counts((1, 1, 0), '1..2\nok 1 - a\n', reason='1 of 2')),
    ('a time-out', counts((1, 1, 0), '1..2\nok 1 - a\n', result='TIMEOUT', code=-15, reason='timed out after 2 s')),
    ('bailing out', counts((0, 1, 0), '1..2\nBail out! no disk\n', result='ERROR', reason='no disk')),
    ('exit status: passed', counts((1, 0, 0), '', 'exitcode')),
    ('exit status: failed', counts((0, 1, 0), 'why\n', 'exitcode', 'FAIL', 3, 'why')),
    ('exit status: skipped', counts((0, 0, 1), 'no device\n', 'exitcode', 'SKIP', 77, 'no device')),
    ('exit status: timed out', counts((0, 1, 0), '', 'exitcode', 'TIMEOUT', -15, 'timed out')),
]))
