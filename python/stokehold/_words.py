# SPDX-License-Identifier: Apache-2.0
"""Results as `print` shows them: the library's words, set as the command sets them."""
from typing import Any, List

from . import _stoke


def table(headings: List[str], rows: List[List[Any]]) -> List[str]:
    """Lines of a table; None is n/a."""
    cells = [None if cell is None else cell.encode(errors="replace") for row in (headings, *rows) for cell in row]
    return _stoke.table(len(headings), cells).splitlines()


def check_line(line: Any) -> str:
    """A verdict, and below it what to do."""
    source = "" if line.source == "n/a" else f" [{line.source}]"
    fix = f"\n{'':26}  -> {line.fix}" if line.fix else ""
    return f"{line.verdict:<4}  {line.title:<20}  {line.figure}{source}{fix}"


def check_text(result: Any) -> str:
    """As `stoke check`."""
    meant = "for `stoke train`, in host memory" if result.engine == "native" else "for PyTorch on a card"
    verdicts = [line.verdict for line in result.lines]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("pass", "warn", "fail", "n/a"))
    lines = [f"{result.config}: {meant} ({result.dialect})", "", *map(check_line, result.lines), "", f"{counts} (could not be seen)"]
    if result.no_card:
        lines += ["", f"No card is seen here: {result.no_card}"]
    return "\n".join(lines)


def estimate_text(estimate: Any) -> str:
    """As `stoke estimate`, of the engine that was asked for."""
    meanings = _stoke.term_meanings()
    rows = [[name, f"{value / 2**30:.3f}", meanings[name]] for name, value in estimate.bytes.items()]
    rows.append(["total", f"{estimate.total / 2**30:.3f}", ""])
    assumed = [f"assumed, since nobody says them: {', '.join(estimate.assumed)}"] if estimate.assumed else []
    lines = [estimate.subject, *assumed, "", *table(["term", "GiB", "what it is"], rows), "", *estimate.verdict.splitlines()]
    if estimate.largest_batch:
        lines.append(f"largest batch  {estimate.largest_batch}")
    return "\n".join(line.rstrip() for line in lines)


def advice_text(advice: Any) -> str:
    """As `stoke recommend`."""
    rows = [[line.key, line.value, line.source, line.why] for line in advice.lines]
    lines = [f"For {advice.subject}:", "", *table(["setting", "value", "source", "why"], rows)]
    if advice.remark:
        lines += ["", advice.remark]
    if advice.expected:
        lines += ["", "To expect (table):", *(f"  {line.key:<22}  {line.value:<14}  {line.why}".rstrip() for line in advice.expected)]
    return "\n".join(lines)


def _of(figure: Any, memory: bool) -> Any:
    return None if figure is None else f"{figure.value / 2**30:.2f} GiB" if memory else f"{figure.value:.0f} %"


def monitor_text(summary: Any) -> str:
    """What `stoke monitor` sums up, in short."""
    found = [("processors busy", summary.cpu_percent, False), ("memory used", summary.memory_used, True),
             ("busiest disk", summary.disk_busy_percent, False)]
    for gpu in summary.gpus:
        found += [(f"{gpu.name}, busy", gpu.busy_percent, False), (f"{gpu.name}, memory used", gpu.memory_used, True)]
    rows = [[name, _of(spread.mean, memory), _of(spread.peak, memory)] for name, spread, memory in found]
    why = ["", f"No card is seen here: {summary.why}"] if summary.why and not summary.gpus else []
    return "\n".join([*table([f"in {summary.seconds:.1f} s", "mean", "peak"], rows), "", summary.verdict, f"Next: `{summary.next}`", *why])
