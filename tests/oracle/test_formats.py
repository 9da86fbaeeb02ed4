"""Do the three formats say the same, are they told apart, and is what is wrong told with its line?"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.sim.errors import InputError
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.formats.edn import Forms
from rpsim.validation.histories.read import HistoryFile, format_of, parse_history, read_history

from .test_files import random_file

LOG = """\
INFO  jepsen.core - Running test
INFO  jepsen.util - 0	:invoke	:write	4
INFO  jepsen.util - 1	:invoke	:read	nil
INFO  jepsen.util - 0	:ok	:write	4
WARN  jepsen.core - :nothing
INFO  jepsen.util - 1	:ok	:read	4
INFO  jepsen.util - 2	:invoke	:cas	[4 2]
INFO  jepsen.util - :nemesis	:info	:start	"cut off {:n1 #{:n2}}"
INFO  jepsen.util - 2	:info	:cas	:timed-out
INFO  jepsen.util - 3	:invoke	:cas	[1 3]
INFO  jepsen.util - 3	:fail	:cas	[1 3]
INFO  jepsen.util - 1	:invoke	:read	nil
INFO  jepsen.util - 1	:ok	:read	%s
"""

EDN = """\
; a store of a test
{:process 0, :type :invoke, :f :write, :value 4, :time 10, :index 0}
{:process 1, :type :invoke, :f :read, :value nil, :time 12, :index 1}
{:process :nemesis, :type :info, :f :kill, :value {"n1" :killed}, :time 13, :index 2}
#jepsen.history.Op{:process 0, :type :ok, :f :write, :value 4, :time 20, :index 3, :link #{1 2}}
{:process 1, :type :ok, :f :read, :value 4, :time 25, :index 4} #_{:process 1 :type :nonsense}
{:process 2, :type :invoke, :f :cas, :value [4 2], :time 26, :index 5}
{:process 2, :type :info, :f :cas, :value :timed-out, :error [:timeout "no \\"answer\\""], :time 27, :index 6}
{:process 1, :type :invoke, :f :read, :value nil, :time 31N, :index 7}
{:process 1, :type :ok, :f :read, :value %s, :time 40.5, :index 8}
"""


def linearizable(text: str, file: str = "h") -> Verdict:
    return check_history(parse_history(text, file)).verdicts[Condition.LINEARIZABLE].verdict


@pytest.mark.parametrize("text", [LOG, EDN], ids=["log", "edn"])
def test_a_register_in_the_words_of_jepsen(text: str) -> None:
    assert linearizable(text % 4) == linearizable(text % 2) == Verdict.HOLDS
    assert linearizable(text % 3) == linearizable(text % "nil") == Verdict.VIOLATED


def test_what_is_in_the_files() -> None:
    edn, log = parse_history(EDN % 4, "h"), parse_history(LOG % 4, "h")
    assert [(e.line, e.f, e.outcome) for e in edn.entries] == [
        (2, "write", "ok"), (3, "read", "ok"), (7, "cas", None), (9, "read", "ok"),
    ]  # fmt: skip
    assert (edn.entries[3].invoke_ps, edn.entries[3].return_ps) == (31_000, 40_500)
    assert [(e.line, e.f, e.outcome) for e in log.entries] == [
        (2, "write", "ok"), (3, "read", "ok"), (7, "cas", None), (10, "cas", "fail"), (12, "read", "ok"),
    ]  # fmt: skip
    assert (edn.format, log.format, edn.timed, log.timed) == ("edn", "jepsen log", True, False)


def test_without_times_the_events_are_counted() -> None:
    witness = check_history(parse_history(LOG % 3, "h")).verdicts[Condition.LINEARIZABLE].witness
    assert witness is not None and witness.act.entry.line == 12
    registers = "\n".join(line for line in LOG.splitlines() if "cas" not in line) % "nil"
    witness = check_history(parse_history(registers, "h")).verdicts[Condition.LINEARIZABLE].witness
    assert witness is not None and "had returned at event 3" in witness.explanation


PORCUPINE = """\
{:process 0, :type :invoke, :f :append, :key "a", :value "x 0 0 y"}
{:process 1, :type :invoke, :f :get, :key "b", :value nil}
{:process 1, :type :ok, :f :get, :key "b", :value ""}
{:process 2, :type :invoke, :f :append, :key "a", :value "x 2 0 y"}
{:process 0, :type :ok, :f :append, :key "a", :value "x 0 0 y"}
{:process 2, :type :ok, :f :append, :key "a", :value "x 2 0 y"}
{:process 1, :type :invoke, :f :get, :key "a", :value nil}
{:process 1, :type :ok, :f :get, :key "a", :value "%s"}
{:process 2, :type :invoke, :f :put, :key "a", :value "p"}
{:process 2, :type :ok, :f :put, :key "a", :value "p"}
{:process 1, :type :invoke, :f :append, :key "a", :value "q"}
{:process 0, :type :invoke, :f :get, :key "a", :value nil}
{:process 0, :type :ok, :f :get, :key "a", :value "%s"}
"""
"""As Porcupine's tests have a key-value store: no times, texts that grow, one append without a response at the end."""


@pytest.mark.parametrize(
    ("first", "last", "verdict"),
    [
        ("x 0 0 yx 2 0 y", "p", Verdict.HOLDS),
        ("x 2 0 yx 0 0 y", "pq", Verdict.HOLDS),
        ("x 0 0 y", "p", Verdict.VIOLATED),
        ("x 0 0 yx 2 0 y", "x 0 0 yx 2 0 yq", Verdict.VIOLATED),
        ("x 0 0 yx 2 0 y", "qp", Verdict.VIOLATED),
    ],
)
def test_a_store_of_texts_in_the_words_of_porcupine(first: str, last: str, verdict: Verdict) -> None:
    history = parse_history(PORCUPINE % (first, last), "c01.txt")
    for model in (None, "kv", "kv-text"):
        report = check_history(history, model)
        assert report.model.name == "kv-text"
        assert report.verdicts[Condition.LINEARIZABLE].verdict is verdict


def test_lists_that_grow_stay_lists() -> None:
    """``append`` with reads of lists is the model of that name; only texts are put together."""
    rows = [
        "{:process 0 :type :invoke :f :append :key 1 :value \"a\"}", "{:process 0 :type :ok :f :append :key 1}",
        "{:process 0 :type :invoke :f :read :key 1}", "{:process 0 :type :ok :f :read :key 1 :value %s}",
    ]  # fmt: skip
    for value, model in (('["a"]', "append"), ('"a"', "kv-text")):
        report = check_history(parse_history("\n".join(rows) % value, "h"))
        assert report.model.name == model and report.verdicts[Condition.LINEARIZABLE].verdict is Verdict.HOLDS


def as_edn(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f":{name} {word(name, item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{' '.join(map(as_edn, value))}]"
    return "nil" if value is None else json.dumps(value)


def word(name: str, value: Any) -> str:
    return f":{value}" if name in ("type", "f", "node") else as_edn(value)


def facts(history: HistoryFile) -> list[object]:
    rows = [(e.line, e.f, e.process, e.outcome, e.invoke_ps, e.return_ps, e.killed_ps) for e in history.entries]
    return [rows, history.crashes]


@pytest.mark.long
def test_edn_and_json_lines_say_the_same() -> None:
    rng = random.Random(41)
    for _ in range(300):
        text = random_file(rng)
        if "invoke" not in text:
            continue
        events = [json.loads(line) for line in text.splitlines()]
        lines = [as_edn(event) for event in events]
        same = facts(parse_history(text, "h"))
        assert facts(parse_history("\n".join(lines), "h")) == same
        assert facts(parse_history("[" + "\n ".join(lines) + "]", "h")) == same


def test_independent_keys() -> None:
    rows = [
        "{:process 0 :type :invoke :f :write :value [x 1]}",
        "{:process 0 :type :ok :f :write :value [x 1]}",
        "{:process 1 :type :invoke :f :read :value [y nil]}",
        "{:process 1 :type :ok :f :read :value [y nil]}",
        "{:process 1 :type :invoke :f :read :value [x nil]}",
        "{:process 1 :type :ok :f :read :value [x %s]}",
    ]
    history = parse_history("\n".join(rows) % 1, "h")
    assert [entry.key for entry in history.entries] == ["x", "y", "x"]
    assert linearizable("\n".join(rows) % 1) is Verdict.HOLDS
    assert linearizable("\n".join(rows) % "nil") is Verdict.VIOLATED


@pytest.mark.parametrize(
    ("text", "file", "format"),
    [
        ('{"process": 0}', "h", "json lines"),
        ("{:process 0}", "h.jsonl", "edn"),
        ("[{:process 0}]", "h", "edn"),
        ("; note\n\n[ #jepsen.history.Op{:process 0}]", "h", "edn"),
        ("2016-01-01 12:00:00,123 INFO  jepsen.util - 3 :invoke :read nil", "h", "jepsen log"),
        ("nonsense", "h.edn", "edn"),
        ("nonsense", "h.log", "jepsen log"),
        ("nonsense", "h", "json lines"),
    ],
)
def test_formats_are_told_apart(text: str, file: str, format: str) -> None:
    assert format_of(text, file) == format


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{:process 0 :type :invoke :f :read", r"h.edn:1: found '\{' that is never closed, expected '\}'"),
        ("\n\n{:process 0 :type}", r"h.edn:3: found a map with a key and no value"),
        ("{:process 0 :type :invoke :f :read]", r"h.edn:1: found '\]', expected '\}'"),
        ('{:process 0 :type :invoke :f "read', r"h.edn:1: found a text that is never closed"),
        ("{:process 0 :type :invok :f :read}", r"h.edn:1: type: found 'invok', .*did you mean 'invoke'"),
        ("{:process 0 :type :invoke :f :read}\n42", r"h.edn:2: found 42, expected a map"),
        ("{:process 0 :type :invoke :f :wirte :value 1}", r"h.edn:1: f: found 'wirte'.*did you mean 'write'"),
        ("{:process 0 :type :ok :f :read :value 1}", r"h.edn:1: type: found ok of process 0, which has no operation"),
        ("[" * 150, r"h.edn:1: found "),
        ("{:process 0 :type :invoke :f :read :time 3}\n{:process 0 :type :ok :f :read}", "h.edn:2: time: found"),
        ("INFO jepsen.util - 0 :invoke\n", r"h.edn:1: found 'INFO jepsen.util - 0 :invoke', expected process, type"),
        ("INFO jepsen.util - 0 :invoke :write [1", r"h.edn:1: found '\[' that is never closed"),
        ("INFO jepsen.util - 0 :ok :write 1", r"h.edn:1: type: found ok of process 0"),
        (";only a note", "no operations"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_history(parse_history(text, "h.edn"))


def test_forms_of_edn() -> None:
    text = '{:a [1 -2 3.5 1e3 nil true "x\\ny" \\newline sym :k/w] #{1} (2)} #inst "2020" ; end'
    assert [form for _, form in Forms(text)] == [
        {"a": [1, -2, 3.5, 1000.0, None, True, "x\ny", "newline", "sym", "k/w"], "[1]": [2]}, "2020",
    ]  # fmt: skip


@pytest.mark.long
@settings(max_examples=300)
@given(st.text(alphabet='{}[]()#:"\\ ;\n,01nilokfreadtypeprocess_', max_size=60))
def test_whatever_stands_there_is_read_or_refused(text: str) -> None:
    for file in ("h.edn", "h.log", "h"):
        try:
            parse_history(text, file)
        except InputError as error:
            assert all(mistake.found and mistake.expected for mistake in error.mistakes)


def test_a_file_of_each_format(tmp_path: Path) -> None:
    for name, text in (("a.edn", EDN % 4), ("b.log", LOG % 4), ("c.txt", LOG % 4)):
        (tmp_path / name).write_text(text)
        assert len(read_history(tmp_path / name).entries) >= 4
