# SPDX-License-Identifier: Apache-2.0
"""What iterating gives: shapes, types, epochs, and the very bytes of the command."""
import dataclasses

import numpy
import pytest
from conftest import stoke

import stokehold
from stokehold.loader import short_of_room


def digests(loader):
    """Of the rest of the epoch."""
    result = []
    while (batch := loader._core.next()) is not None:
        result.append(batch.digest())
    return result


def test_arrays(make):
    loader = make()
    assert len(loader) == 6 and loader.samples == 22
    rows = 0
    for images, masks in loader:
        assert images.shape[1:] == (3, 32, 32) and images.dtype == numpy.float32
        assert masks.shape[1:] == (32, 32) and masks.dtype == numpy.uint8
        assert 0 <= images.min() < images.max() <= 1 and masks.max() < 6
        rows += len(images)
    assert rows == 22


def test_tensors(make, torch):
    images, masks = next(iter(make(output="torch", mask_dtype=torch.int64, dtype=torch.bfloat16)))
    assert images.dtype == torch.bfloat16 and masks.dtype == torch.int64
    assert images.shape == (4, 3, 32, 32) and images.is_contiguous()
    torch.nn.functional.cross_entropy(torch.zeros(4, 6, 32, 32), masks)


def test_torch_is_the_default_where_it_is(make, torch):
    assert isinstance(next(iter(make(output=None)))[0], torch.Tensor)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("mask_dtype", ["uint8", "uint16", "int32", "int64"])
def test_dtypes(make, dtype, mask_dtype):
    images, masks = next(iter(make(dtype=dtype, mask_dtype=getattr(numpy, mask_dtype), workers=0)))
    assert images.dtype == dtype and masks.dtype == mask_dtype


def test_channels_last(make, torch):
    plain, _ = next(iter(make(output="torch")))
    other, _ = next(iter(make(output="torch", channels_last=True)))
    assert other.shape == plain.shape and torch.equal(other, plain)
    assert other.is_contiguous(memory_format=torch.channels_last) and not other.is_contiguous()
    with pytest.raises(ValueError, match="leave out layout"):
        make(channels_last=True, layout="chw")


def test_layout_hwc(make):
    plain, _ = next(iter(make()))
    other, _ = next(iter(make(layout="hwc")))
    assert other.shape == (4, 32, 32, 3)
    assert (other.transpose(0, 3, 1, 2) == plain).all()


def test_dicts(make):
    batch = next(iter(make(as_dict=True, order="sequential", dtype="u8")))
    assert list(batch) == ["images", "masks", "ids", "names"]
    assert batch["ids"].tolist() == [0, 1, 2, 3] and batch["names"] == ["000000", "000001", "000002", "000003"]


def test_mixup(make):
    batch = next(iter(make(as_dict=True, augment="mixup(p=1)")))
    assert batch["lambda"].dtype == numpy.float32 and ((0 <= batch["lambda"]) & (batch["lambda"] <= 1)).all()
    assert (batch["masks_b"][1:] == batch["masks"][:-1]).all()  # mixed with the row before
    with pytest.raises(ValueError, match="as_dict=True"):
        make(augment="hflip,mixup")


def test_bytes_are_those_of_the_command(make, data):
    settings = ["--batch", "4", "--size", "32", "--augment", "standard", "--seed", "7"]
    lines = [line.split() for line in stoke("hash", data, *settings).splitlines()]
    expected = [word for line in lines for word in line if len(word) == 32 and int(word, 16) >= 0]
    for workers in (0, 3):
        found = digests(make(augment="standard", seed=7, workers=workers))
        assert found and found == expected[:len(found)] and len(found) == 6


def test_ranks_share_an_epoch(make):
    whole = digests(make(drop_last=True))
    parts = [digests(make(drop_last=True, rank=rank, world=2)) for rank in range(2)]
    assert [digest for pair in zip(*parts) for digest in pair] == whole[:4]


def test_every_iteration_is_another_epoch(make):
    loader = make(as_dict=True, augment="standard")
    orders = [[i for batch in loader for i in batch["ids"].tolist()] for _ in range(3)]
    assert [sorted(order) for order in orders] == [list(range(22))] * 3
    assert orders[0] != orders[1] != orders[2]
    loader.set_epoch(1)
    assert [i for batch in loader for i in batch["ids"].tolist()] == orders[1]
    for _ in loader:  # epoch 2, left in the middle
        loader.set_epoch(1)  # for the next one
        break
    assert loader.epoch == 2
    assert [i for batch in loader for i in batch["ids"].tolist()] == orders[1]
    next(iter(loader))
    next(iter(loader))
    assert loader.epoch == 3  # 2 and 3 were begun


def test_short_epochs_follow(make):
    loader = make(batch_size=22, prefetch=5, as_dict=True)  # one batch an epoch, several epochs ahead
    for epoch in range(4):
        (batch,) = loader
        (expected,) = make(batch_size=22, epoch=epoch, as_dict=True)
        assert batch["ids"].tolist() == expected["ids"].tolist() and (batch["images"] == expected["images"]).all()
        assert loader.epoch == epoch + 1


def test_an_old_iteration_is_over(make):
    loader = make()
    first = iter(loader)
    next(first)
    second = iter(loader)
    with pytest.raises(stokehold.StateError, match="Two passes"):
        next(first)
    assert len(list_of_shapes(second)) == 6
    assert next(second, None) is None  # and stays so


def list_of_shapes(iteration):
    return [images.shape for images, _ in iteration]


def test_without_masks(make, data):
    images, masks = next(iter(make(data=None, images=data + "/images")))
    assert masks.shape == (4, 32, 32) and not masks.any()


def test_stats_and_memory(make):
    loader = make(workers=1)
    before = loader.stats()
    assert before.held == 0 <= before.ready <= before.slots == 3
    assert before.batches == 0 and before.wait_share is None and before.samples_per_s is None and before.first_batch_ms is None
    for _ in loader:
        pass
    loader.close()
    stats = loader.stats()
    assert stats.samples == 22 and stats.batches == 6 and stats.seconds > 0 and 0 < stats.wait_share <= 1
    assert stats.samples_per_s == pytest.approx(22 / stats.seconds)
    assert stats.stages["decode image"].count >= 22 and stats.stages["decode image"].ms > 0
    assert stats.stages["batch wait"].count == 6
    plan = loader.memory
    assert plan.slots == 3 and plan.workers == 1 and not plan.prefetch_reduced
    assert plan.total_bytes == plan.slots * plan.slot_bytes + plan.worker_bytes + plan.cache_bytes + plan.fixed_bytes
    assert str(plan).startswith("ring 3 x")


def test_remarks(make):
    assert make().remarks == []
    assert any("batch" in line for line in make(batch_size=1, augment="cutmix").remarks)


def test_remark_about_batches_kept(make):
    loader = make()
    for _ in loader:
        pass
    calm = dataclasses.replace(loader.stats(), held=2, slots=3, seconds=10.0, wait_share=0.5)
    waits = {**calm.stages, "slot wait": stokehold.StageTime(wall_ms=4000.0, cpu_ms=0.0, count=9)}
    tight = dataclasses.replace(calm, stages=waits)
    assert "2 of 3 batches are held: workers had no room in 20% of the time" in short_of_room(tight, workers=2)
    # One is the loop's; a loop that does not wait wants nothing; nor does one whose workers hardly wait, or that has none.
    assert short_of_room(dataclasses.replace(tight, held=1), 2) is None
    assert short_of_room(dataclasses.replace(tight, wait_share=0.01), 2) is None
    assert short_of_room(tight, 40) is None
    assert short_of_room(tight, 0) is None
    assert short_of_room(dataclasses.replace(tight, wait_share=None, seconds=0.0), 2) is None
    assert loader.remarks == []


def test_masks_are_what_the_library_they_are_for_takes(make, torch, tmp_path):
    """cross_entropy takes int64 and nothing else; NumPy gets the smallest type."""
    images, masks = next(iter(make(output="torch", classes=6)))
    assert masks.dtype == torch.int64
    scores = torch.zeros(4, 6, 32, 32, requires_grad=True)
    torch.nn.functional.cross_entropy(scores, masks, ignore_index=255).backward()
    assert next(iter(make(output="numpy")))[1].dtype == numpy.uint8
    assert next(iter(make(output="torch", mask_dtype="uint8")))[1].dtype == torch.uint8
    assert next(iter(make(output="torch", mask_dtype="auto")))[1].dtype == torch.uint8
    (tmp_path / "stoke.yaml").write_text("mask_dtype: i32\n")  # a file goes before what is usual
    assert next(iter(make(output="torch", config=tmp_path / "stoke.yaml")))[1].dtype == torch.int32
    assert next(iter(make(output="torch", config=tmp_path / "stoke.yaml", mask_dtype="u8")))[1].dtype == torch.uint8
    pictures = [(numpy.zeros((8, 8, 3), numpy.uint8), numpy.zeros((8, 8), numpy.uint8))] * 4
    with stokehold.Dataset(pictures, batch_size=2, output="torch") as dataset:
        assert next(iter(dataset))[1].dtype == torch.int64
