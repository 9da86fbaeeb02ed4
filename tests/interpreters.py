"""Do all Python versions that rpsim supports give the same bytes? ``make interpreters`` runs what is installed.

Each interpreter gets an environment of its own in ``build/interpreters``, with this checkout installed, not editable.
The same commands run in each; the files that they leave behind, and what they print as JSON, have to be equal but for
times.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
COMMANDS = (
    ("run", "quickstart", "--set", "workload.operations=400", "--no-report"),
    ("crash", "quickstart", "--set", "workload.operations=100", "--set", "workload.keys=20", "--no-report"),
    ("crash", "recovery-crash", "--no-report"),
    ("crash", "client-crash", "--no-report"),
    ("litmus", "--json"),
)


def found() -> dict[str, str]:
    """The interpreters by version: where pyenv keeps them, or on the PATH. Only those that start are named."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    interpreters = {}
    for version in VERSIONS:
        candidates = [*sorted(kept.glob(f"{version}.*/bin/python{version}")), shutil.which(f"python{version}")]
        for path in filter(None, candidates):
            if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
                interpreters[version] = str(path)
    return interpreters


def environment(version: str, interpreter: str) -> Path:
    """A fresh environment with rpsim in it; returns the folder of its programs."""
    home = ROOT / "build" / "interpreters" / version
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", home], check=True)
    pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", ROOT / "constraints.txt", ROOT], check=True)
    return home / "bin"


def digests(programs: Path) -> dict[str, str]:
    """A digest for each command: of its ``summary.json``, or of what it prints without times."""
    digested = {}
    for command in COMMANDS:
        out = programs.parent / "results"
        shutil.rmtree(out, ignore_errors=True)
        words = [programs / "rpsim", *command, *(() if "--json" in command else ("--out", out))]
        done = subprocess.run(words, cwd=programs.parent, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr}")
        place = re.compile(rf"{re.escape(str(programs.parent))}[\w./]*?site-packages/")
        printed = re.sub(r'"(\w*seconds\w*|\w*_per_second)": [\d.]+', "", place.sub("", done.stdout))
        left = [path.read_text(encoding="utf-8") for path in sorted(out.glob("*/summary.json"))]
        text = "".join(left) or printed
        digested[" ".join(command[:2])] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return digested


def main() -> int:
    """Run everything; 0 if all versions agree, 1 if not."""
    by_version = {}
    for version, interpreter in found().items():
        by_version[version] = digests(environment(version, interpreter))
        print(f"Python {version}: {by_version[version]}", flush=True)
    missing = [version for version in VERSIONS if version not in by_version]
    print(f"not installed here: {', '.join(missing) or 'none'}")
    same = len({tuple(answer.items()) for answer in by_version.values()}) == 1
    print("the same bytes" if same else "NOT the same bytes")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
