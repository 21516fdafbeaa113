# SPDX-License-Identifier: Apache-2.0
"""Beside the packages that others use: torchdata's protocol, webdataset's shards, TensorBoard's files."""
import glob
import io
import json

import numpy
import pytest
from conftest import stoke

import stokehold


class Numbers:
    """Sample i of the small set, for a DataLoader: nothing but its number."""

    def __len__(self):
        return 22

    def __getitem__(self, i):
        return i


def ids(batch):
    return (batch["ids"] if isinstance(batch, dict) else batch).tolist()


@pytest.fixture(params=["ours", "torchdata"])
def sequential(request, make):
    """Makers of loaders that give 0 to 21 in batches of 4, ours and the one whose protocol it is."""
    if request.param == "ours":
        return lambda: make(as_dict=True, order="sequential")
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    return lambda: stateful.StatefulDataLoader(Numbers(), batch_size=4)


@pytest.mark.parametrize("taken", [0, 1, 3, 6, 7])  # 6: all, before the loop has seen the end; 7: after it
@pytest.mark.filterwarnings("ignore:'set_vital'")
def test_the_protocol_of_stateful_loaders(sequential, taken):
    whole = [list(range(i, min(i + 4, 22))) for i in range(0, 22, 4)]
    first = sequential()
    iteration = iter(first)
    seen = [ids(batch) for batch in (next(iteration, None) for _ in range(taken)) if batch is not None]
    assert seen == whole[:taken]
    state = first.state_dict()
    assert isinstance(state, dict)
    second = sequential()
    second.load_state_dict(state)
    assert [ids(batch) for batch in second] == (whole if taken == 7 else whole[taken:])
    assert [ids(batch) for batch in second] == whole
    assert len(second) == 6


def test_a_state_is_plain(make):
    """What a checkpoint may hold that is loaded with weights_only, or written as JSON."""
    state = make().state_dict()
    assert json.loads(json.dumps(state)) == state


def test_shards_are_those_of_webdataset(torch, data, tmp_path):
    webdataset = pytest.importorskip("webdataset")
    image = pytest.importorskip("PIL.Image")
    stoke("pack", data, "--out", tmp_path / "shards")
    shards = sorted(glob.glob(str(tmp_path / "shards" / "*.tar")))
    theirs = {}
    for sample in webdataset.WebDataset(shards, shardshuffle=False):
        picture = next(sample[kind] for kind in ("jpg", "png", "webp") if kind in sample)
        theirs[sample["__key__"]] = tuple(numpy.asarray(image.open(io.BytesIO(file))) for file in (picture, sample["mask.png"]))
    with stokehold.Loader(str(tmp_path / "shards"), batch_size=4, output="numpy", dtype="uint8", layout="hwc", as_dict=True) as loader:
        ours = {name: (picture.copy(), mask.copy()) for batch in loader
                for name, picture, mask in zip(batch["names"], batch["images"], batch["masks"])}
    assert sorted(ours) == sorted(theirs) and len(ours) == 22
    for name, (picture, mask) in ours.items():
        assert (picture == theirs[name][0]).all() and (mask == theirs[name][1]).all(), name


def test_tensorboard_reads_what_a_probe_tells(torch, make, tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with stokehold.Probe() as probe, tensorboard.SummaryWriter(str(tmp_path)) as writer:
        for step, _ in enumerate(probe.wrap(make(output="torch"))):
            if step > 1:  # two steps are done
                for name, value in probe.scalars().items():
                    writer.add_scalar("feed/" + name, value, step)
    events = reader.EventAccumulator(str(tmp_path))
    events.Reload()
    tags = events.Tags()["scalars"]
    assert {"feed/busy", "feed/input"} < set(tags)
    idle = sum(events.Scalars(tag)[-1].value for tag in tags if tag.startswith("feed/idle/"))
    busy = events.Scalars("feed/busy")
    assert [event.step for event in busy] == [2, 3, 4, 5] and busy[-1].value + idle == pytest.approx(1, abs=1e-5)
