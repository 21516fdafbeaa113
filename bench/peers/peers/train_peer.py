# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/time_to_accuracy, kept alive over the turns: `python -m peers.train_peer RECIPE.json FORM`.

  init SEED FOLDER           writes the initial weights, as Transformers makes them, for both sides
  load FOLDER                starts from them
  warm BATCHES VALIDATION    two steps and an evaluation, forgotten again: compiling and first allocations are not timed
  train FIRST LAST FOLDER    takes steps FIRST .. LAST - 1 on the dumped batches in FOLDER
  evaluate FOLDER            the matrix of counts over the dumped validation batches in FOLDER

Every command is answered by a line of JSON. Batches are read into memory before the clock starts: to PyTorch, data is free."""
import contextlib
import glob
import json
import os
import resource
import sys
import time

import numpy as np
import torch
import torch.nn.functional as functional
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from peers.step_peer import SIZES, THREADS

NORMS = (torch.nn.LayerNorm, torch.nn.BatchNorm2d)


def learning_rate(recipe, step):
    """Linear warm-up, then poly: stk_train_lr."""
    warmup, steps = recipe["warmup"], recipe["steps"]
    if step < warmup:
        return recipe["lr"] * (step + 1) / warmup
    return recipe["lr"] * (1 - (step - warmup) / (steps - warmup)) ** recipe["power"]


def read_batches(folder, first=0, last=None):
    """Batches first .. last - 1 of a dump, as tensors: pictures as they are, masks as the loss wants them."""
    names = sorted(glob.glob(os.path.join(folder, "images_*.npy")))[first:last]
    return [(torch.from_numpy(np.load(name)),
             torch.from_numpy(np.load(name.replace("images_", "masks_")).astype(np.int64))) for name in names]


def at_full_size(logits, masks):
    """As Transformers' own loss does it, which knows no weights of classes."""
    return functional.interpolate(logits.float(), size=masks.shape[1:], mode="bilinear", align_corners=False)


class Trainer:
    def __init__(self, recipe, form):
        self.recipe, self.form = recipe, form
        bf16 = recipe["precision"] == "bf16"
        self.cast = (lambda: torch.autocast("cpu", dtype=torch.bfloat16)) if bf16 else contextlib.nullcontext
        self.weight = torch.tensor(recipe["class_weights"])
        self.net = self.optimizer = None

    def init(self, seed, folder):
        torch.manual_seed(int(seed))
        recipe = self.recipe
        config = SegformerConfig(num_labels=recipe["classes"], classifier_dropout_prob=recipe["dropout"],
                                 drop_path_rate=recipe["drop_path"], semantic_loss_ignore_index=recipe["ignore_index"],
                                 **SIZES[recipe["model"]])
        SegformerForSemanticSegmentation(config).save_pretrained(folder)
        return {}

    def groups(self):
        """The paper's: no decay for norms, a factor on the rate of the head."""
        norms = {id(p) for module in self.net.modules() if isinstance(module, NORMS) for p in module.parameters()}
        groups = {}
        for name, parameter in self.net.named_parameters():
            key = (self.recipe["head_lr"] if name.startswith("decode_head.") else 1.0,
                   0.0 if id(parameter) in norms else self.recipe["weight_decay"])
            groups.setdefault(key, []).append(parameter)
        return [{"params": parameters, "factor": factor, "weight_decay": decay}
                for (factor, decay), parameters in groups.items()]

    def load(self, folder):
        self.net = SegformerForSemanticSegmentation.from_pretrained(folder).train()
        if self.form == "channels_last":
            self.net = self.net.to(memory_format=torch.channels_last)
        self.restart()
        if self.form == "compile":  # the encoder alone: the whole is slower to train
            self.net.segformer = torch.compile(self.net.segformer)
        return {}

    def restart(self):
        self.optimizer = torch.optim.AdamW(self.groups(), lr=self.recipe["lr"], betas=(0.9, 0.999), eps=1e-8, fused=True)

    def warm(self, batches, validation):
        start = {name: value.clone() for name, value in self.net.state_dict().items()}
        self.train(0, 2, batches)
        self.evaluate(validation)
        self.net.load_state_dict(start)
        self.restart()
        return {}

    def placed(self, pictures):
        return pictures.contiguous(memory_format=torch.channels_last) if self.form == "channels_last" else pictures

    def step(self, number, pictures, masks):
        for group in self.optimizer.param_groups:
            group["lr"] = group["factor"] * learning_rate(self.recipe, number)
        with self.cast():
            logits = self.net(pixel_values=self.placed(pictures)).logits
        loss = functional.cross_entropy(at_full_size(logits, masks), masks, self.weight, ignore_index=self.recipe["ignore_index"])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.recipe["clip_norm"])
        self.optimizer.step()
        return loss.item()

    def train(self, first, last, folder):
        first, last = int(first), int(last)
        per_epoch = self.recipe["batches_per_epoch"]
        batches = {}
        for epoch in range(first // per_epoch, (last - 1) // per_epoch + 1):
            inside = [max(first, epoch * per_epoch), min(last, (epoch + 1) * per_epoch)]
            found = read_batches(os.path.join(folder, f"epoch_{epoch}"), *(step - epoch * per_epoch for step in inside))
            batches.update(zip(range(*inside), found))
        self.net.train()
        start, losses, ms = time.perf_counter(), [], []
        for number in range(first, last):
            before = time.perf_counter()
            losses.append(self.step(number, *batches[number]))
            ms.append(1000 * (time.perf_counter() - before))
        return {"seconds": time.perf_counter() - start, "losses": losses, "ms": ms,
                "lr": learning_rate(self.recipe, last - 1)}

    def evaluate(self, folder):
        classes, batches = self.recipe["classes"], read_batches(folder)
        self.net.eval()
        start, counts = time.perf_counter(), torch.zeros(classes * classes, dtype=torch.int64)
        with torch.inference_mode():
            for pictures, masks in batches:
                with self.cast():
                    logits = self.net(pixel_values=self.placed(pictures)).logits
                known = masks != self.recipe["ignore_index"]
                found = at_full_size(logits, masks).argmax(1)
                counts += torch.bincount(masks[known] * classes + found[known], minlength=classes * classes)
        return {"seconds": time.perf_counter() - start, "confusion": counts.reshape(classes, classes).tolist()}


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    with open(sys.argv[1], encoding="utf-8") as stream:
        trainer = Trainer(json.load(stream), sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")  # what libraries print must not get between the answers
    os.dup2(2, 1)
    torch.set_num_threads(THREADS)
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        name, *words = line.rstrip("\n").split("\t")
        before = cpu_seconds()
        commands = {"init": trainer.init, "load": trainer.load, "warm": trainer.warm, "train": trainer.train, "evaluate": trainer.evaluate}
        answer = commands[name](*words)
        answer["cpu_seconds"] = cpu_seconds() - before
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
