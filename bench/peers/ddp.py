#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training in two processes: Stokehold and PyTorch's DistributedDataParallel over Gloo, each against one process with two
threads, in turns, in one run, with the same pictures a step.

  bench/peers/ddp.py --python ~/torch/bin/python                          b0 and b2 on one host
  bench/peers/ddp.py --python ... --cases b0,b0x8 --accumulate 8          b0x8: 8 batches a lane and step
  bench/peers/ddp.py --python ... --hosts 2 --rate 1gbit,200mbit          also over two hosts with such a cable (root)
  bench/peers/ddp.py --python ... --json ddp.json                         keep the figures
  bench/peers/ddp.py --from ddp.json --model model.json --write-doc       docs/scaling.md from kept ones
  bench/peers/ddp.py --short                                              only shows that it works

A step has two lanes of 4 pictures of 256x256 (times 8 in b0x8). PYTHON needs torch and transformers; the Python package of
Stokehold is taken from the build (-Dpython=true). `stoke train` reads its pictures from files, PyTorch has them in memory. Two hosts
are network namespaces (hosts.py) that share this machine's processors: each process has a core and nothing but the cable between it
and the other. `allreduce` takes the steps of `lanes` with the same network and engine, but sums by MPI_Allreduce and updates all
weights everywhere (bench/bench_allreduce.c). What cannot run is left out with a word. Only a quiet machine will do: beside other
programs (`others`: cores that they used) the kernel prefers threads that pause, which those of one process do for each other, and one
process with two threads was four times as fast as two processes."""
import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import data
import ddp_report
import harness
import hosts as two_hosts
import live
import runner
import step
import together

BATCH, SIZE, CLASSES, LANES = 4, 256, 19, 2
STEPS = {"b0": 30, "b2": 8}  # of a turn; with accumulation fewer
SLOWER = 4  # so many times fewer steps of PyTorch take as long
WARM = 2  # steps at the start of a run that do not count
SHORT = {"batch": 1, "size": 64, "steps": 4}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", metavar="PYTHON", default=sys.executable, help="the Python that has torch and transformers")
    parser.add_argument("--stoke", metavar="PROGRAM", default=os.path.join(data.ROOT, "build", "cli", "stoke"))
    parser.add_argument("--cases", default="b0,b2", help="comma-separated: b0, b2, or with batches of a lane: b0x8")
    parser.add_argument("--entrants", default=",".join(ddp_report.TITLES), help="comma-separated (default %(default)s)")
    parser.add_argument("--form", choices=step.TRAIN, default="channels_last", help="PyTorch's; step.py finds the fastest (default %(default)s)")
    parser.add_argument("--hosts", type=int, choices=[1, 2], default=1, help="2: the processes on two hosts as well")
    parser.add_argument("--rate", default="1gbit", help="comma-separated: of the cable between them, each way (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, help=f"of a turn, {WARM} more do not count (default {STEPS}, fewer with accumulation)")
    parser.add_argument("--short", action="store_true", help="small pictures, one round of few steps: shows that it works")
    parser.add_argument("--json", metavar="FILE", help="keep the results; rewritten after every part")
    parser.add_argument("--from", dest="kept", metavar="FILE", nargs="+", help="measure nothing: take kept results")
    parser.add_argument("--model", metavar="FILE", help="of bench/scale_model.py --json: into the page, too")
    parser.add_argument("--write-doc", action="store_true", help="write docs/scaling.md")
    args = parser.parse_args()
    args.stoke, args.names = os.path.abspath(args.stoke), args.entrants.split(",")
    try:
        args.case_list = [case_of(case) for case in args.cases.split(",")]
        args.rates = [rate for rate in args.rate.split(",") if two_hosts.bits_per_second(rate) > 0]
    except ValueError as why:
        parser.error(str(why))
    unknown = set(args.names) - set(ddp_report.TITLES)
    if unknown:
        parser.error("no such entrant: " + ", ".join(sorted(unknown)))
    if args.rounds < 1 or (args.steps is not None and args.steps < 1):
        parser.error("nothing to measure")
    if args.short and args.write_doc:
        parser.error("--short measures nothing that a page should have")
    return settled(args)


def settled(args):
    """What --short makes of the rest."""
    args.batch, args.size = (SHORT["batch"], SHORT["size"]) if args.short else (BATCH, SIZE)
    args.rounds, args.steps = (1, SHORT["steps"]) if args.short else (args.rounds, args.steps)
    if args.short:
        args.case_list, args.rates, args.form = args.case_list[:1], args.rates[:1], "eager"
    return args


def case_of(text):
    """("b0", 8) of b0x8."""
    model, _, accumulate = text.partition("x")
    if model not in STEPS or (accumulate and not accumulate.isdigit()) or accumulate == "0":
        raise ValueError(f"no such case: {text}; b0, b2, or with batches of a lane: b0x8")
    return model, int(accumulate or 1)


def steps_of(case, args):
    model, accumulate = case
    return args.steps or max(4, STEPS[model] // accumulate)


# ---- who takes part ----

class Entrant:
    """Takes turns: {"ms": of each step, ...}."""

    def alive(self):
        """Its processes between turns."""
        return []

    def end(self):
        pass


class Stokehold(Entrant):
    """`stoke train`, started for every turn; the log has its steps."""

    def __init__(self, name, case, args, hosts, work):
        self.name, self.args, self.hosts, self.work = name, args, hosts, work
        self.steps = WARM + steps_of(case, args)
        model, accumulate = case
        self.train = ["train", os.path.join(work, "set"), "--model", model, "--size", args.size, "--batch", args.batch, "--replicas", LANES,
                      "--accumulate", accumulate, "--steps", self.steps, "--threads", 2 if name == "1x2" else 1, "--workers", 1,
                      "--augment", "none", "--precision", "fp32", "--eval-every", 0, "--save-every", 10**6, "--log-every", 1,
                      "--no-tensorboard", "--no-pictures", "--seed", 1, "--runs", work, "--name", "run", "--quiet"]
        why = together.why_no_mpirun(args.stoke) if name == "mpi" else self.why_no_package() if name == "c10d" else None
        if why:
            raise runner.Failed(why)

    def package(self):
        return os.path.join(os.path.dirname(os.path.dirname(self.args.stoke)), "python")

    def why_no_package(self):
        there = subprocess.run([self.args.python, "-c", "import stokehold, torch.distributed as d; assert d.is_available()"],
                               capture_output=True, text=True, env={**os.environ, "PYTHONPATH": self.package()})
        return runner.reason(there.stderr) if there.returncode else None

    def commands(self):
        words = list(map(str, self.train))
        if self.name == "1x2":
            return [([self.args.stoke, *words], {})]
        if self.name == "mpi":
            return [(together.mpirun([self.args.stoke, *words], self.hosts), {})]
        port = together.free_port()
        return [([*(self.hosts.inside(rank) if self.hosts else []), self.args.python, "-m", "stokehold", *words],
                 {"PYTHONPATH": self.package(), **together.torch_variables(rank, 2, port, self.hosts)}) for rank in range(2)]

    def turn(self):
        folder = os.path.join(self.work, "run")
        shutil.rmtree(folder, ignore_errors=True)
        started = together.Started(self.commands())
        started.outputs()
        with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as log:
            lines = [json.loads(line) for line in log]
        ms = [1000 * line["seconds"] for line in lines if line["kind"] == "step"]
        if len(ms) != self.steps:
            raise runner.Failed(f"{len(ms)} steps in the log, not {self.steps}")
        with open(os.path.join(folder, "last", "model.safetensors"), "rb") as weights:
            digest = hashlib.sha256(weights.read()).hexdigest()[:16]
        return {"ms": ms[WARM:], "memory_bytes": started.memory(), "weights": digest}


class Torch(Entrant):
    """One process with two threads and all pictures at once, or two with one thread each; alive through a part."""

    def __init__(self, name, case, args, hosts, _work):
        model, accumulate = case
        self.steps = -(-steps_of(case, args) // SLOWER)
        world = 1 if name == "torch" else LANES
        words = [args.form, model, args.batch * LANES // world, args.size, CLASSES, accumulate]
        port, self.others = together.free_port(), []
        calls = [{"threads": 2 // world, "inside": hosts.inside(rank) if hosts and world > 1 else (),
                  **together.torch_variables(rank, world, port, hosts if world > 1 else None)} for rank in range(world)]
        for call in calls[1:]:
            command, variables = live.peer_call(args.python, "ddp_peer", *words, **call)
            self.others.append(subprocess.Popen(command, cwd=runner.HERE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                stderr=subprocess.DEVNULL, env={**os.environ, **variables}))
        try:
            self.first = live.Peer(args.python, "ddp_peer", *words, **calls[0])
        except BaseException:
            self.end()
            raise

    def turn(self):
        turn = json.loads(self.first.ask(f"go {self.steps}"))
        return {**turn, "memory_bytes": sum(map(together.highest_resident, self.alive()))}

    def alive(self):
        return [self.first.process.pid, *(other.pid for other in self.others)]

    def end(self):
        if hasattr(self, "first"):
            self.first.end()
        for other in self.others:
            other.kill()
            other.wait()


class Yardstick(Entrant):
    """Two entrants in one program: it takes turns by itself, and each of them has every second answer."""

    kept = {}  # what the other one has not taken yet

    def __init__(self, name, case, args, hosts, _work):
        model, accumulate = case
        program = os.path.join(os.path.dirname(os.path.dirname(args.stoke)), "bench", "bench_allreduce")
        why = together.why_no_mpirun(args.stoke) or (None if os.path.exists(program) else "bench_allreduce is not built")
        if why:
            raise runner.Failed(why)
        self.name, self.hosts = name, hosts
        self.command = list(map(str, [program, model, args.batch, args.size, CLASSES, accumulate, 1, steps_of(case, args)]))

    def turn(self):
        if self.name not in self.kept:
            started = together.Started([(together.mpirun(self.command, self.hosts), {})])
            answer = json.loads(started.outputs()[0])
            self.kept.update({name: {"ms": answer[f"{name}_ms"], "rest_ms": answer[f"{name}_rest_ms"]} for name in ("lanes", "allreduce")})
        return self.kept.pop(self.name)

    def end(self):
        self.kept.clear()


KINDS = {"1x2": Stokehold, "mpi": Stokehold, "c10d": Stokehold, "torch": Torch, "ddp": Torch, "lanes": Yardstick, "allreduce": Yardstick}


# ---- turns ----

def locked_turn(entrant):
    """With the cores that other programs used meanwhile."""
    with runner.alone():
        start, busy, own = time.monotonic(), runner.busy_seconds(), own_seconds(entrant)
        turn = entrant.turn()
        others = (runner.busy_seconds() - busy - (own_seconds(entrant) - own)) / (time.monotonic() - start)
    return {**turn, "median": statistics.median(turn["ms"]), "best": min(turn["ms"]), "others": max(0.0, others)}


def own_seconds(entrant):
    """Processor time of what has ended, and of what stays alive."""
    return runner.children_seconds() + sum(map(harness.cpu_seconds, entrant.alive()))


def measure_part(case, where, args, hosts, work):
    """All entrants of a case in turns. {name: {"turns": [...], "skipped": why}}."""
    entries, entrants = {name: {"turns": []} for name in args.names}, {}
    title = ddp_report.case_title(case)
    try:
        for name in args.names:
            try:
                entrants[name] = KINDS[name](name, case, args, hosts, work)
            except (runner.Failed, OSError) as why:
                entries[name]["skipped"] = str(why)
                print(f"{title}, {where}  {name}: left out: {why}", file=sys.stderr, flush=True)
        for number in range(1, args.rounds + 1):
            for name, entrant in list(entrants.items()):
                try:
                    turn = locked_turn(entrant)
                    entries[name]["turns"].append(turn)
                    said = f"{turn['median']:.0f} ms a step"
                except (runner.Failed, OSError, ValueError) as why:
                    entries[name]["failed"] = entries[name]["skipped"] = str(why)
                    said = f"left out from here: {why}"
                    entrants.pop(name).end()
                print(f"{title}, {where}, round {number}  {name}: {said}", file=sys.stderr, flush=True)
    finally:
        for entrant in entrants.values():
            entrant.end()
    return entries


def make_set(args, work):
    folder = os.path.join(work, "set")
    if not os.path.isdir(folder):
        subprocess.run([args.stoke, "synth", folder, "--count", "64", "--size", f"{args.size}x{args.size}", "--classes", str(CLASSES),
                        "--seed", "1", "--quiet"], check=True, stdout=subprocess.DEVNULL)


def end_politely():
    """Namespaces and processes go, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@contextlib.contextmanager
def workplace(args):
    """A folder with the set, for what runs write; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="stoke-ddp-") as work:
        make_set(args, work)
        yield work


def places(args, hosts):
    """Where the processes are: (name, hosts or None)."""
    yield ddp_report.ONE_HOST, None
    for rate in args.rates if hosts else []:
        hosts.limit(rate)
        yield rate, hosts


def measure(args):
    results = {"rounds": args.rounds, "machine": data.machine(), "date": time.strftime("%Y-%m-%d"), "form": args.form, "parts": [],
               "stoke": data.stoke_version(args.stoke), "versions": step.versions(args.python), "tcmalloc": live.has_tcmalloc(),
               "pictures": LANES * args.batch, "size": args.size}
    with contextlib.ExitStack() as stack:
        hosts = None
        try:
            hosts = stack.enter_context(two_hosts.two(args.hosts == 2))
        except two_hosts.Unable as why:
            results["no_hosts"] = str(why)
            print(f"two hosts: left out: {why}", file=sys.stderr)
        work = stack.enter_context(workplace(args))
        for where, there in places(args, hosts):
            for case in args.case_list:
                entries = measure_part(case, where, args, there, work)
                results["parts"].append({"model": case[0], "accumulate": case[1], "where": where, "entries": entries})
                if args.json:
                    data.keep(args.json, json.dumps(results, indent=1) + "\n")
    return results


def main():
    args = arguments()
    end_politely()
    runs = [step.kept(path) for path in args.kept] if args.kept else [measure(args)]
    for results in runs:
        print(ddp_report.table(results))
        print("\n".join(ddp_report.verdict(results)))
    if args.write_doc:
        model = step.kept(args.model) if args.model else None
        if model and "table" not in model:
            sys.exit(f"ddp.py: {args.model}: its predictions did not hold, so it has no table for the page")
        data.keep(os.path.join(data.ROOT, "docs", "scaling.md"), ddp_report.page(runs, model))
    # What began must end well, and our own entrants must not differ in a bit.
    parts = [part for results in runs for part in results["parts"]]
    return 1 if any(ddp_report.differ(part) or any("failed" in entry for entry in part["entries"].values()) for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
