"""The guarantees of schemes: after which faults, and the small scenario that each kind of fault is explored with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files

from ...protocols.failures import ALL, CLIENT, KINDS, LOST, POWER, PROCESS
from ...protocols.guarantees import NO_FAULT, Verdict
from ...protocols.registry import small_options
from ...protocols.scheme import Scheme
from ...scenarios.schema.faults import IN_RECOVERY, kinds_of
from ...scenarios.schema.known import SchemeFacts
from ...scenarios.schema.load import load_scenario
from ...scenarios.schema.schema import Scenario
from ...scenarios.schema.workloads import Ycsb
from ...scenarios.ycsb import DELETE
from .structures import OPERATIONS_EACH, STRUCTURES, fitted

QUICK = ("vary.ddio=[on]",)
"""Settings that make a first look smaller: fewer platforms. Smaller runs would find less, and vary with the seed."""
ROUNDS = ("workload.mix=a", "workload.operations=120")
"""Settings by which the slots of a log come round: a slot that was used before holds an older call."""
AGAIN = ("workload.operations=2", "roles.client.machines=1", "crash.schedules=1", "crash.images=16384")
"""Settings of several machines where a recovery fails as well: each instant of each recovery is a run. An object of
HyperLoop has more images than 4,096, and all are tried."""
SEVERAL = "several-machines"
"""The scenario of schemes that have more than one machine beside clients: small, since more may be lost in each."""
SEGMENTS = ("workload.operations=5",)
"""Settings of several machines where a log has segments: three writes, which begin one, fill it and close it."""
UNDISTURBED = ("crash.schedules=1",)
"""Settings of several machines where one fails that has no code: no core of its own can have paused before; and
of the last machine of a role, for what it costs: what its part adds to that of the first shows without pauses."""
QUICK_SEVERAL = (*UNDISTURBED, "crash.images=256")
"""Settings of several machines for a first look ..."""
QUICK_NO_FAULT = ("crash.schedules=2",)
"""... and where nothing fails: on its way a WRITE of 4 KiB passes each of them, so a run takes seconds."""
REMOVALS = ("workload.deletes=0.34", "workload.seed=1")
"""Settings of several machines where one with code fails: what puts leave to clients, removals may need it for. They
are drawn: every seed has the same work, in which some come."""
OPAQUE = "opaque-recovery"
"""The scenario of power failures of schemes that recover all at once: small, since each state is a whole recovery."""


def usual(kind: type[Scheme]) -> str:
    """The power of the first machine that recovers, or else of the first beside clients."""
    servers = {name: role for name, role in kind.role_types.items() if not role.invokes}
    first = next((name for name, role in servers.items() if role.recovers()), next(iter(servers), "server"))
    return f"{first}[0] {POWER}"


def every(kind: type[Scheme], *, last: bool = True) -> list[str]:
    """The faults that ``every`` stands for: those that the scheme declares, the mildest first, of each role's first
    machine and, where an option of the scheme says how many there are, of its ``last`` one (the tail of a chain, or a
    node that no client calls), not again in recovery. A client's power ends its processes, so only the end of one is
    tried; that of a host too.
    """
    return list(dict.fromkeys(_every(kind, last=last)))


def _every(kind: type[Scheme], *, last: bool) -> Iterator[str]:
    facts = SchemeFacts.of(kind)
    roles = [CLIENT, *(name for name in kind.role_types if name != CLIENT)]
    ends = {role: _ends(kind, role) if last else (0,) for role in roles}
    yield NO_FAULT
    yield from (f"{role}[{n}] {PROCESS}" for role in roles if PROCESS in kinds_of(role, facts) for n in ends[role])
    for how in (kind for kind in KINDS if kind != PROCESS):
        others = [role for role in roles if role != CLIENT or (facts.roles[role].hosts and how == POWER)]
        able = [role for role in others if how in kinds_of(role, facts)]
        yield from (f"{role}[{n}] {how}" for role in able for n in ends[role])
        if how == POWER:
            yield from (f"{role}[0] {how} {IN_RECOVERY}" for role in able if kind.role_types[role].recovers())
    if machines(kind) > 1 and POWER in kinds_of(ALL, facts):
        yield from (f"{ALL} {POWER}", f"{ALL} {POWER} {IN_RECOVERY}")


def _ends(kind: type[Scheme], role: str) -> tuple[int, ...]:
    """The first and the last machine of a role by their indexes, with small options; the first alone where no option
    counts them.
    """
    by = kind.role_types[role].counted_by or kind.role_types[role].at_least_by
    count = 1 if by is None else int(small_options(kind).get(by, kind.option(by)))
    return (0, count - 1) if count > 1 else (0,)


def machines(kind: type[Scheme]) -> int:
    """How many machines there are beside clients, unless a scenario says otherwise; of a role of which it may say how
    many there are, two.
    """
    servers = [role for role in kind.role_types.values() if not role.invokes]
    named = sum(int(kind.option(by)) if (by := role.counted_by or role.at_least_by) else 1 for role in servers)
    return named + any(role.many and not role.at_least_by for role in servers)


def scenario_of(fault: str, kind: type[Scheme]) -> str:
    """The name of the scenario that a scheme's fault is explored with."""
    words = fault.split()
    if kind.one_writer:
        return STRUCTURES
    if fault.strip() in (NO_FAULT, "none"):
        return "no-fault"
    if machines(kind) > 1:
        return SEVERAL
    again = words[-2:] == IN_RECOVERY.split()
    if not again and (LOST in words or not words or words[-1] != POWER or words[0].startswith(CLIENT)):
        return "survivors"
    if any(role.recovers() and role.opaque() for role in kind.role_types.values()):
        return OPAQUE
    return "power-in-recovery" if again else "server-power"


def file_of(name: str) -> str:
    """The path of one of these scenarios."""
    return str(files(__package__) / f"{name}.yaml")


def fitted_to(kind: type[Scheme], name: str, fault: str) -> tuple[str, ...]:
    """The settings of one of these scenarios for a scheme: smaller values where it has no room for them, more writes
    where it has a log of slots, small options where there are several machines; for a structure with one writer and a
    fault all that :mod:`.structures` says.
    """
    if name == STRUCTURES:
        return fitted(kind, fault)
    scenario = load_scenario(file_of(name))
    most = kind.limits.value_bytes
    rounds: tuple[str, ...] = ROUNDS if "slots" in kind.options and name == "server-power" else ()
    if name == SEVERAL:
        role = kind.role_types.get(fault.partition("[")[0])
        again = fault.endswith(IN_RECOVERY)
        removes = role is not None and not (role.passive or role.invokes) and DELETE in kind.operations
        if again:
            rounds = (*AGAIN, *REMOVALS) if removes else AGAIN
        elif role is not None and (role.passive or "[0]" not in fault):
            rounds = (*UNDISTURBED, *REMOVALS) if removes else UNDISTURBED
        elif removes:
            rounds = REMOVALS
        if "segment" in kind.options and not again:
            rounds = (*SEGMENTS, *rounds)
        if chosen := small_options(kind):
            rounds = (f"options={json.dumps(chosen)}", *rounds)
    if kind.model == "txn":
        rounds = (_on_two_objects(scenario, reads=name != SEVERAL), *rounds)
    if kind.model == "allocator":
        rounds = (_allocations(scenario), *rounds)
    fits = most is None or most >= scenario.workload.value_bytes
    return rounds if fits else (*rounds, f"workload.value={most} B")


def _on_two_objects(scenario: Scenario, *, reads: bool) -> str:
    """The setting that makes a scenario's operations transactions, each on two objects, so that several machines take
    part; half as many. They write, and half of their steps ``reads`` where nothing fails.
    """
    workload = scenario.workload
    assert isinstance(workload, Ycsb)
    given = {"kind": "mix", "shares": {"txn": 1.0}, "steps": 2, "keys": max(3, workload.keys), "zipf": 0}
    given |= {"step_reads": 0.5 if reads else 0, "operations": workload.operations // 2}
    given |= {} if reads else {"order": workload.order}
    return f"workload={json.dumps(given | {'value': f'{workload.value_bytes} B'})}"


def _allocations(scenario: Scenario) -> str:
    """The setting that makes a scenario's operations allocations and frees of one heap; as few as a structure's."""
    workload = scenario.workload
    assert isinstance(workload, Ycsb)
    given = {"kind": "mix", "shares": {"alloc": 0.6, "free": 0.4}, "keys": 1, "amount": workload.value_bytes}
    given |= {"operations": min(workload.operations, OPERATIONS_EACH), "value": f"{workload.value_bytes} B"}
    return f"workload={json.dumps(given)}"


def quickly(kind: type[Scheme], name: str) -> tuple[str, ...]:
    """The settings of one of these scenarios for a first look at a scheme, beside :data:`QUICK`."""
    if machines(kind) == 1:
        return ()
    return {SEVERAL: QUICK_SEVERAL, "no-fault": QUICK_NO_FAULT}.get(name, ())


def with_own_objects(name: str) -> tuple[str, ...]:
    """The settings of one of these scenarios by which each process has objects of its own: as many keys as there are,
    or one each.
    """
    scenario = load_scenario(file_of(name))
    clients = scenario.role(CLIENT)
    keys = max(scenario.workload.keys, clients.machines * clients.processes)
    return "workload.own=true", f"workload.keys={keys}"


def joined(verdicts: Iterable[str]) -> str:
    """The verdict of several explorations of the same together: violated if one is, else undecided if one is."""
    found = set(verdicts)
    return next((str(v) for v in (Verdict.VIOLATED, Verdict.UNDECIDED) if v in found), str(Verdict.HOLDS))
