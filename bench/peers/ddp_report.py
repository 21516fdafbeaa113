# SPDX-License-Identifier: Apache-2.0
"""Results of ddp.py as a table and as the page docs/scaling.md."""
import statistics

import runner

COMMAND = "bench/peers/ddp.py"
ONE_HOST = "one host"
TITLES = {"1x2": "stokehold, 1 process x 2 threads", "mpi": "stokehold, 2 x 1 by mpirun", "c10d": "stokehold, 2 x 1 by torch.distributed",
          "torch": "PyTorch, 1 process x 2 threads", "ddp": "PyTorch DDP, 2 x 1 over Gloo",
          "lanes": "step alone, sums by lanes, 2 x 1", "allreduce": "step alone, sums by MPI_Allreduce, 2 x 1"}
BASES = {"mpi": "1x2", "c10d": "1x2", "ddp": "torch", "lanes": "allreduce"}  # what a ratio is to
HEADINGS = ["case", "who", "img/s", "best", "of its base", "range", "MiB", "weights"]


def case_title(case):
    model, accumulate = case
    return model if accumulate == 1 else f"{model}, {accumulate} batches a lane"


def title_of(part):
    return case_title((part["model"], part["accumulate"]))


def place_of(part):
    return ONE_HOST if part["where"] == ONE_HOST else f"two hosts, {part['where']}"


def rate(results, part, entry, what="median"):
    """Pictures per second by the median (of the turns' medians) or the best step."""
    values = [turn[what] for turn in entry.get("turns", [])]
    if not values:
        return None
    return 1000 * results["pictures"] * part["accumulate"] / (statistics.median(values) if what == "median" else min(values))


def ratios(part, name, base):
    """Of speeds, round by round: those of one round were measured one after the other."""
    turns, others = (part["entries"].get(key, {}).get("turns", []) for key in (name, base))
    return [other["median"] / turn["median"] for turn, other in zip(turns, others)]


def middle(values):
    return statistics.median(values) if values else None


def rows(results):
    for part in results["parts"]:
        for name, entry in part["entries"].items():
            where = f"{title_of(part)}, {place_of(part)}"
            if not entry["turns"]:
                yield [where, TITLES[name], "-", "-", "-", "-", "-", entry.get("skipped", "")]
                continue
            found = ratios(part, name, BASES.get(name))
            memory = max(turn.get("memory_bytes", 0) for turn in entry["turns"]) / 2**20
            yield [where, TITLES[name], f"{rate(results, part, entry):.2f}", f"{rate(results, part, entry, 'best'):.2f}",
                   f"{middle(found):.2f}" if found else "", f"{min(found):.2f}..{max(found):.2f}" if found else "",
                   f"{memory:.0f}" if memory else "n/a", ", ".join(sorted({turn["weights"] for turn in entry["turns"] if "weights" in turn}))]


def table(results):
    lines = [HEADINGS, *rows(results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def digests(part):
    return {turn["weights"] for entry in part["entries"].values() for turn in entry["turns"] if "weights" in turn}


def differ(part):
    return len(digests(part)) > 1


def others_of(part):
    """The most cores that other programs used in a turn."""
    return max((turn.get("others", 0) for entry in part["entries"].values() for turn in entry["turns"]), default=0)


def verdict(results):
    """What the table says, a line a part."""
    for part in results["parts"]:
        said = []
        for name, base, words in (("mpi", "1x2", "2 processes have {:.3f} of the speed of 1 with 2 threads"), ("mpi", "ddp", "{:.2f}x DDP"),
                                  ("ddp", "torch", "DDP has {:.3f} of its own"), ("lanes", "allreduce", "{:.3f} of the speed with MPI_Allreduce")):
            found = middle(ratios(part, name, base))
            if found is not None:
                said.append(words.format(found))
        if digests(part):
            said.append("OTHER WEIGHTS" if differ(part) else "the same weights")
        if others_of(part) > runner.BUSY:
            said.append(f"disturbed: other programs used up to {others_of(part):.1f} cores")
        yield f"{title_of(part)}, {place_of(part)}: " + "; ".join(said)


def modelled(model):
    """Of scale_model.py: what it was held against, and its table."""
    lines = ["## Modelled", "", "Made by `bench/scale_model.py`, from the parts of a step and the cost of messages. These were measured as well:", "",
             "| case | cable | predicted | measured | off by |", "|---|---|--:|--:|--:|"]
    lines += [f"| {case_title((check['model'], check['accumulate']))} | {check['rate']} | {check['predicted_ms']:.0f} ms | "
              f"{check['measured_ms']:.0f} ms | {100 * check['error']:+.0f} % |" for check in model["checks"]]
    lines += ["", f"Share of the speed of one process alone that each of N keeps, **modelled, not measured**: {model['about']}", ""]
    counts = model["counts"]
    lines += ["| modelled | cable | " + " | ".join(f"{count} processes" for count in counts) + " |", "|---|---|" + "--:|" * len(counts)]
    lines += [f"| {case_title((row['model'], row['accumulate']))} | {row['rate']} | " + " | ".join(f"{100 * share:.0f} %" for share in row["shares"]) + " |"
              for row in model["table"]]
    return [*lines, ""]


def page(runs, model):
    first = runs[0]
    machine = first["machine"]
    lines = ["# Two processes, against one and against PyTorch", "", f"Made by `{COMMAND}` (`--help` says how to make it again); do not edit by hand.", "",
             f"- A step has two lanes of {first['pictures'] // 2} pictures of {first['size']}x{first['size']}, or so many times as many as a lane has "
             f"batches. All take turns, {first['rounds']} rounds; `img/s` is the median, `best` the fastest step.",
             "- `of its base`: 2 processes x 1 thread against 1 x 2 threads of the same program, and sums by lanes against MPI_Allreduce; the median of "
             "the rounds, and their range.",
             "- `stoke train` reads its pictures from files; PyTorch has them in memory, and the steps alone, too. PyTorch is "
             f"Transformers' SegFormer, {first['form']}, fused AdamW, clipping" + ("; tcmalloc and huge pages." if first.get("tcmalloc") else "."),
             "- Two hosts are network namespaces on this machine, a core each, with a cable of that speed each way.",
             "- `MiB`: the most that its processes held, added up. `weights`: SHA-256 of the network after the last step, its beginning.",
             f"- Machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory']}, {machine['system']}; {first['date']}; "
             + ", ".join(f"{key} {value}" for key, value in first.get("versions", {}).items()) + f"; {first['stoke']}.", ""]
    if any(others_of(part) > runner.BUSY for results in runs for part in results["parts"]):
        lines.insert(4, "**Other programs used this machine meanwhile**: speeds are far below what it can do, and ratios may be wrong.\n")
    for results in runs:
        lines += ["| " + " | ".join(HEADINGS) + " |", "|---|---|--:|--:|--:|---|--:|---|"]
        lines += ["| " + " | ".join(row) + " |" for row in rows(results)]
        lines += ["", *(f"- {line}" for line in verdict(results)), ""]
    return "\n".join(lines + (modelled(model) if model else [])).rstrip() + "\n"
