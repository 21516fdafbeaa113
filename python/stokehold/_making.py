# SPDX-License-Identifier: Apache-2.0
"""What a torch DataLoader's workers do, seen from the loop: times of every batch in memory that all processes share.

The loader's batch_sampler hands out lists of indices with a number on them; the data set, which gets such a list in whichever
process makes the batch, and collate_fn leave their times in the slot of that number. Nothing of a batch is changed. Works for
loaders whose workers are forked or spawned, and for those without any.
"""
import multiprocessing
import os
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

# A slot: number + 1, began, ready, samples, then (wall, cpu, queued) of __getitem__ and of collate_fn. All in ns.
_WORDS = 10
Times = Tuple[int, int, int]


class _Thread(threading.local):
    """The open file of this thread's run-queue counter; a forked child opens its own."""

    pid = 0
    fd = -1


_thread = _Thread()


def _queued_ns() -> int:
    """How long this thread has been ready to run, without a core; 0 where the kernel does not tell."""
    if _thread.pid != os.getpid():
        _thread.pid = os.getpid()
        try:
            _thread.fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            _thread.fd = -1
    if _thread.fd < 0:
        return 0
    try:
        return int(os.pread(_thread.fd, 80, 0).split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _now() -> Times:
    # Not the CPU time of schedstat, which the kernel brings up to date at ticks only.
    return time.monotonic_ns(), time.thread_time_ns(), _queued_ns()


class Ring:
    """Slots in shared memory. RawArray is passed on to forked and to spawned processes alike, and has no name to leave behind."""

    def __init__(self, slots: int):
        self.slots = slots
        self.words = multiprocessing.RawArray("Q", slots * _WORDS)

    def put(self, number: int, values: List[int]) -> None:
        at = number % self.slots * _WORDS
        self.words[at + 1:at + _WORDS] = values
        self.words[at] = number + 1  # last: a slot is as old as its number says until all of it is there

    def get(self, number: int) -> Optional[Dict[str, Any]]:
        at = number % self.slots * _WORDS
        words = self.words[at:at + _WORDS]
        if words[0] != number + 1:
            return None
        return {"began": words[1], "ready": words[2], "samples": words[3],
                "making": {"decode": tuple(words[4:7]), "collate": tuple(words[7:10])}}


class _Numbered(list):
    """The indices of one batch, with its number."""

    number = -1

    def __reduce__(self):
        return _numbered, (list(self), self.number)


def _numbered(indices, number):
    batch = _Numbered(indices)
    batch.number = number
    return batch


class _Sampler:
    """Numbers what another batch_sampler gives. `first` is the number that an epoch begins with."""

    def __init__(self, inner):
        self._inner = inner
        self.next = 0
        self.first = 0

    def __iter__(self) -> Iterator[Any]:
        self.first = self.next
        for indices in self._inner:
            number, self.next = self.next, self.next + 1
            yield _numbered(indices, number)

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, name):
        return getattr(self._inner, name)


class _Maker:
    """What data set and collate_fn of one process share: the batch that is being made."""

    def __init__(self, ring: Ring):
        self.ring = ring
        self.batch = None

    def __reduce__(self):
        return _Maker, (self.ring,)


class _Dataset:
    """A data set that keeps the time; everything else of it is the user's own."""

    __slots__ = ("_stoke_inner", "_stoke_maker")

    def __init__(self, inner, maker):
        object.__setattr__(self, "_stoke_inner", inner)
        object.__setattr__(self, "_stoke_maker", maker)

    def __reduce__(self):
        return _Dataset, (self._stoke_inner, self._stoke_maker)

    def __getitem__(self, index):
        return self._stoke_inner[index]

    def __getitems__(self, indices):
        inner, maker = self._stoke_inner, self._stoke_maker
        many = getattr(inner, "__getitems__", None)
        began = _now()
        samples = many(list(indices)) if many else [inner[index] for index in indices]
        number = getattr(indices, "number", -1)
        maker.batch = (number, began, _now(), len(indices)) if number >= 0 else None
        return samples

    def __len__(self):
        return len(self._stoke_inner)

    def __getattr__(self, name):
        return getattr(self._stoke_inner, name)

    def __setattr__(self, name, value):
        setattr(self._stoke_inner, name, value)


class _Collate:
    """A collate_fn that keeps the time and leaves it in the ring."""

    def __init__(self, inner, maker):
        self.inner = inner
        self.maker = maker

    def __call__(self, samples):
        batch = self.inner(samples)
        if self.maker.batch is not None:
            # From the end of fetching on, so that the clocks are read three times a batch, not four: a reading goes into the
            # kernel twice, which takes 3 us, and 9 us where a step has pushed it out of the caches.
            number, (a, a_cpu, a_queued), (b, b_cpu, b_queued), count = self.maker.batch
            c, c_cpu, c_queued = _now()
            self.maker.batch = None
            self.maker.ring.put(number, [a, c, count, b - a, b_cpu - a_cpu, b_queued - a_queued, c - b, c_cpu - b_cpu,
                                         c_queued - b_queued])
        return batch


class Watch:
    """A DataLoader with its parts replaced by ones that keep the time, until `restore`."""

    def __init__(self, loader: Any):
        ahead = max(1, loader.num_workers) * (getattr(loader, "prefetch_factor", None) or 2)
        self.loader = loader
        self.ring = Ring(2 * ahead + 8)
        self.sampler = _Sampler(loader.batch_sampler)
        maker = _Maker(self.ring)
        self.parts = {"dataset": loader.dataset, "batch_sampler": loader.batch_sampler, "collate_fn": loader.collate_fn}
        # By __dict__: the loader forbids to set some of these, since workers that run already would not notice.
        loader.__dict__.update(dataset=_Dataset(loader.dataset, maker), batch_sampler=self.sampler,
                               collate_fn=_Collate(loader.collate_fn, maker))

    def restore(self) -> None:
        """The loader as it was. Workers that live on keep the time no more, since their batches have no number."""
        self.loader.__dict__.update(self.parts)
        iterator = getattr(self.loader, "_iterator", None)
        if iterator is not None and getattr(iterator, "_index_sampler", None) is self.sampler:
            iterator._index_sampler = self.parts["batch_sampler"]

    def of(self, index: int) -> Optional[Dict[str, Any]]:
        """Of the batch that an epoch's iterator gave as its `index`-th."""
        return self.ring.get(self.sampler.first + index)


def why_not(loader: Any) -> str:
    """Why the making of this loader's batches cannot be seen; empty when it can."""
    if not hasattr(loader, "batch_sampler") or not hasattr(loader, "num_workers") or not hasattr(loader, "collate_fn"):
        return "it is no torch DataLoader"
    if getattr(loader, "_dataset_kind", 0) != 0:  # torch.utils.data.dataloader._DatasetKind: Map is 0, Iterable is 1
        return "an IterableDataset has no indices to follow"
    if loader.batch_sampler is None:
        return "it has no batch_sampler (batch_size=None)"
    if not getattr(loader, "in_order", True):
        return "in_order=False: which batch came cannot be told"
    if getattr(loader, "_iterator", None) is not None:
        return "its persistent workers were started before the probe; make the loader again"
    return ""
