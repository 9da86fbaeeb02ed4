"""The output of perftest (``ib_write_lat``, ``ib_read_bw`` and the like), as people keep it: runs pasted into a file.

A run has a title ("RDMA_Write Latency Test"), lines of settings ("Mtu : 4096[B]"), a head of columns ("#bytes ...") and
a row for each size. All else is passed over: prompts, warnings about clock frequencies, addresses, the single times of
``-U``. Source of the formats: linux-rdma/perftest, src/perftest_parameters.{h,c}.

``ib_write_lat`` and ``ib_send_lat`` print half of a round trip, ``ib_read_lat`` and ``ib_atomic_lat`` the time to the
completion. Its MB/sec is 2^20 bytes a second; ``--report_gbits`` are 10^9 bits.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from ...sim.errors import InputError, Mistake
from .conditions import TRANSPORTS, WORD_BYTES, Conditions, Measurement
from .documents import Document

TITLE = re.compile(
    r"\s*(?P<verb>RDMA_Write(?:_[Ii][Mm][Mm])?|RDMA_Read|Send|Atomic (?:FETCH_AND_ADD|CMP_AND_SWAP)) "
    r"(?P<kind>.*?)(?P<test>Latency|BW) Test\s*"
)
COMMAND = re.compile(r"\bib_(?P<verb>write|read|send|atomic)_(?P<test>lat|bw)\b(?P<options>.*)")
SETTING = re.compile(r"(\w[\w .*-]*?)\s*:\s+(\S+)")
HEAD = re.compile(r"\s*#bytes\s+#iterations\b")
COLUMN = re.compile(r"#\w+|tps average|(?:[\d.]+% |BW )?\w+(?: average)?\s?\[[^\]]+\]|\S+")
SINGLE = re.compile(r"\s*(#|\d+), ?\S+\s*")
"""A line of what ``-U`` or ``-H`` prints."""

VERBS = {
    "RDMA_Write": "WRITE", "RDMA_Write_imm": "WRITE_WITH_IMM", "RDMA_Read": "READ", "Send": "SEND",
    "Atomic FETCH_AND_ADD": "FETCH_ADD", "Atomic CMP_AND_SWAP": "CAS",
}  # fmt: skip
NAMES = {"WRITE": "write", "WRITE_WITH_IMM": "write-imm", "READ": "read", "SEND": "send"}
PINGED = ("WRITE", "WRITE_WITH_IMM", "SEND")
NS = {"usec": 1e3, "nsec": 1.0, "msec": 1e6}
BYTES_PER_S = {"MB/sec": float(1 << 20), "MiB/sec": float(1 << 20), "Gb/sec": 1e9 / 8}
STATISTIC = {
    "t_min": "min", "t_max": "max", "t_typical": "p50", "t_avg": "mean", "99% percentile": "p99",
    "99.9% percentile": "p999",
}  # fmt: skip
UNKNOWN = "several directions, or requests, at once: not simulated"


@dataclass
class _Run:
    """A run as far as it has been read."""

    verb: str
    test: str
    other: str = ""
    """Words of the title that change the measurement: Bidirectional, Post List."""
    settings: dict[str, str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    head: int = 0
    rows: int = 0


def looks_like_perftest(text: str) -> bool:
    """Whether there is a title or a table of perftest in the text."""
    return any(TITLE.fullmatch(line) or HEAD.match(line) for line in map(_bare, text.splitlines()))


def parse_perftest(text: str, file: str) -> Document:
    """The measurements in a text; ``file`` is what messages call it. Raises InputError with every mistake at once."""
    reader = _Reader(file)
    for number, line in enumerate(text.splitlines(), start=1):
        reader.line(number, _bare(line))
    reader.close()
    if not reader.measurements and not reader.mistakes:
        reader.wrong("no table of results", "a table of perftest: '#bytes #iterations ...' and its rows", None)
    if reader.mistakes:
        raise InputError(reader.mistakes)
    return Document("perftest", tuple(reader.measurements), {"name": "perftest"}, reader.machine)


def _bare(line: str) -> str:
    """The line without the characters that mails, tables and terminals put in front."""
    return re.sub(r"\x1b\[[0-9;]*m", "", line).lstrip("> |\t│").rstrip("|│ \t\r")


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.mistakes: list[Mistake] = []
        self.measurements: list[Measurement] = []
        self.machine: dict[str, str] = {}
        self.run: _Run | None = None
        self.command: re.Match[str] | None = None

    def wrong(self, found: str, expected: str, line: int | None, column: str | None = None) -> None:
        self.mistakes.append(Mistake(found, expected, self.file, line, column))

    def close(self) -> None:
        """The run that was read ends."""
        run = self.run
        if run is not None and run.columns and not run.rows:
            self.wrong("the head of a table without rows", "a row for each size", run.head)
        self.run = None

    def line(self, number: int, line: str) -> None:
        title = TITLE.fullmatch(line)
        if title:
            self.close()
            self.run = _Run(VERBS[title["verb"].replace("IMM", "imm")], title["test"], title["kind"].strip())
        elif HEAD.match(line):
            self._head(number, line)
        elif command := COMMAND.search(line):
            self.close()
            self.command = command
        elif self.run is None or SINGLE.fullmatch(line):
            return
        elif not self.run.columns:
            self.run.settings |= {name.lower(): value for name, value in SETTING.findall(line)}
        elif re.match(r"\d", line):
            self._row(number, line.split(), self.run)
        elif line.startswith("-----") and self.run.rows:
            self.close()

    def _head(self, number: int, line: str) -> None:
        if self.run is None or self.run.columns:
            named = self._commanded()
            if named is None:
                expected = "the title of the test above it, as in 'RDMA_Write Latency Test', or its command"
                self.wrong("a table of nobody knows which test", expected, number)
            self.close()
            self.run = named
        if self.run is None:
            return
        self.run.head = number
        self.run.columns = [column.replace(" [", "[") for column in COLUMN.findall(line)]
        latency, test = any(column.startswith("t_") for column in self.run.columns), self.run.test
        if latency != (test == "Latency"):
            self.wrong("columns of " + ("latencies" if latency else "bandwidth"), f"those of a {test} test", number)

    def _commanded(self) -> _Run | None:
        """A run of which only the command was kept."""
        command, self.command = self.command, None
        if command is None:
            return None
        verb = {"write": "WRITE", "read": "READ", "send": "SEND", "atomic": "FETCH_ADD"}[command["verb"]]
        test = {"lat": "Latency", "bw": "BW"}[command["test"]]
        return _Run(verb, test, "Bidirectional" if re.search(r"(^|\s)-b\b", command["options"]) else "")

    def _row(self, number: int, cells: list[str], run: _Run) -> None:
        if len(cells) != len(run.columns):
            self.wrong(f"{len(cells)} values", f"{len(run.columns)}, one for each column of line {run.head}", number)
            return
        before = len(self.mistakes)
        row = {column: self._number(cell, column, number) for column, cell in zip(run.columns, cells, strict=True)}
        if len(self.mistakes) > before:
            return
        size, iterations = (int(row.get(name, 0)) for name in ("#bytes", "#iterations"))
        for name in ("#bytes", "#iterations"):
            if row[name] < 1 or row[name] != int(row[name]):
                self.wrong(f"'{cells[run.columns.index(name)]}'", "a whole number from 1", number, name)
        latency_ns, operations, bytes_per_s = self._values(row, number)
        if len(self.mistakes) > before:
            return
        if not latency_ns and not operations and not bytes_per_s:
            self.wrong("no latency and no bandwidth", "a column t_typical, t_avg, BW average or MsgRate", run.head)
            return
        run.rows += 1
        about = self._conditions(size, iterations, run, number)
        if about is not None:
            skipped = f"{run.other}: {UNKNOWN}" if run.other else ""
            self.measurements.append(
                Measurement(about, latency_ns, (), operations, bytes_per_s, skipped, self.file, number)
            )

    def _number(self, cell: str, column: str, line: int) -> float:
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0:
            self.wrong(f"'{cell}'", "a number", line, column)
            return 0.0
        return value

    def _values(self, row: dict[str, float], line: int) -> tuple[dict[str, float], float | None, float | None]:
        """Latencies in ns, operations and bytes a second."""
        latency_ns: dict[str, float] = {}
        operations = bytes_per_s = None
        for column, value in row.items():
            name, _, unit = column.rstrip("]").partition("[")
            if name in STATISTIC:
                if unit not in NS:
                    self.wrong(f"times in {unit}", f"one of {', '.join(NS)}", line, column)
                elif value > 0:
                    latency_ns[STATISTIC[name]] = round(value * NS[unit], 3)
                else:
                    self.wrong(f"{value:g}", "a time above 0", line, column)
            elif name == "BW average":
                if unit not in BYTES_PER_S:
                    self.wrong(f"bandwidth in {unit}", f"one of {', '.join(BYTES_PER_S)}", line, column)
                else:
                    bytes_per_s = round(value * BYTES_PER_S[unit], 1) or None
            elif name == "MsgRate":
                operations = round(value * 1e6, 1) or None
        return latency_ns, operations, bytes_per_s

    def _conditions(self, size: int, iterations: int, run: _Run, line: int) -> Conditions | None:
        settings = run.settings
        verb, latency = run.verb, run.test == "Latency"
        transport = settings.get("connection type", "RC").lower()
        if transport not in TRANSPORTS:
            run.other = run.other or f"connection type {transport.upper()}"
            transport = "rc"
        mtu, most_inline = (self._plain(settings.get(key), line) for key in ("mtu", "max inline data"))
        qps = self._plain(settings.get("number of qps"), line) or 1
        depth = 1 if latency else (self._plain(settings.get("tx depth"), line) or 128) * qps
        if device := settings.get("device"):
            self.machine["device"] = device
        name = NAMES.get(verb, "atomic")
        return Conditions(
            id=f"ib-{name}-{'lat' if latency else 'bw'}",
            verb=verb,
            transport=transport,
            size_bytes=WORD_BYTES if name == "atomic" else size,
            inline=None if most_inline is None or name in ("read", "atomic") else size <= most_inline,
            qps=1 if latency else qps,
            depth=depth,
            method="half_round_trip" if latency and verb in PINGED else "completion",
            iterations=iterations,
            warmup=0,
            mtu_bytes=mtu,
            signal_every=1 if latency else self._plain(settings.get("cq moderation"), line) or 1,
        )

    @staticmethod
    def _plain(text: str | None, line: int) -> int | None:
        """The number at the front of a text: 4096 of ``4096[B]``."""
        found = re.match(r"\d+", text or "")
        return int(found[0]) if found else None
