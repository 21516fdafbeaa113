# SPDX-License-Identifier: Apache-2.0
"""Where batches go: names of devices, and the stream of whoever takes them there."""
import importlib
import importlib.util
import sys
from typing import Any, Callable, Dict, NamedTuple, Optional

from . import _stoke
from ._errors import DeviceError

KINDS = ("cuda", "opencl", "host")


class Route(NamedTuple):
    """The way of a loader's batches to a device."""

    kind: str
    index: int
    feed: Dict[str, str]  # settings of the way, as texts

    @property
    def name(self) -> str:
        """As the library has it: "cuda:1", "host"."""
        return self.kind if self.kind == "host" else f"{self.kind}:{self.index}"


def route(to: Any, **feed: Any) -> Optional[Route]:
    """Where `to` says: "cuda", "cuda:1", 1, torch.device("cuda"), "opencl:0", "host". None: the memory that batches are made in."""
    texts = {name: str(value) for name, value in feed.items() if value is not None}
    name = f"cuda:{to}" if isinstance(to, int) else "cpu" if to is None else str(to)
    kind, colon, number = name.partition(":")
    if kind == "cpu":
        if texts:
            raise TypeError(f"{' and '.join(texts)}: a setting of the way to a device, so say which: to='cuda'")
        return None
    if kind not in KINDS or (colon and not number.isdigit()) or (colon and kind == "host"):
        raise ValueError(f"to={name!r}: batches go to 'cuda', 'cuda:N', 'opencl', 'opencl:N', 'host' or 'cpu', or to a torch.device of "
                         "these; `python -m stokehold devices` lists what is there")
    return Route(kind, int(number) if colon else _current() if kind == "cuda" else 0, texts)


def _current() -> int:
    """The card that "cuda" alone means: torch's current one, where torch is at work."""
    torch = sys.modules.get("torch")
    return torch.cuda.current_device() if torch is not None and torch.cuda.is_initialized() else 0


def output(way: Route, wanted: Optional[str]) -> Optional[str]:
    """What batches can be given as: `wanted`, or the way's own when nothing was said."""
    if way.kind == "opencl" and wanted not in (None, "dlpack"):
        raise ValueError(f"{wanted} does not reach OpenCL memory: take output='dlpack', whose arrays hold a cl_mem (ptr) and "
                         "copy themselves to the host by numpy() and cpu()")
    if way.kind == "cuda" and wanted == "numpy":
        raise ValueError("NumPy does not reach the memory of a card: take output='torch' or 'dlpack', whose arrays copy themselves to "
                         "the host by numpy() and cpu()")
    if way.kind == "opencl" or (way.kind == "cuda" and wanted is None and not importlib.util.find_spec("torch")):
        return "dlpack"
    return wanted


def torch_stream(index: int) -> int:
    """DLPack's number of the stream that torch puts its work on now; 1 is the default one, whose handle is 0."""
    torch = importlib.import_module("torch")
    return torch.cuda.current_stream(index).cuda_stream or 1


def as_torch(index: int) -> Callable[[_stoke.Array], Any]:
    """Arrays on a card as tensors, in order with the stream that is torch's current one when they are taken."""
    from_dlpack = importlib.import_module("torch").from_dlpack
    try:
        torch_stream(index)
    except (AssertionError, RuntimeError) as reason:
        raise DeviceError(f"torch cannot use cuda:{index} ({reason}): install a build of torch for CUDA, or take output='dlpack'") \
            from reason
    return lambda array: from_dlpack(array.__dlpack__(stream=torch_stream(index)))
