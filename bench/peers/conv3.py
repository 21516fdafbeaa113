#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training pass (forward and both gradients) of a residual network of 3x3 convolutions: bench_conv3 against PyTorch's forms,
in turns, in one run.

  bench/peers/conv3.py --python ~/torch/bin/python                            all cases
  bench/peers/conv3.py --python ... --cases 32x128 --precision bf16           channels x size of the pictures
  bench/peers/conv3.py --python ... --json conv3.json                         keep the figures

PYTHON needs torch==2.13.0; it gets tcmalloc (libtcmalloc-minimal4) where that is installed. The network: 3 -> c, four blocks of
conv, ReLU, conv, times 0.1, plus what came in; c -> 3. Every entrant has two threads, its process stays alive, and all take
turns round by round under a lock. "is" compares medians over all passes with each form; in brackets the time of the processors,
which programs beside it lengthen less. The peak is that of multiply-adds in fp32 (`stoke bench net`), the operations those that
the taps have."""
import argparse
import json
import os
import statistics
import sys
import time

import data
import live
import runner

PEERS = ["eager", "channels_last", "compile", "channels_last_compile"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", metavar="PYTHON", default=sys.executable, help="the Python that has torch")
    parser.add_argument("--program", metavar="FILE", default=os.path.join(data.ROOT, "build", "bench", "bench_conv3"))
    parser.add_argument("--cases", default="32x128,32x192,96x128,96x192", help="comma-separated: channels x size (default %(default)s)")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--precision", default="fp32,bf16", help="comma-separated: fp32, bf16 (default both)")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="length of a turn (default 4)")
    parser.add_argument("--json", metavar="FILE", help="keep the results; rewritten after every case")
    args = parser.parse_args()
    unknown = set(args.peers.split(",")) - set(PEERS) | set(args.precision.split(",")) - {"fp32", "bf16"}
    if unknown:
        parser.error("no such peer or precision: " + ", ".join(sorted(unknown)))
    if args.rounds < 1 or args.seconds <= 0:
        parser.error("nothing to measure")
    return args


def locked_turn(entrant, seconds):
    with runner.alone():
        return json.loads(entrant.ask(f"go {seconds}"))


def measure_case(case, precision, args):
    """{name: [turns]}, or {name: why it is left out}."""
    words = [*case.split("x"), str(args.batch), precision]
    entries, entrants = {}, {}
    for name in ["stokehold", *args.peers.split(",")]:
        try:
            entrants[name] = (live.Program([os.path.abspath(args.program), "--turns", *words]) if name == "stokehold" else
                              live.Peer(args.python, "conv3_peer", name, *words))
            entries[name] = []
        except (runner.Failed, OSError) as why:
            entries[name] = str(why)
    for number in range(1, args.rounds + 1):
        for name, entrant in list(entrants.items()):
            try:
                turn = locked_turn(entrant, args.seconds)
                entries[name].append(turn)
                said = f"{statistics.median(turn['ms']):.0f} ms"
            except (runner.Failed, OSError, ValueError) as why:
                entries[name], said = str(why), f"left out: {why}"
                entrants.pop(name).end()
            print(f"{case} {precision}, round {number}  {name}: {said}", file=sys.stderr, flush=True)
    for entrant in entrants.values():
        entrant.end()
    return entries


def median(turns):
    return statistics.median(ms for turn in turns for ms in turn["ms"])


def processors(turns):
    return min(turn["processor_ms"] for turn in turns)


def table(part):
    """Who, median, of the processors, how much faster Stokehold is."""
    ours = part["entries"]["stokehold"]
    for name, turns in part["entries"].items():
        if isinstance(turns, str):
            yield f"  {name:22} {turns}"
            continue
        line = f"  {name:22} {median(turns):8.1f} ms  {processors(turns):8.1f} ms of the processors"
        if name == "stokehold":
            rate = turns[0]["gflop"] / median(turns) * 1000
            line += f"  {rate:.0f} GFLOP/s, {rate / max(turn['peak_gflops'] for turn in turns):.2f} of the peak"
        elif not isinstance(ours, str):
            line += f"  Stokehold is {median(turns) / median(ours):.2f}x ({processors(turns) / processors(ours):.2f}x)"
        yield line


def main():
    args = arguments()
    results = {"batch": args.batch, "rounds": args.rounds, "seconds": args.seconds, "machine": data.machine(),
               "date": time.strftime("%Y-%m-%d"), "parts": []}
    for precision in args.precision.split(","):
        for case in args.cases.split(","):
            part = {"case": case, "precision": precision, "entries": measure_case(case, precision, args)}
            results["parts"].append(part)
            print(f"{case} {precision}, batch {args.batch}")
            print("\n".join(table(part)), flush=True)
            if args.json:
                data.keep(args.json, json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
