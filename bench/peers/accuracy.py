# SPDX-License-Identifier: Apache-2.0
"""The same training on both sides, in turns: what bench/time_to_accuracy measures.

A turn is the steps from one evaluation to the next, and that evaluation. Both sides take it one after the other under a lock,
so that a noisy machine hits both alike: Stokehold by `stoke train --stop-after` and `--resume`, PyTorch in a process that
stays alive and waits."""
import json
import math
import os
import shutil
import statistics
import subprocess
import time

import live
import runner

FORMS = ["eager", "channels_last", "compile"]
TRIAL_STEPS = 6  # per form of PyTorch, before the fastest is chosen; the first two do not count
TRIAL_WARM = 2

# CamVid, b0 from scratch. No dropout and no drop path: in so short a training they only cost accuracy, and without them
# the first losses of both sides must agree to rounding, which is checked (see `same_start`). Classes count by one over the
# root of their share of the pixels (mean 1): poles, signs, people are 1 % of a road scene each, and 5 of the 11 in a mean IoU.
RECIPE = {"model": "b0", "classes": 11, "ignore_index": 11, "height": 144, "width": 192, "batch": 8, "steps": 1800,
          "evaluate_every": 120, "lr": 1e-3, "head_lr": 1.0, "weight_decay": 0.01, "warmup": 90, "power": 1.0,
          "clip_norm": 1.0, "dropout": 0.0, "drop_path": 0.0,
          "class_weights": [0.34, 0.29, 1.4, 0.25, 0.66, 0.45, 1.3, 1.32, 0.58, 1.69, 2.73],
          "augment": "random_resized_crop(scale=0.5..1,ratio=1.1..1.6),hflip(p=0.5),"
                     "color_jitter(p=0.5,brightness=0.3,contrast=0.3,saturation=0.3,hue=0.05)"}
SHORT = {"steps": 8, "evaluate_every": 4, "warmup": 2, "height": 48, "width": 64, "batch": 4}
FIRST_STEPS, FIRST_TOLERANCE = 3, 2e-3  # losses that must agree, and how well


# ---- what both sides read ----

def data_flags(recipe, folder, seed):
    return ["--data", folder, "--classes", str(recipe["classes"]), "--ignore-index", str(recipe["ignore_index"]),
            "--size", f"{recipe['height']}x{recipe['width']}", "--batch", str(recipe["batch"]), "--seed", str(seed)]


def call(command):
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise runner.Failed(runner.reason(run.stderr))
    return run.stdout


def dump(stoke, flags, out):
    """Batches as .npy files: float32, normalised, CHW, the very numbers that `stoke train` feeds to its network."""
    call([stoke, "dump", *flags, "--dtype", "f32", "--normalize", "imagenet", "--mask-dtype", "u8", "--batches", "0",
          "--out", out, "--quiet"])


def dump_epochs(stoke, recipe, folder, seed, out, wanted):
    """The epochs a turn needs; those of turns before are removed. Returns the number of batches in one."""
    batches = 0
    for name in os.listdir(out):
        if int(name.removeprefix("epoch_")) not in wanted:
            shutil.rmtree(os.path.join(out, name))
    for epoch in wanted:
        target = os.path.join(out, f"epoch_{epoch}")
        if not os.path.exists(os.path.join(target, "index.json")):
            dump(stoke, [*data_flags(recipe, folder, seed), "--split", "train", "--epoch", str(epoch), "--drop-last",
                         "--augment", recipe["augment"]], target)
        with open(os.path.join(target, "index.json"), encoding="utf-8") as index:
            batches = len(json.load(index)["batches"])
    return batches


# ---- the two sides ----

class Torch:
    """PyTorch in one of its forms; a command is answered with what it measured."""

    def __init__(self, python, recipe_file, form):
        self.peer = live.Peer(python, "train_peer", recipe_file, form)

    def ask(self, *words):
        return json.loads(self.peer.ask("\t".join(map(str, words))))

    def turn(self, first, last, batches, validation):
        trained = self.ask("train", first, last, batches)
        evaluated = self.ask("evaluate", validation)
        return {"step": last, "train_seconds": trained["seconds"], "seconds": trained["seconds"] + evaluated["seconds"],
                "losses": trained["losses"], "lr": trained["lr"], "iou": iou_of(evaluated["confusion"]),
                "cpu_seconds": trained["cpu_seconds"] + evaluated["cpu_seconds"]}

    def end(self):
        self.peer.end()


class Stokehold:
    """`stoke train`, left after every evaluation and resumed: starting, loading and saving its state count as its time."""

    def __init__(self, stoke, recipe, folder, seed, weights, runs):
        name = f"seed_{seed}"
        shutil.rmtree(os.path.join(runs, name), ignore_errors=True)
        self.folder = os.path.join(runs, name)
        settings = {"model": recipe["model"], "pretrained": weights, "steps": recipe["steps"], "precision": recipe["precision"],
                    "lr": recipe["lr"], "head-lr": recipe["head_lr"], "weight-decay": recipe["weight_decay"],
                    "warmup": recipe["warmup"], "schedule": "poly", "power": recipe["power"], "clip-norm": recipe["clip_norm"],
                    "dropout": recipe["dropout"], "drop-path": recipe["drop_path"], "augment": recipe["augment"],
                    "class-weights": ",".join(map(str, recipe["class_weights"])), "eval-every": recipe["evaluate_every"],
                    "log-every": 1, "threads": 2, "runs": runs, "name": name}
        self.command = [stoke, "train", "--quiet", "--stop-after", str(recipe["evaluate_every"])]
        self.start = [*data_flags(recipe, folder, seed), "--drop-last", "--no-pictures", "--no-tensorboard"]
        self.start += [word for key, value in settings.items() for word in ("--" + key, str(value))]

    def turn(self, first, last):
        start, own = time.monotonic(), runner.children_seconds()
        call(self.command + (["--resume", self.folder] if first else self.start))
        seconds = time.monotonic() - start
        with open(os.path.join(self.folder, "log.jsonl"), encoding="utf-8") as lines:
            log = [json.loads(line) for line in lines]
        steps = [line for line in log if line["kind"] == "step" and first < line["step"] <= last]
        found = [line for line in log if line["kind"] == "eval" and line["step"] == last]
        if len(steps) != last - first or not found:
            raise runner.Failed(f"the log has {len(steps)} of the steps {first + 1} to {last}, {len(found)} evaluations")
        return {"step": last, "train_seconds": sum(line["seconds"] for line in steps), "seconds": seconds,
                "data_seconds": sum(line["data_seconds"] for line in steps), "losses": [line["loss"] for line in steps],
                "lr": steps[-1]["lr"], "iou": iou_of(found[-1]["confusion"]), "cpu_seconds": runner.children_seconds() - own}


def iou_of(counts):
    """Per class; None for one that occurs neither in truth nor in prediction. The same arithmetic for both sides."""
    classes = range(len(counts))
    unions = [sum(counts[c]) + sum(counts[k][c] for k in classes) - counts[c][c] for c in classes]
    return [counts[c][c] / unions[c] if unions[c] else None for c in classes]


def mean_iou(iou):
    counted = [value for value in iou if value is not None]
    return sum(counted) / len(counted) if counted else math.nan


# ---- a run ----

def locked(turn, *words):
    """A turn by itself among those who take the lock, with the cores that others used meanwhile."""
    with runner.alone():
        start, busy = time.monotonic(), runner.busy_seconds()
        result = turn(*words)
        spent = time.monotonic() - start
        others = runner.busy_seconds() - busy - result.pop("cpu_seconds")
    return {**result, "others": max(0.0, others / spent)}


def same_start(ours, theirs):
    """Same weights, same batches, same order, nothing random: the first losses agree to rounding, or the recipes differ."""
    for number, (a, b) in enumerate(zip(ours["losses"][:FIRST_STEPS], theirs["losses"]), 1):
        if not abs(a - b) <= FIRST_TOLERANCE * abs(b):
            raise runner.Failed(f"the losses of step {number} are {a:.5f} here and {b:.5f} in PyTorch: not the same training")
    if not math.isclose(ours["lr"], theirs["lr"], rel_tol=1e-5):
        raise runner.Failed(f"the learning rates are {ours['lr']:g} here and {theirs['lr']:g} in PyTorch")


class Run:
    """Both sides on one seed."""

    def __init__(self, args, recipe, seed, say):
        self.args, self.recipe, self.seed, self.say = args, recipe, seed, say
        self.batches, self.validation, self.weights, self.recipe_file = (
            os.path.join(args.work, name) for name in ("batches", "validation", "weights", "recipe.json"))
        for folder in (self.batches, self.validation, self.weights):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)

    def prepare(self):
        """Validation pictures, first epoch, initial weights: what is there before the first turn."""
        flags = data_flags(self.recipe, self.args.data, self.seed)
        dump(self.args.stoke, [*flags, "--split", "val", "--order", "sequential", "--augment", "none"], self.validation)
        self.recipe["batches_per_epoch"] = dump_epochs(self.args.stoke, self.recipe, self.args.data, self.seed, self.batches, [0])
        with open(self.recipe_file, "w", encoding="utf-8") as stream:
            json.dump(self.recipe, stream)
        torch = Torch(self.args.python, self.recipe_file, "eager")
        try:
            torch.ask("init", self.seed, self.weights)
        finally:
            torch.end()

    def fastest_form(self, forms):
        """Steps of each form of PyTorch by itself; the fastest goes into the run. Its name, and ms per step of each."""
        times = {}
        for form in forms:
            torch = None
            try:
                torch = Torch(self.args.python, self.recipe_file, form)
                torch.ask("load", self.weights)
                ms = locked(torch.ask, "train", 0, TRIAL_STEPS, self.batches)["ms"][TRIAL_WARM:]
                times[form] = statistics.median(ms)
                self.say(f"PyTorch {form}: {times[form]:.0f} ms per step")
            except (runner.Failed, OSError) as why:
                self.say(f"PyTorch {form}: left out: {why}")
            finally:
                if torch:
                    torch.end()
        if not times:
            raise runner.Failed("no form of PyTorch runs")
        return min(times, key=times.get), times

    def both(self, form, keep):
        """All turns of both sides; keep() is called after each."""
        recipe, entry = self.recipe, {"seed": self.seed, "stokehold": [], "torch": []}
        ours = Stokehold(self.args.stoke, recipe, self.args.data, self.seed, self.weights, os.path.join(self.args.work, "runs"))
        torch = Torch(self.args.python, self.recipe_file, form)
        try:
            torch.ask("load", self.weights)
            torch.ask("warm", self.batches, self.validation)
            for first in range(0, recipe["steps"], recipe["evaluate_every"]):
                last = min(first + recipe["evaluate_every"], recipe["steps"])
                per_epoch = recipe["batches_per_epoch"]
                dump_epochs(self.args.stoke, recipe, self.args.data, self.seed, self.batches,
                            range(first // per_epoch, (last - 1) // per_epoch + 1))
                for name, turn in (("stokehold", locked(ours.turn, first, last)),
                                   ("torch", locked(torch.turn, first, last, self.batches, self.validation))):
                    entry[name].append(turn)
                    self.say(f"seed {self.seed}, step {last}  {name}: mIoU {mean_iou(turn['iou']):.4f}, "
                             f"loss {sum(turn['losses']) / len(turn['losses']):.4f}, {turn['train_seconds']:.1f} s of steps, "
                             f"{turn['seconds']:.1f} s in all, others {turn['others']:.2f} cores")
                if not first:
                    same_start(entry["stokehold"][0], entry["torch"][0])
                keep(entry)
        finally:
            torch.end()
        return entry
