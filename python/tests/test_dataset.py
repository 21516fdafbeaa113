# SPDX-License-Identifier: Apache-2.0
"""Dataset: a Python data set as a source gives what the loader gives from the files."""
import copy
import gc
import threading

import pytest

import stokehold
from conftest import not_sanitized


class Pairs:
    """Arrays, in the form that is asked for."""

    def __init__(self, images, masks, form=lambda image, mask: (image, mask)):
        self.images, self.masks, self.form = images, masks, form
        self.asked = []

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        self.asked.append(i)
        return self.form(self.images[i], self.masks[i])


class Faulty(Pairs):
    """Samples 3 and 7 cannot be read."""

    def __getitem__(self, i):
        if i in (3, 7):
            raise OSError(f"no sample {i}")
        return super().__getitem__(i)


@pytest.fixture(scope="module")
def pixels(data):
    with stokehold.Loader(data, batch_size=22, order="sequential", augment="none", dtype="u8", layout="hwc", output="numpy") as loader:
        images, masks = next(iter(loader))
        return images.copy(), masks.copy()


@pytest.fixture
def own(pixels):
    made = []

    def dataset(source=None, **settings):
        settings = {"batch_size": 4, "image_size": 32, "output": "numpy", "workers": 2, **settings}
        made.append(stokehold.Dataset(Pairs(*pixels) if source is None else source, **settings))
        return made[-1]

    yield dataset
    for one in made:
        one.close()


def digests(loader):
    """Of the rest of the epoch: ids and all bytes."""
    result = []
    while (batch := loader._core.next()) is not None:
        result.append(batch.digest())
    return result


@pytest.mark.parametrize("settings", [
    {"augment": "standard", "seed": 3},
    {"augment": "hflip,cutmix", "epoch": 2, "drop_last": True},
    {"augment": "random_crop", "order": "sequential", "dtype": "u8", "layout": "hwc"},
    {"augment": "hflip,mixup", "as_dict": True, "rank": 1, "world": 3},
    {"augment": "light", "rank": 2, "world": 3, "batch_size": 5},
], ids=str)
@pytest.mark.parametrize("workers", [0, 3])
def test_bytes_are_the_loaders(make, own, settings, workers):
    expected, found = make(**settings), own(workers=workers, **settings)
    assert len(expected) == len(found)
    assert digests(found) == digests(expected)


def test_iterating_and_epochs(make, own):
    expected, found = make(augment="standard", as_dict=True), own(augment="standard", as_dict=True)
    for epoch in range(2):
        assert found.epoch == epoch
        batches = list(found)
        assert len(batches) == 6 and [batch["names"][0] for batch in batches] == [str(batch["ids"][0]) for batch in batches]
        for a, b in zip(expected, batches):
            assert a["ids"].tolist() == b["ids"].tolist() and (a["images"] == b["images"]).all() and (a["masks"] == b["masks"]).all()
    assert found.stats().samples == 44
    found.set_epoch(1)
    again = next(iter(found))
    expected.set_epoch(1)
    assert (again["images"] == next(iter(expected))["images"]).all()


@pytest.mark.parametrize("form", [
    lambda image, mask: {"image": image, "mask": mask},
    lambda image, mask: {"pixel_values": image, "labels": mask.astype("i4")},
    lambda image, mask: [image.transpose(2, 0, 1), mask[None]],
    lambda image, mask: (image, mask, "name"),
], ids=["dict", "hugging face", "channels first", "triple"])
def test_forms(own, pixels, form):
    plain = next(iter(own(augment="standard")))
    other = next(iter(own(Pairs(*pixels, form), augment="standard")))
    assert (plain[0] == other[0]).all() and (plain[1] == other[1]).all()


def test_other_forms(own, pixels, torch):
    plain = next(iter(own(augment="standard")))
    tensors = Pairs(*pixels, lambda image, mask: {"x": (torch.from_numpy(image).permute(2, 0, 1), torch.from_numpy(mask).long())})
    with pytest.raises(TypeError, match="which is the image"):
        next(iter(own(tensors)))
    images, masks = next(iter(own(tensors, sample=lambda s: s["x"], augment="standard", output="torch", mask_dtype="int64")))
    assert (images.numpy() == plain[0]).all() and masks.dtype == torch.int64 and (masks.numpy() == plain[1]).all()
    alone = next(iter(own(Pairs(*pixels, lambda image, mask: image), augment="standard")))
    assert (alone[0] == plain[0]).all() and set(alone[1].flat) == {0, 255}  # class 0, and ignore where the picture was turned


def test_size_of_the_first_sample(own):
    assert next(iter(own(image_size=None)))[0].shape == (4, 3, 40, 48)


def test_state(own):
    first = own(augment="standard")
    walk = iter(first)
    next(walk), next(walk)
    state = first.state_dict()
    assert state["position"] == 8
    rest = [images.copy() for images, _ in walk]
    second = own(augment="standard", workers=0)
    second.load_state_dict(state)
    resumed = [images.copy() for images, _ in second]
    assert len(resumed) == len(rest) == 4 and all((a == b).all() for a, b in zip(rest, resumed))
    assert second.epoch == 1 and first.state_dict() == second.state_dict()
    with pytest.raises(stokehold.StateError, match="seed was 0, here it is 1"):
        own(seed=1).load_state_dict(state)


def test_errors_of_the_data_set(own, pixels):
    dataset = own(Faulty(*pixels))
    with pytest.raises(OSError, match="no sample [37]"):
        for _ in dataset:
            pass
    with pytest.raises(OSError):  # and stays so until told otherwise
        dataset._core.next()
    dataset.set_epoch(1)
    with pytest.raises(OSError):
        list(dataset)


def test_bad_samples_are_replaced(own, pixels):
    dataset = own(Faulty(*pixels), policy="replace", max_bad=2, as_dict=True)
    ids = [number for batch in dataset for number in batch["ids"].tolist()]
    assert len(ids) == 22 and not {3, 7} & set(ids)
    stats = dataset.stats()
    assert stats.bad_samples == 2 and stats.replaced == 2
    assert sorted(bad.path for bad in dataset.bad_samples()) == ["3", "7"]
    with pytest.raises(stokehold.TooManyBadError, match="max_bad allows 1"):
        list(own(Faulty(*pixels), policy="replace", max_bad=1))


def test_stats(own):
    dataset = own(workers=1)
    assert dataset.stats().samples_per_s is None and dataset.stats().first_batch_ms is None
    list(dataset)
    stats = dataset.stats()
    assert stats.samples == 22 and stats.batches == 6 and stats.samples_per_s > 0 and stats.memory_bytes is None
    assert stats.stages["read"].count >= 22 and stats.stages["write"].ms > 0 and stats.stages["batch wait"].count == 6


def test_batches_stay_and_places_are_used_again(own):
    dataset = own(prefetch=1)
    kept = [images for images, _ in dataset]
    assert dataset.stats().held >= 6
    copies = [images.copy() for images in kept]
    list(dataset)
    assert all((a == b).all() for a, b in zip(kept, copies))
    dataset.close()
    del dataset
    assert all((a == b).all() for a, b in zip(kept, copies))


def test_threads_end(own, pixels):
    def ours():
        return [thread for thread in threading.enumerate() if thread.name == "stokehold-rows"]

    dataset = stokehold.Dataset(Pairs(*pixels), batch_size=4, output="numpy", workers=2)
    next(iter(dataset))
    assert len(ours()) == 2
    del dataset
    gc.collect()
    assert not ours()
    with own() as dataset:
        next(iter(dataset))
    with pytest.raises(stokehold.StateError, match="closed"):
        next(iter(dataset))


def test_copies(own):
    dataset = own(augment="standard", seed=9)
    with copy.copy(dataset) as other:  # what pickling makes for another process
        assert repr(other) == repr(dataset) and digests(other) == digests(dataset)


@not_sanitized
def test_fork(program):
    child = program("""
    import numpy, os, stokehold
    class Black:
        def __len__(self): return 8
        def __getitem__(self, i): return numpy.zeros((8, 8, 3), "u1")
    dataset = stokehold.Dataset(Black(), batch_size=4, output="numpy", workers=2)
    augment = stokehold.Augment("standard", threads=2)
    pictures = numpy.zeros((4, 8, 8, 3), "u1")
    augment(pictures)
    walk = iter(dataset)
    next(walk)
    child = os.fork()
    if not child:
        assert augment(pictures).shape == pictures.shape  # goes on, with threads of its own
        try:
            next(walk)
        except stokehold.StateError as error:
            os._exit(0 if "every process" in str(error) else 1)
        os._exit(2)
    print(os.waitpid(child, 0)[1], len(next(walk)[0]))
    """)
    assert child.end()[:2] == (0, "0 4\n")


def test_exit_without_closing(program):
    child = program("""
    import numpy, signal, stokehold, time
    class Slow:
        def __len__(self): return 4000
        def __getitem__(self, i):
            time.sleep(0.02)
            return numpy.zeros((8, 8, 3), "u1")
    dataset = stokehold.Dataset(Slow(), batch_size=2000, output="numpy", workers=2)
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        next(iter(dataset))
    except KeyboardInterrupt:
        print("interrupted")
    """)
    assert child.end() == (0, "interrupted\n", "")


@pytest.mark.parametrize("settings, error", [
    ({"data": "x"}, "settings about files"),
    ({"order": "balanced"}, "needs files"),
    ({"policy": "skip"}, "policy skip is for files"),
    ({"augment": "mixup"}, "as_dict=True"),
    ({"bach_size": 3}, "did you mean batch_size"),
    ({"source": []}, "empty"),
])
def test_mistakes(own, settings, error):
    with pytest.raises((TypeError, ValueError), match=error):
        own(**settings)


def test_messages_are_text(tmp_path):
    """An exception's text ends in a terminal or a log: names of files cannot speak there."""
    folder = tmp_path / "e\033[31m\nforged\u009b2J\u202ex"
    with pytest.raises(stokehold.Error) as caught:
        stokehold.Loader(str(folder), size=32, batch_size=2)
    assert "e\\x1b[31m\\nforged\\u009b2J\\u202ex" in str(caught.value)
    assert not set(str(caught.value)) & set("\033\n\u009b\u202e")
