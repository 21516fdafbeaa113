# SPDX-License-Identifier: Apache-2.0
"""Results of step.py as a table, as a page and as a chart."""
import html
import statistics

CASES = {"A": ("b0", 4, 256, 19), "B": ("b0", 2, 512, 150), "C": ("b2", 4, 256, 19), "D": ("b0", 8, 512, 150)}
TITLES = {"step": "Training step: forward, loss at the size of the pictures, backward, clipping, AdamW",
          "forward": "Forward pass"}
COMMAND = "bench/peers/step.py"


def rate(case, entry, what):
    """Images per second by the median (of the turns' medians) or the best step."""
    values = [turn[what] for turn in entry["turns"]]
    return 1000 * CASES[case][1] / (statistics.median(values) if what == "median" else min(values)) if values else None


def rows(results):
    """Per case and precision, Stokehold first: what, who, median, best, memory, how much faster Stokehold is."""
    for part in results["parts"]:
        case, entries = part["case"], part["entries"]
        ours = entries["stokehold"]
        for name, entry in entries.items():
            if not entry["turns"]:
                yield [title_of(part), name, "-", "-", "-", "-", entry.get("skipped", "")]
                continue
            times = "" if name == "stokehold" or not ours["turns"] else (
                f"{rate(case, ours, 'median') / rate(case, entry, 'median'):.2f}x "
                f"({rate(case, ours, 'best') / rate(case, entry, 'best'):.2f}x)")
            memory = max(turn["peak_rss_bytes"] for turn in entry["turns"]) / 2**20
            yield [title_of(part), name, f"{rate(case, entry, 'median'):.2f}", f"{rate(case, entry, 'best'):.2f}", f"{memory:.0f}", times, ""]


HEADINGS = ["case", "who", "img/s", "best", "MiB", "Stokehold is (by best)", ""]


def title_of(part):
    model, batch, size, classes = CASES[part["case"]]
    return f"{part['case']}: {model} {batch}x{size}x{size}, {classes} classes, {part['precision']}"


def table(results):
    lines = [HEADINGS, *rows(results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def verdict(results):
    """Against the fastest peer of each case, by medians."""
    for part in results["parts"]:
        case, ours = part["case"], part["entries"]["stokehold"]
        others = [(rate(case, e, "median"), n) for n, e in part["entries"].items() if n != "stokehold" and e["turns"]]
        if ours["turns"] and others:
            best, name = max(others)
            yield f"{case} {part['precision']} {results['task']}: {rate(case, ours, 'median') / best:.2f}x the fastest ({name})"


COLOURS = {"stokehold": "#c8501e"}
ROW, LEFT, PLOT, RIGHT = 24, 330, 380, 90


def charted(results):
    """Per case and precision: Stokehold and the fastest other."""
    for part in results["parts"]:
        case = part["case"]
        others = [(rate(case, e, "median"), n) for n, e in part["entries"].items() if n != "stokehold" and e["turns"]]
        ours = rate(case, part["entries"]["stokehold"], "median")
        if ours and others:
            yield f"{title_of(part)}, {results['task']}", [("stokehold", ours), max(others)[::-1]]


def svg(runs):
    """A pair of bars per case, each pair in its own scale: what matters is the ratio."""
    pairs = [pair for results in runs for pair in charted(results)]
    width, height = LEFT + PLOT + RIGHT, ROW * (3 * len(pairs) + 1)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="13">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for index, (title, bars) in enumerate(pairs):
        top, most = ROW * 3 * index, max(value for _, value in bars)
        out.append(f'<text x="8" y="{top + 17}" font-weight="bold">{html.escape(title)}</text>')
        for line, (name, value) in enumerate(bars, 1):
            length, y = PLOT * value / most, top + ROW * line
            out += [f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{html.escape(name)}</text>',
                    f'<rect x="{LEFT}" y="{y + 2}" width="{length:.1f}" height="{ROW - 6}" fill="{COLOURS.get(name, "#4a78a8")}"/>',
                    f'<text x="{LEFT + length + 6:.1f}" y="{y + 15}">{value:.2f} img/s</text>']
    return "\n".join([*out, "</svg>", ""])


def precisions_of(results):
    return ", ".join(dict.fromkeys(part["precision"] for part in results["parts"]))


def turns_of(results):
    """How long was measured, and what a reader must know about the precision."""
    said = f"{results['rounds']} round{'s' if results['rounds'] > 1 else ''} of {results['seconds']:g} s, and at least one step, each."
    if "bf16" in precisions_of(results) and not results["machine"].get("bf16"):
        said += (" This processor has no bf16 arithmetic: PyTorch emulates it in its kernels, Stokehold keeps activations in bf16 and "
                 "multiplies in fp32. Neither side would choose it here (`precision: auto` does not).")
    return said


def page(runs, chart):
    first = runs[0]
    machine = first["machine"]
    lines = ["# A step, against PyTorch", "", f"Made by `{COMMAND}` (`--help` says how to make it again); do not edit by hand.", "",
             "- Every entrant has two threads and a separate process; all take turns, round by round. `img/s` is the median, `best` the "
             "fastest step.",
             "- PyTorch with Transformers' SegformerForSemanticSegmentation: eager, channels_last, and compiled (training: the encoder; "
             "the whole is slower), autocast for bf16, fused AdamW, clipping, dropout as it comes"
             + ("; tcmalloc and huge pages, its best case." if first.get("tcmalloc") else "; glibc's malloc."),
             f"- Machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory']}, {machine['system']}; {first['date']}; "
             + ", ".join(f"{key} {value}" for key, value in first.get("versions", {}).items()) + f"; {first['stoke']}.", "",
             f"![bars]({chart})", ""]
    for results in runs:
        lines += [f"## {TITLES[results['task']]}, {precisions_of(results)}", "", turns_of(results), "", "| " + " | ".join(HEADINGS) + " |", "|---|---|--:|--:|--:|--:|---|"]
        lines += ["| " + " | ".join(row) + " |" for row in rows(results)]
        lines += ["", *(f"- {line}" for line in verdict(results)), ""]
    return "\n".join(lines)
