"""A litmus test on one profile, made ready for the machine: requests, updates, and the needs of each by the rules.

Here the rule table becomes bit masks: an event of a request may happen once none of its *needs* is behind. Nothing in
here or in the machine knows the guarantees of a WRITE or a FLUSH; only ``models.durability.rules`` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....models.durability.places import Domain, Path, safe_stage
from ....models.durability.primitive_rules import PRIMITIVE_RULES
from ....models.durability.rules import (
    EXECUTION,
    FENCE_WAITS_FOR,
    RULES,
    Event,
    ExecutionRule,
    Placement,
    RequestKind,
    Rule,
    Scope,
    Target,
    executed_before,
)
from ....sim.trace import Stage
from ..language.packets import Packet, Surroundings
from ..language.program import CROSS_CHANNEL, CrashMoment, LitmusOperation, LitmusProfile, Test, layout


def _holds(first: LitmusOperation, later: LitmusOperation) -> bool:
    """Whether a packet of a primitive's own holds up a later request of its queue pair."""
    if first.packet is None or later.request is None:
        return False
    kind = "SEND" if later.verb in RECEIVED else later.request.name
    return kind in first.packet.holds or (kind == "SEND" and "WRITE" in first.packet.holds)


RECEIVED = frozenset({"SEND", "WIMM"})
"""Operations that consume a receive at B."""


@dataclass(frozen=True)
class Table:
    """The rules to obey: those of ``models.durability.rules``, unless a test changes some to see what that changes."""

    rules: Sequence[Rule] = (*RULES, *PRIMITIVE_RULES)
    execution: Mapping[tuple[RequestKind, RequestKind], ExecutionRule] = field(default_factory=lambda: EXECUTION)
    fence_waits_for: frozenset[RequestKind] = FENCE_WAITS_FOR
    cross_channel: frozenset[str] = frozenset(CROSS_CHANNEL)


@dataclass(frozen=True)
class Needs:
    """Masks of updates that an event waits for: to be visible; to be safe as well; to be safe, visible or not."""

    visible: int = 0
    queued: int = 0
    unseen: int = 0

    def with_others(self, others: Needs) -> Needs:
        """The needs of both."""
        return Needs(self.visible | others.visible, self.queued | others.queued, self.unseen | others.unseen)

    def behind(self, pending: int, dirty: int, unseen: int) -> bool:
        """Whether one of them is not there yet (one that has not been issued is nothing to wait for)."""
        return bool(
            (self.visible & pending)
            | (self.queued & (pending | dirty))
            | (self.unseen & ((pending & ~unseen) | dirty))
        )  # fmt: skip


@dataclass(frozen=True)
class Update:
    """One word (or, where lines are whole, the part of a line) that one operation writes."""

    number: int
    request: int
    """Of A, by its number; -1 for a store of B's core."""
    operation: LitmusOperation
    fields: tuple[int, ...]
    line: int
    target: Target

    @property
    def bit(self) -> int:
        """Its place in a mask."""
        return 1 << self.number


@dataclass(frozen=True)
class ProgramStep:
    """One step of B's program: a litmus operation, or a part of one."""

    verb: str
    operation: LitmusOperation
    variable: int = -1
    update: Update | None = None
    register: int = -1


NEVER_COMES = (-1,)
"""The messages of a WAIT for more than A sends."""


@dataclass(frozen=True)
class Relayed:
    """One operation of B's adapter, and what it waits for beside the one ``before`` it on its queue pair (-1: none)."""

    operation: LitmusOperation
    before: int
    request: int
    """Its number among the plan's requests; -1 for a WAIT or an ENABLE."""
    messages: tuple[int, ...]
    """The requests of A whose receive completions a WAIT is for."""
    enables: tuple[tuple[int, int], ...]
    """The ENABLEs that are for its queue pair, each with how many requests it lets go."""
    turn: int
    """So many requests have to be enabled; 0: it needs none."""


class LitmusPlan:
    """Everything about a test on a profile that does not change while it runs."""

    def __init__(
        self, test: Test, profile: LitmusProfile, crash: CrashMoment, persistent: Sequence[str], table: Table
    ) -> None:
        self.test = test
        self.profile = profile
        self.crash = crash
        self.table = table
        self.layout = layout(test, profile.domain)
        self.variables = self.layout.variables
        self.index = {name: i for i, name in enumerate(self.variables)}
        self.strict = profile.nic is Placement.STRICT and profile.data_in_order in (None, "whole message")
        seen = crash is CrashMoment.NONE and profile.data_in_order is not None
        self._in_pieces = self.layout.apart or seen
        """The order of the bytes speaks of who looks at them: a power failure may leave any of one TLP."""
        self.requests = [operation for operation in (*test.a, *test.relay) if operation.request]
        """Those of A, and behind them those of B's adapter."""
        self.of_a = sum(operation.request is not None for operation in test.a)
        self.kinds = [operation.request for operation in self.requests if operation.request is not None]
        self.qps = sorted({operation.qp for operation in self.requests})
        self.locals = sorted({operation.source for operation in test.a if operation.source})
        """A's local variables."""
        self.b_registers = [register for operation in test.b for register in operation.registers]
        self.line_of = [self.layout.line[name] for name in self.variables]
        looks_at_media = crash not in (CrashMoment.NONE, CrashMoment.A)
        self.tracked = {self.layout.line[name] for name in persistent} if looks_at_media else set()
        self.updates: list[Update] = []
        self.tlps: list[list[int]] = [self._tlps(i) for i in range(len(self.requests))]
        self.program = [step for operation in test.b for step in self._steps(operation)]
        self.behind_in_block = self._behind_in_block()
        self.line_mask = {line: self._mask(lambda u, line=line: u.line == line) for line in set(self.line_of)}
        self.word_mask = {i: self._mask(lambda u, i=i: i in u.fields) for i in range(len(self.variables))}
        self.tracked_mask = self._mask(lambda u: u.line in self.tracked)
        self.device_mask = self._mask(lambda u: u.target is Target.PMR)
        self.atomics_mask = self._mask(lambda u: u.operation.request is RequestKind.ATOMIC)
        self.safe = max(Stage.QUEUED, *(self.safe_stage(update) for update in self.updates), Stage.VISIBLE)
        """Where lines that have left the caches survive. What lies before it may always be reached at once."""
        self.past_llc = profile.domain == "eadr" and not profile.ddio and not profile.switches.iio_wc_survives
        """The caches survive, but DMA writes pass them by, through a place that does not."""
        self._order()
        self._needs()
        self.relay = [self._relayed(i) for i in range(len(test.relay))]

    # the updates ---------------------------------------------------------------------------------------
    def _mask(self, chosen: object) -> int:
        assert callable(chosen)
        return sum(update.bit for update in self.updates if chosen(update))

    def _update(self, request: int, operation: LitmusOperation, names: Sequence[str]) -> Update:
        name = names[0]
        fields = tuple(self.index[one] for one in names)
        line, target = self.layout.line[name], self.layout.target[name]
        update = Update(len(self.updates), request, operation, fields, line, target)
        self.updates.append(update)
        return update

    def units(self, names: Sequence[str]) -> list[list[str]]:
        """Variables of one operation by the unit that moves at once: a word, or a line where lines are whole."""
        place = self.layout.line if self.profile.whole_lines else self.layout.word
        return [[name for name in names if place[name] == key] for key in dict.fromkeys(place[name] for name in names)]

    def _tlps(self, request: int) -> list[int]:
        """The updates of a request as masks, one for each TLP, in their order."""
        operation = self.requests[request]
        if operation.request in (RequestKind.READ, RequestKind.FLUSH) or not operation.names:
            return []
        masks = [self._update(request, operation, names).bit for names in self.units(operation.names)]
        return masks if self._in_pieces else [sum(masks)]

    def _behind_in_block(self) -> list[int]:
        """By update: those of its WRITE that become visible before it, being before it in its block of 128 bytes."""
        found = [0] * len(self.updates)
        if self.profile.data_in_order != "128 B" or not self._in_pieces:
            return found
        block = [self.layout.block[self.variables[update.fields[0]]] for update in self.updates]
        for update in self.updates:
            found[update.number] = sum(
                other.bit
                for other in self.updates[: update.number]
                if other.request == update.request >= 0 and block[other.number] == block[update.number]
            )
        return found

    def _steps(self, operation: LitmusOperation) -> list[ProgramStep]:
        variable = self.index[operation.names[0]] if operation.names else -1
        register = self.b_registers.index(operation.registers[0]) if operation.registers else -1
        stores = operation.verb in ("st", "ntst", "cpucas")
        update = self._update(-1, operation, operation.names) if stores else None
        fence = ProgramStep("fence", operation)
        match operation.verb:
            case "clwb":
                return [ProgramStep("write back", operation, variable), fence]
            case "clflushopt":
                return [ProgramStep("write back", operation, variable)]
            case "clflush":
                return [ProgramStep("clflush", operation, variable), ProgramStep("clflushed", operation)]
            case _:
                return [ProgramStep(operation.verb, operation, variable, update, register)]

    def _relayed(self, place: int) -> Relayed:
        """What an operation of B's adapter waits for."""
        relay, operation = self.test.relay, self.test.relay[place]
        before = [i for i, one in enumerate(relay[:place]) if one.qp == operation.qp]
        request = -1
        if operation.request:
            request = self.of_a + sum(one.request is not None for one in relay[:place])
        messages: tuple[int, ...] = ()
        if operation.verb == "wait" and "WAIT" in self.table.cross_channel:
            counted = sum(
                relay[i].values[0] for i in before if relay[i].other == operation.other and relay[i].verb == "wait"
            )
            here = [i for i, one in enumerate(self.requests) if one.verb in RECEIVED and one.qp == operation.other]
            wanted = counted + operation.values[0]
            messages = tuple(here[:wanted]) if wanted <= len(here) else NEVER_COMES
        enables: tuple[tuple[int, int], ...] = ()
        turn = 0
        if operation.request and operation.qp in self.test.managed and "ENABLE" in self.table.cross_channel:
            enables = tuple(
                (i, one.values[0]) for i, one in enumerate(relay) if one.verb == "enable" and one.other == operation.qp
            )
            turn = 1 + sum(relay[i].request is not None for i in before)
        return Relayed(operation, max(before, default=-1), request, messages, enables, turn)

    # needs -----------------------------------------------------------------------------------------------
    def earlier(self, request: int) -> list[int]:
        """The requests that were posted before it on its queue pair."""
        return [i for i in range(request) if self.requests[i].qp == self.requests[request].qp]

    def _order(self) -> None:
        switches, execution = self.profile.switches, self.table.execution
        self.silent = sum(1 << i for i, one in enumerate(self.requests) if one.packet and one.packet.silent)
        """Requests whose completion says nothing: they have been answered at once."""
        self.before: list[int] = []
        """By request: the requests that are executed before it."""
        self.fence: list[int] = []
        """By request: the requests that have completed before it is sent."""
        for i, operation in enumerate(self.requests):
            mine = self.earlier(i)
            self.before.append(
                sum(
                    1 << j
                    for j in mine
                    if executed_before(self.kinds[j], self.kinds[i], False, switches, execution)
                )
            )  # fmt: skip
            self.before[i] |= sum(1 << j for j in mine if _holds(self.requests[j], operation))
            waits = [j for j in mine if operation.fenced and self.kinds[j] in self.table.fence_waits_for]
            self.fence.append(sum(1 << j for j in waits))
        self.eager = [self._is_eager(i) for i in range(len(self.requests))]

    def _is_eager(self, request: int) -> bool:
        """Whether executing it as soon as it may be shuts out nothing: all later ones wait for it anyway.

        Where updates that the adapter has accepted survive, a crash distinguishes before from after.
        """
        packet = self.requests[request].packet
        if packet is not None and packet.by_thread:
            return False
        if self.kinds[request] is RequestKind.FLUSH:
            return True
        later = [j for j in range(request + 1, len(self.requests)) if self.requests[j].qp == self.requests[request].qp]
        first = all(self.before[request] >> j & 1 for j in self.earlier(request) if self.tlps[j])
        waited_for = all(self.before[j] >> request & 1 for j in later)
        survives = any(
            self.safe_stage(update) is Stage.ACCEPTED for update in self.updates if update.request == request
        )
        acceptance = self.kinds[request] in (RequestKind.WRITE, RequestKind.SEND) and not survives
        return acceptance and waited_for and first

    def holding(self, event: Event, target: Target) -> list[Rule]:
        """The rules that apply to an event at memory of kind ``target`` here."""
        here = self.profile.circumstances(target)
        return [rule for rule in self.table.rules if rule.event is event and rule.holds(here)]

    def _of(self, rules: Sequence[Rule], chosen: Mapping[Scope, Sequence[Update]]) -> Needs:
        visible = queued = unseen = 0
        for rule in rules:
            for update in chosen.get(rule.scope, ()):
                if update.operation.request not in rule.covers and update.request >= 0:
                    continue
                if not rule.shows:
                    unseen |= update.bit & self.tracked_mask
                elif rule.stage >= self.safe:
                    queued |= update.bit
                elif rule.stage >= Stage.VISIBLE:
                    visible |= update.bit
        return Needs(visible, queued, unseen)

    def _needs(self) -> None:
        self.needs: list[Needs] = []
        """By request: what its execution waits for (an ATOMIC WRITE: its placement)."""
        self.ack: list[Needs] = []
        """By WRITE or SEND: the needs of its ACK."""
        self.received: list[Needs] = []
        """By SEND or WRITE with immediate: the needs of the receive completion."""
        events = {
            RequestKind.READ: Event.READ_COMPLETION,
            RequestKind.ATOMIC: Event.ATOMIC_RESULT,
            RequestKind.ATOMIC_WRITE: Event.ATOMIC_WRITE_PLACED,
        }
        for i, operation in enumerate(self.requests):
            kind = self.kinds[i]
            here = self.layout.target[operation.names[0]] if operation.names else self._region(i)
            own = [u for u in self.updates if u.request == i]
            earlier = [u for u in self.updates if u.request in self.earlier(i)]
            same = [u for u in earlier if u.target is here]
            hit = [
                u for u in earlier if not operation.names or set(u.fields) & {self.index[n] for n in operation.names}
            ]
            flush = Event.FLUSH_PERSISTENT if operation.persistent else Event.FLUSH_GLOBAL
            event = flush if kind is RequestKind.FLUSH else events.get(kind)
            rules = self.holding(event, here) if event and operation.packet is None else []
            found = self._of(rules, {Scope.QP_EARLIER: same, Scope.FLUSH_TARGET: hit})
            if operation.packet is not None:
                found = self._of_packet(operation.packet, here, earlier, same, hit)
            self.needs.append(found)
            mine = [*same, *own] if kind in (RequestKind.WRITE, RequestKind.SEND) else []
            self.ack.append(self._of(self.holding(Event.ACK, here), {Scope.QP_EARLIER: mine}))
            needs = Needs()
            for target in Target if operation.verb in RECEIVED else ():
                rules = self.holding(Event.RECV_COMPLETION, target)
                there = [u for u in (*earlier, *own) if u.target is target]
                needs = needs.with_others(self._of(rules, {Scope.QP_EARLIER: there}))
            self.received.append(needs)

    def _of_packet(
        self, packet: Packet, here: Target, earlier: Sequence[Update], same: Sequence[Update], hit: Sequence[Update]
    ) -> Needs:
        """The needs of the answer of a packet of a primitive's own."""
        found = Needs()

        def need(rules: Sequence[Rule], chosen: Mapping[Scope, int]) -> None:
            nonlocal found
            updates = {scope: [u for u in self.updates if u.bit & mask] for scope, mask in chosen.items()}
            found = found.with_others(self._of(rules, updates))

        before, there, hits = (sum(update.bit for update in updates) for updates in (earlier, same, hit))
        Surroundings(before, there, hits, lambda event: self.holding(event, here), need).visit(packet)
        return found

    def _region(self, request: int) -> Target:
        """Where a request without a range goes: a FLUSH of the region where its queue pair's writes go."""
        targets = [u.target for u in self.updates if u.request in self.earlier(request)]
        return targets[0] if targets else Target.MEMORY

    def returns(self, event: Event, variable: int) -> bool:
        """Whether every value that the event returns is visible to everybody."""
        target = self.layout.target[self.variables[variable]]
        return any(rule.scope is Scope.RETURNED for rule in self.holding(event, target))

    def core_rules(self, event: Event, target: Target = Target.MEMORY) -> frozenset[Scope]:
        """The scopes that an event of a core waits for."""
        return frozenset(rule.scope for rule in self.holding(event, target))

    def safe_stage(self, update: Update) -> Stage:
        """From which stage on an update survives a power failure."""
        if self.profile.domain == "pmr":
            return Stage.QUEUED
        if update.request >= 0:
            path = Path.DMA_DDIO if self.profile.ddio else Path.DMA_NO_DDIO
        else:
            path = Path.NTSTORE if update.operation.verb == "ntst" else Path.STORE
        found = safe_stage(path, Domain(self.profile.domain), self.profile.switches.iio_wc_survives)
        return Stage.STORED if found is None else found
