# SPDX-License-Identifier: Apache-2.0
"""A learning rate for somebody's torch module, and how fast it trains: both leave it as it was, bit for bit."""
import contextlib
import copy
import math
import os
import statistics
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, List, Optional, Tuple

from . import _checks, _stoke
from ._progress import Progress
from ._trial import device_of, first_of, own_or_mean
from .move import move_data_to_device

__all__ = ["Benchmark", "LrCurve", "benchmark", "find_lr"]

Loss = Callable[[Any, Any], Any]


# ---- a step of anybody's model


def _inputs(batch: Any) -> Tuple[Any, Any]:
    """What the model takes, and the target: of (inputs, target), of a dict, of a tensor alone."""
    if isinstance(batch, dict):
        target = next((batch[name] for name in ("labels", "masks", "mask", "target", "targets") if name in batch), None)
        return batch, target
    if isinstance(batch, (list, tuple)) and len(batch) == 2:
        return batch[0], batch[1]
    return batch, None


def _step_loss(model: Any, batch: Any, loss: Optional[Loss], number: int) -> Any:
    if loss is None and hasattr(model, "training_step"):  # a LightningModule knows by itself
        found = model.training_step(batch, number)
        return found["loss"] if isinstance(found, dict) else found
    inputs, target = _inputs(batch)
    if isinstance(inputs, dict) and "images" in inputs:  # ours
        output = model(inputs["images"])
    else:
        output = model(**inputs) if isinstance(inputs, dict) else model(*inputs) if isinstance(inputs, (list, tuple)) else model(inputs)
    if loss is not None:
        return loss(output, target)
    if getattr(output, "loss", None) is not None:
        return output.loss
    raise TypeError("which loss? Give loss=function(output, target), such as torch.nn.functional.cross_entropy")


def _endless(loader: Any) -> Iterator[Any]:
    """Batches, epoch after epoch."""
    while True:
        some = False
        for batch in loader:
            some = True
            yield batch
        if not some:
            raise ValueError("the loader gives no batch: fewer samples than one batch?")


def _checked(model: Any, loader: Any, loss: Optional[Loss], device: Any, precision: Optional[str]) -> Tuple[Any, str, Callable[[], Any]]:
    """What find_lr and benchmark are given; returns the device, its kind, and what steps are computed in."""
    import torch
    types = {None: None, "fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}
    if precision not in types:
        raise ValueError(f"precision={precision!r}: it is one of fp32, fp16, bf16")
    _checks.module("model", model)
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise TypeError(f"loader={loader!r}: something that gives batches is expected, not {type(loader).__name__}")
    if loss is not None:
        _checks.function("loss", loss, "a function of output and target")
    try:
        device = torch.device(device_of(model) if device is None else device)
    except (RuntimeError, AssertionError) as reason:
        raise ValueError(f"device={device!r}: {reason}") from None
    dtype = types[precision]
    return device, device.type, lambda: torch.autocast(device.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None)


def _make_optimizer(optimizer: Any, model: Any) -> Any:
    """An optimiser as it is, or made: from a class, from a function of the weights, from torch's name of one; AdamW of nothing."""
    import torch
    if hasattr(optimizer, "param_groups"):
        return optimizer
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if isinstance(optimizer, str):
        known = next((name for name in dir(torch.optim) if name.lower() == optimizer.lower()), None)
        if known is None:
            raise ValueError(f"optimizer={optimizer!r}: torch.optim has none of that name")
        optimizer = getattr(torch.optim, known)
    if optimizer is None:
        optimizer = torch.optim.AdamW
    _checks.function("optimizer", optimizer, "an optimiser, its class or name, or a function of the weights")
    return optimizer(weights, lr=1e-3) if isinstance(optimizer, type) else optimizer(weights)


# ---- everything as it was


@contextlib.contextmanager
def _put_back(model: Any, optimizer: Any, loader: Any) -> Iterator[None]:
    """Weights, buffers (also those no checkpoint has), gradients, modes, the optimiser's state and settings, random numbers, the
    place in a loader of ours: the same bits afterwards, whatever happened."""
    import torch
    tensors = [tensor for tensor in (*model.parameters(), *model.buffers())]
    values = [tensor.detach().clone() for tensor in tensors]
    weights = list(model.parameters())
    gradients = [weight.grad for weight in weights]
    modes = [(module, module.training) for module in model.modules()]
    groups = [{name: copy.deepcopy(value) for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    states = {weight: copy.deepcopy(state) for weight, state in optimizer.state.items()}
    random = torch.get_rng_state()
    cards = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    place = loader.state_dict() if hasattr(loader, "_core") else None
    for weight in weights:
        weight.grad = None
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, values):
                tensor.copy_(value)
        for weight, gradient in zip(weights, gradients):
            weight.grad = gradient
        for module, mode in modes:
            module.training = mode
        for group, settings in zip(optimizer.param_groups, groups):
            for name in [name for name in group if name != "params"]:
                del group[name]
            group.update(settings)
        optimizer.state.clear()
        optimizer.state.update(states)
        torch.set_rng_state(random)
        if cards:
            torch.cuda.set_rng_state_all(cards)
        if place is not None:
            loader.load_state_dict(place)


# ---- a learning rate


@dataclass(frozen=True)
class LrCurve:
    """The loss over a growing learning rate, and what it says. Rates that it does not have are None.

    half : where half of the fall is done; floor: nine tenths of it; lowest: where the loss is lowest. drop : of the loss, as a share
    of where it began; noise : of the smoothed curve, as a share of the fall. confidence : "high", "medium", "low"; why says why it is
    low. end : "whole", "rose" (the loss was four times its lowest), or "not finite".
    """

    lrs: List[float]
    losses: List[float]
    smooth: List[float]
    end: str
    half: Optional[float]
    floor: Optional[float]
    lowest: Optional[float]
    drop: Optional[float]
    noise: Optional[float]
    suggested: Optional[float]
    confidence: str
    why: str
    seconds: float
    from_curve: bool = field(default=False, repr=False)

    def suggestion(self) -> Optional[float]:
        """The rate to train with: the middle of floor and lowest, in logarithms. None: the curve says nothing; `why` says what to do."""
        return self.suggested

    @property
    def svg(self) -> str:
        """The curve as an SVG element."""
        return self._chart(True, True)

    def _chart(self, suggest: bool, svg: bool) -> str:
        mark = self.suggested if suggest and self.suggested is not None else math.nan
        return _stoke.lr_chart(self.lrs, self.losses, self.smooth, mark, svg)

    def plot(self, suggest: bool = True, show: bool = False, path: Any = None) -> Any:
        """The curve, with the suggestion marked.

        A matplotlib figure where matplotlib is installed, else characters for a terminal, printed. show: opens matplotlib's window.
        path: an .svg file that is written as well, by the library.
        """
        if path is not None:
            _stoke.check_output(os.fsencode(path), False)
            with open(path, "w", encoding="utf-8") as file:
                file.write(self._chart(suggest, True))
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            text = self._chart(suggest, False)
            print(text)
            return text
        figure, axes = plt.subplots()
        axes.plot(self.lrs, self.losses, color="0.75", label="loss")
        axes.plot(self.lrs, self.smooth, label="smoothed")
        axes.set_xscale("log")
        axes.set_xlabel("learning rate")
        axes.set_ylabel("loss")
        if suggest and self.suggested is not None:
            axes.axvline(self.suggested, color="tab:red", label=f"suggested {self.suggested:.2g}")
        axes.legend()
        if show:
            plt.show()
        return figure

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        if self.suggested is None:
            return f"no learning rate: {self.why}"
        reason = f": {self.why}" if self.why else ""
        return f"learning rate {self.suggested:.2g} (from {self.half:.2g} to {self.lowest:.2g}), confidence {self.confidence}{reason}"


def _check_sweep(low: float, high: float, steps: int) -> None:
    if not (1e-12 <= _checks.real("low", low) and _checks.real("high", high) <= 1e3 and high >= 10 * low):
        raise ValueError(f"low={low:g}, high={high:g}: rates of 1e-12 to 1000, high ten times low or more")
    _checks.whole("steps", steps, 100, 10000)


def find_lr(model: Any, loader: Any, *, loss: Optional[Loss] = None, optimizer: Any = None, low: float = 1e-6, high: float = 1.0,
            steps: int = 200, device: Any = None, precision: Optional[str] = None, accumulate: int = 1,
            clip_norm: Optional[float] = None, progress: Optional[bool] = None) -> LrCurve:
    """Trains with a rate that grows from step to step, reads the curve of the loss, and puts everything back, bit for bit.

        curve = stokehold.find_lr(model, loader, loss=torch.nn.functional.cross_entropy, optimizer=optimizer)
        print(curve.suggestion())
        curve.plot(suggest=True)

    model : any torch module, on its device; a LightningModule's own training_step is used where no loss is given.
    loader : anything that gives batches: (inputs, target), or dicts. It begins again when it ends before the sweep does.
    loss : loss(output, target) -> scalar. Without it the output's own `.loss`.
    optimizer : one that is there (its rates and state are put back), a class, a function of the weights, or a name; AdamW without.
    low, high, steps : the sweep; it ends before where the loss is four times its lowest, or no number any more.
    device : where batches go; that of the model without.
    precision : "fp16" or "bf16" for autocast. accumulate : batches in a step. clip_norm : of the gradients, as in the run.
    """
    import torch
    _check_sweep(low, high, steps)
    _checks.whole("accumulate", accumulate, 1)
    if clip_norm is not None:
        _checks.real("clip_norm", clip_norm, above=0)
    device, kind, autocast = _checked(model, loader, loss, device, precision)
    engine = _make_optimizer(optimizer, model)
    scaler = torch.cuda.amp.GradScaler(enabled=precision == "fp16" and kind == "cuda")
    rates: List[float] = []
    losses: List[float] = []
    watch, end, rate = None, "whole", low
    began = time.monotonic()
    with Progress(progress) as shown, _put_back(model, engine, loader):
        model.train()
        batches = _endless(loader)
        for step in range(steps):
            rate = low * (high / low) ** (step / (steps - 1))
            for group in engine.param_groups:
                group["lr"] = rate
            mean = 0.0
            for _ in range(accumulate):
                batch = move_data_to_device(next(batches), device)
                with autocast():
                    one = _step_loss(model, batch, loss, step) / accumulate
                scaler.scale(one).backward()
                mean += float(one.detach())
            if clip_norm is not None:
                scaler.unscale_(engine)
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            scaler.step(engine)
            scaler.update()
            engine.zero_grad(set_to_none=True)
            watch, smooth, end = _stoke.lr_watch(watch, mean)
            if end == "not finite":
                break
            rates.append(rate)
            losses.append(mean)
            shown.update(f"learning rate {rate:.2e}: loss {smooth:.4g} ({step + 1} of {steps} steps)")
            if end == "rose":
                break
        del batches
    found = _stoke.lr_judge(rates, losses, end, rate)
    return LrCurve(lrs=rates, losses=losses, end=end, seconds=time.monotonic() - began, **found)


# ---- speed


@dataclass(frozen=True)
class Benchmark:
    """How fast a model trains with a loader; prints as a table."""

    steps: int
    warmup: int
    images: int
    seconds: float
    images_per_s: float
    ms_per_batch: float  # median, waiting and computing
    low_ms: float  # its quartiles
    high_ms: float
    wait_share: float  # of the time, waiting for batches
    first_batch_ms: float
    device: str
    peak_memory: Optional[int]  # bytes on the card; None on the processor

    def rows(self) -> List[Tuple[str, str]]:
        """The table."""
        rows = [("device", self.device), ("steps", f"{self.steps} after {self.warmup} to warm up"),
                ("throughput", f"{self.images_per_s:.1f} images/s"),
                ("batch", f"{self.ms_per_batch:.1f} ms ({self.low_ms:.1f} to {self.high_ms:.1f} for the middle half)"),
                ("waiting for data", f"{self.wait_share:.1%} of the time"), ("first batch", f"{self.first_batch_ms:.1f} ms")]
        if self.peak_memory is not None:
            rows.append(("memory, at most", f"{self.peak_memory / 2**30:.2f} GiB"))
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def benchmark(model: Any, loader: Any, num_steps: int = 100, *, loss: Optional[Loss] = None, optimizer: Any = None, warmup: int = 10,
              device: Any = None, precision: Optional[str] = None, progress: Optional[bool] = None) -> Benchmark:
    """Trains for num_steps and tells images/s, ms a batch and the share of time that was spent waiting for data.

        print(stokehold.benchmark(model, loader, num_steps=100, loss=torch.nn.functional.cross_entropy))

    The first steps (warmup) are not counted: they start workers, choose algorithms and make the optimiser's state. Without a loss
    the output's own `.loss` is taken, or the mean of the output. The model comes back as it was, bit for bit; arguments are those of
    `find_lr`.
    """
    import torch
    _checks.whole("num_steps", num_steps, 1)
    _checks.whole("warmup", warmup)
    device, kind, autocast = _checked(model, loader, loss, device, precision)
    sync = (lambda: torch.cuda.synchronize(device)) if kind == "cuda" else (lambda: None)
    engine = _make_optimizer(optimizer, model)
    if kind == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    if loss is None and not hasattr(model, "training_step"):
        loss = own_or_mean
    times: List[float] = []
    waits: List[float] = []
    images, first = 0, 0.0
    with Progress(progress) as shown, _put_back(model, engine, loader):
        model.train()
        batches = _endless(loader)
        for step in range(warmup + num_steps):
            began = time.perf_counter()
            batch = next(batches)
            came = time.perf_counter()
            first = came - began if step == 0 else first
            batch = move_data_to_device(batch, device)
            with autocast():
                one = _step_loss(model, batch, loss, step)
            one.backward()
            engine.step()
            engine.zero_grad(set_to_none=True)
            sync()
            if step >= warmup:
                times.append(time.perf_counter() - began)
                waits.append(came - began)
                images += next(iter(getattr(first_of(batch), "shape", ())), 1)  # the first dimension of the first tensor
            shown.update(f"step {step + 1} of {warmup + num_steps}")
        del batches, batch
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
    seconds = sum(times)
    return Benchmark(steps=num_steps, warmup=warmup, images=images, seconds=seconds, images_per_s=images / seconds,
                     ms_per_batch=1e3 * middle, low_ms=1e3 * low, high_ms=1e3 * high, wait_share=sum(waits) / seconds,
                     first_batch_ms=1e3 * first, device=str(device),
                     peak_memory=torch.cuda.max_memory_allocated(device) if kind == "cuda" else None)
