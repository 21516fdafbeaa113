# SPDX-License-Identifier: Apache-2.0
"""Augmentation of pictures that are in memory already."""
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _pictures, _settings, _stoke
from ._batches import OUTPUTS


class Augment:
    """The loader's augmentation, for images and masks that you have read yourself.

        augment = stokehold.Augment("standard", image_size=512, seed=1)
        images, masks = augment(images, masks)  # torch in, torch out; NumPy in, NumPy out

    It takes a batch (torch or anything else as B, C, H, W; NumPy as B, H, W, C or B, C, H, W), a list of pictures of different
    sizes, or a single image with its mask (two or three dimensions, or an image of PIL). Images are uint8, uint16, or floats in
    0..1; masks hold class ids in 0..65535. Results have the element types and the layout of what went in, unless said otherwise;
    images always have three channels. The same pixels at the same seed, epoch and position give the bytes that a
    `stokehold.Loader` gives.

    Every call takes as many positions as it has pictures, from 0 on; `set_epoch` begins again at 0. In a worker process of a torch
    DataLoader, which has a copy with a counter of its own, say the position: ``augment(image, mask, position=index)``.

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
    dtype, mask_dtype, layout, normalize, classes, ignore_index, label_map, window
        As in `Loader`. The first three are by default those of what comes in.
    """

    def __init__(self, augment: Any = "standard", image_size: Union[None, int, str, Tuple[int, int]] = None, seed: int = 0, *,
                 epoch: int = 0, threads: Union[int, str] = "auto", as_dict: bool = False, dtype: Any = None, mask_dtype: Any = None,
                 layout: Optional[str] = None, normalize: Optional[str] = None, classes: Optional[int] = None,
                 ignore_index: Optional[int] = None, label_map: Any = None, window: Optional[str] = None) -> None:
        self._texts = _settings.texts({
            "augment": augment, "size": image_size, "seed": seed, "dtype": dtype, "mask_dtype": mask_dtype, "layout": layout,
            "normalize": normalize, "classes": classes, "ignore_index": ignore_index, "label_map": label_map, "window": window})
        self._as_dict = as_dict
        self._threads = len(os.sched_getaffinity(0)) if threads == "auto" else int(threads)
        if self._threads < 1:
            raise ValueError(f"threads {threads!r}: one at least, or 'auto'")
        self._epoch = epoch
        self._position = 0
        self._fresh()
        # Mistakes are told here and not at the first call.
        self.pipeline = _stoke.Rows(self._texts, None, False, (1, 1)).pipeline
        """What it does, as a list of ops."""

    def _fresh(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._rows: Dict[Tuple[str, ...], _stoke.Rows] = {}
        self._pool: Optional[ThreadPoolExecutor] = None

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

    def __call__(self, images: Any, masks: Any = None, *, epoch: Optional[int] = None, position: Optional[int] = None) -> Any:
        """(images, masks) augmented, or images alone where there are no masks. epoch and position leave the counters alone."""
        if os.getpid() != self._pid:  # threads and locks do not survive a fork
            self._fresh()
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
            raise ValueError("augment has mixup, so every sample has two masks and the share of the first: ask for as_dict=True "
                             "(cutmix needs none of this)")
        batch = rows.begin(len(pictures), epoch, position)
        self._fill(rows, batch, pictures, labels)
        return self._give(batch, _pictures.library(pictures[0]), single, masks is not None)

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
        texts = dict(self._texts)
        texts.setdefault("dtype", _pictures.image_dtype(first))
        texts.setdefault("mask_dtype", _pictures.mask_dtype(mask))
        texts.setdefault("layout", "chw" if _pictures.channels_first(first) or _pictures.library(first) == "torch" else "hwc")
        if "size" not in texts:
            height, width = _pictures.size(first)
            if any(_pictures.size(picture) != (height, width) for picture in pictures):
                raise ValueError("pictures of different sizes make no batch by themselves: say image_size")
            texts["size"] = f"{height}x{width}"
        key = tuple(texts[name] for name in ("dtype", "mask_dtype", "layout", "size"))
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
        return _again, (self._texts, self._as_dict, self._threads, self._epoch, self._position)

    def __repr__(self) -> str:
        return f"<stokehold.Augment {self.pipeline}: epoch {self._epoch}, position {self._position}>"


def _again(texts: Dict[str, str], as_dict: bool, threads: int, epoch: int, position: int) -> Augment:
    settings = dict(texts)
    copy = Augment(settings.pop("augment", None), settings.pop("size", None), int(settings.pop("seed", "0")), as_dict=as_dict,
                   threads=threads, **settings)  # type: ignore[arg-type]
    copy.set_epoch(epoch, position)
    return copy
