# SPDX-License-Identifier: Apache-2.0
"""A program that has used up its descriptors: waited for, then told by its own name. No file is called bad."""
import os
import resource
import threading
import time

import pytest

import stokehold


@pytest.fixture
def few():
    """Room for 64 descriptors in all; returns a function that takes what is left, and one that gives it back."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
    taken = []

    def take():
        time.sleep(0.2)  # the workers have filled their slots, and no file is open
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass

    def give():
        while taken:
            os.close(taken.pop())

    yield take, give
    give()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_moment_without_descriptors_passes(make, few):
    take, give = few
    wanted = [images.tobytes() for images, _ in make(prefetch=1)]
    loader = make(prefetch=1)
    take()
    timer = threading.Timer(0.5, give)
    timer.start()
    assert [images.tobytes() for images, _ in loader] == wanted
    timer.join()
    assert loader.stats().bad_samples == 0 and loader.stats().retries > 0


def test_no_descriptors_is_its_own_error(make, few):
    take, give = few
    loader = make(prefetch=1)
    take()
    try:
        with pytest.raises(stokehold.ResourceError, match="Too many open files.*ulimit -n") as caught:
            for _ in loader:
                take()  # also what a worker was reading a file with
    finally:
        give()
    assert isinstance(caught.value, OSError) and caught.value.status == "resources"
    assert loader.bad_files() == []
