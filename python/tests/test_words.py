# SPDX-License-Identifier: Apache-2.0
"""Results print as the command prints them; their repr stays what a program reads."""
import subprocess
import sys

import pytest

import stokehold
from conftest import stoke

FILE = "model: segformer-b2\nbatch_size: 16\nimage_size: 256\nnum_workers: 0\n"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "face_config.yaml"
    path.write_text(FILE)
    return path


def without_moving(text):
    """Free memory is another a moment later; what PyTorch is built for is seen in Python only."""
    lines = text.strip().splitlines()
    return [line for line in lines if not line[6:].startswith(("batches held", "/dev/shm", "PyTorch")) and "import sys, torch" not in line
            and " pass, " not in line and "pytorch.org" not in line]


def test_a_check_prints_as_the_command(config):
    result = stokehold.check(config)
    command = subprocess.run([sys.executable, "-m", "stokehold", "check", "--config", config], stdout=subprocess.PIPE, text=True).stdout
    assert without_moving(str(result)) == without_moving(command)
    assert str(result.lines[0]) in str(result) and f"{len(result.lines)}" != "0"
    assert repr(result).startswith("CheckResult(lines=(CheckLine(")


def test_an_estimate_prints_as_the_command():
    found = stokehold.estimate("b2", batch_size=4, image_size=256)
    command = stoke("estimate", "--model", "b2", "--batch", 4, "--size", 256)
    lines = str(found).splitlines()
    levels = lines[lines.index("torch, by who counts:"):]
    assert lines[:2] == command.splitlines()[:2] and "\n".join(levels) in command
    for name in found.bytes:
        (row,) = (line for line in lines if line.startswith(name + " "))
        assert row.split("  ")[-1] in command
    assert repr(found).startswith("Estimate(bytes={")
    assert found.allocated < found.reserved_low < found.low < found.high and found.total < found.card
    native = str(stokehold.estimate("b2", batch_size=4, image_size=256, engine="native", memory=4 << 30))
    assert "the engine's own plan" in native and "largest batch" in native and "by who counts" not in native


def test_advice_prints_as_the_command():
    found = stokehold.recommend("rtx3060")
    assert stoke("recommend", "--gpu", "rtx3060").startswith(str(found) + "\n")
    assert [line.key for line in found.expected][-1] == "F1"
    # The card is in another machine: this one's cores say nothing of it.
    assert {line.source for line in found.lines if line.key == "num_workers"} == {"table"}
    assert {line.source for line in stokehold.recommend("rtx3060", cores=6).lines if line.key == "num_workers"} == {"given"}


def test_a_summary_of_the_machine_prints_as_a_table():
    found = stokehold.monitor(0.2, 0.1, progress=False)
    lines = str(found).splitlines()
    assert lines[2].startswith("processors busy") and found.verdict in lines and f"Next: `{found.next}`" in lines


def test_a_check_needs_a_file():
    with pytest.raises(TypeError, match="config"):
        stokehold.check()
