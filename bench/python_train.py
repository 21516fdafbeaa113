#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What loading costs a training: SegFormer b0 in torch, fed by a loader, against the same steps on one batch that stays in memory.

    PYTHONPATH=build/python bench/python_train.py [DIR] [--loaders ours,torch] [--json]

All take turns, a few steps each, in one process with one model, and every round begins with another. `control` is the batch in memory
once more: what it is said to lose is what the machine's own unrest makes of nothing. The share of
step time lost to loading is 1 - (time of a step without loading / time of a step with it): waiting for batches, and what the
workers take from the cores that the step runs on. It is taken of the lower quartiles of all steps, and of every round by itself for the
range that comes with it. A loader that has no turn is idle, its queue full. The first step of a turn does not count: the place of a batch is
filled again when the step is over that held it, so that in every later step one batch is made.

Two more figures come with it: the part of a step in which the loop stood waiting, and the CPU time of making a batch as a share of the
cores' time in a step, which must be lost where the step uses all cores all the time, however good the loader is.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Files:
    """A plain torch Dataset as people write it: PIL, mirrored now and then."""

    def __init__(self, folder, size):
        self.folder, self.size = folder, size
        self.names = sorted(os.listdir(os.path.join(folder, "images")))

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        import random

        import numpy
        import torch
        from PIL import Image, ImageOps
        name = self.names[index]
        image = Image.open(os.path.join(self.folder, "images", name)).convert("RGB").resize((self.size, self.size))
        mask = Image.open(os.path.join(self.folder, "masks", os.path.splitext(name)[0] + ".png"))
        mask = mask.resize((self.size, self.size), Image.NEAREST)
        if random.random() < 0.5:
            image, mask = ImageOps.mirror(image), ImageOps.mirror(mask)
        pixels = (numpy.asarray(image, numpy.float32) / 255 - numpy.float32(MEAN)) / numpy.float32(STD)
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), torch.from_numpy(numpy.asarray(mask).astype(numpy.int64))


def endless(loader):
    while True:
        yield from loader


class Ours:
    """stokehold.Loader."""

    def __init__(self, args):
        import stokehold
        settings = {} if args.workers is None else {"workers": args.workers}
        if args.nice is not None:
            settings["nice"] = args.nice
        self.loader = stokehold.Loader(args.data, batch_size=args.batch, image_size=args.size, augment=args.augment,
                                       normalize="imagenet", mask_dtype="int64", drop_last=True, output="torch", **settings)
        self.batches = endless(self.loader)

    def making(self):
        """CPU milliseconds of making a batch, as far as the loader knows."""
        stats = self.loader.stats()
        work = sum(stage.cpu_ms for name, stage in stats.stages.items() if name not in ("slot wait", "batch wait"))
        return work / max(1, stats.batches + stats.ready)

    def close(self):
        self.loader.close()


class Torch:
    """torch's DataLoader with as many workers as there are cores, as its own warning asks for."""

    def __init__(self, args):
        from torch.utils.data import DataLoader
        self.batches = endless(DataLoader(Files(args.data, args.size), batch_size=args.batch, shuffle=True, drop_last=True,
                                          num_workers=args.torch_workers, persistent_workers=args.torch_workers > 0))

    def making(self):
        return None

    def close(self):
        self.batches = None


KINDS = {"ours": Ours, "torch": Torch}


class Training:
    """The model, and steps on whatever batches come."""

    def __init__(self, classes):
        import torch
        import transformers
        torch.manual_seed(0)
        self.model = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=classes))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=6e-5)

    def run(self, batches, steps):
        """Of every step but the first: its seconds, and of them those spent waiting."""
        times = []
        for _ in range(steps):
            asked = time.perf_counter()
            images, masks = next(batches)
            got = time.perf_counter()
            self.model(pixel_values=images, labels=masks).loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            del images, masks
            times.append((time.perf_counter() - asked, got - asked))
        return times[1:]


def measure(args):
    """Per loader, and for the batch in memory: the steps of every round; and what making a batch takes."""
    training = Training(args.classes)
    loaders = {name: KINDS[name](args) for name in args.loaders.split(",")}
    batch = [part.clone() for part in next(next(iter(loaders.values())).batches)]
    sources = {"memory": endless([batch]), **{name: loader.batches for name, loader in loaders.items()}, "control": endless([batch])}
    names, turns = list(sources), {name: [] for name in sources}
    for number in range(args.rounds + 1):
        for place in range(len(names)):
            name = names[(number + place) % len(names)]
            turn = training.run(sources[name], args.steps)
            if number:  # the first round warms up
                turns[name].append(turn)
            time.sleep(args.rest)  # until queues are full: nobody works ahead in the turn of another
    making = {name: loader.making() for name, loader in loaders.items()}
    for loader in loaders.values():
        loader.close()
    return turns, making


def step_of(turns):
    """Seconds of a step: the lower quartile. Neighbours only ever lengthen a step, and what loading takes is in all of them."""
    return statistics.quantiles((step for turn in turns for step, _ in turn), n=4, method="inclusive")[0]


def summary(args, turns, making):
    import torch
    cores = len(os.sched_getaffinity(0))
    plain = turns.pop("memory")
    result = {"cores": cores, "torch_threads": torch.get_num_threads(), "batch": args.batch, "size": args.size, "steps": args.steps,
              "rounds": args.rounds, "augment": args.augment, "memory_step_ms": step_of(plain) * 1e3, "loaders": {}}
    for name, timed in turns.items():
        rounds = [1 - step_of([without]) / step_of([turn]) for without, turn in zip(plain, timed)]
        low, _, high = statistics.quantiles(rounds, n=4, method="inclusive")
        result["loaders"][name] = {
            "step_ms": step_of(timed) * 1e3, "lost": 1 - step_of(plain) / step_of(timed), "lost_low": low, "lost_high": high,
            "wait": sum(waited for turn in timed for _, waited in turn) / sum(step for turn in timed for step, _ in turn),
            "processor": None if making.get(name) is None else making[name] / 1e3 / (cores * step_of(plain)),
        }
    return result


def text(result):
    lines = [f"{result['cores']} cores, torch with {result['torch_threads']} threads; SegFormer b0, batch {result['batch']} of "
             f"{result['size']}x{result['size']}, {result['rounds']} rounds of {result['steps'] - 1} steps",
             f"a step on a batch in memory: {result['memory_step_ms']:.0f} ms"]
    for name, found in result["loaders"].items():
        bound = "n/a" if found["processor"] is None else f"{found['processor']:.1%}"
        lines.append(f"{name:8}{found['step_ms']:.0f} ms a step, lost {found['lost']:.1%} (half of the rounds: {found['lost_low']:.1%} to "
                     f"{found['lost_high']:.1%}), waiting {found['wait']:.1%}; making a batch takes {bound} of the cores' time")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", help="left out, 128 scenes of 256x256 are drawn; for torch: folders images and masks")
    parser.add_argument("--loaders", default="ours,torch", help="comma-separated: " + ", ".join(KINDS))
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument("--augment", default="standard", help="of ours; the plain loader mirrors only")
    parser.add_argument("--workers", help="of ours (auto)")
    parser.add_argument("--nice", type=int, help="of ours")
    parser.add_argument("--torch-workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--threads", type=int, help="of torch (as many as it takes by itself)")
    parser.add_argument("--steps", type=int, default=4, help="of a turn, the first of which does not count (4)")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--rest", type=float, default=0.3, help="seconds between turns, for queues to fill (0.3)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.steps < 2 or args.rounds < 2:
        parser.error("--steps and --rounds are 2 or more")
    if args.threads:
        import torch
        torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        if not args.data:
            args.data = os.path.join(folder, "set")
            subprocess.run([sys.executable, "-m", "stokehold", "synth", args.data, "--count", "128", "--size", str(args.size),
                            "--quiet"], check=True, stdout=subprocess.DEVNULL)
        result = summary(args, *measure(args))
    print(json.dumps(result, indent=2) if args.json else text(result))


if __name__ == "__main__":
    main()
