# SPDX-License-Identifier: Apache-2.0
"""One peer of step.py, kept alive over the rounds: reads `go SECONDS` on its input, takes steps for so long, and answers with
their times as a line of JSON. `python -m peers.step_peer KIND MODEL BATCH SIZE CLASSES PASS PRECISION`."""
import contextlib
import io
import json
import os
import resource
import sys
import time

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
SIZES = {
    "b0": {"hidden_sizes": [32, 64, 160, 256], "depths": [2, 2, 2, 2], "decoder_hidden_size": 256},
    "b1": {"hidden_sizes": [64, 128, 320, 512], "depths": [2, 2, 2, 2], "decoder_hidden_size": 256},
    "b2": {"hidden_sizes": [64, 128, 320, 512], "depths": [3, 4, 6, 3], "decoder_hidden_size": 768},
    "b3": {"hidden_sizes": [64, 128, 320, 512], "depths": [3, 4, 18, 3], "decoder_hidden_size": 768},
    "b4": {"hidden_sizes": [64, 128, 320, 512], "depths": [3, 8, 27, 3], "decoder_hidden_size": 768},
    "b5": {"hidden_sizes": [64, 128, 320, 512], "depths": [3, 6, 40, 3], "decoder_hidden_size": 768},
}
THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
SLOW_SECONDS = 10  # a step longer than this (bf16 where it is emulated) is warm after one, and measured once


def network(model, classes):
    from transformers import SegformerConfig, SegformerForSemanticSegmentation
    return SegformerForSemanticSegmentation(SegformerConfig(num_labels=classes, **SIZES[model]))


def torch_step(kind, model, batch, size, classes, task, precision, wrap=lambda net: net, accumulate=1):
    """eager, channels_last, compile (the encoder alone when training: the whole is slower), in fp32 or autocast."""
    import torch
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    net, pictures = network(model, classes), torch.randn(batch, 3, size, size)
    masks = torch.randint(0, classes, (batch, size, size))
    if kind == "channels_last":
        net = net.to(memory_format=torch.channels_last)
        pictures = pictures.to(memory_format=torch.channels_last)
    cast = (lambda: torch.autocast("cpu", dtype=torch.bfloat16)) if precision == "bf16" else contextlib.nullcontext
    if task == "forward":
        net.eval()
        run = torch.compile(net) if kind == "compile" else net

        def forward():
            with torch.inference_mode(), cast():
                run(pixel_values=pictures).logits.sum()
        return forward
    net.train()
    if kind == "compile":
        net.segformer = torch.compile(net.segformer)
    net = wrap(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-5, weight_decay=0.01, fused=True)

    def learn():
        with cast():
            loss = net(pixel_values=pictures, labels=masks).loss
        (loss / accumulate if accumulate > 1 else loss).backward()

    def step():
        optimizer.zero_grad(set_to_none=True)
        for _ in range(accumulate - 1):
            # Processes exchange gradients once a step, as people write it.
            with getattr(net, "no_sync", contextlib.nullcontext)():
                learn()
        learn()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return step


def exported(model, batch, size, classes):
    """The network as ONNX, in memory."""
    import torch
    net, pictures, target = network(model, classes).eval(), torch.randn(batch, 3, size, size), io.BytesIO()
    with contextlib.redirect_stdout(sys.stderr):
        torch.onnx.export(net, (pictures,), target, input_names=["pixel_values"], output_names=["logits"], dynamo=False)
    return target.getvalue(), pictures.numpy()


def onnxruntime_forward(model, batch, size, classes):
    import onnxruntime
    graph, pictures = exported(model, batch, size, classes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"pixel_values": pictures})


def openvino_forward(model, batch, size, classes, precision):
    import openvino
    graph, pictures = exported(model, batch, size, classes)
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(io.BytesIO(graph)), "CPU", {
        "INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[precision]})
    request = compiled.create_infer_request()
    return lambda: request.infer({0: pictures})


def prepare(kind, model, batch, size, classes, task, precision):
    if kind == "onnxruntime":
        return onnxruntime_forward(model, batch, size, classes)
    if kind == "openvino":
        return openvino_forward(model, batch, size, classes, precision)
    return torch_step(kind, model, batch, size, classes, task, precision)


def main():
    kind, model, batch, size, classes, task, precision = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")  # what libraries print must not get between the answers
    os.dup2(2, 1)
    step = prepare(kind, model, int(batch), int(size), int(classes), task, precision)
    began = time.perf_counter()
    step()
    slow = time.perf_counter() - began > SLOW_SECONDS
    if not slow:
        step()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        seconds, times, start = float(line.split()[1]), [], time.perf_counter()
        while len(times) < (1 if slow else 2) or time.perf_counter() - start < seconds:
            before = time.perf_counter()
            step()
            times.append(1000 * (time.perf_counter() - before))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"ms": times, "peak_rss_bytes": peak}), file=answers, flush=True)


if __name__ == "__main__":
    main()
