# SPDX-License-Identifier: Apache-2.0
"""Results of bench/time_to_accuracy as tables, as a page and as a chart."""
import html
import math

import accuracy

COMMAND = "bench/time_to_accuracy"
SIDES = ["stokehold", "torch"]
TITLES = {"stokehold": "Stokehold", "torch": "PyTorch"}
CLOCKS = {"train_seconds": "steps alone", "seconds": "with evaluation"}
CLASSES = ["sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist"]
LEVEL = 0.05  # thresholds are multiples of it
# What rounding alone does to one run of fp32, as a standard deviation: 6 runs here to step 1200 (7 to step 600) of the seeds 0
# and 1, the initial weights of a seed times 1 + 1e-6 of normal noise. Final mIoU, and the mean loss of steps 241 to 1200.
SPREAD_MIOU, SPREAD_LOSS = 0.0081, 0.0113
GRADIENTS = "## Gradients, against float64"
EARLIER = ("Another run, with the weights of classes, on torch 2.13.0 and transformers 5.22.2, 9 batches of the steps 0, 60, 150, 300 and 600: "
           "errors of 8.9e-07 to 9.9e-06 in PyTorch, of 1.6e-07 to 5.1e-06 here; closer to float64 here in 7 of the 9.")
GRADIENT_HEAD = ["step", "batch", *(f"{side}, {what}" for side in ("PyTorch", "Stokehold") for what in ("error", "along", "wrong signs"))]


# ---- figures ----

def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def curve(turns, clock):
    """(seconds so far, step, mIoU) at every evaluation."""
    points, spent = [], 0.0
    for turn in turns:
        spent += turn[clock]
        points.append((spent, turn["step"], accuracy.mean_iou(turn["iou"])))
    return points


def reach(turns, clock, target):
    """Seconds until the mIoU is first `target` or more, linear between two evaluations; None: never. Before the first
    evaluation nothing is known: its own time counts."""
    before = None
    for seconds, _, miou in curve(turns, clock):
        if miou >= target:
            if before is None or miou <= before[1]:
                return seconds
            return before[0] + (seconds - before[0]) * (target - before[1]) / (miou - before[1])
        before = (seconds, miou)
    return None


def final(turns):
    return accuracy.mean_iou(turns[-1]["iou"])


def complete(results):
    """The seeds that both sides have trained to the end."""
    steps = results["recipe"]["steps"]
    return [run for run in results["runs"] if all(run[side] and run[side][-1]["step"] == steps for side in SIDES)]


def difference(results):
    """Final mIoU here minus PyTorch's, mean over the seeds."""
    return mean(final(run["stokehold"]) - final(run["torch"]) for run in complete(results))


def ratio(results, clock, target=None):
    """PyTorch's time over ours to the same mIoU, of times summed over the seeds, and both times in seconds. Without a
    target it is, seed by seed, the lower of the two final mIoUs."""
    times = {side: [] for side in SIDES}
    for run in complete(results):
        wanted = target if target is not None else min(final(run[side]) for side in SIDES)
        for side in SIDES:
            times[side].append(reach(run[side], clock, wanted))
    if not times["torch"] or None in times["torch"] + times["stokehold"]:
        return None
    ours, theirs = mean(times["stokehold"]), mean(times["torch"])
    return theirs / ours, ours, theirs


def levels(results):
    """Multiples of LEVEL that both sides reach with every seed, the four highest."""
    lowest = min(final(run[side]) for run in complete(results) for side in SIDES)
    return [LEVEL * k for k in range(1, int(lowest / LEVEL) + 1)][-4:]


# ---- tables ----

def points(share):
    return f"{round(100 * share, 2) + 0.0:+.2f}"  # + 0.0: no -0.00


def clock_text(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02} min"


def seed_rows(results):
    rows = [[f"seed {run['seed']}", *(f"{final(run[side]):.4f}" for side in SIDES)] for run in complete(results)]
    means = [f"{mean(final(run[side]) for run in complete(results)):.4f}" for side in SIDES]
    return [["final mIoU", "Stokehold", "PyTorch"], *rows, ["mean", *means]]


def time_rows(results):
    rows = [["time to the same mIoU", *(f"{TITLES[side]}, {CLOCKS[clock]}" for clock in CLOCKS for side in SIDES),
             *(f"ratio, {CLOCKS[clock]}" for clock in CLOCKS)]]
    for target in [*levels(results), None]:
        found = [ratio(results, clock, target) for clock in CLOCKS]
        if None not in found:
            rows.append([f"{target:.2f}" if target is not None else "lower of the two final ones",
                         *(clock_text(seconds) for _, ours, theirs in found for seconds in (ours, theirs)),
                         *(f"{value:.2f}x" for value, _, _ in found)])
    return rows


def step_rows(results):
    runs = complete(results)
    rows = [["step", "Stokehold, mIoU", "PyTorch, mIoU", "Stokehold, loss", "PyTorch, loss"]]
    for index, turn in enumerate(runs[0]["torch"]):
        turns = {side: [run[side][index] for run in runs] for side in SIDES}
        rows.append([str(turn["step"]), *(f"{mean(accuracy.mean_iou(t['iou']) for t in turns[side]):.4f}" for side in SIDES),
                     *(f"{mean(mean(t['losses']) for t in turns[side]):.4f}" for side in SIDES)])
    return rows


def class_rows(results):
    runs = complete(results)
    rows = [["class", "Stokehold, IoU", "PyTorch, IoU"]]
    for index, name in enumerate(CLASSES[:results["recipe"]["classes"]]):
        rows.append([name, *(f"{mean(run[side][-1]['iou'][index] or 0 for run in runs):.3f}" for side in SIDES)])
    return rows


def plain(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|---" + "|--:" * (len(rows[0]) - 1) + "|", *lines[1:], ""]


def resolved(results, spread):
    """The smallest difference of two means that is more than chance: two standard errors."""
    return 2 * spread * math.sqrt(2 / len(complete(results)))


def chance(results):
    least = resolved(results, SPREAD_MIOU)
    told = f"{100 * SPREAD_MIOU:.1f} points of mIoU, so that {len(complete(results))} tell nothing below {100 * least:.1f}"
    if abs(difference(results)) <= least:
        return f"no difference (rounding alone scatters a run by {told})"
    return f"{points(difference(results))} points (rounding alone scatters a run by {told})"


def verdict(results):
    runs = complete(results)
    if not runs:
        return ["no seed was trained to the end on both sides"]
    seeds = f"mean of {len(runs)} seeds" if len(runs) > 1 else "one seed"
    found = {clock: ratio(results, clock) for clock in CLOCKS}
    lines = [f"{results['precision']}: validation mIoU {mean(final(run['stokehold']) for run in runs):.4f} here, "
             f"{mean(final(run['torch']) for run in runs):.4f} with PyTorch ({seeds}): {chance(results)}"]
    if None not in found.values():
        lines.append("time to the same mIoU: " + ", ".join(
            f"{clock_text(ours)} here, {clock_text(theirs)} with PyTorch = {value:.2f}x ({CLOCKS[clock]})"
            for clock, (value, ours, theirs) in found.items()))
    busiest = max(turn["others"] for run in runs for side in SIDES for turn in run[side])
    lines.append(f"other programs used up to {busiest:.2f} cores during a turn")
    return lines


def text(results):
    if not complete(results):
        return ""
    return "\n\n".join(plain(rows(results)) for rows in (seed_rows, step_rows, time_rows))


# ---- chart ----

COLOURS = {"stokehold": "#c8501e", "torch": "#4a78a8"}
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 400, 300, 56, 34, 46, 40


def ticks(most, about=5):
    """Round values from 0 to `most`."""
    rough = most / about
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 2.5, 5, 10) if power * k >= rough)
    return [step * k for k in range(int(most / step + 1e-9) + 1)]


def number(value):
    return f"{value:g}"


def panel(results, index, title, place):
    """mIoU of every seed as a line with its evaluations as dots; place(point) gives x."""
    runs = complete(results)
    lines = [(side, [(place(point), point[2]) for point in curve(run[side], "train_seconds")]) for run in runs for side in SIDES]
    most_x = max(x for _, points in lines for x, _ in points)
    most_y = max(y for _, points in lines for _, y in points) * 1.05
    left, right, base = LEFT + index * (WIDTH + GAP), index * (WIDTH + GAP) + WIDTH, HEIGHT - BOTTOM
    at = lambda x, y: (left + (right - left) * x / most_x, base - (base - TOP) * y / most_y)
    out = [f'<text x="{left}" y="20" font-weight="bold">{html.escape(title)}</text>']
    for value in ticks(most_y):
        y = at(0, value)[1]
        out += [f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#dddddd"/>',
                f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>']
    for value in ticks(most_x):
        x = at(value, 0)[0]
        out += [f'<line x1="{x:.1f}" y1="{base}" x2="{x:.1f}" y2="{base + 5}" stroke="#888888"/>',
                f'<text x="{x:.1f}" y="{base + 20}" text-anchor="middle">{number(value)}</text>']
    for side, points in lines:
        places = [at(x, y) for x, y in points]
        out.append(f'<polyline fill="none" stroke="{COLOURS[side]}" stroke-width="1.6" points="'
                   + " ".join(f"{x:.1f},{y:.1f}" for x, y in places) + '"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{COLOURS[side]}"/>' for x, y in places]
    return out


def svg(results):
    width = 2 * WIDTH + GAP + 16
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="13">', f'<rect width="{width}" height="{HEIGHT}" fill="#ffffff"/>']
    out += panel(results, 0, "validation mIoU over steps", lambda point: point[1])
    out += panel(results, 1, "validation mIoU over minutes (steps alone)", lambda point: point[0] / 60)
    for index, side in enumerate(SIDES):
        x = LEFT + index * 130
        out += [f'<rect x="{x}" y="{HEIGHT - 14}" width="22" height="4" fill="{COLOURS[side]}"/>',
                f'<text x="{x + 28}" y="{HEIGHT - 7}">{TITLES[side]}</text>']
    return "\n".join([*out, "</svg>", ""])


# ---- page ----

def recipe_text(recipe):
    epochs = recipe["steps"] / recipe["batches_per_epoch"]
    weights = ", ".join(map(str, recipe["class_weights"]))
    return (f"{recipe['model']} from scratch, pictures of {recipe['height']}x{recipe['width']}, batches of {recipe['batch']}, "
            f"{recipe['steps']} steps ({epochs:.0f} epochs); AdamW, learning rate {recipe['lr']:g} (head x{recipe['head_lr']:g}), "
            f"{recipe['warmup']} steps of warm-up, then poly {recipe['power']:g} to 0, weight decay {recipe['weight_decay']:g} but for "
            f"norms, gradients clipped at {recipe['clip_norm']:g}; cross-entropy at the size of the pictures, classes weighted "
            f"{weights}; dropout {recipe['dropout']:g}, drop path {recipe['drop_path']:g}; augmentation `{recipe['augment']}`")


def form_text(results):
    trial = ", ".join(f"{form} {ms:.0f} ms per step" for form, ms in results["forms"].items())
    chosen = f"Its form is {results['form']}" + (f", the fastest in a trial before the run ({trial})" if trial else "")
    return chosen + (", with tcmalloc and huge pages." if results.get("tcmalloc") else ", with glibc's malloc.")


def gradient_section(rows, made):
    """What bench/gradient_error measured, its cells as text under GRADIENT_HEAD."""
    return "\n".join([
        GRADIENTS, "", f"Made by `bench/gradient_error` ({made}).", "",
        "The training above, without weights of classes: at some of its steps both sides compute the gradients of the same batch from the "
        "same weights in float32, and PyTorch once more in float64. Over all parameters whose gradient is not 0: the error's L2 norm "
        "relative to the gradient's, its part along the gradient, the share of signs that are wrong. A single value of the head "
        "within rounding of the ReLU's 0, one of 3.5 million, makes an error of 5e-6 and more on the side that takes it the other "
        "way, whichever that is.", "", *markdown(rows), EARLIER, ""])


def gradients_of(page_text):
    """That section of a page; empty where it has none."""
    _, found, rest = page_text.partition(GRADIENTS)
    return found + rest.partition("## Machine")[0] if found else ""


def with_gradients(page_text, section):
    """The page with that section, before the last one."""
    return page_text.replace(gradients_of(page_text), "").replace("## Machine", section.rstrip() + "\n\n## Machine")


def page(runs, charts, gradients):
    """charts: a file name for each of the runs; gradients: that section."""
    first = runs[0]
    machine, versions = first["machine"], first.get("versions", {})
    lines = ["# Training on real pictures, against PyTorch", "",
             f"Made by `{COMMAND}` (`--help` says how to make it again); do not edit by hand.", "",
             "CamVid, 367 road scenes to learn from, 101 to judge by, 11 classes. The same training here and in PyTorch with "
             "Transformers' SegformerForSemanticSegmentation: does it learn the same, and how long does each take to get there?", ""]
    for results in runs:
        lines += [f"- {line}." for line in verdict(results)]
    lines += ["", "## What was compared", "", f"- Recipe: {recipe_text(first['recipe'])}.",
              "- The same start: weights as Transformers initialises them, saved once per seed and loaded by both. The same batches in the "
              "same order: `stoke dump` writes the numbers that `stoke train` feeds to its network, PyTorch reads them. "
              "Nothing is random after that, so the first losses of both must agree to rounding; the script checks it. Later the two "
              "part: differences in the last bit grow ten times every 10 to 15 steps.",
              f"- How far apart rounding alone carries two runs: initial weights changed by 1e-6 of their size, in Stokehold, give runs that "
              f"end with a standard deviation of {100 * SPREAD_MIOU:.1f} points of mIoU, and of {100 * SPREAD_LOSS:.1f} % of the loss of steps 241 to "
              f"1200 (6 runs). PyTorch's own runs part from each other as fast. So {len(complete(first))} seeds tell no difference below "
              f"{100 * resolved(first, SPREAD_MIOU):.1f} points or {100 * resolved(first, SPREAD_LOSS):.1f} %, and a run that is ahead stays "
              "ahead for hundreds of steps by chance.",
              "- The same judge: after every turn the 101 validation pictures at the size of training, one matrix of counts over all "
              "pixels that have a class, mean of the classes' IoU.",
              "- Turns: both take the steps up to the next evaluation, and that evaluation, one after the other under a lock, so that a noisy "
              "machine hits both alike. Two threads each.",
              "- Time to a mIoU is where the line between two evaluations crosses it.", "",
              "## What favours whom", "",
              "- PyTorch: its batches lie decoded and normalised in memory before its clock starts, while Stokehold's time contains reading, "
              "decoding and augmenting. Its process stays alive; importing, loading and two steps and an evaluation to warm up are not counted. Stokehold's time with "
              f"evaluation contains ending, saving and resuming the run at every turn. {form_text(first)}",
              "- Stokehold: the recipe was chosen by the validation mIoU of trials with Stokehold (smaller pictures, fewer steps); none "
              "was made with PyTorch. It is an ordinary one.", ""]
    for results, chart in zip(runs, charts):
        if not complete(results):
            continue
        lines += [f"## {results['precision']}", "", f"![curves]({chart})", "", *markdown(seed_rows(results)),
                  *markdown(time_rows(results)), *markdown(step_rows(results)), *markdown(class_rows(results))]
    return "\n".join([*lines, gradients + "## Machine", "",
                      f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}, {machine['system']}; {first['date']}; "
                      + ", ".join(f"{key} {value}" for key, value in versions.items()) + f"; {first['stoke']}.", ""])
