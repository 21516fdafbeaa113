# SPDX-License-Identifier: Apache-2.0
"""Stokehold: reads image/mask pairs, decodes, augments and delivers them at the speed of the hardware.

    import stokehold

    loader = stokehold.Loader("data", batch_size=16, image_size=512, augment="standard")
    for epoch in range(10):
        for images, masks in loader:  # torch tensors (NumPy arrays without torch), not copied
            ...

`python -m stokehold` is the command `stoke`.
"""
import os as _os

# Drivers of devices are tried in another process before they are loaded into this one (docs/devices.md): by the command of this package.
_os.environ.setdefault("STOKE_DRIVER_PROBE", _os.path.join(_os.path.dirname(__file__), "_bin", "stoke"))

from ._errors import (BadSampleError, DeviceError, Error, FileError, InvalidError, LimitError, NoMemoryError, NotFoundError,
                      ResourceError, StarvedError, StateError, TooManyBadError)
from ._stoke import version as _version
from . import ops
from ._batches import StageTime, Stats
from .augment import Augment
from .dataset import Dataset
from .learning import Benchmark, LrCurve, benchmark, find_lr
from .loader import BadFile, Loader, MemoryPlan, Picture
from .move import move_data_to_device
from .probe import Attribution, Cause, Fix, Fixes, Forecast, Probe
from .tuning import (Advice, BatchSizeOptimizer, Change, CheckLine, CheckResult, Estimate, Figure, GpuSummary, MonitorSummary,
                     Optimization, Recommendation, Spread, auto_optimize_config, check, estimate, monitor, recommend)

__version__ = _version()

__all__ = [
    "Advice", "Attribution", "Augment", "BadFile", "BadSampleError", "BatchSizeOptimizer", "Benchmark", "Cause", "Change", "CheckLine",
    "CheckResult", "Dataset", "DeviceError", "Error", "Estimate", "Figure", "FileError", "Fix", "Fixes", "Forecast",
    "GpuSummary", "InvalidError", "LimitError", "Loader", "LrCurve", "MemoryPlan", "MonitorSummary", "NoMemoryError", "NotFoundError",
    "Optimization", "Picture", "Probe", "Recommendation", "ResourceError", "Spread", "StageTime", "StarvedError", "StateError",
    "Stats", "TooManyBadError", "__version__", "auto_optimize_config", "benchmark", "check", "estimate", "find_lr", "monitor",
    "move_data_to_device", "ops", "recommend",
]
