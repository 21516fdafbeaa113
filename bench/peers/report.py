# SPDX-License-Identifier: Apache-2.0
"""Results as a table, as bars in the terminal, as an SVG chart and as a page."""
import html
import statistics

import runner

OURS = "stokehold"
FROM_PYTHON = "stokehold-python"
COMMAND = "bench/peers/data.py"


def median(turns, what):
    return statistics.median(turn[what] for turn in turns)


def rate(entry):
    return median(entry["turns"], "samples_per_s") if entry.get("turns") else None


def known(entry, what):
    """The median of a figure that only some entrants have, or that results of an earlier run lack; else None."""
    return median(entry["turns"], what) if entry.get("turns") and what in entry["turns"][0] else None


def memory(entry):
    """Peak, and in brackets what was there before the loader was made: interpreter and imports."""
    peak, before = known(entry, "memory_bytes"), known(entry, "memory_before_bytes")
    if peak is None:
        return "n/a"
    return f"{peak / 2**20:.0f}" + (f" ({before / 2**20:.0f})" if before is not None else "")


def first_batch(entry):
    seconds = known(entry, "first_batch_s")
    return f"{seconds:.2f}" if seconds is not None else "n/a"


def find(results, key):
    return next((entry for entry in results["entries"] if entry["key"] == key), None)


def rows(results):
    """Per entrant: title, rate, range, CPU, memory, first batch, to bare decoding, our lead, remark; or title and why it did
    not run."""
    bare = find(results, "bare")
    lead = {"full": find(results, OURS), "bytes": find(results, "stokehold-bytes")}
    for entry in results["entries"]:
        if not entry.get("turns"):
            yield [entry["title"], *["-"] * 7, entry.get("skipped", "not asked for")]
            continue
        rates = [turn["samples_per_s"] for turn in entry["turns"]]
        mine = rate(entry)
        ours = lead[entry["group"]]
        to_bare = f"{mine / rate(bare):.2f}" if bare and bare.get("turns") else "n/a"
        times = "-"
        if entry["kind"] == "peer":
            times = f"{rate(ours) / mine:.2f}x" if ours and ours.get("turns") else "n/a"
        disturbed = sum(turn["others"] > runner.BUSY for turn in entry["turns"])
        remark = f"{disturbed} of {len(rates)} rounds disturbed" if disturbed else ""
        yield [entry["title"], f"{mine:.0f}", f"{min(rates):.0f}..{max(rates):.0f}",
               f"{median(entry['turns'], 'cpu_ms'):.2f}", memory(entry), first_batch(entry), to_bare, times, remark]


HEADINGS = ["", "samples/s", "min..max", "CPU ms/sample", "memory MiB", "first batch s", "to bare decoding", "Stokehold is", "remark"]


def table(results):
    lines = [HEADINGS, *rows(results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) if column in (0, len(HEADINGS) - 1) else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines)


def charted(results, group):
    return [(entry["title"], rate(entry), entry["kind"]) for entry in results["entries"]
            if entry.get("turns") and entry["group"] == group]


def bars(results, width=48):
    lines = []
    for group in ("full", "bytes"):
        chart = charted(results, group)
        if not chart:
            continue
        most, name = max(value for _, value, _ in chart), max(len(title) for title, _, _ in chart)
        lines += [""] + [f"{title.ljust(name)} {'#' * max(1, round(width * value / most))} {value:.0f}"
                         for title, value, _ in chart]
    return "\n".join(lines)


COLOURS = {"bare": "#888888", "stoke": "#c8501e", "loader": "#c8501e", "peer": "#4a78a8"}
ROW, LEFT, PLOT, RIGHT = 26, 400, 420, 70


def svg(results):
    """Bars of the whole chain, longest scale first; readable on light and dark paper alike."""
    chart = charted(results, "full")
    most = max((value for _, value, _ in chart), default=1)
    width, height = LEFT + PLOT + RIGHT, ROW * (len(chart) + 2)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="8" y="{ROW * 0.7:.0f}" font-weight="bold">Samples per second, full chain to float32, 2 workers</text>']
    for index, (title, value, kind) in enumerate(chart):
        top, length = ROW * (index + 1.25), PLOT * value / most
        out += [f'<text x="{LEFT - 8}" y="{top + 14:.0f}" text-anchor="end">{html.escape(title)}</text>',
                f'<rect x="{LEFT}" y="{top:.0f}" width="{length:.1f}" height="{ROW - 8}" fill="{COLOURS[kind]}"/>',
                f'<text x="{LEFT + length + 6:.1f}" y="{top + 14:.0f}">{value:.0f}</text>']
    return "\n".join([*out, "</svg>", ""])


def page(results, chart):
    machine, lines = results["machine"], []
    lines += ["# Against other loaders", "",
              f"Made by `{COMMAND} {results['command']}`; do not edit by hand. `{COMMAND} --help` says how to make it "
              "again.", "",
              f"- Work: {results['set']}, 256 pairs of 512x512 (JPEG quality 92, 4:2:0; PNG masks), in the page cache; "
              "the usual chain (preset `standard`); batches of 32, float32 ImageNet-normalised CHW, masks int64 unless said; 2 workers or "
              "threads each.",
              f"- Run: {results['rounds']} rounds in which all take turns, {results['seconds']:g} s or at least 256 samples "
              "each turn; medians. A round is called disturbed when others used more than "
              f"{runner.BUSY} cores.",
              f"- Machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory']}, {machine['system']}; "
              f"{results['date']}.", "", f"![bars]({chart})", "",
              "| " + " | ".join(HEADINGS) + " |", "|---|" + "--:|" * (len(HEADINGS) - 2) + "---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows(results)]
    lines += ["", "Memory is the highest PSS of the process and all it has started, Python's interpreter and imports included (in "
              "brackets: those alone); of our own command its peak RSS. First batch: from the making of the loader to its first batch, "
              "imports not counted, the start of workers counted.",
              "", "\"Stokehold is\" compares with Stokehold reading the folder; in the last two rows, both of which "
              "give bytes without augmentation, with Stokehold's cache.", "", "## Versions", "",
              "| environment | packages |", "|---|---|", f"| stoke | {results['stoke']} |"]
    for name, packages in results["versions"].items():
        lines.append(f"| {name} | " + ", ".join(f"{key} {value}" for key, value in packages.items()) + " |")
    return "\n".join([*lines, ""])


def migration(results):
    """The figures of docs/migration.md: other loaders beside ours in Python."""
    ours = find(results, FROM_PYTHON)
    machine = results["machine"]
    lines = [f"{results['set']}, {results['rounds']} rounds of {results['seconds']:g} s, {machine['cpu']}, {machine['cores']} cores, "
             f"{results['date']}.", "", "| | samples/s | stokehold.Loader is | memory MiB | first batch s |", "|---|--:|--:|--:|--:|"]
    for entry in results["entries"]:
        if entry["group"] != "full" or entry["kind"] not in ("loader", "peer"):
            continue
        if not entry.get("turns"):
            lines.append(f"| {entry['title']} | {entry.get('skipped', 'not asked for')} | - | - | - |")
            continue
        lead = f"{rate(ours) / rate(entry):.2f}x" if ours and ours.get("turns") and entry is not ours else "-"
        lines.append(f"| {entry['title']} | {rate(entry):.0f} | {lead} | {memory(entry)} | {first_batch(entry)} |")
    return "\n".join([*lines, ""])
