# SPDX-License-Identifier: Apache-2.0
"""Saving the place in the middle of an epoch and going on from it."""
import copy
import json
import pickle

import pytest

import stokehold


def contents(iteration):
    return [(images.tobytes(), masks.tobytes()) for images, masks in iteration]


@pytest.fixture
def two_epochs(make):
    loader = make(augment="standard", seed=5)
    return contents(loader) + contents(loader)


@pytest.mark.parametrize("taken", [0, 1, 4, 5])
def test_resuming_gives_the_bytes_of_one_go(make, two_epochs, taken):
    first = make(augment="standard", seed=5)
    iteration = iter(first)
    for _ in range(taken):
        next(iteration)
    state = json.loads(json.dumps(first.state_dict()))
    second = make(augment="standard", seed=5, workers=1, prefetch=1)
    next(iter(second))  # where it stands does not matter
    second.load_state_dict(state)
    assert second.epoch == 0
    rest = contents(second)
    assert rest == two_epochs[taken:6]
    assert contents(second) == two_epochs[6:]
    assert contents(iteration) == rest  # saving did not disturb


def test_saved_at_the_end(make, two_epochs):
    first = make(augment="standard", seed=5)
    iteration = iter(first)
    for _ in range(6):
        next(iteration)
    before = first.state_dict()  # the loop has not seen the end yet
    assert next(iteration, None) is None
    after = first.state_dict()
    assert (before["epoch"], after["epoch"], after["position"]) == (0, 1, 0)
    second = make(augment="standard", seed=5)
    second.load_state_dict(before)
    assert contents(second) == [] and contents(second) == two_epochs[6:]
    second.load_state_dict(after)
    assert contents(second) == two_epochs[6:]


def test_naming_the_epoch_keeps_the_place(make, two_epochs):
    first = make(augment="standard", seed=5)
    for _ in first:
        pass
    iteration = iter(first)
    next(iteration), next(iteration)
    state = first.state_dict()
    second = make(augment="standard", seed=5)
    second.load_state_dict(state)
    second.set_epoch(1)  # as loops with a DistributedSampler do
    assert contents(second) == two_epochs[8:]
    second.load_state_dict(state)
    second.set_epoch(0)
    assert contents(second) == two_epochs[:6]


def test_ranks_may_change(make):
    one = make(as_dict=True)
    iteration = iter(one)
    seen = [i for _ in range(2) for i in next(iteration)["ids"].tolist()]
    ranks = [make(as_dict=True, rank=rank, world=2) for rank in range(2)]
    for loader in ranks:
        loader.load_state_dict(one.state_dict())
        seen += [i for batch in loader for i in batch["ids"].tolist()]
    assert set(seen) == set(range(22))


def test_a_state_of_something_else(make):
    state = make(seed=5).state_dict()
    with pytest.raises(stokehold.StateError, match="seed 5, this run has seed 6"):
        make(seed=6).load_state_dict(state)
    with pytest.raises(stokehold.StateError, match="order"):
        make(seed=5, shuffle=False).load_state_dict(state)
    with pytest.raises(stokehold.Error):
        make(seed=5).load_state_dict({"epoch": 1})


def test_loading_ends_an_iteration(make):
    loader = make()
    iteration = iter(loader)
    next(iteration)
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(stokehold.StateError, match="a state was loaded"):
        next(iteration)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_copies_are_new_loaders(make, two_epochs, again):
    loader = make(augment="standard", seed=5)
    next(iter(loader))
    other = again(loader)
    assert contents(other) == two_epochs[:6]
    other.close()
