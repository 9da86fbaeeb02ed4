"""Litmus tests made from tables: a family for each way in which a guarantee is stated, with every variation of it.

A program is put together from an update, what follows it, and surroundings that change nothing; its verdict is looked
up in ``promises``, which knows nothing of ``models.durability.rules``. The tests are the same on every machine and in
every run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from ....models.durability.rules import Placement
from ..language.expression import parse_outcome
from ..language.operations import parse_operation
from ..language.program import CrashMoment, LitmusCase, LitmusProfile, OutcomeFinding, Test
from .promises import (
    CPU_FLUSHES,
    FLUSH_COVERS,
    NT_FLUSHES,
    ORDER_SOURCE,
    PLATFORMS,
    PROMISES,
    in_order,
)

_parse = functools.cache(parse_operation)
_outcome = functools.cache(parse_outcome)
PROFILES: Mapping[str, LitmusProfile] = {
    name: LitmusProfile(name, str(settings["domain"]), bool(settings["ddio"])) for name, settings in PLATFORMS.items()
}
"""The platforms of the tables; :func:`_profile` makes variations of them."""
PLACEMENTS = {"relaxed ordering": Placement.RELAXED, "out of order": Placement.OUT_OF_ORDER}
WSP = "whole-system persistence (Narayanan and Hodson, ASPLOS'12): what the adapter had accepted survives"
PMRWBM = "NVMe 1.4, PMRCAP.PMRWBM: bit 0, a read of the region is a write barrier; bit 1, a read of PMRSTS"
SHOWS_TOO = (
    "the simulator's FLUSH goes behind visible writes to the root complex: what it makes persistent shows as well"
)
ONE_BY_ONE = "the simulator's adapter executes atomics on one word in order of arrival"
Question = tuple[str, CrashMoment, str, bool, str]
"""Platform, crash, outcome, whether it is allowed, and who says so."""


def made(
    family: str,
    name: str,
    a: Sequence[str],
    b: Sequence[str],
    questions: Sequence[Question],
    grain: str = "",
    unseen: str = "",
) -> Test:
    """One test; where its grain is stated, variables that differ in their number are neighbours."""
    cases = tuple(
        LitmusCase(
            _profile(platform),
            crash,
            _outcome(outcome),
            OutcomeFinding.ALLOWED if allowed else OutcomeFinding.FORBIDDEN,
            source,
            unseen=unseen,
        )
        for platform, crash, outcome, allowed, source in questions
    )
    program_a = tuple(_parse(text, True) for text in a)
    program_b = tuple(_parse(text, False) for text in b)
    file = f"{family} (generated)"
    return Test(f"{family}: {name}", program_a, program_b, cases, grain or "8", numbered=bool(grain), file=file)


@functools.cache
def _profile(name: str) -> LitmusProfile:
    """The profile of a platform's name, with what stands behind it: whole lines, a placement, another domain."""
    base, _, more = name.partition("; ")
    found = PROFILES[base] if base in PROFILES else LitmusProfile(base, "wsp" if base.startswith("WSP") else "pmr")
    match more.partition(" ")[0]:
        case "":
            return replace(found, name=name, ddio=not name.endswith("off"))
        case "whole":
            return replace(found, name=name, whole_lines=True)
        case "PMRWBM":
            return replace(found, name=name, pmrwbm=int(more[-1]))
        case _:
            return replace(found, name=name, nic=PLACEMENTS[more])


# an update and what follows it ---------------------------------------------------------------------------------

UPDATES: Mapping[str, str] = {
    "WRITE": "W q1 x 1",
    "WRITE of two words": "W q1 x+z 1",
    "WRITE, inline": "W q1 x 1 I",
    "WRITE with immediate": "WIMM q1 x 1",
    "fetch and add": "FAA q1 x 1 old",
    "compare and swap": "CAS q1 x 0 1 old",
    "ATOMIC WRITE": "AW q1 x 1",
}
FOLLOWS: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    # before the update, behind it, B
    "nothing": ([], [], []),
    "READ": ([], ["R q1 x r"], []),
    "READ of another address": ([], ["R q1 y r"], []),
    "READ, fenced": ([], ["R q1 y r F"], []),
    "SEND, reply": ([], ["SEND q1", "wait reply"], ["recv q1", "reply"]),
    "SEND, clwb, reply": ([], ["SEND q1", "wait reply"], ["recv q1", "clwb x", "reply"]),
    "SEND, clflush, reply": ([], ["SEND q1", "wait reply"], ["recv q1", "clflush x", "reply"]),
    "SEND, clflushopt, reply": ([], ["SEND q1", "wait reply"], ["recv q1", "clflushopt x", "fence", "reply"]),
    "FLUSH global": ([], ["FLUSH q1 x global"], []),
    "FLUSH global of the region": ([], ["FLUSH q1 * global"], []),
    "FLUSH persist": ([], ["FLUSH q1 x persist"], []),
    "FLUSH persist of the region": ([], ["FLUSH q1 * persist"], []),
    "FLUSH persist, fenced": ([], ["FLUSH q1 x persist F"], []),
    "FLUSH on another queue pair": ([], ["FLUSH q2 x persist", "poll q2"], []),
    "FLUSH of the region on another queue pair": ([], ["poll q1", "FLUSH q2 * persist", "poll q2"], []),
    "READ on another queue pair": ([], ["poll q1", "R q2 y r", "poll q2"], []),
    "FLUSH of another range": ([], ["FLUSH q1 y persist"], []),
    "FLUSH before it": (["FLUSH q1 * persist"], [], []),
    "READ before it": (["R q1 x r"], [], []),
}
ROW = {
    "READ of another address": "READ",
    "READ, fenced": "READ",
    "SEND, clwb, reply": "SEND, CPU flush, reply",
    "SEND, clflush, reply": "SEND, CPU flush, reply",
    "SEND, clflushopt, reply": "SEND, CPU flush, reply",
    "FLUSH global of the region": "FLUSH global",
    "FLUSH persist of the region": "FLUSH persist",
    "FLUSH persist, fenced": "FLUSH persist",
    "FLUSH of the region on another queue pair": "FLUSH on another queue pair",
}
"""Which row of the table a sequence belongs to, where it is not called the same."""
SURROUNDINGS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    # before the update and between it and the requests behind it: none of it covers the update, none of it uncovers it
    "": ([], []),
    ", behind another WRITE": (["W q1 v 1"], []),
    ", twice": (["W q1 x 2"], []),
    ", polled": ([], ["poll q1"]),
    ", another WRITE between": ([], ["W q1 v 1"]),
    ", traffic on another queue pair": (["W q2 v 1"], ["R q2 v s", "poll q2"]),
}


def covers() -> Iterator[Test]:
    """After an update and what follows it have completed and B loses power: is the update there?"""
    for (update, text), (follow, (first, behind, b)) in product(UPDATES.items(), FOLLOWS.items()):
        if not _stated(text.split()[0], follow):
            continue
        for surroundings, (before, between) in SURROUNDINGS.items():
            if surroundings and text != UPDATES["WRITE"]:
                continue
            received = ["recv q1"] if text.startswith("WIMM") and b else []
            a = [*first, *before, text, *between, *behind, "poll q1"]
            promise = PROMISES[ROW.get(follow, follow)]
            questions: list[Question] = [
                (platform, CrashMoment.END_A, "pm.x==0", not durable, source)
                for platform, (durable, source) in promise.durable.items()
            ]
            yield made("covers", f"{update}{surroundings}; {follow}", a, [*received, *b], questions)


def _stated(verb: str, follow: str) -> bool:
    """Whether the sources say what ``follow`` does for an update of this kind."""
    if follow.startswith("FLUSH"):
        return verb in FLUSH_COVERS
    if follow.startswith("SEND"):  # o9-20 speaks of writes
        return verb in ("W", "WIMM")
    return True


def sights() -> Iterator[Test]:
    """After an update and its follow-up have completed: does B see it once a message on another queue pair has come?"""
    for follow, (first, behind, b) in FOLLOWS.items():
        visible = PROMISES[ROW.get(follow, follow)].visible
        if visible is None or (b and b[-1] == "reply" and len(b) > 2):
            continue
        for update in ("WRITE", "WRITE of two words", "WRITE, inline"):
            a = [*first, UPDATES[update], *behind, "poll q1", "SEND q3", "poll q3"]
            questions: list[Question] = [
                (platform, CrashMoment.NONE, "seen==0", not visible[0], visible[1]) for platform in PLATFORMS
            ]
            unseen = SHOWS_TOO if follow.startswith("FLUSH persist") else ""
            yield made("sights", f"{update}; {follow}", a, [*b, "recv q3", "ld x seen"], questions, unseen=unseen)


def unordered() -> Iterator[Test]:
    """As ``covers``, where placement is not in order, and where all updates that the adapter had accepted survive."""
    for follow, (first, behind, b) in FOLLOWS.items():
        for update in ("WRITE", "WRITE of two words", "WRITE with immediate"):
            text = UPDATES[update]
            received = ["recv q1"] if update == "WRITE with immediate" and b else []
            a = [*first, text, *behind, "poll q1"]
            questions: list[Question] = []
            for platform in PLATFORMS:
                for way in PLACEMENTS:
                    stated = placed(ROW.get(follow, follow), platform, way)
                    if stated is not None:
                        durable, source = stated
                        questions.append((f"{platform}; {way}", CrashMoment.END_A, "pm.x==0", not durable, source))
            questions += [
                (name, CrashMoment.END_A, "pm.x==0", False, WSP) for name in ("WSP, DDIO on", "WSP, DDIO off")
            ]
            yield made("unordered", f"{update}; {follow}", a, [*received, *b], questions)


def placed(row: str, platform: str, way: str) -> tuple[bool, str] | None:
    """The verdict of a row with relaxed ordering or out-of-order placement, and its source; None where no source has
    one.
    """
    durable, source = PROMISES[row].durable[platform]
    if way == "relaxed ordering" and row == "READ":
        return False, "AMD PG344: a read with relaxed ordering may pass writes"
    if not durable or row.startswith(("FLUSH", "SEND, CPU")):
        return durable, source
    if row == "READ":
        return True, f"mlx5dv_create_qp(3), OOO_DP: reads stay in order; {source}"
    if row == "SEND, reply":
        return True, f"ibv_reg_mr(3): receive completions publish all data before them; {source}"
    return None


# the order of execution on one queue pair ----------------------------------------------------------------------

FIRST: Mapping[str, str] = {"W": "W q1 x 1", "R": "R q1 x r", "FAA": "FAA q1 x 1 r", "AW": "AW q1 x 1"}
MIDDLE: Mapping[str, str] = {"W": "W q1 y 9", "R": "R q1 y m", "FAA": "FAA q1 y 9 m", "AW": "AW q1 y 9"}
LAST: Mapping[str, str] = {"W": "W q1 x 4", "R": "R q1 x s", "FAA": "FAA q1 x 4 s", "AW": "AW q1 x 4"}
OVERTAKEN: Mapping[tuple[str, str], str] = {
    # the outcome that shows that the last was executed before the first, both on x
    ("W", "R"): "s==0", ("W", "FAA"): "s==0", ("R", "W"): "r==4", ("R", "FAA"): "r==4", ("R", "AW"): "r==4",
    ("FAA", "W"): "r==4", ("FAA", "R"): "s==0", ("FAA", "FAA"): "r==4 and s==0", ("FAA", "AW"): "r==4",
    ("AW", "R"): "s==0", ("AW", "FAA"): "s==0", ("AW", "AW"): "mem.x==1", ("AW", "W"): "mem.x==1",
    ("W", "W"): "mem.x==1", ("W", "AW"): "mem.x==1", ("R", "R"): "r==1 and s==0",
}  # fmt: skip


def sequences() -> Iterator[Test]:
    """Two requests on one variable, with up to one on another variable between them, fenced or not."""
    for (first, last), outcome in OVERTAKEN.items():
        for middle in (None, *MIDDLE):
            kinds = [first, *([middle] if middle else []), last]
            for fence in range(len(kinds)):
                fenced = [fence > 0 and i == fence for i in range(len(kinds))]
                texts = [FIRST[first], *([MIDDLE[middle]] if middle else []), LAST[last]]
                texts = [f"{text} F" if flag else text for text, flag in zip(texts, fenced, strict=True)]
                allowed = not in_order(kinds, fenced, 0, len(kinds) - 1)
                plain = [False] * len(kinds)
                if (first, last) == ("AW", "W") and allowed == in_order(kinds, plain, 0, len(kinds) - 1):
                    continue  # the fence waits for the answer; no source says whether the word is in memory by then
                questions: list[Question] = [
                    (platform, CrashMoment.NONE, outcome, allowed, ORDER_SOURCE)
                    for platform in ("ADR, DDIO on", "eADR, DDIO off")
                ]
                b = ["st x 1"] if first == last == "R" else []  # one side has to write
                unseen = ONE_BY_ONE if first == last == "FAA" else ""
                yield made("sequences", "; ".join(texts), [*texts, "poll q1"], b, questions, unseen=unseen)


# a record and its commit flag ----------------------------------------------------------------------------------

BETWEEN: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "nothing": ([], []),
    "READ": (["R q1 x r"], []),
    "READ, polled": (["R q1 x r", "poll q1"], []),
    "FLUSH global": (["FLUSH q1 x global"], []),
    "FLUSH global, polled": (["FLUSH q1 x global", "poll q1"], []),
    "FLUSH persist": (["FLUSH q1 x persist"], []),
    "FLUSH persist, polled": (["FLUSH q1 x persist", "poll q1"], []),
    "FLUSH persist of the region": (["FLUSH q1 * persist"], []),
    "polled": (["poll q1"], []),
    "SEND, reply": (["SEND q1", "wait reply"], ["recv q1", "reply"]),
    "SEND, CPU flush, reply": (["SEND q1", "wait reply"], ["recv q1", "clwb x", "reply"]),
    "FLUSH on another queue pair": (["FLUSH q2 x persist", "poll q2"], []),
}
FLAGS: Mapping[str, str] = {"WRITE": "W q1 flag 1", "fenced WRITE": "W q1 flag 1 F", "ATOMIC WRITE": "AW q1 flag 1"}


def commits() -> Iterator[Test]:
    """A record, something between, and a flag: is the flag ever durable without the record?"""
    for (between, (texts, b)), (flag, last) in product(BETWEEN.items(), FLAGS.items()):
        stated = {platform: committed(between, flag, platform) for platform in PLATFORMS}
        questions: list[Question] = [
            (platform, CrashMoment.ANY, "pm.flag==1 and pm.x==0", not verdict[0], verdict[1])
            for platform, verdict in stated.items()
            if verdict is not None
        ]
        for record in ("WRITE", "WRITE of two words") if questions else ():
            yield made(
                "commits",
                f"{record}; {between}; {flag} as flag",
                [UPDATES[record], *texts, last, "poll q1"],
                b,
                questions,
            )


def committed(between: str, flag: str, platform: str) -> tuple[bool, str] | None:
    """Whether the flag implies the record, and the source for it; None where no source says so."""
    name, polled = between.removesuffix(", polled"), between.endswith(", polled") or "reply" in between
    if name == "polled":
        name, polled = "nothing", True
    durable, source = PROMISES[name.replace(" of the region", "")].durable[platform]
    waits = polled or (name == "READ" and flag == "fenced WRITE")
    if name == "READ" and flag == "ATOMIC WRITE" and not polled:
        return None  # only inferred
    if name.startswith("FLUSH p") and flag == "ATOMIC WRITE":
        waits, source = True, "librpma, example 07: FLUSH, then an atomic write"
    if durable and waits:
        return True, source
    if platform == "eADR, DDIO on":  # visible is durable, and WRITEs become visible in order
        return True, "PCIe base specification 3.0, table 2-40: posted writes in order; PMDK glossary: eADR"
    if name.startswith("FLUSH") and durable and not waits:
        return False, "IBTA annex A19: FLUSH says nothing of later WRITEs, and a fence does not wait for it (rxe)"
    if durable:
        return (
            None if flag == "fenced WRITE" else (False, "HDTX, table 1: a WRITE overtakes a READ unless it is fenced")
        )
    return False, source


# stores of B's core --------------------------------------------------------------------------------------------

FLUSHING: Mapping[str, Sequence[str]] = {
    "nothing": [],
    "clwb": ["clwb x"],
    "clflush": ["clflush x"],
    "clflushopt": ["clflushopt x"],
    "clflushopt, fence": ["clflushopt x", "fence"],
    "fence": ["fence"],
    "clwb of another line": ["clwb v"],
}
STORE_PLACES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "": ([], []),
    ", behind another": (["st v 1"], []),
    ", twice": (["st x 2"], []),
    ", another between": ([], ["st v 1"]),
    ", behind a flushed one": (["st x 2", "clwb x"], []),
}


def stores() -> Iterator[Test]:
    """Two stores of a core and what flushes the first: is the second ever durable without it?"""
    for flush, texts in FLUSHING.items():
        on_adr, on_eadr, source = CPU_FLUSHES[flush]
        for name, (before, between) in STORE_PLACES.items():
            lost = "pm.flag==1 and pm.x!=1"
            questions = _stored(lost, on_adr, on_eadr, source)
            b = [*before, "st x 1", *between, *texts, "st flag 1"]
            yield made("stores", f"store{name}; {flush}; store", [], b, questions)
        if flush in NT_FLUSHES:
            on_adr, on_eadr, source = NT_FLUSHES[flush]
            questions = _stored("pm.flag==1 and pm.x==0", on_adr, on_eadr, source)
            yield made(
                "stores", f"non-temporal store; {flush}; store", [], ["ntst x 1", *texts, "st flag 1"], questions
            )
    line = [("ADR, DDIO on", True), ("ADR, DDIO off", True), ("eADR, DDIO on", True)]
    source = "stores of a core to one line persist in their order: Raad et al., POPL'20 (Px86)"
    for first, second in (("x0", "x1"), ("x1", "x0")):
        same: list[Question] = [
            (name, CrashMoment.ANY, f"pm.{second}==1 and pm.{first}==0", False, source) for name, _ in line
        ]
        yield made("stores", f"{first}, {second} of one line", [], [f"st {first} 1", f"st {second} 1"], same, "8")


def _stored(outcome: str, on_adr: bool, on_eadr: bool, source: str) -> list[Question]:
    certain = {"ADR, DDIO on": on_adr, "ADR, DDIO off": on_adr, "eADR, DDIO on": on_eadr}
    return [(name, CrashMoment.ANY, outcome, not promised, source) for name, promised in certain.items()]


# words, lines and TLPs of one WRITE -----------------------------------------------------------------------------

TORN: Mapping[str, Mapping[str, tuple[bool, bool, str]]] = {
    # grain -> platform -> may the first / the second of two be there alone
    "4": dict.fromkeys(
        PLATFORMS, (False, False, "aligned words of 8 bytes are failure-atomic: Du et al., ICPP'21, 2.2")
    ),
    "8": dict.fromkeys(PLATFORMS, (True, True, "aligned words of 8 bytes are failure-atomic, and nothing larger is")),
    "64": dict.fromkeys(PLATFORMS, (True, True, "lines are independent")),
    "tlp": {
        "ADR, DDIO on": (True, True, "caches evict lines in any order"),
        "ADR, DDIO off": (True, True, "the I/O write cache drains in any order"),
        "eADR, DDIO on": (True, False, "PCIe base specification 3.0, table 2-40: posted TLPs in order"),
    },
}


def tears() -> Iterator[Test]:
    """Of two pieces of one update, may one be there and the other not?"""
    for grain, platforms in TORN.items():
        for verb, text in (("WRITE", "W q1 x0+x1 1"), ("WRITE with immediate", "WIMM q1 x0+x1 1")):
            questions: list[Question] = []
            for platform, (first, second, source) in platforms.items():
                questions.append((platform, CrashMoment.ANY, "pm.x0==1 and pm.x1==0", first, source))
                questions.append((platform, CrashMoment.ANY, "pm.x1==1 and pm.x0==0", second, source))
                questions.append((platform, CrashMoment.ANY, "pm.x0==1 and pm.x1==1", True, "all of it may have come"))
                if grain == "8":
                    whole = f"{platform}; whole lines"
                    at_once = "a platform whose lines are accepted whole"
                    questions.append((whole, CrashMoment.ANY, "pm.x0==1 and pm.x1==0", False, at_once))
                    questions.append((whole, CrashMoment.ANY, "pm.x1==1 and pm.x0==0", False, at_once))
            for follow, behind in (("", []), (", behind another", ["W q1 v 1"])):
                yield made(
                    "tears", f"{verb} at grain {grain}{follow}", [*behind, text, "poll q1"], [], questions, grain
                )
        if grain == "4":
            questions = [
                (platform, CrashMoment.ANY, outcome, False, "IBTA A19.4.2: an ATOMIC WRITE is never torn")
                for platform, outcome in product(PLATFORMS, ("pm.x0==1 and pm.x1==0", "pm.x1==1 and pm.x0==0"))
            ]
            yield made("tears", "ATOMIC WRITE", ["AW q1 x0+x1 1", "poll q1"], [], questions, grain)


# a persistent memory region on a device --------------------------------------------------------------------------

BARRIERS: Mapping[str, tuple[Sequence[str], Sequence[str], int]] = {
    # behind the WRITE, B, and which bit of PMRWBM makes it a barrier
    "nothing": ([], [], 0),
    "READ": (["R q1 x r"], [], 1),
    "READ of another address": (["R q1 y r"], [], 1),
    "READ of the host's DRAM": (["R q1 dram.y r"], [], 0),
    "READ, then PMRSTS": (["R q1 x r", "poll q1", "SEND q1", "wait reply"], ["recv q1", "pmrsts", "reply"], 3),
    "READ, then a load": (["R q1 x r", "poll q1", "SEND q1", "wait reply"], ["recv q1", "ld y s", "reply"], 1),
    "SEND, CPU flush, reply": (["SEND q1", "wait reply"], ["recv q1", "clwb x", "reply"], 0),
}


def devices() -> Iterator[Test]:
    """After a WRITE to the region of an NVMe drive and what follows it: is it persistent?"""
    for follow, (behind, b, bit) in BARRIERS.items():
        for update in ("WRITE", "WRITE of two words", "WRITE, inline"):
            for polled in (False, True):
                a = [UPDATES[update], *(["poll q1"] if polled else []), *behind, "poll q1"]
                questions: list[Question] = [
                    (f"PMR; PMRWBM {bits}", CrashMoment.END_A, "pm.x==0", not bits & bit, PMRWBM) for bits in range(4)
                ]
                yield made("devices", f"{update}{', polled' if polled else ''}; {follow}", a, b, questions)
