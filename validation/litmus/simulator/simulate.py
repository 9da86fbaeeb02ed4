"""Litmus tests run by the simulator: the explorer must admit every outcome that it shows.

One run is one timing, with every delay of the platform scaled at random and both programs dawdling. What registers and
memory hold at its end, and every image that a power failure may leave of it (the adversarial view), is looked up among
all that the explorer reaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from ....models.cpu import Code
from ....models.durability.contents import Content, Piece
from ....models.durability.places import Domain
from ....models.durability.views import Views
from ....models.fabric.disturbance import Disturbance
from ....models.fabric.fabric import Departure
from ....models.verbs import Opcode, SendFlags, SendWR, Status
from ....sim.bytespace import LINE_BYTES
from ....sim.trace import NEVER, Stage
from ..language.program import CrashMoment, LitmusOperation, LitmusProfile, Test
from ..machine.explorer import BUDGET, all_looks
from .setting import OPCODES, LitmusSystem, Perturbation, check

Look = Mapping[str, int]
MOST_SPINS = 2000
TEXTS = {
    CrashMoment.NONE: "at the end",
    CrashMoment.END_A: "once A is through",
    CrashMoment.ANY: "at some instant",
    CrashMoment.A: "in the end, A having lost its power",
}


@dataclass(frozen=True)
class Disagreement:
    """The simulator showed an outcome that the explorer forbids."""

    test: Test
    profile: LitmusProfile
    seed: int
    crash: CrashMoment
    shown: Look

    @override
    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in sorted(self.shown.items()))
        return f"{self.test.id} on {self.profile.name}, seed {self.seed}: {shown} {TEXTS[self.crash]}"


@dataclass
class LitmusRun:
    """One run: when each register was known, when A had finished, and the lines of its log."""

    setting: LitmusSystem
    known: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By register: the instant, and the value."""
    a_ended_ps: int | None = None
    b_ended: bool = False
    log: list[tuple[int, str, str]] = field(default_factory=list)
    """The log of the programs: the instant, the core, the step."""

    def did(self, who: str, what: str) -> None:
        """Note that a program has done something now."""
        self.log.append((self.setting.system.clock.now_ps, who, what))

    def registers(self, at_ps: int) -> dict[str, int]:
        """The registers that were known by an instant."""
        return {name: value for name, (known_ps, value) in self.known.items() if known_ps <= at_ps}


def clashes(
    test: Test,
    seeds: Sequence[int],
    budget: int = BUDGET,
    disturbance: Disturbance | None = None,
    schedules: Sequence[Perturbation] = (Perturbation(),),
) -> list[Disagreement]:
    """Run a test on all its profiles, once for each seed, and report the outcomes that the explorer forbids.

    With a ``disturbance`` the network loses, delays or reorders packets as that says; the ``schedules`` take turns.

    Raises :class:`~.setting.CannotRun` for parts that the simulator lacks.
    """
    found = []
    for profile in dict.fromkeys(case.profile for case in test.cases):
        check(test, profile)
        crashes = {case.crash for case in test.cases if case.profile == profile}
        persistent = sorted({name for case in test.cases for name in case.outcome.of("pm")})
        allowed = {crash: all_looks(test, profile, crash, persistent, budget) for crash in sorted(crashes)}
        for seed in seeds:
            schedule = schedules[seed % len(schedules)]
            runs = {dies: play(test, profile, seed, disturbance, schedule, dies=dies) for dies in deaths(allowed)}
            for crash, looks in allowed.items():
                run = runs[crash is CrashMoment.A]
                for shown in (sight.values for sight in sights(run, crash, persistent)):
                    if not any(shown.items() <= look.items() for look in looks):
                        found.append(Disagreement(test, profile, seed, crash, shown))
                        break
    return found


def deaths(crashes: Iterable[CrashMoment]) -> set[bool]:
    """Whether A loses its power in the runs that cases with these moments are about: in some, in none, or both."""
    return {crash is CrashMoment.A for crash in crashes}


def play(
    test: Test,
    profile: LitmusProfile,
    seed: int,
    disturbance: Disturbance | None = None,
    schedule: Perturbation = Perturbation(),  # noqa: B008, it is frozen
    *,
    dies: bool = False,
) -> LitmusRun:
    """One run of a test in the simulator, to its end. If A ``dies``, the seed draws when, and what is lost of it."""
    if not dies:
        return _played(test, profile, seed, disturbance, schedule)
    departures = _played(test, profile, seed, disturbance, schedule).setting.system.fabric.departures or []
    random = np.random.default_rng((seed, 1))
    left = [packet.end_ps for packet in departures if packet.port == "client[0]"]
    at_ps = int(random.choice([0, *left]) - random.integers(2))  # once a packet has left, or just before
    return _played(test, profile, seed, disturbance, schedule, _Death(max(1, at_ps), departures, random))


class _Death(NamedTuple):
    """A loses its power: when, the packets of the same run if it does not, and what draws the packets that are lost."""

    at_ps: int
    departures: Sequence[Departure]
    random: np.random.Generator


def _played(
    test: Test,
    profile: LitmusProfile,
    seed: int,
    disturbance: Disturbance | None,
    schedule: Perturbation,
    death: _Death | None = None,
) -> LitmusRun:
    setting = LitmusSystem(test, profile, seed, disturbance, schedule)
    run = LitmusRun(setting)
    clock = setting.system.clock
    setting.system.fabric.departures = []
    clock.start(_programs(run))
    if death is not None:
        clock.run_until(death.at_ps)
        nic = setting.client.nic
        ways = nic.on_their_way(death.departures)
        lost = {qp: int(death.random.choice(ends)) - 1 for (_, qp), ends in ways.items() if death.random.integers(2)}
        run.did("A", "loses power")
        setting.client.power_off(lost)
    clock.run_until()
    setting.client.abandon()
    return run


def _programs(run: LitmusRun) -> Code:
    """Both programs, once B has posted what it posts beforehand."""
    if run.setting.test.relay:
        yield from run.setting.relay.post()
    run.setting.client.process("A").start(_Requester(run).program())
    run.setting.system.clock.start(_responder(run))


@dataclass(frozen=True)
class Sight:
    """The values that a run shows at an instant, and after a crash the chunks that did not make it."""

    at_ps: int
    values: Look
    lost: tuple[Piece, ...] = ()


def sights(run: LitmusRun, crash: CrashMoment, persistent: Sequence[str]) -> Iterator[Sight]:
    """Everything that an outcome may be about: at the end, or after a crash of B at each instant and each cut."""
    setting, now_ps = run.setting, run.setting.system.clock.now_ps
    if crash in (CrashMoment.NONE, CrashMoment.A):
        if crash is CrashMoment.A or (run.a_ended_ps is not None and run.b_ended):
            memory = {f"mem.{name}": setting.memory(name) for name in setting.address}
            visible = [chunk.reached_ps[Stage.VISIBLE] for chunk in setting.system.trace.chunks]
            end_ps = max([now_ps, *(at_ps for at_ps in visible if at_ps < NEVER)])
            died = {name for one in setting.test.a for name in one.registers} if crash is CrashMoment.A else set()
            registers = {name: value for name, value in run.registers(now_ps).items() if name not in died}
            yield Sight(end_ps, registers | memory)
        return
    if crash is CrashMoment.END_A and run.a_ended_ps is None:
        return
    device = setting.device
    lines = {name: (setting.address[name] - device.base) // LINE_BYTES for name in persistent}
    platform = setting.system.platform
    views = Views(
        setting.system.trace,
        {device.number: Domain(device.domain)},
        lambda key: bytes(LINE_BYTES),
        whole_lines=platform.line_atomicity == "whole",
        iio_wc_survives=platform.iio_wc_survives,
    )
    first_ps = 0 if crash is CrashMoment.ANY else run.a_ended_ps or 0
    instants = {at_ps for at_ps, _ in views.changes()} | {at_ps for at_ps, _ in run.known.values()} | {now_ps, first_ps}
    for at_ps in sorted(at_ps for at_ps in instants if at_ps >= first_ps):
        keys = [(device.number, line) for line in dict.fromkeys(lines.values())]
        for images in _images(views, keys, at_ps, {}):
            content = dict(zip(dict.fromkeys(lines.values()), images, strict=True))
            shown = run.registers(at_ps)
            for name, line in lines.items():
                at = (setting.address[name] - device.base) % LINE_BYTES
                shown[f"pm.{name}"] = int.from_bytes(content[line].data[at : at + setting.width], "little")
            torn = [one.torn for one in images if one.torn is not None]
            yield Sight(at_ps, shown, (*(piece for one in images for piece in one.absent), *torn))


def _images(views: Views, keys: Sequence[tuple[int, int]], at_ps: int, cut: Any) -> Iterator[tuple[Content, ...]]:
    """The contents that lines may hold together, looked at one after the other."""
    if not keys:
        yield ()
        return
    for content in views.contents(keys[0], at_ps, cut):
        for others in _images(views, keys[1:], at_ps, content.cut):
            yield (content, *others)


class _Requester:
    """A's program as a thread of the client."""

    def __init__(self, run: LitmusRun) -> None:
        self.run = run
        self.setting = run.setting
        self.open: dict[str, list[tuple[LitmusOperation, int]]] = {qp: [] for qp in run.setting.pairs}
        """By queue pair: the requests posted and not yet polled, and the register of each answer."""

    def program(self) -> Code:
        setting, clock = self.setting, self.setting.system.clock
        parts = {part.first: part for part in setting.test.parts}
        inside = {part.first + turn for part in setting.test.parts for turn in range(part.count)}
        for turn, operation in enumerate(setting.test.a):
            if turn in parts:
                yield clock.timeout(setting.pause_of_a_ps())
                yield from self._persist(parts[turn].operation)
            if turn in inside:
                continue
            yield clock.timeout(setting.pause_of_a_ps())
            if operation.verb not in ("poll", "wait"):
                self.run.did("A", operation.text)
            if operation.verb == "st":
                yield from setting.a.store(setting.local[operation.source], operation.values[0].to_bytes(8, "little"))
            elif operation.verb == "wait":
                yield from setting.a.poll(setting.back[0].recv_cq)
            elif operation.verb == "poll":
                yield from self._poll(operation.qp)
            else:
                yield from self._post(operation)
            if operation.verb in ("poll", "wait"):
                self.run.did("A", f"{operation.text}: done")
        self.run.a_ended_ps = clock.now_ps
        for qp in self.open:  # requests that A did not wait for complete all the same
            yield from self._poll(qp)

    def _persist(self, operation: LitmusOperation) -> Code:
        """A primitive on its own queue pair; WRITEs before it are not signalled, they complete before it does."""
        setting, requester = self.setting, self.setting.requesters[operation.qp]
        self.open[operation.qp].clear()
        self.run.did("A", operation.text)
        start = setting.start(operation.names)
        if operation.values:
            yield from requester.persist([(start, setting.payload(operation.names, operation.values[0]))])
        else:
            yield from requester.flush([(start, len(setting.payload(operation.names, 0)))])
        self.run.did("A", f"{operation.text}: done")

    def _poll(self, qp: str) -> Code:
        setting = self.setting
        while self.open[qp]:
            completion = yield from setting.a.poll(setting.pairs[qp][0].send_cq)
            operation, answer = self.open[qp].pop(0)
            assert completion.status is Status.IBV_WC_SUCCESS, f"{operation.text}: {completion.status}"
            now_ps, device = setting.system.clock.now_ps, setting.client.memory["dram"]
            start = setting.start(operation.names)
            for name, register in zip(operation.names, operation.registers, strict=False):
                at = answer - device.base + setting.address[name] - start
                value = int.from_bytes(device.space.read(now_ps, at, setting.width), "little")
                self.run.known[register] = now_ps, value

    def _post(self, operation: LitmusOperation) -> Code:
        setting, device = self.setting, self.setting.client.memory["dram"]
        names, flags = operation.names, SendFlags.IBV_SEND_SIGNALED
        more: dict[str, Any] = {}
        length = len(setting.payload(names, 0)) if names else 0
        answer = setting.scratch(setting.client, max(64, length))
        if operation.source:
            answer = setting.local[operation.source]
        elif operation.values and operation.verb in ("W", "WIMM", "AW", "SEND"):
            device.space.poke(answer - device.base, setting.payload(names, operation.values[0]))
        if operation.verb == "FAA":
            more = {"compare_add": operation.values[0]}
        elif operation.verb == "CAS":
            more = {"compare_add": operation.values[0], "swap": operation.values[1]}
        elif operation.verb == "FLUSH":
            more = {"flush_type": 2 if operation.persistent else 1, "flush_level": 0 if names else 1}
        writes = operation.verb in ("W", "WIMM", "SEND") and names
        inline = not operation.source and length <= 32 and bool(setting.random.integers(2))
        if writes and (operation.inline or inline):
            flags |= SendFlags.IBV_SEND_INLINE
        if operation.fenced:
            flags |= SendFlags["IBV_SEND_FENCE"]
        if operation.verb != "SEND":
            more |= {"remote_address": setting.start(names), "rkey": setting.key_of(operation.qp, names)}
        work = SendWR(0, Opcode[OPCODES[operation.verb]], answer, length, send_flags=flags, **more)
        following = setting.test.a[setting.test.a.index(operation) + 1 :]
        same = [one for one in following if one.qp == operation.qp]
        if same and any(same[0] is setting.test.a[part.first] for part in setting.test.parts):
            work.send_flags &= ~SendFlags.IBV_SEND_SIGNALED
        else:
            self.open[operation.qp].append((operation, answer))
        yield from setting.a.post_send(setting.pairs[operation.qp][0], work)


def _responder(run: LitmusRun) -> Code:
    """B's program as a thread of the server."""
    setting, clock, b = run.setting, run.setting.system.clock, run.setting.b
    yield clock.timeout(setting.pause_ps() + setting.pause_ps())
    for turn, operation in enumerate(setting.test.b[setting.test.served :]):
        yield clock.timeout(setting.pause_ps())
        if turn < len(setting.schedule.b_at_ps):
            yield clock.timeout(max(0, setting.schedule.b_at_ps[turn] - clock.now_ps))
        address = setting.address[operation.names[0]] if operation.names else 0
        match operation.verb:
            case "recv":
                yield from b.poll(setting.pairs[operation.qp][1].recv_cq)
            case "ld":
                data = yield from b.load(address, setting.width)
                run.known[operation.registers[0]] = clock.now_ps, int.from_bytes(data, "little")
            case "st":
                yield from b.store(address, operation.values[0].to_bytes(setting.width, "little"))
            case "ntst":
                yield from b.ntstore(address, operation.values[0].to_bytes(setting.width, "little"))
            case "spin":
                for _ in range(MOST_SPINS):
                    data = yield from b.load(address, setting.width)
                    if int.from_bytes(data, "little") == operation.values[0]:
                        break
                    yield clock.timeout(20_000)
                else:
                    return
            case "cpucas":
                yield from _locked(run, operation, address)
            case "clwb":
                yield from b.clwb(address, setting.width)
                yield from b.sfence()
            case "clflushopt":
                yield from b.clflushopt(address, setting.width)
            case "clflush":
                yield from b.clflush(address, setting.width)
            case "fence":
                yield from b.sfence()
            case "pmrsts":
                yield from getattr(b, "read_pmrsts")(setting.device.base)  # noqa: B009
            case "reply":
                work = SendWR(0, Opcode.IBV_WR_SEND, setting.scratch(setting.server, 64), 8)
                yield from b.post_send(setting.back[1], work)
        read = "".join(f" -> {run.known[name][1]}" for name in operation.registers)
        run.did("B", f"{operation.text}{read}")
    run.b_ended = True


def _locked(run: LitmusRun, operation: LitmusOperation, address: int) -> Code:
    """A locked compare and exchange: the store buffer drained, then load and store at one instant, and visible."""
    setting, b = run.setting, run.setting.b
    yield from b.sfence()
    yield from b.load(address, setting.width)
    now_ps, width = setting.system.clock.now_ps, setting.width
    data, _ = b.host.load(now_ps, address, width)
    old = int.from_bytes(data, "little")
    if old == operation.values[0]:
        b.host.store(address, operation.values[1].to_bytes(width, "little"), b.core.stores, "locked store", now_ps)
    yield from b.sfence()
    run.known[operation.registers[0]] = setting.system.clock.now_ps, old
