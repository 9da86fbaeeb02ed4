"""An RDMA adapter, as a platform profile describes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Headers:
    """Bytes that a packet carries beside its payload, link and transport together."""

    write_bytes: int
    """First or only packet of a WRITE (with RETH)."""
    middle_bytes: int
    """Middle and last packets of a WRITE or SEND, and middle packets of a READ response."""
    send_bytes: int
    immediate_bytes: int
    """What an immediate adds."""
    read_request_bytes: int
    read_response_bytes: int
    """First, last or only packet of a READ response (with AETH)."""
    ack_bytes: int


@dataclass(frozen=True, slots=True)
class Nic:
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
    """Adapter's time for one message, from knowing the WQE (and payload) to its first byte on the wire."""
    rx_processing_ps: int
    """Adapter's time for one packet, from its last byte on the wire to staging."""
    ack_processing_ps: int
    """From acceptance of a packet to its ACK's first byte on the wire, and again from the ACK's arrival to the CQE."""
    recv_processing_ps: int
    """What a SEND takes longer than a WRITE at the responder (matching a receive request)."""
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
