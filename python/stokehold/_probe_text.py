# SPDX-License-Identifier: Apache-2.0
"""The report of a probe, for people."""
from typing import Any, List

from . import _stoke
from ._words import table


def _ms(value: float) -> str:
    return f"{value if abs(value) >= 0.005 else 0:.{2 if abs(value) < 10 else 1}f}"


def _meaning(cause: Any, sees_making: bool) -> str:
    """Of a loader that is no DataLoader only the call is seen: what time its parts took is unknown, where it went is not."""
    if cause.name == "unknown" and not sees_making:
        return "next() made the batch, of whose parts nothing is seen"
    return cause.meaning


def causes(a: Any, sees_making: bool) -> List[str]:
    """The idle time, by what the device waited for."""
    def row(name, ns, meaning):
        return [name, f"{ns / a.steps / 1e6:.3f}", f"{100 * ns / max(1, a.elapsed_ns):.1f}", meaning]

    rows = [row(cause.name, cause.ns, _meaning(cause, sees_making)) for cause in a.causes if cause.waits_for_input and cause.ns]
    if a.input_ns:
        rows.append(row("= waiting for input", a.input_ns, "sum of the rows above"))
    rows += [row(cause.name, cause.ns, _meaning(cause, sees_making)) for cause in a.causes if not cause.waits_for_input and cause.ns]
    rows.append(row("= idle", a.idle_ns, "sum of all causes, to the nanosecond [measured]"))
    lines = table(["the device is idle", "ms a step", "%", "meanwhile"], rows)
    if a.unknown_after is not None and sees_making:
        lines.append(f'unknown: a moment was not seen; the time follows "{a.unknown_after}"')
    return lines


def gains(f: Any) -> List[str]:
    """What each change would give."""
    rows = []
    for fix in f.fixes:
        if fix.applies:
            rows.append([fix.cause, f"{_ms(fix.gain_ms)} [{_ms(fix.gain_low)}, {_ms(fix.gain_high)}]",
                         _ms(fix.marginal_ms) if fix.order else "no more", f"{100 * fix.busy:.1f}"])
        else:
            rows.append([fix.cause, "-", "-", "-"])
    rows.append(["= all of them", _ms(f.gain_all_ms), _ms(f.gain_all_ms), f"{100 * f.together.busy:.1f}"])
    lines = table(["what it costs, ms a step", "alone [90 %]", "in sequence", "busy without it %"], rows)
    lines += ["[predicted] They do not add: together they give what the last row says.", "", "what to change, in this order"]
    ordered = sorted((fix for fix in f.fixes if fix.applies and fix.order), key=lambda fix: fix.order)
    lines += [f"  {fix.order}  {fix.what}" for fix in ordered]
    lines += [f"  -  {fix.what}: adds nothing after those" for fix in f.fixes if fix.applies and not fix.order]
    lines += [f"  -  {fix.cause}: no, {fix.what}" for fix in f.fixes if not fix.applies]
    return [*lines, "", f"With all of them: {forecast(f.together)}."]


def forecast(f: Any) -> str:
    """What a setup would give."""
    return f"busy {100 * f.busy:.1f} % [predicted, {100 * f.busy_low:.1f} to {100 * f.busy_high:.1f}], a step every {_ms(f.step_ms)} ms"


def _verdict(a: Any, probe: Any) -> str:
    who = "card" if probe.on_cuda else "processor"
    worst = max(a.causes, key=lambda cause: cause.ns)
    if a.busy >= 0.98:
        return f"The {who} was busy {100 * a.busy:.1f} % of the time: it hardly waits."
    return (f"The {who} was busy {100 * a.busy:.0f} % of the time; it waited {_ms(a.idle_ns / a.steps / 1e6)} ms a step, mostly "
            f"while {_meaning(worst, probe.sees_making)} ({_ms(worst.ns / a.steps / 1e6)} ms).")


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
    lines += ["", *causes(a, probe.sees_making), ""]
    try:
        f = probe.fixes
    except ValueError as reason:
        lines.append(f"{reason}.")
    else:
        lines += gains(f)
        off = 100 * abs(f.now.busy - a.busy)
        lines.append(f"The model on the setup as it is: busy {100 * f.now.busy:.1f} %, measured {100 * a.busy:.1f} %.")
        if off > 5:
            lines.append(f"It is {off:.0f} points off, and so may be the predictions: take more steps, or a quieter machine.")
    return "\n".join(lines) + "\n"
