"""What is said of wrong plans and wrong measurements: file, line, field, found, expected, nearest name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.sim.errors import InputError
from rpsim.validation.measuring.documents import merged
from rpsim.validation.measuring.perftest import parse_perftest
from rpsim.validation.measuring.plan import read_plan
from rpsim.validation.measuring.reading import read_measurements

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
LOG = (EXAMPLES / "perftest-connectx3.txt").read_text(encoding="utf-8")
BANDWIDTH = (EXAMPLES / "perftest-connectx3-bw.txt").read_text(encoding="utf-8")


def mistakes(read, *arguments) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(*arguments)
    return [str(mistake) for mistake in caught.value.mistakes]


# plans --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{id: a, verb: WRIT, sizes: 8 B}", "found 'WRIT', expected one of WRITE,"),
        ("{id: a, verb: WRITE}", "measurements[0].sizes: found nothing, expected a size"),
        ("{id: a, verb: WRITE, sizes: 8 XB}", "found '8 XB', expected a size from 1 B"),
        ("{id: a, verb: WRITE, sizes: []}", "found an empty list"),
        ("{id: a, verb: WRITE, size: 8 B}", "did you mean 'sizes'?"),
        ("{id: A b, verb: WRITE, sizes: 8 B}", "an id of small letters"),
        ("{id: a, verb: READ, sizes: 8 B, transport: uc}", "found READ over uc, expected READ over rc"),
        ("{id: a, verb: WRITE, sizes: 8 B, level: range}", "level of a FLUSH only"),
        ("{id: a, verb: READ, sizes: 8 B, inline: yes}", "found yes, expected auto or no"),
        ("{id: a, verb: WRITE, sizes: 1 MiB, region: 4 KiB}", "sizes within the region"),
        ("{id: a, verb: WRITE, sizes: 8 B, depth: 4, method: half_round_trip}", "depth 1 and one queue pair"),
        ("{id: a, verb: WRITE, sizes: 8 B, iterations: 0}", "found 0, expected a whole number from 1"),
        ("{id: a, verb: WRITE, sizes: 8 B, warmup: [1, 2]}", "found a list of 2, expected one value"),
        ("7", "found 7, expected a measurement"),
    ],
)
def test_a_plan_is_refused_with_the_line(tmp_path, entry, told):
    path = tmp_path / "plan.yaml"
    path.write_text(f"plan: mine\nmeasurements:\n- {entry}\n", encoding="utf-8")
    (mistake,) = mistakes(read_plan, path)
    assert mistake.startswith(f"{path}:3: ") and told in mistake


def test_an_id_is_used_once_and_all_mistakes_are_told_at_once(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(
        "plna: x\nmeasurements:\n- {id: a, verb: CAS}\n- {id: a, verb: CAS}\n- {id: b, verb: CAS, qps: x}\n",
        encoding="utf-8",
    )
    found = mistakes(read_plan, path)
    assert [line.split(": ")[0].rpartition(":")[2] for line in found] == ["1", "1", "4", "5"]
    assert "did you mean 'plan'?" in found[0] and "line 3 has it" in found[2]


# documents ----------------------------------------------------------------------------------------------------


def document(tmp_path: Path, **changes) -> Path:
    result = {"id": "a", "verb": "WRITE", "transport": "rc", "size_bytes": 8, "method": "completion"}
    result |= {"latency_ns": {"p50": 1400.0}}
    result = {key: value for key, value in {**result, **changes}.items() if value is not None}
    head = {"format": "rpsim-measurements-1", "origin": "native", "program": {}, "machine": {}}
    path = tmp_path / "m.json"
    path.write_text(json.dumps(head | {"results": [result]}, indent=1), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "line", "told"),
    [
        ({"verb": "WRIET"}, 9, "results[0].verb: found 'WRIET', expected one of WRITE"),
        ({"size_bytes": -8}, 11, "found -8, expected a whole number from 1"),
        ({"latency_ns": {"p5": 1.0}}, 14, "found the unknown key 'p5'"),
        ({"latency_ns": {"p50": "fast"}}, 14, "found 'fast', expected a number of ns"),
        ({"latency_ns": None}, 7, "found nothing measured"),
        ({"opreations_per_s": 5}, 16, "did you mean 'operations_per_s'?"),
        ({"verb": "READ", "transport": "ud"}, 9, "found READ over ud"),
    ],
)
def test_a_document_is_refused_with_the_line(tmp_path, changes, line, told):
    path = document(tmp_path, **changes)
    (mistake,) = mistakes(read_measurements, path)
    assert mistake.startswith(f"{path}:{line}: ") and told in mistake


def test_broken_json_names_the_line_and_other_files_what_was_expected(tmp_path):
    path = document(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.index('"verb"')], encoding="utf-8")
    assert "found the end of the file, expected JSON" in mistakes(read_measurements, path)[0]
    path.write_text("size;time\n8;1.4\n", encoding="utf-8")
    assert f"{path}:1: found 'size;time', expected measurements as JSON" in mistakes(read_measurements, path)[0]
    path.write_bytes(b"\x7fELF\xff\xfe")
    assert "a binary file" in mistakes(read_measurements, path)[0]
    assert "no such file" in mistakes(read_measurements, tmp_path / "m.jsn")[0]


# perftest -----------------------------------------------------------------------------------------------------


def test_perftest_as_pasted_is_read():
    found = {(m.conditions.id, m.conditions.size_bytes): m for m in parse_perftest(LOG + BANDWIDTH, "log").measurements}
    assert len(found) == 3 * 16 + 1 + 3 * 16 + 1
    write = found["ib-write-lat", 64]
    assert write.latency_ns == {"min": 970, "max": 7070, "p50": 1090, "mean": 1110, "p99": 1210, "p999": 4320}
    assert (write.conditions.method, write.conditions.inline, write.conditions.mtu_bytes) == (
        "half_round_trip",
        True,
        2048,
    )
    assert not found["ib-write-lat", 256].conditions.inline  # beyond Max inline data: 220[B]
    assert found["ib-read-lat", 64].conditions.method == found["ib-atomic-lat", 8].conditions.method == "completion"
    rate = found["ib-read-bw", 65536]
    assert (rate.conditions.depth, rate.conditions.signal_every) == (128, 100)
    assert rate.operations_per_s == 58719 and rate.bytes_per_s == pytest.approx(3669.96 * 2**20)


@pytest.mark.parametrize(
    ("change", "line", "told"),
    [
        (lambda text: text.replace(" 64      20000          0.97", " 64      20000          0.9x", 1), 20, "'0.9x'"),
        (lambda text: re.sub(r"7\.07 +1\.09", "1.09", text, count=1), 20, "found 8 values, expected 9"),
        (lambda text: text.replace(" 64      20000", " 6.4     20000", 1), 20, "'6.4', expected a whole number"),
        (lambda text: text.replace("t_typical[usec]", "t_typical[fort]", 1), 15, "times in fort"),
    ],
)
def test_a_malformed_row_names_the_line(change, line, told):
    found = mistakes(parse_perftest, change(LOG), "log.txt")
    assert found[0].startswith(f"log.txt:{line}: ") and told in found[0]
    assert line == 15 or len(found) == 1


def test_a_table_needs_a_test_and_rows():
    rows = LOG[LOG.index(" #bytes") : LOG.index("$ ib_read_lat")]
    assert "log:1: found a table of nobody knows which test" in mistakes(parse_perftest, rows, "log")[0]
    (first, *_) = parse_perftest(f"$ ib_send_lat -a server\n{rows}", "log").measurements
    assert (first.conditions.verb, first.conditions.method) == ("SEND", "half_round_trip")
    head = LOG[: LOG.index(" 2       20000")]
    assert "the head of a table without rows" in mistakes(parse_perftest, head + "-----\n", "log")[0]
    swapped = LOG.replace("RDMA_Write Latency Test", "RDMA_Write BW Test", 1)
    assert "columns of latencies, expected those of a BW test" in mistakes(parse_perftest, swapped, "log")[0]


def test_noise_and_other_units_are_read_past():
    noisy = LOG.replace(" 8       20000", "Conflicting CPU frequency values detected\n1, 0.98\n2, 1.01\n 8       20000")
    quoted = "\n".join(f"> {line}\r" for line in noisy.splitlines())
    assert (
        parse_perftest(quoted, "log").measurements[2].latency_ns
        == parse_perftest(LOG, "log").measurements[2].latency_ns
    )
    gigabits = BANDWIDTH.replace("[MB/sec]", "[Gb/sec]")
    assert parse_perftest(gigabits, "log").measurements[0].bytes_per_s == pytest.approx(9.78e9 / 8)
    both = BANDWIDTH.replace("RDMA_Write BW", "RDMA_Write Bidirectional BW")
    assert "Bidirectional" in parse_perftest(both, "log").measurements[0].skipped
    duration = "RDMA_Read Latency Test\n #bytes        #iterations       t_avg[usec]    tps average\n 2  9 1.5  6000\n"
    (only,) = parse_perftest(duration, "log").measurements
    assert only.latency_ns == {"mean": 1500} and only.per_operation_ns == 1500


def test_what_two_files_say_alike_counts_once():
    log = read_measurements(EXAMPLES / "perftest-connectx3.txt")
    assert len(merged([log, log])) == len(log.measurements)


# the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["measure"], "no PLAN"),
        (["calibrate"], "no MEASUREMENTS"),
        (["measure", "quick"], "no --platform"),
        (["measure", "quick", "--platform", "optane-ard"], "did you mean 'optane-adr'?"),
        (["measure", "quick", "--platform", "optane-adr", "--setting", "ddoi=off"], "did you mean 'ddio'?"),
        (["measure", "quick", "--platform", "optane-adr", "--iterations", "0"], "at least 1"),
        (["calibrate", "x.txt", "--platform", "optane-adr"], "no such file"),
        (["calibrate", "x.txt", "--platfrom", "optane-adr"], "did you mean '--platform'?"),
        (["calibrate", "x.txt", "--platform", "optane-adr", "--fit", "nic.pol"], "did you mean 'nic.poll'?"),
        (["calibrate", "x.txt", "--platform", "optane-adr", "--fit", "nic.poll", "--fit", "nic.poll"], "twice"),
        (["calibrate", "x.txt", "--platform", "optane-adr", "--bounds", "nic.poll=1ns..2ns"], "--fit as well"),
        (["calibrate", "x", "--platform", "optane-adr", "--fit", "nic.poll", "--bounds", "nic.poll=9"], "LOW..HIGH"),
        (["calibrate", "x.txt", "--platform", "optane-adr", "--hold-out", "90%"], "a share from 0 to 50%"),
        (["calibrate", "x.txt", "--platform", "optane-adr", "--largest", "big"], "a size, as in"),
        (["calibrate", "x.txt", "--platform", "optane-adr", "--write", "no/where.yaml"], "a folder that is not there"),
    ],
)
def test_wrong_arguments_are_told_and_nothing_is_written(tmp_path, capsys, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
