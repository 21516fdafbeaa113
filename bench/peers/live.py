# SPDX-License-Identifier: Apache-2.0
"""A peer that stays alive between its turns: a separate process that takes a line and answers with a line."""
import os
import subprocess
import tempfile

import runner

# glibc's malloc costs PyTorch 20 to 50 %
TCMALLOC = ["/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4", "/usr/lib/libtcmalloc_minimal.so.4"]


def has_tcmalloc():
    return any(os.path.exists(path) for path in TCMALLOC)


class Program:
    """A command, ready when it has said its first line."""

    def __init__(self, command, **variables):
        self.said = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(command, cwd=runner.HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said,
                                        text=True, env={**os.environ, **variables})
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.said.seek(0)
            raise runner.Failed(runner.reason(self.said.read()))
        return line

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended by itself: there is no answer, and why is said in its place
        return self.answer()

    def end(self):
        self.process.kill()
        self.process.wait()


class Peer(Program):
    """`python -m peers.MODULE WORDS...`."""

    def __init__(self, python, module, *words, tcmalloc=True):
        variables = {"OMP_NUM_THREADS": "2", "PYTHONDONTWRITEBYTECODE": "1"}
        if tcmalloc and has_tcmalloc():
            variables["LD_PRELOAD"] = next(path for path in TCMALLOC if os.path.exists(path))
            variables["THP_MEM_ALLOC_ENABLE"] = "1"
        super().__init__([python, "-m", f"peers.{module}", *map(str, words)], **variables)
