"""Small litmus programs at random: hypothesis strategies over the whole language, or over a part of it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from rpsim.models.durability.rules import Placement, Switches
from rpsim.validation.litmus.language.expression import parse_outcome
from rpsim.validation.litmus.language.operations import parse_operation
from rpsim.validation.litmus.language.program import CrashMoment, LitmusCase, LitmusProfile, OutcomeFinding, Test

VARIABLES, QUEUE_PAIRS = ("x", "y"), ("q1", "q2")
ALL_OF_A = ("W", "WW", "R", "FAA", "CAS", "AW", "SEND", "SENDB", "WIMM", "FLUSHP", "FLUSHG", "poll", "st", "Ws")
ALL_OF_B = ("ld", "st", "clwb", "clflushopt", "fence", "clflush", "ntst", "cpucas", "recv")
OF_B = (CrashMoment.NONE, CrashMoment.END_A, CrashMoment.ANY)
SWITCHES = (Switches(), Switches(flush_orders_writes=True), Switches(reads_in_order=False),
            Switches(writes_wait_for_atomics=False), Switches(relaxed_reads=True))  # fmt: skip


def profiles(domains: Sequence[str], placements: Sequence[Placement], switches: Sequence[Switches]):
    return st.builds(
        lambda domain, ddio, nic, whole, switch: LitmusProfile(
            "P", domain, ddio, nic, pmrwbm=1 if domain == "pmr" else 0, whole_lines=whole, switches=switch
        ),
        st.sampled_from(domains), st.booleans(), st.sampled_from(placements), st.booleans(), st.sampled_from(switches),
    )  # fmt: skip


@st.composite
def programs(draw, of_a=ALL_OF_A, of_b=ALL_OF_B, domains=("adr", "eadr", "wsp"), placements=tuple(Placement),
          switches=SWITCHES, most=4, fences=True):  # fmt: skip
    """A test with one case for each kind of crash; what it expects means nothing."""
    profile = draw(profiles(domains, placements, switches))
    if profile.domain == "pmr":
        of_a = [verb for verb in of_a if not verb.startswith("FLUSH")]
    chosen = draw(st.lists(st.sampled_from(of_a), min_size=1, max_size=most))
    a, used, receives = [], [], {}
    for i, verb in enumerate(chosen):
        name = draw(st.sampled_from(VARIABLES))
        qp = draw(st.sampled_from(QUEUE_PAIRS))
        fence = draw(st.sampled_from(["", "", " F"])) if fences else ""
        if verb == "poll":
            a += [f"poll {one}" for one in dict.fromkeys(used)]
            continue
        text = {
            "W": f"W {qp} {name} {i + 1}{fence}", "WW": f"W {qp} x+y {i + 1}{fence}", "R": f"R {qp} {name} a{i}{fence}",
            "FAA": f"FAA {qp} {name} {10 * (i + 1)} a{i}{fence}", "CAS": f"CAS {qp} {name} 0 {i + 1} a{i}{fence}",
            "AW": f"AW {qp} {name} {i + 1}{fence}", "SEND": f"SEND {qp}{fence}",
            "SENDB": f"SEND {qp} {name} {i + 1}{fence}", "WIMM": f"WIMM {qp} {name} {i + 1}{fence}",
            "FLUSHP": f"FLUSH {qp} {name} persist{fence}", "FLUSHG": f"FLUSH {qp} * global{fence}",
            "st": f"st s {i + 1}", "Ws": f"W {qp} {name} @s{fence}",
        }[verb]  # fmt: skip
        a.append(text)
        if verb != "st":
            used.append(qp)
        if verb in ("SEND", "SENDB", "WIMM"):
            receives[qp] = receives.get(qp, 0) + 1
    a += [f"poll {one}" for one in dict.fromkeys(used) if draw(st.booleans())]
    b = []
    for i, verb in enumerate(draw(st.lists(st.sampled_from(of_b), max_size=most - 1))):
        name = draw(st.sampled_from(VARIABLES))
        if verb == "recv":
            waiting = [qp for qp, count in receives.items() if count]
            if not waiting:
                continue
            qp = draw(st.sampled_from(waiting))
            receives[qp] -= 1
            b.append(f"recv {qp}")
            continue
        b.append({
            "ld": f"ld {name} b{i}", "st": f"st {name} {100 + i}", "clwb": f"clwb {name}", "fence": "fence",
            "clflushopt": f"clflushopt {name}", "clflush": f"clflush {name}", "ntst": f"ntst {name} {100 + i}",
            "cpucas": f"cpucas {name} 0 {100 + i} b{i}",
        }[verb])  # fmt: skip
    return a_test(a, b, profile, draw(st.sampled_from(["8", "64", "tlp"])))


def a_test(a, b, profile, grain="8"):
    """These programs as a test with one case for each crash of B, and for none; what it expects means nothing."""
    program_a = tuple(parse_operation(text, of_a=True) for text in a)
    program_b = tuple(parse_operation(text, of_a=False) for text in b)
    named = sorted({name for operation in (*program_a, *program_b) for name in operation.names})
    asked = " and ".join(f"pm.{name}>=0" for name in named) or "1==1"
    outcomes = {crash: parse_outcome(asked if crash is not CrashMoment.NONE else "1==1") for crash in OF_B}
    cases = tuple(LitmusCase(profile, crash, outcomes[crash], OutcomeFinding.ALLOWED, "") for crash in OF_B)
    return Test("random", program_a, program_b, cases, grain)
