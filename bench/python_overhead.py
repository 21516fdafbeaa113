#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python costs: stokehold.Loader against `stoke bench data`, same files, same settings, turn by turn.

    PYTHONPATH=build/python bench/python_overhead.py [DIR] [--output torch] [--json]

Three figures: samples per second of both and their ratio (medians over the rounds, with the range; and that of each side's best
turn); processor time of a sample on both sides, which a machine with other guests disturbs less; and the microseconds that one
batch spends in Python: the time in next() less the time in which the batch was not ready yet, and the processor time of the looping
thread, waits and all. What importing takes is not counted. Without DIR a synthetic set of 512x512 scenes is made.

Both sides start a turn alike: with an epoch nobody expected, so that nothing read ahead is given for free. They take turns of a
few seconds and swap who is first, since a virtual machine's speed drifts by a third within a minute.

Both let go of a batch before they ask for the next. A loop that holds it meanwhile (--hold), as training loops do in any language, has
three slots written in turn instead of two: 4 % more processor time a sample (2.92 against 2.80 ms, ten rounds).

Seen on 2 cores of such a machine (AMD EPYC, 512x512 JPEG, augment standard, f32, 2 workers), ratio with its range, us of a batch:

    batch 8     torch 0.980 (0.795 to 1.612)  97 us    17 rounds of 0.8 s
    batch 32    numpy 1.006 (0.847 to 1.112)  85 us    17 rounds of 0.8 s
    batch 8     torch 1.072 (0.883 to 3.141) 100 us    numpy 0.976 (0.883 to 1.191) 72 us    7 rounds of 1 s
    batch 32    torch 0.972 (0.755 to 1.545) 106 us    numpy 0.912 (0.778 to 1.122) 90 us    7 rounds of 1 s

64x64 pictures out of cache_ram, batch 16, held: 0.905 with torch and 24 us, 0.851 with numpy and 16 us; there the looping thread takes a
tenth of both cores.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def read_through(loader):
    """An epoch that is not counted. In a function: a batch left in a variable would keep its slot, one in three, for all turns.

    That made the loader 10 % to 18 % slower than the command, and looked like the price of Python.
    """
    for _ in loader:
        pass


def take(loader, seconds, hold):
    """One turn of the Python side: whole epochs until the time is over."""
    before = loader.stats()
    samples = batches = 0
    inside = 0.0
    begin, process, thread = time.perf_counter(), time.process_time(), time.thread_time()
    loader.set_epoch(loader.epoch + 2)
    while time.perf_counter() - begin < seconds:
        iteration = iter(loader)
        while True:
            asked = time.perf_counter()
            batch = next(iteration, None)
            inside += time.perf_counter() - asked
            if batch is None:
                break
            samples += batch[0].shape[0]
            batches += 1
            if not hold:
                del batch
    elapsed, process, thread = time.perf_counter() - begin, time.process_time() - process, time.thread_time() - thread
    after = loader.stats()
    waited = (after.stages["batch wait"].wall_ms - before.stages["batch wait"].wall_ms) / 1e3
    return {"samples_per_s": samples / elapsed, "cpu_ms": process / samples * 1e3, "us": (inside - waited) / batches * 1e6,
            "cpu_us": thread / batches * 1e6}


def serve(settings, seconds, output, hold):
    """The Python side's process: a turn for every line it gets."""
    import stokehold
    with stokehold.Loader(output=output, nice=0, **settings) as loader:  # as `stoke bench data` has it
        read_through(loader)
        for _ in sys.stdin:
            print(json.dumps(take(loader, seconds, hold)), flush=True)
            time.sleep(0.2)  # until the ring is full: the next turn is another's


class PythonSide:
    """The process that has the loader."""

    def __init__(self, args, settings):
        text = json.dumps({"settings": settings, "seconds": args.seconds, "output": args.output, "hold": args.hold})
        self._process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--serve", text], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)

    def turn(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit("the process with the loader ended early")
        return json.loads(line)

    def end(self):
        self._process.stdin.close()
        self._process.wait()


class NativeSide:
    """The command; each turn is a separate process, which warms up before it measures."""

    def __init__(self, args, settings):
        self._command = [sys.executable, "-m", "stokehold", "bench", "data", "--json", "--rounds", "1", "--samples", "1000000000",
                         "--seconds", str(2 * args.seconds)]  # half of it goes to bare decoding
        for name, value in settings.items():
            self._command += ["--" + name.replace("_", "-"), str(value)]

    def turn(self):
        result = subprocess.run(self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        found = json.loads(result.stdout)
        return {"samples_per_s": found["samples_per_s"], "cpu_ms": found["cpu_ms_per_sample"]}


def measure(args, settings):
    """All rounds, as pairs of (native, Python)."""
    native, python = NativeSide(args, settings), PythonSide(args, settings)
    pairs = []
    for number in range(args.rounds):
        if number % 2:
            late = python.turn()
            pairs.append((native.turn(), late))
        else:
            pairs.append((native.turn(), python.turn()))
    python.end()
    return pairs


def summary(pairs):
    def median(side, name):
        return statistics.median(pair[side][name] for pair in pairs)

    def best(side):
        return max(pair[side]["samples_per_s"] for pair in pairs)

    ratios = [python["samples_per_s"] / native["samples_per_s"] for native, python in pairs]
    return {
        "native_samples_per_s": median(0, "samples_per_s"), "python_samples_per_s": median(1, "samples_per_s"),
        "ratio": statistics.median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios),
        "ratio_of_bests": best(1) / best(0),
        "native_cpu_ms": median(0, "cpu_ms"), "python_cpu_ms": median(1, "cpu_ms"),
        "us_per_batch": median(1, "us"), "cpu_us_per_batch": median(1, "cpu_us"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?")
    parser.add_argument("--size", default="512")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--augment", default="standard")
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--cache-ram", default="0", help="0: none")
    parser.add_argument("--output", default="torch", choices=["torch", "numpy", "dlpack"])
    parser.add_argument("--hold", action="store_true", help="keep a batch until the next one is there, as training loops do")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn (1.5)")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(**json.loads(args.serve))
        return
    with tempfile.TemporaryDirectory() as folder:
        if not args.data:
            args.data = os.path.join(folder, "set")
            subprocess.run([sys.executable, "-m", "stokehold", "synth", args.data, "--count", "128", "--size", args.size],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        settings = {name: getattr(args, name) for name in ("data", "size", "batch", "workers", "augment", "dtype", "cache_ram")}
        result = summary(measure(args, settings))
    if args.json:
        print(json.dumps({**result, "output": args.output, "rounds": args.rounds, "seconds": args.seconds, **settings}, indent=2))
        return
    print(f"stoke bench data      {result['native_samples_per_s']:9.1f} samples/s {result['native_cpu_ms']:8.3f} CPU ms a sample")
    print(f"Loader, {args.output:<13} {result['python_samples_per_s']:9.1f} samples/s {result['python_cpu_ms']:8.3f} CPU ms a sample")
    print(f"ratio                 {result['ratio']:9.3f} ({result['ratio_low']:.3f} to {result['ratio_high']:.3f}); "
          f"of the best turns {result['ratio_of_bests']:.3f}")
    print(f"Python, a batch       {result['us_per_batch']:9.1f} us; the looping thread {result['cpu_us_per_batch']:.1f} us of CPU")


if __name__ == "__main__":
    main()
