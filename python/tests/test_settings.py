# SPDX-License-Identifier: Apache-2.0
"""Settings: names, other names, values of Python, mistakes."""
import inspect
import pathlib

import numpy
import pytest

import stokehold
from stokehold import _settings, _stoke


def test_names_of_pytorch(make):
    loader = make(batch_size=None, batch=2, workers=None, num_workers=1, prefetch_factor=4, shuffle=False, pin_memory=True,
                  persistent_workers=True, as_dict=True)
    assert loader.memory.workers == 1 and loader.memory.slots == 5
    assert next(iter(loader))["ids"].tolist() == [0, 1]
    assert make(shuffle=True).state_dict()["order"] == "shuffle"


@pytest.mark.parametrize("settings, message", [
    ({"bach": 4}, "unknown setting 'bach': did you mean batch?"),
    ({"num_worker": 4}, "did you mean num_workers?"),
    ({"augmnt": "none"}, "did you mean augment?"),
    ({"qqqqqqqq": 4}, "unknown setting 'qqqqqqqq'$"),
    ({"batch": 4}, "batch_size and batch are the same setting"),
    ({"rank": 1}, "rank and world belong together"),
    ({"classes": object()}, "classes=.*a whole number is expected, not object"),
])
def test_wrong_names(make, settings, message):
    with pytest.raises(TypeError, match=message):
        make(**settings)


@pytest.mark.parametrize("settings, message", [
    ({"batch_size": 0}, "batch"),
    ({"dtype": "float64"}, "f32|f16|bf16|u8"),
    ({"augment": "hflop"}, "hflip"),
    ({"output": "jax"}, "torch, numpy, dlpack"),
    ({"rank": 2, "world": 2}, "rank 2"),
    ({"memory_limit": "1M"}, "limit"),
])
def test_wrong_values(make, settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


def test_no_data(make, tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing-here") as caught:
        make(data=tmp_path / "nothing-here")
    assert isinstance(caught.value, stokehold.Error) and isinstance(caught.value, OSError)
    assert (caught.value.code, caught.value.status) == (-9, "not-found")
    assert str(caught.value).startswith(str(tmp_path))
    with pytest.raises(stokehold.Error):
        stokehold.Loader()


def test_values(make, data):
    assert next(iter(make(data=pathlib.Path(data), image_size=(16, numpy.int64(24)))))[0].shape == (4, 3, 16, 24)
    assert next(iter(make(image_size="20x18")))[0].shape == (4, 3, 20, 18)
    assert make(augment=["hflip(p=1)", "rotate(degrees=-5..5)"], batch_size=numpy.int64(11), drop_last=True).memory.slots == 3
    _, masks = next(iter(make(label_map={0: 1, "*": 0})))
    assert set(numpy.unique(masks)) == {0, 1}


def test_texts():
    texts = _settings.texts({"drop_last": True, "seed": None, "size": [3, 4], "val_split": 0.25, "dtype": numpy.dtype("float16"),
                             "mask_dtype": "torch.int64", "label_map": {0: 0, 255: 1}})
    assert texts == {"drop_last": "true", "size": "3x4", "val_split": "0.25", "dtype": "f16", "mask_dtype": "i64",
                     "label_map": "0:0,255:1"}


def test_a_file_of_settings(make, tmp_path):
    file = tmp_path / "stoke.yaml"
    file.write_text("data:\n  batch: 3\n  size: 24\n  order: sequential\ntrain:\n  epochs: 7\n  lr: 0.001\n", encoding="utf-8")
    loader = make(config=file, batch_size=None, image_size=None, seed=4)
    assert loader.batch_size == 3 and next(iter(loader))[0].shape == (3, 3, 24, 24)
    assert loader.state_dict()["order"] == "sequential"
    assert make(config=str(file), order="shuffle").state_dict()["order"] == "shuffle"  # what is said goes before
    file.write_text("bach: 3\n", encoding="utf-8")
    with pytest.raises(stokehold.Error, match="stoke.yaml:1: .*batch"):
        make(config=file)
    with pytest.raises(stokehold.Error, match="missing.yaml"):
        make(config=tmp_path / "missing.yaml")


def test_torchrun(make, monkeypatch):
    whole = make(as_dict=True)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    second = make(as_dict=True)
    assert len(second) == 3
    iteration = iter(whole)
    next(iteration)
    assert next(iter(second))["names"] == next(iteration)["names"]
    assert len(make(rank=0, world=1)) == 6  # what is said counts


def test_local_ranks_share_the_cores(make, monkeypatch):
    def launch(rank, world):
        for name in ("RANK", "LOCAL_RANK"):
            monkeypatch.setenv(name, str(rank))
        for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
            monkeypatch.setenv(name, str(world))

    def here():
        loader = make(workers=None)
        remarks = [remark for remark in loader.remarks if "share this host" in remark]
        return _stoke.cores(), stokehold.Augment()._threads, loader.memory.workers, remarks  # pylint: disable=protected-access

    cores, threads, workers, remarks = alone = here()
    assert cores == threads == _stoke.machine()["usable"][0] and not remarks
    launch(0, 1)
    assert here() == alone
    parts = []
    for rank in range(2):
        launch(rank, 2)
        cores, threads, mine, remarks = here()
        assert cores == threads and mine <= workers and remarks[0].startswith("2 processes share this host's ")
        parts.append(cores)
    assert sum(parts) == max(alone[0], 2) and parts[0] - parts[1] in (0, 1)
    assert make(workers=3).memory.workers == 3 and stokehold.Augment(threads=3)._threads == 3  # what is said counts
    assert not [remark for remark in make(workers=3).remarks if "share this host" in remark]


def test_bad_files(make, tmp_path, monkeypatch, data):
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
        for file in (pathlib.Path(data) / kind).iterdir():
            (tmp_path / kind / file.name).write_bytes(file.read_bytes())
    (tmp_path / "images" / "000003.jpg").write_bytes(b"\xff\xd8 no picture")
    monkeypatch.chdir(tmp_path)
    loader = make(data=tmp_path, max_bad="2")
    rows = sum(len(images) for images, _ in loader)
    (bad,) = loader.bad_files()
    assert rows == 22 and bad.path.endswith("images/000003.jpg") and bad.status == "format" and bad.reason
    loader.close()
    assert loader.bad_files() == [bad] and loader.stats().replaced == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "masks"]  # no file was left there
    with pytest.raises(stokehold.BadSampleError, match="000003.jpg"):
        for _ in make(data=tmp_path, policy="stop"):
            pass
    with pytest.raises(stokehold.TooManyBadError):
        for _ in make(data=tmp_path, max_bad=0):
            pass


def test_the_docstring_lists_the_table():
    names = [option["name"] for option in _stoke.options()]
    lines = stokehold.Loader.__doc__.splitlines()
    assert [line.split(" : ")[0].strip() for line in lines if " : " in line] == names
    assert "    mask_dtype : auto|u8|u16|i32|i64, by default auto" in lines
    assert "--" not in stokehold.Loader.__doc__.partition("Settings")[2].replace("-" * 8, "")  # no flags of the command
    parameters = list(inspect.signature(stokehold.Loader).parameters)
    assert parameters[9:] == ["output", "as_dict", "channels_last", "to", "depth", "placement", "pin_memory", "non_blocking",
                              "config", "settings"]
    for name in parameters[:9]:
        assert name in names or _stoke.aliases()[name] in names
    for target in _stoke.aliases().values():
        assert target is None or target in names


def test_a_long_value_of_a_file_is_cut_in_a_letter(make, tmp_path):
    for shift in range(2):  # one of them ends between the two bytes of a letter
        config = tmp_path / f"{shift}.yaml"
        config.write_text(f"batch_size: {'x' * shift}{chr(0xe9) * 80}\nnum_workers: 1\n", encoding="utf-8")
        with pytest.warns(UserWarning, match="is not understood here"):
            make(config=config)
