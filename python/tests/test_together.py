# SPDX-License-Identifier: Apache-2.0
"""Processes that train together by torch.distributed: the same weights for any number of them, and what one's end does to the others."""
import importlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

import stokehold
from conftest import not_sanitized

pytestmark = not_sanitized

SETTINGS = ["--size", "32", "--batch", "2", "--replicas", "3", "--eval-every", "4", "--seed", "5", "--workers", "1"]


@pytest.fixture(autouse=True)
def distributed(torch):
    if not torch.distributed.is_available():
        pytest.skip("torch without distributed")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Ranks:
    """`stoke train` in some processes of one run, as a launcher of torch starts them."""

    def __init__(self, folder, world, *words):
        self.folder = folder
        self.processes = []
        port = free_port()
        for rank in range(world):
            env = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world),
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            self.processes.append(subprocess.Popen([sys.executable, "-m", "stokehold", "train", *map(str, words)], cwd=folder, env=env,
                                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def wait_for_step(self, run, step):
        log = self.folder / "runs" / run / "log.jsonl"
        while not log.exists() or f'"step": {step},' not in log.read_text(encoding="utf-8"):
            assert all(one.poll() is None for one in self.processes), self.end()
            time.sleep(0.05)

    def end(self):
        """[(status, output, errors)]"""
        said = [one.communicate(timeout=120) for one in self.processes]
        return [(one.returncode, *texts) for one, texts in zip(self.processes, said)]


@pytest.fixture
def train(tmp_path):
    started = []

    def start(world, *words):
        started.append(Ranks(tmp_path, world, *words))
        return started[-1]

    yield start
    for one in started:
        for process in one.processes:
            process.kill()
            process.communicate()


def weights(folder, run):
    return (folder / "runs" / run / "last" / "model.safetensors").read_bytes()


def test_weights_do_not_depend_on_the_number_of_processes(train, data, tmp_path):
    for world in 1, 2, 3:
        ended = train(world, data, "--name", f"by{world}", *SETTINGS, "--steps", 6, "--json").end()
        assert [status for status, _, _ in ended] == [0] * world, ended
        assert json.loads(ended[0][1])["complete"] is True  # nothing else is on standard output
        assert all(not out and not err for _, out, err in ended[1:]), ended
    assert weights(tmp_path, "by1") == weights(tmp_path, "by2") == weights(tmp_path, "by3")


def test_an_interrupted_run_goes_on_in_another_number_of_processes(train, data, tmp_path):
    words = [data, *SETTINGS, "--steps", 60]
    assert train(1, "--name", "whole", *words).end()[0][0] == 0
    ranks = train(2, "--name", "broken", *words)
    ranks.wait_for_step("broken", 10)
    ranks.processes[1].send_signal(signal.SIGINT)
    ended = ranks.end()
    assert ended[0][0] == 128 + signal.SIGINT and "is saved" in ended[0][2], ended
    assert ended[1] == (0, "", ""), ended
    ended = train(3, "--resume", "runs/broken").end()
    assert [status for status, _, _ in ended] == [0, 0, 0] and "goes on after step" in ended[0][2], ended
    assert weights(tmp_path, "broken") == weights(tmp_path, "whole")


@pytest.mark.parametrize("victim", [0, 1])
def test_all_end_when_one_is_killed(train, data, victim):
    ranks = train(3, data, "--name", "killed", *SETTINGS, "--steps", 100000)
    ranks.wait_for_step("killed", 20)
    ranks.processes[victim].kill()
    began = time.monotonic()
    ended = ranks.end()
    assert time.monotonic() - began < 10
    assert ended.pop(victim)[0] == -signal.SIGKILL
    for status, _, said in ended:
        assert status == 75 and said.count("stoke train:") == 1, ended
        assert re.search(r"stoke train: the connection to rank \d broke", said), ended


@pytest.mark.parametrize("rank", [0, 1])
def test_it_gives_up_when_nobody_joins(data, rank, tmp_path):
    env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ended = subprocess.run([sys.executable, "-m", "stokehold", "train", data, "--comm-timeout", "1", *SETTINGS], cwd=tmp_path, env=env,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 75 and "gave up waiting for the other processes to join" in ended.stderr, ended


def test_a_process_without_python_says_what_to_do(data, tmp_path):
    command = pathlib.Path(stokehold.__file__).parent / "_bin" / "stoke"
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    ended = subprocess.run([command, "train", data, *SETTINGS], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, timeout=60)
    assert ended.returncode == 1 and "torchrun ... -m stokehold train" in ended.stderr, ended


def test_torchrun_trains(data, tmp_path):
    # Under Python 3.11 torch 1.13 does not find its own default of these, the member 0 of a Flag.
    spelled = importlib.import_module("torch.distributed.elastic.multiprocessing").Std.from_str("0") is None
    more = ["--redirects", "1", "--tee", "1", "--log_dir", str(tmp_path)] if spelled else []
    # --standalone takes port 29400 in torch 1.13, whoever has it already.
    ended = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0",
                            "--nproc_per_node", "2", *more, "-m", "stokehold", "train", data, "--name", "launched", *SETTINGS,
                            "--steps", "4"],
                           cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert ended.returncode == 0, ended
    assert "runs/launched: 4 of 4 steps" in ended.stdout and "2 processes share" in ended.stderr, ended
