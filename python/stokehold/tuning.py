# SPDX-License-Identifier: Apache-2.0
"""Which batch fits and pays, which settings to start from, what is wrong with them, what the machine does."""
import os
import time
from dataclasses import dataclass, fields
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Union

from . import _stoke
from ._progress import Progress
from ._trial import CpuTrials, CudaTrials, Recipe

__all__ = ["Advice", "BatchSizeOptimizer", "Change", "CheckLine", "CheckResult", "Estimate", "Figure", "GpuSummary",
           "MonitorSummary", "Optimization", "Recommendation", "Spread", "auto_optimize_config", "check", "estimate", "monitor",
           "recommend"]

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Figure:
    """A number and where it comes from: "nvml", "sysfs", "proc", "measured", "table", "estimated" ... None stands for n/a."""

    value: float
    source: str


def _figure(pair: Optional[Tuple[float, str]]) -> Optional[Figure]:
    return None if pair is None else Figure(*pair)


def _take(cls: Any, found: Mapping[str, Any], **more: Any) -> Any:
    """A dataclass from what the extension says of it."""
    return cls(**{field.name: more[field.name] if field.name in more else found[field.name] for field in fields(cls)})


def _given(settings: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


# ---- batch ----


class BatchSizeOptimizer:
    """Finds the best batch by trying: the smallest whose throughput is within 5 % of the best that fits in memory.

        best, stats = BatchSizeOptimizer(model, config).find_optimal_batch_size((images, masks), target_gpu_util=85.0)
        print(best, stats["why"])

    model : any torch module; the trials run on the device of its parameters, and it comes back as it was.
    config : a mapping, flat or with sections: mixed_precision, optimizer ("adamw", "sgd"), accumulate are looked for. Optional.
    loss : loss(output, target) -> scalar. Without it the output's own `.loss` is taken, or the mean of the output.
    memory : bytes that may be taken, all of them. Without it: what is free on the card or of the machine's memory, less a margin.
    steps : of the optimiser in a trial; its state is made at the first.
    largest : never tried beyond; 0 = as memory allows.
    timeout : seconds for a trial on the processor.

    On CUDA a trial runs here, and out of memory is caught. On the processor every trial is a process of its own with a limit on
    its memory, so that the search cannot take the program with it.
    """

    def __init__(self, model: Any, config: Any = None, *, loss: Optional[Callable[[Any, Any], Any]] = None,
                 memory: Optional[int] = None, steps: int = 5, largest: int = 0, timeout: float = 300.0):
        self.model = model
        self.config = config
        self.recipe = Recipe.of(config, loss, max(3, steps))
        self.memory = memory
        self.largest = largest
        self.timeout = timeout

    def find_optimal_batch_size(self, sample: Any, target_gpu_util: float = 85.0, *, journal: Optional[Path] = None,
                                key: Optional[str] = None, progress: Optional[bool] = None) -> Tuple[int, Dict[str, Any]]:
        """Returns (batch, stats). 0 = not even one sample fits.

        sample : a batch of any size as the loader gives it: a tensor, (inputs, target), or a dict of keyword arguments. Its
            first row is repeated.
        target_gpu_util : percent; below it the verdict says that the loader, not the batch, is to blame.
        journal, key : a file that remembers trials, so that a search goes on where it was stopped; key names what they depend on.
        progress : whether trials are shown as they are made; None: on a terminal and in a notebook.

        stats has why (a sentence), bound ("throughput", "memory" ...), images_s, best_images_s, largest_fit, budget, memory0 and
        memory1 (bytes: memory0 + memory1 * batch), time0 and time1 (ms), and trials, a list of dicts.
        """
        if not 0 < target_gpu_util <= 100:
            raise ValueError(f"target_gpu_util={target_gpu_util}: percent, more than 0 and at most 100")
        device = next((str(parameter.device) for parameter in self.model.parameters()), "cpu")
        kind = CudaTrials if device.startswith("cuda") else CpuTrials
        params: Dict[str, Any] = {"target_busy": target_gpu_util / 100, "largest": self.largest}
        with Progress(progress) as shown, kind(self.model, sample, self.recipe, device, self.memory, self.timeout) as trials:
            params["memory"] = trials.memory
            if self.memory is not None:
                params.update(margin=0.0, margin_bytes=0)  # somebody who names a sum means it
            found = _stoke.batch_search(params, _told(trials.run, shown), None if journal is None else os.fspath(journal), key)
            shown.update(f"{len(found['trials'])} trials: a batch of {found['batch']}")
        found["device"] = device
        return found["batch"], found


def _told(run: Callable[[int, bool], Dict[str, Any]], shown: Progress) -> Callable[[int, bool], Dict[str, Any]]:
    """Trials that say what they are at, and what the one before came to."""
    before = ""

    def trial(batch: int, with_loader: bool) -> Dict[str, Any]:
        nonlocal before
        shown.update(f"trying a batch of {batch} ...{before}")
        result = run(batch, with_loader)
        came = f"{result['step_ms']:.0f} ms a step" if result["outcome"] == "ok" else "did not run"
        before = f" ({batch}: {came})"
        return result

    return trial


# ---- a settings file ----


@dataclass(frozen=True)
class Change:
    """One value of a settings file; from_ is empty where the key is new."""

    setting: str
    path: str
    from_: str
    to: str
    why: str
    effect: str
    source: str


@dataclass(frozen=True)
class Optimization:
    """What was changed, what was left as it is and why, and where the new file lies."""

    path: str
    changes: Tuple[Change, ...]
    remarks: Tuple[str, ...]


def auto_optimize_config(src: Path, dst: Optional[Path] = None, *, gpu: Optional[str] = None, memory: Optional[int] = None,
                         allow_model_scale: bool = False, measured_batch: Optional[int] = None,
                         measured_why: Optional[str] = None) -> Optimization:
    """Writes `src` with better settings to `dst`; comments, order and every other byte stay.

        auto_optimize_config("configs/train_config.yaml", "configs/train_optimized.yaml")

    dst None: x_config.yaml becomes x_gpu_optimized.yaml. measured_batch is one that find_optimal_batch_size found, which
    replaces the tables' own. Settings that change the experiment (base_channels ...) only with allow_model_scale.
    """
    params = _given({"config": os.fspath(src), "gpu": gpu, "memory": memory, "allow_model_scale": allow_model_scale,
                     "measured_batch": measured_batch, "measured_why": measured_why})
    found = _stoke.optimize(params, None if dst is None else os.fspath(dst))
    changes = tuple(_take(Change, change, from_=change["from"]) for change in found["changes"])
    return Optimization(path=found["path"], changes=changes, remarks=tuple(found["remarks"]))


# ---- memory ----


@dataclass(frozen=True)
class Estimate:
    """Memory of a training in bytes: by terms, in all, and the range that the figures behind it leave."""

    bytes: Dict[str, int]
    total: int
    low: int
    high: int
    dominant: str
    parameters: int
    source: str
    largest_batch: int


_PRECISIONS = {"fp32": 0, "bf16": 1, "fp16": 2}
_OPTIMIZERS = {"adamw": 0, "sgd": 1}


def _word(name: str, value: str, words: Mapping[str, int]) -> int:
    if value not in words:
        raise ValueError(f"{name}={value!r}: it is one of {', '.join(words)}")
    return words[value]


def estimate(model: str = "b0", batch_size: int = 8, image_size: Union[int, Tuple[int, int]] = 512, classes: int = 2, *,
             precision: str = "fp32", optimizer: str = "adamw", engine: str = "torch", memory: int = 0, spare: int = 1 << 30,
             **more: Any) -> Estimate:
    """What a training will take, before it runs.

        estimate("b4", batch_size=8, image_size=512, classes=19, precision="fp16").total / 2**30

    image_size : a side, or (height, width). engine : "torch" on a card, or "native", ours in host memory.
    memory : bytes of the card; then largest_batch is what leaves `spare` bytes of it free (0 = none does).
    more : freeze_encoder, average, prefetch; base_channels and num_blocks of "smallnet".
    """
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    params = {"model": model, "batch": batch_size, "height": height, "width": width, "classes": classes,
              "precision": _word("precision", precision, _PRECISIONS), "optimizer": _word("optimizer", optimizer, _OPTIMIZERS), **more}
    return _take(Estimate, _stoke.estimate(params, bool(_word("engine", engine, {"native": 0, "torch": 1})), memory, spare))


# ---- settings to start from ----


@dataclass(frozen=True)
class Recommendation:
    """A setting with its source (table, measured, estimated) and reason."""

    key: str
    value: str
    source: str
    why: str


@dataclass(frozen=True)
class Advice:
    """Settings to start from; memory is the card's, 0 without one."""

    subject: str
    memory: int
    lines: Tuple[Recommendation, ...]
    remark: str

    def __getitem__(self, key: str) -> str:
        """The value of a setting."""
        for line in self.lines:
            if line.key == key:
                return line.value
        raise KeyError(key)


def recommend(gpu: Optional[str] = None, *, memory: Optional[int] = None, task: Optional[str] = None, cores: Optional[int] = None,
              ranks: Optional[int] = None) -> Advice:
    """Settings to start from, for a card by its name or memory, or for the one that is found.

        recommend("rtx3090")["batch_size"]
    """
    found = _stoke.recommend(_given({"gpu": gpu, "memory": memory, "task": task, "cores": cores, "ranks": ranks}))
    return _take(Advice, found, lines=tuple(Recommendation(*line) for line in found["lines"]))


# ---- before a training starts ----


@dataclass(frozen=True)
class CheckLine:
    """One thing that was looked at: verdict is "pass", "warn", "fail" or "n/a", fix is what to do about it."""

    key: str
    title: str
    verdict: str
    source: str
    figure: str
    fix: str


@dataclass(frozen=True)
class CheckResult:
    """All of them. `ok` is False when something will stop the training."""

    lines: Tuple[CheckLine, ...]
    dialect: str

    @property
    def ok(self) -> bool:
        """Nothing failed."""
        return all(line.verdict != "fail" for line in self.lines)


def check(config: Optional[Path] = None, *, data: Optional[Path] = None, model: Optional[str] = None,
          classes: Optional[int] = None, ranks: Optional[int] = None) -> CheckResult:
    """What of a settings file does not go with this machine and these data.

        for line in check("configs/train.yaml").lines:
            if line.verdict != "pass":
                print(line.title, line.figure, line.fix)
    """
    found = _stoke.check(_given({"config": config and os.fspath(config), "data": data and os.fspath(data), "model": model,
                                 "classes": classes, "ranks": ranks}))
    return CheckResult(lines=tuple(CheckLine(*line) for line in found["lines"]), dialect=found["dialect"])


# ---- the machine, watched ----


@dataclass(frozen=True)
class Spread:
    """Of all readings; percentiles of percentages only."""

    mean: Optional[Figure]
    p5: Optional[Figure]
    p95: Optional[Figure]
    peak: Optional[Figure]


@dataclass(frozen=True)
class GpuSummary:
    """A card over the time that it was watched."""

    name: str
    problem: str
    busy_percent: Spread
    effective_percent: Spread
    memory_used: Spread
    memory_total: Optional[Figure]
    power_watt: Spread
    temperature: Spread
    energy_joule: Optional[Figure]
    idle_share: Optional[Figure]
    longest_idle: Optional[Figure]


@dataclass(frozen=True)
class MonitorSummary:
    """The machine over the time that it was watched, what that means, and the command to run next. why: of missing cards."""

    seconds: float
    readings: int
    cpu_percent: Spread
    memory_used: Spread
    memory_total: Optional[Figure]
    disk_busy_percent: Spread
    disk_read: Spread
    disk_write: Spread
    gpus: Tuple[GpuSummary, ...]
    verdict: str
    next: str
    why: str


def _figures(found: Mapping[str, Any]) -> Dict[str, Any]:
    """Spreads are tuples of four figures, figures are pairs."""
    taken = {}
    for name, value in found.items():
        if isinstance(value, tuple):
            value = Spread(*map(_figure, value)) if len(value) == 4 else _figure(value)
        taken[name] = value
    return taken


def monitor(seconds: float = 10.0, interval: float = 0.5, *, progress: Optional[bool] = None) -> MonitorSummary:
    """Watches processor, memory, disks and cards for so long. progress: as in `find_optimal_batch_size`.

        print(monitor(30).verdict)
    """
    if seconds <= 0 or interval <= 0:
        raise ValueError("seconds and interval are more than 0")
    watch = _stoke.Monitor()
    begin = time.monotonic()
    end = begin + seconds
    with Progress(progress) as shown:
        while time.monotonic() < end:
            time.sleep(max(0.0, min(interval, end - time.monotonic())))
            watch.read()
            shown.update(f"watching: {min(seconds, time.monotonic() - begin):.0f} of {seconds:g} s")
    found = watch.summary()
    gpus = tuple(_take(GpuSummary, _figures(gpu)) for gpu in found["gpus"])
    return _take(MonitorSummary, _figures(found), gpus=gpus)
