"""Does the native benchmark build, read its plans, count rightly, and say what it lacks?

Real operations need an RDMA device: test_verbs_vm.py makes them on a software one.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .verbs_bench import PLANS, ROOT, SOURCES, build, run

pytestmark = pytest.mark.xdist_group("verbs_bench")  # one build, whatever the number of workers

DEVICES = Path("/sys/class/infiniband")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("verbs_bench")
    return folder, build(folder)


@pytest.fixture(scope="module")
def program(built: tuple[Path, str]) -> Path:
    return built[0] / "rpsim-verbs"


without_device = pytest.mark.skipif(
    DEVICES.exists() and any(DEVICES.iterdir()), reason="this machine has an RDMA device"
)


# building ------------------------------------------------------------------------------------------------------


def test_it_builds_without_a_warning(built: tuple[Path, str]) -> None:
    assert "warning" not in built[1]


def test_a_header_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "cc").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "cc").chmod(0o755)
    command = ["make", "-C", str(SOURCES), f"BUILD={tmp_path}/build", f"CC={tmp_path}/cc"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "infiniband/verbs.h is missing (Debian: apt install libibverbs-dev)" in done.stderr


def test_every_source_is_ours_to_read() -> None:
    for path in [*SOURCES.glob("*.[ch]"), *(SOURCES / "vm").iterdir(), SOURCES / "Makefile"]:
        lines = path.read_text(encoding="utf-8").expandtabs(8).splitlines()
        assert len(lines) <= 500, path
        assert max(map(len, lines)) <= 120, path


# without a device ----------------------------------------------------------------------------------------------


@without_device
@pytest.mark.parametrize("command", [["serve"], ["measure", "127.0.0.1", "--plan", PLANS / "quick.yaml"]])
def test_without_a_device_there_is_one_message(program: Path, command: list[str | Path]) -> None:
    done = run(program, *command)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("rpsim-verbs: no RDMA device: 'rdma link show' should list one")


@without_device
def test_without_a_device_nothing_is_written(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    assert run(program, "measure", "127.0.0.1", "--plan", PLANS / "quick.yaml", "--out", out).returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["meassure"], "found the command meassure"),
        (["measure", "10.0.0.1"], "a plan is missing: --plan PLAN"),
        (["measure", "--plan", "x.yaml"], "one SERVER is expected"),
        (["serve", "--plan", "x.yaml"], "not an option of this command: --plan"),
        (["serve", "--port"], "a value is missing for --port"),
        (["serve", "--cpu", "two"], "--cpu expects a number, found two"),
        (["serve", "--dax", "/dev/dax9.9"], "--dax /dev/dax9.9: it is not there, or may not be read and written"),
        (["serve", "--dmabuf", "/dev/udmabug"], "--dmabuf /dev/udmabug: it is not there"),
        (["serve", "--dax", "/none/file"], "--dax /none/file: it is not there"),
        (["plan", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (["measure", "h", "--plan", str(PLANS / "quick.yaml"), "--only", "wriet"], "no measurement of"),
    ],
)
def test_a_wrong_command_line_is_status_2(program: Path, arguments: list[str], said: str) -> None:
    done = run(program, *arguments)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[0]
    assert done.stdout == ""


# plans ---------------------------------------------------------------------------------------------------------


def listed(program: Path, plan: Path) -> list[dict]:
    done = run(program, "plan", plan, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_shipped_plans_have_every_verb(program: Path) -> None:
    for name in ("quick", "standard"):
        measurements = listed(program, PLANS / f"{name}.yaml")
        assert len({one["verb"] for one in measurements}) == 11
        assert {one["transport"] for one in measurements} == {"rc", "uc", "ud"}
        assert {one["memory"] for one in measurements} == {"dram", "dax", "dmabuf"}
        assert {one.get("placement") for one in measurements} == {None, "global", "persistent"}
    assert {one["qps"] for one in measurements} >= {1, 1024}
    assert {one["region_bytes"] for one in measurements} >= {64 << 10, 1 << 30}


def test_a_list_is_all_combinations_the_size_changing_fastest(program: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "plan: p\nmeasurements:\n"
        "- {id: a, verb: [WRITE, CAS], sizes: [8, 1 KiB], depth: [1, 2]}\n"
        "- {id: b, verb: WRITE+FLUSH, sizes: [8, 1 KiB], depth: [1, 2], placement: [global, persistent]}\n"
    )
    found = [(o["verb"], o.get("placement"), o["depth"], o["size_bytes"]) for o in listed(program, plan)]
    write = [("WRITE", None, depth, size) for depth in (1, 2) for size in (8, 1024)]
    cas = [("CAS", None, 1, 8), ("CAS", None, 2, 8)]  # always 8 bytes
    flush = [("WRITE+FLUSH", p, d, s) for p in ("global", "persistent") for d in (1, 2) for s in (8, 1024)]
    assert found == write + cas + flush


@pytest.mark.parametrize("name", ["quick", "standard"])
def test_the_simulator_reads_the_same_out_of_a_plan(program: Path, name: str) -> None:
    plans = pytest.importorskip("rpsim.validation.measuring.plan")
    modes = {None: "auto", True: "yes", False: "no"}
    native, points = listed(program, PLANS / f"{name}.yaml"), plans.read_plan(PLANS / f"{name}.yaml").points
    assert len(native) == len(points)
    for one, point in zip(native, points, strict=True):
        simulated = {field: getattr(point, field) for field in one}
        assert {**simulated, "inline": modes[point.inline]} == one


def test_datagrams_are_measured_there_and_back(program: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan: p\nmeasurements:\n- {id: a, verb: SEND, transport: [rc, uc, ud], sizes: 8, depth: [1, 2]}\n")
    assert [(o["transport"], o["depth"], o["method"]) for o in listed(program, plan)] == [
        ("rc", 1, "completion"),
        ("rc", 2, "completion"),
        ("uc", 1, "half_round_trip"),
        ("uc", 2, "completion"),
        ("ud", 1, "half_round_trip"),
        ("ud", 2, "completion"),
    ]


WRONG = [
    ("{id: a, verb: WRIT, sizes: 8}", "verb: found 'WRIT', expected WRITE, "),
    ("{id: a, verb: WRIT, sizes: 8}", "did you mean 'WRITE'?"),
    ("{id: a, verb: WRITE, size: 8}", "size: found a field that is not known, expected id, verb, sizes"),
    ("{id: a, verb: WRITE, size: 8}", "did you mean 'sizes'?"),
    ("{id: a, verb: WRITE, sizes: 4 KiX}", "sizes: found '4 KiX', expected a size from 1 B to 1 MiB, e.g. '64 B'"),
    ("{id: a, verb: WRITE}", "sizes: found nothing, expected a size"),
    ("{id: a, sizes: 8}", "verb: found nothing, expected a verb"),
    ("{verb: WRITE, sizes: 8}", "id: found nothing, expected a name for this measurement"),
    ("{id: A b, verb: WRITE, sizes: 8}", "id: found 'A b', expected a name of at most 63 small letters, digits"),
    ("{id: a, verb: WRITE, sizes: []}", "sizes: found an empty list, expected one value or more"),
    ("{id: a, verb: WRITE, sizes: 8, depth: 0}", "depth: found '0', expected a number from 1 to 4096"),
    ("{id: a, verb: WRITE, sizes: 8, iterations: [1, 2]}", "iterations: found a list, expected one value"),
    ("{id: a, verb: READ, sizes: 8, transport: uc}", "verb: found READ on uc, expected WRITE, WRITE_WITH_IMM or SEND"),
    ("{id: a, verb: WRITE, sizes: 8, transport: ud}", "verb: found WRITE on ud, expected SEND"),
    ("{id: a, verb: READ, sizes: 8, inline: yes}", "inline: found yes for READ, expected auto or no"),
    ("{id: a, verb: WRITE, sizes: 8 KiB, region: 4 KiB}", "sizes: found 8192 bytes, expected no more than the"),
    ("{id: a, verb: WRITE, sizes: 8, level: range}", "level: found for WRITE, expected for FLUSH and WRITE+FLUSH only"),
    ("{id: a, verb: CAS, sizes: 16 B}", "sizes: found 16 bytes for CAS, expected 8 B"),
    ("{id: a, verb: READ, sizes: 8, method: half_round_trip}", "method: found half_round_trip for READ, expected"),
    ("{id: a, verb: SEND, sizes: 8, method: half_round_trip, depth: 2}", "method: found half_round_trip at depth 2"),
    ("{id: a, verb: SEND, sizes: 8, sizes: 9}", "sizes: found a second time (first on line 4), expected once"),
    ("7", "measurements: found '7', expected a mapping with id, verb and sizes"),
    ("{id: a", "found no valid YAML, expected a plan"),
]


@pytest.mark.parametrize(("entry", "said"), WRONG)
def test_a_mistake_in_a_plan_has_its_line(program: Path, tmp_path: Path, entry: str, said: str) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"plan: p\nmeasurements:\n- {{id: fine, verb: WRITE, sizes: 8}}\n- {entry}\n")
    done = run(program, "plan", plan)
    assert done.returncode == 2
    assert done.stdout == ""
    line = 5 if "YAML" in said else 4
    assert any(text.startswith(f"{plan}:{line}: ") and said in text for text in done.stderr.splitlines()), done.stderr


def test_all_mistakes_are_told_at_once(program: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    entries = ["{id: a, verb: REED, sizes: 8}", "{id: a, verb: WRITE, sizes: 8, qps: x}"]
    plan.write_text("titel: p\nmeasurements:\n" + "".join(f"- {entry}\n" for entry in entries))
    lines = [text.removeprefix(f"{plan}:").split(":")[0] for text in run(program, "plan", plan).stderr.splitlines()]
    assert Counter(lines) == {"1": 2, "3": 1, "4": 1}  # the title is misspelt, the name missing


# statistics ----------------------------------------------------------------------------------------------------


def linked(program: Path, probe: str, *parts: str) -> Path:
    """A small program of the tests, linked with parts of the benchmark."""
    made = program.parent / probe
    source = ROOT / "tests" / "smoke" / f"{probe}.c"
    objects = [program.parent / f"{part}.o" for part in parts]
    flags = ["-std=c11", "-D_GNU_SOURCE", f"-I{SOURCES}"]
    subprocess.run(["cc", *flags, source, *objects, "-libverbs", "-o", made], check=True)
    return made


@pytest.fixture(scope="module")
def probe(program: Path) -> Path:
    return linked(program, "samples_probe", "samples", "measurement", "report", "clock")


@settings(max_examples=40)
@given(
    values=st.lists(st.integers(0, 63) | st.integers(1, 10**4) | st.integers(1, 10**10), min_size=1, max_size=300),
    method=st.sampled_from(["whole", "half"]),
)
def test_percentiles_and_histogram_are_those_of_the_samples(probe: Path, values: list[int], method: str) -> None:
    text = "\n".join(map(str, values))
    result = json.loads(subprocess.run([probe, method], input=text, capture_output=True, text=True, check=True).stdout)
    ns = np.sort(np.array(values) * (0.5 if method == "half" else 1.0))
    latency = result["latency_ns"]
    assert latency["min"] == pytest.approx(ns[0], abs=0.051)
    assert latency["max"] == pytest.approx(ns[-1], abs=0.051)
    assert latency["mean"] == pytest.approx(ns.mean(), rel=1e-9, abs=0.051)
    for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        rank = min(int(len(ns) * part), len(ns) - 1)
        assert latency[name] == pytest.approx(ns[rank], abs=0.051)
    edges = [edge for edge, _ in result["histogram"]]
    assert edges == sorted(set(edges))
    assert sum(count for _, count in result["histogram"]) == len(ns)
    below = np.cumsum([count for _, count in result["histogram"]])
    assert [int(np.sum(ns < edge)) for edge in edges] == below.tolist()
    for edge, here in zip(edges, np.split(ns, below[:-1]), strict=True):
        assert edge - here.min() <= max(1, here.min() / 32 + 1), "a bin is at most a thirty-second wide"
    total = sum(values)
    assert result["operations_per_s"] == pytest.approx(len(values) * 1e9 / total if total else 0, rel=1e-6, abs=0.051)


# DDIO ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ddio_probe(program: Path) -> Path:
    return linked(program, "ddio_probe", "ddio")


@pytest.mark.parametrize(
    ("device", "perfctrlsts_0", "below", "said"),
    [
        ("0x2030", 0x80, "", "on"),
        ("0x2033", 0x80, "0000:17:00.0/0000:18:08.0/", "on"),  # behind a switch
        ("0x2030", 0x08, "", "off"),
        ("0x2030", 0x88, "", "off"),
        ("0x2030", 0x00, "", "off"),
        ("0x2030", None, "", "unknown: root may read it"),
        ("0x6f02", 0x80, "", "unknown: not a root port of Skylake-SP or Cascade Lake-SP"),
    ],
)
def test_ddio_is_read_from_the_root_port(
    ddio_probe: Path, tmp_path: Path, device: str, perfctrlsts_0: int | None, below: str, said: str
) -> None:
    port = tmp_path / "pci0000:16" / "0000:16:00.0"
    nic = port / below / "0000:19:00.0"
    nic.mkdir(parents=True)
    (port / "vendor").write_text("0x8086\n")
    (port / "device").write_text(f"{device}\n")
    config = bytearray(64 if perfctrlsts_0 is None else 4096)
    if perfctrlsts_0 is not None:
        config[0x180] = perfctrlsts_0
    (port / "config").write_bytes(config)
    (tmp_path / "link").symlink_to(nic)
    assert run(ddio_probe, tmp_path / "link").stdout == f"{said}\n"


def test_a_software_device_has_no_ddio(ddio_probe: Path, tmp_path: Path) -> None:
    assert run(ddio_probe, tmp_path).stdout == "unknown: not a PCI device\n"
    assert run(ddio_probe, tmp_path / "none").stdout == "unknown: not a PCI device\n"
