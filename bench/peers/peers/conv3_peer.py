# SPDX-License-Identifier: Apache-2.0
"""One peer of conv3.py, kept alive over the rounds: reads `go SECONDS` on its input, takes passes for so long, and answers
with their times as a line of JSON. `python -m peers.conv3_peer KIND CHANNELS SIZE BATCH PRECISION`."""
import contextlib
import json
import os
import sys
import time

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
THREADS, BLOCKS = 2, 4


def prepare(kind, channels, size, batch, precision):
    """The network of bench_conv3.c; KIND: eager, channels_last, compile or channels_last_compile."""
    import torch
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Conv2d(channels, channels, 3, padding=1)
            self.second = torch.nn.Conv2d(channels, channels, 3, padding=1)

        def forward(self, x):
            return x + 0.1 * self.second(torch.relu(self.first(x)))

    net = torch.nn.Sequential(torch.nn.Conv2d(3, channels, 3, padding=1), *[Block() for _ in range(BLOCKS)],
                              torch.nn.Conv2d(channels, 3, 3, padding=1))
    pictures, gradient = torch.randn(batch, 3, size, size), torch.randn(batch, 3, size, size)
    if "channels_last" in kind:
        net, pictures, gradient = (thing.to(memory_format=torch.channels_last) for thing in (net, pictures, gradient))
    if "compile" in kind:
        net = torch.compile(net)
    cast = (lambda: torch.autocast("cpu", dtype=torch.bfloat16)) if precision == "bf16" else contextlib.nullcontext

    def step():
        net.zero_grad(set_to_none=True)
        with cast():
            result = net(pictures)
        result.backward(gradient.to(result.dtype))
    return step


def main():
    kind, channels, size, batch, precision = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")  # what libraries print must not get between the answers
    os.dup2(2, 1)
    step = prepare(kind, int(channels), int(size), int(batch), precision)
    step()
    step()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        seconds, times, start, used = float(line.split()[1]), [], time.perf_counter(), time.process_time()
        while len(times) < 2 or time.perf_counter() - start < seconds:
            before = time.perf_counter()
            step()
            times.append(1000 * (time.perf_counter() - before))
        used = 1000 * (time.process_time() - used) / len(times)
        print(json.dumps({"ms": times, "processor_ms": used}), file=answers, flush=True)


if __name__ == "__main__":
    main()
