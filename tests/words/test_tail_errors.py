"""Profiles whose sources of tails lack numbers, or have numbers that cannot be: file, line, field, what to write."""

from __future__ import annotations

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.sim.errors import InputError

HEAD = "platform: mine\ntitle: a server\nextends: optane-adr\n"
WHERE = 'source: "assumption"'
NO_REFRESH = f"media:\n  dram:\n    refresh_every: {{value: 0 us, {WHERE}}}\n    refresh: {{value: 0 ns, {WHERE}}}\n"

CASES = [
    (
        f"tails:\n  refresh: {{value: on, {WHERE}}}\n{NO_REFRESH}",
        "5: tails.refresh: found on, expected off, or media.dram.refresh_every and media.dram.refresh, which say when",
    ),
    (
        f"tails:\n  arbitration: {{value: on, {WHERE}}}\nnic:\n  arbitration: {{value: 0 ns, {WHERE}}}\n",
        "5: tails.arbitration: found on, expected off, or nic.arbitration, which says by how much turns differ",
    ),
    (
        f"tails:\n  replays: {{value: on, {WHERE}}}\npcie:\n  error_every: {{value: 0 B, {WHERE}}}\n",
        "5: tails.replays: found on, expected off, or pcie.error_every, which says how often",
    ),
    (
        f"tails:\n  replays: {{value: on, {WHERE}}}\npcie:\n  replay: {{value: 0 ns, {WHERE}}}\n",
        "5: tails.replays: found on, expected off, or pcie.replay, which says how long one takes",
    ),
    (
        f"tails:\n  arbitraton: {{value: on, {WHERE}}}\n",
        "5: tails.arbitraton: found the unknown key 'arbitraton', expected one of refresh, arbitration, replays; "
        "did you mean 'arbitration'?",
    ),
    (
        f"nic:\n  arbitration: {{value: 2 us, {WHERE}}}\n",
        "5: nic.arbitration: found 2000 ns, expected at most 300 ns, twice the shorter of nic.doorbell and "
        "nic.rx_processing",
    ),
    (
        f"media:\n  dram:\n    refresh: {{value: 9 us, {WHERE}}}\n",
        "6: media.dram.refresh: found 9000 ns, expected less than the 7800 ns of refresh_every",
    ),
    (
        f"media:\n  dram:\n    refresh: {{value: 0 ns, {WHERE}}}\n",
        "found 7800 ns, expected none without media.dram.refresh",
    ),
    (
        f"media:\n  optane:\n    refresh_every: {{value: 7.8 us, {WHERE}}}\n    refresh: {{value: 350 ns, {WHERE}}}\n",
        "7: media.optane.refresh: found 350 ns, expected none: behind a DIMM's controller is no DRAM",
    ),
    (
        f"cpu:\n  os:\n    noise: {{value: on, {WHERE}}}\n    tick_every: {{value: 0 ms, {WHERE}}}\n",
        "7: cpu.os.tick_every: found 0 ps, expected a period above 0, or cpu.os.noise off",
    ),
    (
        f"fabric:\n  link: {{value: 0 Gb/s, {WHERE}}}\n",
        "5: fabric.link.value: found '0 Gb/s', expected one above 0, as in 100 Gb/s",
    ),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_what_is_wrong_is_said_where_it_stands(text, expected, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(InputError) as error:
        load_platform(str(path))
    assert expected in str(error.value)


def test_a_profile_that_states_a_settings_parameter_means_it(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"{HEAD}tails:\n  refresh: {{value: on, {WHERE}}}\nllc:\n  ddio: {{value: off, {WHERE}}}\n")
    platform = load_platform(str(path))
    assert platform.tails.refresh and not platform.llc.ddio
    assert platform.settings["refresh"] == "on" and platform.settings["ddio"] == "off"
    assert not load_platform(str(path), refresh="off").tails.refresh
