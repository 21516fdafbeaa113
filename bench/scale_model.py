#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast many processes would train, from the parts of a step and the cost of messages; proven on two hosts first.

  bench/scale_model.py                                            b0 and b2, 1 and 8 batches a lane, 1 Gbit/s and 200 Mbit/s (root)
  bench/scale_model.py --overlap none                             as if nothing were sent while it computes
  bench/scale_model.py --cases b0 --rate 1gbit --rounds 5 --json model.json
  bench/scale_model.py --short                                    only shows that it works

Measured, in turns: the parts of a step (`stoke bench step`, two at once with a thread each, as the two processes have it), messages
between two network namespaces with a cable of each rate (`stoke bench comm`), and training over them, which is what is predicted. Where
every prediction is within 15 % of what was measured, a table for 8 to 4096 processes of this machine's cores follows, which is
modelled; else the exit status is 1 and there is none.

The model: a step is its batches, the slowest of W processes counting (1 + cv sqrt(2 ln W), for the spread cv of a step), the exchange
of the gradients, the update of a share, the gather of the weights, and three short waits. --overlap says what of exchange and gather is
hidden: `exchange` leaves in pieces while the backward pass of the last batch goes on, with `both` the weights also come while the next
forward pass does. Then the processor time of sending is added to the steps."""
import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
sys.dont_write_bytecode = True
import data  # noqa: E402
import ddp  # noqa: E402
import ddp_report  # noqa: E402
import hosts as two_hosts  # noqa: E402
import runner  # noqa: E402
import together  # noqa: E402

LIMIT = 0.15
COUNTS = [8, 64, 512, 4096]
TABLE_RATES = ["1gbit", "10gbit", "25gbit"]
QUARTILE = 0.674  # of a normal distribution's deviations
WAITS = 3  # of a step: what all agree on, losses, squares of the gradients
# Gradients leave in pieces of so many bytes, and at least in so many (src/comm/reduce.c).
PIECE, PIECES = 8 << 20, 6


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoke", metavar="PROGRAM", default=os.path.join(data.ROOT, "build", "cli", "stoke"))
    parser.add_argument("--cases", default="b0,b0x8,b2,b2x8", help="comma-separated, as ddp.py takes them (default %(default)s)")
    parser.add_argument("--rate", default="1gbit,200mbit", help="comma-separated: of the cable (default %(default)s)")
    parser.add_argument("--overlap", choices=["none", "exchange", "both"], default="both", help="what of sending is hidden: a build hides both (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of measuring the parts of a step, each time (default 5)")
    parser.add_argument("--short", action="store_true", help="small pictures, one round: shows that it works; errors are not judged")
    parser.add_argument("--json", metavar="FILE", help="keep what was found, for ddp.py --model")
    args = parser.parse_args()
    args.stoke = os.path.abspath(args.stoke)
    try:
        args.case_list = [ddp.case_of(case) for case in args.cases.split(",")]
        args.rates = [rate for rate in args.rate.split(",") if two_hosts.bits_per_second(rate) > 0]
    except ValueError as why:
        parser.error(str(why))
    if args.rounds < 1 or args.seconds <= 0:
        parser.error("nothing to measure")
    args.batch, args.size, args.steps = ddp.BATCH, ddp.SIZE, None
    if args.short:
        args.batch, args.size, args.steps = (ddp.SHORT[key] for key in ("batch", "size", "steps"))
        args.case_list, args.rates, args.rounds, args.seconds = args.case_list[:1], args.rates[:1], 1, 0.1
    return args


# ---- what is measured ----

def bench_step(model, threads, copies, args):
    """Milliseconds of the parts of a step, as `copies` programs at once have them: the mean of these."""
    command = [args.stoke, "bench", "step", "--model", model, "--batch", str(args.batch), "--size", str(args.size), "--classes", str(ddp.CLASSES),
               "--threads", str(threads), "--seconds", str(args.seconds), "--json", "--quiet"]
    with runner.alone():
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(copies)]
        said = [process.communicate() for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("scale_model.py: " + runner.reason("".join(errors for _, errors in said)))
    found = [parts_of(json.loads(out)) for out, _ in said]
    return {key: statistics.mean(parts[key] for parts in found) for key in found[0]}


def parts_of(answer):
    """Forward (with the loss and the packing of weights), backward, update: shares of the median step."""
    sums = {"forward": 0.0, "backward": 0.0, "update": 0.0}
    for part in answer["parts"]:
        name = part["name"]
        kind = "update" if "update" in name else "forward" if "forward" in name or name in ("pack weights", "loss") else "backward"
        sums[kind] += part["ms"]
    median, whole = answer["ms_per_step"], sum(sums.values())
    return {**{kind: ms * median / whole for kind, ms in sums.items()}, "bytes": 4 * answer["parameter_count"],
            "cv": max(0.0, answer["upper_quartile_ms_per_step"] / median - 1) / QUARTILE}


def bench_comm(hosts, args):
    """Milliseconds, and bytes per millisecond, of messages between two hosts."""
    command = [args.stoke, "bench", "comm", "--json", "--quiet", *(["--short"] if args.short else [])]
    with runner.alone():
        answer = json.loads(together.Started([(together.mpirun(command, hosts), {})]).outputs()[0])
    figures = {(figure["what"], figure["bytes"]): figure for figure in answer["figures"]}
    costs = {"wait": figures["exchange", 64]["us"] / 1e3, "latency": figures["one way", 64]["us"] / 1e3,
             "message": figures["messages", 64]["us"] / 1e3, "copy": answer["copy_bytes_s"] / 1e3}
    for what in ("exchange", "gather"):
        costs[what] = line_of(figures, what, "us")
        costs[what + "_cpu"] = line_of(figures, what, "cpu_us")
    return costs


def line_of(figures, what, key):
    """[milliseconds, milliseconds per byte] through the two largest of a kind."""
    (x, small), (y, large) = sorted((size, figure[key] / 1e3) for (kind, size), figure in figures.items() if kind == what)[-2:]
    slope = max(0.0, (large - small) / (y - x))
    return [small - slope * x, slope]


def middle(found):
    """Of dictionaries of numbers and lines, key by key."""
    def of(values):
        return [of(column) for column in zip(*values)] if isinstance(values[0], list) else statistics.median(values)
    return {key: of([one[key] for one in found]) for key in found[0]}


# ---- the model ----

def at(line, size):
    return max(0.0, line[0] + line[1] * size)


def exposed_exchange(took, backward, pieces):
    """What is left of it when the backward pass is over; pieces become ready one after the other."""
    end = 0.0
    for number in range(1, pieces + 1):
        end = max(end, backward * number / pieces) + took / pieces
    return end - backward


def exposed_gather(took, forward, pieces):
    """By how much the forward pass ends later; each part of it needs its piece."""
    end = 0.0
    for number in range(1, pieces + 1):
        end = max(end, took * number / pieces) + forward / pieces
    return end - forward


def pieces_of(size):
    return max(PIECES, math.ceil(size / PIECE))


def step_ms(parts, accumulate, overlap, world, exchange, gather, wait, sending, adding):
    """All in milliseconds; `sending`: processor time of exchange and gather."""
    pieces = pieces_of(parts["bytes"])
    slowest = 1 + parts["cv"] / math.sqrt(accumulate) * math.sqrt(2 * math.log(world))
    compute = accumulate * (parts["forward"] + parts["backward"]) * slowest
    if overlap != "none":
        compute += sending[0] + (sending[1] if overlap == "both" else 0)
        exchange = exposed_exchange(exchange, parts["backward"], pieces)
    if overlap == "both":
        gather = exposed_gather(gather, parts["forward"], pieces)
    return compute + exchange + gather + WAITS * wait + (parts["update"] + adding) / world


def predicted(parts, costs, accumulate, overlap):
    """Of two processes, each on its own host."""
    size = parts["bytes"]
    return step_ms(parts, accumulate, overlap, 2, at(costs["exchange"], size), at(costs["gather"], size), costs["wait"],
                   [at(costs["exchange_cpu"], size), at(costs["gather_cpu"], size)], 3 * size / costs["copy"])


def modelled(parts, costs, accumulate, overlap, world, bytes_per_ms):
    """Of `world` processes, each on its own host with such a cable, and a network behind it that is no narrower."""
    size = parts["bytes"]
    wire = size * (world - 1) / world / bytes_per_ms
    took = wire + pieces_of(size) * ((world - 1) * costs["message"] + costs["latency"])
    wait = costs["wait"] + (world - 1) * costs["message"]
    return step_ms(parts, accumulate, overlap, world, took, took, wait,
                   [at(costs["exchange_cpu"], size), at(costs["gather_cpu"], size)], (world + 1) * size / costs["copy"])


# ---- the run ----

def take_rounds(args, hosts, work):
    """Everything once a round: {("parts", model), ("costs", rate), (case, rate): [values]}, and the most cores that others used."""
    found = {}
    models = list(dict.fromkeys(model for model, _ in args.case_list))
    for number in range(1, args.rounds + 1):
        for rate in args.rates:
            hosts.limit(rate)
            found.setdefault(("costs", rate), []).append(bench_comm(hosts, args))
            for model in models:
                found.setdefault(("parts", model), []).append(bench_step(model, 1, ddp.LANES, args))
                for case in args.case_list:
                    if case[0] != model:
                        continue
                    turn = ddp.locked_turn(ddp.Stokehold("mpi", case, args, hosts, work))
                    found.setdefault((case, rate), []).append(turn["median"])
                    found["others"] = max(found.get("others", 0), turn["others"])
                    print(f"round {number}, {rate}, {ddp_report.case_title(case)}: {turn['median']:.0f} ms a step", file=sys.stderr, flush=True)
    return found


def check(args, found):
    """Predicted against measured, case by case."""
    for rate in args.rates:
        costs = middle(found["costs", rate])
        for model, accumulate in args.case_list:
            parts = middle(found["parts", model])
            guess, real = predicted(parts, costs, accumulate, args.overlap), statistics.median(found[(model, accumulate), rate])
            yield {"model": model, "accumulate": accumulate, "rate": rate, "predicted_ms": guess, "measured_ms": real, "error": guess / real - 1}


def table(args, found):
    """Speed of a process among many as a share of one alone; of this machine's cores, each with its own cable."""
    rate = args.rates[0]
    costs = middle(found["costs", rate])
    # What of a cable arrives, headers and all: two processes send half of the bytes each.
    share = 0.5 / costs["exchange"][1] * 8e3 / two_hosts.bits_per_second(rate) if costs["exchange"][1] else 1
    for model in dict.fromkeys(model for model, _ in args.case_list):
        parts = bench_step(model, 0, 1, args)
        for accumulate in sorted({accumulate for _, accumulate in args.case_list}):
            alone = accumulate * (parts["forward"] + parts["backward"]) + parts["update"]
            for cable in TABLE_RATES:
                speed = min(1, share) * two_hosts.bits_per_second(cable) / 8e3
                yield {"model": model, "accumulate": accumulate, "rate": cable, "alone_ms": alone, "cv": parts["cv"],
                       "shares": [alone / modelled(parts, costs, accumulate, args.overlap, count, speed) for count in COUNTS]}


def print_checks(checks):
    print("case                    cable     predicted   measured   off by")
    for one in checks:
        title = ddp_report.case_title((one["model"], one["accumulate"]))
        print(f"{title:22}  {one['rate']:8}  {one['predicted_ms']:6.0f} ms  {one['measured_ms']:6.0f} ms  {100 * one['error']:+5.1f} %")


def print_table(result):
    print("\nmodelled: " + result["about"])
    print("case                    cable   " + "".join(f"{count:>8}" for count in result["counts"]))
    for row in result["table"]:
        title = ddp_report.case_title((row["model"], row["accumulate"]))
        print(f"{title:22}  {row['rate']:8}" + "".join(f"{100 * share:6.0f} %" for share in row["shares"]))


def work_it_out(args, hosts, work):
    found = take_rounds(args, hosts, work)
    result = {"overlap": args.overlap, "rounds": args.rounds, "stoke": data.stoke_version(args.stoke), "machine": data.machine(), "others": found["others"],
              "costs": {rate: middle(found["costs", rate]) for rate in args.rates}, "checks": list(check(args, found)), "counts": COUNTS}
    print_checks(result["checks"])
    if found["others"] > runner.BUSY:
        print(f"disturbed: other programs used up to {found['others']:.1f} cores")
    worst = max(abs(one["error"]) for one in result["checks"])
    result["holds"] = worst <= LIMIT
    if result["holds"] or args.short:
        result["table"] = list(table(args, found))
        result["about"] = (f"processes with {result['machine']['cores']} cores each, a cable of its own for each, all at full speed at once; "
                           f"hidden: {args.overlap}; a step's spread "
                           + ", ".join(sorted({f"{100 * row['cv']:.0f} % ({row['model']})" for row in result["table"]})) + ".")
        if result["holds"]:
            print_table(result)
        else:
            print(f"a table of {len(result.pop('table'))} rows was worked out, and is not shown")
    if args.json:
        data.keep(args.json, json.dumps(result, indent=1) + "\n")
    if not result["holds"] and not args.short:
        print(f"\nA prediction is off by {100 * worst:.0f} %, more than {100 * LIMIT:.0f} %: nothing is said of more processes. "
              f"Does the build hide what --overlap {args.overlap} says, and was the machine quiet?")
        return 1
    return 0


def main():
    args = arguments()
    try:
        with contextlib.ExitStack() as stack:
            ddp.end_politely()
            why = together.why_no_mpirun(args.stoke)
            if why:
                raise two_hosts.Unable(why)
            hosts = stack.enter_context(two_hosts.two())
            return work_it_out(args, hosts, stack.enter_context(ddp.workplace(args)))
    except two_hosts.Unable as why:
        print(f"scale_model.py: skipped: {why}")
        return 0
    except runner.Failed as why:
        print(f"scale_model.py: {why}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
