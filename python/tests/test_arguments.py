# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments: the error is of the class that Python has for it, and names the argument as it was written."""
import numpy
import pytest

import stokehold
from stokehold import Augment

FILE = "model: b2\nbatch_size: 4\nimage_size: 64\n"

LOADER = [
    ("batch_size", 0, ValueError), ("batch_size", "x", ValueError), ("batch_size", 2.5, TypeError), ("batch_size", [4], TypeError),
    ("image_size", -5, ValueError), ("image_size", (1, 2, 3), ValueError), ("augment", "nonsense", ValueError), ("augment", 5, TypeError),
    ("workers", -1, ValueError), ("num_workers", -1, ValueError), ("num_workers", 1.5, TypeError), ("prefetch", 0, ValueError),
    ("prefetch_factor", 0, ValueError), ("seed", "x", ValueError), ("seed", 2.5, TypeError), ("output", "x", ValueError),
    ("as_dict", "x", TypeError), ("channels_last", "false", TypeError), ("to", "nonsense", ValueError), ("pin_memory", "x", TypeError),
    ("non_blocking", "x", TypeError), ("config", 5, TypeError), ("classes", -1, ValueError), ("classes", "x", ValueError),
    ("label_map", "nowhere", FileNotFoundError),
    ("ignore_index", -2, ValueError), ("label_map", {1: "a"}, ValueError), ("window", "x", ValueError), ("dtype", "x", ValueError),
    ("mask_dtype", "x", ValueError), ("layout", "x", ValueError), ("normalize", "x", ValueError), ("val_split", 2, ValueError),
    ("val_split", [0.1], TypeError), ("split", "x", ValueError), ("max_bad", "x", ValueError), ("memory_limit", "x", ValueError),
    ("shuffle", "x", ValueError), ("drop_last", "x", ValueError), ("policy", "x", ValueError), ("epoch", -1, ValueError),
    ("data", 5, TypeError), ("nonsense", 1, TypeError), ("mixup_alpha", "x", TypeError), ("mixup_alpha", -1, ValueError),
    ("cutmix_prob", 2, ValueError), ("use_mixup", "x", TypeError),
]


@pytest.mark.parametrize("name, value, error", LOADER)
def test_a_loader(data, name, value, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        stokehold.Loader(**{"data": data, "image_size": 32, "output": "numpy", name: value})


@pytest.mark.parametrize("name, value", [("data", "/nowhere"), ("images", "/nowhere"), ("config", "/nowhere.yaml"), ("augment", "/nowhere.yaml")])
def test_a_file_that_is_not_there(data, name, value):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Augment("nowhere.yaml")
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        stokehold.Loader(**{"data": None if name == "images" else data, "output": "numpy", name: value})


@pytest.mark.parametrize("name, value, error", [
    ("augment", 5, TypeError), ("augment", "nonsense", ValueError), ("image_size", 0, ValueError), ("image_size", "x", ValueError), ("image_size", (1, 2, 3), ValueError),
    ("image_size", 2.5, TypeError), ("seed", "x", ValueError), ("seed", 2.5, TypeError), ("epoch", "x", TypeError), ("epoch", -1, ValueError),
    ("threads", 0, ValueError), ("threads", "x", TypeError), ("threads", 2.5, TypeError), ("as_dict", "x", TypeError),
    ("dtype", "x", ValueError), ("mask_dtype", "x", ValueError), ("layout", "x", ValueError), ("classes", -1, ValueError),
    ("label_map", {1: "a"}, ValueError), ("window", "x", ValueError), ("mixup_alpha", "x", TypeError), ("mixup_prob", 2, ValueError),
    ("nonsense", 1, TypeError)])
def test_augment(name, value, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        Augment(**{name: value})


@pytest.mark.parametrize("name, value, error", [
    ("model", "b9", ValueError), ("model", 5, TypeError), ("batch_size", 0, ValueError), ("batch_size", -1, ValueError),
    ("batch_size", 10**6, ValueError), ("batch_size", "x", TypeError), ("batch_size", 2.5, TypeError), ("image_size", 0, ValueError),
    ("image_size", "x", ValueError), ("image_size", (1, 2, 3), ValueError), ("image_size", 8, ValueError), ("image_size", 2.5, TypeError),
    ("image_size", (32, "x"), TypeError), ("size", "x", ValueError), ("classes", -1, ValueError), ("classes", 10**9, ValueError),
    ("config", 5, TypeError), ("precision", "x", ValueError), ("optimizer", "x", ValueError), ("optimizer", 5, TypeError),
    ("engine", "x", ValueError), ("memory", -1, ValueError), ("memory", "x", TypeError), ("spare", -1, ValueError),
    ("prefetch", -1, ValueError), ("prefetch", 10**6, ValueError), ("average", "x", TypeError), ("freeze_encoder", "x", TypeError),
    ("nonsense", 1, TypeError)])
def test_estimate(name, value, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        stokehold.estimate(**{name: value})


def test_sizes_of_an_estimate():
    wanted = stokehold.estimate("b0", image_size=(64, 96)).total
    assert wanted == stokehold.estimate("b0", size="64x96").total == stokehold.estimate("b0", image_size=numpy.array([64, 96]).tolist()).total
    assert stokehold.estimate("b0", image_size=numpy.int64(64)).total == stokehold.estimate("b0", image_size=64).total


@pytest.mark.parametrize("name, value, error", [
    ("gpu", "nonsense", ValueError), ("gpu", 5, TypeError), ("memory", -1, ValueError), ("memory", 1.5, TypeError), ("cores", 0, ValueError),
    ("cores", "x", TypeError), ("ranks", 0, ValueError), ("task", "x", ValueError), ("task", 5, TypeError)])
def test_recommend(name, value, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        stokehold.recommend(**{name: value})


@pytest.mark.parametrize("name, value, error", [
    ("src", 5, TypeError), ("src", None, TypeError), ("dst", 5, TypeError), ("gpu", "nonsense", ValueError), ("gpu", 5, TypeError),
    ("memory", -1, ValueError), ("memory", "x", TypeError), ("cores", -1, ValueError), ("allow_model_scale", "x", TypeError),
    ("measured_batch", 0, ValueError), ("measured_batch", "x", TypeError), ("measured_why", 5, TypeError), ("force", "x", TypeError)])
def test_auto_optimize_config(tmp_path, name, value, error):
    (tmp_path / "a_config.yaml").write_text(FILE)
    settings = {"src": tmp_path / "a_config.yaml", "dst": tmp_path / "b.yaml", "gpu": "rtx3060", name: value}
    with pytest.raises(error, match=rf"\b{name}\b"):
        stokehold.auto_optimize_config(**settings)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        stokehold.auto_optimize_config(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("name, value, error", [
    ("config", 5, TypeError), ("data", 5, TypeError), ("model", "b9", ValueError), ("model", 5, TypeError), ("classes", -1, ValueError),
    ("ranks", 0, ValueError)])
def test_check(tmp_path, name, value, error):
    (tmp_path / "a_config.yaml").write_text(FILE)
    with pytest.raises(error, match=rf"\b{name}\b"):
        stokehold.check(**{"config": tmp_path / "a_config.yaml", name: value})


@pytest.mark.parametrize("name, value, error", [("seconds", 0, ValueError), ("seconds", "x", TypeError), ("interval", -1, ValueError)])
def test_monitor(name, value, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        stokehold.monitor(**{"seconds": 0.1, name: value})


SHARED = [("model", None, TypeError), ("loader", 5, TypeError), ("loader", [], ValueError), ("loss", 5, TypeError), ("optimizer", "x", ValueError),
          ("optimizer", 5, TypeError), ("device", "x", ValueError), ("precision", "x", ValueError)]


def of_torch(torch, **settings):
    batch = (torch.rand(1, 3, 4, 4), torch.zeros(1, 4, 4, dtype=torch.long))
    return {"model": torch.nn.Conv2d(3, 2, 1), "loader": [batch], "loss": torch.nn.functional.cross_entropy, "progress": False, **settings}


@pytest.mark.parametrize("name, value, error", SHARED + [
    ("low", 0, ValueError), ("low", "x", TypeError), ("high", 1e9, ValueError), ("high", "x", TypeError), ("steps", 50, ValueError),
    ("steps", 150.5, TypeError), ("accumulate", 0, ValueError), ("accumulate", "x", TypeError), ("clip_norm", 0, ValueError),
    ("clip_norm", "x", TypeError)])
def test_find_lr(torch, name, value, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        stokehold.find_lr(**of_torch(torch, **{name: value}))


@pytest.mark.parametrize("name, value, error", SHARED + [
    ("num_steps", 0, ValueError), ("num_steps", "x", TypeError), ("num_steps", 2.5, TypeError), ("warmup", -1, ValueError),
    ("warmup", "x", TypeError)])
def test_benchmark(torch, name, value, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        stokehold.benchmark(**of_torch(torch, **{"num_steps": 2, "warmup": 0, name: value}))


@pytest.mark.parametrize("name, value, error", [
    ("model", 5, TypeError), ("config", 5, TypeError), ("loss", 5, TypeError), ("memory", -1, ValueError), ("memory", "x", TypeError),
    ("steps", 0, ValueError), ("steps", "x", TypeError), ("largest", -1, ValueError), ("timeout", 0, ValueError), ("timeout", "x", TypeError),
    ("target_gpu_util", 0, ValueError), ("target_gpu_util", "x", TypeError), ("sample", None, TypeError), ("sample", 5, TypeError),
    ("journal", 5, TypeError), ("key", 5, TypeError)])
def test_batch_size_optimizer(torch, name, value, error):
    asked = {"sample": torch.rand(1, 3, 4, 4)}
    made = {"model": torch.nn.Conv2d(3, 2, 1)}
    (asked if name in ("target_gpu_util", "sample", "journal", "key") else made)[name] = value
    with pytest.raises(error, match=rf"\b{name}\b"):
        stokehold.BatchSizeOptimizer(**made).find_optimal_batch_size(**asked)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        stokehold.BatchSizeOptimizer(torch.nn.Conv2d(3, 2, 1), "/nowhere.yaml")
