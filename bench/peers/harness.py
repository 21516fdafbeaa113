# SPDX-License-Identifier: Apache-2.0
"""What every peer's process shares: its options, the files, and the measuring.

A peer gives a function that makes an endless iterator of (images, masks). The time to its first batch is taken, imports not
counted, the start of its workers counted. It is consumed untimed for a while, so that queues are full, code is compiled and
files are in the page cache; then one window is timed without draining the peer's queues. CPU time is that of the process and
all it has started, living or reaped. Memory is their highest PSS (what is shared counts once), read ten times a second before
and after the window, not in it: a reading takes milliseconds. The result is one line of JSON on stdout."""
import argparse
import contextlib
import glob
import json
import os
import random
import sys
import threading
import time

BATCH = 32
SIZE = 512
WORKERS = 2
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
IGNORE = 255

TICKS = os.sysconf("SC_CLK_TCK")
WARM_BATCHES = 8  # more than any peer keeps ready here (2 workers x 2 batches)
WARM_SECONDS = 6  # a slow peer, which keeps no more than 2 batches ready, may start after half as many
AFTER_SECONDS = 1  # of going on after the window, for the memory alone
LEAST_BATCHES = 8  # so that a slow peer's window is no matter of one batch more or less


def options():
    """The options every peer has; one may add its own before parsing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="folder with images/, masks/ and shards/")
    parser.add_argument("--seconds", type=float, default=4)
    return parser


def pairs(data):
    images = sorted(glob.glob(os.path.join(data, "images", "*.jpg")))
    masks = [os.path.join(data, "masks", os.path.basename(path)[:-4] + ".png") for path in images]
    if not images:
        sys.exit(f"no images in {data}/images")
    return images, masks


def endless_order(count, seed=0):
    """Shuffled passes without an end: workers never drain between two of them."""
    order, generator = list(range(count)), random.Random(seed)
    while True:
        generator.shuffle(order)
        yield from order


def family(pid):
    """The process and everything below it."""
    found, left = [], [pid]
    while left:
        member = left.pop()
        found.append(member)
        try:
            for task in os.listdir(f"/proc/{member}/task"):
                with open(f"/proc/{member}/task/{task}/children", encoding="ascii") as children:
                    left += [int(child) for child in children.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def cpu_seconds(pid):
    total = 0
    for member in family(pid):
        try:
            with open(f"/proc/{member}/stat", encoding="ascii", errors="replace") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(value) for value in fields[11:15])  # user, system, and both of reaped children
    return total / TICKS


def memory_bytes(pid):
    """PSS of the process and all below it."""
    total = 0
    for member in family(pid):
        try:
            with open(f"/proc/{member}/smaps_rollup", encoding="ascii") as rollup:
                total += next(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) * 1024
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


class Memory:
    """The highest reading of those taken `while_watched`."""

    def __init__(self):
        self.before = self.peak = memory_bytes(os.getpid())

    @contextlib.contextmanager
    def while_watched(self):
        done = threading.Event()

        def look():
            while not done.wait(0.1):
                self.peak = max(self.peak, memory_bytes(os.getpid()))

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def check(images, masks, bytes_out):
    """A peer that delivers less than the others would win for nothing."""
    shape = (BATCH, SIZE, SIZE, 3) if bytes_out else (BATCH, 3, SIZE, SIZE)
    assert tuple(images.shape) == shape, f"images {tuple(images.shape)}"
    assert str(images.dtype).endswith("uint8" if bytes_out else "float32"), images.dtype
    assert tuple(masks.shape) == (BATCH, SIZE, SIZE), f"masks {tuple(masks.shape)}"
    assert str(masks.dtype).endswith("uint8" if bytes_out else "int64"), masks.dtype
    if not bytes_out:
        assert float(images.min()) < -1 and float(images.max()) > 1, "images are not normalised"
        assert int(masks.max()) == IGNORE, "nothing was turned in from outside, or it is not 255"


def warm_up(stream, start):
    """The last of the batches that are not timed, and when the first had come."""
    images, masks = next(stream)
    batches, first = 1, time.perf_counter() - start
    while batches < WARM_BATCHES // 2 or (batches < WARM_BATCHES and time.perf_counter() - start < WARM_SECONDS):
        images, masks = next(stream)
        batches += 1
    return images, masks, first


def timed(stream, seconds):
    """Samples and seconds of a window, and CPU seconds of the whole family in it."""
    batches, cpu, start = 0, cpu_seconds(os.getpid()), time.perf_counter()
    while True:
        next(stream)
        batches += 1
        took = time.perf_counter() - start
        # Two workers deliver in pairs: an even count ends where a pair ends.
        if took >= seconds and batches >= LEAST_BATCHES and batches % WORKERS == 0:
            return batches * BATCH, took, cpu_seconds(os.getpid()) - cpu


def measure(make, seconds, bytes_out=False):
    memory = Memory()
    with memory.while_watched():
        start = time.perf_counter()
        stream = iter(make())
        images, masks, first = warm_up(stream, start)
    check(images, masks, bytes_out)
    del images, masks
    samples, took, cpu = timed(stream, seconds)
    with memory.while_watched():
        end = time.perf_counter() + AFTER_SECONDS
        while time.perf_counter() < end:
            next(stream)
    print(json.dumps({"samples_per_s": samples / took, "cpu_ms_per_sample": 1000 * cpu / samples, "first_batch_s": first,
                      "memory_bytes": memory.peak, "memory_before_bytes": memory.before}), flush=True)
