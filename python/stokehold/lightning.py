# SPDX-License-Identifier: Apache-2.0
"""For Lightning: the batches of a training as a DataModule, and a callback that logs how well the training is fed.

    import lightning
    import stokehold.lightning

    data = stokehold.lightning.DataModule("data", batch_size=16, image_size=512, augment="standard", val_split=0.1)
    trainer = lightning.Trainer(callbacks=[stokehold.lightning.FeedMonitor()])
    trainer.fit(model, datamodule=data)

It goes with `lightning` and with `pytorch_lightning`: with the one that the program has imported, if both are installed.
"""
import importlib
import importlib.util
import os
import sys
from typing import Any, Dict, Iterator, List, Mapping, Optional

from ._batches import Batches
from ._errors import NotFoundError, StateError
from .loader import Loader
from .probe import Probe

__all__ = ["DataModule", "FeedMonitor"]

_NAMES = ("lightning.pytorch", "pytorch_lightning")  # the same classes twice; one's trainer knows nothing of the other's


def _find() -> Any:
    for name in _NAMES:
        if name in sys.modules:
            return sys.modules[name]
    for name in _NAMES:
        if importlib.util.find_spec(name.partition(".")[0]):
            return importlib.import_module(name)
    raise ImportError("stokehold.lightning needs Lightning: pip install lightning (or pytorch_lightning)")


_lightning: Any = _find()


class _TrainLoader(Loader):
    """A loader whose epochs are the trainer's.

    Lightning makes an iterator before it tells the sampler which epoch it is for, and does not go on to the end of an iterator when
    it knows the length. So an iteration begins with its first batch, in the epoch that was named last: a state from the end of an
    epoch, which Lightning calls the next one, gives all of that.
    """

    _last: Optional[Dict[str, Any]] = None  # the state after closing: a checkpoint may be asked for when the training is over

    @property
    def sampler(self) -> "_TrainLoader":
        """What Lightning calls set_epoch of."""
        return self

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()

    def state_dict(self) -> Dict[str, Any]:
        return super().state_dict() if self._last is None else self._last

    def close(self) -> None:
        if self._last is None:
            try:
                self._last = super().state_dict()
            except StateError:  # a child of fork has no place to tell
                pass
        super().close()


class _WholeSet:
    """All batches of a loader from the first, every time. A checkpoint does not remember how far a validation was."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        yield from self.loader  # begins with the first batch: Lightning makes iterators that it does not use

    def __len__(self) -> int:
        return len(self.loader)


class DataModule(_lightning.LightningDataModule):  # type: ignore[misc]
    """Training and validation batches from one set.

        DataModule("data", batch_size=16, image_size=512, augment="standard", val_split=0.1)

    Settings are those of `stokehold.Loader`. Training takes the set's own train folder, or what `val_split` leaves; validation the
    val folder or that share, in order and without augmentation. A set that has neither is for training alone.

    Ranks are those of the trainer's strategy, the seed is the one of `seed_everything` unless `seed` is given, and epochs are the
    trainer's. A checkpoint in the middle of an epoch has the place in it: `trainer.fit(..., ckpt_path=...)` goes on with the batch
    after, whatever the number of workers or ranks is then.

    Parameters
    ----------
    data
        As in `stokehold.Loader`.
    val
        Settings of validation where they differ, e.g. ``{"batch_size": 1}``; ``{"data": "other"}`` takes another set, all of it.
    settings
        Of the loader, except `split`.
    """

    def __init__(self, data: Any = None, *, val: Optional[Mapping[str, Any]] = None, **settings: Any) -> None:
        super().__init__()
        if "split" in settings:
            raise TypeError("split: training and validation are split by val_split, or by the set's own folders")
        self.settings = {name: value for name, value in dict(settings, data=data).items() if value is not None}
        self.val: Dict[str, Any] = dict(val or {})
        self._train: Optional[_TrainLoader] = None
        self._validation: Optional[Loader] = None
        self._state: Optional[Dict[str, Any]] = None

    def _place(self) -> Dict[str, Any]:
        """Which of how many processes this is, and the seed that all of them share."""
        place: Dict[str, Any] = {}
        kwargs = getattr(self.trainer, "distributed_sampler_kwargs", None) if self.trainer is not None else None
        if kwargs:
            place.update(rank=kwargs["rank"], world=kwargs["num_replicas"])
        if os.environ.get("PL_GLOBAL_SEED"):
            place["seed"] = int(os.environ["PL_GLOBAL_SEED"])
        return place

    def train_dataloader(self) -> Loader:
        """A loader that goes on from a checkpoint's place, if one was loaded."""
        self._close(self._train)
        self._train = _TrainLoader(**{**self._place(), **self.settings, "split": "train"})
        if self._state is not None:
            self._train.load_state_dict(self._state)
            self._state = None
        return self._train

    def _val_settings(self) -> Dict[str, Any]:
        inherited = dict(self.settings, split="val", augment="none", order="sequential", drop_last=False)
        inherited.pop("shuffle", None)
        if any(name in self.val for name in ("data", "images", "list")):
            for name in ("data", "images", "masks", "targets", "list", "val_split"):
                inherited.pop(name, None)
            inherited["split"] = "all"
        return {**self._place(), **inherited, **self.val}

    def val_dataloader(self) -> Any:
        """Batches of validation; none where the set has no part for it."""
        own = bool(self.val) or bool(self.settings.get("val_split"))
        self._close(self._validation)
        self._validation = None
        try:
            self._validation = Loader(**self._val_settings())
        except NotFoundError:
            if own:
                raise
            return []
        return _WholeSet(self._validation)

    def state_dict(self) -> Dict[str, Any]:
        """The place in the training set; Lightning puts it into checkpoints."""
        return {} if self._train is None else {"train": self._train.state_dict()}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """The next training loader goes on from there."""
        self._state = state_dict.get("train")

    def teardown(self, stage: str) -> None:
        """Ends the threads. A place that was loaded for anything but a training is forgotten."""
        self._close(self._train)
        self._close(self._validation)
        if stage != "fit":
            self._state = None

    @staticmethod
    def _close(loader: Optional[Loader]) -> None:
        if loader is not None:
            loader.close()


def _ours(loaders: Any) -> List[Batches]:
    """Those of ours among what a trainer has as its loaders: one, or a list or dict of them."""
    if isinstance(loaders, Batches):
        return [loaders]
    if isinstance(loaders, Mapping):
        loaders = list(loaders.values())
    return [loader for item in loaders for loader in _ours(item)] if isinstance(loaders, (list, tuple)) else []


class FeedMonitor(_lightning.Callback):  # type: ignore[misc]
    """Logs how well a training is fed: feed/busy, the share of time in steps, and feed/wait, the share spent waiting for a batch.

        Trainer(callbacks=[stokehold.lightning.FeedMonitor()])

    Every figure is over the steps since the one before, validation and checkpoints left out. On CUDA busy is what events on the
    stream say. For loaders of ours wait is what they measured themselves, and feed/samples_per_s is logged too; for others it is the
    time between two steps, in which Lightning's own work hides (a fraction of a millisecond). `probe` has the rest.

    every_n_steps : how often; as the trainer's log_every_n_steps without it.
    """

    def __init__(self, every_n_steps: Optional[int] = None) -> None:
        super().__init__()
        if every_n_steps is not None and every_n_steps < 1:
            raise ValueError("every_n_steps is 1 or more")
        self.every_n_steps = every_n_steps
        self.probe: Optional[Probe] = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._every = self.every_n_steps or trainer.log_every_n_steps or 50
        self.probe = Probe(device=pl_module.device, keep=self._every + 1)
        self._steps = 0
        self._waited = self._samples = None

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self.probe.resume()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.probe.pause()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self.probe is not None:
            self.probe.pause()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        if self.probe is not None:  # Lightning saves behind all other callbacks: what follows is the writing
            self.probe.pause()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.probe.step_begins()
        if self._waited is None:  # what the first batch took is start-up, not a share of the steps
            self._waited, self._samples = self._sums(trainer)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.probe.step_ends()
        self._steps += 1
        if self._steps > 1 and (self._steps - 1) % self._every == 0:
            values = self._values(trainer)
            for logger in trainer.loggers:
                logger.log_metrics(values, step=trainer.global_step)

    @staticmethod
    def _sums(trainer: Any) -> Any:
        stats = [loader.stats() for loader in _ours(trainer.train_dataloader)]
        return sum(one.stages["batch wait"].wall_ms for one in stats), sum(one.samples for one in stats)

    def _values(self, trainer: Any) -> Dict[str, float]:
        scalars = self.probe.scalars()
        seconds = self.probe.attribution.elapsed_ns / 1e9
        values = {"feed/busy": scalars["busy"], "feed/wait": scalars["input"]}
        if _ours(trainer.train_dataloader):
            waited, samples = self._sums(trainer)
            values["feed/wait"] = min(1.0, (waited - self._waited) / 1e3 / seconds)
            values["feed/samples_per_s"] = (samples - self._samples) / seconds
            self._waited, self._samples = waited, samples
        return values
