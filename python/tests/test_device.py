# SPDX-License-Identifier: Apache-2.0
"""Loader(to=...): the bytes of the host loader on a device, in order with the consumer's streams, for as long as somebody holds them.

No card is here: CUDA is the driver of tests/fake, which is as late as it may be and writes down what is wrong. OpenCL is PoCL.
"""
import ctypes
import gc
import os
import subprocess
import sys
import threading

import card as cards
import numpy
import pytest
from test_dlpack import Managed, take
from test_ownership import resident_bytes

import stokehold
from stokehold import _device

# Everything at once: mixed rows, second masks, short last batch.
SETTINGS = {"augment": "strong,mixup(p=0.6)", "as_dict": True, "mask_dtype": "i64", "seed": 5}


@pytest.fixture
def card(monkeypatch):
    found = cards.files()
    if not found:
        pytest.skip("STOKE_TEST_CUDA and STOKE_TEST_NVRTC do not name the libraries of tests/fake")
    monkeypatch.setenv("STOKE_LIBCUDA", found[0])
    monkeypatch.setenv("STOKE_LIBNVRTC", found[1])
    one = cards.Card(found[0])
    yield one
    gc.collect()
    assert one.end() == (b"", b"", 0, 0)


@pytest.fixture
def send(data, request):
    """Loaders that send batches away; `card` goes after them."""
    if "card" in request.fixturenames:
        request.getfixturevalue("card")
    made = []

    def loader(**settings):
        settings = {"data": data, "batch_size": 4, "image_size": 32, "output": "dlpack", "workers": 2, **settings}
        made.append(stokehold.Loader(**settings))
        return made[-1]

    yield loader
    for one in made:
        one.close()
    made.clear()


@pytest.fixture
def opencl(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def host_batches(make, epochs=2, **settings):
    """(images, masks) of the loader that stays on the host, as bytes."""
    with make(**{**SETTINGS, **settings}) as loader:
        return [{name: batch[name].tobytes() for name in ("images", "masks", "masks_b", "lambda", "ids")} for _ in range(epochs)
                for batch in loader]


def on_host(batch):
    return {name: batch[name].numpy().tobytes() for name in ("images", "masks", "masks_b", "lambda", "ids")}


# ---- bytes

@pytest.mark.parametrize("placement", ["host", "device"])
@pytest.mark.parametrize("to", ["cuda", "host"])
def test_bytes_are_those_of_the_host(make, send, card, to, placement):
    expected = host_batches(make)
    loader = send(to=to, placement=placement, **SETTINGS)
    assert loader.placement == f"{placement}: as asked for"
    assert loader.device == ("cuda:0" if to == "cuda" else "host")
    got = [on_host(batch) for _ in range(2) for batch in loader]
    assert got == expected


@pytest.mark.parametrize("placement", ["host", "device"])
def test_opencl(make, send, opencl, placement):
    try:
        loader = send(to="opencl", output=None, placement=placement, **SETTINGS)
    except stokehold.DeviceError as error:
        pytest.skip(str(error))
    batch = next(iter(loader))
    images = batch["images"]
    assert images.__dlpack_device__() == (4, 0) and repr(images).endswith("on opencl>")
    assert batch["ids"].__dlpack_device__() == (1, 0)
    pointer, struct = take(images.__dlpack__(), Managed, b"dltensor")
    assert (struct.tensor.device_type, struct.tensor.device_id, struct.tensor.data) == (4, 0, images.ptr)
    struct.deleter(pointer)
    with pytest.raises(TypeError, match="numpy.*copy"):
        numpy.asarray(images)
    copy = images.numpy()
    assert on_host(batch) == host_batches(make)[0] and copy.tobytes() == on_host(batch)["images"]
    loader.close()  # and it can still be read
    assert (images.cpu().numpy() == copy).all()


def test_channels_last_and_other_types(make, send, card):
    settings = {"channels_last": True, "dtype": "u8", "normalize": "none"}
    with make(output="dlpack", **settings) as host:
        expected = next(iter(host))[0].numpy()
    images, masks = next(iter(send(to="cuda", **settings)))
    assert images.shape == (4, 3, 32, 32) and images.strides == (32 * 32 * 3, 1, 32 * 3, 3)
    assert (images.numpy() == expected).all() and images.numpy().strides == expected.strides


def test_digests_are_the_commands(make, send, card):
    with make() as host:
        expected = [batch.digest() for batch in iter(host._core.next, None)]
    loader = send(to="cuda")
    assert [batch.digest() for batch in iter(loader._core.next, None)] == expected


# ---- order

@pytest.mark.parametrize("placement", ["host", "device"])
def test_streams_are_in_order_without_a_wait(make, send, card, placement):
    """Two streams use each batch after it was let go of on the host; nobody waits until the end."""
    expected = host_batches(make)
    streams = [card.stream(), card.stream()]
    loader = send(to="cuda:0", depth=1, placement=placement, **SETTINGS)
    snaps = []
    for _ in range(2):
        for batch in loader:
            parts = {}
            for i, name in enumerate(("images", "masks", "masks_b")):
                pointer, struct = take(batch[name].__dlpack__(stream=streams[i % 2]), Managed, b"dltensor")
                assert (struct.tensor.device_type, struct.tensor.device_id) == (2, 0)
                parts[name] = card.snap(batch[name], streams[i % 2])
                struct.deleter(pointer)
            snaps.append(parts)
    for stream in reversed(streams):
        card.finish(stream)
    assert [{name: card.read(snap) for name, snap in parts.items()} for parts in snaps] == \
        [{name: batch[name] for name in ("images", "masks", "masks_b")} for batch in expected]


def test_the_default_stream_and_none(make, send, card):
    expected = host_batches(make)
    card.enter()
    loader = send(to="cuda", **SETTINGS)
    for at, batch in enumerate(loader):
        images = batch["images"]
        capsule = images.__dlpack__(stream=(None, 1, -1)[at % 3])
        snap = card.snap(images, None)
        card.finish(None)
        assert card.read(snap) == expected[at]["images"]
        del capsule
    for stream, words in ((0, "no stream has this number"), (2, "per-thread"), (-7, "no stream has this number")):
        with pytest.raises(BufferError, match=words):
            images.__dlpack__(stream=stream)
    with pytest.raises(TypeError):
        images.__dlpack__(stream="fast")


def test_torch_gets_its_current_stream(make, send, card, torch, monkeypatch):
    """All but the last step, which a torch without CUDA cannot make."""
    expected = host_batches(make)
    stream, taken = card.stream(), []
    monkeypatch.setattr(stokehold._device, "torch_stream", lambda index: stream)
    monkeypatch.setattr(torch, "from_dlpack", lambda capsule: taken.append(take(capsule, Managed, b"dltensor")) or taken[-1])
    loader = send(to=torch.device("cuda", 0), output="torch")
    batch = next(iter(loader))
    assert [struct.tensor.device_type for _, struct in batch] == [2, 2]
    for pointer, struct in taken:
        struct.deleter(pointer)
    assert loader.stats().held == 0 and len(expected) == 12


def test_torch_without_cuda_is_told(send, card, torch):
    if torch.cuda.is_available():
        pytest.skip("this torch has CUDA")
    with pytest.raises(stokehold.DeviceError, match="torch cannot use cuda:0 .*output='dlpack'"):
        send(to="cuda", output="torch")


def test_dlpack_copies_to_the_host_on_request(send, card):
    images, _ = next(iter(send(to="cuda")))
    pointer, struct = take(images.__dlpack__(dl_device=(1, 0)), Managed, b"dltensor")
    assert struct.tensor.device_type == 1
    assert ctypes.string_at(struct.tensor.data, images.nbytes) == images.numpy().tobytes()
    struct.deleter(pointer)
    for wrong in ({"dl_device": (2, 1)}, {"copy": True}, {"dl_device": (1, 0), "copy": False}):
        with pytest.raises(BufferError, match="nothing on another device"):
            images.__dlpack__(**wrong)


# ---- who holds

def test_what_is_held_is_not_overwritten(send, card):
    loader = send(to="cuda", depth=4)
    iteration = iter(loader)
    held = [next(iteration) for _ in range(3)]
    before = [(images.ptr, images.numpy().tobytes()) for images, _ in held]
    seen = {images.ptr for _ in range(3) for images, _ in loader}
    assert [(images.ptr, images.numpy().tobytes()) for images, _ in held] == before
    assert not seen & {ptr for ptr, _ in before} and len(seen) <= 2
    assert loader.stats().held == 3


def test_holding_everything_is_reported(send, card):
    loader = send(to="cuda", depth=2)
    iteration = iter(loader)
    held = [next(iteration) for _ in range(3)]
    with pytest.raises(stokehold.StarvedError, match="all 3 batches on cuda:0 are held.*raise depth"):
        next(iteration)
    del held[1]
    assert len(next(iteration)) == 2  # nothing was lost
    assert loader.stats().held == 2 and loader.stats().slots == 3


@pytest.mark.parametrize("to", ["cuda", "host"])
def test_batches_outlive_the_loader(send, card, to):
    loader = send(to=to, as_dict=True)
    batch = next(iter(loader))
    copy = batch["images"].numpy().tobytes()
    loader.close()
    loader.close()
    assert batch["images"].numpy().tobytes() == copy and len(batch["names"]) == 4
    with pytest.raises(stokehold.StateError, match="closed"):
        next(iter(loader))
    assert loader.stats().held == 1 and loader.stats().batches == 1


def test_other_threads_let_go(send, card):
    loader = send(to="cuda", depth=6)
    stream = card.stream()
    for _ in range(4):
        iteration = iter(loader)
        capsules = [[array.__dlpack__(stream=stream) for array in next(iteration)] for _ in range(6)]
        threads = [threading.Thread(target=capsules.pop) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert loader.stats().held == 0


LATE = """
    import sys, stokehold
    loader = stokehold.Loader(sys.argv[1], batch_size=4, image_size=32, output="dlpack", workers=2, to="cuda")
    iteration = iter(loader)
    kept = [next(iteration) for _ in range(2)]
    copy = kept[0][0].numpy().tobytes()
"""


@pytest.mark.parametrize("ending", ["", "loader.close()", "del loader, iteration", "kept[0][0].__dlpack__(stream=1)",
                                    "import builtins; builtins.kept = kept", "sys.exit(0)"])
def test_the_interpreter_ends_with_batches_out(program, data, monkeypatch, ending):
    """The driver has books: what is left when the process ends, or touched too late, makes it end with 99."""
    found = cards.files()
    if not found:
        pytest.skip("no libraries of tests/fake")
    for name, value in (("STOKE_LIBCUDA", found[0]), ("STOKE_LIBNVRTC", found[1]), ("STOKE_FAKE_CUDA_STRICT", "1")):
        monkeypatch.setenv(name, value)
    child = program(LATE + f"    {ending}\n", data)
    status, _, err = child.end()
    if "builtins" in ending and status == 99:  # the interpreter never let go: nothing but the memory is left
        assert "done wrong:\nleft behind" in err
    else:
        assert (status, err) == (0, "")


def test_a_child_of_fork_is_told(program, data, monkeypatch):
    found = cards.files()
    if not found:
        pytest.skip("no libraries of tests/fake")
    monkeypatch.setenv("STOKE_LIBCUDA", found[0])
    monkeypatch.setenv("STOKE_LIBNVRTC", found[1])
    status, out, err = program(LATE + """
    import os
    child = os.fork()
    if not child:
        try:
            next(iteration)
        except stokehold.StateError as error:
            print("spawn" in str(error), flush=True)
        del kept, iteration, loader
        os._exit(0)
    del kept[1]
    print(os.waitpid(child, 0)[1], kept[0][0].numpy().tobytes() == copy, sum(1 for _ in iteration))
    """, data).end()
    assert (status, err) == (0, "") and out == "True\n0 True 4\n"


# ---- where it stands, and what is known

def test_state_in_the_middle_of_an_epoch(make, send, card):
    with make() as host:
        expected = [(images.tobytes(), masks.tobytes()) for _ in range(2) for images, masks in host]

    def take_bytes(batch):
        return tuple(array.numpy().tobytes() for array in batch)

    loader = send(to="cuda", depth=3)
    iteration = iter(loader)
    assert [take_bytes(next(iteration)) for _ in range(4)] == expected[:4]
    state = loader.state_dict()
    assert state["position"] == 16  # what was handed out, not what is on its way
    assert loader._core.batches() == (6, 2)
    loader.close()
    for to in ("cuda", "host"):
        other = send(to=to)
        other.load_state_dict(state)
        assert [take_bytes(batch) for batch in other] == expected[4:6]
        assert [take_bytes(batch) for batch in other] == expected[6:]
        other.set_epoch(1)
        assert [take_bytes(batch) for batch in other] == expected[6:]
        other.close()
    with make(output="dlpack") as host:  # and back to the host
        host.load_state_dict(state)
        assert [take_bytes(batch) for batch in host] == expected[4:6]


def test_stats_are_the_consumers(send, card):
    loader = send(to="cuda", depth=2)
    assert loader.stats().batches == 0
    iteration = iter(loader)
    held = [next(iteration) for _ in range(2)]
    stats = loader.stats()
    assert (stats.batches, stats.samples, stats.held, stats.slots) == (2, 8, 2, 3)
    assert stats.stages["batch wait"].count == 2 and stats.seconds > 0 and stats.ready <= 1
    assert stats.first_batch_ms > 0 and 0 < stats.wait_share <= 1
    del held
    plan = loader.memory
    assert plan.device_slots == 3 and plan.device_bytes == 3 * 4 * 32 * 32 * (3 * 4 + 1)
    assert "; on cuda:0 slots 3 x" in str(plan)
    loader.close()
    assert loader.stats().batches == 2


def test_bad_samples_count_when_they_are_handed_out(send, card, data, tmp_path):
    (tmp_path / "images").mkdir()
    os.symlink(os.path.join(data, "masks"), tmp_path / "masks")
    for i, name in enumerate(sorted(os.listdir(os.path.join(data, "images")))):
        if i == 3:
            (tmp_path / "images" / name).write_bytes(b"no picture")
        else:
            os.link(os.path.join(data, "images", name), tmp_path / "images" / name)
    loader = send(to="cuda", data=str(tmp_path), shuffle=False, max_bad="2", depth=4)
    iteration = iter(loader)
    next(iteration)
    assert loader.stats().replaced == 1
    assert sum(1 for _ in iteration) == 5 and loader.stats().replaced == 1
    loader.close()
    assert [bad.status for bad in loader.bad_files()] == ["format"]


def test_a_copy_in_another_process_has_the_same_device(send, card):
    import pickle

    loader = send(to="cuda", depth=1, placement="device")
    other = pickle.loads(pickle.dumps(loader))
    assert (other.device, other.placement, other.stats().slots) == (loader.device, loader.placement, 2)
    other.close()


def test_settings_from_a_file(send, tmp_path):
    (tmp_path / "stoke.yaml").write_text("depth: 4\nplacement: device\n")
    loader = send(to="host", config=tmp_path / "stoke.yaml")
    assert loader.stats().slots == 5 and loader.placement == "device: as asked for"
    loader = send(to="host", config=tmp_path / "stoke.yaml", depth=1)
    assert loader.stats().slots == 2


# ---- what goes wrong

@pytest.mark.parametrize("to", ["cpu", None])
def test_the_processor_needs_no_way(make, torch, to):
    loader = make(to=torch.device(to) if to else None)
    assert loader.device == "cpu" and loader.placement is None and next(iter(loader))[0].flags["C_CONTIGUOUS"]


@pytest.mark.parametrize("to", ["mps", "cuda:x", "cuda:", "sim", "host:1", "GPU", object])
def test_other_names_are_refused(make, to):
    with pytest.raises(ValueError, match="batches go to 'cuda'.*devices` lists"):
        make(to=to)


@pytest.mark.parametrize("settings, error, words", [
    ({"depth": 2}, TypeError, "depth: a setting of the way to a device.*to='cuda'"),
    ({"to": "opencl", "output": "torch"}, ValueError, "torch does not reach OpenCL.*output='dlpack'"),
    ({"to": "opencl", "output": "numpy"}, ValueError, "numpy does not reach OpenCL"),
    ({"to": "cuda", "output": "numpy"}, ValueError, "NumPy does not reach.*output='torch' or 'dlpack'"),
    ({"to": "host", "placement": "gpu"}, stokehold.InvalidError, "placement"),
    ({"to": "host", "depth": 0}, stokehold.InvalidError, "depth"),
    ({"to": "host", "augment": "hflop"}, stokehold.InvalidError, "hflop"),
])
def test_settings_that_cannot_be(make, settings, error, words):
    with pytest.raises(error, match=words):
        make(**settings)


def test_without_a_driver(make, monkeypatch):
    monkeypatch.setenv("STOKE_LIBCUDA", "/nowhere/libcuda.so.1")
    with pytest.raises(stokehold.DeviceError, match="no NVIDIA driver .*install it.*host") as caught:
        make(to="cuda", output="dlpack")
    assert caught.value.status == "device"


def test_a_card_that_is_not_there(send, card):
    with pytest.raises(stokehold.DeviceError, match="cuda:7"):
        send(to="cuda:7")
    card.control.settings.contents.cards = 0
    with pytest.raises(stokehold.DeviceError, match="finds no card"):
        send(to=0)
    card.control.settings.contents.cards = 2
    card.control.settings.contents.version = 10020
    with pytest.raises(stokehold.DeviceError, match="too old.*update the driver"):
        send(to="cuda")


def test_without_a_compiler(send, card, monkeypatch):
    monkeypatch.setenv("STOKE_LIBNVRTC", "/nowhere/libnvrtc.so")
    with send(to="cuda") as loader:  # the host augments: no kernels
        assert len(list(zip(range(1), loader))) == 1
    try:
        send(to="cuda", placement="device")
    except stokehold.DeviceError as error:
        assert "no NVRTC" in str(error) and "install it" in str(error)
    else:
        pytest.skip("built where nvcc is: the kernels are there")


def test_no_room_on_the_card(send, card):
    card.control.settings.contents.memory_bytes = 200000  # for a slot of 53 KB on the host, not for 9 on the card
    with pytest.raises(stokehold.NoMemoryError, match="slots 9 x .*cuda:0 has .*MiB free. Lower batch, size or depth"):
        send(to="cuda", depth=8)
    card.control.settings.contents.memory_bytes = 40000
    with pytest.raises(stokehold.NoMemoryError, match="slots 3 x .*cuda:0 has .*MiB free"):
        send(to="cuda")


def test_a_card_that_is_lost(make, card, data):
    with make() as host:
        expected = [images.tobytes() for images, _ in host]
    loader = stokehold.Loader(data, batch_size=4, image_size=32, output="dlpack", workers=2, to="cuda", depth=1)
    iteration = iter(loader)
    images, masks = next(iteration)
    assert images.numpy().tobytes() == expected[0]
    card.control.fail_at(1, cards.LOST)
    with pytest.raises(stokehold.DeviceError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        for _ in range(6):
            next(iteration)[0].numpy()
    with pytest.raises(stokehold.DeviceError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        images.__dlpack__(stream=1)
    state = loader.state_dict()  # where it stood is known
    loader.close()
    del images, masks, iteration, loader, caught
    gc.collect()
    # Of two threads one may make a call while the other learns of the loss.
    faults = [line for line in card.control.faults().decode().splitlines() if "after the device was lost" not in line]
    assert (faults, card.control.leaks(), card.control.contexts()) == ([], b"", 0)
    card.control.reset()
    with make(output="dlpack") as host:  # another loader goes on
        host.load_state_dict(state)
        assert next(iter(host))[0].numpy().tobytes() == expected[state["position"] // 4]


@pytest.mark.parametrize("to", ["host", "cuda"])
def test_many_batches_leave_nothing_behind(send, card, to):
    loader = send(to=to, batch_size=1, image_size=16, cache_ram="64M")
    stream = card.stream() if to == "cuda" else None

    def run(batches):
        while batches > 0:
            for images, masks in loader:
                batches -= 1
                images.__dlpack__(stream=stream), masks.__dlpack__(stream=stream)

    run(600)
    gc.collect()
    before, allocations = resident_bytes(), loader.stats().heap_allocations
    run(2000)
    gc.collect()
    assert resident_bytes() - before < 2 << 20  # 1 KB a batch; a slot is 3.3 KB
    assert loader.stats().heap_allocations == allocations


def test_without_torch_a_card_gives_dlpack(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert _device.output(_device.route("cuda:0"), None) == "dlpack"
    assert _device.output(_device.route("host"), None) is None


def test_a_driver_that_crashes_leaves_the_process_alive(data):
    """Tried by the package's command first, in a process that has threads already."""
    crash = os.environ.get("STOKE_TEST_CRASH")
    if not crash:
        pytest.skip("STOKE_TEST_CRASH does not name the library of tests/fake")
    text = ("import sys, stokehold\n"
            "with stokehold.Loader(sys.argv[1], batch_size=4, image_size=32, workers=2, output='dlpack') as running:\n"
            "    next(iter(running))\n"
            "    try:\n"
            "        stokehold.Loader(sys.argv[1], to='cuda', output='dlpack')\n"
            "    except stokehold.Error as error:\n"
            "        print(error)\n")
    env = {name: value for name, value in os.environ.items() if name != "STOKE_DRIVER_PROBE"}
    done = subprocess.run([sys.executable, "-c", text, data], capture_output=True, text=True, env={**env, "STOKE_LIBCUDA": crash})
    assert done.returncode == 0, done.stderr
    assert "crashed (SIGABRT)" in done.stdout
