# SPDX-License-Identifier: Apache-2.0
"""Loaders of pictures to be restored: images and targets."""
import pickle

import numpy
import pytest
from conftest import stoke

import stokehold


def restore(data, **settings):
    named = dict(scale=2, batch_size=4, output="numpy", quarantine="")
    return stokehold.Loader(data, **{**named, **settings})


def test_pairs(restoring):
    with restore(restoring, augment="crop", image_size=16) as loader:
        rows = 0
        for images, targets in loader:
            assert images.shape[1:] == (3, 16, 16) and targets.shape[1:] == (3, 32, 32)
            assert images.dtype == targets.dtype == numpy.float32 and len(images) == len(targets)
            assert 0 <= targets.min() < targets.max() <= 1
            rows += len(images)
    assert rows == 10


def test_targets_lie_over_their_images(restoring):
    """A set without noise: an image is the mean of four pixels of its target, wherever it was cut and mirrored."""
    folder = restoring + "-plain"
    stoke("synth", folder, "--task", "restore", "--degrade", "none", "--scale", 2, "--count", 6, "--size", "64")
    with restore(folder, augment="random_crop,hflip,vflip", image_size=16, dtype="uint8") as loader:
        for images, targets in loader:
            n = len(images)
            means = targets.reshape(n, 3, 16, 2, 16, 2).astype(float).mean(axis=(3, 5))
            assert numpy.abs(means - images).max() <= 0.5


def test_dicts(restoring):
    with restore(restoring, as_dict=True, augment="mixup,hflip") as loader:
        batch = next(iter(loader))
    assert sorted(batch) == ["ids", "images", "names", "targets"]  # mixup blends targets: there is nothing second
    assert len(batch["names"]) == 4


def test_mixup_needs_no_dict(restoring):
    with restore(restoring, augment="mixup(p=1),cutmix") as loader:
        images, targets = next(iter(loader))
    assert targets.shape == (4, 3, 40, 48)


def test_tensors(restoring, torch):
    with restore(restoring, output="torch", channels_last=True) as loader:
        images, targets = next(iter(loader))
    assert images.shape == (4, 3, 20, 24) and targets.shape == (4, 3, 40, 48)
    assert targets.is_contiguous(memory_format=torch.channels_last)
    torch.nn.functional.l1_loss(torch.nn.functional.interpolate(images, scale_factor=2), targets)


def test_the_bytes_of_the_command(restoring):
    printed = stoke("hash", restoring, "--scale", 2, "--batch", 4, "--augment", "strong", "--quiet").split()
    with restore(restoring, augment="strong") as loader:
        digests = []
        while (batch := loader._core.next()) is not None:
            assert batch.masks is None and batch.targets is not None
            digests.append(batch.digest())
    assert [text for text in printed if text in digests] == digests and len(digests) == 3


def test_folders_by_name(restoring):
    with stokehold.Loader(images=restoring + "/images", targets=restoring + "/targets", scale=2, output="numpy") as loader:
        assert next(iter(loader))[1].shape[2:] == (40, 48)
        again = pickle.loads(pickle.dumps(loader))
    with again:
        assert again.samples == 10


def test_colours_of_both(restoring):
    with restore(restoring, augment="brightness(p=1,factor=0.2..0.3)", order="sequential") as one, \
            restore(restoring, augment="brightness(p=1,factor=0.2..0.3)", order="sequential", photometric="both") as both:
        first, second = next(iter(one)), next(iter(both))
    assert numpy.array_equal(first[0], second[0])
    assert second[1].mean() < 0.4 * first[1].mean()


def test_pictures(restoring):
    with restore(restoring) as loader:
        assert loader.show(3).data.startswith(b"\x89PNG")


@pytest.mark.parametrize("settings, words", [
    (dict(scale=1), "`scale` 2 would fit"),
    (dict(scale=3), "has to be 60x72"),
    (dict(task="segment"), "scale"),
    (dict(to="host"), "targets"),
])
def test_what_does_not_fit_is_said(restoring, settings, words):
    with pytest.raises((stokehold.Error, ValueError), match=words):
        with restore(restoring, policy="stop", **settings) as loader:
            next(iter(loader))


def test_own_sets_have_no_targets():
    with pytest.raises(TypeError, match="targets: settings about files"):
        stokehold.Dataset([], targets="x")
