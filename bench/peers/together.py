# SPDX-License-Identifier: Apache-2.0
"""Commands of several processes, as launchers start them, on this host or on two (hosts.py): what they print, and the most
memory that all of them held."""
import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import harness
import runner

LIMIT_SECONDS = 900  # a turn that takes longer is given up
MPI_VARIABLES = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                 "OMPI_MCA_btl_base_warn_component_unused": "0"}


def mpirun(command, hosts=None, processes=2):
    """The words of a launch: all processes here, or one on each of the hosts."""
    words = ["mpirun", "--bind-to", "none", "--oversubscribe", "-np", str(processes)]
    if not hosts:
        return [*words, *command]
    addresses = [hosts.address(number) for number in range(processes)]
    network = hosts.address(0).rpartition(".")[0] + ".0/24"
    return [*hosts.inside(0), *words, "--mca", "plm_rsh_agent", hosts.agent, "--mca", "plm_rsh_no_tree_spawn", "1",
            "--mca", "orte_leave_session_attached", "1",  # else the other host's daemon is nobody's child
            "--host", ",".join(address + ":1" for address in addresses), "--map-by", "slot", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
            "--mca", "btl_tcp_if_include", network, "--mca", "oob_tcp_if_include", network, *command]


def why_no_mpirun(stoke):
    """None: it can be used."""
    if not shutil.which("mpirun"):
        return "no mpirun"
    build = os.path.dirname(os.path.dirname(stoke))
    return None if glob.glob(os.path.join(build, "**", "libstoke-mpi.so"), recursive=True) else "this build has no libstoke-mpi.so"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def torch_variables(rank, world, port, hosts=None):
    """What torchrun tells a process of itself."""
    local = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GLOO_SOCKET_IFNAME": hosts.device} if hosts else {
        "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world)}
    return {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": hosts.address(0) if hosts else "127.0.0.1",
            "MASTER_PORT": str(port), **local}


def highest_resident(pid):
    """Bytes; 0: it has ended."""
    with contextlib.suppress(OSError, StopIteration), open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return 0


class Started:
    """Processes of one turn, given as (words, variables). None is left behind."""

    def __init__(self, commands):
        self.said = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")
        self.peaks, self.over = {}, threading.Event()
        self.processes = []
        for words, variables in commands:
            self.processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.said, stdin=subprocess.DEVNULL, text=True,
                                                   env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **MPI_VARIABLES, **variables}))
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    def watch(self):
        """Each process has its own highest mark; it is read five times a second, as it goes with the process."""
        while not self.over.wait(0.2):
            for process in self.processes:
                for pid in harness.family(process.pid):
                    self.peaks[pid] = max(self.peaks.get(pid, 0), highest_resident(pid))

    def outputs(self):
        """What each printed, once all have ended well."""
        until = time.monotonic() + LIMIT_SECONDS
        try:
            printed = [process.communicate(timeout=max(0.1, until - time.monotonic()))[0] for process in self.processes]
        except subprocess.TimeoutExpired:
            raise runner.Failed(f"not done in {LIMIT_SECONDS} s") from None
        finally:
            self.end()
        if any(process.returncode for process in self.processes):
            self.said.seek(0)
            lines = [line for line in self.said if line.startswith("stoke")]
            self.said.seek(0)
            raise runner.Failed(runner.reason("".join(lines) or self.said.read()))
        return printed

    def end(self):
        self.over.set()
        self.watcher.join()
        for process in self.processes:
            members = harness.family(process.pid) if process.poll() is None else []
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()

    def memory(self):
        return sum(self.peaks.values())
