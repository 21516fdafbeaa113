# SPDX-License-Identifier: Apache-2.0
"""Arguments as they are written: an error names the argument and says what it takes."""
import math
import os
from typing import Any, Callable, Optional, Tuple


def _wrong(name: str, value: Any, wanted: str) -> TypeError:
    return TypeError(f"{name}={value!r}: {wanted} is expected, not {type(value).__name__}")


def whole(name: str, value: Any, low: int = 0, high: Optional[int] = None) -> int:
    """A whole number, NumPy's too."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _wrong(name, value, "a whole number")
    number = value.__index__()
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name}={number}: {low} or more" if high is None else f"{name}={number}: {low} to {high}")
    return number


def real(name: str, value: Any, low: float = -math.inf, high: float = math.inf, above: Optional[float] = None) -> float:
    """A number that is one."""
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        raise _wrong(name, value, "a number")
    number = float(value)
    if above is not None and not above < number < math.inf:
        raise ValueError(f"{name}={number:g}: more than {above:g}")
    if not low <= number <= high:
        raise ValueError(f"{name}={number:g}: {low:g} to {high:g}")
    return number


def maybe(check: Callable[..., Any], name: str, value: Any, *limits: Any) -> Any:
    """What may be left out, else as `check` says."""
    return None if value is None else check(name, value, *limits)


def flag(name: str, value: Any) -> Any:
    """True or False. A text such as "false" would count as true."""
    if value is not None and not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool") and value not in (0, 1):
        raise _wrong(name, value, "True or False")
    return value


def path(name: str, value: Any) -> str:
    """Of a file or folder."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise _wrong(name, value, "a path")
    return os.fspath(value)


def word(name: str, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise _wrong(name, value, "a text")
    return value


def function(name: str, value: Any, wanted: str = "a function") -> Any:
    """Anything that can be called."""
    if not callable(value):
        raise _wrong(name, value, wanted)
    return value


def module(name: str, value: Any) -> Any:
    """A network of torch."""
    if not callable(getattr(value, "parameters", None)):
        raise _wrong(name, value, "a torch module")
    return value


def sides(name: str, value: Any) -> Tuple[int, int]:
    """Height and width: a number for both, a pair, or a text (512, 384x512)."""
    if isinstance(value, str):
        words = value.lower().split("x")
        if len(words) > 2 or not all(part.strip().isdigit() for part in words):
            raise ValueError(f"{name}={value!r}: a number, or HEIGHTxWIDTH such as 384x512")
        value = tuple(int(part) for part in words)
    if not isinstance(value, (tuple, list)):
        value = (value,)
    if not 1 <= len(value) <= 2:
        raise ValueError(f"{name}={value!r}: a number, or a pair (height, width)")
    return whole(name, value[0], 1), whole(name, value[-1], 1)
