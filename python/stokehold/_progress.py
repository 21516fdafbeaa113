# SPDX-License-Identifier: Apache-2.0
"""How far something is that takes longer than a second: one line, written over where somebody looks on."""
import sys
from typing import Any, Optional


def _kernel() -> Any:
    """IPython's displays, when this program is a notebook's."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    import IPython.display
    return IPython.display


class Progress:
    """On a terminal a line that is written over; in a notebook an output that is updated, so that a saved notebook has the last state;
    elsewhere nothing, or with `wanted` lines. A context manager: leaving it ends the line.

    wanted : None shows it where somebody looks on, True always, False never.
    """

    def __init__(self, wanted: Optional[bool] = None, stream: Any = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._display = None if wanted is False or stream is not None else _kernel()
        self._terminal = getattr(self._stream, "isatty", bool)()  # a stand-in for stderr may lack it
        self._on = bool(self._terminal or self._display) if wanted is None else wanted and self._stream is not None
        self._handle: Any = None
        self._last = ""

    def update(self, text: str) -> None:
        """Shows another text in place of the last."""
        if not self._on or text == self._last:
            return
        if self._display is not None:
            content = {"text/plain": text}
            if self._handle is None:
                self._handle = self._display.display(content, raw=True, display_id=True)
            else:
                self._handle.update(content, raw=True)
        else:
            self._stream.write(f"\r{text:<{len(self._last)}}" if self._terminal else text + "\n")
            self._stream.flush()
        self._last = text

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._on and self._last and self._terminal and self._display is None:
            self._stream.write("\n")
            self._stream.flush()
