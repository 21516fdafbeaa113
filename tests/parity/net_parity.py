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
    """Biases with a gradient of exactly 0: what is computed for them is rounding, and AdamW would make of that steps of full
    size, so they are held to being small instead.
    - linear_c: a constant per channel of the fused map; the batch norm that follows takes the mean away.
    - encoder.layer_norm.3: its only way out is linear_c.3, which makes the same of it.
    - key: adds q.b to all scores of a query q, and the softmax does not see what is added to all."""
    return any(part in name for part in ("linear_c.", ".self.key.", "encoder.layer_norm.3.")) and name.endswith(".bias")


def paper_rule(name):
    """The paper's groups by (old) name: factor of the rate, weight decay. Ten times the rate for the head, no decay for
    norms."""
    return 10.0 if name.startswith("decode_head.") else 1.0, 0.0 if "norm" in name else 0.01


def groups_wrong(ours, lr):
    """Rate and decay of every tensor, read off one step: AdamW's first is w - a g / (|g| + eps) - b w, with a the rate and b
    the rate times the decay. Fitted per tensor and held against the paper's rule: what differs, and how many are in each
    group."""
    wrong, groups = [], {}
    for key in (key for key in ours if key.startswith("weight:")):
        name = key[7:]
        w, g = ours["start:" + name].astype(np.float64), ours["gradient:" + name].astype(np.float64)
        (a, b), *_ = np.linalg.lstsq(np.stack([g / (np.abs(g) + 1e-8), w], 1), w - ours[key], rcond=None)
        factor, decay = paper_rule(name)
        groups[factor, decay] = groups.get((factor, decay), 0) + 1
        if (g.any() and abs(a / (lr * factor) - 1) > 1e-3) or abs(b / (lr * factor) - decay) > 1e-4:
            wrong.append(f"{name}: rate {a:.3g}, decay {b / (lr * factor):.3g}")
    return wrong, ", ".join(f"{count} with rate x{factor:g} and decay {decay:g}" for (factor, decay), count in groups.items())


# The recorded cases: weights from the network's own initialiser, widened, and a batch from a formula, so that little is stored.
# The seeds are those of 1 to 12 that keep the ReLU's inputs farthest from 0 (make_net_fixtures.py --seeds).
RECORDED = {
    "5 classes, 64x64": dict(model="b0", classes=5, size="64x64", batch=1, seed=6, steps=10, lr=LR, widen=1),
    "19 classes, 2 x 45x70": dict(model="b0", classes=19, size="45x70", batch=2, seed=7, steps=10, lr=LR, widen=1),
    "1 class, 32x64": dict(model="b0", classes=1, size="32x64", batch=1, seed=2, steps=10, lr=LR, widen=1),
}


def recorded_batch(case):
    height, width = (int(side) for side in case["size"].split("x"))
    rows, classes = height * case["batch"], max(case["classes"], 2)
    noise = parity.make_input(width, rows, 3, 1, 2).astype(np.float32).reshape(case["batch"], height, width, 3)
    images = ((noise - 127.5) / 64).transpose(0, 3, 1, 2)
    masks = parity.make_input(width, rows, 1, 1, 4).reshape(case["batch"], height, width).astype(int) * classes // 256
    masks[:, ::7, ::5] = 255
    return np.ascontiguousarray(images), np.ascontiguousarray(masks.astype(np.uint8))


def summary(gradient):
    """Norm, and a sum with weights that change from element to element, so that a permutation shows."""
    g = gradient.astype(np.float64)
    weights = (np.arange(g.size) * 7919 % 17 - 8.0)
    return float(np.linalg.norm(g)), float(g @ weights)
