"""Closed forms of each hop on an idle system, straight from a platform's parameters (all in picoseconds)."""

from __future__ import annotations

from rpsim.models.profiles.platform import Platform

PS = 10**12


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


class Hops:
    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.nic, self.pcie_link, self.fabric = platform.nic, platform.pcie, platform.fabric
        self.headers = platform.nic.headers

    def link(self, n_bytes: int) -> int:
        """Serialisation on a link."""
        return ceil_div(n_bytes * 8 * PS, self.fabric.link_bits_per_s)

    def wire(self, n_bytes: int) -> int:
        """First bit out of one port to last bit at the other, through cut-through switches: serialised once."""
        return self.link(n_bytes) + self.crossing()

    def crossing(self) -> int:
        """All links and switches."""
        fabric = self.fabric
        return (fabric.switches + 1) * (fabric.propagation_ps + fabric.phy_ps) + fabric.switches * fabric.switch_ps

    def pcie(self, n_bytes: int) -> int:
        """Serialisation on the slot."""
        return ceil_div(n_bytes * 8 * PS, self.pcie_link.tlp_bits_per_s)

    def cached_read(self) -> int:
        return self.pcie_link.dma_read_ps - self.platform.llc.dma_read_hit_saving_ps

    def dma_fetch(self, length: int, latency_ps: int) -> int:
        """A DMA read: request TLPs, round trip, completion TLPs."""
        requests = max(1, ceil_div(length, self.pcie_link.mrrs_bytes))
        completions = max(1, ceil_div(length, self.pcie_link.mps_bytes))
        return (
            self.pcie(requests * self.pcie_link.tlp_header_read_bytes)
            + latency_ps
            + self.pcie(completions * self.pcie_link.tlp_header_completion_bytes + length)
        )

    def post(self, inline_bytes: int = 0) -> int:
        """Post a work request (with an inline payload of cached lines) until the adapter has its WQE."""
        units = ceil_div(max(0, inline_bytes - self.nic.wqe_inline_bytes), self.nic.wqe_bytes)
        load_ps = ceil_div(inline_bytes, 64) * self.platform.cpu.load_ps
        return load_ps + self.nic.post_wqe_ps + units * self.nic.post_line_ps + self.nic.doorbell_ps

    def tlps(self, length: int) -> int:
        return ceil_div(length, self.pcie_link.mps_bytes)

    def posted_write(self, length: int) -> int:
        """An aligned DMA write: from entering the slot until its last TLP is visible."""
        return self.pcie(length + self.tlps(length) * self.pcie_link.tlp_header_write_bytes) + (
            self.pcie_link.posted_write_ps
        )

    def cqe(self, behind_bytes: int = 0) -> int:
        """A CQE behind data that enters the slot at the same instant, until it has been polled."""
        data = behind_bytes + self.tlps(behind_bytes) * self.pcie_link.tlp_header_write_bytes if behind_bytes else 0
        cqe = self.nic.cqe_bytes + self.pcie_link.tlp_header_write_bytes
        return self.pcie(data + cqe) + self.pcie_link.posted_write_ps + self.platform.poll_ps

    def packets(self, length: int, first_bytes: int) -> list[int]:
        """Sizes of the packets of a message of ``length`` bytes."""
        mtu = self.nic.mtu_bytes
        parts = [min(mtu, length - at) for at in range(0, length, mtu)]
        return [(self.headers.middle_bytes if turn else first_bytes) + part for turn, part in enumerate(parts)]

    def received(self, packets: list[int], response: bool = False) -> list[int]:
        """When each of these packets, sent back to back, has been processed by an idle receiver."""
        latency_ps = self.crossing()
        sent, free, done = 0, 0, []
        for n_bytes in packets:
            sent += n_bytes
            start = max(free, self.link(sent) + latency_ps)
            done.append(start + self.nic.rx_processing_ps)
            further_ps = self.nic.rx_packet_occupancy_ps
            free = start + (further_ps if response or len(done) > 1 else self.nic.rx_occupancy_ps)
        return done

    def ack(self) -> int:
        """From acceptance to the answer's processing at the requester."""
        return self.nic.ack_generation_ps + self.wire(self.headers.ack_bytes) + self.nic.ack_processing_ps

    def accepted(self, length: int, inline: bool, first_bytes: int | None = None) -> int:
        """From the post to the acceptance of a message's last packet by the responder."""
        before = self.post(length if inline else 0) + (0 if inline else self.dma_fetch(length, self.cached_read()))
        packets = self.packets(length, self.headers.write_bytes if first_bytes is None else first_bytes)
        return before + self.nic.tx_processing_ps + self.received(packets)[-1]

    def write(self, length: int, inline: bool) -> int:
        """A WRITE from its post to its polled completion."""
        return self.accepted(length, inline) + self.ack() + self.cqe()

    def read_request(self) -> int:
        """A READ from its post until the responder has processed the request."""
        return self.post() + self.nic.tx_processing_ps + self.received([self.headers.read_request_bytes])[0]

    def read_fetch(self, length: int, latency_ps: int) -> int:
        """From a READ's execution until the first packet of its answer is in the adapter; lines leave as they come."""
        first, mrrs = min(length, self.nic.mtu_bytes), self.pcie_link.mrrs_bytes
        requests = max(1, ceil_div(length, mrrs)), max(1, ceil_div(first, mrrs))
        more = self.pcie(requests[0] * self.pcie_link.tlp_header_read_bytes)
        more -= self.pcie(requests[1] * self.pcie_link.tlp_header_read_bytes)
        return self.dma_fetch(first, latency_ps) + more

    def read(self, length: int, latency_ps: int) -> int:
        """A READ of aligned lines: ``latency_ps`` is the round trip to where they are.

        The network, slower than the slot, has the packets behind the first as fast as it takes them.
        """
        mtu, fetch = self.nic.mtu_bytes, self.read_fetch(length, latency_ps)
        parts = [min(mtu, length - at) for at in range(0, length, mtu)]
        packets = [
            part + (self.headers.read_response_bytes if turn in (0, len(parts) - 1) else self.headers.middle_bytes)
            for turn, part in enumerate(parts)
        ]
        return (
            self.read_request() + fetch + self.received(packets, response=True)[-1] + self.cqe(behind_bytes=parts[-1])
        )
