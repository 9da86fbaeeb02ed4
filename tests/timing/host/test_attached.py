"""A kind of memory with a file of its own: the battery-backed card of docs/adding-hardware.md, to the picosecond."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace

import pytest

from rpsim.models.durability import places
from rpsim.models.durability.places import Domain, Path, Place
from rpsim.models.host.attached import AttachedMemory
from rpsim.models.profiles.kinds import KindParameters
from rpsim.models.profiles.platform import load_platform
from rpsim.sim.errors import InputError

from ...rig import LINE, Rig, line
from ...words.pages import EXAMPLES
from ..hops import PS, Hops, ceil_div

VOCABULARIES = (
    *(kind.terms for kind in (Place, Path, Domain)),
    *(places.IN_WORDS, places.WAYS, places.PLACES, places._SURVIVES),
    *(AttachedMemory.kinds, KindParameters.kinds),
)
NAME = "rpsim.models.host.battery_card"


@pytest.fixture
def card():
    """The example's module, as if it lay in models/host/; what it has added is gone afterwards."""
    before = [dict(one) for one in VOCABULARIES]
    spec = importlib.util.spec_from_file_location(NAME, EXAMPLES / "battery_card.py")
    module = sys.modules[NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[NAME]
    for one, was in zip(VOCABULARIES, before, strict=True):
        one.clear()
        one.update(was)


def platform(**settings):
    return load_platform(str(EXAMPLES / "battery-card.yaml"), **settings)


def test_a_write_is_visible_and_then_safe_at_the_instants_of_the_closed_form(card):
    rig = Rig(platform())
    rig.client.write(line(1))
    story = rig.story(0)
    assert [place for place, _ in story] == ["nic", "pcie", "card_buffer", "card_flash"]
    accepted, _, shown, saved = (ps for _, ps in story)
    parameters = rig.platform.devices["card"]
    header = rig.platform.pcie.tlp_header_write_bytes
    ingress_ps = ceil_div(LINE * 8 * PS, parameters.ingress_bits_per_s)
    assert shown == accepted + Hops(rig.platform).pcie(LINE + header) + parameters.write_ps + ingress_ps
    assert saved == shown + parameters.save_ps


def test_reads_of_cores_and_adapter_take_their_round_trip_and_come_behind_writes(card):
    rig = Rig(platform())
    read_ps = rig.platform.devices["card"].read_ps
    before = rig.clock.now_ps
    assert rig.server.load(length=LINE) == bytes(LINE)
    assert rig.clock.now_ps - before == 8 * read_ps
    slower = platform()
    slower = replace(slower, devices={"card": replace(slower.devices["card"], read_ps=read_ps + 300_000)})
    assert Rig(slower).client.read(LINE).ps - Rig(platform()).client.read(LINE).ps == 300_000
    retired = rig.server.store(line(2))
    assert rig.server.load(length=LINE) == line(2)
    assert rig.chunks(0)[0].reached_ps[2] > retired


@pytest.mark.parametrize(("battery", "kept"), [("charged", {"card_buffer", "card_flash"}), ("flat", set())])
def test_what_was_read_back_survives_with_a_battery_and_not_without(card, battery, kept):
    rig = Rig(platform(battery=battery))
    rig.client.post_write(data=line(1))
    now = rig.client.read(LINE).ps
    assert rig.adversarial.places(line=0, crash_ps=now) == {"card_buffer", "card_flash"}
    assert rig.timed.survives(line=0, crash_ps=now) is bool(kept)


@pytest.mark.parametrize(
    ("old", "new", "field", "found", "close"),
    [
        (
            "value: battery card",
            "value: batery card",
            "devices.card.kind.value",
            "the unknown kind 'batery card'",
            True,
        ),
        ("    kind: {", "    sort: {", "devices.card.kind", "nothing", False),
        ("ingress:", "ingres:", "devices.card.ingres", "the unknown key 'ingres'", True),
        ("domain: {value: charged,", "domain: {value: pmr,", "memory.pm.domain", "'pmr'", False),
        ("dimms: {value: 1", "dimms: {value: 2", "memory.pm.dimms", "2", False),
        ("device: {value: card", "device: {value: cart", "memory.pm.device", "'cart'", True),
    ],
)
def test_a_card_that_cannot_be_is_refused(card, tmp_path, old, new, field, found, close):
    text = (EXAMPLES / "battery-card.yaml").read_text(encoding="utf-8")
    assert old in text
    settings, rest = text.split("devices:\n")  # the setting would put its own domain there
    path = tmp_path / "mine.yaml"
    path.write_text((settings.split("settings:")[0] + "devices:\n" + rest).replace(old, new))
    with pytest.raises(InputError) as refused:
        load_platform(str(path))
    (mistake,) = [one for one in refused.value.mistakes if (one.field, one.found) == (field, found)]
    assert (mistake.nearest is not None) is close
    assert mistake.line


def test_without_the_file_its_kind_is_unknown():
    with pytest.raises(InputError) as refused:
        platform()
    assert "the unknown kind 'battery card'" in [mistake.found for mistake in refused.value.mistakes]


def test_only_a_memory_with_a_status_register_answers_its_read():
    host = Rig().server.node.host
    with pytest.raises(ValueError, match="pm has no status register"):
        host.status_read_ps(host.memory["pm"].base, 0)
