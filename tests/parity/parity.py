# SPDX-License-Identifier: Apache-2.0
"""Shared by the parity scripts: the C tools as partners, the input formula, TAP lines."""
import importlib.util
import os
import subprocess
import sys

import numpy as np

# Packages that scripts/test fetched; behind Debian's, which torch belongs to.
if "STOKE_TEST_PYTHON" in os.environ:
    sys.path.append(os.environ["STOKE_TEST_PYTHON"])


def need(*packages):
    """Which of these packages is not installed; None: all are. Where one is missing, STOKE_TORCH_PYTHON may name an
    interpreter that has them, which then runs the script instead."""
    missing = next((package for package in packages if importlib.util.find_spec(package) is None), None)
    other = os.environ.get("STOKE_TORCH_PYTHON")
    if missing and other and "STOKE_TORCH_PYTHON_TRIED" not in os.environ:
        os.environ["STOKE_TORCH_PYTHON_TRIED"] = "1"
        os.execv(other, [other] + sys.argv)
    return missing


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


def places(size, count=12):
    """Where recorded results are looked at: spread over all rows, columns and channels (7919 is prime)."""
    return [(index * 7919 + 101) % size for index in range(count)]


class Partner:
    """A running tool: a job is a line, the answer bytes of known size or a line."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _ask(self, job, size, pixels=b""):
        self.process.stdin.write((job + "\n").encode() + pixels)
        self.process.stdin.flush()
        answer = self.process.stdout.read(size) if size else self.process.stdout.readline()
        if not answer or (size and len(answer) != size):
            raise RuntimeError(f"the tool gave {len(answer)} of {size or 'some'} bytes for '{job}'")
        return answer

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


class Tool(Partner):
    """A running resize_tool."""

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


class AugmentTool(Partner):
    """A running augment_tool. Sizes are (width, height)."""

    def draw(self, spec, size, out, position=0):
        """The plan, as the tool's line."""
        return self._ask(f"draw {spec} {size[0]} {size[1]} {out[0]} {out[1]} 11 0 {position}", 0).decode().rstrip("\n")

    def run(self, image, labels, out, plan, normalize=0):
        """Carries a plan out: CHW floats, and labels."""
        height, width = labels.shape
        depth, samples = image.itemsize, out[0] * out[1]
        answer = self._ask(f"run {width} {height} {out[0]} {out[1]} {depth} {normalize} {plan}", samples * 13,
                           image.tobytes() + labels.tobytes())
        floats = np.frombuffer(answer, np.float32, samples * 3).reshape(3, out[1], out[0])
        return floats, np.frombuffer(answer, np.uint8, samples, samples * 12).reshape(out[1], out[0])

    def field(self, out, alpha, step, key):
        """Elastic displacement in pixels, HW2, x first."""
        answer = self._ask(f"field {out[0]} {out[1]} {alpha!r} {step!r} {key}", out[0] * out[1] * 8)
        return np.frombuffer(answer, np.int32).reshape(out[1], 2, out[0]).transpose(0, 2, 1) / 65536


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
