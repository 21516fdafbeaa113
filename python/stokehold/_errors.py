# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions.

Every exception of the library is an `Error`; where Python has a natural class for it, it is one of that too, so that
`except FileNotFoundError` works.
"""
import re


class Error(Exception):
    """Something the library could not do. The text says what, why and what to do next.

    `code` is the number of `enum stoke_status` (include/stoke/common.h), `status` its name, such as ``"format"``.
    """

    code: int = 0
    status: str = "unknown"


class InvalidError(Error, ValueError):
    """An argument or setting is out of range or contradicts another."""


class NoMemoryError(Error, MemoryError):
    """The allocator said no."""


class ResourceError(Error, OSError):
    """Descriptors, threads or locks are used up. No file is to blame; the text says what to do."""


class LimitError(Error, ValueError):
    """More pixels, bytes or memory than the limit in force; of `memory_limit` the text has the arithmetic."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class NotFoundError(FileError, FileNotFoundError):
    """Nothing by that name."""


class BadSampleError(Error, ValueError):
    """A sample cannot be used: damaged, of an unknown kind, too large, with a wrong label or size."""


class TooManyBadError(BadSampleError):
    """More bad samples than `max_bad` allows."""


class StateError(Error, RuntimeError):
    """A saved state does not fit data or settings, or a call came at the wrong time."""


class StarvedError(StateError):
    """The caller holds every batch there is room for."""


class DeviceError(Error, RuntimeError):
    """A device or its driver failed or was lost."""


_CLASSES = {
    "invalid": InvalidError,
    "no-memory": NoMemoryError,
    "io": FileError,
    "format": BadSampleError,
    "unsupported": BadSampleError,
    "limit": LimitError,
    "label": BadSampleError,
    "size": BadSampleError,
    "not-found": NotFoundError,
    "too-bad": TooManyBadError,
    "state": StateError,
    "starved": StarvedError,
    "device": DeviceError,
    "resources": ResourceError,
}


# Arguments that a message may name as the command's flags. Commands in backquotes stay what they are.
_FLAGS = re.compile(r"(`[^`]*`)|(?<![\w-])--((?:allow-model-scale|accumulate|augment|batch|cache|cache-ram|classes|cores|data|force|gpu|"
                    r"ignore-index|images|label-map|list|map|mask-dtype|masks|max-bad|measured-batch|memory|memory-limit|model|names|"
                    r"optimizer|order|placement|policy|precision|prefetch|quarantine|ranks|scale|size|split|steps|targets|task|val-split|vram|window|"
                    r"workers|world))(?![\w-])")
_OTHER_NAMES = {"batch": "batch_size", "size": "image_size", "vram": "memory"}


def _argument(flag: "re.Match[str]") -> str:
    if flag.group(1):
        return flag.group(1)
    name = flag.group(2).replace("-", "_")
    return _OTHER_NAMES.get(name, name) + "="


# What the library calls otherwise, or does not call at all.
_SUBJECTS = ((re.compile(r"^batch is "), "batch_size is "), (re.compile(r"^pictures of "), "image_size: pictures of "),
             (re.compile(r'^no card called (".*?") is known: '), r"gpu=\1: no card of that name is known: "),
             (re.compile(r'^no model is called (".*?"): '), r"model=\1: no model is called that: "))


def in_python(message: str) -> str:
    """A message of the library with arguments instead of flags: `gpu=` for --gpu."""
    for pattern, name in _SUBJECTS:
        message = pattern.sub(name, message)
    return _FLAGS.sub(_argument, message)


def from_status(message: str, code: int, name: str) -> Error:
    """The exception for a status of the C library."""
    message = in_python(message)
    error = _CLASSES.get(name, Error)(message)
    error.code = code
    error.status = name
    return error
