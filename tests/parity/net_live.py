# SPDX-License-Identifier: Apache-2.0
"""Live parity of the network with transformers' SegformerForSemanticSegmentation: logits, loss, the gradient of every
parameter, running statistics, ten AdamW steps with the paper's groups, and the trained weights back in from_pretrained; from
the same weights and batches.

    net_live.py TOOL [--quick | --markdown]

The reference is torch in float64; how far torch's own float32 is from it stands next to every distance of ours ("torch").
--quick: small cases of b0. --markdown: the table of docs/parity.md after the results.
Skips where torch or transformers is not installed (STOKE_TORCH_PYTHON may name an interpreter that has them)."""
import sys
import tempfile
import warnings

import numpy as np

import parity
from net_parity import LR, dead, distance, run_tool

# Relative L2 of a tensor. Where no value is near the decoder's ReLU (net_torch.part_relu) the two sides differ by rounding
# alone: 1e-5, or four times what torch's own float32 is off at worst in that case (two draws of rounding may differ that
# much). That is more, up to 7e-5 in torch, where sums nearly cancel: almost all that the last block's biases add is taken
# away by the norms above. The middle tensor and all as one have to keep 1e-5. Where values are near 0 a mask may flip, and
# one element of it moves a tensor by 1e-5 to 1e-3.
PARTED, FLIPPING = 1e-5, 1e-3


class Report:
    """Results as test points, and rows for the table."""

    def __init__(self):
        self.tap = parity.Tap()
        self.rows = []

    def within(self, what, measure, ours, limit, theirs=None, where=None, count=None):
        words = f"{what}: {measure} within {limit:.1e} ({ours:.1e}{', ' + where if where else ''}"
        self.tap.ok(ours <= limit, words + (f"; torch {theirs:.1e})" if theirs is not None else ")"))
        self.rows.append((what, measure, count, ours, where, theirs, limit))

    def markdown(self):
        """A row per case, `ours / torch's` in each cell."""
        for starts in (("logits", "gradient of every tensor", "the middle one", "all gradients", "losses of", "weights after",
                        "logits of from_pretrained"),
                       ("bf16: gradients", "bf16: logits", "fp16: gradients", "fp16: logits")):
            table = {}
            for what, measure, count, ours, where, theirs, _ in self.rows:
                column = next((start for start in reversed(starts) if measure.startswith(start)), None)
                if column:
                    cell = f"{ours:.1e}" + (f" / {theirs:.1e}" if theirs is not None else "")
                    at = f", `{where}`" if where and column.startswith("gradient") else ""
                    table.setdefault(what, {})[column] = cell + (f" ({count}{at})" if column.startswith("gradient") else "")
            print(f"\n| case | {' | '.join(starts)} |\n|{'---|' * (len(starts) + 1)}")
            for what, cells in table.items():
                print(f"| {what} | {' | '.join(cells.get(start, '') for start in starts)} |")


def together(results, keys):
    return np.concatenate([results[key] for key in keys])


def compare_gradients(report, what, ours, single, double, limit):
    keys = [key for key in double if key.startswith("gradient:")]
    missing = [key for key in keys if key not in ours]
    report.tap.ok(not missing and len(keys) == sum(key.startswith("gradient:") for key in ours),
                  f"{what}: {len(keys)} gradients on both sides{', missing ' + missing[0] if missing else ''}")
    if missing:
        return
    live = [key for key in keys if not dead(key)]
    off = {key: distance(ours[key], double[key]) for key in live}
    own = {key: distance(single[key], double[key]) for key in live}
    worst, their_worst = max(live, key=off.get), max(own.values())
    each = max(limit, 4 * their_worst) if limit == PARTED else limit
    report.within(what, "gradient of every tensor", off[worst], each, their_worst, worst[9:], len(live))
    middle = [float(np.median(list(values.values()))) for values in (off, own)]
    report.within(what, "the middle one of them", middle[0], limit, middle[1], None, len(live))
    report.within(what, "all gradients as one", distance(together(ours, live), together(double, live)), limit,
                  distance(together(single, live), together(double, live)), None, len(live))
    scale = max(float(np.abs(double[key]).max()) for key in live)
    gone = [key for key in keys if dead(key)]
    size = [max(float(np.abs(results[key]).max()) for key in gone) / scale for results in (ours, single)]
    report.within(what, "gradients that are 0, of the largest", size[0], limit, size[1], None, len(gone))


def compare_training(report, what, ours, single, double, steps):
    def losses(results):
        return float(np.abs(results["losses"][:steps] / double["losses"][:len(results["losses"])] - 1).max())
    whole = len(single["losses"]) == steps  # torch's float32 may have made the first step only
    report.within(what, "first loss", abs(ours["losses"][0] / double["losses"][0] - 1), 1e-6,
                  abs(single["losses"][0] / double["losses"][0] - 1))
    running = [max(distance(results[key], double[key]) for key in double if key.startswith("running:"))
               for results in (ours, single)]
    report.within(what, "running statistics", running[0], 1e-5, running[1], None, 2)
    report.within(what, "norm of the gradients", abs(ours["norms"][0] / double["norms"][0] - 1), 1e-5,
                  abs(single["norms"][0] / double["norms"][0] - 1))
    if steps == 1:
        return
    # After the first step masks do flip, and AdamW divides small gradients by their own size, rounding and all: torch's
    # float32 ends 4e-4 from its float64 in such a case, its losses 1e-4.
    report.within(what, f"losses of {steps} steps", losses(ours), 1e-3, losses(single) if whole else None)
    keys = [key for key in double if key.startswith("weight:") and not dead(key)]
    off = {key: distance(ours[key], double[key]) for key in keys}
    worst = max(keys, key=off.get)
    own = max(distance(single[key], double[key]) for key in keys) if whole else None
    report.within(what, f"weights after {steps} steps", off[worst], 1e-3, own, worst[7:], len(keys))


def compare_trained(report, what, torch, folder, batch, logits):
    """The folder we saved after training, as anyone would load it."""
    from transformers import SegformerForSemanticSegmentation
    net, info = SegformerForSemanticSegmentation.from_pretrained(folder, output_loading_info=True)
    complaints = {key: value for key, value in info.items() if value}
    report.tap.ok(not complaints, f"{what}: from_pretrained misses nothing and finds nothing unexpected {complaints or ''}")
    with torch.no_grad():
        theirs = net.eval()(pixel_values=torch.from_numpy(batch[0])).logits.permute(0, 2, 3, 1).reshape(-1).numpy()
    report.within(what, "logits of from_pretrained", distance(logits, theirs), 1e-5, None,
                  f"max abs {np.abs(logits - theirs).max():.1e} of {np.abs(theirs).max():.1f}")


def check(report, model, batch, size, classes, steps=10, accumulate=1, clip=0.0, seed=1, what=None, parted=True,
          single_steps=1, **extra):
    import net_torch as other
    torch = other.torch
    height, width = size
    what = what or f"{model} {batch}x{height}x{width}, {classes} classes"
    net = other.make_model(model, classes, seed)
    batches = other.make_batches(max(2, accumulate), batch, height, width, classes, seed)
    if steps and parted:
        other.part_relu(net, batches)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as trained:
        net.save_pretrained(folder)
        ours = run_tool(report.tool, batches, weights=folder, size=f"{height}x{width}", batch=batch, steps=steps,
                        accumulate=accumulate, lr=LR, clip=clip, save_trained=trained, **extra)
        if steps:
            compare_trained(report, what, torch, trained, batches[0], ours["trained logits"])
    old = other.renamed(net)
    double = other.run_torch(net, old, batches, steps, accumulate, clip, torch.float64)
    single = other.run_torch(net, old, batches, min(steps, single_steps), accumulate, clip)
    report.within(what, "logits", distance(ours["logits"], double["logits"]), 1e-5,
                  distance(single["logits"], double["logits"]))
    if steps:
        compare_gradients(report, what, ours, single, double, PARTED if parted else FLIPPING)
        compare_training(report, what, ours, single, double, steps)


def has_autocast(torch, dtype):
    """1.13's leaves layer norms to the kind they get, which fails, and knows no float16 on a processor: it warns and goes on in
    float32."""
    x = torch.ones(1, 4)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with torch.no_grad(), torch.autocast("cpu", dtype):
                torch.nn.LayerNorm(4)(torch.nn.Linear(4, 4)(x))
        return True
    except (RuntimeError, UserWarning):
        return False


def check_precision(report, model, batch, size, classes, wide):
    """16-bit activations against our own f32, which the other checks tie to torch. The measure is how far torch's gradients
    move under autocast: bf16 and fp16 both round, then masks of the ReLU flip, about one in 2000 values for bf16, and the
    square root of that is the distance of all that lies below (with values kept off 0, fp16 is ten times closer)."""
    import net_torch as other
    torch = other.torch
    batches = other.make_batches(1, batch, *size, classes, 7)
    net = other.make_model(model, classes, 7, wide)
    old = other.renamed(net)
    what = f"{model} {batch}x{size[0]}x{size[1]}, {classes} classes, {'wide' if wide else 'initial'} weights"
    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder)
        common = dict(weights=folder, size=f"{size[0]}x{size[1]}", batch=batch, steps=1)
        exact, bf16, fp16 = (run_tool(report.tool, batches, precision=precision, **common) for precision in range(3))
    live = [key for key in exact if key.startswith("gradient:") and not dead(key)]
    goal = together(exact, live)
    for name, ours, dtype, scale in (("bf16", bf16, torch.bfloat16, 1.0), ("fp16", fp16, torch.float16, 65536.0)):
        loss = abs(float(ours["losses"][0] / exact["losses"][0]) - 1)
        if not has_autocast(torch, dtype):
            report.within(what, f"{name}: loss, to fp32's", loss, 1e-3)
            report.tap.skip(f"{what}: {name}: gradients and logits, to fp32's",
                            f"torch {torch.__version__} has no autocast for {name} on the processor to measure by")
            continue
        theirs = other.run_torch(net, old, batches, 1, autocast=dtype)
        own = distance(together(theirs, live), goal)
        report.within(what, f"{name}: gradients, to fp32's", distance(together(ours, live) / scale, goal), own, own, None,
                      len(live))
        own = distance(theirs["logits"], exact["logits"])
        report.within(what, f"{name}: logits, to fp32's", distance(ours["logits"], exact["logits"]), own, own)
        report.within(what, f"{name}: loss, to fp32's", loss, 1e-3, abs(float(theirs["losses"][0] / exact["losses"][0]) - 1))


def check_quick(report):
    check(report, "b0", 2, (64, 96), 19, steps=3)
    check(report, "b0", 1, (97, 131), 3, steps=1)
    check(report, "b0", 2, (64, 64), 1, steps=1, what="b0 2x64x64, 1 class")
    check(report, "b0", 2, (64, 64), 5, steps=1, accumulate=2, what="b0 2 x 2x64x64, gradients of two batches")
    check_precision(report, "b0", 2, (64, 64), 19, False)


def check_all(report):
    check(report, "b0", 2, (64, 96), 19, single_steps=10)
    check(report, "b2", 2, (64, 64), 7, single_steps=10)
    check(report, "b5", 1, (64, 64), 3, steps=1)
    for model in ("b1", "b3", "b4"):
        check(report, model, 1, (64, 96), 19, steps=0)
    check(report, "b0", 2, (64, 64), 1, single_steps=10, what="b0 2x64x64, 1 class")
    check(report, "b0", 2, (97, 131), 3, steps=2)
    check(report, "b0", 1, (128, 96), 150, steps=2)
    check(report, "b0", 4, (128, 128), 4, steps=2, clip=0.5, what="b0 4x128x128, 4 classes, clipped")
    check(report, "b0", 4, (128, 128), 4, steps=1, parted=False, what="b0 4x128x128, 4 classes, values next to the ReLU's 0")
    check(report, "b0", 2, (64, 64), 5, steps=2, accumulate=2, what="b0 2 x 2x64x64, gradients of two batches")
    for memory, name in ((1, "lean"), (2, "min")):
        check(report, "b0", 2, (64, 96), 19, steps=2, memory=memory, what=f"b0 2x64x96, memory mode {name}")
    check_precision(report, "b0", 2, (64, 64), 19, False)
    check_precision(report, "b0", 2, (64, 64), 19, True)
    check_precision(report, "b0", 4, (128, 128), 19, False)
    check_precision(report, "b0", 1, (256, 256), 150, False)
    check_precision(report, "b2", 2, (64, 64), 19, False)


def main():
    missing = parity.need("torch", "transformers", "safetensors")
    report = Report()
    if missing:
        report.tap.skip("the network against transformers", f"{missing} is not installed")
        report.tap.done()
    import torch
    import transformers
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)  # maps are small, and threads that spin are slow next to other work
    report.tool = sys.argv[1]
    print(f"# torch {torch.__version__}, transformers {transformers.__version__}; distances are relative, to torch's float64")
    (check_quick if "--quick" in sys.argv[2:] else check_all)(report)
    if "--markdown" in sys.argv[2:]:
        report.markdown()
    report.tap.done()


if __name__ == "__main__":
    main()
