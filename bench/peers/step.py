#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A training step (or forward pass) of SegFormer: Stokehold against PyTorch's best forms, in turns, in one run.

  bench/peers/step.py --python ~/torch/bin/python              all cases, fp32 training
  bench/peers/step.py --python ... --cases A,C --precision bf16
  bench/peers/step.py --python ... --forward                   inference; also against onnxruntime and OpenVINO
  bench/peers/step.py --python ... --json train.json           keep the figures
  bench/peers/step.py --from train.json forward.json --write-doc   docs/steps.md and its chart from kept ones

PYTHON needs torch==2.13.0 and transformers; for --forward also onnx, onnxruntime and openvino. PyTorch gets tcmalloc
(libtcmalloc-minimal4) where it is installed: glibc's malloc costs it 20 to 50 %. Every entrant uses two threads, its process
stays alive, and all take turns round by round under a lock, so that no two are timed at once. What cannot run is left out
with a word. "is" compares medians over all steps of all rounds with the fastest form of the same precision."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import data
import live
import runner
import step_report

TRAIN = ["eager", "channels_last", "compile"]
PACKAGES = ["torch", "transformers", "onnxruntime", "openvino", "numpy"]
FORWARD = ["eager", "channels_last", "compile", "onnxruntime", "openvino"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", metavar="PYTHON", default=sys.executable, help="the Python that has the peers")
    parser.add_argument("--stoke", metavar="PROGRAM", default=os.path.join(data.ROOT, "build", "cli", "stoke"))
    parser.add_argument("--cases", default="A,B,C", help="of " + "; ".join(
        f"{key}: {model} {batch}x{size}x{size}, {classes} classes" for key, (model, batch, size, classes) in step_report.CASES.items()))
    parser.add_argument("--precision", default="fp32", help="comma-separated: fp32, bf16")
    parser.add_argument("--forward", action="store_true", help="inference instead of training")
    parser.add_argument("--peers", metavar="NAMES", help="comma-separated, of: " + ", ".join(FORWARD))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="length of a turn (default 4)")
    parser.add_argument("--json", metavar="FILE", help="keep the results; rewritten after every case")
    parser.add_argument("--from", dest="kept", metavar="FILE", nargs="+", help="measure nothing: take kept results")
    parser.add_argument("--write-doc", action="store_true", help="write docs/steps.md and docs/steps.svg")
    args = parser.parse_args()
    args.task = "forward" if args.forward else "step"
    args.names = args.peers.split(",") if args.peers else FORWARD if args.forward else TRAIN
    args.precisions = args.precision.split(",")
    unknown = (set(args.cases.split(",")) - set(step_report.CASES) | set(args.precisions) - {"fp32", "bf16"} |
               set(args.names) - set(FORWARD if args.forward else TRAIN))
    if unknown:
        parser.error(f"no such case, precision or peer of a {args.task}: " + ", ".join(sorted(unknown)))
    if args.rounds < 1 or args.seconds <= 0:
        parser.error("nothing to measure")
    return args


def kilobytes(path, key):
    with open(path, encoding="ascii") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith(key))


def refuse_without_room(entrants):
    """All stay alive through a case: 8x512x512 takes PyTorch 8 GB a form, and three of them met the end of 24."""
    largest = max((kilobytes(f"/proc/{entrant.process.pid}/status", "VmHWM") for entrant in entrants if hasattr(entrant, "process")),
                  default=0)
    available = kilobytes("/proc/meminfo", "MemAvailable")
    if 1.2 * largest > available:
        raise runner.Failed(f"not started: the form before it took {largest / 1e6:.1f} GB, {available / 1e6:.1f} are left")


class Peer(live.Peer):
    """Takes steps when told to."""

    def __init__(self, name, case, precision, args):
        super().__init__(args.python, "step_peer", name, *step_report.CASES[case], args.task, precision, tcmalloc=name in TRAIN)

    def turn(self, seconds):
        return json.loads(self.ask(f"go {seconds}"))


class Stokehold:
    """Started for every turn: it has nothing to warm up but its own first steps."""

    def __init__(self, case, precision, args):
        model, batch, size, classes = map(str, step_report.CASES[case])
        self.command = [args.stoke, "bench", "step", "--model", model, "--batch", batch, "--size", size, "--classes", classes,
                        "--precision", precision, "--threads", "2", "--json", "--quiet"]
        self.command += ["--forward"] if args.forward else []
        self.last = None

    def turn(self, seconds):
        run = subprocess.run(self.command + ["--seconds", str(seconds)], capture_output=True, text=True)
        if run.returncode:
            raise runner.Failed(runner.reason(run.stderr))
        self.last = json.loads(run.stdout)
        return {"ms": [self.last["ms_per_step"], self.last["best_ms_per_step"]], "median": self.last["ms_per_step"],
                "best": self.last["best_ms_per_step"], "peak_rss_bytes": self.last["peak_rss_bytes"]}

    def end(self):
        pass


def locked_turn(entrant, seconds):
    with runner.alone():
        turn = entrant.turn(seconds)
    turn.setdefault("median", statistics.median(turn["ms"]))
    turn.setdefault("best", min(turn["ms"]))
    del turn["ms"]
    return turn


def measure_case(case, precision, args):
    """All entrants of one case in turns. Returns {name: {"turns": [...]} or {"skipped": why}}."""
    entries, entrants = {}, {}
    for name in ["stokehold", *args.names]:
        entries[name] = {"turns": []}
        try:
            refuse_without_room(entrants.values())
            entrants[name] = Stokehold(case, precision, args) if name == "stokehold" else Peer(name, case, precision, args)
        except (runner.Failed, OSError) as why:
            entries[name]["skipped"] = str(why)
    for number in range(1, args.rounds + 1):
        for name, entrant in list(entrants.items()):
            try:
                turn = locked_turn(entrant, args.seconds)
                entries[name]["turns"].append(turn)
                said = f"{1000 * step_report.CASES[case][1] / turn['median']:.2f} img/s"
            except (runner.Failed, OSError, ValueError) as why:
                entries[name]["skipped"], said = str(why), f"left out: {why}"
                entrants.pop(name).end()
            print(f"{case} {precision} {args.task}, round {number}  {name}: {said}", file=sys.stderr, flush=True)
    for entrant in entrants.values():
        entrant.end()
    return entries


def versions(python):
    """Of the peers' packages, as their Python sees them."""
    code = ("import importlib.metadata as m, json, sys\nfound = {'python': sys.version.split()[0]}\n"
            "for name in sys.argv[1:]:\n  try: found[name] = m.version(name)\n"
            "  except m.PackageNotFoundError: pass\nprint(json.dumps(found))")
    answer = subprocess.run([python, "-c", code, *PACKAGES], capture_output=True, text=True)
    return json.loads(answer.stdout) if answer.returncode == 0 else {}


def measure(args):
    results = {"task": args.task, "rounds": args.rounds, "seconds": args.seconds, "machine": data.machine(),
               "date": time.strftime("%Y-%m-%d"), "stoke": data.stoke_version(args.stoke), "versions": versions(args.python),
               "tcmalloc": live.has_tcmalloc(), "parts": []}
    for precision in args.precisions:
        for case in args.cases.split(","):
            entries = measure_case(case, precision, args)
            results["parts"].append({"case": case, "precision": precision, "entries": entries})
            if args.json:
                data.keep(args.json, json.dumps(results, indent=1) + "\n")
    return results


def kept(path):
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


def main():
    args = arguments()
    runs = [kept(path) for path in args.kept] if args.kept else [measure(args)]
    for results in runs:
        machine = results["machine"]
        print(f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}; {results['stoke']}")
        print(step_report.table(results))
        print("\n".join(step_report.verdict(results)))
    if args.write_doc:
        data.keep(os.path.join(data.ROOT, "docs", "steps.svg"), step_report.svg(runs))
        data.keep(os.path.join(data.ROOT, "docs", "steps.md"), step_report.page(runs, "steps.svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
