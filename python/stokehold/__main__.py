# SPDX-License-Identifier: Apache-2.0
"""`python -m stokehold ARGS` and the script `stoke`: the command itself, which lies in the package."""
import importlib.resources
import os
import sys

from . import _together


def main() -> None:
    """Becomes the command; returns only if that fails. Processes that train or check together stay in Python, as torch.distributed does."""
    if sys.argv[1:2] in (["train"], ["check"]) and _together.launched():
        _together.run(sys.argv[1:])
    command = str(importlib.resources.files("stokehold") / "_bin" / "stoke")
    try:
        os.execv(command, ["stoke"] + sys.argv[1:])
    except OSError as error:
        sys.exit(f"stoke: {command}: {error.strerror}")


if __name__ == "__main__":
    main()
