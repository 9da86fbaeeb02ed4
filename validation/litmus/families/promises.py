"""Guarantees that the literature states, as small tables; generators of litmus tests take their verdicts from here.

Nothing in here looks at ``models.durability.rules``. These are the rows that papers and specifications state for whole
sequences of operations, written down as they state them; the explorer has to arrive at the same from single rules.
Where sources promise nothing either way there is no entry, and no test is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PLATFORMS: Mapping[str, Mapping[str, object]] = {
    "ADR, DDIO off": {"domain": "adr", "ddio": False},
    "ADR, DDIO on": {"domain": "adr", "ddio": True},
    "eADR, DDIO on": {"domain": "eadr", "ddio": True},
    "eADR, DDIO off": {"domain": "eadr", "ddio": False},
}
"""The columns: where the persistence domain begins, and which way DMA writes take. Placement is in order."""

A19 = "IBTA annex A19, oA19-1"
SC21 = "Duan et al., SC'21, section 2.4"
APPLIANCE = "Intel, rpmemd(1): appliance persistency method"
GPSPM = "Intel, librpma: general-purpose persistency method, valid whatever DDIO is"
EADR = "PMDK glossary: eADR covers the caches"
B2A = "PCIe base specification 3.0, table 2-40: a read may not pass posted writes"
O9_20 = "IBTA o9-20: a receive completion publishes earlier writes of its queue pair"
ZONE = "IBTA 9.7.5.1.6: a completion proves arrival in the responder's fault zone"
OPEN = "open: whether eADR covers the I/O write cache is not documented; counted as lost"
SAME_QP = "IBTA A19: FLUSH is about preceding updates of its own queue pair"


@dataclass(frozen=True)
class Promise:
    """The guarantee for an update once a sequence behind it has completed: by platform, durable or not, and the source.

    ``visible`` is whether every other path shows it; None where no source says so.
    """

    durable: Mapping[str, tuple[bool, str]]
    visible: tuple[bool, str] | None


def _row(off: str, on: str, eadr_on: str, eadr_off: str, visible: tuple[bool, str] | None) -> Promise:
    """A row of the table: each field ``Y`` or ``N`` and, behind it, the source."""
    fields = zip(PLATFORMS, (off, on, eadr_on, eadr_off), strict=True)
    return Promise({name: (text[0] == "Y", text[2:]) for name, text in fields}, visible)


def _everywhere(text: str, visible: tuple[bool, str] | None) -> Promise:
    return _row(text, text, text, text, visible)


PROMISES: Mapping[str, Promise] = {
    "nothing": _row(f"N {SC21}", f"N {SC21}", f"N {ZONE}", f"N {ZONE}", (False, ZONE)),
    "READ": _row(f"Y {APPLIANCE}", f"N {SC21}", f"Y {B2A}; {EADR}", f"Y {APPLIANCE}", (True, B2A)),
    "SEND, reply": _row(f"N {SC21}", f"N {SC21}", f"Y {O9_20}; {EADR}", f"N {OPEN}", (True, O9_20)),
    "SEND, CPU flush, reply": _everywhere(f"Y {GPSPM}", (True, O9_20)),
    "FLUSH global": _row(f"N {A19}", f"N {A19}", f"Y {A19}; {EADR}", f"N {OPEN}", (True, A19)),
    "FLUSH persist": _everywhere(f"Y {A19}", (False, "Talpey on linux-rdma: persistence does not imply visibility")),
    "WFlush": _row("Y Duan et al., SC'21, section 3", f"N {SC21}", f"Y {EADR}", "Y inferred: memory has it", None),
    "WFlush, CPU flush": _everywhere("Y Duan et al., SC'21, figure 7b", None),
    "FLUSH on another queue pair": _everywhere(f"N {SAME_QP}", (False, SAME_QP)),
    "READ on another queue pair": _everywhere(f"N {ZONE}", (False, ZONE)),
    "FLUSH of another range": _everywhere("N IBTA A19: a range is what its RETH says", None),
    "FLUSH before it": _everywhere("N IBTA A19: preceding updates only", None),
    "READ before it": _everywhere(f"N {ZONE}", None),
}  # fmt: skip
"""By what follows an update on its queue pair (unless the name says otherwise) and has completed."""

PRIMITIVES: Mapping[str, str] = {
    "no-flush": "nothing",
    "pmr-write": "nothing",
    "read-after-write": "READ",
    "wflush-emulated": "READ",
    "write-send-cpu-flush": "SEND, CPU flush, reply",
    "write-imm-cpu-flush": "SEND, CPU flush, reply",
    "send-cpu-copy": "SEND, CPU flush, reply",
    "ibta-flush-global": "FLUSH global",
    "ibta-flush-persistent": "FLUSH persist",
    "atomic-write-after-flush": "FLUSH persist",
    "wflush": "WFlush",
    "wflush-batched": "WFlush",
    "sflush": "WFlush",
    "wflush-ddio": "WFlush, CPU flush",
}
"""The row for each shipped primitive; for a primitive that is missing here the sources state none."""

FLUSH_COVERS = ("W", "WIMM", "AW", "FAA", "CAS")
"""oA19-1 names WRITE, ATOMIC and ATOMIC WRITE; of a SEND's payload nothing is said."""

ORDER: Mapping[tuple[str, str], str] = {
    ("W", "W"): "#", ("W", "R"): "#", ("W", "FAA"): "#", ("W", "AW"): "#",
    ("R", "W"): "F", ("R", "R"): "#", ("R", "FAA"): "F", ("R", "AW"): "F",
    ("FAA", "W"): "#", ("FAA", "R"): "#", ("FAA", "FAA"): "F", ("FAA", "AW"): "F",
    ("AW", "W"): "-", ("AW", "R"): "#", ("AW", "FAA"): "#", ("AW", "AW"): "#",
}  # fmt: skip
"""Which of two requests of a queue pair is executed first: ``#`` the earlier, ``F`` so if fenced, ``-`` either."""

ORDER_SOURCE = "IBTA 1.4 table 76 as quoted in HDTX, table 1; annex A19 for ATOMIC WRITE"
FENCED = ("R", "FAA", "AW")
"""The requests that a fence waits for (rxe_req.c, rxe_wqe_is_fenced; IBTA 10.8.3.3)."""


def in_order(kinds: Sequence[str], fenced: Sequence[bool], first: int, last: int) -> bool:
    """Whether request ``first`` of a queue pair is executed before request ``last``, posted later.

    Directly, or by way of one between them; a fence holds up its request and all behind it.
    """
    if kinds[first] in FENCED and any(fenced[first + 1 : last + 1]):
        return True
    if ORDER[kinds[first], kinds[last]] == "#":
        return True
    return any(
        in_order(kinds, fenced, first, between) and in_order(kinds, fenced, between, last)
        for between in range(first + 1, last)
    )


CPU_FLUSHES: Mapping[str, tuple[bool, bool, str]] = {
    "nothing": (False, True, "caches evict when they like; stores of a core show in order (x86-TSO)"),
    "clwb": (True, True, "Intel SDM, volume 2: CLWB is ordered by SFENCE"),
    "clflush": (True, True, "Intel SDM, volume 2: CLFLUSH is ordered with later stores"),
    "clflushopt": (False, True, "Intel SDM, volume 2: CLFLUSHOPT is ordered by SFENCE only"),
    "clflushopt, fence": (True, True, "Intel SDM, volume 2: CLFLUSHOPT is ordered by SFENCE"),
    "fence": (False, True, "Intel SDM, volume 2: SFENCE orders stores, and writes nothing back"),
    "clwb of another line": (False, True, "Intel SDM, volume 2: CLWB is about one line"),
}
"""By what stands between two stores of a core: whether the first is durable if the second is, on ADR and on eADR."""

NT_FLUSHES: Mapping[str, tuple[bool, bool, str]] = {
    "nothing": (False, False, "Intel SDM, volume 1, 10.4.6.2: write-combining buffers drain in any order"),
    "fence": (True, True, "Intel SDM, volume 1, 10.4.6.2: SFENCE drains write-combining buffers"),
}
"""As the table before, for a non-temporal store and another behind it."""
