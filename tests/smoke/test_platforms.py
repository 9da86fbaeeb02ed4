import dataclasses
import pickle
from functools import cache

import pytest
import yaml

from rpsim.models.durability.rules import Switches
from rpsim.models.profiles.platform import load_platform, platform_names, platform_settings, platform_title
from rpsim.models.profiles.profiles import FOLDER
from rpsim.sim.errors import InputError
from rpsim.sim.yaml_source import read_yaml


def variants():
    """Every position of every setting, all others as they are by default: settings are independent (see below)."""
    for name in platform_names():
        yield name, {}
        for key, setting in platform_settings(name).items():
            yield from ((name, {key: value}) for value in setting.values if value != setting.default)


@cache
def values_of(name, **settings):
    """The profile's parameters by path, for reading only."""
    return {one.path: one.value for one in load_platform(name, **settings).parameters()}


def mistakes(name, **settings):
    with pytest.raises(InputError) as caught:
        load_platform(str(name), **settings)
    return caught.value.mistakes


@pytest.fixture
def profile(tmp_path):
    """Writes a user's profile on top of optane-adr and gives its path."""

    def write(text, head="platform: mine\ntitle: my server\nextends: optane-adr\n"):
        path = tmp_path / "mine.yaml"
        path.write_text(head + text)
        return path

    return write


# the shipped profiles -------------------------------------------------------------------------------------------


def test_the_two_optane_servers_are_there_with_their_titles():
    assert {"optane-adr", "optane-eadr"} <= set(platform_names())
    assert platform_title("optane-adr") == "one Cascade Lake server, six Optane DIMMs, ConnectX-5"


@pytest.mark.long
@pytest.mark.parametrize("name", platform_names())
def test_a_profile_is_called_as_its_file_and_has_defaults_for_all_settings(name):
    platform = load_platform(name)
    assert platform.name == name
    assert platform.title and platform.description
    assert platform.settings == {key: setting.default for key, setting in platform_settings(name).items()}


@pytest.mark.parametrize(("name", "settings"), list(variants()), ids=str)
def test_a_setting_loads_and_changes_only_what_it_names(name, settings):
    default, chosen = values_of(name), values_of(name, **settings)
    turned = {platform_settings(name)[key].sets for key in settings}
    assert {path for path in default if default[path] != chosen[path]} == turned


@pytest.mark.parametrize("name", platform_names())
def test_settings_are_independent(name):
    """Each sets a parameter of its own, and all turned together change what each changes alone."""
    settings = platform_settings(name)
    assert len({setting.sets for setting in settings.values()}) == len(settings)
    turned = {key: setting.values[-1] for key, setting in settings.items()}
    together, default = values_of(name, **turned), values_of(name)
    for key, setting in settings.items():
        alone = values_of(name, **{key: turned[key]})
        assert together[setting.sets] == alone[setting.sets]
    assert {path for path in default if default[path] != together[path]} <= {s.sets for s in settings.values()}


@pytest.mark.long
@pytest.mark.parametrize("name", platform_names())
def test_every_number_says_where_it_comes_from(name):
    for parameter in load_platform(name).parameters():
        assert len(parameter.source.split()) >= 3, parameter
        assert parameter.file.endswith(".yaml") and parameter.line, parameter
        if parameter.origin == "assumption" and type(parameter.value) is int:
            assert parameter.range, f"{parameter.path} is assumed: within which range?"
        if parameter.origin == "fitted":
            assert parameter.source.startswith("fitted to "), parameter


def test_ddio_is_a_switch_of_the_profile():
    assert load_platform("optane-adr").llc.ddio is True
    assert load_platform("optane-adr", ddio="off").llc.ddio is False
    assert load_platform("optane-adr", ddio=False) == load_platform("optane-adr", ddio="off")


def test_the_domains_are_those_of_adr_and_of_its_successor():
    adr, eadr = load_platform("optane-adr"), load_platform("optane-eadr")
    assert (adr.memory["pm"].domain, adr.memory["dram"].domain) == ("adr", "none")
    assert (eadr.memory["pm"].domain, eadr.memory["dram"].domain) == ("eadr", "none")
    assert (adr.cpu.clwb_invalidates, eadr.cpu.clwb_invalidates) == (True, False)
    assert not adr.iio_wc_survives and not eadr.iio_wc_survives
    assert load_platform("optane-eadr", iio_wc_survives="on").iio_wc_survives


def test_every_reading_of_an_open_point_is_stated_and_is_the_cautious_one():
    for name in platform_names():
        platform = load_platform(name)
        stated = {p.path for p in platform.parameters() if p.path.startswith("switches.")}
        assert stated == {f"switches.{field.name}" for field in dataclasses.fields(Switches)}
        assert platform.switches == Switches()
        assert platform.iio_wc_survives is platform.switches.iio_wc_survives


def test_the_drive_beside_the_adapter_has_a_persistent_memory_region():
    platform = load_platform("pmr")
    assert platform.memory["pmr"].domain == "pmr"
    assert platform.peers[platform.memory["pmr"].device].pmrwbm == 2
    assert load_platform("pmr", pmrwbm=1).peers["haishen5"].pmrwbm == 1
    assert load_platform("optane-adr").peers == {}


def test_the_successor_states_only_what_differs():
    base = {p.path: p for p in load_platform("optane-adr").parameters()}
    own = {p.path: p for p in load_platform("optane-eadr").parameters() if p.file.endswith("optane-eadr.yaml")}
    same = {path for path, p in own.items() if p.value == base[path].value}
    assert same <= {"llc.ddio", "switches.iio_wc_survives", "llc.io_ways"}  # stated again for their other source
    assert load_platform("optane-eadr").nic == load_platform("optane-adr").nic


def test_store_flush_and_fence_add_up_to_the_published_latencies():
    """Yang et al., FAST'20: figure 2 for DRAM; for Optane between figure 2 and what the artifact has for 64 B."""
    cpu, media = load_platform("optane-adr").cpu, load_platform("optane-adr").media
    stored_ps = cpu.store_ps + 64 * 8 * 10**12 // cpu.memcpy_bits_per_s
    for device, clwb_ps, ntstore_ps in (
        ("optane", (62_300, 116_400), (90_400, 124_700)),
        ("dram", (57_300, 57_300), (86_900, 86_900)),
    ):
        kind = media[device]
        fence_ps = cpu.sfence_ps + (kind.controller.ingest_ps if kind.controller.fence_drains else 0)
        assert clwb_ps[0] <= stored_ps + cpu.clwb_ps + kind.clwb_to_wpq_ps + fence_ps <= clwb_ps[1]
        assert ntstore_ps[0] <= cpu.ntstore_ps + kind.ntstore_to_wpq_ps + fence_ps <= ntstore_ps[1]


def test_a_write_of_64_bytes_completes_near_the_published_median():
    """A sum by hand of the residual's first estimates; the end-to-end test judges the simulated path."""
    platform = load_platform("optane-adr")
    nic, fabric = platform.nic, platform.fabric
    crossing_ps = 2 * fabric.propagation_ps + fabric.switch_ps
    request_ps = nic.post_wqe_ps + nic.doorbell_ps + nic.tx_processing_ps + crossing_ps + nic.rx_processing_ps
    reply_ps = nic.ack_generation_ps + crossing_ps + nic.ack_processing_ps + platform.pcie.posted_write_ps
    assert request_ps + reply_ps + nic.poll_ps == pytest.approx(1_400_000, rel=0.1)


def test_a_platform_travels_to_another_process():
    platform = load_platform("optane-eadr", ddio="off")
    again = pickle.loads(pickle.dumps(platform))
    assert again == platform
    assert again.parameters() == platform.parameters()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_profile_is_read_by_people(path):
    assert read_yaml(path).data["platform"] == path.stem
    assert max(map(len, path.read_text().splitlines())) <= 120


# a user's own ---------------------------------------------------------------------------------------------------


def test_a_users_file_may_extend_a_shipped_profile(profile):
    path = profile('nic:\n  doorbell: {value: 0.2 us, source: "measured by us"}\n')
    platform = load_platform(str(path), ddio="off")
    assert platform.name == "mine"
    assert platform.nic.doorbell_ps == 200_000
    assert platform.llc.ddio is False
    assert platform.cpu == load_platform("optane-adr").cpu
    [doorbell] = [p for p in platform.parameters() if p.path == "nic.doorbell"]
    assert (doorbell.text, doorbell.source, doorbell.line) == ("0.2 us", "measured by us", 5)


def test_a_users_file_may_add_a_memory_and_its_kind_of_dimm(profile):
    kind = "\n".join(
        f'    {key}: {{value: {value}, source: "our data sheet"}}'
        for key, value in {
            "line": "64 B",
            "capacity": "16 GiB",
            "load": "90 ns",
            "dma_read_extra": "0 ns",
            "write": "30 ns",
            "read_bandwidth": "17 GB/s",
            "write_bandwidth": "12 GB/s",
            "clwb_to_wpq": "25 ns",
            "ntstore_to_wpq": "59 ns",
        }.items()
    )
    memory = "".join(
        f'    {key}: {{value: {value}, source: "our data sheet"}}\n'
        for key, value in {"device": "nvdimm", "domain": "adr", "dimms": 2}.items()
    )
    platform = load_platform(str(profile(f"media:\n  nvdimm:\n{kind}\nmemory:\n  log:\n{memory}")))
    assert set(platform.memory) == {"pm", "dram", "log"}
    assert platform.media[platform.memory["log"].device].capacity_bytes == 16 * 2**30


def test_a_users_file_may_read_open_points_otherwise_and_make_settings_of_them(profile):
    path = profile(
        'switches:\n  flush_covers_sends: {value: true, source: "our adapter"}\n'
        "settings:\n  reads:\n    sets: switches.relaxed_reads\n    values: [off, on]\n"
        "    default: off\n    source: our root complex\n"
    )
    assert load_platform(str(path)).switches == Switches(flush_covers_sends=True)
    assert load_platform(str(path), reads="on").switches == Switches(flush_covers_sends=True, relaxed_reads=True)


def test_what_has_a_default_may_be_left_out(profile, tmp_path):
    data = read_yaml(FOLDER / "optane-adr.yaml").data
    path = tmp_path / "whole.yaml"
    path.write_text(yaml.safe_dump({key: part for key, part in data.items() if key not in ("switches", "peers")}))
    platform = load_platform(str(path))
    assert (platform.switches, platform.peers) == (Switches(), {})


def test_a_users_file_may_extend_a_users_file_beside_it(profile, tmp_path):
    profile('nic:\n  mtu: {value: 1 KiB, source: "our switch"}\n')
    (tmp_path / "child.yaml").write_text("platform: child\ntitle: its child\nextends: ./mine.yaml\n")
    assert load_platform(str(tmp_path / "child.yaml")).nic.mtu_bytes == 1024


# what is wrong is told with its place ---------------------------------------------------------------------------


def test_an_unknown_platform_or_setting_gets_the_nearest_name():
    [mistake] = mistakes("optane-ard")
    assert (mistake.found, mistake.nearest) == ("the unknown platform 'optane-ard'", "optane-adr")
    [mistake] = mistakes("optane-adr", didio="on")
    assert mistake.nearest == "ddio"
    [mistake] = mistakes("optane-adr", ddio="of")
    assert (mistake.expected, mistake.nearest) == ("one of on, off", "off")


SOME = "{value: 8, source: us}"
CACHE = f"{{entries: {SOME}, under_way: {SOME}}}"
EMPTY_CACHE = f"{{entries: {{value: 0, source: us}}, under_way: {SOME}}}"


@pytest.mark.parametrize(
    ("text", "line", "field", "found"),
    [
        ("nic:\n  doorbell: 150 ns\n", 5, "nic.doorbell", "'150 ns' without a source"),
        ("nic:\n  doorbell: {value: 150 ns}\n", 5, "nic.doorbell.source", "no source"),
        ("nic:\n  doorbell: {value: 150 ns, source: ''}\n", 5, "nic.doorbell.source", "''"),
        ("nic:\n  doorbell: {value: 150, source: us}\n", 5, "nic.doorbell.value", "150"),
        ("nic:\n  doorbell: {value: 3 parsecs, source: us}\n", 5, "nic.doorbell.value", "'3 parsecs'"),
        ("nic:\n  doorbell: {value: -1 ns, source: us}\n", 5, "nic.doorbell.value", "'-1 ns'"),
        ("nic:\n  doorbell: {source: us}\n", 5, "nic.doorbell.value", "nothing"),
        (
            "nic:\n  doorbell:\n    value: 1 ns\n    source: us\n    note2: x\n",
            8,
            "nic.doorbell.note2",
            "the unknown key",
        ),
        ("nic:\n  doorbell: {value: 1 ns, source: us, range: 2}\n", 5, "nic.doorbell.value", "the range 2"),
        (
            "nic:\n  doorbell: {value: 1 ns, source: us, range: [2 ns, 3 ns]}\n",
            5,
            "nic.doorbell.value",
            "a value outside",
        ),
        ("nic:\n  mtu: {value: 1.5 B, source: us}\n", 5, "nic.mtu.value", "'1.5 B'"),
        ("nic:\n  mtu: {value: 1500 B, source: us}\n", 5, "nic.mtu", "1500 B"),
        ("nic:\n  outstanding_reads: {value: 0, source: us}\n", 5, "nic.outstanding_reads.value", "0"),
        ("nic:\n  outstanding_reads: {value: true, source: us}\n", 5, "nic.outstanding_reads.value", "true"),
        ("nic:\n  blueflame: {value: maybe, source: us}\n", 5, "nic.blueflame.value", "'maybe'"),
        ("nic:\n  door_bell: {value: 1 ns, source: us}\n", 5, "nic.door_bell", "the unknown key 'door_bell'"),
        ("nic: fast\n", 4, "nic", "'fast'"),
        (f"nic:\n  caches:\n    context: {CACHE}\n", 6, "nic.caches.context", "the unknown cache 'context'"),
        (f"nic:\n  caches:\n    contexts: {EMPTY_CACHE}\n", 6, "nic.caches.contexts.entries.value", "0"),
        (f"nic:\n  caches:\n    contexts: {{entries: {SOME}}}\n", 6, "nic.caches.contexts.under_way", "nothing"),
        (f"nic:\n  caches:\n    contexts: {SOME}\n", 6, "nic.caches.contexts", "a map of 2"),
        ("nic:\n  atomic_stall: {value: unit, source: us}\n", 5, "nic.atomic_stall.value", "'unit'"),
        ("nic:\n  doorbell: {fast: true}\n", 5, "nic.doorbell", "a map of 1"),
        ("nics:\n  doorbell: {value: 1 ns, source: us}\n", 4, "nics", "the unknown key 'nics'"),
        ("fabric:\n  link: {value: 100 Gbps, source: us}\n", 5, "fabric.link.value", "'100 Gbps'"),
        ("fabric:\n  link: {value: [1], source: us}\n", 5, "fabric.link.value", "a list of 1"),
        ("memory:\n  pm:\n    domain: {value: adrr, source: us}\n", 6, "memory.pm.domain.value", "'adrr'"),
        ("memory:\n  pm:\n    device: {value: optan, source: us}\n", 6, "memory.pm.device", "'optan'"),
        ("memory:\n  pm:\n    domain: {value: pmr, source: us}\n", 6, "memory.pm.domain", "'pmr'"),
        ("switches:\n  read_back: {value: on, source: us}\n", 5, "switches.read_back", "the unknown key"),
        ("switches:\n  reads_in_order: {value: 2, source: us}\n", 5, "switches.reads_in_order.value", "2"),
        ("llc:\n  io_ways: {value: 12, source: us}\n", 5, "llc.io_ways", "12"),
        ("llc:\n  line: {value: 48 B, source: us}\n", 5, "llc.line", "48 B"),
        ("settings: [ddio]\n", 4, "settings", "a list of 1"),
        ("settings:\n  turbo: on\n", 5, "settings.turbo", "'on'"),
        (
            "settings:\n  turbo: {sets: cpus.turbo, values: [on], default: on, source: us}\n",
            5,
            "settings.turbo.sets",
            "'cpus.turbo'",
        ),
        (
            "settings:\n  turbo: {sets: cpu.turbo, values: [on], default: on, source: us}\n",
            5,
            "cpu.turbo",
            "the unknown key 'turbo'",
        ),
    ],
)
def test_a_mistake_in_a_file_is_named_with_line_field_and_what_was_found(profile, text, line, field, found):
    path = profile(text)
    [mistake] = mistakes(path)
    assert (mistake.file, mistake.line, mistake.field) == (str(path), line, field)
    assert mistake.found.startswith(found)
    assert mistake.expected


@pytest.mark.parametrize(
    ("text", "line", "field", "found"),
    [
        ("memory:\n  pmr:\n    domain: {value: adr, source: us}\n", 6, "memory.pmr.domain", "'adr'"),
        ("memory:\n  pmr:\n    dimms: {value: 2, source: us}\n", 6, "memory.pmr.dimms", "2"),
        ("memory:\n  pmr:\n    device: {value: haishen, source: us}\n", 6, "memory.pmr.device", "'haishen'"),
        ("peers:\n  haishen5:\n    mmio_read: {value: 0.2 us, source: us}\n", None, None, None),
    ],
)
def test_what_is_wrong_with_a_device_beside_the_adapter(profile, text, line, field, found):
    path = profile(text, head="platform: mine\ntitle: my server\nextends: pmr\n")
    if field is None:
        assert load_platform(str(path)).peers["haishen5"].mmio_read_ps == 200_000
        return
    [mistake] = mistakes(path)
    assert (mistake.line, mistake.field) == (line, field)
    assert mistake.found.startswith(found)


def test_the_barrier_mechanism_is_bits_0_and_1(profile):
    head = "platform: mine\ntitle: my server\nextends: pmr\n"
    text = "settings:\n  pmrwbm: {sets: peers.haishen5.pmrwbm, values: [1, 3, 4], default: 1, source: us}\n"
    [mistake] = mistakes(profile(text, head=head), pmrwbm=4)
    assert mistake.found.startswith(("4", "a value outside its range"))


def test_all_mistakes_are_told_at_once(profile):
    path = profile("nic:\n  doorbell: 1 ns\n  mtu: {value: x, source: us}\ncpu:\n  sfenc: {value: 1 ns, source: us}\n")
    told = mistakes(path, ddoi="on")
    assert [(m.line, m.nearest) for m in told if m.file] == [(5, None), (6, None), (8, "sfence")]
    assert [m.nearest for m in told if not m.file] == ["ddio"]


def test_a_profile_of_its_own_must_state_everything(profile):
    path = profile("nic:\n  doorbell: {value: 1 ns, source: us}\n", head="platform: mine\ntitle: my server\n")
    missing = {mistake.field for mistake in mistakes(path)}
    assert {"cpu", "memory", "line_atomicity", "nic.poll", "nic.headers"} <= missing
    assert "nic.doorbell" not in missing


@pytest.mark.parametrize(
    ("head", "field"),
    [
        ("title: my server\n", "platform"),
        ("platform: [a]\ntitle: my server\n", "platform"),
        ("platform: mine\n", "title"),
        ("platform: mine\ntitle: my server\nextends: optane-ard\n", "extends"),
        ("platform: mine\ntitle: my server\nextends: ./mine.yaml\n", "extends"),
        ("platform: mine\ntitle: my server\nextends: ./nowhere/../mine.yaml\n", "extends"),
    ],
)
def test_the_head_of_a_profile_is_checked(profile, head, field):
    path = profile("", head=head)
    [mistake] = mistakes(path)
    assert (mistake.file, mistake.field) == (str(path), field)


@pytest.mark.parametrize("text", ["", "- a list\n", "just words\n", "a: [\n"])
def test_what_is_no_profile_at_all_is_refused(profile, text):
    [mistake] = mistakes(profile(text, head=""))
    assert mistake.file


def test_a_file_that_is_not_there_is_told(tmp_path):
    [mistake] = mistakes(tmp_path / "none.yaml")
    assert mistake.found == "no such file"
    [mistake] = mistakes("no\0path.yaml")
    assert mistake.found.startswith(("no such file", "a file that cannot be read"))
