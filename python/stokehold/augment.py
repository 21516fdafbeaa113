# SPDX-License-Identifier: Apache-2.0
"""Augmentation of pictures that are in memory already."""
import functools
import math
import os
import re
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _checks, _device_augment, _pictures, _settings, _stoke
from ._batches import OUTPUTS
from ._errors import Error
from .ops import MIXING


_TWO_MASKS = ("augment has mixup, so every sample has two masks and the share of the first: ask for as_dict=True "
              "(cutmix needs none of this)")
_NORMALIZE = re.compile(r"normalize\([^)]*\)")


def _item_bytes(array: _stoke.Array) -> int:
    return array.nbytes // max(1, math.prod(array.shape))


@functools.lru_cache(maxsize=None)
def _joined(cls: type, module: type) -> type:
    """The class as a module of torch: calls, hooks, modes and copies are torch's, `forward` is the class's."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        module.__init__(self)  # type: ignore[misc]
        cls.__init__(self, *args, **kwargs)  # type: ignore[misc]

    own = {name: getattr(cls, name) for name in ("forward", "__repr__", "__doc__", "__module__")}
    return type(cls.__name__, (module, cls), {"__init__": __init__, **own})


def _as_module(cls: type) -> type:
    """Where torch is imported; it is not imported for this."""
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    return cls if module is None or issubclass(cls, module) else _joined(cls, module)


class Augment:
    """The loader's augmentation, for images and masks that you have read yourself.

        augment = stokehold.Augment("standard", image_size=512, seed=1)
        images, masks = augment(images, masks)  # torch in, torch out; NumPy in, NumPy out

    Where torch is imported it is a torch.nn.Module without weights, for a loop of yours or a torch.nn.Sequential::

        augment = stokehold.Augment("standard").to(device)
        for images, masks in loader:
            images, masks = augment(images.to(device), masks.to(device))

    Batches that are on a device are augmented there, by the library's kernels and with the same bytes: torch's CUDA tensors on
    torch's current stream, without a wait; arrays of ours (OpenCL, CUDA) on the device they lie on. What only the host can do
    (resizing, random_resized_crop, foreground_crop, window) goes there and back, and a warning says so once. On a device a value
    of a mask that is no class becomes ignore_index. `eval()` leaves all out but normalisation, `train()` puts it back.

    It takes a batch (torch or anything else as B, C, H, W; NumPy as B, H, W, C or B, C, H, W), a list of pictures of different
    sizes, or a single image with its mask (two or three dimensions, or an image of PIL). Images are uint8, uint16, or floats in
    0..1; masks hold class ids in 0..65535. Results have the element types and the layout of what went in, unless said otherwise;
    images always have three channels. The same pixels at the same seed, epoch and position give the bytes that a
    `stokehold.Loader` gives.

    Every call takes as many positions as it has pictures, from 0 on; `set_epoch` begins again at 0, or at a `position` that was
    saved: `state_dict` is empty, so that checkpoints of a network fit whether this is in it or not. In a worker process of a torch
    DataLoader, which has a copy with its own counter, say the position: ``augment(image, mask, position=index)``.

    Parameters
    ----------
    augment
        A preset (none, light, crop, standard, strong, face, medical), a list such as ``"random_crop,hflip(p=0.3)"``, a YAML file, or
        a Python list of ops of `stokehold.ops` (Kornia's and torchvision's names and arguments), of dicts and of texts.
    image_size
        Of the result: a number or (height, width). None: the size of what comes in.
    seed, epoch
        What is drawn depends on these, and on the position.
    threads
        How many work on the rows of a batch; "auto" is one for every core.
    as_dict
        Gives a dict of images and masks, and with mixup masks_b and lambda (the share of masks), as `Loader` does.
    use_mixup, use_cutmix, mixup_alpha, cutmix_alpha, mixup_prob, cutmix_prob
        As in `Loader`.
    dtype, mask_dtype, layout, normalize, classes, ignore_index, label_map, window
        As in `Loader`. The first three are by default those of what comes in.
    """

    def __init__(self, augment: Any = "standard", image_size: Union[None, int, str, Tuple[int, int]] = None, seed: int = 0, *,
                 epoch: int = 0, threads: Union[int, str] = "auto", as_dict: bool = False, dtype: Any = None, mask_dtype: Any = None,
                 layout: Optional[str] = None, normalize: Optional[str] = None, classes: Optional[int] = None,
                 ignore_index: Optional[int] = None, label_map: Any = None, window: Optional[str] = None, **mixing: Any) -> None:
        unknown = set(mixing) - set(MIXING)
        if unknown:
            raise TypeError(f"Augment has no argument {', '.join(sorted(unknown))}")
        if image_size is not None:
            image_size = _checks.sides("image_size", image_size)
        self._texts = _settings.texts({
            **mixing,
            "augment": augment, "size": image_size, "seed": seed, "dtype": dtype, "mask_dtype": mask_dtype, "layout": layout,
            "normalize": normalize, "classes": classes, "ignore_index": ignore_index, "label_map": label_map, "window": window})
        self._as_dict = _checks.flag("as_dict", as_dict)
        self._threads = _stoke.cores() if threads == "auto" else _checks.whole("threads", threads, 1)
        self._epoch = _checks.whole("epoch", epoch)
        self._position = 0
        self.training = True
        self._fresh()
        # Mistakes are told here and not at the first call.
        trial = _stoke.Rows({"image_size" if name == "size" else name: text for name, text in self._texts.items()}, None, False, (1, 1))
        self._two_masks = trial.two_masks
        self.pipeline = trial.pipeline
        """What it does, as a list of ops."""

    def _fresh(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._rows: Dict[Tuple[str, ...], _stoke.Rows] = {}
        self._pool: Optional[ThreadPoolExecutor] = None
        self._there = _device_augment.OnDevice()
        self._warned = False

    # ---- as a module of torch, which it is (`_as_module`) where torch is imported

    def __new__(cls, *args: Any, **kwargs: Any) -> "Augment":
        return object.__new__(_as_module(cls))

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        """What isinstance asks for: a module also where torch was imported after this was made."""
        return _as_module(type(self))

    def __getattr__(self, name: str) -> Any:
        """Such a one becomes a module when it is used as one."""
        wanted = _as_module(type(self))
        if name.startswith("__") or wanted is type(self):
            raise AttributeError(f"Augment has no attribute {name!r}")
        training = self.training
        object.__dict__["__class__"].__set__(self, wanted)
        sys.modules["torch"].nn.Module.__init__(self)
        self.training = training
        return getattr(self, name)

    def to(self, *args: Any, **kwargs: Any) -> "Augment":
        """For loops that move their modules. Where a batch is worked on is where it lies; there is nothing else to move."""
        return self

    def train(self, mode: bool = True) -> "Augment":
        """Augments, or with False only brings pictures to size, type and normalisation."""
        self.training = bool(mode)
        return self

    def eval(self) -> "Augment":
        """``train(False)``."""
        return self.train(False)

    # ---- where it stands

    @property
    def epoch(self) -> int:
        """The epoch that draws belong to."""
        return self._epoch

    @property
    def position(self) -> int:
        """The position of the next picture."""
        return self._position

    def set_epoch(self, epoch: int, position: int = 0) -> None:
        """Begins an epoch, or goes on in it from a position that was saved."""
        with self._lock:
            self._epoch = epoch
            self._position = position

    # ---- what it does

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As `forward`."""
        return self.forward(*args, **kwargs)

    def forward(self, images: Any, masks: Any = None, *, epoch: Optional[int] = None, position: Optional[int] = None) -> Any:
        """(images, masks) augmented, or images alone where there are no masks. epoch and position leave the counters alone."""
        if os.getpid() != self._pid:  # threads and locks do not survive a fork
            self._fresh()
        if _device_augment.where(images) is not None:
            return self._on_device(images, masks, epoch, position)
        single = not isinstance(images, (list, tuple)) and len(_pictures.shape(images)) < 4
        pictures: Sequence[Any] = [images] if single else images
        labels: Sequence[Any] = [masks] if single else [None] * len(pictures) if masks is None else masks
        if len(pictures) != len(labels):
            raise ValueError(f"{len(pictures)} images and {len(labels)} masks")
        if not len(pictures):
            raise ValueError("no images")
        epoch, position = self._place(len(pictures), epoch, position)
        rows = self._rows_for(pictures, labels[0])
        if rows.two_masks and not self._as_dict:
            raise ValueError(_TWO_MASKS)
        batch = rows.begin(len(pictures), epoch, position)
        self._fill(rows, batch, pictures, labels)
        return self._give(batch, _pictures.library(pictures[0]), single, masks is not None)

    def _on_device(self, images: Any, masks: Any, epoch: Optional[int], position: Optional[int]) -> Any:
        """A batch where it lies, or by way of the host."""
        place = _device_augment.where(images)
        ours = isinstance(images, _stoke.Array)
        if not ours and place != "cuda":
            raise ValueError(f"the batch lies on {images.device}: give it as .cpu(), or on a card of CUDA")
        if masks is not None and _device_augment.where(masks) != place:
            raise ValueError(f"images lie on {place} and masks do not: bring both to one device")
        shape = tuple(images.shape)
        first = _pictures.batch_channels_first(shape)
        size = shape[2:] if first else shape[1:3]
        texts = self._texts_now()
        texts.setdefault("dtype", _pictures.image_dtype(images))
        texts.setdefault("mask_dtype", "i64" if masks is None else _pictures.mask_dtype(masks))
        texts.setdefault("size", f"{size[0]}x{size[1]}")
        last = ours and first and images.strides[3] != _item_bytes(images)  # shown as N, C, H, W, and not so in memory
        texts.setdefault("layout", "chw" if first and not last else "hwc")
        if "x" not in texts["size"]:
            texts["size"] = f"{texts['size']}x{texts['size']}"
        if not ours and texts["mask_dtype"] in ("auto", "u16"):  # torch has no uint16
            texts["mask_dtype"] = "i64" if texts["mask_dtype"] == "auto" else "i32"
        if self._two_masks and self.training and not self._as_dict:
            raise ValueError(_TWO_MASKS)
        now, at = self._place(shape[0], epoch, position)
        try:
            with self._lock:
                found = self._there.arrays(texts, images, masks, size, now, at, last) if ours else \
                    self._there.tensors(texts, images, masks, size, now, at, first)
        except Error as reason:
            if reason.status != "unsupported":
                raise
            found = None
        if found is None:
            found = self._by_host(images, masks, now, at, ours)
        if masks is None:
            found = {"images": found["images"]}
        if self._as_dict:
            return found
        return (found["images"], found["masks"]) if masks is not None else found["images"]

    def _by_host(self, images: Any, masks: Any, epoch: int, position: int, ours: bool) -> Dict[str, Any]:
        if not self._warned:
            self._warned = True
            reason = next(iter(self._there.refused.values()), "the pipeline resizes parts of pictures")
            warnings.warn(f"batches go to the host and back to be augmented: {reason}", stacklevel=4)
        copy = Augment.__new__(Augment)
        copy.__dict__.update(self.__dict__, _as_dict=True)
        found = copy.forward(_device_augment.to_host(images), _device_augment.to_host(masks), epoch=epoch, position=position)
        return found if ours else {name: value if name == "lambda" else value.to(images.device) for name, value in found.items()}

    def _texts_now(self) -> Dict[str, str]:
        """The settings; without augmentation while `training` is off."""
        texts = dict(self._texts)
        if not self.training:
            texts["augment"] = next((part for part in _NORMALIZE.findall(self.pipeline)), "none")
        return texts

    def _place(self, count: int, epoch: Optional[int], position: Optional[int]) -> Tuple[int, int]:
        with self._lock:
            now = self._epoch if epoch is None else epoch
            if position is None:
                position = self._position
                self._position += count
            return now, position

    def _rows_for(self, pictures: Sequence[Any], mask: Any) -> _stoke.Rows:
        """One for every kind of result; kept."""
        first = pictures[0]
        texts = self._texts_now()
        texts.setdefault("dtype", _pictures.image_dtype(first))
        texts.setdefault("mask_dtype", _pictures.mask_dtype(mask))
        texts.setdefault("layout", "chw" if _pictures.channels_first(first) or _pictures.library(first) == "torch" else "hwc")
        if "size" not in texts:
            height, width = _pictures.size(first)
            if any(_pictures.size(picture) != (height, width) for picture in pictures):
                raise ValueError("pictures of different sizes make no batch by themselves: say image_size")
            texts["size"] = f"{height}x{width}"
        key = (str(self.training), *(texts[name] for name in ("dtype", "mask_dtype", "layout", "size")))
        with self._lock:
            if key not in self._rows:
                if len(self._rows) >= 16:  # sizes that come once only must not pile up
                    self._rows.pop(next(iter(self._rows)))
                self._rows[key] = _stoke.Rows(texts)
            return self._rows[key]

    def _fill(self, rows: _stoke.Rows, batch: _stoke.Batch, pictures: Sequence[Any], labels: Sequence[Any]) -> None:
        def put(row: int) -> None:
            image, mask = _pictures.image(pictures[row]), _pictures.mask(labels[row])
            rows.put(batch, row, image, mask, _pictures.channels_first(image), mask is not None and _pictures.channels_first(mask))

        if self._threads == 1 or len(pictures) == 1:
            for row in range(len(pictures)):
                put(row)
        else:
            with self._lock:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(self._threads, "stokehold")
            list(self._pool.map(put, range(len(pictures))))
        rows.finish(batch)

    def _give(self, batch: _stoke.Batch, library: str, single: bool, has_masks: bool) -> Any:
        kind = {"torch": "torch", "numpy": "numpy", "PIL": "numpy"}.get(library, "dlpack")
        if single and kind == "dlpack":
            raise TypeError(f"a single picture of {library}: give a list of one, or a NumPy array")
        convert = OUTPUTS[kind]()
        found: List[Tuple[str, Optional[_stoke.Array]]] = [("images", batch.images)]
        if has_masks:
            found += [("masks", batch.masks), ("masks_b", batch.masks_b), ("lambda", batch.lambda_)]
        result = {name: convert(array)[0] if single else convert(array) for name, array in found if array is not None}
        if self._as_dict:
            return result
        return (result["images"], result["masks"]) if has_masks else result["images"]

    def __reduce__(self) -> Any:
        return _again, (self._texts, self._as_dict, self._threads, self._epoch, self._position, self.training)

    def __repr__(self) -> str:
        return f"<stokehold.Augment {self.pipeline}: epoch {self._epoch}, position {self._position}>"


def _again(texts: Dict[str, str], as_dict: bool, threads: int, epoch: int, position: int, training: bool) -> Augment:
    settings = dict(texts)
    copy = Augment(settings.pop("augment", None), settings.pop("size", None), int(settings.pop("seed", "0")), as_dict=as_dict,
                   threads=threads, **settings)  # type: ignore[arg-type]
    copy.set_epoch(epoch, position)
    return copy.train(training)
