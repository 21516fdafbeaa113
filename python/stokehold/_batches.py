# SPDX-License-Identifier: Apache-2.0
"""What Loader and Dataset share: how batches are iterated, saved, restored and counted."""
import atexit
import importlib
import importlib.util
import json
import os
import warnings
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, Optional, TypeVar

from . import _checks, _device, _pinning, _settings, _stoke
from ._errors import StateError


@dataclass(frozen=True)
class StageTime:
    """What a stage of loading has cost, summed over all threads."""

    wall_ms: float
    cpu_ms: float
    count: int  # how often

    @property
    def ms(self) -> Optional[float]:
        """Wall time of one; None before the first."""
        return self.wall_ms / self.count if self.count else None


@dataclass(frozen=True)
class Stats:
    """What a loader has done since it was made. A figure that cannot be known, or not yet, is None.

    With `to`, what is held, ready and has room is on the device.
    """

    samples: int
    batches: int
    seconds: float  # from the first request for a batch to the arrival of the last one
    samples_per_s: Optional[float]  # over those seconds
    wait_share: Optional[float]  # of those seconds, spent waiting for a batch: above 0.05 the loader is what is slow
    first_batch_ms: Optional[float]  # wait for the first batch of the epoch
    stages: Dict[str, StageTime]  # read, decode image, decode mask, fit, write, slot wait, batch wait
    replaced: int  # rows whose own sample was bad
    skipped: int  # rows left out (policy skip)
    bad_samples: int  # distinct ones
    bytes_read: int
    retries: int  # calls to open or read that were tried again
    memory_bytes: Optional[int]  # of ring, workers and cache_ram now; compare with Loader.memory
    heap_allocations: Optional[int]  # by the library; stops growing after the first batches
    held: int  # batches that somebody holds now,
    ready: int  # those that could be had at once,
    slots: int  # and the room for both
    cache_hits_ram: int
    cache_hits_disk: int
    cache_misses: int
    cache_stored: int
    cache_damaged: int
    cache_ram_bytes: int
    cache_disk_bytes: int


def _as_torch() -> Callable[[_stoke.Array], Any]:
    torch = importlib.import_module("torch")
    from_dlpack = torch.from_dlpack if hasattr(torch, "from_dlpack") else torch.utils.dlpack.from_dlpack
    return lambda array: from_dlpack(array.__dlpack__())


def _as_numpy() -> Callable[[_stoke.Array], Any]:
    import numpy

    return numpy.asarray


OUTPUTS: Dict[str, Callable[[], Callable[[_stoke.Array], Any]]] = {
    "torch": _as_torch,
    "numpy": _as_numpy,
    "dlpack": lambda: lambda array: array,
}

# Loaders end with the interpreter, before modules are taken apart.
_open: "weakref.WeakSet[Batches]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for loader in list(_open):
        loader.close()


_Self = TypeVar("_Self", bound="Batches")


class Batches:
    """An endless row of epochs. The core knows the batches of one."""

    _core: Any  # `_stoke.Loader`, or what has its methods (dataset.py)

    def _make_core(self, texts: Dict[str, str], defaults: Dict[str, str], config: Any, channels_last: bool) -> Any:
        """By the class. A file goes before the defaults, texts go before a file."""
        raise NotImplementedError

    def _begin(self, settings: Dict[str, Any], *, rank: Optional[int], world: Optional[int], output: Optional[str], as_dict: bool,
               channels_last: bool, config: Any, way: Optional[_device.Route] = None, pin_memory: Optional[bool] = None,
               non_blocking: Optional[bool] = None, **others: Any) -> None:
        for name, value in (("as_dict", as_dict), ("channels_last", channels_last), ("pin_memory", pin_memory),
                            ("non_blocking", non_blocking)):
            _checks.flag(name, value)
        if config is not None:
            config = _checks.path("config", config)
        # What a copy in another process is made from; its rank is its own affair unless it was said.
        self._arguments = dict(settings, rank=rank, world=world, output=output, as_dict=as_dict, channels_last=channels_last,
                               config=config, pin_memory=pin_memory, non_blocking=non_blocking, **others)
        self._way = way
        # On the way to a device they are pinned anyhow.
        pins = way is None and (_pinning.asked_by(config) if pin_memory is None else pin_memory)
        self._pinning = _pinning.choose() if pins else _pinning.Pinning(None, "", "")
        self._copies: Optional[_pinning.Copies] = None
        self._notes = [self._pinning.why] if self._pinning.why else []
        if non_blocking and way is None:
            self._notes.append("non_blocking is for copies, and batches stay on the host here: write images.to(device, "
                               "non_blocking=True) with pin_memory=True, or to='cuda', which copies ahead by itself")
        for note in self._notes:
            warnings.warn(note, stacklevel=3)
        settings["rank"], settings["world"] = _settings.place_in_world(rank, world)
        if way is not None:
            output = _device.output(way, output)
        if output is None:
            output = "torch" if importlib.util.find_spec("torch") else "numpy"
        if output not in OUTPUTS:
            raise ValueError(f"output={output!r}: it is one of {', '.join(OUTPUTS)}")
        if config is not None and settings.get("augment") is None and (settings.get("use_mixup") or settings.get("use_cutmix")):
            raise TypeError("use_mixup and use_cutmix go behind augment, which a file may say: give augment, too")
        texts = _settings.texts(settings)
        if channels_last and texts.setdefault("layout", "hwc") != "hwc":
            raise ValueError("channels_last needs layout hwc, which it sets by itself: leave out layout")
        if output == "numpy" and texts.get("dtype") == "bf16":
            raise ValueError("NumPy has no bfloat16: take output='torch' or 'dlpack', or dtype 'float32' or 'float16'")
        self._convert_host = self._convert = OUTPUTS[output]()
        if way is not None and way.kind == "cuda" and output == "torch":
            self._convert = _device.as_torch(way.index)
        self._as_dict = as_dict
        # What torch's losses take. Others take the smallest type that holds the classes.
        defaults = {"mask_dtype": "i64"} if output == "torch" else {}
        self._core = self._make_core(texts, defaults, config, channels_last)
        if self._pinning.by == "torch" and output == "torch":
            self._copies = _pinning.Copies(self._core.stats()["slots"])
        if self._core.two_masks and not as_dict:
            self._core.close()
            raise ValueError("augment has mixup, so every sample has two masks and the share of the first: ask for as_dict=True "
                             "(cutmix needs none of this)")
        self._length = self._core.batches()[0]
        self._epoch: int = json.loads(self._core.state())["epoch"]
        self._fresh = True  # stands where the next iteration begins
        self._wanted: Optional[int] = None  # epoch of the next iteration, said in the middle of another
        self._iteration = 0
        _open.add(self)

    # ---- iterating

    def __len__(self) -> int:
        """Batches in an epoch (of this rank)."""
        return self._length

    def __iter__(self) -> Iterator[Any]:
        if not self._fresh:
            self._start(self._epoch + 1 if self._wanted is None else self._wanted)
        self._fresh = False
        self._wanted = None
        self._iteration += 1
        return _Iteration(self, self._iteration)

    def _start(self, epoch: int) -> None:
        self._core.set_epoch(epoch)
        self._epoch = epoch
        self._fresh = True

    def _next(self) -> Any:
        if self._copies is not None:
            self._copies.let_go()
        batch = self._core.next()
        if batch is None:
            # The workers are on the next epoch already; a state saved now is the beginning of it.
            self._start(self._epoch + 1 if self._wanted is None else self._wanted)
            self._wanted = None
            raise StopIteration
        convert, convert_host = self._convert, self._convert_host
        targets, masks = batch.targets, batch.masks
        second, share = batch.masks_b, batch.lambda_
        result = {"images": convert(batch.images)}
        if targets is not None:
            result["targets"] = convert(targets)
        elif masks is not None:
            result["masks"] = convert(masks)
        pair = tuple(result.values())
        if self._as_dict:
            result.update(ids=convert_host(batch.ids), names=batch.names)
        if self._as_dict and second is not None and share is not None:
            result["masks_b"] = convert(second)
            result["lambda"] = convert_host(share)
        if self._copies is not None:
            self._copies.watch(batch, *(value for name, value in result.items() if name != "names"))
        return result if self._as_dict else pair

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated, or else the one that comes next."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next iteration. Without it each iteration is the next epoch.

        After `load_state_dict` in the middle of an epoch, naming that very epoch keeps the place in it.
        """
        if not self._fresh:
            self._wanted = epoch
        elif epoch != self._epoch:
            self._start(epoch)

    # ---- saving and restoring

    def state_dict(self) -> Dict[str, Any]:
        """The place after the last batch handed out, as a small dict of numbers and texts.

        With several ranks, save it at the same step on all of them. It fits any number of workers and ranks.
        """
        state: Dict[str, Any] = json.loads(self._core.state())
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next iteration goes on from there: the rest of that epoch, then the epochs after it.

        A StateError says what does not fit: other data, another seed or order.
        """
        self._core.restore(json.dumps(state))
        self._epoch = state["epoch"]
        self._fresh = True
        self._wanted = None
        self._iteration += 1  # an iteration that was under way is over

    # ---- what is known

    @property
    def batch_size(self) -> int:
        """Samples in a whole batch."""
        return self._core.batch_size

    @property
    def pin_memory(self) -> bool:
        """Whether batches lie in pinned memory: as asked for, where that can be had."""
        return self._pinning.source is not None or self._way is not None

    @property
    def samples(self) -> int:
        """Samples in the data set, over all ranks."""
        return self._core.samples

    def stats(self) -> Stats:
        """What it has done and what that cost; also after closing."""
        known = self._core.stats()
        stages = {name: StageTime(wall / 1e6, cpu / 1e6, count) for name, (wall, cpu, count) in known.pop("stages").items()}
        seconds = known.pop("elapsed_ns") / 1e9
        first = known.pop("first_batch_ns")
        return Stats(seconds=seconds, stages=stages, first_batch_ms=first / 1e6 if known["batches"] else None,
                     samples_per_s=known["samples"] / seconds if seconds else None,
                     wait_share=min(1.0, stages["batch wait"].wall_ms / 1e3 / seconds) if seconds else None, **known)

    # ---- the end

    def close(self) -> None:
        """Ends the threads and frees the ring. Batches that somebody holds stay valid."""
        self._core.close()
        _open.discard(self)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        # A loader in another process is a new one with the same settings: threads and memory stay where they are.
        return _again, (type(self), self._arguments)

    def __repr__(self) -> str:
        words = ", ".join(f"{name}={value!r}" for name, value in self._arguments.items() if value not in (None, False))
        return f"<stokehold.{type(self).__name__} {words}: {self.samples} samples, {len(self)} batches>"


def _again(kind: Callable[..., Batches], arguments: Dict[str, Any]) -> Batches:
    return kind(**arguments)


class _Iteration:
    """One pass over an epoch; over when the next one begins."""

    def __init__(self, loader: Batches, number: int) -> None:
        self._loader = loader
        self._number = number
        self._over = False

    def __iter__(self) -> "_Iteration":
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        loader = self._loader
        if loader._iteration != self._number:
            raise StateError("this iteration is over: another one of the same loader has begun, or a state was loaded. "
                             "Two passes at a time need two loaders")
        try:
            return loader._next()
        except StopIteration:
            self._over = True
            raise
