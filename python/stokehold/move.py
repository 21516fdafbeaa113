# SPDX-License-Identifier: Apache-2.0
"""A batch of any shape to a device: every tensor in it, wherever it stands."""
import dataclasses
from collections.abc import Mapping
from typing import Any

__all__ = ["move_data_to_device"]


def move_data_to_device(batch: Any, device: Any, non_blocking: bool = True) -> Any:
    """Returns `batch` with everything that has a `.to(device)` moved there; the structure stays as it is.

    Dictionaries, lists, tuples, named tuples, dataclasses and sets of them are gone through to any depth; texts, numbers and
    whatever else has no `.to` are passed on as they are. Nothing of the argument is changed.

    non_blocking=True lets the host go on while a tensor in pinned memory is copied. It does not make the copy overlap
    with computing: that takes a second stream, which Loader(..., to="cuda") has.

    >>> move_data_to_device({"image": images, "meta": [masks, "a name"]}, "cuda")
    """
    if hasattr(batch, "to") and callable(batch.to) and not isinstance(batch, type):
        return _to(batch, device, non_blocking)
    if isinstance(batch, Mapping):
        return _mapping(batch, {key: move_data_to_device(value, device, non_blocking) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(move_data_to_device(value, device, non_blocking) for value in batch))
    if isinstance(batch, (list, tuple, set, frozenset)):
        # From a list: what torch.max(x, 0) returns is a tuple that is not made from a generator.
        return type(batch)([move_data_to_device(value, device, non_blocking) for value in batch])
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return _dataclass(batch, device, non_blocking)
    return batch


def _to(thing, device, non_blocking):
    try:
        return thing.to(device, non_blocking=non_blocking)
    except TypeError:  # somebody's own .to(device)
        return thing.to(device)


def _mapping(old, values):
    """The same kind of mapping; what cannot be made from a dictionary (a defaultdict) is copied and filled."""
    if type(old) is dict:
        return values
    try:
        new = old.copy()
        new.update(values)
        return new
    except (AttributeError, TypeError):
        return type(old)(values)


def _dataclass(old, device, non_blocking):
    """Without calling __init__, whose arguments may be others than the fields."""
    new = object.__new__(type(old))
    for name, value in vars(old).items() if hasattr(old, "__dict__") else ():
        object.__setattr__(new, name, value)
    for field in dataclasses.fields(old):
        if not hasattr(old, field.name):  # init=False, and not set yet
            continue
        object.__setattr__(new, field.name, move_data_to_device(getattr(old, field.name), device, non_blocking))
    return new
