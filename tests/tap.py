# SPDX-License-Identifier: Apache-2.0
"""TAP for tests written in Python: run([(name, function), ...]); an exception fails the test, Skip skips it."""
import sys
import traceback


class Skip(Exception):
    """Raised with the reason."""


def run(tests):
    """Prints the plan and a line per test; returns the exit status."""
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
