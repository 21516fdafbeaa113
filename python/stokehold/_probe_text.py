# SPDX-License-Identifier: Apache-2.0
"""The report of a probe, for people."""
from typing import Any, List, Sequence

from . import _stoke


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> List[str]:
    """Columns two spaces apart; numbers stand to the right."""
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    numeric = [all(row[i][:1] in "-0123456789" or row[i] == "n/a" for row in rows) for i in range(len(headings))]
    lines = []
    for row in [headings, *rows]:
        cells = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(row, widths, numeric)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _ms(value: float) -> str:
    return f"{value if abs(value) >= 0.005 else 0:.{2 if abs(value) < 10 else 1}f}"


def _meaning(cause: Any, probe: Any) -> str:
    """Of a loader that is no DataLoader only the call is seen: what time its parts took is unknown, where it went is not."""
    if cause.name == "unknown" and not probe.sees_making:
        return "next() made the batch, of whose parts nothing is seen"
    return cause.meaning


def _causes(a: Any, probe: Any) -> List[str]:
    def row(name, ns, meaning):
        return [name, f"{ns / a.steps / 1e6:.3f}", f"{100 * ns / max(1, a.elapsed_ns):.1f}", meaning]

    rows = [row(cause.name, cause.ns, _meaning(cause, probe)) for cause in a.causes if cause.waits_for_input and cause.ns]
    if a.input_ns:
        rows.append(row("= waiting for input", a.input_ns, "sum of the rows above"))
    rows += [row(cause.name, cause.ns, _meaning(cause, probe)) for cause in a.causes if not cause.waits_for_input and cause.ns]
    rows.append(row("= idle", a.idle_ns, "sum of all causes, to the nanosecond [measured]"))
    lines = _table(["the device is idle", "ms a step", "%", "meanwhile"], rows)
    if a.unknown_after is not None and probe.sees_making:
        lines.append(f'unknown: a moment was not seen; the time follows "{a.unknown_after}"')
    return lines


def _gains(f: Any) -> List[str]:
    rows = []
    for fix in f.fixes:
        if fix.applies:
            rows.append([fix.cause, f"{_ms(fix.gain_ms)} [{_ms(fix.gain_low)}, {_ms(fix.gain_high)}]",
                         _ms(fix.marginal_ms) if fix.order else "no more", f"{100 * fix.busy:.1f}"])
        else:
            rows.append([fix.cause, "-", "-", "-"])
    rows.append(["= all of them", _ms(f.gain_all_ms), _ms(f.gain_all_ms), f"{100 * f.together.busy:.1f}"])
    lines = _table(["what it costs, ms a step", "alone [90 %]", "in sequence", "busy without it %"], rows)
    lines += ["[predicted] They do not add: together they give what the last row says.", "", "what to change, in this order"]
    ordered = sorted((fix for fix in f.fixes if fix.applies and fix.order), key=lambda fix: fix.order)
    lines += [f"  {fix.order}  {fix.what}" for fix in ordered]
    lines += [f"  -  {fix.what}: adds nothing after those" for fix in f.fixes if fix.applies and not fix.order]
    lines += [f"  -  {fix.cause}: no, {fix.what}" for fix in f.fixes if not fix.applies]
    lines += ["", f"With all of them: busy {100 * f.together.busy:.1f} % [predicted, {100 * f.together.busy_low:.1f} to "
                  f"{100 * f.together.busy_high:.1f}], a step every {_ms(f.together.step_ms)} ms."]
    return lines


def _verdict(a: Any, probe: Any) -> str:
    who = "card" if probe.on_cuda else "processor"
    worst = max(a.causes, key=lambda cause: cause.ns)
    if a.busy >= 0.98:
        return f"The {who} was busy {100 * a.busy:.1f} % of the time: it hardly waits."
    return (f"The {who} was busy {100 * a.busy:.0f} % of the time; it waited {_ms(a.idle_ns / a.steps / 1e6)} ms a step, mostly "
            f"while {_meaning(worst, probe)} ({_ms(worst.ns / a.steps / 1e6)} ms).")


def _subject(probe: Any, a: Any) -> List[str]:
    words = dict(word.split("=") for word in probe.setup.split())
    text = _stoke.setup_text(probe.setup)
    if not probe.on_cuda:  # nothing crosses
        text = text.partition(", augmenting")[0]
    step_us = a.elapsed_ns / a.steps / 1e3
    return [f"device    {probe.device}", f"loop      batches of {words['batch']}, {text}",
            f"measured  {a.steps} steps, one every {_ms(step_us / 1e3)} ms",
            f"probe     {probe.overhead_us:.1f} us a step, {100 * probe.overhead_us / max(step_us, 1e-9):.2f} % [measured]"]


def report_text(probe: Any) -> str:
    """Verdict, what was seen, idle time by causes, what each change would give."""
    a = probe.attribution
    lines = [_verdict(a, probe), "", *_subject(probe, a)]
    lines += [f"remark    {remark}" for remark in probe.remarks]
    lines += ["", *_causes(a, probe), ""]
    try:
        f = probe.fixes
    except ValueError as reason:
        lines.append(f"{reason}.")
    else:
        lines += _gains(f)
        off = 100 * abs(f.now.busy - a.busy)
        lines.append(f"The model on the setup as it is: busy {100 * f.now.busy:.1f} %, measured {100 * a.busy:.1f} %.")
        if off > 5:
            lines.append(f"It is {off:.0f} points off, and so may be the predictions: take more steps, or a quieter machine.")
    return "\n".join(lines) + "\n"
