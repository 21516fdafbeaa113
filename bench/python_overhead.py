#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python costs: stokehold.Loader against `stoke bench data`, same files, same settings, turn by turn.

    PYTHONPATH=build/python bench/python_overhead.py [DIR] [--output torch] [--json]

Two figures: samples per second of both and their ratio (medians over the rounds, with the range), and the microseconds that one
batch spends in Python: the time in next() less the time in which the batch was not ready yet. Each turn is a process of its own;
what importing takes is not counted. Without DIR a synthetic set of 512x512 scenes is made.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def take(settings, seconds, output):
    """One turn of the Python side, in this process: whole epochs until the time is over, after one that is not counted."""
    import stokehold
    loader = stokehold.Loader(output=output, nice=0, **settings)  # as `stoke bench data` has it
    for _ in loader:
        pass
    before = loader.stats()
    samples = batches = 0
    inside = 0.0
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        iteration = iter(loader)
        while True:
            asked = time.perf_counter()
            batch = next(iteration, None)
            inside += time.perf_counter() - asked
            if batch is None:
                break
            samples += len(batch[0])
            batches += 1
    elapsed = time.perf_counter() - begin
    after = loader.stats()
    waited = (after.stages["batch wait"].wall_ms - before.stages["batch wait"].wall_ms) / 1e3
    return {"samples_per_s": samples / elapsed, "us_per_batch": (inside - waited) / batches * 1e6, "batches": batches}


def python_turn(args, settings):
    text = json.dumps({"settings": settings, "seconds": args.seconds, "output": args.output})
    result = subprocess.run([sys.executable, os.path.abspath(__file__), "--turn", text], stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)


def native_turn(args, settings):
    command = [sys.executable, "-m", "stokehold", "bench", "data", "--json", "--rounds", "1", "--seconds", str(2 * args.seconds)]
    for name, value in settings.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(result.stdout)["samples_per_s"]  # half of its time goes to bare decoding


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?")
    parser.add_argument("--size", default="512")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--augment", default="none")
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--output", default="torch", choices=["torch", "numpy", "dlpack"])
    parser.add_argument("--seconds", type=float, default=4, help="of a turn (4)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--turn", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.turn:
        print(json.dumps(take(**json.loads(args.turn))))
        return
    with tempfile.TemporaryDirectory() as folder:
        if not args.data:
            args.data = os.path.join(folder, "set")
            subprocess.run([sys.executable, "-m", "stokehold", "synth", args.data, "--count", "128"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=True)
        settings = {name: getattr(args, name) for name in ("data", "size", "batch", "workers", "augment", "dtype")}
        turns = [(native_turn(args, settings), python_turn(args, settings)) for _ in range(args.rounds)]
    ratios = [python["samples_per_s"] / native for native, python in turns]
    result = {
        "native_samples_per_s": statistics.median(native for native, _ in turns),
        "python_samples_per_s": statistics.median(python["samples_per_s"] for _, python in turns),
        "ratio": statistics.median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios),
        "us_per_batch": statistics.median(python["us_per_batch"] for _, python in turns),
        "output": args.output, "rounds": args.rounds, "seconds": args.seconds, **settings,
    }
    if args.json:
        print(json.dumps(result, indent=2))
        return
    print(f"stoke bench data      {result['native_samples_per_s']:9.1f} samples/s")
    print(f"Loader, {args.output:<13} {result['python_samples_per_s']:9.1f} samples/s")
    print(f"ratio                 {result['ratio']:9.3f} ({result['ratio_low']:.3f} to {result['ratio_high']:.3f})")
    print(f"Python, a batch       {result['us_per_batch']:9.1f} us")


if __name__ == "__main__":
    main()
