"""An RDMA adapter, as a platform profile describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Headers:
    """Bytes that a packet carries beside its payload, link and transport together."""

    write_bytes: int
    """First or only packet of a WRITE (with RETH)."""
    middle_bytes: int
    """Middle and last packets of a WRITE or SEND, and middle packets of a READ response."""
    send_bytes: int
    immediate_bytes: int
    """The bytes that an immediate adds."""
    read_request_bytes: int
    read_response_bytes: int
    """First, last or only packet of a READ response (with AETH)."""
    ack_bytes: int


@dataclass(frozen=True, slots=True)
class TableCache:
    """A cache of its own for entries of one of the host's tables that the adapter uses."""

    entries: int
    """How many entries it holds."""
    under_way: int
    """How many reads of missing entries it has under way; further ones wait."""


@dataclass(frozen=True, slots=True)
class NicParameters:
    """An RDMA adapter and what its user-space driver costs the CPU."""

    doorbell_ps: int
    """From the store to the adapter's register until the adapter sees it."""
    post_wqe_ps: int
    """CPU time to build one work request and ring the doorbell."""
    blueflame: bool
    """A post of a single work request carries it in the doorbell: no WQE fetch."""
    inline_max_bytes: int
    wqe_bytes: int
    tx_processing_ps: int
    """Adapter's latency for one message, from knowing the WQE (and payload) to its first byte on the wire."""
    rx_processing_ps: int
    """Adapter's latency for one packet, from its last byte on the wire to staging."""
    ack_processing_ps: int
    """From the arrival of an ACK at the requester to the CQE's start towards the host."""
    recv_processing_ps: int
    """The time that a SEND takes longer than a WRITE at the responder (matching a receive request)."""
    cqe_bytes: int
    poll_ps: int
    """CPU time of a poll that finds a completion."""
    staging_bytes: int
    """Inbound SRAM, volatile."""
    mtu_bytes: int
    outstanding_reads: int
    """READs and atomics that a queue pair may have under way."""
    rnr_timer_ps: int
    """Wait after an RNR NAK before the SEND is repeated."""
    headers: Headers
    ack_generation_ps: int = 100_000
    """From acceptance of a packet at the responder to its ACK's first byte on the wire."""
    # processing units: the time for which a message holds one limits messages a second, it does not delay each
    processing_units: int = 8
    """Of the transmit engine, and as many of the receive engine; a queue pair has one of each, and keeps it."""
    tx_occupancy_ps: int = 110_000
    """How long a message holds its unit of the transmit engine."""
    rx_occupancy_ps: int = 105_000
    """How long the first packet of a WRITE or SEND holds its unit of the receive engine."""
    rx_read_occupancy_ps: int = 140_000
    """How long a request that the responder has to execute and answer (READ, atomics, FLUSH) holds that unit."""
    rx_packet_occupancy_ps: int = 20_000
    """How long a further packet of a message, and each packet of a response, holds its unit."""
    arbitration_ps: int = 0
    """Between the earliest and the latest turn of a message, in either engine; 0: not known (``tails.arbitration``)."""
    atomic_units: int = 1
    """Locks of the atomic unit, by the operand's address: atomics that meet at one lock wait for each other."""
    atomic_occupancy_ps: int = 20_000
    """How long an atomic holds the adapter's arithmetic, at any address: the most atomics a second."""
    atomic_operand_ps: int = 0
    """The round trip over PCIe of the read of an atomic's operand that a cache has, where it is shorter than
    ``pcie.dma_read``, which a payload's fetch passes with all its steps; 0: as any DMA read."""
    atomic_stall: bool = False
    """Whether an atomic that waits for its operand's lock holds its unit of the receive engine until it has it, so that
    the requests behind it there wait too; off: it holds up nobody but atomics of its lock."""
    gather_bytes: int = 4096
    """A payload is fetched in pieces of so much (at least an MTU): a packet leaves once its piece is in the adapter."""
    # work requests in memory
    post_next_wqe_ps: int = 50_000
    """CPU time for each further work request of a posted list: it is written to memory, without a doorbell."""
    poll_next_ps: int = 20_000
    """CPU time of each further completion that one poll finds."""
    post_line_ps: int = 15_000
    """CPU time for each further ``wqe_bytes`` of a work request with inline data."""
    wqe_inline_bytes: int = 28
    """Inline data that a work request of ``wqe_bytes`` has room for."""
    # the host's tables that the adapter keeps (``models.nic.sram``)
    sram_bytes: int = 2 << 20
    """Room for contexts, translations and work requests together."""
    page_bytes: int = 2 << 20
    """Of a registered region, unless its registration says otherwise: what its mapping has."""
    qp_context_bytes: int = 375
    mpt_bytes: int = 64
    """An entry of the memory protection table: one for each region."""
    mtt_bytes: int = 8
    """An entry of the memory translation table: one for each page of a region."""
    extent_entry_bytes: int = 24
    """An entry for an extent of a file that is a memory region: where it begins, its length, its address."""
    caches: Mapping[str, TableCache] = field(default_factory=dict, hash=False)
    """Caches of their own, by name: ``contexts``, ``protection``, ``translations``, ``work_requests``. Kinds without
    one share ``sram``; with none named here all do."""

    write_ordering: Literal["per_mkey", "force_relax"] = "per_mkey"
    """Whether inbound requests carry PCIe's relaxed-ordering bit: as their region says, or all of them."""
    data_in_order: Literal["whole message", "128 B", "none"] = "whole message"
    """The answer of ``ibv_query_qp_data_in_order`` for WRITEs and SENDs: bytes become visible in the order of their
    addresses, or do so within each aligned block of 128 bytes, or in any order. In the last two cases blocks or lines
    overtake each other on their way to memory, those of different messages too."""
    socket: str = ""
    """The socket whose root port it is at: a key of ``Platform.sockets``; empty: the first."""

    @property
    def piece_bytes(self) -> int | None:
        """In which pieces a TLP becomes visible: aligned blocks, or lines; None: as a whole."""
        return {"whole message": None, "128 B": 128, "none": 64}[self.data_in_order]

    @property
    def part_bytes(self) -> int:
        """The size of a piece of a fetched payload: ``gather_bytes`` in whole packets."""
        return max(1, self.gather_bytes // self.mtu_bytes) * self.mtu_bytes
