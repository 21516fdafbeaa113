# SPDX-License-Identifier: Apache-2.0
"""pin_memory: from torch where it has CUDA, from the driver where there is one, else a warning; and no place is filled again while a
copy from it may run. No card is here: the driver is that of tests/fake, torch's CUDA is played."""
import ctypes
import gc
import warnings

import numpy
import pytest
from test_device import card  # noqa: F401

import stokehold
from stokehold import _pinning


def test_nothing_to_pin_with_is_said_once_and_why(make, monkeypatch):
    monkeypatch.setenv("STOKE_LIBCUDA", "/nowhere/libcuda.so.1")
    monkeypatch.setattr(_pinning, "_torch_with_cuda", lambda: None)
    with pytest.warns(UserWarning, match="pin_memory=True: nothing can be pinned here") as caught:
        loader = make(pin_memory=True)
    assert len(caught) == 1 and "conftest" in caught[0].filename  # where the loader was made
    assert not loader.pin_memory and sum(1 for _ in loader) == 6
    (remark,) = [remark for remark in loader.remarks if "pin_memory" in remark]
    assert "torch" in remark and "/nowhere/libcuda.so.1" in remark
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not make(pin_memory=False).pin_memory


def test_a_settings_file_asks_for_it(data, card, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setattr(_pinning, "_torch_with_cuda", lambda: None)
    file = tmp_path / "x.yaml"

    def pinned(text, **more):
        file.write_text(f"data_root: {data}\nimage_size: 32\nbatch_size: 4\n" + text)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it is used: nothing says that it is not
            with stokehold.Loader(config=file, output="numpy", **more) as loader:
                return loader.pin_memory

    assert pinned("loader:\n  pin_memory: true\n") and pinned("pin_memory: false\n", pin_memory=True)
    assert not pinned("pin_memory: true\n", pin_memory=False)
    with pytest.raises(UserWarning, match="not used here: val_loader.pin_memory"):  # of another loader
        pinned("val_loader:\n  pin_memory: true\n")


def test_the_drivers_memory(data, make, card, monkeypatch):  # noqa: F811
    monkeypatch.setattr(_pinning, "_torch_with_cuda", lambda: None)
    plain = [images.tobytes() for images, _ in make(augment="standard", seed=3)]
    loader = stokehold.Loader(data, batch_size=4, image_size=32, output="numpy", augment="standard", seed=3, pin_memory=True)
    assert loader.pin_memory and not loader.remarks
    assert card.control.contexts() == 1
    assert [images.tobytes() for images, _ in loader] == plain
    kept = next(iter(loader))[0]
    copy = kept.copy()
    loader.close()
    del loader
    gc.collect()
    assert (kept == copy).all() and card.control.contexts() == 1  # a batch outlives the loader
    del kept
    assert card.control.contexts() == 0  # and its memory goes with it, and the driver with the last


def test_no_room_in_the_drivers_memory(make, card, monkeypatch):  # noqa: F811
    monkeypatch.setattr(_pinning, "_torch_with_cuda", lambda: None)
    card.control.settings.contents.memory_bytes = 1000  # and that is where it would come from
    with pytest.raises(stokehold.NoMemoryError, match="pinned"):
        make(pin_memory=True)


# ---- torch's


class Event:
    """torch.cuda.Event: done when told so."""

    made = []

    def __init__(self):
        Event.made.append(self)
        self.recorded = self.done = False

    def record(self):
        self.recorded = True

    def query(self):
        return self.done

    def synchronize(self):
        self.done = True


@pytest.fixture
def cuda(torch, monkeypatch):
    """torch as it is with CUDA, as far as pinning goes: memory is ordinary, but it is asked for."""
    Event.made = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    empty, asked = torch.empty, []

    def pinned(*size, pin_memory=False, **others):
        if pin_memory:
            asked.append(size)
        return empty(*size, **others)

    monkeypatch.setattr(torch, "empty", pinned)
    return asked


def test_torchs_memory_and_no_place_used_before_its_copy_has_passed(make, cuda):
    plain = [images.numpy().copy() for images, _ in make(output="torch", augment="standard", seed=3)]
    loader = make(output="torch", augment="standard", seed=3, pin_memory=True, prefetch=1)
    assert loader.pin_memory and len(cuda) == loader.memory.slots == 2
    batches = iter(loader)
    images, masks = next(batches)
    address = images.data_ptr()
    bytes_then = images.numpy().tobytes()
    del images
    assert not Event.made  # the masks are still there
    del masks
    assert len(Event.made) == 1 and Event.made[0].recorded
    images, masks = next(batches)  # the second place; the first is not free
    assert images.data_ptr() != address and ctypes.string_at(address, len(bytes_then)) == bytes_then == plain[0].tobytes()
    Event.made[0].done = True
    del images, masks
    images, masks = next(batches)
    assert images.data_ptr() == address and (images.numpy() == plain[2]).all()


def test_all_places_behind_copies_are_waited_for(make, cuda):
    loader = make(output="torch", pin_memory=True, prefetch=1)
    for _ in range(2):
        for images, masks in loader:
            assert images.shape[1:] == (3, 32, 32)
            del images, masks
    assert len(Event.made) == 12 and sum(event.done for event in Event.made) >= 10


def test_what_torch_cannot_give_is_raised(make, cuda, torch, monkeypatch):
    def refuse(*size, **others):
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch, "empty", refuse)
    with pytest.raises(RuntimeError, match="CUDA error: out of memory"):
        make(output="torch", pin_memory=True)


def test_dataset(cuda):
    pictures = [(numpy.full((8, 8, 3), i, numpy.uint8), numpy.zeros((8, 8), numpy.uint8)) for i in range(6)]
    dataset = stokehold.Dataset(pictures, batch_size=2, output="torch", order="sequential", dtype="uint8", pin_memory=True, workers=1)
    found = []
    for images, _ in dataset:
        found += images[:, 0, 0, 0].tolist()
        del images, _
    assert found == [0, 1, 2, 3, 4, 5] and cuda and dataset.pin_memory
    dataset.close()


# ---- non_blocking


def test_non_blocking_has_its_place(make):
    with pytest.warns(UserWarning, match=r"images\.to\(device, non_blocking=True\)"):
        assert any("non_blocking" in remark for remark in make(non_blocking=True).remarks)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(to="host", non_blocking=True, pin_memory=True).pin_memory
        make(non_blocking=False)
