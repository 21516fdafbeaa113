# SPDX-License-Identifier: Apache-2.0
"""move_data_to_device: structures stay, tensors move, nothing of the argument changes."""
import collections
import dataclasses
import time
import types

import pytest

from stokehold import move_data_to_device


class Fake:
    """What a tensor is to move_data_to_device."""

    def __init__(self, device="cpu", how=None):
        self.device, self.how = device, how

    def to(self, device, non_blocking=False):
        return Fake(device, non_blocking)


class Own:
    def __init__(self, device="cpu"):
        self.device = device

    def to(self, device):
        return Own(device)


Pair = collections.namedtuple("Pair", "image mask")


@dataclasses.dataclass(frozen=True)
class Frozen:
    image: Fake
    name: str


@dataclasses.dataclass
class Checked:
    image: Fake

    def __post_init__(self):
        self.calls = getattr(self, "calls", 0) + 1


@dataclasses.dataclass
class Unset:
    __slots__ = ("image", "later")
    image: Fake
    later: Fake


class Slotted:
    __slots__ = ("x",)


def test_every_shape_is_gone_through():
    batch = {"a": [Fake(), (Fake(), "name", 3, None)], "b": Pair(Fake(), Own()), "c": Frozen(Fake(), "x"), "d": {1.5: Fake()}}
    moved = move_data_to_device(batch, "cuda:1")
    assert type(moved["a"][1]) is tuple and moved["a"][1][1:] == ("name", 3, None)
    assert isinstance(moved["b"], Pair) and isinstance(moved["c"], Frozen) and moved["c"].name == "x"
    for tensor in (moved["a"][0], moved["a"][1][0], moved["b"].image, moved["b"].mask, moved["c"].image, moved["d"][1.5]):
        assert tensor.device == "cuda:1"
    assert moved["a"][0].how is True and batch["a"][0].device == "cpu" and batch["c"].image.device == "cpu"


def test_blocking_when_asked_for():
    assert move_data_to_device(Fake(), "cuda", non_blocking=False).how is False


def test_kinds_of_mappings_are_kept():
    counted = collections.defaultdict(list, a=Fake())
    moved = move_data_to_device(counted, "cuda")
    assert type(moved) is collections.defaultdict and moved["nothing"] == [] and moved["a"].device == "cuda"
    assert "nothing" not in counted
    ordered = move_data_to_device(collections.OrderedDict([("z", Fake()), ("a", 1)]), "cuda")
    assert list(ordered) == ["z", "a"]
    assert move_data_to_device(types.MappingProxyType({"a": Fake()}), "cuda")["a"].device == "cuda"


def test_dataclasses_are_not_initialised_again():
    moved = move_data_to_device(Checked(Fake()), "cuda")
    assert moved.image.device == "cuda" and moved.calls == 1


def test_dataclasses_with_slots_and_fields_that_are_not_set():
    batch = Unset(Fake(), Fake())
    del batch.later
    moved = move_data_to_device(batch, "cuda")
    assert moved.image.device == "cuda" and not hasattr(moved, "later") and batch.image.device == "cpu"


def test_tuples_that_are_made_from_a_list_only():
    moment = time.struct_time(range(9))
    assert move_data_to_device([moment], "cuda") == [moment]


@pytest.mark.parametrize("thing", ["text", b"bytes", 3, 2.5, None, Slotted(), Fake, range(3)], ids=str)
def test_the_rest_is_passed_on(thing):
    assert move_data_to_device(thing, "cuda") is thing


def test_torch():
    torch = pytest.importorskip("torch")
    images = torch.ones(2, 3)
    largest = move_data_to_device(torch.max(images, 1), "meta")
    assert type(largest) is torch.return_types.max and largest.values.device.type == "meta"
    moved = move_data_to_device([{"image": images}], "meta")
    assert moved[0]["image"].device.type == "meta" and images.device.type == "cpu"
