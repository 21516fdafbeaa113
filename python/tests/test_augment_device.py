# SPDX-License-Identifier: Apache-2.0
"""Augment in somebody's own loop, in place of a module of torch: batches where they lie, with the bytes of the host.

OpenCL is PoCL, which really computes; CUDA is the driver of tests/fake, and torch's CUDA tensors are played by a class that has their
addresses, since no torch here knows that driver."""
import copy
import ctypes
import pickle
import sys
import types
import warnings

import numpy
import pytest
from test_device import card, opencl, send  # noqa: F401

import stokehold
from stokehold import Augment, _device_augment, ops

LIST = "hflip,rotate(p=1,degrees=20),color_jitter(p=1),gaussian_blur(p=0.5),gaussian_noise(p=0.5)"


def host_bytes(images, masks, augment=LIST, **settings):
    made = Augment(augment, seed=3, **settings)
    return [part.tobytes() for part in made(images.numpy(), masks.numpy(), epoch=2, position=8)]


# ---- a module of torch


def test_it_is_used_like_a_module(torch):
    augment = Augment("hflip(p=1)", seed=1)
    assert augment.to("cpu") is augment and augment.to(torch.device("cuda", 0), non_blocking=True) is augment and augment.cuda() is augment
    assert list(augment.parameters()) == [] and augment.training and augment.requires_grad_(False) is augment
    images, masks = torch.rand(2, 3, 8, 8), torch.arange(128).reshape(2, 8, 8) % 5
    flipped, turned = augment(images, masks)
    assert torch.equal(turned, masks.flip(-1)) and flipped.shape == images.shape and turned.dtype == torch.int64
    assert augment.eval() is augment and not augment.training
    same, kept = augment(images, masks)
    assert torch.equal(kept, masks) and (same - images).abs().max() < 1e-4
    assert torch.equal(augment.train().forward(images, masks, position=0)[1], turned)
    assert augment.position == 4 and not pickle.loads(pickle.dumps(augment.eval())).training


def test_it_is_a_module(torch):
    images = torch.rand(2, 3, 8, 8)
    augment = Augment("hflip(p=1)", seed=1)
    network = torch.nn.Sequential(augment, torch.nn.Conv2d(3, 2, 1))
    assert isinstance(augment, torch.nn.Module) and isinstance(augment, Augment) and type(augment).__name__ == "Augment"
    assert torch.allclose(network(images), network[1](images.flip(-1)), atol=1e-3)
    assert list(network.state_dict()) == ["1.weight", "1.bias"] and not augment.state_dict()
    network.load_state_dict(network.state_dict())
    assert network.to("cpu") is network and network.eval() is network and not augment.training
    assert network.train() is network and augment.training and augment in list(network.modules())
    seen = []
    augment.register_forward_hook(lambda module, given, result: seen.append(result.shape))
    network(images)
    assert seen == [images.shape] and "hflip" in repr(network)


def test_copies_of_a_module_go_on_from_where_it_is(torch):
    images = torch.rand(2, 3, 8, 8)
    augment = torch.nn.Sequential(Augment("rotate(degrees=-40..40,p=1)", seed=1))
    augment(images)
    copies = [copy.deepcopy(augment), pickle.loads(pickle.dumps(augment))]
    wanted = augment(images)
    for other in copies:
        assert other[0] is not augment[0] and torch.equal(other(images), wanted) and isinstance(other[0], torch.nn.Module)


class Augmented:
    """A data set that augments in its workers."""

    def __init__(self, images, augment):
        self.images, self.augment = images, augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.augment(self.images[index], position=index)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_data_loader_have_it(torch, start):
    images = torch.rand(4, 3, 8, 8)
    augment = Augment("rotate(degrees=-40..40,p=1)", seed=1)
    wanted = augment(images)
    loader = torch.utils.data.DataLoader(Augmented(images, augment), batch_size=4, num_workers=1, multiprocessing_context=start)
    assert torch.equal(next(iter(loader)), wanted)


def test_torch_is_not_imported_and_may_come_later(program):
    child = program("""
        import sys
        from stokehold import Augment
        augment = Augment("hflip(p=1)").eval()
        assert "torch" not in sys.modules and type(augment) is Augment and isinstance(augment, Augment)
        try:
            augment.register_buffer
        except AttributeError as error:
            assert "register_buffer" in str(error)
        sys.path += sys.argv[1:]
        try:
            import torch
        except ImportError:
            print("no torch")
            sys.exit()
        other = Augment("hflip(p=1)")
        network = torch.nn.Sequential(augment, other)
        assert not augment.training and other.training and list(augment.parameters()) == []
        images = torch.rand(1, 3, 4, 4)
        assert (network(images) - images.flip(-1)).abs().max() < 1e-4
        print("a module")
    """, *[folder for folder in sys.path if "packages" in folder])
    code, out, err = child.end()
    assert code == 0, err
    if "no torch" in out:
        pytest.skip("torch is not installed")
    assert "a module" in out


def test_eval_keeps_the_normalisation():
    augment = Augment([ops.RandomHorizontalFlip(p=1.0), ops.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))], dtype="f32").eval()
    images = numpy.full((1, 4, 4, 3), 255, numpy.uint8)
    assert numpy.allclose(augment(images), 2.0)


# ---- arrays of ours


@pytest.mark.parametrize("to", ["opencl", "cuda"])
@pytest.mark.parametrize("settings", [{}, {"dtype": "u8", "normalize": "none"}, {"channels_last": True}])
def test_arrays_on_a_device(send, opencl, card, to, settings):  # noqa: F811
    try:
        loader = send(to=to, mask_dtype="i64", classes=6, **settings)
    except stokehold.DeviceError as error:
        pytest.skip(str(error))
    images, masks = next(iter(loader))
    augment = Augment(LIST, seed=3)
    for _ in range(5):  # the turns come round
        done, ids = augment(images, masks, epoch=2, position=8)
    assert done.__dlpack_device__() == images.__dlpack_device__() and done.shape == images.shape and done.strides == images.strides
    layout = {"layout": "hwc"} if settings.get("channels_last") else {}
    plain = numpy.ascontiguousarray(images.numpy().transpose(0, 2, 3, 1) if layout else images.numpy())
    wanted = Augment(LIST, seed=3, **layout)(plain, masks.numpy(), epoch=2, position=8)
    got = done.numpy().transpose(0, 2, 3, 1) if layout else done.numpy()
    assert (got == wanted[0]).all() and (ids.numpy() == wanted[1]).all() and ids.dtype == "int64"
    loader.close()  # results stay, and can be augmented again
    twice, _ = augment(done, ids, epoch=2, position=8)
    assert twice.numpy().shape == images.shape and (done.numpy() == done.cpu().numpy()).all()
    alone = augment(images, epoch=2, position=8)
    assert (alone.numpy() == done.numpy()).all()
    del images, masks, done, ids, twice, _, alone, augment


def test_arrays_of_two_loaders(send, opencl):  # noqa: F811
    """Memory of OpenCL means something to the loader's own context only: one Augment serves both."""
    try:
        loaders = [send(to="opencl", mask_dtype="i64", classes=6) for _ in range(2)]
    except stokehold.DeviceError as error:
        pytest.skip(str(error))
    augment = Augment(LIST, seed=3)
    for loader in loaders * 2:
        images, masks = next(iter(loader))
        done, ids = augment(images, masks, epoch=2, position=8)
        wanted = Augment(LIST, seed=3)(images.numpy(), masks.numpy(), epoch=2, position=8)
        assert (done.numpy() == wanted[0]).all() and (ids.numpy() == wanted[1]).all()
    one, two = ([*next(iter(loader))] for loader in loaders)
    rows = next(iter(augment._there._rows.values()))
    assert rows.run_arrays(*one, 0, 0, False)[0].shape == one[0].shape
    with pytest.raises(ValueError, match="another device"):
        rows.run_arrays(*two, 0, 0, False)


def test_mixup_and_the_counter(send, opencl):  # noqa: F811
    try:
        loader = send(to="opencl", mask_dtype="i64", classes=6)
    except stokehold.DeviceError as error:
        pytest.skip(str(error))
    images, masks = next(iter(loader))
    with pytest.raises(ValueError, match="as_dict=True"):
        Augment("mixup(p=1)")(images, masks)
    augment, host = (Augment("hflip,mixup(p=1,alpha=1)", seed=4, as_dict=True) for _ in range(2))
    found, wanted = augment(images, masks), host(images.numpy(), masks.numpy())
    assert augment.position == host.position == 4
    for name in ("images", "masks", "masks_b"):
        assert (found[name].numpy() == wanted[name]).all()
    assert numpy.allclose(found["lambda"], wanted["lambda"])


def test_what_only_the_host_can_goes_there_and_back(send, opencl):  # noqa: F811
    try:
        loader = send(to="opencl", mask_dtype="i64", classes=6)
    except stokehold.DeviceError as error:
        pytest.skip(str(error))
    images, masks = next(iter(loader))
    for augment in ("strong", "foreground_crop"):
        made = Augment(augment, seed=3)
        with pytest.warns(UserWarning, match="go to the host and back") as caught:
            first = made(images, masks, epoch=2, position=8)
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            second = made(images, masks, epoch=2, position=8)
        assert [part.tobytes() for part in first] == host_bytes(images, masks, augment) == [part.tobytes() for part in second]


# ---- torch's tensors


class Tensor:
    """A tensor on the card of tests/fake."""

    requires_grad = False

    def __init__(self, card, shape, dtype, values=None):  # noqa: F811
        self.card, self.shape, self.dtype = card, tuple(shape), f"torch.{dtype}"
        self.numpy_type = numpy.dtype(dtype)
        self.nbytes = int(numpy.prod(shape)) * self.numpy_type.itemsize
        self.device = types.SimpleNamespace(type="cuda", index=0)
        self.recorded = []
        card.enter()
        self.address = ctypes.c_uint64()
        card.call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(self.nbytes))
        if values is not None:
            card.call("cuMemcpyHtoD_v2" if hasattr(card.library, "cuMemcpyHtoD_v2") else "cuMemcpyHtoDAsync_v2", self.address,
                      values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(self.nbytes), *([] if hasattr(card.library, "cuMemcpyHtoD_v2")
                                                                                               else [None]))
            card.call("cuCtxSynchronize")

    def data_ptr(self):
        return self.address.value

    ptr = property(data_ptr)

    def detach(self):
        return self

    contiguous = detach

    def record_stream(self, stream):
        self.recorded.append(stream)

    def free(self):
        self.card.call("cuMemFree_v2", self.address)


Tensor.__module__ = "torch"  # whose it is


def test_tensors_of_torch_on_its_current_stream(card, monkeypatch):  # noqa: F811
    """The kernels go on the stream that is current, nobody waits, and the bytes are the host's."""
    images = numpy.random.default_rng(1).random((3, 3, 20, 28), numpy.float32)
    masks = numpy.random.default_rng(2).integers(0, 6, (3, 20, 28))
    stream = types.SimpleNamespace(cuda_stream=card.stream())
    made = []

    def empty(shape, dtype, device):
        made.append(Tensor(card, shape, dtype))
        return made[-1]

    fake = types.SimpleNamespace(empty=empty, float32="float32", int64="int64", tensor=list,
                                 cuda=types.SimpleNamespace(current_stream=lambda device: stream))
    monkeypatch.setattr(_device_augment, "importlib", types.SimpleNamespace(import_module=lambda name: fake))
    near = Tensor(card, images.shape, "float32", images), Tensor(card, masks.shape, "int64", masks)
    augment = Augment(LIST, seed=3).to("cuda")
    results = augment(*near, epoch=2, position=8)
    snaps = [card.snap(result, stream.cuda_stream) for result in results]  # behind it on the same stream
    card.finish(stream.cuda_stream)
    wanted = Augment(LIST, seed=3)(images, masks, epoch=2, position=8)
    assert card.read(snaps[0]) == wanted[0].tobytes() and card.read(snaps[1]) == wanted[1].tobytes()
    assert near[0].recorded == [stream] and near[1].recorded == [stream]
    with pytest.raises(ValueError, match="bring both to one device"):
        augment(near[0], masks)
    del augment
    for tensor in (*near, *made):
        tensor.free()


def test_other_devices_are_refused(torch):
    with pytest.raises(ValueError, match="lies on meta"):
        Augment("hflip")(torch.zeros(1, 3, 4, 4, device="meta"))
