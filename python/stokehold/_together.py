# SPDX-License-Identifier: Apache-2.0
"""Processes that train together: the engine `c10d`, in which torch.distributed (Gloo) carries the bytes between them.

One thread of the library makes all calls. A message of Gloo cannot be asked whether it has come, and a wait for it that runs out breaks
the connection; so each peer has a thread that waits for its messages, in their order. And whoever waits for a message of which a part has
come hears nothing when its sender dies (seen with PyTorch 1.13); so a second thread waits for a byte that a peer sends when it is done.
"""
import datetime
import os
import queue
import re
import socket
import sys
import threading

# The library has its own limit, `comm_timeout`. The longest that PyTorch's store can pass to poll(), whose milliseconds are 31 bits.
NO_LIMIT = datetime.timedelta(days=24)


MESSAGE, FAREWELL = 0, 1  # tags


class Ticket:
    """What an exchange still waits for."""

    def __init__(self):
        self.left = {}  # rank -> messages; a rank's number is counted down by its own thread alone

    def missing(self):
        return [rank for rank, left in self.left.items() if left]


def plain(error):
    """What PyTorch says, without where in its source it was and whom to tell."""
    text = re.sub(r"^\[[^]]*\.cc:\d+\] ", "", str(error))
    return re.split(r"\. |\n", text, maxsplit=1)[0]


class Peer:
    """Another rank, with the two threads that wait for it."""

    def __init__(self, rank, farewell):
        self.fault = None
        self.messages = queue.SimpleQueue()
        threading.Thread(target=self.work_off, args=(rank,), daemon=True).start()
        self.watch = threading.Thread(target=self.wait, args=(farewell,), daemon=True)
        self.watch.start()

    def wait(self, work):
        try:
            work.wait()
        except RuntimeError as error:
            self.fault = self.fault or plain(error)
        return not self.fault

    def work_off(self, rank):
        for work, ticket in iter(self.messages.get, None):
            if not self.wait(work):
                return
            ticket.left[rank] -= 1


class Engine:
    """The functions of stoke_comm_engine (stoke/tools/comm.h)."""

    def __init__(self):
        self.torch = None
        self.peers = {}
        self.on_way = 0
        self.failed = False

    def open(self):
        try:
            import torch
            import torch.distributed
        except ImportError as error:
            raise ImportError(f"processes that train together need PyTorch, or mpirun in place of torchrun: {error}") from None
        if not torch.distributed.is_available():
            raise ImportError("this PyTorch is built without torch.distributed")
        self.torch = torch
        # Some versions of Gloo write to standard output that they are connected.
        output = os.dup(1)
        os.dup2(2, 1)
        try:
            torch.distributed.init_process_group("gloo", timeout=NO_LIMIT)
        finally:
            os.dup2(output, 1)
            os.close(output)
        rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
        for other in range(world):
            if other != rank:
                byte = torch.empty(1, dtype=torch.uint8)
                self.peers[other] = Peer(other, torch.distributed.irecv(byte, other, tag=FAREWELL))
        return rank, world, socket.gethostname(), f"Gloo of PyTorch {torch.__version__}"

    def exchange(self, sends, receives):
        ticket = Ticket()
        self.on_way += 1
        for rank, _ in receives + sends:
            ticket.left[rank] = ticket.left.get(rank, 0) + 1
        for begin, parts in (self.torch.distributed.irecv, receives), (self.torch.distributed.isend, sends):
            for rank, memory in parts:
                tensor = self.torch.frombuffer(memory, dtype=self.torch.uint8)
                try:
                    work = begin(tensor, rank, tag=MESSAGE)
                except RuntimeError as error:
                    raise self.broken(rank, plain(error)) from None
                self.peers[rank].messages.put((work, ticket))
        return ticket

    def broken(self, rank, fault):
        self.failed = True
        return RuntimeError(f"the connection to rank {rank} broke: {fault}")

    def test(self, ticket):
        missing = ticket.missing()
        for rank in missing:
            if self.peers[rank].fault:
                raise self.broken(rank, self.peers[rank].fault)
        self.on_way -= not missing
        return not missing

    def missing(self, ticket):
        return ticket.missing()

    def close(self):
        if self.failed or self.on_way:
            return
        byte = self.torch.zeros(1, dtype=self.torch.uint8)
        for work in [self.torch.distributed.isend(byte, rank, tag=FAREWELL) for rank in self.peers]:
            work.wait()
        for peer in self.peers.values():
            peer.watch.join()
        self.torch.distributed.destroy_process_group()


def launched():
    """Whether torchrun, or what sets the same names, started several processes."""
    world = os.environ.get("WORLD_SIZE", "")
    return world.isdigit() and int(world) > 1 and "RANK" in os.environ and "MASTER_ADDR" in os.environ


def run(words):
    """The command in this process, which ends with it."""
    from . import _command
    sys.stderr.flush()
    _command.run([b"stoke"] + [os.fsencode(word) for word in words], Engine())
