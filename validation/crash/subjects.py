"""What an exploration judges: each object by itself, objects that transactions tie, or all of them together.

A local condition (a history meets it if each of its objects does) is judged object by object; where the model is
``txn``, by the objects that transactions connect. The buffered conditions are not local: all objects are read after
one and the same failure, and judged together.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...protocols.failures import CLIENT
from ...protocols.guarantees import EXPLORED, Condition
from ...protocols.objects import REGISTERS, TRANSACTIONAL, conditions_of
from ...protocols.registry import scheme
from ...scenarios.calls import probe_of
from ...scenarios.history import History, Operation, Removed
from ...scenarios.run.results import RunResult
from ...scenarios.run.workload import has_one_writer, plan
from ...scenarios.schema.known import SchemeFacts
from ...scenarios.schema.schema import Scenario, Variant
from ...sim.streams import Streams
from ..histories.recorded import JudgedHistory
from ..oracle import RegisterHistory, RemovableHistory, followed

Follower = RegisterHistory | RemovableHistory | JudgedHistory
"""Who follows a subject event by event, and answers for a crash at that moment."""

TOGETHER = frozenset({Condition.BUFFERED, Condition.BUFFERED_CUT})
"""The conditions that are not local."""
REST_WITHIN_PS = 10_000_000_000
"""For so long after its last return a run goes on whose machines do not come to rest: a choice, a hundred times the
work of a call of ``rpc-heavy``.
"""
REST_LOOK_PS = 1_000_000
"""The time from one look at whether they are at rest to the next, or a sixteenth of the time so far if that is more."""
AGED = "aged"
"""The kind of an event at which nothing happens but that an update is as old as ``bounded_loss`` allows for."""


@dataclass(frozen=True)
class Subject:
    """One thing that is judged, by its ``conditions``."""

    key: Hashable
    """A name of its own."""
    targets: tuple[Hashable, ...]
    """What is read of it: objects, or tuples of objects that are read in one transaction."""
    conditions: frozenset[Condition]
    from_scratch: bool
    """Whether each answer is computed anew, by the general oracle."""

    @property
    def object(self) -> Hashable:
        """What a violation calls it: an object, or a tuple of several."""
        return self.targets[0] if len(self.targets) == 1 else self.targets

    @property
    def together(self) -> bool:
        """Whether it is several objects, each read by itself after the same failure."""
        return isinstance(self.key, _Whole)


class _Whole(tuple[Hashable, ...]):
    """The key of all objects together."""


def label(object: Hashable) -> str:
    """The name of an object, or of several, as a case has it: ``k0, k1``."""
    return ", ".join(map(label, object)) if isinstance(object, tuple) else str(object)


def names_in(objects: Iterable[Hashable]) -> set[str]:
    """The names of single objects in labels and tuples."""
    return {name for object in objects for name in label(object).split(", ")}


def judgeable(result: RunResult, conditions: Iterable[Condition]) -> frozenset[Condition]:
    """Those of the conditions that the run's objects can be judged by."""
    known = conditions_of(result.history.model)
    wanted = {condition for condition in conditions if condition in known}
    if result.loss_ps is None:
        wanted.discard(Condition.BOUNDED_LOSS)
    if any(isinstance(operation.argument, Removed) for operation in result.history.operations):
        wanted.discard(Condition.SESSION)  # absent is no value of its own
    return frozenset(wanted)


def subjects(
    result: RunResult, conditions: Collection[Condition], only: Iterable[Hashable] | None = None
) -> list[Subject]:
    """The subjects of a run; ``only`` limits them to those with some of these objects."""
    history, names = result.history, result.scheme.sizes.objects
    if only is not None:
        wanted = names_in(only)
        names = [name for name in names if str(name) in wanted]
    targets = components(history, names) if history.model in TRANSACTIONAL else list(names)
    asked = judgeable(result, conditions)
    local = asked - TOGETHER
    plain = local & frozenset(EXPLORED) if history.model in REGISTERS and not history.promised else frozenset()
    found = [Subject(target, (target,), plain, False) for target in targets if plain]
    if local - plain:
        found += [Subject((target, "from scratch"), (target,), local - plain, True) for target in targets]
    if asked & TOGETHER and targets:
        found.append(Subject(_Whole(targets), tuple(targets), asked & TOGETHER, True))
    return found


def components(history: History, names: Sequence[Hashable]) -> list[Hashable]:
    """Tuples of the objects that transactions tie together, in the order of ``names``."""
    group: dict[Hashable, list[Hashable]] = {name: [name] for name in names}
    for operation in history.operations:
        tied = [name for name in (operation.object if isinstance(operation.object, tuple) else ()) if name in group]
        for name in tied[1:]:
            first, other = group[tied[0]], group[name]
            if first is not other:
                first += other
                group.update(dict.fromkeys(other, first))
    order = {name: turn for turn, name in enumerate(names)}
    seen = {id(each): tuple(sorted(each, key=order.__getitem__)) for each in group.values()}
    return list(seen.values())


def follower(subject: Subject, result: RunResult) -> Follower:
    """Who follows a subject from the beginning of a run."""
    (target, *_) = subject.targets
    if not subject.from_scratch:
        return followed(target, result.history, loaded=target in result.initial)
    probes = [probe_of(result.scheme, target) for target in subject.targets]
    return JudgedHistory(result.history, probes, result.initial, subject.conditions, result.loss_ps)


def follow(one: Follower, kind: str, operation: Operation, at_ps: int) -> None:
    """Have an event noted."""
    if kind == "invoke":
        one.invoke(operation)
    elif kind == AGED:
        if isinstance(one, JudgedHistory):
            one.passed(at_ps)
    elif kind == "applied":
        if isinstance(one, JudgedHistory):
            one.applied(operation)
    elif kind != "retry":  # it is the same operation
        one.complete(operation)


def by_object(found: Iterable[Subject]) -> Mapping[Hashable, list[Subject]]:
    """The subjects that each object is part of; those of everything, syncs as well, under None."""
    of: dict[Hashable, list[Subject]] = {}
    for subject in found:
        for target in subject.targets:
            for name in target if isinstance(target, tuple) else (target,):
                of.setdefault(name, []).append(subject)
        if subject.together:
            of.setdefault(None, []).append(subject)
    return of


def concerned(of: Mapping[Hashable, list[Subject]], operation: Operation) -> Sequence[Subject]:
    """The subjects that an operation is part of."""
    object = operation.object
    return of.get(object[0] if isinstance(object, tuple) else object, ())


def events(result: RunResult, conditions: Collection[Condition]) -> Iterator[tuple[int, str, Operation]]:
    """The events of a run's history; where ``bounded_loss`` is asked for, also when an update has got old enough."""
    yield from result.history.events()
    if Condition.BOUNDED_LOSS in conditions and result.loss_ps is not None:
        for o in result.history.operations:
            if o.outcome == "ok" and o.return_ps is not None and o.f in result.history.updates:
                yield o.return_ps + result.loss_ps + 1, AGED, o


def run_on(result: RunResult, conditions: Collection[Condition]) -> bool:
    """Let a run go on whose operations have returned: servers may go on with what nobody waits for. It ends when all
    machines are at rest (:meth:`.Role.at_rest`), where ``bounded_loss`` is asked for not before its last update is old
    enough. Returns whether they came to rest in time.
    """
    clock = result.system.clock
    returned_ps = max((o.return_ps for o in result.history.operations if o.return_ps is not None), default=0)
    while not all(role.at_rest() for role in result.scheme.machines()):
        past_ps = clock.now_ps - returned_ps
        if past_ps >= REST_WITHIN_PS:
            return False
        clock.run_until(clock.now_ps + min(max(REST_LOOK_PS, past_ps // 16), REST_WITHIN_PS - past_ps))
    last_ps = max((at_ps for at_ps, kind, _ in events(result, conditions) if kind == AGED), default=0)
    if last_ps >= clock.now_ps:
        clock.run_until(last_ps + 1)
    return True


def one_writer(scenario: Scenario, variant: Variant) -> bool:
    """Whether no two client processes of a scenario write one object."""
    clients, facts = scenario.role(CLIENT), SchemeFacts.of(scheme(variant.scheme))
    return has_one_writer(plan(scenario.workload, clients.machines * clients.processes, Streams(scenario.seed), facts))
