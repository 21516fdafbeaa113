# SPDX-License-Identifier: Apache-2.0
"""The public headers: those that are promised, and those of tools/ that are not."""
import os


def headers(include):
    """All of them, relative to include/stoke."""
    folder = os.path.join(include, 'stoke')
    return sorted(name for name in os.listdir(folder) if name.endswith('.h')) + sorted(
        f'tools/{name}' for name in os.listdir(os.path.join(folder, 'tools')))
