# SPDX-License-Identifier: Apache-2.0
"""pin_memory: batches in pinned memory, from which copies to a card need not wait.

The memory is torch's where torch has CUDA, else the CUDA driver's, else there is none and a warning says why. A copy by
``tensor.to(device, non_blocking=True)`` is under way when the tensor is gone already; torch's own allocator knows of such copies, a
place in our ring does not. `Copies` holds such a place until the stream has passed.
"""
import collections
import importlib
import importlib.util
import os
import weakref
from typing import Any, Deque, List, NamedTuple, Optional, Tuple

from . import _stoke
from ._errors import Error


class Pinning(NamedTuple):
    """Where pinned memory comes from; None with the reason where it comes from nowhere."""

    source: Optional[_stoke.Pinned]
    by: str  # "torch", "driver" or ""
    why: str


def _torch_with_cuda() -> Any:
    """torch, where it can use a card; else None."""
    if not importlib.util.find_spec("torch"):
        return None
    torch = importlib.import_module("torch")
    return torch if torch.cuda.is_available() else None


def asked_by(config: Any) -> bool:
    """Whether a settings file wants it, under either name, outside of the sections of evaluation."""
    try:
        values = [] if config is None else _stoke.config_values(os.fsencode(config), False)
    except (Error, OSError):
        return False  # the loader reads it too, and says what is wrong
    for path, text, _ in values:
        *sections, name = path.lower().split(".")
        elsewhere = any(section.startswith(("val", "test", "eval", "infer", "predict")) for section in sections)
        if name in ("pin_memory", "dataloader_pin_memory") and not elsewhere and str(text).lower() in ("true", "yes", "on", "1"):
            return True
    return False


def choose() -> Pinning:
    """The best there is."""
    torch = _torch_with_cuda()
    if torch is not None:
        def take(count: int) -> Tuple[int, Any]:
            memory = torch.empty(count, dtype=torch.uint8, pin_memory=True)
            return memory.data_ptr(), memory

        return Pinning(_stoke.Pinned(take), "torch", "")
    try:
        return Pinning(_stoke.Pinned("cuda:0"), "driver", "")
    except Error as reason:
        has = "torch is built without CUDA or sees no card" if importlib.util.find_spec("torch") else "torch is not installed"
        return Pinning(None, "", f"pin_memory=True: nothing can be pinned here, batches lie in ordinary memory ({has}; {reason})")


class _Out:
    """A batch that somebody has tensors of. `left`: how many; then the event behind the work of whoever had the last."""

    def __init__(self, batch: _stoke.Batch, left: int) -> None:
        self.batch: Optional[_stoke.Batch] = batch
        self.left = left
        self.event: Any = None


class Copies:
    """Batches whose tensors are gone and whose copies may still run: they stay until the stream that was current then has passed."""

    def __init__(self, places: int) -> None:
        self._cuda = importlib.import_module("torch").cuda
        self._places = places
        self._out = 0
        self._behind: Deque[_Out] = collections.deque()
        self._watched: List[Any] = []

    def watch(self, batch: _stoke.Batch, *tensors: Any) -> None:
        """Of a batch that is handed out."""
        entry = _Out(batch, len(tensors))
        self._out += 1
        for tensor in tensors:
            self._watched.append(weakref.ref(tensor, lambda reference: self._gone(reference, entry)))

    def _gone(self, reference: Any, entry: _Out) -> None:
        self._watched.remove(reference)
        entry.left -= 1
        if not entry.left:
            entry.event = self._cuda.Event()
            entry.event.record()
            self._behind.append(entry)

    def let_go(self) -> None:
        """Before the next batch is asked for: of what has passed, and of one more where every place is taken."""
        self._sweep()
        if self._out >= self._places and self._behind:
            self._behind[0].event.synchronize()
            self._sweep()

    def _sweep(self) -> None:
        for _ in range(len(self._behind)):
            entry = self._behind.popleft()
            if entry.event.query():
                entry.batch = None
                self._out -= 1
            else:
                self._behind.append(entry)
