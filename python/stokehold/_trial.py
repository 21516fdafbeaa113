# SPDX-License-Identifier: Apache-2.0
"""Trials of a batch: forward, backward and optimiser steps of somebody's torch module."""
import multiprocessing
import os
import pickle
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Callable, Dict, Optional, Tuple

from . import _stoke

_SECTIONS = ("training", "train", "trainer", "training_args", "optimizer", "optim", "data", "train_ds", "hparams")


def mapping_of(config: Any) -> Any:
    """A config as it can be asked: a mapping or an object stays; a path is read by the library, in any dialect of settings files."""
    if not isinstance(config, (str, os.PathLike)):
        return config
    tree: Dict[str, Any] = {}
    for path, value, _ in _stoke.config_values(os.fsencode(config), False):
        *sections, name = path.split(".")
        at = tree
        for section in sections:
            inner = at.setdefault(section, {})
            at = inner if isinstance(inner, dict) else {}
        if value is not None:
            at[name] = value
    return tree


def _get(where: Any, name: str) -> Any:
    """By name, whatever its case: BATCH_SIZE is batch_size."""
    if hasattr(where, "items"):
        return next((value for key, value in where.items() if str(key).lower() == name), None)
    found = getattr(where, name, None)
    return getattr(where, name.upper(), None) if found is None else found


def _setting(config: Any, *names: str) -> Any:
    """A setting by one of its names, at the top of a mapping or object, or in one of the usual sections."""
    if config is None:
        return None
    sections = [_get(config, section) for section in _SECTIONS]
    if hasattr(config, "items"):  # TrainingConfig, DatasetConfig: dataclasses of a file
        sections += [value for name, value in config.items() if str(name).lower().endswith("config")]
    for where in [config] + [one for one in sections if one is not None and not isinstance(one, (str, int, float))]:
        for name in names:
            value = _get(where, name)
            if value is not None:
                return value
    return None


_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "none", "null", "")


def _said(value: Any) -> Optional[bool]:
    """A bool as files have it; None where it is another word."""
    text = str(value).strip().lower()
    return True if text in _YES else False if text in _NO else None


def _precision(config: Any) -> Optional[str]:
    """What autocast computes in: "float16", "bfloat16", or None for fp32. Lightning's, Hugging Face's and plain names."""
    words = _setting(config, "precision", "amp_dtype", "autocast_dtype")
    if words is None:
        words = _setting(config, "mixed_precision", "use_mixed_precision", "use_amp", "amp")
        if _said(words) is not None:
            words = "16-mixed" if _said(words) else None
    if words is None:
        words = next((name for name in ("bf16", "fp16") if _said(_setting(config, name))), None)
    text = str(words).lower() if words is not None else "32"
    return "bfloat16" if "bf" in text else "float16" if "16" in text or "half" in text else None


def _optimizer(config: Any) -> str:
    """`optimizer: sgd`, or a section with its name; AdamW where nothing is said."""
    said = _setting(config, "optimizer", "optim", "optimizer_type", "optimizer_name")
    if said is not None and not isinstance(said, str):
        said = next((found for found in (_get(said, name) for name in ("name", "type", "_target_", "class_path")) if found), None)
    return str(said).rpartition(".")[2].lower() if said else "adamw"


def batch_said(config: Any) -> int:
    """The batch that a config has, in whatever section but those of evaluation; 0: none that is a number."""
    config = mapping_of(config)
    said = _setting(config, "batch_size", "train_batch_size", "per_device_train_batch_size", "batch")
    if str(said).isdigit():
        return int(str(said))
    inner = config.items() if isinstance(config, dict) else ()
    return next((found for found in (batch_said(value) for name, value in inner if isinstance(value, dict) and
                                     not str(name).lower().startswith(("val", "test", "eval", "predict"))) if found), 0)


@dataclass
class Recipe:
    """How a step is made."""

    loss: Optional[Callable[[Any, Any], Any]]
    optimizer: str
    precision: Optional[str]  # of autocast; None: fp32
    accumulate: int
    steps: int

    @classmethod
    def of(cls, config: Any, loss: Optional[Callable[[Any, Any], Any]], steps: int) -> "Recipe":
        """From what a config says; AdamW in fp32 where it says nothing."""
        config = mapping_of(config)
        times = _setting(config, "accumulate", "accumulate_grad_batches", "gradient_accumulation_steps", "accumulation_steps",
                         "grad_accum_steps")
        return cls(loss=loss, optimizer=_optimizer(config), precision=_precision(config),
                   accumulate=int(times) if str(times).isdigit() and int(times) else 1, steps=steps)

    def __str__(self) -> str:
        return f"{self.optimizer}, {self.precision or 'float32'}" + (f", {self.accumulate} batches a step" if self.accumulate > 1 else "")


def _repeat(thing: Any, batch: int, device: str) -> Any:
    """The first row of every tensor, `batch` times, on the device."""
    if hasattr(thing, "repeat") and hasattr(thing, "dim"):
        row = thing[:1] if thing.dim() else thing.reshape(1)
        return row.repeat(batch, *[1] * (row.dim() - 1)).to(device)
    if isinstance(thing, dict):
        return {name: _repeat(value, batch, device) for name, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_repeat(value, batch, device) for value in thing]
    return thing


def first_of(thing: Any) -> Any:
    """The first tensor of what a network gives, or of a batch."""
    while isinstance(thing, (dict, list, tuple)):
        thing = next(iter(thing.values())) if isinstance(thing, dict) else thing[0]
    return thing


def own_or_mean(output: Any, target: Any) -> Any:
    """The output's own loss, or something that gradients can be taken of."""
    if getattr(output, "loss", None) is not None:
        return output.loss
    output = first_of(output)
    return getattr(output, "logits", output).float().mean()


def device_of(model: Any) -> str:
    """Where its parameters are."""
    return next((str(parameter.device) for parameter in model.parameters()), "cpu")


def _loss(model: Any, data: Any, recipe: Recipe) -> Any:
    target = None
    if isinstance(data, dict):
        output = model(**data)
        target = data.get("labels")
    elif isinstance(data, list) and len(data) == 2:
        output, target = model(data[0]), data[1]
    else:
        output = model(*data) if isinstance(data, list) else model(data)
    return (recipe.loss or own_or_mean)(output, target)


def _make_optimizer(torch: Any, name: str, weights: Any) -> Any:
    """torch's own by that name, whatever its case, whose state is as large as the run's; AdamW stands for those of others."""
    names = {"sgd": {"momentum": 0.9}, "adamw_torch": {}, "adamw_torch_fused": {}, "adamw_hf": {}}
    kind = next((one for one in dir(torch.optim) if one.lower() == name.partition("_")[0]), "AdamW")
    try:
        return getattr(torch.optim, kind)(weights, lr=0.0, **names.get(name, {}))
    except TypeError:  # one that takes more than weights and a rate
        return torch.optim.AdamW(weights, lr=0.0)


def run_steps(model: Any, sample: Any, recipe: Recipe, device: str, batch: int, sync: Callable[[], None]) -> Dict[str, Any]:
    """Times of the steps after the first two: the first make the optimiser's state and choose algorithms. The learning rate is 0,
    so that weights keep their values."""
    import torch
    data = _repeat(sample, batch, device)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = _make_optimizer(torch, recipe.optimizer, weights)
    kind = device.partition(":")[0]
    # A processor computes in bfloat16 where a card does in float16.
    dtype = getattr(torch, recipe.precision or "float16") if kind == "cuda" else torch.bfloat16
    times = []
    for _ in range(recipe.steps + 2):
        began = time.perf_counter()
        for _ in range(recipe.accumulate):
            with torch.autocast(kind, dtype=dtype, enabled=recipe.precision is not None):
                loss = _loss(model, data, recipe)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        sync()
        times.append(1e3 * (time.perf_counter() - began))
    times = sorted(times[2:])
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return {"outcome": "ok", "step_ms": middle, "step_low": low, "step_high": high, "busy": None, "wait_ms": 0.0}


class CudaTrials:
    """In this process: what a card refuses can be caught. The model is given back as it was."""

    def __init__(self, model: Any, sample: Any, recipe: Recipe, device: str, memory: Optional[int], timeout: float):
        import torch
        self.torch, self.model, self.sample, self.recipe, self.device = torch, model, sample, recipe, device
        free, _ = torch.cuda.mem_get_info(device)
        self.memory = memory or free + torch.cuda.memory_reserved(device)

    def __enter__(self) -> "CudaTrials":
        self.state = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}
        self.training = self.model.training
        self.gradients = [weight.grad for weight in self.model.parameters()]
        self.model.train()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.model.load_state_dict(self.state)
        self.model.train(self.training)
        for weight, gradient in zip(self.model.parameters(), self.gradients):
            weight.grad = gradient
        self.torch.cuda.empty_cache()

    def run(self, batch: int, with_loader: bool) -> Dict[str, Any]:
        """One trial; out of memory is an outcome."""
        cuda = self.torch.cuda
        cuda.empty_cache()
        cuda.reset_peak_memory_stats(self.device)
        try:
            trial = run_steps(self.model, self.sample, self.recipe, self.device, batch, lambda: cuda.synchronize(self.device))
        except cuda.OutOfMemoryError as error:
            trial = {"outcome": "oom", "message": str(error)}
        except RuntimeError as error:  # cuDNN and cuBLAS say it in their own words, which the library knows
            trial = {"outcome": (256, 0, 0, False), "message": str(error)}
        for weight in self.model.parameters():
            weight.grad = None
        trial.update(allocated=cuda.max_memory_allocated(self.device), reserved=cuda.max_memory_reserved(self.device))
        return trial


def _status(name: str) -> int:
    """A line of /proc/self/status in bytes: VmData counts against RLIMIT_DATA, VmRSS is resident, VmHWM was at most; 0 = n/a."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return 0


def _import_all() -> None:
    """torch imports much with the first optimiser, 130 MB of it: no part of a trial."""
    import torch
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.0)


def _forget_peak() -> None:
    """The peak so far is that of importing torch."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass  # then the peak of the imports counts, if it was higher: on the safe side


def child(model: Any, sample: Any, recipe: Recipe, batch: int, memory: int, threads: int) -> Dict[str, Any]:
    """A trial on the processor, in a separate process."""
    import torch
    torch.set_num_threads(threads)
    _import_all()
    resource.setrlimit(resource.RLIMIT_DATA, (_status("VmData") + memory, resource.RLIM_INFINITY))
    _forget_peak()
    before = _status("VmRSS")
    try:
        model.train()
        trial = run_steps(model, sample, recipe, "cpu", batch, lambda: None)
    except (RuntimeError, MemoryError) as error:
        trial = {"outcome": "oom" if isinstance(error, MemoryError) else None, "message": str(error)}
    except Exception as error:
        trial = {"outcome": "error", "message": f"{type(error).__name__}: {error}"}
    peak = max(0, _status("VmHWM") - before)  # the interpreter and torch are there anyway
    trial.update(allocated=peak, reserved=peak)
    return trial


# ---- in a separate process: a fresh interpreter, or a fork of this one

# multiprocessing's own way would run the program's main file again, and with it a search that stands there unguarded. Isolated, so
# that files of the working folder stand in for no module before sys.path is that of the program.
_FRESH = """import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from stokehold._trial import answer
answer(int(sys.argv[1]))
"""


@dataclass
class _Ended:
    """What a process answered, and how it ended: its exit status, or less than 0 by a signal."""

    result: Optional[Dict[str, Any]]
    code: int
    late: bool


def answer(pipe: int) -> None:
    """In the fresh interpreter: what is to be tried comes through its input, the answer goes into the pipe."""
    what = pickle.load(sys.stdin.buffer)
    how = pickle.load(sys.stdin.buffer)
    sys.stdin.close()
    with Connection(pipe) as out:
        out.send(child(*what, *how))


def _received(pipe: Any, timeout: float) -> Tuple[Optional[Dict[str, Any]], bool]:
    """The answer, and whether none came in time."""
    if not pipe.poll(timeout):
        return None, True
    try:
        return pipe.recv(), False
    except EOFError:
        return None, False


def _run_fresh(what: bytes, how: Tuple[int, int, int], timeout: float) -> _Ended:
    """In its own interpreter. what: pickled (model, sample, recipe)."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = subprocess.Popen([sys.executable, "-I", "-c", _FRESH, str(theirs.fileno())], stdin=subprocess.PIPE,
                               pass_fds=(theirs.fileno(),))
    try:
        theirs.close()
        try:
            assert process.stdin is not None
            process.stdin.write(pickle.dumps([path or os.getcwd() for path in sys.path]) + what + pickle.dumps(how))
            process.stdin.close()
        except BrokenPipeError:
            pass  # it ended before: how, is seen below
        result, late = _received(ours, timeout)
        try:
            process.wait(0 if late else 10)
        except subprocess.TimeoutExpired:
            pass  # killed below
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        ours.close()
    return _Ended(result, process.returncode, late)


def _answer_forked(pipe: Any, run: Callable[..., Dict[str, Any]], what: Tuple[Any, ...]) -> None:
    pipe.send(run(*what))
    pipe.close()


def _run_forked(run: Callable[..., Dict[str, Any]], what: Tuple[Any, ...], timeout: float) -> _Ended:
    """In a fork, which has everything that the program has."""
    context: Any = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer_forked, daemon=True, args=(theirs, run, what))
    try:
        process.start()
        theirs.close()
        result, late = _received(ours, timeout)
        process.join(0 if late else 10)
    finally:
        if process.is_alive():
            process.kill()
            process.join()
        ours.close()
    return _Ended(result, process.exitcode or 0, late)


def _sent(model: Any, sample: Any, recipe: Recipe) -> Optional[bytes]:
    """For a fresh interpreter that does not run the program's main file again; None: it would lack something of that file."""
    try:
        data = pickle.dumps((model, sample, recipe))
    except Exception:
        return None
    return None if b"__main__" in data else data


class CpuTrials:
    """Each in a separate process, with a limit on its memory."""

    def __init__(self, model: Any, sample: Any, recipe: Recipe, device: str, memory: Optional[int], timeout: float):
        import torch
        self.what, self.timeout = (model, sample, recipe), timeout
        facts = _stoke.machine()
        known = [facts[name][0] for name in ("available_bytes", "limit_bytes") if facts[name]]
        self.memory = memory or int(min(known)) if memory or known else 1 << 30
        self.sent = _sent(model, sample, recipe)
        # A forked process must not use the threads of OpenMP, which it did not inherit.
        self.threads = torch.get_num_threads() if self.sent else 1
        if not self.sent:
            _import_all()  # here once, not in every process

    def __enter__(self) -> "CpuTrials":
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    def run(self, batch: int, with_loader: bool) -> Dict[str, Any]:
        """One trial. How its process ended tells what no exception can."""
        before = _stoke.oom_kills()
        how = (batch, self.memory, self.threads)
        ended = _run_fresh(self.sent, how, self.timeout) if self.sent else _run_forked(child, (*self.what, *how), self.timeout)
        trial = ended.result
        if trial is not None and trial["outcome"] is not None:
            return trial
        trial = trial or {"message": f"it took longer than {self.timeout:g} s" if ended.late else f"ended with {ended.code}"}
        status = -ended.code if ended.code < 0 else 256  # as waitpid has it: a signal, or an exit with 1
        trial["outcome"] = (status, before, _stoke.oom_kills(), ended.late)
        return trial
