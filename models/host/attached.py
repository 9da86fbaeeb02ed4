"""How requests reach one memory device of a node: the protocol that DIMMs, devices beside the adapter, and any other
kind of memory implement.

The address space of a host (``models.host.hostmemory``) finds the device of an address and hands the request on. A kind
of memory is one subclass in one file of ``models/host/``; the class of its parameters says which of a platform's
devices are of that kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypedDict

from typing_extensions import override

from ...sim.trace import NEVER, ChannelPrefixes, Chunk, Stage, Trace
from ..durability.places import Path
from ..memory.devices import Destination, MemoryDevice
from ..pcie.credits import PostedCredits
from ..pcie.link import Tlp
from ..profiles.kinds import KindParameters
from .fillbuffers import FillBuffers

_ACCEPTED, _VISIBLE = int(Stage.ACCEPTED), int(Stage.VISIBLE)
_NOWHERE = (NEVER,) * 4

HOST = Destination()
"""All memory behind the root complex."""


class WriteOrder(TypedDict, total=False):
    """What :meth:`AttachedMemory.dma_write` takes by name, for a memory that hands it on."""

    behind: ChannelPrefixes
    late_ps: int
    not_before_ps: int
    credits: PostedCredits | None
    chunk: Chunk | None


class AttachedMemory(ABC):
    """One memory device as the root complex and the cores see it. Instants are picoseconds, ``offset`` is in bytes.

    Subclasses register with ``class Dimms(AttachedMemory, parameters=MediaParameters)``.
    """

    kinds: ClassVar[dict[type[Any], type[AttachedMemory]]] = {}
    """By the class of a platform's parameters: which memory they describe."""
    destination: Destination = HOST
    """Where a request goes, as PCIe sees it."""
    dma_path: Path
    """The way of an adapter's writes."""
    uncached = False
    """Whether a core's loads of it are uncached reads, which empty write-combining buffers."""
    write_hold_ps = 0
    """The time beyond ``cpu.ntstore_hold`` for which a non-temporal store holds its buffer, as at a far socket."""

    @override
    def __init_subclass__(cls, parameters: type[Any] | None = None) -> None:
        super().__init_subclass__()
        if parameters is not None:
            AttachedMemory.kinds[parameters] = cls
            if issubclass(parameters, KindParameters):
                KindParameters.kinds[parameters.kind] = parameters

    def __init__(self, trace: Trace, device: MemoryDevice) -> None:
        self.device = device
        self.trace = trace
        self._untraced = 0

    # from the adapters --------------------------------------------------------------------------------------------
    @abstractmethod
    def dma_write(
        self,
        offset: int,
        data: bytes,
        channel: int,
        writer: str,
        accepted_ps: int,
        transit_ps: int,
        arrive_ps: int,
        *,
        behind: ChannelPrefixes = (),
        late_ps: int = 0,
        not_before_ps: int = 0,
        credits: PostedCredits | None = None,
        chunk: Chunk | None = None,
    ) -> int:
        """An inbound write reaches the root complex at ``arrive_ps``; returns when it is visible.

        ``accepted_ps`` is now. ``behind`` are its release edges, ``not_before_ps`` is when those are visible;
        ``late_ps`` is how much later it shows than in order, without holding up later writes. ``credits`` come back
        when it is taken; ``chunk`` is the record that :meth:`accept` made of it, if any.
        """

    def dma_writes(
        self,
        offset: int,
        data: bytes,
        channel: int,
        writer: str,
        accepted_ps: int,
        tlps: list[Tlp],
        credits: PostedCredits | None = None,
    ) -> int:
        """One write's TLPs, in order, as :meth:`dma_write` of each; returns when all are visible."""
        at = visible_ps = 0
        for size, start_ps, arrive_ps in tlps:
            visible_ps = self.dma_write(
                offset + at, data[at : at + size], channel, writer, accepted_ps, start_ps, arrive_ps, credits=credits
            )
            at += size
        return visible_ps

    def accept(
        self, offset: int, data: bytes, channel: int, writer: str, at_ps: int, behind: ChannelPrefixes
    ) -> Chunk | None:
        """An adapter has accepted a write that has to wait there: record it, if it may outlive a power failure."""
        device = self.device
        if not device.traced:
            return None
        reached = [at_ps, *_NOWHERE]
        return self.trace.write(device.number, channel, offset, data, self.dma_path, writer, reached, behind)

    @abstractmethod
    def dma_read_ps(self, offset: int, length: int) -> int:
        """Round trip of a read by an adapter that is looked at now."""

    # from the cores -----------------------------------------------------------------------------------------------
    @abstractmethod
    def access_ps(
        self, offset: int, length: int, dirty: bool, agent: int, fills: FillBuffers, wait: bool = True
    ) -> int:
        """How long the core ``agent`` takes from now to load a range, or to store to it (``dirty``).

        Without ``wait`` the core goes on as soon as all lines are on their way.
        """

    def hit_ps(self, offset: int, length: int) -> int | None:
        """How long a core loads a range that is in its first-level cache; None where cores cache nothing of it."""
        return None

    def is_near(self, offset: int, length: int, agent: int) -> bool:
        """Whether a range is in the first-level cache of the core ``agent`` now."""
        return False

    def owned_ps(self, line: int) -> int:
        """When a core has a line that it stored to; an instant of the past if it has it, or none stored to it."""
        return 0

    def when_taken(self, line: int, call: Callable[[], None]) -> Callable[[], None]:
        """Make ``call`` whenever a core takes a line from the others' caches; returns the call that ends this."""
        return lambda: None

    @abstractmethod
    def store(self, offset: int, data: bytes, channel: int, writer: str, at_ps: int) -> None:
        """A core's store retires into its store buffer at ``at_ps``, and shows in this timing at once."""

    @abstractmethod
    def ntstore(self, offset: int, data: bytes, channel: int, writer: str, at_ps: int) -> int:
        """Non-temporal stores leave their write-combining buffers at ``at_ps``; returns when all are queued."""

    @abstractmethod
    def write_back(self, line: int, issued_ps: int, keep: bool) -> int:
        """A line is written back, and dropped unless ``keep``; returns when the memory's queue has it (at once if
        there was nothing)."""

    @abstractmethod
    def persisted_ps(self, line: int, queued_ps: int) -> int:
        """When a line that the memory's queue has at ``queued_ps`` is in the persistence domain."""

    def drained_ps(self, line: int) -> int:
        """When a fence behind the write-backs of this line goes on; 0 where it waits for nothing."""
        return 0

    def posted(self, stores: int) -> ChannelPrefixes:
        """(channel, number) of a core's posted stores so far that a read of the device pushes, none of which a
        write-combining buffer may still hold; ``stores`` is the channel of its other stores.
        """
        return ()

    def returned(self, seen: Sequence[Chunk], stores: Sequence[int]) -> Sequence[Chunk]:
        """Those of the chunks that a load saw which came from memory, not from its core's write-combining buffers;
        ``stores`` are the channels of the core's other stores.
        """
        return seen

    def status_read_ps(self, start_ps: int) -> int:
        """How long a core's read of the device's status register takes. Raises ValueError where there is none."""
        raise ValueError(f"{self.device.name} has no status register (PMRSTS)")

    # bytes --------------------------------------------------------------------------------------------------------
    def load(self, now_ps: int, offset: int, length: int) -> tuple[bytes, list[Chunk]]:
        """The bytes that a load at ``now_ps`` returns, and the chunks that they prove to be visible."""
        device = self.device
        data = device.space.read(now_ps, offset, length)
        if not device.traced:
            return data, []
        # An earlier call may have read at a later instant: then these bytes are as new as that read's.
        return data, self.trace.observed(device.number, offset, length, max(now_ps, device.space.caught_up_ps))

    def write(
        self,
        offset: int,
        data: bytes,
        channel: int,
        path: Path,
        writer: str,
        reached: list[int],
        behind: ChannelPrefixes = (),
    ) -> None:
        """Let bytes appear when they are visible, and trace them if they may outlive a power failure.

        ``reached`` has, by stage, the instant at which they get there.
        """
        device = self.device
        if device.traced:
            number = self.trace.write(device.number, channel, offset, data, path, writer, reached, behind).number
        else:
            number = self._untraced = self._untraced + 1
        device.space.write_at(reached[_VISIBLE], channel, number, offset, data, None, reached[_ACCEPTED])
