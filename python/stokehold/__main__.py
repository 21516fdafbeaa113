# SPDX-License-Identifier: Apache-2.0
"""`python -m stokehold ARGS` and the script `stoke`: the command itself, which lies in the package."""
import os
import sys


def main() -> None:
    """Becomes the command; returns only if that fails."""
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "stoke")
    try:
        os.execv(command, ["stoke"] + sys.argv[1:])
    except OSError as error:
        sys.exit(f"stoke: {command}: {error.strerror}")


if __name__ == "__main__":
    main()
