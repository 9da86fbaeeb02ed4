"""The native benchmark, built for the tests where its headers are installed; else the tests are skipped and say so."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "validation" / "verbs_bench"
PLANS = SOURCES / "plans"

HEADERS = {"infiniband/verbs.h": "libibverbs-dev", "rdma/rdma_cma.h": "librdmacm-dev", "yaml.h": "libyaml-dev"}
"""What the benchmark includes, and Debian's package that has it."""


def lacking() -> list[str]:
    """What is not here that building takes."""
    missing = [tool for tool in ("cc", "make") if shutil.which(tool) is None]
    if missing:
        return missing
    check = ["cc", "-x", "c", "-fsyntax-only", "/dev/null", "-include"]
    return [
        package
        for header, package in HEADERS.items()
        if subprocess.run([*check, header], capture_output=True, check=False).returncode
    ]


def build(folder: Path) -> str:
    """Builds into a folder, skips the test where that is not possible; what make printed."""
    if missing := lacking():
        pytest.skip(f"the native benchmark is not built: {', '.join(missing)} not installed")
    command = ["make", "-C", str(SOURCES), f"BUILD={folder}", "CFLAGS=-O1", "-j2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)
