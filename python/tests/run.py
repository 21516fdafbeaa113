# SPDX-License-Identifier: Apache-2.0
"""Runs pytest and prints TAP, which scripts/test counts: run.py FILE OR PYTEST ARGUMENT...

STOKE_TEST_PART=2/3 runs the second of three parts, as in tests/tap.py.
"""
import os
import sys

try:
    import numpy  # noqa: F401
    import pytest
except ImportError as missing:
    print(f"1..0 # SKIP {missing.name} is not installed")
    sys.exit(0)


class Tap:
    """One line for each test; of a test that failed, what pytest has to say as well."""

    def __init__(self):
        self.number = 0

    def line(self, verdict, report, directive=""):
        self.number += 1
        print(f"{verdict} {self.number} - {report.nodeid.rpartition('/')[2]}{directive}", flush=True)

    def pytest_collection_modifyitems(self, items):
        number, _, count = os.environ.get("STOKE_TEST_PART", "1/1").partition("/")
        items[:] = items[int(number) - 1::int(count)]

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.line("not ok", report)
            for line in report.longreprtext.splitlines():
                print("# " + line)
        elif report.skipped:
            self.line("ok", report, f" # SKIP {report.longrepr[2].removeprefix('Skipped: ')}")
        elif report.when == "call":
            self.line("ok", report)

    def pytest_collectreport(self, report):
        if report.failed:
            self.line("not ok", report)
            for line in report.longreprtext.splitlines():
                print("# " + line)


if __name__ == "__main__":
    tap = Tap()
    here = os.path.dirname(os.path.abspath(__file__))
    status = pytest.main(["-p", "no:terminal", "-p", "no:cacheprovider", "--rootdir", here] + sys.argv[1:], plugins=[tap])
    print(f"1..{tap.number}")
    sys.exit(int(status))
