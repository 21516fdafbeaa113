# SPDX-License-Identifier: Apache-2.0
"""Somebody's own data set as the source of our batches."""
import collections
import json
import math
import os
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _pictures, _stoke
from ._batches import Batches
from ._errors import from_status
from .loader import BadFile

_IMAGE_KEYS = ("image", "images", "img", "input", "pixel_values")
_MASK_KEYS = ("mask", "masks", "label", "labels", "target", "segmentation", "annotation")
_ABOUT_FILES = {"data", "images", "masks", "targets", "task", "scale", "photometric", "list", "split", "cache", "cache_ram", "cache_disk",
                "quarantine", "weights"}
_STAGES = ("read", "decode image", "decode mask", "fit", "write", "slot wait", "batch wait")
_STATE, _TOO_BAD = -11, -10  # of enum stoke_status


def _split(sample: Any) -> Tuple[Any, Any]:
    """Image and mask (or None) of what a data set gives."""
    if isinstance(sample, Mapping):
        image, mask = (next((sample[key] for key in keys if key in sample), None) for keys in (_IMAGE_KEYS, _MASK_KEYS))
        if image is None:
            raise TypeError(f"a sample with the keys {', '.join(map(str, sample))}: which is the image? "
                            "Say sample=lambda s: (image, mask)")
        return image, mask
    if isinstance(sample, (tuple, list)):
        if not sample:
            raise TypeError("an empty sample")
        return sample[0], sample[1] if len(sample) > 1 else None
    return sample, None


@dataclass
class _Work:
    """A batch that is being made."""

    batch: _stoke.Batch
    position: int
    ids: Sequence[int]
    left: int  # rows
    done: threading.Event = field(default_factory=threading.Event)
    error: Optional[BaseException] = None
    cancelled: bool = False


class _Core:
    """Does for a Python data set what `_stoke.Loader` does for files; has its methods. Threads call the data set and put rows; the
    consumer takes the batches in order."""

    def __init__(self, source: Any, split: Callable[[Any], Tuple[Any, Any]], rows: _stoke.Rows) -> None:
        self._source, self._split, self._rows = source, split, rows
        running = rows.running
        self._count = len(source)
        self._batch, self._rank, self._world = running["batch"], running["rank"], running["world"]
        self._drop_last = bool(running["drop_last"])
        self._seed, self._order = running["seed"], running["order"]
        self._workers, self._ahead = running["workers"], max(1, running["prefetch"])
        self._policy = running["policy"]
        if self._order not in ("shuffle", "sequential"):
            raise ValueError(f"order {self._order} needs files; a data set of your own is taken in order shuffle or sequential")
        if self._policy == "skip":
            raise ValueError("policy skip is for files: take stop (an error of the data set is raised) or replace")
        if not self._count:
            raise ValueError("the data set is empty")
        share = running["max_bad"] or "1%"
        self._max_bad = math.ceil(float(share[:-1]) / 100 * self._count) if share.endswith("%") else int(share)
        self._pid = os.getpid()
        self._lock = threading.Lock()  # of everything below that workers change
        self._jobs: "queue.SimpleQueue[Optional[Tuple[_Work, int]]]" = queue.SimpleQueue()
        self._threads: List[threading.Thread] = []
        self._times = {name: [0, 0, 0] for name in _STAGES}
        self._bad: Dict[int, BaseException] = {}
        self._replaced = self._samples = self._delivered_ever = 0
        self._first_ns = self._began_ns = self._ended_ns = 0
        self._closed = False
        self._pending: Deque[_Work] = collections.deque()
        self._restart(running["epoch"], 0)

    # ---- where it stands

    def _shard(self, start: int) -> Tuple[int, int, int, int, int, bool]:
        return self._count, start, self._batch, self._rank, self._world, self._drop_last

    def _restart(self, epoch: int, start: int) -> None:
        for work in self._pending:
            work.cancelled = True
        self._pending.clear()
        self._epoch, self._start = epoch, start
        self._total = _stoke.shard_batches(*self._shard(start))
        self._planned = self._delivered = 0
        self._failed: Optional[BaseException] = None

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise from_status("made in the process that forked this one, where its threads are: make a new Dataset in every "
                              "process, or start processes by 'spawn'", _STATE, "state")
        if self._closed:
            raise from_status("the data set is closed", _STATE, "state")

    def set_epoch(self, epoch: int) -> None:
        self._check()
        if epoch < 0:
            raise OverflowError("an epoch is 0 or more")
        self._restart(epoch, 0)
        if self._threads:
            self._plan()

    def batches(self) -> Tuple[int, int]:
        return _stoke.shard_batches(*self._shard(0)), self._total - self._delivered

    def state(self) -> str:
        position = self._start + self._delivered * self._world * self._batch
        if self._delivered >= self._total:
            position = self._count
        return json.dumps({"version": 1, "seed": self._seed, "epoch": self._epoch, "position": min(position, self._count),
                           "count": self._count, "order": self._order, "fingerprint": "source"})

    def restore(self, state: str) -> None:
        self._check()
        saved, own = json.loads(state), json.loads(self.state())
        for name in ("version", "seed", "count", "order", "fingerprint"):
            if saved.get(name) != own[name]:
                raise from_status(f"saved state: {name} was {saved.get(name)}, here it is {own[name]}", _STATE, "state")
        if not 0 <= saved["position"] <= self._count:
            raise from_status(f"saved state: position {saved['position']} is past the last sample", _STATE, "state")
        self._restart(saved["epoch"], saved["position"])

    # ---- work

    def _plan(self) -> None:
        """Batches ahead of the consumer."""
        while self._planned < self._total and len(self._pending) < self._ahead:
            position, count = _stoke.shard_batch(*self._shard(self._start), self._planned)
            ids = _stoke.order(self._count, self._seed, self._epoch, self._order == "shuffle", position, count)
            batch = self._rows.begin(count, self._epoch, position, ids)
            work = _Work(batch, position, ids, count)
            self._pending.append(work)
            self._planned += 1
            for row in range(count):
                self._jobs.put((work, row))

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._row(*job)
            del job  # a batch must not be held by a thread that waits for the next one

    def _row(self, work: _Work, row: int) -> None:
        if not (work.cancelled or work.error or self._closed):
            try:
                self._make(work, row)
            except BaseException as error:  # whatever it is, it is the consumer's
                work.error = error
        with self._lock:
            work.left -= 1
            last = work.left == 0
        if last:
            try:
                if not (work.cancelled or work.error or self._closed):
                    self._rows.finish(work.batch)
            except BaseException as error:
                work.error = error
            work.done.set()

    def _make(self, work: _Work, row: int) -> None:
        """Fills a row, with another sample where its own is bad and that is allowed."""
        sample, attempt = work.ids[row], 0
        while True:
            try:
                with self._lock:
                    known = self._bad.get(sample)
                if known is not None:
                    raise known
                self._put(work.batch, row, sample, attempt > 0)
                break
            except Exception as error:
                if self._policy == "stop":
                    raise
                with self._lock:
                    self._bad[sample] = error
                    many = len(self._bad) > self._max_bad
                if many:
                    raise from_status(f"{len(self._bad)} of {self._count} samples are bad, max_bad allows {self._max_bad}; the last: "
                                      f"sample {sample}: {error!r}", _TOO_BAD, "too-bad") from error
            attempt += 1
            sample = _stoke.substitute(self._count, self._seed, self._epoch, self._order == "shuffle", work.position + row, attempt)
        with self._lock:
            self._replaced += attempt > 0

    def _put(self, batch: _stoke.Batch, row: int, sample: int, replaced: bool) -> None:
        begin = time.monotonic_ns(), time.thread_time_ns()
        image, mask = self._split(self._source[sample])
        image, mask = _pictures.image(image), _pictures.mask(mask)
        read = time.monotonic_ns(), time.thread_time_ns()
        self._rows.put(batch, row, image, mask, _pictures.channels_first(image), mask is not None and _pictures.channels_first(mask),
                       sample if replaced else None)
        written = time.monotonic_ns(), time.thread_time_ns()
        with self._lock:
            for name, a, b in (("read", begin, read), ("write", read, written)):
                stage = self._times[name]
                stage[0] += b[0] - a[0]
                stage[1] += b[1] - a[1]
                stage[2] += 1

    def next(self) -> Optional[_stoke.Batch]:
        self._check()
        if self._failed is not None:
            raise self._failed
        began = time.monotonic_ns()
        self._began_ns = self._began_ns or began
        while len(self._threads) < self._workers:
            thread = threading.Thread(target=self._serve, name="stokehold-rows", daemon=True)  # close() joins it, also at exit
            self._threads.append(thread)
            thread.start()
        self._plan()
        if not self._pending:
            return None
        work = self._pending[0]
        if self._workers:
            work.done.wait()
        else:
            while not work.done.is_set():
                job = self._jobs.get()
                assert job is not None
                self._row(*job)
        if work.error is not None:
            self._failed = work.error
            raise work.error
        self._pending.popleft()
        self._plan()
        self._note(began, len(work.ids))
        return work.batch

    def _note(self, began: int, count: int) -> None:
        now = time.monotonic_ns()
        if not self._delivered:
            self._first_ns = now - began
        wait = self._times["batch wait"]
        wait[0] += now - began
        wait[2] += 1
        self._ended_ns = now
        self._delivered += 1
        self._delivered_ever += 1
        self._samples += count

    # ---- what is known

    @property
    def two_masks(self) -> bool:
        return self._rows.two_masks

    @property
    def batch_size(self) -> int:
        return int(self._batch)

    @property
    def samples(self) -> int:
        return self._count

    def stats(self) -> Dict[str, Any]:
        with self._lock:
            stages = {name: tuple(times) for name, times in self._times.items()}
            bad, replaced = len(self._bad), self._replaced
        nothing = dict.fromkeys(("skipped", "bytes_read", "retries", "cache_hits_ram", "cache_hits_disk", "cache_misses",
                                 "cache_stored", "cache_damaged", "cache_ram_bytes", "cache_disk_bytes"), 0)
        held, pending = self._rows.held, list(self._pending)
        ready = sum(work.done.is_set() for work in pending)
        return {"samples": self._samples, "batches": self._delivered_ever, "replaced": replaced, "bad_samples": bad,
                "first_batch_ns": self._first_ns, "elapsed_ns": max(0, self._ended_ns - self._began_ns), "stages": stages,
                "held": held - min(held, len(pending)), "ready": ready, "slots": held, "heap_allocations": None, "memory_bytes": None,
                **nothing}

    def bad(self) -> List[Tuple[str, str, str]]:
        with self._lock:
            return [(str(sample), repr(error), getattr(error, "status", "unknown")) for sample, error in self._bad.items()]

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for work in self._pending:
            work.cancelled = True
        if os.getpid() != self._pid:
            return
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._threads.clear()
        self._pending.clear()


class Dataset(Batches):
    """Batches from a data set of your own: anything with ``__getitem__`` and ``__len__``.

        class Mine:
            def __len__(self): return 1000
            def __getitem__(self, i): return PIL.Image.open(f"{i}.jpg"), PIL.Image.open(f"{i}.png")

        for images, masks in stokehold.Dataset(Mine(), batch_size=16, image_size=512, augment="standard", workers=4):
            ...

    It is iterated, saved, restored and counted like a `stokehold.Loader`, with the same order, ranks and draws: a data set that
    gives the pixels of the files gives the loader's bytes. A sample is (image, mask), an image alone, or a dict; pictures are
    images of PIL, NumPy arrays or torch tensors, of any size. Worker threads call ``__getitem__``, so what it does in Python takes
    turns; what it does in C (PIL, NumPy), and all that is done to a picture afterwards, runs at the same time.

    An exception of the data set is raised by the iteration. With ``policy="replace"`` the sample is bad and another takes its place,
    until there are more than `max_bad`; see `bad_samples`.

    Parameters
    ----------
    source
        The data set. ``__getitem__`` is called by several threads at once; ``workers=0`` calls it in the thread that iterates.
    sample
        A function from what ``__getitem__`` gives to (image, mask), for samples of another form.
    batch_size, image_size, augment, workers, prefetch, seed, rank, world, output, as_dict, channels_last, pin_memory, config, settings
        As in `stokehold.Loader`, as far as they are not about files. Without image_size it is that of the first sample.
    """

    _core: _Core

    def __init__(self, source: Any, *, sample: Optional[Callable[[Any], Tuple[Any, Any]]] = None, batch_size: Optional[int] = None,
                 image_size: Union[None, int, str, Tuple[int, int]] = None, augment: Any = None,
                 workers: Union[None, int, str] = None, prefetch: Optional[int] = None, seed: Optional[int] = None,
                 rank: Optional[int] = None, world: Optional[int] = None, output: Optional[str] = None, as_dict: bool = False,
                 channels_last: bool = False, pin_memory: Optional[bool] = None, non_blocking: Optional[bool] = None,
                 config: Union[None, str, "os.PathLike[str]"] = None, **settings: Any) -> None:
        files = _ABOUT_FILES & set(settings)
        if files:
            raise TypeError(f"{', '.join(sorted(files))}: settings about files; the samples come from the data set given")
        named = {"batch_size": batch_size, "image_size": image_size, "augment": augment, "workers": workers, "prefetch": prefetch,
                 "seed": seed}
        settings.update((name, value) for name, value in named.items() if value is not None)
        self._source, self._split = source, sample or _split
        self._begin(settings, rank=rank, world=world, output=output, as_dict=as_dict, channels_last=channels_last, config=config,
                    pin_memory=pin_memory, non_blocking=non_blocking)
        self._arguments.update(source=source, sample=sample)

    def _make_core(self, texts: Dict[str, str], defaults: Dict[str, str], config: Any, channels_last: bool) -> _Core:
        size = (0, 0)
        if not len(self._source):
            raise ValueError("the data set is empty")
        if "size" not in texts and "image_size" not in texts:
            size = _pictures.size(self._split(self._source[0])[0])
        defaults["policy"] = "stop"
        return _Core(self._source, self._split, _stoke.Rows(texts, config, channels_last, size, defaults, self._pinning.source))

    def bad_samples(self) -> List[BadFile]:
        """Samples that could not be used so far, each once; `path` is the sample's number."""
        return [BadFile(*bad) for bad in self._core.bad()]

    def __del__(self) -> None:
        core = getattr(self, "_core", None)  # its threads know only the core, and would keep it
        if core is not None:
            core.close()
