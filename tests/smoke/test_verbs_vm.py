"""Does the native benchmark measure every verb on a real kernel's device? In a virtual machine, on rdma_rxe.

What is asked for is the interface and the call path, not the times: they are an emulated machine's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from ..measurements import complaints
from .verbs_bench import PLANS, ROOT, SOURCES, lacking

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("verbs_bench")]

FOLDER = ROOT / "build" / "verbs-vm"
"""Where `make verbs-vm` keeps its image, so that it is fetched once."""

TOOLS = ("qemu-system-x86_64", "mmdebstrap", "cpio", "xz", "objdump", "apt-get")

ALWAYS = {"WRITE", "WRITE_WITH_IMM", "SEND", "READ", "CAS", "FETCH_ADD", "WRITE+READ", "WRITE+SEND"}
EXTENSIONS = {"FLUSH", "WRITE+FLUSH", "ATOMIC_WRITE"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, str]:
    """The document and the table of a run of the quick plan."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None] or lacking():
        pytest.skip(f"no virtual machine: {', '.join(missing)} not installed")
    results = tmp_path_factory.mktemp("verbs_vm") / "results.json"
    command = ["bash", SOURCES / "vm" / "build-image", FOLDER]
    image = subprocess.run(command, capture_output=True, text=True, check=False)
    if "knows no Debian mirror" in image.stderr:
        pytest.skip("no virtual machine: this system's apt knows no mirror of Debian to build the image from")
    assert image.returncode == 0, image.stderr
    command = ["bash", SOURCES / "vm" / "run", FOLDER, PLANS / "quick.yaml", results]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(results.read_text(encoding="utf-8")), done.stdout


def test_the_document_is_valid(ran: tuple[dict, str]) -> None:
    assert complaints(ran[0]) == []


def test_every_verb_was_measured(ran: tuple[dict, str]) -> None:
    measured = {result["verb"] for result in ran[0]["results"] if "latency_ns" in result}
    assert measured == ALWAYS | EXTENSIONS
    assert not [result for result in ran[0]["results"] if "failed" in result]
    assert {result["transport"] for result in ran[0]["results"] if "latency_ns" in result} == {"rc", "uc", "ud"}


def test_a_flush_to_persistence_takes_persistent_memory(ran: tuple[dict, str]) -> None:
    persistent = [result for result in ran[0]["results"] if result.get("placement") == "persistent"]
    assert {(result["memory"], "skipped" in result) for result in persistent} == {("dax", False), ("dram", True)}
    (refused,) = (result["skipped"] for result in persistent if "skipped" in result)
    assert "ibv_reg_mr (EINVAL)" in refused


def test_every_sample_is_there(ran: tuple[dict, str]) -> None:
    for result in ran[0]["results"]:
        if "latency_ns" in result:
            latency = result["latency_ns"]
            assert sum(count for _, count in result["histogram"]) == result["iterations"]
            assert 0 < latency["min"] <= latency["p50"] <= latency["p99"] <= latency["max"]


def test_the_table_is_the_one_of_the_documentation(ran: tuple[dict, str]) -> None:
    def conditions(table: str) -> list[str]:
        rows = [line for line in table.splitlines() if not line.startswith("  ")]
        return [re.split(r"(?<=\d)\s+[\d.]+\s+[\d.]+\s+[\d.]+$|\s+skipped$", row)[0] for row in rows]

    recorded = (ROOT / "docs" / "examples" / "verbs-vm.txt").read_text(encoding="utf-8")
    assert conditions(ran[1]) == conditions(recorded)
    assert max(len(line) for line in ran[1].splitlines() if not line.startswith("  ")) <= 80
