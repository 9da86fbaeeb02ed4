"""Sources of tails in a profile: one that is switched on has its numbers, and they go together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .parameters.cpu import CpuParameters
from .parameters.memory import MediaParameters
from .parameters.tails import TailParameters

Wrong = Callable[..., None]
"""Report (what was found, what is expected, the path of the value)."""


def check_tails(values: Mapping[str, Any], wrong: Wrong) -> None:
    """Report sources of tails that are on without numbers, and numbers that contradict each other."""
    media: Mapping[str, MediaParameters] = values["media"]
    tails: TailParameters = values.get("tails", TailParameters())
    for kind, one in media.items():
        _check_refresh(f"media.{kind}", one, wrong)
    if tails.refresh and not any(one.refresh_ps for one in media.values()):
        kind = next((kind for kind, one in media.items() if one.row_bytes), next(iter(media), "dram"))
        wrong("on", f"off, or media.{kind}.refresh_every and media.{kind}.refresh, which say when", "tails.refresh")
    nic, pcie, cpu = values["nic"], values["pcie"], values["cpu"]
    if tails.arbitration and not nic.arbitration_ps:
        wrong("on", "off, or nic.arbitration, which says by how much turns differ", "tails.arbitration")
    most_ps = 2 * min(nic.doorbell_ps, nic.rx_processing_ps)
    if nic.arbitration_ps > most_ps:
        expected = f"at most {most_ps / 1000:g} ns, twice the shorter of nic.doorbell and nic.rx_processing"
        wrong(f"{nic.arbitration_ps / 1000:g} ns", expected, "nic.arbitration")
    if tails.replays and not pcie.error_every_bytes:
        wrong("on", "off, or pcie.error_every, which says how often", "tails.replays")
    elif tails.replays and not pcie.replay_ps:
        wrong("on", "off, or pcie.replay, which says how long one takes", "tails.replays")
    _check_noise(cpu, wrong)


def _check_refresh(path: str, media: MediaParameters, wrong: Wrong) -> None:
    every_ps, takes_ps = media.refresh_every_ps, media.refresh_ps
    if takes_ps and not every_ps:
        wrong(f"{takes_ps / 1000:g} ns", f"none without {path}.refresh_every", f"{path}.refresh")
    elif every_ps and not takes_ps:
        wrong(f"{every_ps / 1000:g} ns", f"none without {path}.refresh", f"{path}.refresh_every")
    elif every_ps and takes_ps >= every_ps:
        wrong(f"{takes_ps / 1000:g} ns", f"less than the {every_ps / 1000:g} ns of refresh_every", f"{path}.refresh")
    elif takes_ps and media.controller.buffer_bytes:
        wrong(f"{takes_ps / 1000:g} ns", "none: behind a DIMM's controller is no DRAM", f"{path}.refresh")


def _check_noise(cpu: CpuParameters, wrong: Wrong) -> None:
    if cpu.os.noise == "on":
        for name, period_ps in (("tick_every", cpu.os.tick_every_ps), ("stray_every", cpu.os.stray_every_ps)):
            if not period_ps:
                wrong("0 ps", "a period above 0, or cpu.os.noise off", f"cpu.os.{name}")
