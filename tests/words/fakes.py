"""Hand-made runs and findings: what the face shows, without an engine behind it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rpsim.app.terminal.work import JobOutcome
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.history import Torn
from rpsim.validation.crash.findings import Counterexample, CrashReport, LineFate, TimelineRow

PLATFORMS = ("optane-adr, ddio on", "optane-adr, ddio off", "optane-eadr, ddio on", "optane-eadr, ddio off")
COUNTED = {"verbs": 2.0, "round_trips": 2.0, "flushes": 0.0}
REASON = "no READ, receive, FLUSH or atomic of this QP had forced it on"

LINE = LineFate("server[0]", "pm", 0x4C0, "line 0x4c0", "WRITE of operation 1 (put k17 = v2)", "nic", REASON)


def lost_put(condition: Condition = Condition.NO_LOST_ACK) -> Counterexample:
    """The finding that the project began with: a completed WRITE that is still in the NIC."""
    return Counterexample(
        condition=condition,
        instant_ps=2_011_000,
        operations=1,
        object=17,
        lost=(LINE,),
        recovered=1,
        explanation="get k17 -> v1, but put k17 = v2 had returned at 2.010 us",
        timeline=(
            TimelineRow(0, "client 3", "put k17 = v2  invoke"),
            TimelineRow(1_212_000, "client 3", "  WRITE posted"),
            TimelineRow(1_655_000, "server", "staged in the NIC"),
            TimelineRow(2_010_000, "client 3", "  completion, put ok"),
            TimelineRow(2_011_000, "", "power failure", "CRASH"),
            TimelineRow(2_011_000, "server", f"line 0x4c0 may still be in the NIC: {REASON}", "LOST"),
            TimelineRow(2_011_000, "recovery", "recovery: k17 -> v1"),
        ),
        case={"scheme": "client-active", "platform": PLATFORMS[0], "instant_ps": 2_011_000},
    )


def crowded() -> Counterexample:
    """Two clients, two servers, long texts, two lost lines, a torn value."""
    other = LineFate("server[1]", "pm", 0x1000, "index[17]", "store by server[1]", "store_buffer", "no sfence")
    return Counterexample(
        condition=Condition.COMMITTED,
        instant_ps=1_234_567_890,
        operations=3,
        object=17,
        lost=(LINE, other),
        recovered=Torn("words 0-3 of v5, zeros after"),
        explanation="get k17 of a fresh client found a value that nobody had ever written: words 0-3 of v5, then zeros",
        timeline=(
            TimelineRow(1_230_000_000, "client 3", "put k17 = v5  invoke"),
            TimelineRow(1_231_500_000, "client 12", "get k17  invoke with a description that goes on and on"),
            TimelineRow(
                1_232_000_000, "server[0]", "allocates log+0x4c0 for 256 bytes and answers with a SEND of 64 bytes"
            ),
            TimelineRow(1_232_500_000, "server[1]", "index[17] stored"),
            TimelineRow(1_234_567_890, "", "power failure", "CRASH"),
            TimelineRow(1_234_600_000, "client 99", "get k17 -> torn (words 0-3 of v5, zeros after)"),
        ),
    )


def report(scheme: str, platform: str, verdicts: tuple[str, str, str], examples: list[Counterexample]) -> CrashReport:
    conditions = (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE)
    found = dict(zip(conditions, map(Verdict, verdicts), strict=True))
    return CrashReport(
        scheme=scheme,
        platform=platform,
        fault="server[0] power",
        view="adversarial",
        instants=1_204,
        states=9_731,
        recoveries_run=803,
        verdicts_computed=29_193,
        exhaustive=True,
        over="every cut of the places at every instant, object by object",
        verdicts=found,
        violating_states={condition: 412 for condition, verdict in found.items() if verdict == "violated"},
        counterexamples=examples,
        seconds=0.5,
    )


def outcome(
    scheme: str, platform: str, crash: CrashReport | None = None, slider: dict[str, Any] | None = None
) -> JobOutcome:
    """One variant: latencies on a ramp, a bit slower for the second scheme and with DDIO off."""
    base = 1_900_000 + (900_000 if scheme == "saw" else 0) + (150_000 if "off" in platform else 0)
    puts = [base + 4_000 * (i % 97) + (1_500_000 if i % 60 == 0 else 0) for i in range(900)]
    gets = [base - 500_000 + 3_000 * (i % 89) for i in range(950)]
    done = {"put": [i * 450_000 for i in range(900)], "get": [i * 430_000 for i in range(950)]}
    p = {"p50": base / 1000 + 190, "p99": base / 1000 + 1500, "p999": base / 1000 + 1880, "mean": base / 1000 + 216.5}
    g = {"p50": base / 1000 - 370, "p99": base / 1000 - 240, "p999": base / 1000 - 236, "mean": base / 1000 - 368.1}
    names = (
        "doorbell",
        "WQE fetch",
        "requester NIC",
        "wire",
        "switch",
        "responder NIC",
        "acknowledgement",
        "completion",
    )
    stretches = (120_000, 330_000, 90_000, 240_000, 220_000, 180_000, 460_000, 260_000)
    way, now = [], 0
    for name, length in zip(names, stretches, strict=True):
        way.append((name, now, now + length))
        now += length
    return JobOutcome(
        scheme=scheme,
        platform=platform,
        summary={
            "scheme": scheme,
            "platform": platform,
            "operations": 1850,
            "throughput_ops_per_s": 4_512_345.6 if scheme == "client-active" else 2_712_003.1,
            "latency_ns": {"get": g, "put": p},
            "per_operation": {
                "server": {"cpu_ns": 800.0, "polling_ns": 20.0, "asleep_ns": 0.0} | COUNTED,
                "client": {"cpu_ns": 500.0, "polling_ns": 6000.0, "asleep_ns": 0.0} | COUNTED,
            },
        },
        operations=[(1, 3, "put", "17", 0, 2_010_000, "2010.000", "ok", "")],
        latency_ps={"get": gets, "put": puts},
        completed_ps=done,
        measured_from_ps=20_000_000,
        elapsed_ps=410_000_000,
        hops={"get": way[3:7], "put": way},
        crash=crash,
        slider=slider,
    )


def scenario(**more: Any) -> SimpleNamespace:
    resolved = {
        "scenario": "quickstart",
        "schemes": ["client-active", "saw"],
        "workload": {"kind": "ycsb", "mix": "a", "keys": 200, "value": "256 B", "operations": 2000, "zipf": 0.99},
    }
    variants = [
        SimpleNamespace(workload=SimpleNamespace(keys=5), scheme=s, platform=p, label=p)
        for s in ("client-active", "saw")
        for p in PLATFORMS
    ]
    fields: dict[str, Any] = {
        "name": "quickstart",
        "title": "Two stores, one power cut",
        "seed": 1,
        "workload": SimpleNamespace(kind="ycsb", keys=200),
        "crash": SimpleNamespace(operations=None, keys=None),
        "resolved": lambda: resolved,
        "variants": lambda: variants,
        "expect": {"client-active": {"no_lost_ack": "violated"}, "saw": {"no_lost_ack": "holds"}},
    }
    return SimpleNamespace(**{**fields, **more})


def outcomes(crash: bool = True) -> list[JobOutcome]:
    """Both schemes on all four platforms, as the quickstart would come out."""
    answer = []
    for scheme in ("client-active", "saw"):
        for platform in PLATFORMS:
            if not crash:
                answer.append(outcome(scheme, platform))
                continue
            if scheme == "client-active":
                found = report(
                    scheme,
                    platform,
                    ("holds", "violated", "violated"),
                    [lost_put(), lost_put(Condition.DURABLE)],
                )
            else:
                durable = "violated" if "adr, ddio on" in platform and "eadr" not in platform else "holds"
                examples = [crowded_durable()] if durable == "violated" else []
                found = report(scheme, platform, ("holds", "holds", durable), examples)
            answer.append(outcome(scheme, platform, found, slider(scheme, platform)))
    return answer


def crowded_durable() -> Counterexample:
    story = crowded()
    return Counterexample(
        Condition.DURABLE, story.instant_ps, 3, 17, story.lost, 1, story.explanation, story.timeline, {"scheme": "saw"}
    )


def slider(scheme: str, platform: str) -> dict[str, Any]:
    """One put of two lines, from the NIC to the medium."""
    eadr, cache = "eadr" in platform, "llc" if "ddio on" in platform else "iio_wc"
    safe = {"llc", "wpq", "media"} if eadr else {"wpq", "media"}
    way = ["nic", "pcie", cache, "wpq", "media"]
    forced = {7: 2, 8: 3, 9: 4}  # from this step on, lines are at least at this place of their way
    instants = [
        (0, "put k17 = v2 invoked"),
        (1_655_000, "line 0 staged in the NIC"),
        (1_663_400, "line 0 on PCIe"),
        (1_671_000, "line 1 staged in the NIC"),
        (1_905_000, f"line 0 in {cache}"),
        (1_920_000, f"line 1 in {cache}"),
        (2_010_000, "put k17 = v2 returned"),
        (2_900_000, "get k17 forces lines on"),
        (3_300_000, "all lines in the WPQ"),
        (3_500_000, "all lines on the medium"),
    ]
    steps = []
    for number, (ps, what) in enumerate(instants):
        lines = [fate(line, way[forced.get(number, 0) :] if number >= since else [], safe) for line, since in WRITTEN]
        risky = any(line["survives"] == "maybe" for line in lines)
        recovered = ["v1"] if number == 0 else ["v1", "torn (zeros after 64 bytes)", "v2"] if risky else ["v2"]
        allowed = ["v1"] if number == 0 else ["v1", "v2"] if number < 6 else ["v2"]
        lost = risky and number >= 6
        verdicts = {
            "committed": "violated" if risky else "holds",
            "no_lost_ack": "violated" if lost else "holds",
            "durable": "violated" if set(recovered) - set(allowed) else "holds",
        }
        note = "recovery may return v1, but put k17 = v2 had returned at 2.010 us" if lost else ""
        k17 = {"object": "k17", "recovered": recovered, "allowed": allowed, "verdicts": verdicts, "note": note}
        steps.append({"ps": ps, "what": what, "lines": lines, "objects": [k17]})
    where = {"node": "server[0]", "device": "pm", "writer": "WRITE of put k17 = v2"}
    ways = ([1_655_000, 1_663_400, 1_905_000, 3_300_000, 3_500_000], [1_671_000, 1_671_000, 1_920_000, 3_300_000, None])
    return {
        "scheme": scheme,
        "platform": platform,
        "title": "put k17 = v2 by client 3, then a power failure",
        "domain": "eadr" if eadr else "adr",
        "operations": [
            {
                "number": 1,
                "process": 3,
                "f": "put",
                "object": "k17",
                "value": "v2",
                "invoke_ps": 0,
                "return_ps": RETURN,
            },
            {
                "number": 2,
                "process": 5,
                "f": "get",
                "object": "k17",
                "value": None,
                "invoke_ps": RETURN,
                "return_ps": None,
            },
        ],
        "lines": [
            {
                "id": i,
                "address": 1216 + 64 * i,
                "label": label,
                "places": [list(pair) for pair in zip(way, ps, strict=True)],
            }
            | where
            for i, (label, ps) in enumerate(zip(("log+0x4c0", "log+0x500"), ways, strict=True))
        ],
        "steps": steps,
    }


RETURN = 2_010_000
WRITTEN = ((0, 1), (1, 3))
"""Line, and the step from which on it is written."""


def fate(line: int, may_be: list[str], safe: set[str]) -> dict[str, Any]:
    kept = [place in safe for place in may_be]
    survives = "absent" if not may_be else "yes" if all(kept) else "maybe" if any(kept) else "no"
    return {"id": line, "may_be": may_be, "survives": survives}
