# SPDX-License-Identifier: Apache-2.0
"""Two hosts for tests, which are network namespaces with a cable between them: a name, an address and a loopback of their own, the files
of this machine. Needs root, and a kernel that lets it; whatever is made goes away when the program of tests ends."""
import atexit
import os
import signal
import subprocess

from cli import path, tap
from launching import MPIRUN

NET = '10.77.0'
# How mpirun reaches a host: the words of ssh, whose host is an address here.
AGENT = """#!/bin/sh
n=${{1##*.}}; shift
exec ip netns exec {name}$n unshare --uts sh -c "hostname {name}$n; $*"
"""


def system(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f'{" ".join(words)}: {done.stderr}'
    return done.stdout


class Hosts:
    """h1, on which mpirun runs, and h2."""

    def __init__(self):
        self.name = f'stoke{os.getpid()}h'
        self.spaces = [self.name + '1', self.name + '2']
        atexit.register(self.close)
        try:
            for space in self.spaces:
                system('ip', 'netns', 'add', space)
            system('ip', 'link', 'add', 'cable1', 'netns', self.spaces[0], 'type', 'veth', 'peer', 'name', 'cable2', 'netns', self.spaces[1])
            for n, space in enumerate(self.spaces, 1):
                system('ip', '-n', space, 'addr', 'add', f'{NET}.{n}/24', 'dev', f'cable{n}')
                system('ip', '-n', space, 'link', 'set', 'lo', 'up')
                system('ip', '-n', space, 'link', 'set', f'cable{n}', 'up')
            system('ip', 'netns', 'exec', self.spaces[1], 'unshare', '--uts', 'hostname', self.spaces[1])
        except (OSError, AssertionError) as error:
            self.close()
            raise tap.Skip(f'no network namespaces: {str(error).strip()}') from None
        self.agent = path('agent.sh')
        with open(self.agent, 'w') as out:
            out.write(AGENT.format(name=self.name))
        os.chmod(self.agent, 0o755)

    def environment(self):
        """What mpirun wants to know of these hosts, and TCP alone between processes."""
        known = {'plm_rsh_agent': self.agent, 'plm_rsh_no_tree_spawn': '1', 'btl': 'tcp,self', 'pml': 'ob1', 'btl_tcp_if_include': NET + '.0/24',
                 'oob_tcp_if_include': NET + '.0/24', 'mpi_yield_when_idle': '1'}
        return {'HOSTS': f'{NET}.1:2,{NET}.2:2', **{'OMPI_MCA_' + name: value for name, value in known.items()}}

    def on_first(self, *words):
        """A command on h1."""
        settings = [f'{name}={value}' for name, value in self.environment().items()]
        return ['ip', 'netns', 'exec', self.spaces[0], 'unshare', '--uts', 'env', *settings, 'sh', '-c', f'hostname {self.spaces[0]}; exec "$@"', 'sh',
                *words]

    def launcher(self):
        """mpirun on h1, for two processes on each host."""
        return self.on_first(MPIRUN, '--map-by', 'slot', '--bind-to', 'none', '--host', self.environment()['HOSTS'])

    def cable(self, state):
        """'down': as if it were cut."""
        system('ip', '-n', self.spaces[1], 'link', 'set', 'cable2', state)

    def rate(self, rate):
        """Of what h1 sends; None: no limit."""
        if rate:
            system('tc', '-n', self.spaces[0], 'qdisc', 'add', 'dev', 'cable1', 'root', 'tbf', 'rate', rate, 'burst', '4kb', 'latency', '50ms')
        else:
            system('tc', '-n', self.spaces[0], 'qdisc', 'del', 'dev', 'cable1', 'root')

    def processes(self, n):
        return [int(pid) for pid in system('ip', 'netns', 'pids', self.spaces[n - 1]).split()]

    def signal(self, n, number):
        """To every process of a host."""
        for pid in self.processes(n):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def close(self):
        for n, space in enumerate(self.spaces, 1):
            if os.path.exists(f'/run/netns/{space}'):
                self.signal(n, signal.SIGKILL)
                subprocess.run(['ip', 'netns', 'del', space], stderr=subprocess.DEVNULL)
