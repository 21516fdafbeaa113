# SPDX-License-Identifier: Apache-2.0
"""PyTorch in one process, or in several by DistributedDataParallel over Gloo, kept alive over the turns of ddp.py: rank 0 reads
`go STEPS` on its input, all take so many steps, and rank 0 answers with their times as a line of JSON.
`python -m peers.ddp_peer FORM MODEL BATCH SIZE CLASSES ACCUMULATE`, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT."""
import json
import os
import sys
import time

from peers.step_peer import torch_step

WORLD, RANK = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))


def orders():
    """Numbers of steps, as rank 0 reads them; the others hear them from it."""
    import torch
    lines = sys.stdin if RANK == 0 else iter(lambda: "go 0", None)
    for line in lines:
        steps = torch.tensor([int(line.split()[1])])
        if WORLD > 1:
            torch.distributed.broadcast(steps, 0)
        yield int(steps)


def main():
    import torch
    form, model, *numbers = sys.argv[1:]
    batch, size, classes, accumulate = map(int, numbers)
    answers = os.fdopen(os.dup(1), "w")  # what libraries print must not get between the answers
    os.dup2(2, 1)
    wrap = lambda net: net  # noqa: E731
    if WORLD > 1:
        torch.distributed.init_process_group("gloo")
        wrap = torch.nn.parallel.DistributedDataParallel
    step = torch_step(form, model, batch, size, classes, "step", "fp32", wrap, accumulate)
    for _ in range(2):  # the second builds the buckets of DDP again, in the order of the first
        step()
    print("ready", file=answers, flush=True)
    for steps in orders():
        times = []
        for _ in range(steps):
            before = time.perf_counter()
            step()
            times.append(1000 * (time.perf_counter() - before))
        if RANK == 0:
            print(json.dumps({"ms": times}), file=answers, flush=True)


if __name__ == "__main__":
    main()
