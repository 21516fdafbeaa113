# SPDX-License-Identifier: Apache-2.0
"""Moments of a CUDA stream on the clock of the host (CLOCK_MONOTONIC, ns)."""
import time
from typing import Any, Callable, Dict, List, Tuple


class CudaEvents:
    """Events of torch on the current stream. Anything with these three methods can stand in for it."""

    def __init__(self, device: Any):
        import torch
        self._cuda = torch.cuda
        self._device = device

    def record(self) -> Any:
        """Marks where the stream stands; does not wait."""
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def synchronize(self) -> None:
        """Waits for everything that was put on the device."""
        self._cuda.synchronize(self._device)

    def elapsed_ms(self, first: Any, second: Any) -> float:
        """From one event to another; both have happened."""
        return first.elapsed_time(second)


class DeviceClock:
    """Between two anchors, at which the device is waited for and both clocks are read, its clock is taken as a straight line:
    clocks of cards drift by microseconds a second."""

    def __init__(self, events: Any, now: Callable[[], int] = time.monotonic_ns):
        self._events = events
        self._now = now
        self._anchor = self._set_anchor()
        self._pending: List[Tuple[Dict[str, int], str, Any]] = []

    def _set_anchor(self) -> Tuple[Any, int]:
        self._events.synchronize()
        event = self._events.record()
        self._events.synchronize()
        return event, self._now()

    def mark(self, record: Dict[str, int], name: str) -> None:
        """record[name] will be the moment at which the stream gets here; known after `settle`."""
        self._pending.append((record, name, self._events.record()))

    def settle(self) -> None:
        """Waits for the device, and fills in everything that was marked."""
        old_event, old_ns = self._anchor
        self._anchor = new_event, new_ns = self._set_anchor()
        span_ms = self._events.elapsed_ms(old_event, new_event)
        ns_per_ms = (new_ns - old_ns) / span_ms if span_ms > 0 else 1e6
        for record, name, event in self._pending:
            record[name] = old_ns + round(self._events.elapsed_ms(old_event, event) * ns_per_ms)
        self._pending.clear()
