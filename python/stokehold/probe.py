# SPDX-License-Identifier: Apache-2.0
"""Why a training loop waits, whoever's loader and model it has: the diagnosis of `stoke diagnose` for a loop as it is."""
import sys
import time
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, Deque, Dict, Iterable, Iterator, List, Optional, Tuple

from . import _stoke
from ._device_clock import CudaEvents, DeviceClock
from ._making import Watch, why_not
from ._trial import device_of
from ._probe_text import causes, forecast, gains, report_text

__all__ = ["Attribution", "Cause", "Fix", "Fixes", "Forecast", "Probe"]

_ANCHOR_STEPS = 100  # the device is waited for once in so many steps, to compare its clock with the host's
_MOMENTS = ("began", "ready", "pin_start", "pin_end", "asked", "got", "launched", "copy_start", "copy_end", "start", "end")
# What happens to a PyTorch worker's batch between its making and the loop; ours are only pinned there.
_PASSING = ("passing",)
_PASSED = ("the batch went from its worker to the loop: pickled, sent, pinned where asked for", False)


@dataclass(frozen=True)
class Cause:
    """A part of the device's idle time; no nanosecond is in two of them."""

    name: str
    ns: int
    meaning: str
    waits_for_input: bool


@dataclass(frozen=True)
class Attribution:
    """Where the time went: elapsed_ns = busy_ns + idle_ns, and the causes sum to idle_ns exactly."""

    steps: int
    elapsed_ns: int
    busy_ns: int
    idle_ns: int
    input_ns: int
    fetch_ns: int
    copy_ns: int
    overlapped_copy_ns: int
    augment_ns: int
    causes: Tuple[Cause, ...]
    unknown_after: Optional[str]

    @property
    def busy(self) -> float:
        """Share of the time that the device computed, 0 to 1."""
        return self.busy_ns / self.elapsed_ns if self.elapsed_ns else 0.0

    def __str__(self) -> str:
        return "\n".join([f"busy {100 * self.busy:.1f} % of {self.steps} steps", "", *causes(self, True)])


@dataclass(frozen=True)
class Forecast:
    """What a setup would give: a step from end to end in ms, the share of busy time, and what limits it; 90 % intervals."""

    step_ms: float
    low_ms: float
    high_ms: float
    busy: float
    busy_low: float
    busy_high: float
    closed_ms: float
    limit: str

    def __str__(self) -> str:
        return forecast(self)


@dataclass(frozen=True)
class Fix:
    """One change to the loop. Gains are ms a step: alone with its 90 % interval, and after those of lower `order`."""

    cause: str
    applies: bool
    what: str
    change: str
    setting: Optional[str]
    gain_ms: float
    gain_low: float
    gain_high: float
    busy: Optional[float]
    order: int
    marginal_ms: float


@dataclass(frozen=True)
class Fixes:
    """All of them, and what they give together, which is not the sum of what each gives alone."""

    now: Forecast
    fixes: Tuple[Fix, ...]
    together: Forecast
    all: str
    gain_all_ms: float

    def __str__(self) -> str:
        return "\n".join(gains(self))


class _Wrapped:
    """A loader under a probe: the same batches."""

    def __init__(self, probe: "Probe", loader: Iterable[Any]):
        self._probe = probe
        self._loader = loader

    def __iter__(self) -> Iterator[Any]:
        return self._probe._steps(self._loader)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class Probe:
    """Keeps the time of every step of a loop, and says where it went.

        with stokehold.Probe(model) as probe:
            for images, masks in probe.wrap(loader):  # any iterable; of a torch DataLoader its workers are seen too
                train_one_step(images, masks)
        print(probe.report())

    model : any torch module, optional. Its first parameter tells the device; on CUDA its call separates copies from the step.
    device : instead of a model's; without both, CUDA where torch uses it already, else the processor.
    warm_up : steps at the beginning that do not count; at least one.
    keep : steps that are remembered, the newest ones.

    A step costs the loop some microseconds, whatever the number of steps; `overhead_us` has the figure of this very run. Time
    between two loops (validation, checkpoints) is not counted. On the processor a step lasts from the batch to the call for the
    next; on CUDA events on the current stream mark it, and the device is waited for once in 100 steps.

    A loop that others run (Lightning, Hugging Face's Trainer) tells by `step_begins` and `step_ends`, `pause` and `resume`.
    """

    def __init__(self, model: Any = None, device: Any = None, *, warm_up: int = 1, keep: int = 10000, events: Any = None):
        if warm_up < 1 or keep < 2:
            raise ValueError("warm_up is 1 or more, and keep is 2 or more: the step before the first gives the beginning")
        self.model = model
        self.device = str(device if device is not None else _device_of(model))
        self._warm_up = warm_up
        self._steps_kept: Deque[Dict[str, Any]] = deque(maxlen=keep)
        if events is None and self.on_cuda:
            events = CudaEvents(self.device)
        self._clock = DeviceClock(events) if events is not None else None
        self._events = events
        self._watches: "weakref.WeakKeyDictionary[Any, Watch]" = weakref.WeakKeyDictionary()
        self._hook: Any = None
        self._now: Optional[Dict[str, Any]] = None  # the step under way
        self._count = self._epoch = 0
        self._shift = 0  # ns between loops so far
        self._left: Optional[int] = None  # when the last loop ended, or pause was called
        self._asked: Optional[int] = None  # when the last step of a loop that others run ended
        self._cpu = 0
        self._own_ns = self._loop_cpu_ns = self._process_ns = self._loop_ns = 0
        self._loader: Any = None
        self.remarks: List[str] = []  # what could not be seen, and why

    @property
    def on_cuda(self) -> bool:
        """Whether a card does the steps."""
        return self.device.startswith("cuda")

    # ---- watching ----

    def __enter__(self) -> "Probe":
        if self._clock is not None and self.model is not None:
            self._hook = self.model.register_forward_pre_hook(self._forward)
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def close(self) -> None:
        """Gives the loaders and the model back as they were. What was seen stays."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        for watch in list(self._watches.values()):
            watch.restore()
        self._watches.clear()
        if self._clock is not None:
            self._clock.settle()

    def wrap(self, loader: Iterable[Any]) -> Iterable[Any]:
        """The loader's own batches, with the probe looking on; for as many epochs as you like."""
        if self._loader is not None and loader is not self._loader:
            raise ValueError("a probe watches one loader: make another probe for the second")
        reason = why_not(loader)
        if reason and self._loader is None:
            self._remark(f"how batches are made is not seen: {reason}")
        elif not reason and loader not in self._watches:
            self._watches[loader] = Watch(loader)
        self._loader = loader
        return _Wrapped(self, loader)

    def _remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)

    def _forward(self, module: Any, inputs: Any) -> None:
        """Before the model's first kernel of a step; what the stream did since the batch came was to copy it."""
        step = self._now
        if step is not None and "copy_end" not in step and self._clock is not None:
            step["copy_end"] = 0
            step["launched"] = time.monotonic_ns()
            self._clock.mark(step, "copy_end")

    def _steps(self, loader: Iterable[Any]) -> Iterator[Any]:
        watch = self._watches.get(loader) if self._watches else None
        asked = self.resume()
        began, cpu_began = asked, time.process_time_ns()
        index = 0
        try:
            iterator = iter(loader)
            for batch in iterator:
                got = time.monotonic_ns()
                cpu = time.thread_time_ns()
                self._begin(watch, index, asked, got)
                index += 1
                self._own_ns += time.monotonic_ns() - got
                yield batch
                asked = self._finish(cpu)
        finally:
            if self._now is not None:  # the loop was left by break or an exception
                self._finish(cpu)
            if self._clock is not None:
                self._clock.settle()
            self._loop_ns += self.pause() - began
            self._process_ns += time.process_time_ns() - cpu_began
            self._epoch += 1

    # ---- a loop that others run ----

    def step_begins(self) -> None:
        """The batch is there. What passed since `step_ends` was a wait for it."""
        got = self.resume()
        self._cpu = time.thread_time_ns()
        self._begin(None, self._count, got if self._asked is None else self._asked, got)
        self._own_ns += time.monotonic_ns() - got

    def step_ends(self) -> None:
        """The step is done; the next batch is asked for."""
        if self._now is not None:
            self._asked = self._finish(self._cpu)

    def pause(self) -> int:
        """What follows (validation, a checkpoint) does not count, until `resume` or the next step. Returns the moment."""
        now = time.monotonic_ns()
        if self._left is None:
            self._left = now
        return now

    def resume(self) -> int:
        """Time counts again. Returns the moment."""
        now = time.monotonic_ns()
        if self._left is not None:
            self._shift += now - self._left
            if self._asked is not None:
                self._asked += now - self._left
            self._left = None
        return now

    def _begin(self, watch: Optional[Watch], index: int, asked: int, got: int) -> None:
        step: Dict[str, Any] = {"number": self._count, "epoch": self._epoch, "asked": asked, "got": got,
                                "first_of_epoch": int(index == 0), "shift": self._shift}
        seen = watch.of(index) if watch is not None else None
        if seen is not None:
            step.update(seen)
            # Pickled, sent and taken out (and pinned) between these two. On a card, time before the call may be the loop's.
            if self._loader.num_workers and (seen["ready"] > asked or self._clock is None):
                step["pin_start"], step["pin_end"] = max(seen["ready"], asked), got
        if self._clock is None:
            step["launched"] = step["start"] = got
        elif self._hook is None:
            step["launched"] = got
            self._clock.mark(step, "start")
        else:
            self._clock.mark(step, "copy_start")
        self._now = step
        self._steps_kept.append(step)
        self._count += 1

    def _finish(self, cpu: int) -> int:
        """The end of a step, which is the call for the next batch."""
        step, self._now = self._now, None
        entered = time.monotonic_ns()
        self._loop_cpu_ns += time.thread_time_ns() - cpu
        if step is None:
            return entered
        if self._clock is None:
            step["end"] = entered
        else:
            self._clock.mark(step, "end")
            if self._count % _ANCHOR_STEPS == 0:
                self._clock.settle()
        asked = time.monotonic_ns()
        self._own_ns += asked - entered
        return asked if self._clock is not None else entered  # on the processor a step ends with the call for the next batch

    # ---- what it tells ----

    @property
    def overhead_us(self) -> float:
        """What the probe itself took of a step in the loop, in microseconds [measured]; not what keeping the time of a
        DataLoader's parts takes where batches are made: 20 to 190 us a batch, without workers in the loop's own thread."""
        return self._own_ns / self._count / 1e3 if self._count else 0.0

    @property
    def records(self) -> List[Dict[str, Any]]:
        """The steps as stoke_step_record has them (include/stoke/tools/record.h): moments in ns on one clock; what is missing is
        not known."""
        if self._clock is not None:
            self._clock.settle()
        records, last = [], 0
        for step in self._steps_kept:
            if "end" not in step:
                continue
            record = {name: value for name, value in step.items() if name != "shift"}
            if self._clock is not None and "start" not in record:
                record["start"] = record.get("copy_end") or record["copy_start"]  # the model was not called: all is the step
                if not record.get("copy_end"):
                    record.pop("copy_start")
            for name in _MOMENTS:
                if record.get(name):
                    record[name] -= step["shift"]
            record["start"] = max(record["start"], last)  # a stream is in order; its clock is to a microsecond or so
            last = record["end"] = max(record["end"], record["start"])
            records.append(record)
        return records

    @property
    def sees_making(self) -> bool:
        """Whether the parts of making a batch are seen: of a torch DataLoader; of any other iterable next() alone is."""
        return not why_not_seen(self._loader)

    @property
    def setup(self) -> str:
        """How the loop is run, as far as the loader tells, in the words of stoke_setup_change."""
        loader = self._loader
        workers = int(getattr(loader, "num_workers", 0) or 0) if not why_not_seen(loader) else 0
        ahead = workers * (getattr(loader, "prefetch_factor", None) or 2) if workers else 1
        words = [f"batch={self._batch()}", f"workers={workers}", f"prefetch={ahead}", "by_batch=yes", "placement=host",
                 f"persistent={'yes' if getattr(loader, 'persistent_workers', False) or not workers else 'no'}"]
        if self._clock is None:  # the processor: nothing is copied, and the loop is the device
            words += ["transfer=pinned", "sync=yes"]
        else:
            words += [f"transfer={'pinned' if getattr(loader, 'pin_memory', False) else 'pageable'}",
                      f"sync={'yes' if self._waits() else 'no'}"]
        return " ".join(words)

    def _batch(self) -> int:
        sizes = [step["samples"] for step in self._steps_kept if step.get("samples")]
        return max(sizes) if sizes else int(getattr(self._loader, "batch_size", None) or 1)

    def _waits(self) -> bool:
        """Whether the loop waits for every step (loss.item(), printing): it calls for the next batch after the step's end."""
        records = self.records
        late = [after["asked"] >= before["end"] for before, after in zip(records, records[1:])]
        return bool(late) and sum(late) > len(late) / 2

    def _counted(self) -> Tuple[List[Dict[str, Any]], int]:
        records = self.records
        if len(records) < 2:
            raise ValueError(f"{len(records)} steps were seen: an attribution takes two or more")
        return records, min(self._warm_up, len(records) - 1)

    @property
    def attribution(self) -> Attribution:
        """All idle time of the device by exclusive causes."""
        records, first = self._counted()
        found = _stoke.attribute(records, first, self.setup)
        causes = tuple(Cause(*(_PASSING + row[1:2] + _PASSED if row[0] == "pin" else row)) for row in found.pop("causes"))
        if sum(cause.ns for cause in causes) != found["idle_ns"]:
            raise AssertionError("the causes do not sum to the idle time: a fault of stokehold, please report it")
        return Attribution(causes=causes, **found)

    def scalars(self) -> Dict[str, float]:
        """Shares of the time, 0 to 1, by names that a logger can take: busy, input (waiting for a batch), and of all idle time
        idle/CAUSE.

            for name, value in probe.scalars().items():
                writer.add_scalar(name, value, step)  # torch.utils.tensorboard, or any other
        """
        found = self.attribution
        whole = max(1, found.elapsed_ns)
        return {"busy": found.busy, "input": found.input_ns / whole,
                **{f"idle/{cause.name}": cause.ns / whole for cause in found.causes}}

    def _costs(self, records: List[Dict[str, Any]]) -> Dict[str, Any]:
        """What stoke_costs has besides records, measured while the loop ran."""
        steps = max(1, self._count)
        making = sum(times[1] for record in records for times in record.get("making", {}).values())
        whole = making * steps / max(1, len(records))
        workers = getattr(self._loader, "num_workers", 0)
        elapsed = max(1, self._loop_ns)
        usable = _stoke.machine()["usable"][0]
        loop = max(0, self._process_ns - (0 if workers else whole))
        restarts = [r["got"] - r["asked"] for r in records if r["first_of_epoch"]]
        restarts = restarts or [step["got"] - step["asked"] for step in self._steps_kept if step["first_of_epoch"]]
        copies = [r["copy_end"] - r["copy_start"] for r in records if r.get("copy_end") and r.get("copy_start")]
        copy_ms = sum(copies) / len(copies) / 1e6 if copies else 0.0
        pinned = bool(getattr(self._loader, "pin_memory", False))
        launches = [max(0, b["start"] - max(b["launched"], b.get("copy_end", 0), a["end"])) for a, b in zip(records, records[1:])]
        try:
            length = len(self._loader)
        except TypeError:
            length = 0
        on_host = self._clock is None
        return {
            "cores": min(max(usable - loop / elapsed, whole / elapsed, 0.25), usable),
            "launch_ms": 0.0 if on_host or not launches else sum(launches) / len(launches) / 1e6,
            "host_ms": 0.0 if on_host else self._loop_cpu_ns / steps / 1e6,
            "restart_ms": sum(restarts) / len(restarts) / 1e6 if restarts else None,
            "steps_per_epoch": length,
            "processor": on_host,
            "pageable_ms": 0.0 if on_host else None if pinned else copy_ms,
            "pinned_ms": 0.0 if on_host else copy_ms if pinned else None,
        }

    def _known(self) -> Tuple[List[Dict[str, Any]], Dict[str, Any]]:
        records, first = self._counted()
        known = [record for record in records[first:] if record.get("making")]
        if not known:
            raise ValueError("nothing can be predicted, since how batches are made was not seen" +
                             (": " + self.remarks[0].partition(": ")[2] if self.remarks else ""))
        return known, self._costs(known)

    @property
    def fixes(self) -> Fixes:
        """What each change would give. ValueError when the making of batches was not seen."""
        known, costs = self._known()
        found = _stoke.fixes(self.setup, known, costs, 0)
        return Fixes(now=Forecast(**found["now"]), fixes=tuple(Fix(**fix) for fix in found["fixes"]),
                     together=Forecast(**found["together"]), all=found["all"], gain_all_ms=found["gain_all_ms"])

    def what_if(self, change: str) -> Forecast:
        """Another setup, predicted: probe.what_if("workers=4 prefetch=8")."""
        known, costs = self._known()
        return Forecast(**_stoke.forecast(self.setup, known, costs, change, 0))

    def report(self) -> str:
        """All of it as a text, like that of `stoke diagnose`."""
        return report_text(self)


def why_not_seen(loader: Any) -> bool:
    """Whether it is something else than a torch DataLoader, of whose workers nothing is known."""
    return not (hasattr(loader, "num_workers") and hasattr(loader, "batch_sampler"))


def _device_of(model: Any) -> str:
    if model is not None:
        return device_of(model)
    torch = sys.modules.get("torch")
    return "cuda" if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized() else "cpu"
