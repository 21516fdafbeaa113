# SPDX-License-Identifier: Apache-2.0
"""Pictures of PIL, NumPy, torch and others, as the extension takes them: where they lie, without a copy where that is possible."""
from typing import Any, Tuple

# What the library does not read as it lies, and what it is read as instead.
_CONVERTED = {"float64": "float32", "float16": "float32", "bfloat16": "float32"}
_SHORT = {"float64": "f32", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "uint8": "u8", "bool": "u8", "uint16": "f32"}
_SHORT_MASK = {"uint8": "u8", "bool": "u8", "uint16": "u16", "int32": "i32", "int64": "i64"}


def library(picture: Any) -> str:
    """Whose it is: 'torch', 'numpy', 'PIL', 'jax', ..."""
    return type(picture).__module__.partition(".")[0]


def is_pil(picture: Any) -> bool:
    """An image of PIL."""
    return hasattr(picture, "getbands") and hasattr(picture, "convert")


def shape(picture: Any) -> Tuple[int, ...]:
    """Of any picture."""
    if is_pil(picture):
        bands = len(picture.getbands())
        return (picture.height, picture.width) if bands == 1 else (picture.height, picture.width, bands)
    return tuple(_attribute(picture, "shape"))


def dtype_name(picture: Any) -> str:
    """NumPy's name of the element type."""
    if is_pil(picture):
        return "uint16" if picture.mode.startswith("I;16") else "int32" if picture.mode == "I" else "uint8"
    return str(_attribute(picture, "dtype")).rpartition(".")[2]


def _attribute(picture: Any, name: str) -> Any:
    try:
        return getattr(picture, name)
    except AttributeError:
        raise TypeError("a picture is an array of NumPy, an image of PIL, or anything with __dlpack__; this is "
                        f"{type(picture)!r}") from None


def image_dtype(picture: Any) -> str:
    """The setting `dtype` that gives back what went in; uint16 comes back as float32."""
    return _SHORT.get(dtype_name(picture), "f32")


def mask_dtype(picture: Any) -> str:
    """The same for `mask_dtype`."""
    return "auto" if picture is None else _SHORT_MASK.get(dtype_name(picture), "auto")


def channels_first(picture: Any) -> bool:
    """Whether three dimensions are C, H, W: where only that fits, and in torch where both fit."""
    sizes = shape(picture)
    if len(sizes) != 3 or is_pil(picture):
        return False
    first, last = sizes[0] in (1, 3), sizes[2] in (1, 3)
    return first and (not last or library(picture) == "torch")


def batch_channels_first(shape: Tuple[int, ...]) -> bool:
    """Whether a batch of that shape is N, C, H, W; where both fit, it is."""
    if len(shape) != 4 or (shape[1] not in (1, 3) and shape[3] not in (1, 3)):
        raise ValueError(f"a batch on a device is N, C, H, W or N, H, W, C with 1 or 3 channels; this one has shape {tuple(shape)}")
    return shape[1] in (1, 3)


def size(picture: Any) -> Tuple[int, int]:
    """Height and width."""
    sizes = shape(picture)
    if len(sizes) not in (2, 3):
        raise ValueError(f"a picture has two dimensions (height, width), or three with its channels; this one has shape {sizes}")
    return (sizes[1], sizes[2]) if channels_first(picture) else (sizes[0], sizes[1])


def image(picture: Any) -> Any:
    """An image for `Rows.put`."""
    if is_pil(picture):
        return picture if picture.mode in ("L", "RGB") or picture.mode.startswith("I;16") else picture.convert("RGB")
    return _plain(picture)


def mask(picture: Any) -> Any:
    """A mask for `Rows.put`."""
    return picture if picture is None or is_pil(picture) else _plain(picture)


def _plain(picture: Any) -> Any:
    if library(picture) == "torch":
        if picture.device.type != "cpu":
            raise ValueError(f"the picture lies on {picture.device}: pixels are worked on by the processor, give it as .cpu()")
        picture = picture.detach()
    wanted = _CONVERTED.get(dtype_name(picture))
    if wanted is None:
        return picture
    return picture.float() if library(picture) == "torch" else picture.astype(wanted)
