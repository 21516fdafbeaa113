# SPDX-License-Identifier: Apache-2.0
"""Real trainers of Lightning, for a few steps: its two packages, its checkpoints, its loggers."""
import dataclasses
import glob
import importlib
import importlib.util
import sys

import pytest

import stokehold

PACKAGES = ["lightning.pytorch", "pytorch_lightning"]


class Kit:
    """One of the packages, and stokehold.lightning as it is with that."""

    def __init__(self, pl, ours):
        self.pl, self.ours = pl, ours

    def data(self, folder, **settings):
        settings = {"batch_size": 4, "image_size": 32, "augment": "standard", "mask_dtype": "int64", "seed": 3, "val_split": 0.3,
                    "workers": 2, **settings}
        return self.ours.DataModule(folder, **settings)

    def fit(self, data, *, callbacks=(), ckpt=None, logger=False, **settings):
        """The model after a training: it knows what it was given."""
        import torch
        pl = self.pl

        class Model(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Conv2d(3, 6, 1)
                self.seen, self.validated = [], []

            def training_step(self, batch, index):
                images, masks = batch
                self.seen.append((self.current_epoch, index, images.double().sum().item()))
                return torch.nn.functional.cross_entropy(self.net(images), masks, ignore_index=255)

            def validation_step(self, batch, index):
                self.validated.append(batch[0].double().sum().item())

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)

        model = Model()
        settings = {"max_epochs": 3, "num_sanity_val_steps": 0, **settings}
        trainer = pl.Trainer(accelerator="cpu", devices=1, callbacks=list(callbacks), logger=logger, enable_progress_bar=False,
                             enable_model_summary=False, enable_checkpointing=bool(callbacks), **settings)
        trainer.fit(model, ckpt_path=ckpt, **data if isinstance(data, dict) else {"datamodule": data})
        return model


@pytest.fixture(scope="module")
def sharding(torch):
    """torch.distributed._shard of torch 1.13 has defaults that Python 3.11 refuses as mutable; they are let through for the import."""
    if torch.__version__ >= "2" or not torch.distributed.is_available():
        return
    plain = dataclasses.dataclass

    def hashable(kind=None, **settings):
        if kind is None:
            return lambda kind: hashable(kind, **settings)
        made = plain(kind, **settings)
        made.__hash__ = made.__hash__ or object.__hash__
        return made

    dataclasses.dataclass = hashable
    try:
        importlib.import_module("torch.distributed._shard")
    finally:
        dataclasses.dataclass = plain


@pytest.fixture(params=PACKAGES)
def kit(request, sharding, monkeypatch):
    pl = pytest.importorskip(request.param)
    for name in PACKAGES:
        if name != request.param:
            monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delitem(sys.modules, "stokehold.lightning", raising=False)
    return Kit(pl, importlib.import_module("stokehold.lightning"))


@pytest.fixture
def one_kit(sharding):
    """Of whichever is there."""
    name = next((name for name in PACKAGES if importlib.util.find_spec(name.partition(".")[0])), None)
    if name is None:
        pytest.skip("Lightning is not installed")
    return Kit(importlib.import_module(name), importlib.import_module("stokehold.lightning"))


pytestmark = pytest.mark.filterwarnings("ignore")  # of Lightning: few workers, no GPU, small logging interval


def test_resuming_from_any_checkpoint(kit, data, tmp_path):
    save = kit.pl.callbacks.ModelCheckpoint
    every = [save(str(tmp_path), every_n_train_steps=1, save_top_k=-1, filename="{step}"),
             save(str(tmp_path), every_n_epochs=1, save_on_train_epoch_end=True, save_top_k=-1, filename="end-{epoch}")]
    whole = kit.fit(kit.data(data), callbacks=every).seen
    assert [step[:2] for step in whole] == [(epoch, i) for epoch in range(3) for i in range(3)]
    left = {"step=1": 8, "step=2": 7, "step=3": 6, "step=5": 4, "step=6": 3, "end-epoch=0": 6, "end-epoch=1": 3}
    for name, steps in left.items():
        rest = kit.fit(kit.data(data, workers=1, prefetch=1), ckpt=str(tmp_path / (name + ".ckpt"))).seen
        # The number of a batch after a resume in the middle of an epoch is Lightning's own: 2.2 counts from 0, newer ones go on.
        assert [(epoch, sum_) for epoch, _, sum_ in rest] == [(epoch, sum_) for epoch, _, sum_ in whole[-steps:]], name


def test_epochs_that_are_cut_short(one_kit, data, tmp_path):
    save = one_kit.pl.callbacks.ModelCheckpoint(str(tmp_path), every_n_epochs=1, save_on_train_epoch_end=True, save_top_k=-1,
                                                filename="{epoch}")
    whole = one_kit.fit(one_kit.data(data), callbacks=[save], limit_train_batches=2).seen
    full = one_kit.fit(one_kit.data(data)).seen
    assert whole == [step for step in full if step[1] < 2]  # every epoch from its first batch
    rest = one_kit.fit(one_kit.data(data), ckpt=str(tmp_path / "epoch=0.ckpt"), limit_train_batches=2).seen
    assert rest == whole[2:]


def test_validation_is_the_other_part_every_time(kit, data):
    module = kit.data(data)
    model = kit.fit(module, num_sanity_val_steps=1)
    one = (len(model.validated) - 1) // 3
    passes = [model.validated[1 + i * one:1 + (i + 1) * one] for i in range(3)]
    assert passes[0] == passes[1] == passes[2] and model.validated[0] == passes[0][0]
    with stokehold.Loader(data, split="val", val_split=0.3, batch_size=4, image_size=32, order="sequential", output="torch") as loader:
        assert [images.double().sum().item() for images, _ in loader] == passes[0]
    assert module.train_dataloader().samples + loader.samples == 22
    module.teardown("fit")


def test_a_set_without_validation(one_kit, data):
    model = one_kit.fit(one_kit.data(data, val_split=0.0), max_epochs=1)
    assert len(model.seen) == 6 and model.validated == []
    model = one_kit.fit(one_kit.data(data, val_split=0.0, val={"data": data, "batch_size": 11}), max_epochs=1)
    assert len(model.validated) == 2
    with pytest.raises(stokehold.NotFoundError):
        one_kit.fit(one_kit.data(data, val_split=0.0, val={"data": data + "/nothing"}), max_epochs=1)
    with pytest.raises(TypeError, match="val_split"):
        one_kit.data(data, split="train")


def test_the_seed_of_all(one_kit, data, monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "3")  # restored afterwards, whatever seed_everything sets
    one_kit.pl.seed_everything(9)
    by_all = one_kit.fit(one_kit.data(data, seed=None), max_epochs=1).seen
    assert by_all == one_kit.fit(one_kit.data(data, seed=9), max_epochs=1).seen
    assert by_all != one_kit.fit(one_kit.data(data, seed=3), max_epochs=1).seen


def test_ranks_are_those_of_the_strategy(one_kit, data):
    trainer = one_kit.pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False)
    shares = []
    for rank in (1, 0):  # in the end what it was
        trainer.strategy.cluster_environment.set_global_rank(rank)
        module = one_kit.data(data, val_split=0.0, as_dict=True)
        module.trainer = trainer
        shares.append([i for batch in module.train_dataloader() for i in batch["ids"].tolist()])
        module.teardown("fit")
    assert sorted(shares[0] + shares[1]) == list(range(22)) and len(shares[1]) == 12


def test_a_checkpoint_after_the_end(one_kit, data, tmp_path):
    module = one_kit.data(data)
    one_kit.fit(module, max_epochs=1)
    assert module.state_dict()["train"]["position"] > 0  # its threads are gone
    later = one_kit.data(data)
    later.load_state_dict(module.state_dict())
    later.teardown("validate")
    assert len(list(later.train_dataloader())) == 3  # what was loaded to validate is no place to train from
    later.teardown("fit")


@pytest.mark.parametrize("whose", ["ours", "torch"])
def test_what_is_logged(kit, data, torch, tmp_path, whose):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    logger = kit.pl.loggers.TensorBoardLogger(str(tmp_path))
    monitor = kit.ours.FeedMonitor(every_n_steps=2)
    source = kit.data(data)
    if whose == "torch":
        samples = [(torch.rand(3, 8, 8), torch.zeros(8, 8, dtype=torch.int64)) for _ in range(12)]
        source = {"train_dataloaders": torch.utils.data.DataLoader(samples, batch_size=4)}
    kit.fit(source, callbacks=[monitor], logger=logger)
    (folder,) = glob.glob(str(tmp_path / "*" / "*"))
    events = reader.EventAccumulator(folder)
    events.Reload()
    names = ["feed/busy", "feed/wait"] + ["feed/samples_per_s"] * (whose == "ours")
    for name in names:
        assert [event.step for event in events.Scalars(name)] == [3, 5, 7, 9], name
    assert [name for name in events.Tags()["scalars"] if name.startswith("feed/")] and set(names) <= set(events.Tags()["scalars"])
    for busy, wait in zip(events.Scalars("feed/busy"), events.Scalars("feed/wait")):
        assert 0 < busy.value < 1 and 0 <= wait.value and busy.value + wait.value < 1.001
    assert sum(cause.ns for cause in monitor.probe.attribution.causes) == monitor.probe.attribution.idle_ns


def test_monitor_refuses_nonsense(one_kit):
    with pytest.raises(ValueError, match="1 or more"):
        one_kit.ours.FeedMonitor(every_n_steps=0)


def test_without_lightning(monkeypatch):
    for name in [*PACKAGES, "stokehold.lightning"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install lightning"):
        importlib.import_module("stokehold.lightning")
