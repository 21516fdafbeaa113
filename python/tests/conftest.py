# SPDX-License-Identifier: Apache-2.0
"""What the tests share: a small set, a set that takes long, and Python programs of their own process.

The package is the one that PYTHONPATH or the environment has. Others (torch) may lie in the folders that STOKE_TEST_PYTHON and
STOKE_TEST_TORCH name.
"""
import os
import subprocess
import sys
import textwrap

import pytest

sys.path += [os.environ[name] for name in ("STOKE_TEST_PYTHON", "STOKE_TEST_TORCH") if os.environ.get(name)]

import stokehold  # noqa: E402

# Under it, memory does not come back as without, a child of fork hung in some runs, and a trial that should fail by its own exception ended
# otherwise. The sanitizer is the likely cause of all three; none was traced.
not_sanitized = pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="the address sanitizer is loaded")


def stoke(*arguments):
    """What the command prints."""
    result = subprocess.run([sys.executable, "-m", "stokehold", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """22 pairs of 40x48 with six classes."""
    folder = tmp_path_factory.mktemp("pairs") / "set"
    stoke("synth", folder, "--count", 22, "--size", "40x48")
    return str(folder)


@pytest.fixture(scope="session")
def restoring(tmp_path_factory):
    """10 pairs of degraded pictures, 20x24, and clean ones twice as high and wide."""
    folder = tmp_path_factory.mktemp("restore") / "set"
    stoke("synth", folder, "--task", "restore", "--degrade", "mix", "--scale", 2, "--count", 10, "--size", "40x48")
    return str(folder)


@pytest.fixture(scope="session")
def endless(data, tmp_path_factory):
    """A set whose first batch of 4000 takes many seconds: hard links to one larger picture."""
    source = tmp_path_factory.mktemp("large") / "set"
    stoke("synth", source, "--count", 1, "--size", "512")
    folder = tmp_path_factory.mktemp("endless")
    for kind in ("images", "masks"):
        (folder / kind).mkdir()
        (file,) = (source / kind).iterdir()
        for i in range(4000):
            os.link(file, folder / kind / f"{i}{file.suffix}")
    return str(folder)


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def make(data):
    """Loaders of the small set that are closed when the test ends."""
    made = []

    def loader(**settings):
        settings = {"data": data, "batch_size": 4, "image_size": 32, "output": "numpy", "workers": 2, **settings}
        made.append(stokehold.Loader(**settings))
        return made[-1]

    yield loader
    for one in made:
        one.close()


class Program:
    """A Python program in a separate process."""

    def __init__(self, text, *arguments):
        self.process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(text), *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def line(self):
        return self.process.stdout.readline().strip()

    def end(self):
        """Exit status, what else it printed, what it complained of."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def program():
    started = []

    def start(text, *arguments):
        started.append(Program(text, *arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        one.process.stdout.close()
        one.process.stderr.close()
