# SPDX-License-Identifier: Apache-2.0
"""Two hosts on this machine: network namespaces with a cable between them (veth), whose speed tc limits each way. They share
processors, memory and files, so two processes of one thread each have a core each and nothing but the cable between them."""
import contextlib
import os
import shutil
import subprocess
import tempfile

NETWORK, CABLE = "10.77.0", "stoke0"
# 256 KB go at once: less, and the timer of the kernel, not the rate, is what limits. 50 ms of queue: nothing is dropped.
BUCKET = ["burst", "256k", "latency", "50ms"]


class Unable(Exception):
    """This machine cannot play two hosts, and why."""


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Unable(f"`{' '.join(words)}` failed: {(done.stderr.strip() or 'no word why').splitlines()[-1]}")


class Hosts:
    """Two of them, until close()."""

    device = CABLE

    def __init__(self):
        if os.geteuid():
            raise Unable("network namespaces need root")
        missing = [program for program in ("ip", "tc", "unshare") if not shutil.which(program)]
        if missing:
            raise Unable("no " + " and no ".join(missing))
        self.names = [f"stoke{os.getpid()}-{number}" for number in (1, 2)]
        self.folder = tempfile.mkdtemp(prefix="stoke-hosts-")
        try:
            for name in self.names:
                call("ip", "netns", "add", name)
            call("ip", "link", "add", CABLE, "netns", self.names[0], "type", "veth", "peer", "name", CABLE, "netns", self.names[1])
            for number, name in enumerate(self.names, 1):
                call("ip", "-n", name, "addr", "add", f"{NETWORK}.{number}/24", "dev", CABLE)
                for device in ("lo", CABLE):
                    call("ip", "-n", name, "link", "set", device, "up")
        except Unable:
            self.close()
            raise
        self.agent = os.path.join(self.folder, "agent")
        with open(self.agent, "w", encoding="ascii") as script:  # stands for ssh: agent ADDRESS COMMAND...
            script.write("#!/bin/sh\n" f"name=stoke{os.getpid()}-${{1##*.}}\nshift\n"
                         'exec ip netns exec $name unshare --uts sh -c "hostname $name; $*"\n')
        os.chmod(self.agent, 0o700)

    def limit(self, rate):
        """Each way: 1gbit, 200mbit, as tc writes it."""
        for name in self.names:
            call("tc", "-n", name, "qdisc", "replace", "dev", CABLE, "root", "tbf", "rate", rate, *BUCKET)

    def address(self, number):
        return f"{NETWORK}.{number + 1}"

    def inside(self, number):
        """The words before a command that runs on host 0 or 1."""
        name = self.names[number]
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh"]

    def close(self):
        for name in self.names:
            with contextlib.suppress(Unable):
                call("ip", "netns", "del", name)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def two(wanted=True):
    """Hosts, or None where they are not wanted."""
    hosts = Hosts() if wanted else None
    try:
        yield hosts
    finally:
        if hosts:
            hosts.close()


def bits_per_second(rate):
    """Of 1gbit, 200mbit; ValueError: it is neither."""
    for unit, bits in (("gbit", 1e9), ("mbit", 1e6)):
        if rate.endswith(unit):
            return float(rate[:-len(unit)]) * bits
    raise ValueError(f"{rate}: a rate is a number and mbit or gbit")
