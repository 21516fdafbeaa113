# SPDX-License-Identifier: Apache-2.0
"""The loader: batches of image/mask or image/target pairs, ready when they are asked for."""
import os
import tempfile
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _device, _settings, _stoke
from ._batches import Batches, Stats


@dataclass(frozen=True)
class MemoryPlan:
    """The ceiling of a loader's memory, known before the first batch."""

    slots: int
    workers: int
    slot_bytes: int
    worker_bytes: int
    large_bytes: int  # for one picture at a time that needs more than a worker has
    cache_bytes: int
    fixed_bytes: int  # what the process held before
    total_bytes: int
    limit_bytes: int  # 0: none
    prefetch_reduced: bool  # prefetch was lowered to keep memory_limit
    largest_width: int
    largest_height: int
    images_probed: int
    device_slots: int  # batches on the device of `to`, and
    device_bytes: int  # what they take there; 0 without one
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class BadFile:
    """A sample that could not be read."""

    path: str
    reason: str
    status: str


class Picture:
    """A PNG that notebooks show; `data` are its bytes, `save(path)` writes them."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def _repr_png_(self) -> bytes:
        return self.data

    def save(self, path: Union[str, "os.PathLike[str]"], force: bool = False) -> None:
        """Writes the file. One that is there already is replaced if it is such a picture, or with force."""
        _stoke.check_output(os.fsencode(path), force)
        with open(path, "wb") as file:
            file.write(self.data)

    def __repr__(self) -> str:
        return f"<PNG of {len(self.data)} bytes: save(path) writes it, a notebook shows it>"


def short_of_room(stats: Stats, workers: int) -> Optional[str]:
    """What to say when batches that are held keep the workers from making others, which the loop waits for; else None.

    Both waits at a time have no other reason that lasts: a slow loop never waits, and slow workers always have room.
    """
    if stats.held < 2 or not stats.seconds or not stats.wait_share or not workers:
        return None
    idle = stats.stages["slot wait"].wall_ms / 1e3 / stats.seconds / workers
    if min(idle, stats.wait_share) < 0.05:
        return None
    return (f"{stats.held} of {stats.slots} batches are held: workers had no room in {idle:.0%} of the time, and the loop waited for "
            f"batches in {stats.wait_share:.0%} of it. Let go of batches kept from before (a variable of an earlier loop keeps its "
            "last one), keep copies, or raise prefetch")


class Loader(Batches):
    """Batches of image/mask pairs from `data`: a folder with the usual names, tar shards, or a pattern of them.

        with stokehold.Loader("data", batch_size=16, image_size=512, augment="standard") as loader:
            for images, masks in loader:
                ...

    A set to restore pictures (`task`: a folder with input/target, noisy/clean, LR/HR and the like, or `images` and `targets`)
    gives images and targets, both as pictures: what an image should become, `scale` times as high and wide, cut and mirrored
    as it is. Such batches stay on the host. ::

        for images, targets in stokehold.Loader(images="noisy", targets="clean", batch_size=16, image_size=128, augment="crop"):
            ...

    Every iteration is an epoch: the first one is `epoch` (0), then 1, 2, ...; `set_epoch` chooses another for the next
    iteration. Threads work ahead, also over the end of an epoch. The bytes of a batch depend on data, settings, seed,
    epoch and position, not on the number of workers or of processes.

    What a batch gives are views of the loader's own memory, never copies. They stay as they are for as long as
    somebody holds them; the place of a batch is used again when all of its arrays are gone. There are prefetch + 1
    places: who holds them all and asks for another batch gets a `StarvedError`. The variables of a loop hold one; one
    more, kept from an earlier loop, leaves the workers short of room (a tenth slower or more with prefetch 2), which
    `remarks` tells.

    Batches may be let go of in any thread; one thread at a time iterates. Ctrl-C ends a wait. A loader does not work in
    a child of `os.fork` and says so; sent to another process it becomes a new loader with the same settings.

    Parameters
    ----------
    data
        Where samples are; or give `images` and `masks` (or `targets`), or `list`.
    batch_size, image_size, augment, workers, prefetch, seed
        The settings most people set. image_size is a number or (height, width); left out, that of the first sample.
        augment is a preset (none, light, crop, standard, strong, face, medical), a list of ops such as
        ``"random_crop,hflip(p=0.3)"``, a Python list of ops of `stokehold.ops`, or a YAML file.
    use_mixup, use_cutmix, mixup_alpha, cutmix_alpha, mixup_prob, cutmix_prob
        The ops mixup and cutmix behind `augment`, by the names that trainers have for them; False, False, 0.2, 1, 0.3, 0.3.
    rank, world
        Which of how many processes this is; by default what torch.distributed or torchrun (RANK, WORLD_SIZE) says.
    output
        "torch", "numpy", or "dlpack" for objects that anything reads through ``__dlpack__``. By default torch where it
        is installed, else NumPy.
    as_dict
        Batches are dicts: images, masks (or targets), ids, names, and with mixup masks_b and lambda (the share of masks).
    channels_last
        Images lie in memory as N, H, W, C and are shown as N, C, H, W: PyTorch's ``torch.channels_last``.
    to
        The device batches arrive on: "cuda", "cuda:1" or a torch.device (with torch, "cuda" is its current card), "opencl",
        "host". They are copied ahead, from pinned memory by a second stream; a tensor is in order with the stream
        that is torch's current one when it is handed out, and its place is used again when the tensors are gone and the work
        that stream had by then is done. A tensor that another stream uses must stay until that has ended (or let the first
        stream wait for it). ids, names and lambda stay on the host. "cpu" and None: batches stay where they are made. With
        "opencl" output is "dlpack": arrays that hold a cl_mem, and copy themselves to the host by ``numpy()``. "host" takes the
        same way without a card. ::

            for images, masks in stokehold.Loader("data", batch_size=16, image_size=512, to="cuda"):
                loss = model(images)  # on the card already: no .to(), no .cuda()

    depth, placement
        With `to`: batches on the device ahead of the one in use (2), and who augments: "host", "device" or "auto". The bytes
        are the same. On the device it takes NVRTC, unless this was built where nvcc is.
    pin_memory
        Batches lie in pinned memory, from which ``images.to(device, non_blocking=True)`` does not wait: torch's where torch has
        CUDA, else the CUDA driver's. A batch's place is used again when its tensors are gone and the work that torch's current
        stream had by then is done. Where nothing can be pinned, a warning says why, as does `remarks`. With `to` batches are
        copied from such memory anyhow. Unsaid, it is what the file of `config` says.
    non_blocking
        As `to` copies anyway. Without `to` nothing is copied, and a warning says where it belongs.
    config
        A file of settings (stoke.yaml, also one with the settings of training); what is said here goes before.
    settings
        Everything else in the list below, which is that of the command and of stoke.yaml, and the names of torch's
        DataLoader for the same things. persistent_workers is accepted and changes nothing: threads always stay from epoch to
        epoch. mask_dtype is by default int64 where batches are torch tensors, as torch's losses take them, else the smallest type
        that holds the classes. Unlike the command, a loader writes no quarantine file unless `quarantine`
        names one; see `bad_files`.

    Settings
    --------
    """

    _core: _stoke.Loader

    def __init__(self, data: Any = None, *, batch_size: Optional[int] = None,
                 image_size: Union[None, int, str, Tuple[int, int]] = None, augment: Any = None,
                 workers: Union[None, int, str] = None, prefetch: Optional[int] = None, seed: Optional[int] = None,
                 rank: Optional[int] = None, world: Optional[int] = None, output: Optional[str] = None,
                 as_dict: bool = False, channels_last: bool = False, to: Any = None, depth: Optional[int] = None,
                 placement: Optional[str] = None, pin_memory: Optional[bool] = None, non_blocking: Optional[bool] = None,
                 config: Union[None, str, "os.PathLike[str]"] = None, **settings: Any) -> None:
        named = {"data": data, "batch_size": batch_size, "image_size": image_size, "augment": augment,
                 "workers": workers, "prefetch": prefetch, "seed": seed}
        settings.update((name, value) for name, value in named.items() if value is not None)
        self._begin(settings, rank=rank, world=world, output=output, as_dict=as_dict, channels_last=channels_last, config=config,
                    way=_device.route(to, depth=depth, placement=placement), to=to, depth=depth, placement=placement,
                    pin_memory=pin_memory, non_blocking=non_blocking)

    def _make_core(self, texts: Dict[str, str], defaults: Dict[str, str], config: Any, channels_last: bool) -> _stoke.Loader:
        if self._way is None:
            return _stoke.Loader(texts, config, channels_last, None, {}, defaults, self._pinning.source)
        return _stoke.Loader(texts, config, channels_last, self._way.name, self._way.feed, defaults)

    @property
    def device(self) -> str:
        """Where batches arrive: "cpu", or "cuda:0", "opencl:0", "host"."""
        return self._core.device[0] if self._core.device else "cpu"

    @property
    def placement(self) -> Optional[str]:
        """With `to`, who augments and why, such as "device: as asked for"; else None."""
        return self._core.device[2] if self._core.device else None

    @property
    def memory(self) -> MemoryPlan:
        """How much memory it takes at most."""
        return MemoryPlan(**self._core.memory())

    def bad_files(self) -> List[BadFile]:
        """Samples that could not be read so far, each once."""
        return [BadFile(*bad) for bad in self._core.bad()]

    @property
    def remarks(self) -> List[str]:
        """What is allowed in the settings and hardly meant, and what went wrong without harm to the batches."""
        short = short_of_room(self.stats(), self.memory.workers) if self._way is None else None
        return self._core.remarks() + self._notes + ([short] if short else [])

    def show(self, n: int = 8, *, columns: int = 0, tile: int = 0) -> Picture:
        """A picture of the first n samples of the epoch as they are delivered, beside each its mask laid over it, or its target.

        A notebook draws it; elsewhere, ``loader.show().save("samples.png")``. Does not disturb an iteration.
        """
        if n < 1:
            raise ValueError("show: at least one sample")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "samples.png")
            self._core.picture(os.fsencode(path), min(n, self.samples), self._epoch, columns, tile)
            with open(path, "rb") as file:
                return Picture(file.read())


if Loader.__doc__:  # python -OO leaves it out
    Loader.__doc__ = Loader.__doc__.rstrip() + "\n" + _settings.describe("    ")
