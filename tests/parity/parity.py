# SPDX-License-Identifier: Apache-2.0
"""Shared by the parity scripts of the pixel room: the C tool as a partner, the input formula, TAP lines."""
import subprocess
import sys

import numpy as np


def make_input(width, height, channels, depth, seed):
    """The noise resize_tool.c makes: splitmix64's finaliser of the sample index; odd seeds keep only the extremes."""
    x = np.arange(width * height * channels, dtype=np.uint64) + np.uint64(seed << 32)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    most = 0xFF if depth == 1 else 0xFFFF
    x &= np.uint64(most)
    if seed & 1:
        x = np.where(x & np.uint64(1), np.uint64(most), np.uint64(0))
    return x.astype(np.uint8 if depth == 1 else np.uint16).reshape(height, width, channels)


class Tool:
    """A running resize_tool."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _ask(self, job, size):
        self.process.stdin.write((job + "\n").encode())
        self.process.stdin.flush()
        answer = self.process.stdout.read(size) if size else self.process.stdout.readline()
        if size and len(answer) != size:
            raise RuntimeError(f"resize_tool gave {len(answer)} of {size} bytes for '{job}'")
        return answer

    def resize(self, mode, width, height, out_width, out_height, channels=3, depth=1, seed=0):
        size = out_width * out_height * channels * depth
        answer = self._ask(f"{mode} {width} {height} {out_width} {out_height} {channels} {depth} {seed}", size)
        dtype = np.uint8 if depth == 1 else np.uint16
        return np.frombuffer(answer, dtype).reshape(out_height, out_width, channels)

    def write(self, width, height, dtype, layout, normalize, hflip=0, depth=1, seed=0):
        """A batch row as raw bytes; numbers as in <stoke/data.h>."""
        size = width * height * 3 * (1, 4, 2, 2)[dtype]
        return self._ask(f"write {width} {height} {dtype} {layout} {normalize} {hflip} {depth} {seed}", size)

    def time_ns(self, width, height, out_width, out_height, channels, repeats):
        return int(self._ask(f"time {width} {height} {out_width} {out_height} {channels} {repeats}", 0))

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


class Tap:
    """Counts and prints test points; each is a sentence."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def ok(self, passed, what):
        self.count += 1
        self.failed += not passed
        print(f"{'ok' if passed else 'not ok'} {self.count} - {what}", flush=True)

    def skip(self, what, why):
        self.count += 1
        print(f"ok {self.count} - {what} # SKIP {why}", flush=True)

    def done(self):
        print(f"1..{self.count}")
        sys.exit(1 if self.failed else 0)
