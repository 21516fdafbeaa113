# SPDX-License-Identifier: Apache-2.0
"""Who holds a batch keeps its bytes; nothing is copied on the way; nothing is left behind."""
import gc
import threading

import numpy
import pytest

import stokehold


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def test_nothing_is_copied(make, torch):
    loader = make(output="torch")
    seen = set()
    for _ in range(12):
        batch = loader._core.next() or loader._core.set_epoch(1) or loader._core.next()
        images, masks = torch.from_dlpack(batch.images), torch.from_dlpack(batch.masks)
        assert images.data_ptr() == batch.images.ptr == numpy.asarray(batch.images).__array_interface__["data"][0]
        assert masks.data_ptr() == batch.masks.ptr
        assert images.data_ptr() % 64 == 0 and masks.data_ptr() % 64 == 0
        seen.add(images.data_ptr())
    assert len(seen) <= 3  # the slots of the ring, again and again


class Described:
    """An array of which NumPy sees the dict only."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("settings", [{}, {"channels_last": True}, {"dtype": "u8", "mask_dtype": "u8"}, {"dtype": "f16"},
                                      {"mask_dtype": "i32"}])
def test_numpy_sees_the_same_by_struct_and_by_dict(make, settings):
    images, masks = next(iter(make(output="dlpack", **settings)))
    for array in (images, masks):
        by_struct, by_dict = numpy.asarray(array), numpy.asarray(Described(array))
        assert by_struct.base[0] is array and by_dict.base.array is array  # each came its own way, and holds the batch
        assert by_struct.flags.writeable
        assert (by_struct.dtype, by_struct.shape, by_struct.strides) == (by_dict.dtype, by_dict.shape, by_dict.strides)
        assert by_struct.dtype.name == array.dtype
        assert by_struct.ctypes.data == by_dict.ctypes.data == array.ptr


def test_numpy_is_told_why_not(make):
    images, _ = next(iter(make(output="dlpack", dtype="bf16")))
    for name in ("__array_struct__", "__array_interface__"):
        with pytest.raises(TypeError, match="bfloat16"):
            getattr(images, name)


def test_what_is_held_is_not_overwritten(make):
    loader = make(prefetch=5, augment="standard", epoch=3)
    held, copies = [], []
    for images, masks in loader:
        if len(held) < 3:
            held.append((images, masks))
            copies.append((images.copy(), masks.copy()))
    for _ in range(3):
        for _ in loader:
            pass
    for kept, copied in zip(held, copies):
        assert (kept[0] == copied[0]).all() and (kept[1] == copied[1]).all()


@pytest.mark.parametrize("keep", ["images", "masks", "ids"])
def test_one_array_holds_the_whole_batch(make, keep):
    loader = make(as_dict=True)
    kept = next(iter(loader))[keep]
    assert loader.stats().held == 1
    del kept
    assert loader.stats().held == 0


def test_views_of_views_hold_it_too(make, torch):
    loader = make(output="torch")
    part = next(iter(loader))[0][1, 2].numpy()[3:5]
    gc.collect()
    assert loader.stats().held == 1
    del part
    assert loader.stats().held == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_holding_everything_is_reported(make, workers):
    loader = make(workers=workers)
    with pytest.raises(stokehold.StarvedError, match="all 3 batches are held.*raise prefetch") as caught:
        list(loader)
    assert caught.value.status == "starved" and isinstance(caught.value, RuntimeError)
    del caught
    iteration = iter(loader)
    held = [next(iteration) for _ in range(3)]
    with pytest.raises(stokehold.StarvedError):
        next(iteration)
    del held[0]
    assert len(next(iteration)) == 2  # nothing was lost


def test_batches_outlive_the_loader(make):
    with make(as_dict=True) as loader:
        batch = next(iter(loader))
        copy = batch["images"].copy()
    assert (batch["images"] == copy).all() and len(batch["names"]) == 4 and batch["ids"].sum() > 0
    with pytest.raises(stokehold.StateError, match="closed"):
        next(iter(loader))
    assert loader.stats().held == 1
    del loader
    gc.collect()
    assert (batch["images"] == copy).all()


def test_other_threads_let_go(make):
    loader = make(prefetch=6)
    boxes = []
    lock = threading.Lock()

    def eat():
        while True:
            with lock:
                if not boxes:
                    return
                boxes.pop()

    for _ in range(5):
        iteration = iter(loader)
        for _ in range(6):
            boxes.append(next(iteration))
        threads = [threading.Thread(target=eat) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert loader.stats().held == 0


def test_ten_thousand_batches_leave_nothing_behind(make, torch):
    loader = make(output="torch", batch_size=1, image_size=16, decode="fast", cache_ram="64M", as_dict=True)

    def run(batches):
        while batches > 0:
            for _ in loader:
                batches -= 1

    run(2000)
    gc.collect()
    before, allocations = resident_bytes(), loader.stats().heap_allocations
    run(10000)
    gc.collect()
    assert resident_bytes() - before < 2 << 20  # 200 bytes a batch
    assert loader.stats().heap_allocations == allocations


def test_many_loaders_leave_nothing_behind(make, data):
    def run(times):
        for _ in range(times):
            with stokehold.Loader(data, batch_size=4, image_size=32, output="numpy", workers=1) as loader:
                kept = next(iter(loader))
            del loader, kept

    run(20)
    before = resident_bytes()
    run(200)
    assert resident_bytes() - before < 4 << 20
