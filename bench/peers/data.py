#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stokehold's data path against other loaders: the same files, the same chain, the same output, in one run.

  bench/peers/data.py --setup ~/peers               environments for the peers, by pip (about 8 GB)
  bench/peers/data.py --peers ~/peers               makes the data, measures, prints the table
  bench/peers/data.py --peers ~/peers --source DIR  from real pictures (DIR/images and masks, or CamVid's folders)
  bench/peers/data.py --from r.json --write-doc     docs/peers.md from a run kept with --json

All take turns, round by round, each in a separate process and under a lock, so that no two are timed at once. What is
not installed is left out with a word."""
import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time

import dataset
import report
import roster
import runner

ROOT = os.path.dirname(os.path.dirname(runner.HERE))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", metavar="DIR", help="create the environments in DIR and end")
    parser.add_argument("--torch", metavar="PYTHON", help="with --setup: take torch and torchvision from this Python")
    parser.add_argument("--python", metavar="PYTHON", default=sys.executable,
                        help="with --setup: the Python to make them with (3.11; needs venv, and headers for FFCV)")
    parser.add_argument("--peers", metavar="DIR", default="", help="where --setup made them")
    parser.add_argument("--stoke", metavar="PROGRAM", default=os.path.join(ROOT, "build", "cli", "stoke"))
    parser.add_argument("--package", metavar="DIR", default=os.path.join(ROOT, "build", "python"),
                        help="where the package stokehold lies (default build/python)")
    parser.add_argument("--source", metavar="DIR", help="folder of real pictures; left out, `stoke synth` draws some")
    parser.add_argument("--work", metavar="DIR", default=os.path.join(ROOT, "build", "peers"), help="for the data")
    parser.add_argument("--only", metavar="KEYS", help="comma-separated: " + ", ".join(e.key for e in roster.ENTRANTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="length of a turn (default 4)")
    parser.add_argument("--json", metavar="FILE", help="keep the results; rewritten after every round")
    parser.add_argument("--svg", metavar="FILE", help="write the bar chart")
    parser.add_argument("--from", dest="kept", metavar="FILE", help="measure nothing: take results kept with --json")
    parser.add_argument("--write-doc", action="store_true", help="write docs/peers.md and docs/peers.svg, and the figures of docs/migration.md")
    args = parser.parse_args()
    if args.rounds < 1 or args.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    keys = args.only.split(",") if args.only else [entrant.key for entrant in roster.ENTRANTS]
    unknown = set(keys) - {entrant.key for entrant in roster.ENTRANTS}
    if unknown:
        parser.error("--only: unknown " + ", ".join(sorted(unknown)))
    args.entrants = [entrant for entrant in roster.ENTRANTS if entrant.key in keys]
    args.package = os.path.abspath(args.package)
    args.folder = os.path.abspath(args.work)
    args.environments = os.path.abspath(args.peers) if args.peers else os.devnull
    return args


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        told = [[word.strip() for word in line.split(":", 1)] for line in info if ":" in line]
    names = [value for key, value in told if key == "model name"]
    flags = {word for key, value in told if key == "flags" for word in value.split()}
    memory = os.sysconf("SC_PAGESIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cpu": names[0] if names else platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "memory": f"{memory:.0f} GiB", "system": f"{platform.system()} {platform.release()}",
            "bf16": bool(flags & {"avx512_bf16", "amx_bf16"})}


def stoke_version(program):
    try:
        return subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        sys.exit(f"data.py: cannot run {program}; build first, or give --stoke")


def prepare(args, entries):
    """What must be so before the first timed turn: FFCV's files, a full cache, and that our entrants deliver the same bytes
    wherever they read from."""
    digests = {}
    for entrant, entry in zip(args.entrants, entries):
        try:
            if entrant.kind == "peer":
                runner.prepare_peer(entrant, args)
            elif entrant.kind == "stoke":
                digest = runner.stoke_digest(entrant, args)
                output = " ".join(entrant.arguments[entrant.arguments.index("--dtype"):])
                if digests.setdefault(output, digest) != digest:
                    entry["skipped"] = "delivers other bytes than the folder"
        except runner.Failed as why:
            entry["skipped"] = str(why)


def run_turn(entrant, args, bare):
    """One turn. Bare decoding takes its turns beside our folder entrant where that takes part, else by itself."""
    if entrant.kind in ("peer", "loader"):
        return runner.peer_turn(entrant, args)
    ours, beside = runner.stoke_turn(entrant, args)
    if entrant.kind == "bare":
        return beside
    if entrant.key == report.OURS and bare is not None:
        bare["turns"].append(beside)
    return ours


def run_round(args, entries, number):
    bare = next((entry for entry in entries if entry["kind"] == "bare"), None)
    beside_ours = any(entrant.key == report.OURS for entrant in args.entrants)
    for entrant, entry in zip(args.entrants, entries):
        if "skipped" in entry or (entrant.kind == "bare" and beside_ours):
            continue
        try:
            turn = run_turn(entrant, args, bare)
            entry["turns"].append(turn)
            said = f"{turn['samples_per_s']:.0f} samples/s"
        except runner.Failed as why:
            entry["skipped"] = str(why)
            said = f"left out: {why}"
        print(f"round {number}  {entrant.title}: {said}", file=sys.stderr, flush=True)


def measure(args):
    version = stoke_version(args.stoke)
    origin = dataset.prepare(args.folder, args.source, args.stoke)
    entries = [{"key": e.key, "title": e.title, "kind": e.kind, "group": e.group, "turns": []} for e in args.entrants]
    results = {"command": " ".join(shown_arguments(args)), "set": origin, "rounds": args.rounds, "seconds": args.seconds,
               "machine": machine(), "date": time.strftime("%Y-%m-%d"), "stoke": version,
               "versions": runner.versions(args.environments), "entries": entries}
    prepare(args, entries)
    for number in range(1, args.rounds + 1):
        run_round(args, entries, number)
        if args.json:
            keep(args.json, json.dumps(results, indent=1) + "\n")
    return results


def shown_arguments(args):
    """How to repeat the run, without the paths of this machine."""
    shown = ["--peers", "DIR"] + (["--source", os.path.basename(os.path.normpath(args.source))] if args.source else [])
    return shown + (["--only", args.only] if args.only else []) + ["--rounds", str(args.rounds), "--seconds",
                                                                   f"{args.seconds:g}"]


def keep(path, text):
    with open(path + ".part", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(path + ".part", path)


def fill(path, table):
    """Puts the table between the two marks of a page that is written by hand."""
    with open(path, encoding="utf-8") as stream:
        before, begin, rest = stream.read().partition("<!-- figures: data.py --write-doc -->\n")
    _, end, after = rest.partition("<!-- end of figures -->")
    if not end:
        sys.exit(f"data.py: {path} has no marks for its figures")
    keep(path, before + begin + table + end + after)


def main():
    args = arguments()
    # A polite end: what was started is ended too (runner.run_locked).
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if args.setup:
        return 1 if runner.setup(os.path.abspath(args.setup), args.torch, args.python) else 0
    if args.kept:
        with open(args.kept, encoding="utf-8") as stream:
            results = json.load(stream)
    else:
        results = measure(args)
    print(report.table(results))
    print(report.bars(results))
    if args.svg:
        keep(args.svg, report.svg(results))
    if args.write_doc:
        keep(os.path.join(ROOT, "docs", "peers.svg"), report.svg(results))
        keep(os.path.join(ROOT, "docs", "peers.md"), report.page(results, "peers.svg"))
        fill(os.path.join(ROOT, "docs", "migration.md"), report.migration(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
