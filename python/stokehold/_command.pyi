# SPDX-License-Identifier: Apache-2.0
from typing import Any, List, NoReturn

def run(words: List[bytes], engine: Any) -> NoReturn: ...
