# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python, as somebody would run them."""
import importlib
import json
import os
import re
import subprocess
import sys

import pytest
from conftest import stoke

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """16 pairs: two batches of four for each of two ranks."""
    folder = tmp_path_factory.mktemp("scenes") / "set"
    stoke("synth", folder, "--count", 16, "--size", "128")
    return str(folder)


def run(*words):
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240,
                            env=variables)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", ["train_torch.py", "train_hugging_face.py"])
def test_the_loss_falls(torch, scenes, name):
    pytest.importorskip("transformers")
    if name == "train_hugging_face.py":
        pytest.importorskip("accelerate")
    said = run(os.path.join(EXAMPLES, name), scenes)
    first, last = map(float, re.search(r"loss ([\d.]+) at first, ([\d.]+) over the last 5", said).groups())
    assert last < 0.8 * first, said


def test_torchrun_shares_the_set(torch, scenes, tmp_path):
    pytest.importorskip("transformers")
    if not torch.distributed.is_available():
        pytest.skip("torch without distributed")
    # Under Python 3.11 torch 1.13 does not find its own default of these, the member 0 of a Flag.
    spelled = importlib.import_module("torch.distributed.elastic.multiprocessing").Std.from_str("0") is None
    more = ["--redirects", "1", "--tee", "1", "--log_dir", str(tmp_path)] if spelled else []
    # --standalone takes port 29400 in torch 1.13, whoever has it already.
    said = run("-m", "torch.distributed.run", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--nproc_per_node", "2", *more,
               os.path.join(EXAMPLES, "train_torchrun.py"), scenes)
    shares = {int(rank): json.loads(ids) for rank, ids in re.findall(r"rank (\d) of 2: loss [\d.]+, samples (\[.*?\])", said)}
    assert sorted(shares) == [0, 1] and len(shares[0]) == len(shares[1]) == 8, said
    assert sorted(shares[0] + shares[1]) == list(range(16))
