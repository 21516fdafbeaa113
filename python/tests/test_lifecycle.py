# SPDX-License-Identifier: Apache-2.0
"""Interrupts, exceptions, forks, and the end of the interpreter. Each in a separate process, which must end by itself."""
import gc
import multiprocessing
import os
import signal
import threading
import time

import pytest

import stokehold
from conftest import not_sanitized

BEGIN = """
    import os, sys, threading, stokehold
    def make(**settings):
        return stokehold.Loader(sys.argv[1], **{"batch_size": 4, "image_size": 32, "output": "numpy", "workers": 2, **settings})
"""
# Many seconds of work for one batch: who gets it was not interrupted.
ENDLESS = {"batch_size": 4000, "image_size": 32, "dtype": "u8"}


@pytest.mark.parametrize("workers, to", [(0, None), (1, None), (1, "host")])
def test_control_c_ends_a_wait(program, endless, workers, to):
    child = program(BEGIN + f"""
    loader = make(**{ENDLESS}, workers={workers}, prefetch=1, to={to!r})
    iteration = iter(loader)
    try:
        print("waiting", flush=True)
        next(iteration)
        print("a batch came")
    except KeyboardInterrupt:
        print("interrupted")
    loader.close()
    print(loader.stats().batches, threading.active_count())
    """, endless)
    assert child.line() == "waiting"
    child.process.send_signal(signal.SIGINT)
    assert child.end() == (0, "interrupted\n0 1\n", "")


def test_another_thread_closes(endless):
    loader = stokehold.Loader(endless, output="numpy", workers=1, prefetch=1, **ENDLESS)
    caught = []

    def wait():
        try:
            next(iteration)
        except stokehold.StateError as error:
            caught.append(str(error))

    iteration = iter(loader)
    thread = threading.Thread(target=wait)
    thread.start()
    while loader.stats().stages["decode image"].count == 0:  # the wait has most likely begun; it need not have
        pass
    loader.close()
    thread.join()
    assert caught == ["the loader is closed"]


def threads_of_loaders():
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm", encoding="ascii") as file:
                names.append(file.read().strip())
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended since
    return [name for name in names if name.startswith("stoke-")]


def test_an_exception_in_the_loop_leaves_no_thread(make, data):
    deadline = time.monotonic() + 10
    while threads_of_loaders() and time.monotonic() < deadline:  # of loaders that tests before this one left to the collector
        gc.collect()
    assert threads_of_loaders() == []

    def train():
        for step, (images, masks) in enumerate(stokehold.Loader(data, batch_size=4, image_size=32, output="numpy", workers=2)):
            # A thread names itself when it first runs, which on a busy machine is after the first batch.
            deadline = time.monotonic() + 10
            while len(threads_of_loaders()) != 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert len(threads_of_loaders()) == 2
            if step == 1:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    assert threads_of_loaders() == []
    with pytest.raises(ZeroDivisionError):
        with make() as loader:
            for _ in loader:
                raise ZeroDivisionError
    assert threads_of_loaders() == []


ENDINGS = {
    "a live iteration": "kept = iter(make()); batch = next(kept)",
    "a cycle": "a = [make()]; a.append(a); kept = next(iter(a[0]))",
    "a batch in a module": "import builtins; loader = make(); builtins.kept = next(iter(loader)); builtins.loader = loader",
    "an exception": "kept = next(iter(make())); 1 / 0",
    "sys.exit in the loop": "\n    for batch in make(): sys.exit(3)",
    "a closed loader": "loader = make(); kept = next(iter(loader)); loader.close(); loader.close()",
    "loaders made at exit": "import atexit; atexit.register(lambda: print(len(next(iter(make()))[0])))",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends(program, data, ending):
    status, out, err = program(BEGIN + "    " + ENDINGS[ending], data).end()
    assert status == {"an exception": 1, "sys.exit in the loop": 3}.get(ending, 0), err
    assert out == ("4\n" if ending == "loaders made at exit" else "")
    assert ("ZeroDivisionError" in err) if ending == "an exception" else not err


def test_the_interpreter_ends_while_a_thread_waits(program, endless):
    child = program(BEGIN + f"""
    loader = make(**{ENDLESS}, workers=1, prefetch=1)
    threading.Thread(target=lambda: next(iter(loader)), daemon=True).start()
    while not loader.stats().stages["decode image"].count: pass
    print("ending")
    sys.stderr = open(os.devnull, "w")  # the thread may have time to say that its loader is closed
    """, endless)
    status, out, _ = child.end()
    assert (status, out) == (0, "ending\n")


def test_the_interpreter_ends_with_tensors(program, data, torch):
    child = program("""
    import sys, os
    sys.path.append(os.path.dirname(os.path.dirname(sys.argv[2])))
    import stokehold, torch
    loader = stokehold.Loader(sys.argv[1], batch_size=4, image_size=32, output="torch")
    kept = [next(iter(loader)) for _ in range(2)]
    torch.kept = kept[0][0] * kept[0][0].requires_grad_()
    print(tuple(torch.kept.shape))
    """, data, torch.__file__)
    assert child.end() == (0, "(4, 3, 32, 32)\n", "")


@not_sanitized
def test_a_forked_child_is_told(program, data):
    status, out, err = program(BEGIN + """
    import warnings
    warnings.simplefilter("ignore")  # CPython 3.12 has a word on forks of its own
    loader = make()
    iteration = iter(loader)
    batch = next(iteration)
    copy = batch[0].copy()
    child = os.fork()
    if not child:
        for call in (lambda: next(iteration), lambda: loader.set_epoch(3) or loader.state_dict(), loader.stats, loader.bad_files):
            try:
                call()
                print("no error")
            except stokehold.StateError as error:
                print("made by process %d" % os.getppid() in str(error) and "spawn" in str(error))
        print((batch[0] == copy).all())
        loader.close()
        del batch, iteration, loader
        own = make()
        print(sum(len(images) for images, _ in own), flush=True)
        sys.exit(0)
    print("child", os.waitpid(child, 0)[1], flush=True)
    print(sum(len(images) for images, _ in iteration))
    """, data).end()
    assert (status, err) == (0, "")
    assert out == "True\n" * 5 + "22\nchild 0\n18\n"


def use(loader, queue):
    queue.put(sum(len(images) for images, _ in loader))


def test_spawned_processes_have_their_own(make):
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=use, args=(make(), queue))
    process.start()
    assert queue.get() == 22
    process.join()
    assert process.exitcode == 0


def test_closing_twice_and_using_afterwards(make):
    loader = make()
    loader.close()
    loader.close()
    assert len(loader) == 6 and loader.samples == 22 and loader.bad_files() == [] and loader.stats().batches == 0
    for call in (loader.state_dict, lambda: loader.set_epoch(5), lambda: next(iter(loader))):
        with pytest.raises(stokehold.StateError, match="the loader is closed"):
            call()
