# SPDX-License-Identifier: Apache-2.0
"""From Python's values to the texts that the option tables read."""
import os
import re
import sys
import textwrap
from typing import Any, Dict, Mapping, Optional, Tuple

from . import _checks, _stoke, ops

# The tables have short names of element types; NumPy's and PyTorch's are understood too.
_DTYPES = {
    "float32": "f32", "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16",
    "uint8": "u8", "uint16": "u16", "int32": "i32", "int": "i32", "int64": "i64", "long": "i64",
}


def _dtype_text(value: Any) -> str:
    """'int64', torch.int64, numpy.int64 and numpy.dtype('int64') are all 'i64'."""
    name = value if isinstance(value, str) else getattr(value, "__name__", None) or str(value)
    name = name.rpartition(".")[2]
    return _DTYPES.get(name, name)


_PATHS = ("data", "images", "masks", "targets", "list", "cache", "quarantine", "weights")
_TYPES = {option["name"]: option["type"] for option in _stoke.options()}
_TYPES.update((alias, _TYPES[name]) for alias, name in _stoke.aliases().items() if name is not None)


def _check_type(name: str, value: Any) -> None:
    """What the table would read as a text, and nobody meant: a list for a number, a number for a file. Ranges are the table's."""
    if name in _PATHS:
        _checks.path(name, value)
    elif not isinstance(value, str) and _TYPES.get(name) in ("int", "auto_int"):
        _checks.whole(name, value, low=-2**63)
    elif not isinstance(value, str) and _TYPES.get(name) == "real":
        _checks.real(name, value)


def text(name: str, value: Any) -> str:
    """One value as the table of settings reads it: 512, '512x768', 'hflip,rotate(degrees=-10..10)', '0:0,255:1'."""
    _check_type(name, value)
    if name == "augment" and not isinstance(value, os.PathLike):
        return ops.text(value)[0] or "none"
    if name in ("dtype", "mask_dtype"):
        return _dtype_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return ("x" if name in ("size", "image_size") else ",").join(str(item) for item in value)
    if isinstance(value, (str, int, float)):
        return str(value)
    if hasattr(value, "__index__"):  # NumPy's integers
        return str(value.__index__())
    raise TypeError(f"{name}: a {type(value).__name__} is no value of a setting")


def texts(settings: Mapping[str, Any]) -> Dict[str, str]:
    """All of them; None means that the table's own default holds. A crop among the ops may say the size."""
    settings = dict(settings)
    mixing = {name: settings.pop(name) for name in ops.MIXING if settings.get(name) is not None}
    if mixing:
        settings["augment"] = ops.with_mixing(settings.get("augment"), **mixing)
    settings = {name: value for name, value in settings.items() if name not in ops.MIXING}
    result = {name: text(name, value) for name, value in settings.items() if value is not None}
    size = None if isinstance(settings.get("augment"), os.PathLike) else ops.text(settings.get("augment"))[1]
    if size is not None:
        wanted = text("size", size)
        given = result.get("size", result.get("image_size", wanted))
        if given not in (wanted, str(size[0]) if size[0] == size[1] else wanted):
            raise ValueError(f"image_size is {given}, and an op of augment crops to {wanted}: they must be the same")
        result.setdefault("image_size" if "image_size" in result else "size", wanted)
    return result


def place_in_world(rank: Optional[int], world: Optional[int]) -> Tuple[Optional[int], Optional[int]]:
    """Which of how many processes this is: as said, else as torch.distributed knows it, else as torchrun says it; or None."""
    if rank is None and world is None:
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
            return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if (rank is None) != (world is None):
        raise TypeError("rank and world belong together: give both, or neither (torchrun sets them)")
    return rank, world


def describe(indent: str) -> str:
    """The table of settings as a part of a docstring; the command's flags become names of settings."""
    lines = []
    for option in _stoke.options():
        kind = option["choices"] or option["type"]
        default = "" if option["default"] is None else f", by default {option['default'] or repr('')}"
        lines.append(f"{indent}{option['name']} : {kind}{default}")
        words = re.sub(r"--([a-z][a-z-]*)", lambda flag: flag.group(1).replace("-", "_"), option["help"])
        lines.extend(textwrap.wrap(words, 100, initial_indent=indent + "    ", subsequent_indent=indent + "    "))
    others = ", ".join(f"{alias} ({name})" if name else alias for alias, name in _stoke.aliases().items())
    lines.extend(textwrap.wrap(f"Other names: {others}", 100, initial_indent=indent, subsequent_indent=indent))
    return "\n".join(lines)
