# SPDX-License-Identifier: Apache-2.0
"""Progress as a terminal, a file and a notebook show it."""
import io
import os
import sys

import pytest

import stokehold
from stokehold._progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def tell(wanted, stream):
    with Progress(wanted, stream) as shown:
        for text in ("a long beginning", "a long beginning", "short"):
            shown.update(text)
    return stream.getvalue()


def test_a_terminal_has_one_line():
    assert tell(None, Terminal()) == "\ra long beginning\rshort           \n"
    assert tell(False, Terminal()) == ""
    with Progress(None, Terminal()) as nothing:
        pass
    assert nothing._stream.getvalue() == ""


def test_a_file_has_lines_when_asked_for():
    assert tell(None, io.StringIO()) == ""
    assert tell(True, io.StringIO()) == "a long beginning\nshort\n"


def test_a_stand_in_for_stderr_may_lack_isatty():
    class Sink:
        write = flush = lambda *_: None

    with Progress(None, Sink()) as shown:
        shown.update("unseen")
    assert shown._last == ""


def test_monitor_tells(capsys):
    stokehold.monitor(0.05, 0.02)
    assert capsys.readouterr().err == ""
    stokehold.monitor(0.05, 0.02, progress=True)
    assert capsys.readouterr().err == "watching: 0 of 0.05 s\n"


def test_trials_tell(torch, capsys):
    model = torch.nn.Linear(4, 2)
    best, stats = stokehold.BatchSizeOptimizer(model, largest=2).find_optimal_batch_size(torch.zeros(1, 4), progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "trying a batch of 1 ..." and " ms a step)" in lines[1]
    assert lines[-1] == f"{len(stats['trials'])} trials: a batch of {best}"


NOTEBOOK = [
    "import stokehold\nloader = stokehold.Loader(DATA, batch_size=4, image_size=32, output='numpy')\nloader.show(4)",
    "summary = stokehold.monitor(0.3, 0.1)",
    "loader.close()",
]


def test_a_notebook(data, tmp_path, monkeypatch):
    """Run by a real kernel: the picture is drawn, progress is one output that has come to its end, nothing is on stderr."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(text.replace("DATA", repr(data))) for text in NOTEBOOK]
    nbclient.NotebookClient(book, timeout=60, kernel_name="python3").execute()
    picture, progress, nothing = (cell.outputs for cell in book.cells)
    assert [output.output_type for output in picture] == ["execute_result"] and "image/png" in picture[0].data
    assert [output.output_type for output in progress] == ["display_data"], progress
    assert progress[0].data == {"text/plain": "watching: 0 of 0.3 s"} and nothing == []
