"""Do the tutorials and the labs run as notebooks? (Extra ``[docs]``; ``make slow``.)"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rpsim.app.site.notebooks import texts

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", texts())
def test_a_notebook_runs_from_its_first_cell_to_its_last(name, tmp_path, monkeypatch):
    jupytext, nbclient = pytest.importorskip("jupytext"), pytest.importorskip("nbclient")
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    notebook = jupytext.reads(texts()[name], fmt="md:myst")
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = "".join(text for cell in notebook.cells for out in cell.get("outputs", ()) for text in out.get("text", ""))
    assert "this is a bug in rpsim" not in shown and "command not found" not in shown
    if name.startswith("labs/"):
        number = name.partition("/")[2]
        assert f"lab-{number}" in shown and "points" in shown, "the starter fails the check, and says so"
