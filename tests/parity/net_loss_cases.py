# SPDX-License-Identifier: Apache-2.0
"""Shared by the parity scripts of losses and updates: cases, their inputs by formula, net_loss_tool as a partner, and the
comparison."""
import dataclasses

import numpy as np

import parity

CE, DICE, CE_DICE, FOCAL = range(4)
KINDS = ("cross-entropy", "dice", "cross-entropy + dice", "focal")
IGNORE = 255


@dataclasses.dataclass(frozen=True)
class LossCase:
    shape: tuple  # batch, classes, height and width of the logits, height and width of the masks
    kind: int
    smoothing: float = 0.0
    dice_smooth: float = 0.0
    gamma: float = 2.0
    weighted: bool = False
    ignored: bool = False
    mixed: float = 1.0  # lambda; 1: one mask

    def job(self):
        shape = " ".join(str(size) for size in self.shape)
        return (f"loss {shape} {self.kind} {self.smoothing!r} {self.dice_smooth!r} {self.gamma!r} {IGNORE} "
                f"{int(self.weighted)} {self.mixed!r}")

    def key(self):
        """The job, and what of its inputs it does not say."""
        return self.job() + " ignored" * self.ignored

    def title(self):
        _, classes, height, width, out_height, out_width = self.shape
        extras = [word for word, used in (("weights", self.weighted), ("smoothing", self.smoothing),
                                          ("ignore", self.ignored), ("two masks", self.mixed < 1)) if used]
        sizes = f"{classes} class{'es' * (classes > 1)}, {height}x{width} to {out_height}x{out_width}"
        return ", ".join([KINDS[self.kind], sizes] + extras)


@dataclasses.dataclass(frozen=True)
class UpdateCase:
    kind: str
    decay: float = 0.05
    momentum: float = 0.9
    nesterov: bool = False
    count: int = 1003
    steps: int = 10

    def job(self):
        return (f"{self.kind} {self.count} {self.steps} 0.003 {self.momentum!r} 0.98 1e-08 {self.decay!r} "
                f"{int(self.nesterov)} 0.9")

    def key(self):
        return self.job()

    def title(self):
        return (f"{self.kind}, {self.steps} steps, weight decay {self.decay:g}, "
                f"{'beta1' if self.kind == 'adamw' else 'momentum'} {self.momentum:g}{', nesterov' * self.nesterov}")


SMALL, ODD, MANY = (2, 3, 8, 6, 32, 24), (2, 19, 13, 9, 50, 37), (1, 150, 8, 8, 32, 32)
ONE, SHRUNK = (2, 1, 8, 6, 32, 24), (1, 4, 20, 30, 13, 11)
LOSSES = [LossCase(shape, kind) for kind in range(4) for shape in (SMALL, ODD, MANY, ONE, SHRUNK)]
LOSSES += [LossCase(shape, kind, ignored=True) for kind in range(4) for shape in (ODD, ONE)]
LOSSES += [LossCase(shape, kind, weighted=True, ignored=True) for kind in (CE, FOCAL) for shape in (ODD, ONE)]
LOSSES += [LossCase(shape, CE, smoothing=0.1, weighted=weighted, ignored=True)
           for shape in (SMALL, ODD, ONE) for weighted in (False, True)]
LOSSES += [LossCase(shape, kind, ignored=True, mixed=0.3) for kind in range(4) for shape in (SMALL, ONE)]
LOSSES += [LossCase(ODD, DICE, dice_smooth=1.0), LossCase(ODD, FOCAL, gamma=0.5), LossCase(ODD, FOCAL, gamma=0.0),
           LossCase(SMALL, CE_DICE, smoothing=0.1, weighted=True, ignored=True, mixed=0.7)]
UPDATES = [UpdateCase("adamw"), UpdateCase("adamw", decay=0.0), UpdateCase("sgd"), UpdateCase("sgd", nesterov=True),
           UpdateCase("sgd", momentum=0.0), UpdateCase("sgd", decay=0.0)]


def bits(count, seed):
    """Splitmix64's finaliser of the index, as parity.make_input."""
    x = np.arange(count, dtype=np.uint64) + np.uint64(seed << 32)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def noise(shape, seed, size):
    """-size .. size as float32, exact in 24 bits before the factor."""
    unit = (bits(int(np.prod(shape)), seed) >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1
    return (unit * size).astype(np.float32).reshape(shape)


def masks(case, seed):
    batch, classes, _, _, height, width = case.shape
    draw = bits(batch * height * width, seed)
    labels = (draw % np.uint64(max(classes, 2))).astype(np.int64)
    if case.ignored:
        labels[(draw >> np.uint64(32)) % np.uint64(5) == 0] = IGNORE
    return labels.reshape(batch, height, width)


def loss_inputs(case):
    """Logits [batch, height, width, classes], masks, weights or None, second masks or None."""
    batch, classes, height, width = case.shape[:4]
    logits = noise((batch, height, width, classes), 1, 4.0)
    weights = (0.4 + 0.3 * (np.arange(classes) % 4)).astype(np.float32) if case.weighted else None
    return logits, masks(case, 2), weights, masks(case, 3) if case.mixed < 1 else None


def update_inputs(case):
    return noise((case.count,), 4, 1.0), noise((case.steps, case.count), 5, 0.1)


class LossTool(parity.Partner):
    """A running net_loss_tool."""

    def loss(self, case):
        """The loss and d loss / d logits."""
        arrays = [array for array in loss_inputs(case) if array is not None]
        size = 8 + arrays[0].nbytes
        answer = self._ask(case.job(), size, b"".join(array.tobytes() for array in arrays))
        return np.frombuffer(answer, np.float64, 1)[0], np.frombuffer(answer, np.float32, offset=8)

    def update(self, case):
        """Values and their average after all steps."""
        answer = self._ask(case.job(), 8 * case.count, b"".join(array.tobytes() for array in update_inputs(case)))
        return np.frombuffer(answer, np.float32).reshape(2, case.count)


def distance(ours, theirs):
    """Of two vectors, relative to the second."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    return np.linalg.norm(ours - theirs) / max(np.linalg.norm(theirs), 1e-30)


# What ours, in float32, may differ from theirs in float64.
LOSS_TOLERANCE, GRADIENT_TOLERANCE, UPDATE_TOLERANCE = 1e-6, 3e-6, 1e-6
