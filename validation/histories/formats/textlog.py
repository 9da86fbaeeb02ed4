"""Console logs of Jepsen, as of its etcd tests: ``INFO  jepsen.util - 3  :invoke  :write  4``.

Lines without ``jepsen.util`` are other people's and are passed over. There is no time in them that could be trusted:
the order of the lines stands for it. What ``:fail`` did is certainly not in effect; a ``:cas`` that failed says no more
than that, as in Jepsen's own checker.
"""

from __future__ import annotations

import re

from ..entries import HistoryFile
from ..events import Enough, Events
from .edn import Forms, Malformed, take

NAME = "jepsen log"

MARK = re.compile(r"\bjepsen\.util\b")
_LINE = re.compile(r"\bjepsen\.util\b\s*-?\s*:?([\w-]+)\s+:(\w+)\s+:?([^\s:][^\s]*)\s*(.*)$")
_EXPECTED = "process, type, operation and value: jepsen.util - 3 :invoke :write 4"


def read(text: str, file: str) -> HistoryFile:
    """The history that ``text`` is; raises InputError with all that is wrong."""
    events = Events(file, NAME)
    rows: list[tuple[int, object]] = []
    try:
        for number, line in enumerate(text.split("\n"), start=1):
            if not MARK.search(line):
                continue
            match = _LINE.search(line)
            try:
                forms = [form for _, form in Forms(match[4])] if match else []
            except Malformed as error:
                events.unreadable(number, str(error).partition(", expected")[0], _EXPECTED)
                continue
            if match is None:
                events.unreadable(number, f"'{line.strip()[-60:]}'", _EXPECTED)
                continue
            process = int(match[1]) if match[1].isdigit() else match[1]
            row = {"process": process, "type": match[2], "f": match[3], "value": forms[0] if forms else None}
            rows.append((number, row))
        take(events, rows, timed=False)
    except Enough:
        pass
    return events.finish(timed=False)
