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


def peer_call(python, module, *words, tcmalloc=True, threads=2, inside=(), **more):
    """`python -m peers.MODULE WORDS...` and its variables; `inside`: the words that start a command on another host."""
    variables = {"OMP_NUM_THREADS": str(threads), "PYTHONDONTWRITEBYTECODE": "1", **more}
    if tcmalloc and has_tcmalloc():
        variables["LD_PRELOAD"] = next(path for path in TCMALLOC if os.path.exists(path))
        variables["THP_MEM_ALLOC_ENABLE"] = "1"
    return [*inside, python, "-m", f"peers.{module}", *map(str, words)], variables


class Peer(Program):
    """What peer_call starts."""

    def __init__(self, *words, **settings):
        command, variables = peer_call(*words, **settings)
        super().__init__(command, **variables)
