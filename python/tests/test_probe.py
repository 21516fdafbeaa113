# SPDX-License-Identifier: Apache-2.0
"""The probe: what it sees of loaders, what it makes of that, and that it leaves no trace."""
import multiprocessing
import sys

import pytest
import stokehold
from stokehold import _stoke
from stokehold._device_clock import DeviceClock
from stokehold._making import Watch

MS = 1000 * 1000


def record(number, ready, asked, got, start, end, **more):
    making = {"decode": (7 * MS, 5 * MS, 1 * MS), "collate": (1 * MS, 1 * MS, 0)}
    return {"number": number, "samples": 4, "ready": ready * MS, "asked": asked * MS, "got": got * MS, "launched": start * MS,
            "start": start * MS, "end": end * MS, "making": making, **more}


def test_records_reach_the_library():
    records = [record(i, 10 * i + 6, 10 * i, 10 * i + 6, 10 * i + 6, 10 * i + 10) for i in range(1, 6)]
    found = _stoke.attribute(records, 1, "workers=1 by_batch=yes transfer=pinned sync=yes")
    causes = {name: ns for name, ns, _, _ in found["causes"]}
    assert found["steps"] == 4 and found["elapsed_ns"] == 40 * MS and found["busy_ns"] == 16 * MS
    # 24 ms of waiting by what making took: of 8 parts 5 decode, 1 collate, 1 without a core, 1 for files
    assert causes["decode"] == 15 * MS and causes["collate"] == causes["contention"] == causes["files"] == 3 * MS
    assert sum(causes.values()) == found["idle_ns"] == 24 * MS


def test_wrong_records_are_refused():
    good = record(0, 1, 1, 2, 2, 3)
    for wrong in ({**good, "nonsense": 1}, {**good, "making": {"decode": (1, 2)}}, 7, {**good, "samples": 1 << 40}):
        with pytest.raises((TypeError, OverflowError)):
            _stoke.attribute([good, wrong], 1, "")
    with pytest.raises(ValueError, match="magic"):
        _stoke.attribute([good, {**good, "making": {"magic": (1, 2, 3)}}], 1, "")
    with pytest.raises(stokehold.InvalidError, match="at least"):
        _stoke.attribute([good], 1, "")
    with pytest.raises(stokehold.InvalidError, match="workers"):
        _stoke.attribute([good, good], 1, "wrokers=2")


def test_any_iterable():
    batches = ["a", "b", "c", "d"]
    with stokehold.Probe() as probe:
        wrapped = probe.wrap(batches)
        assert len(wrapped) == 4 and list(wrapped) == batches and list(wrapped) == batches
    a = probe.attribution
    assert a.steps == 7 and sum(cause.ns for cause in a.causes) == a.idle_ns == a.elapsed_ns - a.busy_ns
    assert {cause.name for cause in a.causes if cause.ns} <= {"unknown", "host", "epoch start"}
    with pytest.raises(ValueError, match="no torch DataLoader"):
        probe.fixes
    assert "no torch DataLoader" in probe.report() and "= idle" in probe.report()
    # Where the time went is known, if not into which parts.
    assert not probe.sees_making and "next() made the batch" in probe.report() and "moment" not in probe.report()


def test_time_between_loops_does_not_count(monkeypatch):
    events, batches = FakeEvents(), [1, 2]  # the clock only
    monkeypatch.setattr("time.monotonic_ns", events.now)
    with stokehold.Probe() as probe:
        for _ in range(2):
            for _ in probe.wrap(batches):
                events.at += 2 * MS
            events.at += 1000 * MS
    a = probe.attribution
    assert a.elapsed_ns == a.busy_ns == 6 * MS and a.steps == 3


def test_a_loop_that_others_run(monkeypatch):
    events = FakeEvents()
    monkeypatch.setattr("time.monotonic_ns", events.now)
    probe = stokehold.Probe()
    for step in range(4):
        events.at += 1 * MS  # a wait; before the first step nobody asked
        if step == 2:
            probe.pause()
            events.at += 1000 * MS  # validation
            probe.pause()
            events.at += 500 * MS  # a checkpoint right behind it
            probe.resume()
            events.at += 1 * MS
        probe.step_begins()
        events.at += 3 * MS
        probe.step_ends()
    probe.step_ends()  # once too often: nothing is under way
    a = probe.attribution
    assert (a.steps, a.busy_ns, a.idle_ns) == (3, 9 * MS, 4 * MS)
    assert [record["got"] - record["asked"] for record in probe.records] == [0, 1 * MS, 2 * MS, 1 * MS]
    scalars = probe.scalars()
    assert scalars["busy"] == 9 / 13 and sum(value for name, value in scalars.items() if name.startswith("idle/")) == 4 / 13


def test_a_loop_that_is_left():
    with stokehold.Probe() as probe:
        for i in probe.wrap(range(10)):
            if i == 3:
                break
        with pytest.raises(KeyError):
            for i in probe.wrap(probe._loader):
                raise KeyError
    assert len(probe.records) == 5
    with pytest.raises(ValueError, match="one loader"):
        probe.wrap([])
    with pytest.raises(ValueError, match="two or more"):
        stokehold.Probe().attribution


def test_a_step_costs_the_same_after_many():
    """Counted in calls, not in time: no step does more than the first."""
    def calls(steps):
        count = 0

        def trace(frame, event, argument):
            nonlocal count
            count += event in ("call", "c_call")

        with stokehold.Probe(keep=64) as probe:
            sys.setprofile(trace)
            for _ in probe.wrap(range(steps)):
                pass
            sys.setprofile(None)
        assert len(probe.records) == min(steps, 64)
        return count

    few, more, many = calls(100), calls(200), calls(1200)
    assert many - more == 10 * (more - few)


class FakeEvents:
    """A card whose clock began elsewhere and runs 1 % fast; `at` is its host's clock in ns."""

    def __init__(self):
        self.at = 5 * MS
        self.queue = 0  # when everything that was put on the stream is done
        self.waits = 0

    def now(self):
        return self.at

    def run(self, ns):
        self.queue = max(self.queue, self.at) + ns

    def record(self):
        return max(self.queue, self.at)

    def synchronize(self):
        self.at = max(self.at, self.queue)
        self.waits += 1

    def elapsed_ms(self, first, second):
        return (second - first) * 1.01 / MS


def test_the_clock_of_a_card_is_mapped():
    events = FakeEvents()
    clock = DeviceClock(events, events.now)
    step = {}
    events.at += 3 * MS
    clock.mark(step, "start")
    events.run(20 * MS)
    clock.mark(step, "end")
    events.at += 100 * MS
    clock.settle()
    assert abs(step["start"] - 8 * MS) < 10 and abs(step["end"] - 28 * MS) < 10  # the drift is taken out


def test_steps_of_a_card(monkeypatch):
    events = FakeEvents()
    monkeypatch.setattr("time.monotonic_ns", events.now)
    monkeypatch.setattr("stokehold._device_clock.DeviceClock.__init__.__defaults__", (events.now,))

    class Model:
        def register_forward_pre_hook(self, hook):
            self.hook = hook
            return self

        def remove(self):
            self.hook = None

    def loader():
        for _ in range(250):
            events.at += 7 * MS  # a batch takes that long to come
            yield "batch"

    class Loader:
        def __iter__(self):
            return loader()

    model = Model()
    with stokehold.Probe(model, device="cuda:0", events=events) as probe:
        for _ in probe.wrap(Loader()):
            events.at += MS  # copied by the loop
            events.run(2 * MS)
            model.hook(model, ())
            events.run(3 * MS)
            events.synchronize()  # loss.item()
    assert model.hook is None
    a = probe.attribution
    causes = {cause.name: cause.ns / a.steps / MS for cause in a.causes}
    assert abs(a.busy_ns / a.steps / MS - 3) < 0.01 and abs(causes["unknown"] - 7) < 0.1
    assert abs(causes["copy"] - 3) < 0.01 and "sync=yes" in probe.setup and "pageable" in probe.setup
    assert "card" in probe.report()


class Squares:
    """A data set as torch has them, which some would write to."""

    def __init__(self, n=24):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        import torch
        return torch.full((3, 4, 4), float(index)), index * index


class Plain:
    """As much of a DataLoader as the probe looks at."""

    num_workers, prefetch_factor, collate_fn = 1, 2, list

    def __init__(self):
        self.dataset, self.batch_sampler, self.collate_fn = list("abcdef"), [[0, 1], [2, 3, 4]], sorted


def make_all(dataset, collate, batches):
    """What a worker does."""
    for indices in batches:
        collate(dataset.__getitems__(indices))


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_times_of_another_process(kind):
    loader = Plain()
    watch = Watch(loader)
    context = multiprocessing.get_context(kind)
    worker = context.Process(target=make_all, args=(loader.dataset, loader.collate_fn, list(loader.batch_sampler)))
    worker.start()
    worker.join(60)
    assert worker.exitcode == 0
    assert [watch.of(i)["samples"] for i in range(2)] == [2, 3] and watch.of(2) is None
    assert watch.of(0)["ready"] <= watch.of(1)["began"]
    watch.restore()
    assert loader.collate_fn is sorted and loader.batch_sampler == [[0, 1], [2, 3, 4]]


@pytest.mark.parametrize("kind", ["none", "fork"])
def test_a_torch_loader(torch, kind):
    from torch.utils.data import DataLoader
    workers = {} if kind == "none" else {"num_workers": 2, "multiprocessing_context": kind}
    dataset = Squares()
    loader = DataLoader(dataset, batch_size=4, persistent_workers=kind == "fork", **workers)
    expected = [(x.clone(), y.clone()) for x, y in DataLoader(dataset, batch_size=4)]
    parts = loader.dataset, loader.batch_sampler, loader.collate_fn
    with stokehold.Probe() as probe:
        for _ in range(2):
            seen = [(x, y) for x, y in probe.wrap(loader)]
            assert len(seen) == len(expected) == len(loader)
            assert all(torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(seen, expected))
        assert loader.dataset.n == dataset.n
        loader.dataset.n = dataset.n  # through to the user's own
    assert (loader.dataset, loader.batch_sampler, loader.collate_fn) == parts
    assert len(list(loader)) == len(expected)  # also by workers that live on
    records = probe.records
    assert all(set(r["making"]) == {"decode", "collate"} and r["samples"] == 4 for r in records)
    assert all(0 < r["began"] < r["ready"] <= r["got"] for r in records)
    begun = {r["epoch"]: r["asked"] for r in records if r["first_of_epoch"]}
    assert len(begun) == 2 and all(r["began"] >= begun[r["epoch"]] for r in records)  # each of its own batch
    assert all(wall >= 0 and cpu > 0 for r in records for wall, cpu, _ in r["making"].values())
    assert f"workers={workers.get('num_workers', 0)} " in probe.setup and "by_batch=yes" in probe.setup
    assert len(probe.fixes.fixes) == 7 and probe.fixes.together.step_ms > 0
    assert probe.what_if("workers=2 prefetch=4").step_ms > 0
    assert "what to change" in probe.report()


def test_what_a_probe_cannot_see_it_says(torch):
    from torch.utils.data import DataLoader, IterableDataset

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(8))

    with stokehold.Probe() as probe:
        assert len(list(probe.wrap(DataLoader(Stream(), batch_size=2)))) == 4
    assert any("IterableDataset" in remark for remark in probe.remarks)
