# SPDX-License-Identifier: Apache-2.0
"""A run's folder as `stoke train` leaves it, made up: for tests of what reads it. `made_up_run.py FOLDER` makes one."""
import json
import math
import os
import random
import sys

NAMES = ['sky', 'building', 'pole', 'road', 'pavement', 'tree', 'sign', 'fence', 'car', 'pedestrian', 'cyclist', None]


def matrix(n, right, rng):
    """Counts of n classes of which the share `right` is on the diagonal."""
    rows = []
    for i in range(n):
        pixels = int(10 ** rng.uniform(4, 6.5))
        wrong = [rng.random() ** 4 for _ in range(n)]
        wrong[i] = 0
        total = sum(wrong) or 1
        keep = min(0.99, max(0.02, right + rng.uniform(-0.25, 0.12)))
        row = [int(pixels * (1 - keep) * w / total) for w in wrong]
        row[i] = int(pixels * keep)
        rows.append(row)
    return rows


def scores(rows):
    n = len(rows)
    truth = [sum(row) for row in rows]
    said = [sum(row[i] for row in rows) for i in range(n)]
    iou = [rows[i][i] / (truth[i] + said[i] - rows[i][i]) for i in range(n)]
    f1 = [2 * rows[i][i] / (truth[i] + said[i]) for i in range(n)]
    accuracy = sum(rows[i][i] for i in range(n)) / sum(truth)
    return iou, f1, accuracy


def lines(steps=900, every=10, evals=10, classes=12, val=101, ended=True, names=None, seed=5):
    """The lines of log.jsonl as objects."""
    rng = random.Random(seed)
    names = names if names is not None else (NAMES + [None] * classes)[:classes]
    out = [dict(kind='start', step=0, t=0, time='2026-11-16T10:00:00Z', version='0.1.0', model='b0', parameters=3716457,
                classes=classes, names=names, size=[256, 256], batch=4, accumulate=1, steps=steps, epochs=10,
                steps_per_epoch=max(1, steps // 10), train_samples=367, val_samples=val, precision='fp32', threads=2,
                cpu='avx2', machine='AMD EPYC 7R13', cores=2, data='camvid', metric='miou', resumed=False)]
    t, best = 1.2, -1
    for step in range(every, steps + 1, every):
        x = step / steps
        seconds = every * (0.31 + rng.uniform(-0.01, 0.02)) + (1.5 if rng.random() < 0.03 else 0)
        waited = seconds * (0.02 + 0.5 * (rng.random() < 0.03))
        t += seconds
        out.append(dict(kind='step', step=step, epoch=int(10 * x), t=round(t, 3),
                        loss=0.25 + 2.2 * math.exp(-5 * x) + rng.gauss(0, 0.09 + 0.1 * math.exp(-4 * x)),
                        lr=min(1, step / 50) * 6e-4 * (1 - x) ** 0.9, gradient_norm=abs(rng.gauss(1.5, 0.6)), loss_scale=1,
                        skipped=0, images=4 * every, seconds=seconds, data_seconds=waited))
        if val and evals and step % max(every, steps // evals) == 0:
            rows = matrix(classes, 0.9 - 0.75 * math.exp(-4 * x) + rng.uniform(-0.03, 0.03), rng)
            iou, f1, accuracy = scores(rows)
            miou = sum(iou) / classes
            t += 4.1
            out.append(dict(kind='eval', step=step, epoch=int(10 * x), t=round(t, 3),
                            loss=0.42 + 1.7 * math.exp(-4.5 * x) + 0.1 * x, miou=miou, f1_macro=sum(f1) / classes,
                            f1_micro=accuracy, precision=0.8, recall=0.8, pixel_accuracy=accuracy, iou=iou, f1=f1,
                            best=miou > best, average=False, samples=val, seconds=4.0, data_seconds=0.2,
                            picture=f'predictions/{step:06d}.png', confusion=rows if classes <= 64 else None,
                            worst=[dict(name=f'0016E5_0{7959 + 30 * k}', miou=0.21 + 0.03 * k, accuracy=0.5 + 0.03 * k)
                                   for k in range(8)]))
            best = max(best, miou)
            t += 0.3
            out.append(dict(kind='save', step=step, t=round(t, 3), seconds=0.28, bytes=59500000))
    if ended:
        out.append(dict(kind='end', step=steps, t=round(t + 1, 3), why='all steps done'))
    return out


def write(folder, objects, config='model: b0\n# a comment\nlr: 0.0006\nschedule: poly\n'):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'log.jsonl'), 'w', encoding='utf-8') as out:
        out.writelines(json.dumps(o) + '\n' for o in objects)
    if config is not None:
        with open(os.path.join(folder, 'config.yaml'), 'w', encoding='utf-8') as out:
            out.write(config)


if __name__ == '__main__':
    write(sys.argv[1], lines())
