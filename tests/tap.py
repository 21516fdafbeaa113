# SPDX-License-Identifier: Apache-2.0
"""TAP for tests written in Python: run([(name, function), ...]); an exception fails the test, Skip skips it.

STOKE_TEST_ROUNDS says how much a test tries that tries the same many times or at random moments: nothing is what `make test` has time
for, `full` is what .ci/run tries, and a number is that many rounds. STOKE_TEST_PART=2/3 runs the second of three parts of a program whose
tests do not need each other, so that no program is long and two cores are busy to the end.
"""
import os
import sys
import traceback

ROUNDS = os.environ.get('STOKE_TEST_ROUNDS', '')
FULL = ROUNDS != ''


def rounds(few, full):
    """How often something is tried."""
    return int(ROUNDS) if ROUNDS.isdigit() else full if FULL else few


class Skip(Exception):
    """Raised with the reason."""


def run(tests):
    """Prints the plan and a line per test of this part; returns the exit status."""
    number, _, count = os.environ.get('STOKE_TEST_PART', '1/1').partition('/')
    tests = tests[int(number) - 1::int(count)]
    print(f'1..{len(tests)}')
    failed = 0
    for number, (name, function) in enumerate(tests, 1):
        try:
            function()
            print(f'ok {number} - {name}')
        except Skip as reason:
            print(f'ok {number} - {name} # SKIP {reason}')
        except Exception as error:
            failed += 1
            print(f'not ok {number} - {name}')
            text = str(error) if isinstance(error, AssertionError) and str(error) else traceback.format_exc()
            for line in text.splitlines():
                print('# ' + line)
        sys.stdout.flush()
    return 1 if failed else 0
