# SPDX-License-Identifier: Apache-2.0
"""Augmentation of batches that are on a device: torch tensors on a card, in order with torch's current stream, and arrays of ours."""
import importlib
from typing import Any, Dict, Optional, Tuple

from . import _pictures, _stoke
from ._errors import Error

_TORCH_TYPES = {"u8": "uint8", "i32": "int32", "i64": "int64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def where(picture: Any) -> Optional[str]:
    """The kind of device a batch is on: "cuda", "opencl"; None: the host's own memory."""
    if isinstance(picture, _stoke.Array):
        return {2: "cuda", 4: "opencl"}.get(picture.__dlpack_device__()[0])
    device = getattr(picture, "device", None)
    kind = getattr(device, "type", None)
    return None if kind in (None, "cpu") else str(kind)


def to_host(batch: Any) -> Any:
    """A copy in host memory, for what only the host does."""
    return None if batch is None else batch.numpy() if isinstance(batch, _stoke.Array) else batch.cpu()


class OnDevice:
    """One pipeline on devices: kernels are compiled once for every device, size and type."""

    def __init__(self) -> None:
        self._rows: Dict[Tuple[Any, ...], _stoke.DeviceRows] = {}
        self.refused: Dict[Tuple[Any, ...], str] = {}  # what a device does not do, and why

    def _get(self, texts: Dict[str, str], device: Any, name: str, size: Tuple[int, int], count: int) -> Optional[_stoke.DeviceRows]:
        """None: only the host can."""
        capacity = 1 << max(0, count - 1).bit_length()  # a last batch that is smaller needs no other memory
        key = (name, size, *sorted(texts.items()))
        if key in self.refused:
            return None
        if (capacity, *key) not in self._rows:
            if len(self._rows) >= 8:  # sizes that come once only must not pile up
                self._rows.pop(next(iter(self._rows)))
            try:
                self._rows[(capacity, *key)] = _stoke.DeviceRows(texts, device, size, capacity)
            except Error as reason:
                if reason.status != "unsupported":
                    raise
                self.refused[key] = str(reason)
                return None
        return self._rows[(capacity, *key)]

    def arrays(self, texts: Dict[str, str], images: _stoke.Array, masks: Optional[_stoke.Array], size: Tuple[int, int], epoch: int,
               position: int, channels_last: bool) -> Optional[Dict[str, Any]]:
        """Arrays of ours, on the device that they lie on; results are such arrays, and there when they are given."""
        kind, number = images.__dlpack_device__()
        rows = self._get(texts, images, f"{kind}:{number}:{_stoke.DeviceRows.realm(images):x}", size, images.shape[0])
        if rows is None:
            return None
        found = rows.run_arrays(images, masks, epoch, position, channels_last)
        return {name: value for name, value in zip(("images", "masks", "masks_b", "lambda"), found) if value is not None}

    def tensors(self, texts: Dict[str, str], images: Any, masks: Any, size: Tuple[int, int], epoch: int, position: int,
                first: bool) -> Optional[Dict[str, Any]]:
        """torch tensors on a card: kernels go on torch's current stream, and nobody waits."""
        torch = importlib.import_module("torch")
        count, card = images.shape[0], f"cuda:{images.device.index or 0}"
        rows = self._get(texts, card, card, size, count)
        if rows is None:
            return None
        name = _pictures.dtype_name(images)
        pixels = (images.detach() if name in ("uint8", "float32") else images.detach().float()).contiguous()
        labels = None if masks is None else masks.detach().contiguous()
        if labels is not None and _pictures.dtype_name(labels) == "bool":
            labels = labels.to(torch.uint8)
        out_height, out_width = (int(side) for side in texts["size"].split("x"))
        outs = [torch.empty((count, 3, out_height, out_width) if texts["layout"] == "chw" else (count, out_height, out_width, 3),
                            dtype=getattr(torch, _TORCH_TYPES[texts["dtype"]]), device=images.device)]
        for _ in range(2 if rows.two_masks else 1):
            outs.append(torch.empty((count, out_height, out_width), dtype=getattr(torch, _TORCH_TYPES[texts["mask_dtype"]]),
                                    device=images.device))
        stream = torch.cuda.current_stream(images.device)
        to = [out.data_ptr() for out in outs] + [0] * (3 - len(outs))
        given = (0, "uint8") if labels is None else (labels.data_ptr(), _pictures.dtype_name(labels))
        source = (pixels.data_ptr(), "uint8" if name == "uint8" else "float32", images.shape[1 if first else 3], first)
        shares = rows.run(count, epoch, position, source, given, tuple(to), stream.cuda_stream)
        for tensor in (pixels, labels):
            if tensor is not None:
                tensor.record_stream(stream)
        result = dict(zip(("images", "masks", "masks_b"), outs))
        if shares is not None:
            result["lambda"] = torch.tensor(shares)
        return result
