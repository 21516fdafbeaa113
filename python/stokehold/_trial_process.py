# SPDX-License-Identifier: Apache-2.0
"""A trial in a separate process: a fresh interpreter, or a fork of this one."""
import multiprocessing
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Callable, Dict, Optional, Tuple

# multiprocessing's own way would run the program's main file again, and with it a search that stands there unguarded. Isolated, so
# that files of the working folder stand in for no module before sys.path is that of the program.
_FRESH = """import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from stokehold._trial_process import answer
answer(int(sys.argv[1]))
"""


@dataclass
class Ended:
    """What a process answered, and how it ended: its exit status, or less than 0 by a signal."""

    result: Optional[Dict[str, Any]]
    code: int
    late: bool


def answer(pipe: int) -> None:
    """In the fresh interpreter: what is to be tried comes through its input, the answer goes into the pipe."""
    from ._trial import child
    what = pickle.load(sys.stdin.buffer)
    how = pickle.load(sys.stdin.buffer)
    sys.stdin.close()
    with Connection(pipe) as out:
        out.send(child(*what, *how))


def _received(pipe: Any, timeout: float) -> Tuple[Optional[Dict[str, Any]], bool]:
    """The answer, and whether none came in time."""
    if not pipe.poll(timeout):
        return None, True
    try:
        return pipe.recv(), False
    except EOFError:
        return None, False


def run_fresh(what: bytes, how: Tuple[int, int, int], timeout: float) -> Ended:
    """In its own interpreter. what: pickled (model, sample, recipe)."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = subprocess.Popen([sys.executable, "-I", "-c", _FRESH, str(theirs.fileno())], stdin=subprocess.PIPE,
                               pass_fds=(theirs.fileno(),))
    try:
        theirs.close()
        try:
            assert process.stdin is not None
            process.stdin.write(pickle.dumps([path or os.getcwd() for path in sys.path]) + what + pickle.dumps(how))
            process.stdin.close()
        except BrokenPipeError:
            pass  # it ended before: how, is seen below
        result, late = _received(ours, timeout)
        try:
            process.wait(0 if late else 10)
        except subprocess.TimeoutExpired:
            pass  # killed below
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        ours.close()
    return Ended(result, process.returncode, late)


def _answer_forked(pipe: Any, run: Callable[..., Dict[str, Any]], what: Tuple[Any, ...]) -> None:
    pipe.send(run(*what))
    pipe.close()


def run_forked(run: Callable[..., Dict[str, Any]], what: Tuple[Any, ...], timeout: float) -> Ended:
    """In a fork, which has everything that the program has."""
    context: Any = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer_forked, daemon=True, args=(theirs, run, what))
    try:
        process.start()
        theirs.close()
        result, late = _received(ours, timeout)
        process.join(0 if late else 10)
    finally:
        if process.is_alive():
            process.kill()
            process.join()
        ours.close()
    return Ended(result, process.exitcode or 0, late)
