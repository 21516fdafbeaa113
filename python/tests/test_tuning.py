# SPDX-License-Identifier: Apache-2.0
"""Advice, settings files, the search for a batch, the monitor."""
import subprocess
import sys

import pytest
import stokehold
from conftest import not_sanitized
from stokehold import _stoke

MB = 1 << 20

CONFIG = """# my training
model: b2
image_size: 256
batch_size: 4   # small
num_workers: 0
pin_memory: false
"""


def trial(memory, ms=lambda batch: 5 + batch):
    return lambda batch, with_loader: {"outcome": "ok" if (100 + 20 * batch) * MB <= memory else "oom", "busy": None,
                                       "reserved": (100 + 20 * batch) * MB, "step_ms": ms(batch), "step_low": ms(batch),
                                       "step_high": ms(batch)}


def test_search():
    found = _stoke.batch_search({"memory": 2000 * MB, "margin": 0.0, "margin_bytes": 0}, trial(2000 * MB), None, None)
    assert 0 < found["batch"] <= 95 and found["linear"] and abs(found["memory1"] - 20 * MB) < 1
    assert found["trials"][0]["batch"] == 1 and found["why"]
    bound = _stoke.batch_search({"memory": 300 * MB, "margin": 0.0, "margin_bytes": 0}, trial(300 * MB), None, None)
    assert bound["batch"] <= 10 and bound["budget"] <= 300 * MB


def test_search_passes_exceptions_on():
    def broken(batch, with_loader):
        raise KeyError("mine")

    for run, kind in ((broken, KeyError), (lambda *_: 7, TypeError), (lambda *_: {}, TypeError),
                      (lambda *_: {"outcome": "great"}, ValueError), (lambda *_: {"outcome": "ok", "x": 1}, TypeError)):
        with pytest.raises(kind):
            _stoke.batch_search({"memory": 1 << 30}, run, None, None)


def test_messages_tell_out_of_memory():
    said = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"
    found = _stoke.batch_search({"memory": 1 << 30}, lambda *_: {"outcome": (256, 0, 0, False), "message": said}, None, None)
    assert found["batch"] == 0 and found["trials"][0]["outcome"] == "oom" and said in found["trials"][0]["message"]


def test_batch_size_optimizer(torch):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Conv2d(4, 2, 1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    sample = torch.zeros(2, 3, 32, 32), torch.zeros(2, 30, 30, dtype=torch.long)
    loss = lambda output, target: torch.nn.functional.cross_entropy(output, target)  # noqa: E731: cannot be sent: forked
    optimizer = stokehold.BatchSizeOptimizer(model, {"training": {"optimizer": "sgd"}}, loss=loss, steps=3, largest=2,
                                             memory=2000 * MB, timeout=60)
    assert optimizer.recipe.optimizer == "sgd"
    batch, stats = optimizer.find_optimal_batch_size(sample, target_gpu_util=85.0)
    assert (batch in (1, 2) or stats["too_busy"]) and stats["device"] == "cpu" and {one["outcome"] for one in stats["trials"]} == {"ok"}
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    with pytest.raises(ValueError, match="percent"):
        optimizer.find_optimal_batch_size(sample, target_gpu_util=0)


PLAIN = """import torch
from stokehold import BatchSizeOptimizer
print("begun")
best, stats = BatchSizeOptimizer(torch.nn.Linear(3, 3), {"batch_size": 1}, largest=1, steps=3).find_optimal_batch_size(torch.zeros(1, 3))
print("ended", best)
"""


@not_sanitized
def test_a_script_without_a_guard(torch, tmp_path):
    """Its main file is not run again by the processes of trials."""
    script = tmp_path / "search.py"
    script.write_text(PLAIN)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout.split()) == (0, ["begun", "ended", "1"]), done.stderr


def test_a_busy_machine_keeps_a_batch_that_runs(torch):
    def settled(config, most):
        found = {"batch": 0, "too_busy": True, "largest_ok": most, "why": "Too busy."}
        stokehold.BatchSizeOptimizer(torch.nn.Linear(3, 3), config)._settle(found)
        return found["batch"], found["why"]

    assert settled({"data": {"init_args": {"batch_size": 2}}, "val": {"batch_size": 9}}, 4) == (2, "Too busy. Until then 2: the config's, which fits.")
    assert settled({"batch_size": 8}, 4) == (4, "Too busy. Until then 4: the most that ran.")
    assert settled(None, 0)[0] == 0


def test_whose_limit_ended_the_search():
    def why(**more):
        params = {"memory": 2000 * MB, "margin": 0.0, "margin_bytes": 0, "largest": 4, **more}
        return _stoke.batch_search(params, trial(2000 * MB), None, None)["why"]

    assert "no more than 4 were to be tried" in why(largest_said=True) and "set" not in why(largest_said=True)
    assert "the set has no more than 4 samples" in why()


@not_sanitized
def test_a_trial_that_fails_says_why(torch):
    model = torch.nn.Linear(3, 3)
    optimizer = stokehold.BatchSizeOptimizer(model, loss=lambda *_: 1 / 0, memory=2000 * MB, largest=1)
    with pytest.raises(stokehold.StateError, match="ZeroDivisionError"):  # not the batch's fault
        optimizer.find_optimal_batch_size(torch.zeros(1, 3))
    huge = stokehold.BatchSizeOptimizer(model, loss=lambda output, _: torch.zeros(1 << 32).sum() + output.sum(), memory=64 * MB)
    assert huge.find_optimal_batch_size(torch.zeros(1, 3))[1]["trials"][0]["outcome"] == "oom"


def test_auto_optimize_config(tmp_path):
    source, target = tmp_path / "train_config.yaml", tmp_path / "out.yaml"
    source.write_text(CONFIG)
    done = stokehold.auto_optimize_config(source, target, gpu="rtx3090")
    text = target.read_text()
    assert done.path == str(target) and "# my training" in text and "# small" in text and source.read_text() == CONFIG
    changed = {change.setting: change for change in done.changes}
    assert changed["batch_size"].from_ == "4" and f"batch_size: {changed['batch_size'].to} " in text and changed["batch_size"].why
    target.write_text("mine")
    with pytest.raises(stokehold.Error, match="is there already"):
        stokehold.auto_optimize_config(source, target, gpu="rtx3090")
    assert target.read_text() == "mine"
    stokehold.auto_optimize_config(source, target, gpu="rtx3090", force=True)
    assert target.read_text() == text
    measured = stokehold.auto_optimize_config(source, measured_batch=12, measured_why="tried")
    assert "batch_size: 12" in open(measured.path).read()
    with pytest.raises(FileNotFoundError):
        stokehold.auto_optimize_config(tmp_path / "none.yaml", target)
    with pytest.raises(ValueError, match="abacus") as raised:
        stokehold.auto_optimize_config(source, gpu="abacus")
    assert "--" not in str(raised.value)


def test_auto_optimize_config_is_the_settings(tmp_path):
    source, target = tmp_path / "x.yaml", tmp_path / "y.yaml"
    source.write_text("batch_size: 8\nnum_workers: 0\nlr: 3e-4\nname: '12'\nsizes: [32, 64]\nrange: 16-32\nmodel: segformer-b4\n"
                      "image_size: 288\n")
    cfg = stokehold.auto_optimize_config(source, target, gpu="RTX 4090", cores=12)
    assert isinstance(cfg, dict) and (cfg["batch_size"], cfg["num_workers"], cfg["pin_memory"]) == (32, 8, True)
    assert (cfg["lr"], cfg["name"], cfg["sizes"], cfg["range"]) == (3e-4, "12", [32, 64], "16-32")
    yaml = pytest.importorskip("yaml")
    read = yaml.safe_load(target.read_text())
    assert {**cfg, "lr": "3e-4"} == read
    # Sections: by their path, and by a name that only one of them has.
    source.write_text("data:\n  batch_size: 8\n  num_workers: 2\ntraining:\n  use_amp: true\nval:\n  num_workers: 1\n")
    cfg = stokehold.auto_optimize_config(source, target, gpu="RTX 4090", cores=6, force=True)
    assert cfg["data"]["num_workers"] == 4 and cfg["use_amp"] is True and cfg["batch_size"] == cfg["data"]["batch_size"]
    with pytest.raises(KeyError):
        cfg["num_workers"]
    with pytest.raises(KeyError):
        cfg["nothing"]


def test_auto_optimize_config_twice_and_with_merges(tmp_path):
    source = tmp_path / "train_config.yaml"
    source.write_text("defaults: &d\n  num_workers: 0\n  root: data\ntrain_ds:\n  <<: *d\n  batch_size: 4\n")
    first = stokehold.auto_optimize_config(source, gpu="rtx3090", cores=9)
    assert first["train_ds"]["root"] == "data" and first["train_ds"]["num_workers"] == 6 and first["defaults"]["num_workers"] == 0
    assert stokehold.auto_optimize_config(source, gpu="rtx3090", cores=9) == first
    with pytest.raises(stokehold.StateError):
        stokehold.auto_optimize_config(source, gpu="rtx3090", cores=3)


def test_auto_optimize_config_without_a_card(tmp_path, monkeypatch):
    """No card is no error: what needs none is done."""
    monkeypatch.setenv("STOKE_LIBNVML", "/nowhere/libnvidia-ml.so.1")
    source = tmp_path / "light_config.yaml"
    source.write_text("base_channels: 64\nnum_blocks: 6\npatch_size: 128\nbatch_size: 16\nnum_workers: 0\n")
    cfg = stokehold.auto_optimize_config(source)
    assert cfg.path.endswith("light_gpu_optimized.yaml") and cfg["batch_size"] == 16 and cfg["pin_memory"] and cfg["num_workers"] >= 1


def test_estimate():
    one, two = stokehold.estimate("b0", 8, 256), stokehold.estimate("b0", 16, (256, 256), precision="fp16", memory=8 << 30)
    assert sum(one.bytes.values()) == one.total and one.low <= one.total <= one.high and one.source == "estimated"
    assert two.largest_batch > 0 and one.largest_batch == 0 and two.dominant in two.bytes
    with pytest.raises(ValueError, match="fp64"):
        stokehold.estimate(precision="fp64")
    with pytest.raises(TypeError, match="colour"):
        stokehold.estimate(colour=3)
    with pytest.raises(stokehold.Error, match="b9"):
        stokehold.estimate("b9")


def test_estimate_of_a_file(tmp_path):
    file = tmp_path / "x_config.yaml"
    file.write_text("trainer:\n  max_epochs: 1\n  precision: 16-mixed\nmodel: {name: nvidia/segformer-b4-finetuned-ade-512-512}\n"
                    "data: {batch_size: 4, image_size: 256}\n")
    of_file, said = stokehold.estimate(config=file), stokehold.estimate("b4", 4, size=256, precision="16-mixed")
    assert of_file.total == said.total and of_file.assumed == ("classes",) == said.assumed
    assert stokehold.estimate(config=file, precision="32-true").total > of_file.total
    assert stokehold.estimate("b0", config=file).parameters == stokehold.estimate("b0").parameters
    file.write_text("model: segformer-b4\nbatch_size: 4\n")
    assert stokehold.estimate(config=file).total == stokehold.estimate("b4", 4, precision="fp32").total
    assert stokehold.estimate(config=file).assumed == ("image_size", "classes", "precision")
    file.write_text("model: deeplabv3\nbatch_size: 4\n")
    with pytest.raises(ValueError, match="deeplabv3"):
        stokehold.estimate(config=file)
    with pytest.raises(TypeError, match="give one"):
        stokehold.estimate(image_size=64, size=64)


def test_recommend():
    advice = stokehold.recommend("rtx3090")
    assert "3090" in advice.subject and int(advice["batch_size"]) == 24 and all(line.why for line in advice.lines)
    with pytest.raises(KeyError):
        advice["nonsense"]


def test_check_sees_torch(tmp_path, monkeypatch):
    """Inside Python the line about PyTorch is no longer n/a: by what the module that is imported says of itself."""
    import types

    from stokehold import tuning
    config = tmp_path / "x.yaml"
    config.write_text("batch_size: 4\nnum_workers: 1\n")

    def versions(built, cards):
        torch = types.SimpleNamespace(__version__="2.4.0", version=types.SimpleNamespace(cuda=built, hip=None),
                                      cuda=types.SimpleNamespace(is_available=lambda: cards > 0, device_count=lambda: cards))
        monkeypatch.setitem(tuning.sys.modules, "torch", torch)
        return next(line for line in stokehold.check(config).lines if line.key == "versions")

    line = versions("12.1", 2)
    assert (line.verdict, line.figure, line.fix) == ("pass", "PyTorch 2.4.0, CUDA 12.1: sees 2 cards", "")
    assert versions("12.1", 0).verdict == "fail" and versions("12.1", 0).fix
    assert versions(None, 0).verdict == "warn" and "processor alone" in versions(None, 0).figure
    monkeypatch.delitem(tuning.sys.modules, "torch")
    assert next(line for line in stokehold.check(config).lines if line.key == "versions").verdict == "n/a"


def test_check(tmp_path, data):
    config = tmp_path / "train.yaml"
    config.write_text(CONFIG)
    result = stokehold.check(config, data=data, model="b0", classes=6)
    assert result.lines and {line.verdict for line in result.lines} <= {"pass", "warn", "fail", "n/a"}
    assert result.ok == all(line.verdict != "fail" for line in result.lines) and result.dialect == "flat"


def test_monitor():
    summary = stokehold.monitor(0.05, 0.02)
    assert summary.readings >= 1 and summary.memory_total.value > 0 and summary.memory_total.source == "proc"
    assert summary.verdict and (summary.gpus or summary.why)
    with pytest.raises(ValueError):
        stokehold.monitor(0)
