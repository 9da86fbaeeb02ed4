"""Is what docs/matrix.md shows what is printed? With RPSIM_RENEW=1 it is written anew."""

import shlex

import pytest

from rpsim.app.main import main

from .pages import EXAMPLES, ROOT
from .test_docs_outcomes import printed

PAGE = (ROOT / "docs" / "matrix.md").read_text(encoding="utf-8")
SHOWN = {
    "matrix.txt": "rpsim matrix primitives no-flush,read-after-write --platforms optane-adr"
    " --shapes word,other-qp --quick",
    "design.txt": 'rpsim design --platform "adr, ddio off" --steps 2',
}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SHOWN))
def test_the_page_shows_what_is_printed(name, capsys, tmp_path, monkeypatch):
    assert SHOWN[name] in PAGE
    monkeypatch.chdir(tmp_path)
    assert main([*shlex.split(SHOWN[name])[1:], "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert out == printed(name, out)
    assert (EXAMPLES / name).read_text(encoding="utf-8").strip() in PAGE
    assert all(len(line) <= 80 for line in out.splitlines())
