# SPDX-License-Identifier: Apache-2.0
"""Shared by the scripts that compare the network: net_tool as a partner, distances, and the recorded case."""
import subprocess

import numpy as np

import parity

LR = 6e-5


def run_tool(tool, batches, **settings):
    job = [tool] + [f"{key}={value}" for key, value in settings.items()]
    stdin = b"".join(images.tobytes() + masks.tobytes() for images, masks in batches)
    done = subprocess.run(job, input=stdin, stdout=subprocess.PIPE, check=True)
    arrays, at, answer = {}, 0, done.stdout
    while at < len(answer):
        end = answer.index(b"\n", at)
        name, count = answer[at:end].decode().rsplit(" ", 1)
        at = end + 1 + 4 * int(count)
        arrays[name] = np.frombuffer(answer, np.float32, int(count), end + 1)
    return arrays


def distance(ours, theirs):
    return float(np.linalg.norm(ours.astype(np.float64) - theirs) / max(np.linalg.norm(theirs.astype(np.float64)), 1e-30))


def dead(name):
    """Biases whose gradient is 0, so that what is computed for them is rounding: those before the batch norm, which takes
    the mean away (the last stage's norm leads nowhere else), and those of keys, which add the same to all scores of a
    query."""
    return any(part in name for part in ("linear_c.", ".self.key.", "encoder.layer_norm.3.")) and name.endswith(".bias")


# The recorded case: weights from the network's own initialiser, a batch from a formula, so that little is stored.
RECORDED = dict(model="b0", classes=5, size="64x64", batch=1, seed=1, steps=10, lr=LR)


def recorded_batch():
    noise = parity.make_input(64, 64, 3, 1, 2).astype(np.float32)
    images = ((noise - 127.5) / 64).transpose(2, 0, 1)[None]
    masks = parity.make_input(64, 64, 1, 1, 4)[None, :, :, 0] // 52
    masks[:, ::7, ::5] = 255
    return np.ascontiguousarray(images), np.ascontiguousarray(masks)


def summary(gradient):
    """Norm, and a sum with weights that change from element to element, so that a permutation shows."""
    g = gradient.astype(np.float64)
    weights = (np.arange(g.size) * 7919 % 17 - 8.0)
    return float(np.linalg.norm(g)), float(g @ weights)
