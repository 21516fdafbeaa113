# SPDX-License-Identifier: Apache-2.0
"""Which batch fits and pays, which settings to start from, what is wrong with them, what the machine does."""
import os
import re
import sys
import time
from dataclasses import dataclass, field, fields, replace
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from . import _checks, _stoke, _words
from ._errors import in_python
from ._progress import Progress
from ._trial import CpuTrials, CudaTrials, Recipe, batch_said, device_of

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


def _card(gpu: Optional[str], memory: Optional[int], cores: Optional[int]) -> Dict[str, Any]:
    """The card that is meant, and its machine."""
    return _given({"gpu": _checks.maybe(_checks.word, "gpu", gpu),
                   "memory": _checks.maybe(_checks.whole, "memory", memory, 1),
                   "cores": _checks.maybe(_checks.whole, "cores", cores, 1, 65536)})


# ---- batch ----


class BatchSizeOptimizer:
    """Finds the best batch by trying: the smallest whose throughput is within 5 % of the best that fits in memory.

        best, stats = BatchSizeOptimizer(model, config).find_optimal_batch_size((images, masks), target_gpu_util=85.0)
        print(best, stats["why"])

    model : any torch module; the trials run on the device of its parameters, and it comes back as it was.
    config : a mapping or an object, flat or with sections, or the path of a settings file. Precision (precision, use_mixed_precision,
        fp16 ...), optimiser (optimizer: sgd, optimizer: {name: SGD}) and accumulation (accumulate_grad_batches ...) are taken from
        it; fp32, AdamW and 1 without. `recipe` has what was understood.
    loss : loss(output, target) -> scalar. Without it the output's own `.loss` is taken, or the mean of the output.
    memory : bytes that may be taken, all of them. Without it: what is free on the card or of the machine's memory, less a margin.
    steps : of the optimiser in a trial; its state is made at the first.
    largest : never tried beyond; 0 = as memory allows.
    timeout : seconds for a trial on the processor.

    On CUDA a trial runs here, and out of memory is caught. On the processor every trial is a separate process with a limit on
    its memory, so that the search cannot take the program with it.
    """

    def __init__(self, model: Any, config: Any = None, *, loss: Optional[Callable[[Any, Any], Any]] = None,
                 memory: Optional[int] = None, steps: int = 5, largest: int = 0, timeout: float = 300.0):
        self.model = model
        if isinstance(config, (int, float, list, tuple)):
            raise TypeError(f"config={config!r}: a mapping, an object with settings, or the path of a file is expected")
        self.config = config
        self.recipe = Recipe.of(config, _checks.maybe(_checks.function, "loss", loss, "a function of output and target"),
                                max(3, _checks.whole("steps", steps, 1)))
        self.memory = _checks.maybe(_checks.whole, "memory", memory, 1)
        self.largest = _checks.whole("largest", largest, 0, 2**32 - 1)
        self.timeout = _checks.real("timeout", timeout, above=0)

    def find_optimal_batch_size(self, sample: Any, target_gpu_util: float = 85.0, *, journal: Optional[Path] = None,
                                key: Optional[str] = None, progress: Optional[bool] = None) -> Tuple[int, Dict[str, Any]]:
        """Returns (batch, stats). 0 = not even one sample fits. With stats["too_busy"] other programs took the processor, and times
        that scatter choose nothing: it is the config's batch where that many ran, else the most that did.

        sample : a batch of any size as the loader gives it: a tensor, (inputs, target), or a dict of keyword arguments. Its
            first row is repeated.
        target_gpu_util : percent; below it the verdict says that the loader, not the batch, is to blame.
        journal, key : a file that remembers trials, so that a search goes on where it was stopped; key names what they depend on.
        progress : whether trials are shown as they are made; None: on a terminal and in a notebook.

        stats has why (a sentence), bound ("throughput", "memory" ...), limit (what ended the search: memory, the largest that was
        allowed, or the last one tried), recipe (how steps were made), images_s, best_images_s, largest_fit, budget, memory0 and
        memory1 (bytes: memory0 + memory1 * batch), time0 and time1 (ms), and trials, a list of dicts.
        """
        _checks.module("model", self.model)
        if not 0 < _checks.real("target_gpu_util", target_gpu_util) <= 100:
            raise ValueError(f"target_gpu_util={target_gpu_util}: percent, more than 0 and at most 100")
        if sample is None or isinstance(sample, (bool, int, float, str)):
            raise TypeError(f"sample={sample!r}: a batch is expected: a tensor, (inputs, target), or a dict of tensors")
        journal = _checks.maybe(_checks.path, "journal", journal)
        key = _checks.maybe(_checks.word, "key", key)
        device = device_of(self.model)
        kind = CudaTrials if device.startswith("cuda") else CpuTrials
        params: Dict[str, Any] = {"target_busy": target_gpu_util / 100, "largest": self.largest, "largest_said": True,
                                  "accumulate": self.recipe.accumulate}
        with Progress(progress) as shown, kind(self.model, sample, self.recipe, device, self.memory, self.timeout) as trials:
            params["memory"] = trials.memory
            if self.memory is not None:
                params.update(margin=0.0, margin_bytes=0)  # somebody who names a sum means it
            found = _stoke.batch_search(params, _told(trials.run, shown), journal, key)
            self._settle(found)
            shown.update(f"{len(found['trials'])} trials: a batch of {found['batch']}")
        found.update(device=device, recipe=str(self.recipe), limit=self._limit(found), why=in_python(found["why"]))
        return found["batch"], found

    def _settle(self, found: Dict[str, Any]) -> None:
        """A batch that is certain to run where times chose none."""
        if found["batch"] or not found["too_busy"]:
            return
        said = batch_said(self.config)
        kept = 0 < said <= found["largest_ok"]
        found["batch"] = said if kept else found["largest_ok"]
        found["why"] += f" Until then {found['batch']}: " + ("the config's, which fits." if kept else "the most that ran.")

    def _limit(self, found: Mapping[str, Any]) -> str:
        """Which end the search met: that 64 ran says nothing of 65."""
        if found["smallest_oom"]:
            return f"memory: {found['smallest_oom']} did not fit"
        if self.largest and found["largest_ok"] >= self.largest:
            return f"largest={self.largest}: no more were to be tried, and they fit"
        if found["bound"] == "memory" and not found["too_busy"]:
            return f"memory: by the trials no more than {found['largest_fit']} fit"
        return f"the last one tried: {found['largest_ok']} fit, and more were not tried"


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


class Optimization(Dict[str, Any]):
    """The settings as they were written, as a dict: `done["batch_size"]`, `done["data"]["num_workers"]`. A key of a section is
    found without it where no other section has one of that name. `path` is the new file, `changes` what is different in it and
    why, `remarks` what was left as it is and why."""

    path: str
    changes: Tuple[Change, ...]
    remarks: Tuple[str, ...]

    def __init__(self, values: Iterable[Tuple[str, str, int]], path: str, changes: Iterable[Change], remarks: Iterable[str]):
        super().__init__()
        self.path, self.changes, self.remarks = path, tuple(changes), tuple(remarks)
        for name, text, quoted in values:
            _put(self, _steps(name), text if quoted else _value(text))

    def __missing__(self, key: str) -> Any:
        found = _named(self, key)
        if len(found) == 1:
            return found[0]
        raise KeyError(key)


_STEP = re.compile(r'\.?(?:"((?:[^"\\]|\\.)*)"|([^.\[\]"]+))|\[(\d+)\]')


def _steps(path: str) -> List[Union[str, int]]:
    """The keys and indices of a path: data.size[1]."""
    steps: List[Union[str, int]] = []
    for match in _STEP.finditer(path):
        quoted, key, index = match.groups()
        steps.append(int(index) if index is not None else re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else key)
    return steps


def _value(text: str) -> Any:
    """A plain scalar as YAML means it; 3e-4 is a number, as everybody means it."""
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "null": None, "~": None, "": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _put(tree: Any, steps: List[Union[str, int]], value: Any) -> None:
    """Sets a value deep in dicts and lists that are made on the way."""
    for step, after in zip(steps, [*steps[1:], None]):
        if isinstance(step, int):
            tree.extend([None] * (step + 1 - len(tree)))
        if after is None:
            tree[step] = value
            return
        empty: Any = [] if isinstance(after, int) else {}
        if isinstance(step, int):
            tree[step] = empty if tree[step] is None else tree[step]
            tree = tree[step]
        else:
            tree = tree.setdefault(step, empty)


def _named(tree: Any, key: str) -> List[Any]:
    found = []
    for name, value in tree.items():
        if name == key:
            found.append(value)
        elif isinstance(value, dict):
            found += _named(value, key)
    return found


def auto_optimize_config(src: Path, dst: Optional[Path] = None, *, gpu: Optional[str] = None, memory: Optional[int] = None,
                         cores: Optional[int] = None, allow_model_scale: bool = False, measured_batch: Optional[int] = None,
                         measured_why: Optional[str] = None, force: bool = False) -> Optimization:
    """Writes `src` with better settings to `dst`, and returns them; comments, order and every other byte stay.

        cfg = auto_optimize_config("configs/train_config.yaml", "configs/train_optimized.yaml")
        loader = DataLoader(dataset, batch_size=cfg["batch_size"], num_workers=cfg["num_workers"])

    dst None: x_config.yaml becomes x_gpu_optimized.yaml. gpu, memory (bytes): the card that is meant; with neither it is the one
    found here, and without one the batch stays as it is. cores: of the machine with that card, where it is not this one.
    measured_batch is one that find_optimal_batch_size found, which replaces the tables' own. Settings that change the experiment
    (base_channels ...) only with allow_model_scale. A file that is there already is replaced only with force.
    """
    params = _card(gpu, memory, cores)
    params.update(_given({"config": _checks.path("src", src), "allow_model_scale": _checks.flag("allow_model_scale", allow_model_scale)}))
    if measured_batch is not None:
        params["measured_batch"] = _checks.whole("measured_batch", measured_batch, 1, 2**32 - 1)
    if measured_why is not None:
        params["measured_why"] = _checks.word("measured_why", measured_why)
    found = _stoke.optimize(params, _checks.maybe(_checks.path, "dst", dst), _checks.flag("force", force))
    changes = (_take(Change, change, from_=change["from"]) for change in found["changes"])
    return Optimization(_stoke.config_values(os.fsencode(found["path"]), True), found["path"], changes, found["remarks"])


# ---- memory ----


@dataclass(frozen=True)
class Estimate:
    """Memory of a training in bytes: by terms, in all, and the range that the figures behind it leave. Of torch also what its
    allocator counts (allocated: tensors; reserved_low, reserved_high), and card, what nvidia-smi shows of a card with a desktop
    on it and CUDA before 11.7. It prints as a table."""

    bytes: Dict[str, int]
    total: int
    low: int
    high: int
    dominant: str
    parameters: int
    source: str
    largest_batch: int
    allocated: int
    reserved_low: int
    reserved_high: int
    card: int
    subject: str = field(repr=False)
    verdict: str = field(repr=False)
    assumed: Tuple[str, ...] = ()

    def __str__(self) -> str:
        return _words.estimate_text(self)


_OPTIMIZERS = {"adamw": 0, "sgd": 1}
_MORE, _MORE_FLAGS = ("prefetch", "base_channels", "num_blocks"), ("freeze_encoder", "average")


def _word(name: str, value: str, words: Mapping[str, int]) -> int:
    if _checks.word(name, value) not in words:
        raise ValueError(f"{name}={value!r}: it is one of {', '.join(words)}")
    return words[value]


def _precision(value: Any) -> int:
    found = _stoke.precision(str(value))
    if found < 0:
        raise ValueError(f"precision={value!r}: it is one of fp32, fp16, bf16, auto, or what Lightning calls it (16-mixed)")
    return found


def estimate(model: Optional[str] = None, batch_size: Optional[int] = None, image_size: Union[int, Tuple[int, int], None] = None,
             classes: Optional[int] = None, *, config: Optional[Path] = None, size: Union[int, Tuple[int, int], None] = None,
             precision: Optional[str] = None, optimizer: Optional[str] = None, engine: str = "torch", memory: int = 0,
             spare: int = 1 << 30, **more: Any) -> Estimate:
    """What a training will take, before it runs.

        estimate("b4", batch_size=8, image_size=512, classes=19, precision="fp16").total / 2**30
        estimate(config="configs/train.yaml").high / 2**30

    config : a settings file of any dialect, which has what is not said here; a file that says no precision trains in fp32.
    Without one it is as of the command: b0, 8 pictures of 288x288, 19 classes, autocast. `assumed` names what nobody said.
    image_size, or size : a side, or (height, width). engine : "torch" on a card, or "native", ours in host memory.
    memory : bytes of the card; then largest_batch is what leaves `spare` bytes of it free (0 = none does).
    more : freeze_encoder, average, prefetch; base_channels and num_blocks of "smallnet".
    """
    if size is not None and image_size is not None:
        raise TypeError("image_size and size are the same: give one of them")
    unknown = set(more) - {*_MORE, *_MORE_FLAGS}
    if unknown:
        raise TypeError(f"estimate has no argument {', '.join(sorted(unknown))}")
    side, named = (size, "size") if image_size is None else (image_size, "image_size")
    height, width = (None, None) if side is None else _checks.sides(named, side)
    more = {name: _checks.flag(name, value) if name in _MORE_FLAGS else _checks.whole(name, value, 0, 2**32 - 1)
            for name, value in more.items()}
    memory, spare = _checks.whole("memory", memory), _checks.whole("spare", spare)
    said = _given({"model": _checks.maybe(_checks.word, "model", model),
                   "batch": _checks.maybe(_checks.whole, "batch_size", batch_size, 1, 2**32 - 1),
                   "height": height, "width": width, "classes": _checks.maybe(_checks.whole, "classes", classes, 0, 2**32 - 1),
                   "precision": None if precision is None else _precision(precision),
                   "optimizer": None if optimizer is None else _word("optimizer", optimizer, _OPTIMIZERS)})
    params: Dict[str, Any] = {"model": "b0", "assumed": ["model", "batch_size", "image_size", "classes", "precision"]}
    if config is not None:
        params = _stoke.estimate_config(os.fsencode(_checks.path("config", config)), model)
    names = {"batch": "batch_size", "height": "image_size"}
    assumed = tuple(name for name in params.pop("assumed") if name not in {names.get(one, one) for one in said})
    found = _stoke.estimate({**params, **said, **more}, bool(_word("engine", engine, {"native": 0, "torch": 1})), memory, spare)
    return _take(Estimate, found, assumed=assumed)


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
    """Settings to start from, and the times and scores that are usual with them; memory is the card's, 0 without one. It prints as
    a table."""

    subject: str
    memory: int
    lines: Tuple[Recommendation, ...]
    expected: Tuple[Recommendation, ...]
    remark: str

    def __getitem__(self, key: str) -> str:
        """The value of a setting."""
        for line in self.lines:
            if line.key == key:
                return line.value
        raise KeyError(key)

    def __str__(self) -> str:
        return _words.advice_text(self)


def recommend(gpu: Optional[str] = None, *, memory: Optional[int] = None, task: Optional[str] = None, cores: Optional[int] = None,
              ranks: Optional[int] = None) -> Advice:
    """Settings to start from, for a card by its name or memory, or for the one that is found.

        recommend("rtx3090")["batch_size"]
    """
    params = _card(gpu, memory, cores)
    params.update(_given({"task": _checks.maybe(_checks.word, "task", task),
                          "ranks": _checks.maybe(_checks.whole, "ranks", ranks, 1, 4096)}))
    found = _stoke.recommend(params)
    return _take(Advice, found, lines=tuple(Recommendation(*line) for line in found["lines"]),
                 expected=tuple(Recommendation(*line) for line in found["expected"]))


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

    def __str__(self) -> str:
        return _words.check_line(self)


@dataclass(frozen=True)
class CheckResult:
    """All of them. `ok` is False when something will stop the training. engine: "torch", or "native" for a file of `stoke train`;
    no_card: why no card is seen here. It prints as the list of `stoke check`."""

    lines: Tuple[CheckLine, ...]
    dialect: str
    config: str
    engine: str
    no_card: str

    @property
    def ok(self) -> bool:
        """Nothing failed."""
        return all(line.verdict != "fail" for line in self.lines)

    def __str__(self) -> str:
        return _words.check_text(self)


def check(config: Path, *, data: Optional[Path] = None, model: Optional[str] = None,
          classes: Optional[int] = None, ranks: Optional[int] = None) -> CheckResult:
    """What of a settings file does not go with this machine and these data.

        print(check("configs/train.yaml"))
        for line in check("configs/train.yaml").lines:
            if line.verdict == "fail":
                print(line.title, line.figure, line.fix)
    """
    config = _checks.path("config", config)
    found = _stoke.check(_given({"config": config, "data": _checks.maybe(_checks.path, "data", data),
                                 "model": _checks.maybe(_checks.word, "model", model),
                                 "classes": _checks.maybe(_checks.whole, "classes", classes, 0, 65535),
                                 "ranks": _checks.maybe(_checks.whole, "ranks", ranks, 1, 4096)}))
    lines = (CheckLine(*line) for line in found["lines"])
    lines = tuple(_with_versions(line) if line.key == "versions" else line for line in lines)
    return _take(CheckResult, found, lines=lines, config=config)


def _with_versions(line: CheckLine) -> CheckLine:
    """Of PyTorch, where it is imported in this process: which CUDA it was built for, and whether it sees a card."""
    torch = sys.modules.get("torch")
    if torch is None:
        return line
    built = getattr(torch.version, "cuda", None) or getattr(torch.version, "hip", None)
    name = f"PyTorch {torch.__version__}"
    if not built:
        return replace(line, verdict="warn", figure=f"{name} is built for the processor alone: it uses no card", source="driver",
                       fix="install a build with CUDA: https://pytorch.org/get-started/locally")
    cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not cards:
        return replace(line, verdict="fail", figure=f"{name} is built for CUDA {built} and sees no card", source="driver",
                       fix="nvidia-smi shows which CUDA the driver can; it must be at least that of PyTorch")
    return replace(line, verdict="pass", figure=f"{name}, CUDA {built}: sees {cards} card{'' if cards == 1 else 's'}", source="driver", fix="")


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

    def __str__(self) -> str:
        return _words.monitor_text(self)


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
    _checks.real("seconds", seconds, above=0)
    _checks.real("interval", interval, above=0)
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
