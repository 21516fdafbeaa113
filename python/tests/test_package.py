# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: command, version, stubs, pictures."""
import ast
import pathlib
import re
import subprocess
import sys

import pytest

import stokehold
from conftest import stoke
from stokehold import _stoke


def test_the_command_is_in_the_package():
    assert stokehold.__version__ in stoke("--version")
    result = subprocess.run([sys.executable, "-m", "stokehold", "nonsense"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2 and "nonsense" in result.stderr


def test_it_is_typed():
    assert (pathlib.Path(stokehold.__file__).parent / "py.typed").exists()


def test_stubs_agree_with_the_extension():
    stub = ast.parse((pathlib.Path(stokehold.__file__).parent / "_stoke.pyi").read_text(encoding="utf-8"))
    functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: {item.target.id if isinstance(item, ast.AnnAssign) else item.name for item in node.body}
               for node in stub.body if isinstance(node, ast.ClassDef)}
    public = {name for name in vars(_stoke) if not name.startswith("__")}
    assert functions | set(classes) == public
    for name, members in classes.items():
        found = {member for member in vars(getattr(_stoke, name)) if not member.startswith("__")}
        protocols = {member for member in members if member.startswith("__")}
        assert members - protocols == found
        assert all(hasattr(getattr(_stoke, name), member) for member in protocols)


def test_everything_public_is_documented():
    for name in stokehold.__all__:
        thing = getattr(stokehold, name)
        assert thing.__doc__, name
        if isinstance(thing, type):
            for member, value in vars(thing).items():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    assert value.__doc__, f"{name}.{member}"


def test_show(make, tmp_path):
    loader = make(augment="standard")
    first = next(iter(loader))[0].copy()
    picture = loader.show(3)
    assert picture._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n" and picture.data == loader.show(n=3).data
    assert picture.data != loader.show(4).data and picture.data != loader.show(3, columns=3, tile=64).data
    picture.save(tmp_path / "samples.png")
    assert (tmp_path / "samples.png").read_bytes() == picture.data
    loader.show(4).save(tmp_path / "samples.png")  # a picture of ours is replaced, any other file is not
    (tmp_path / "photo.png").write_bytes(b"mine")
    with pytest.raises(stokehold.Error, match="is there already"):
        picture.save(tmp_path / "photo.png")
    assert (tmp_path / "photo.png").read_bytes() == b"mine"
    picture.save(tmp_path / "photo.png", force=True)
    assert loader.show(100).data  # more than there are
    assert make(augment="mixup(p=1)", as_dict=True).show(2).data
    loader.set_epoch(0)
    assert (next(iter(loader))[0] == first).all()  # nothing was disturbed


def test_the_pages_run(program, data, tmp_path):
    """As they stand, in a folder with demo/data; where the tests run from the source. Of the reader's own loop any will do."""
    def snippets(page):
        text = (pathlib.Path(__file__).parents[2] / page).read_text(encoding="utf-8")
        return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)

    probe, loader, learning = snippets("docs/python.md")
    assert snippets("README.md") == [loader]
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "data").symlink_to(data)
    status, out, err = program(f"import os; os.chdir({str(tmp_path)!r})\n" + loader).end()
    assert (status, err) == (0, "") and len(out.splitlines()) == 4
    mine = "import time, stokehold; model = None; loader = [(1, 2)] * 20; train_one_step = lambda images, masks: time.sleep(0.001)\n"
    status, out, err = program(mine + probe).end()
    assert (status, err) == (0, "") and "the device is idle" in out
    pytest.importorskip("torch")
    mine = ("import torch, stokehold; data = torch.randn(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.long); loader = [data] * 20\n"
            "model = torch.nn.Conv2d(3, 2, 1); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n")
    status, out, err = program(mine + learning).end()
    assert (status, err) == (0, "") and "images/s" in out


def test_nothing_heavy_is_imported(program, data):
    child = program("""
    import sys, stokehold
    loader = stokehold.Loader(sys.argv[1], batch_size=4, image_size=32, output="dlpack")
    next(iter(loader))
    print([name for name in ("numpy", "torch", "jax") if name in sys.modules])
    """, data)
    assert child.end() == (0, "[]\n", "")
