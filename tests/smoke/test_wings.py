"""Do the wings of each floor stand? Imports between wings point down, no circle is over two files, folders stay small.

A wing is a folder of a floor, or a file that lies on the floor by itself. The tables say which wings there are, storey
by storey from the lowest: a wing imports itself and the wings of lower storeys. Every check is a function from a tree
to a list of complaints, and has a test that feeds it a bad tree.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import networkx as nx
import pytest

from .test_house import floor_of, imported_modules, module_of, package_files, tree_of, write

STOREYS: Mapping[str, Sequence[str]] = {
    "models": (
        "durability", "profiles", "memory", "fabric", "verbs", "pcie", "primitives", "host", "cpu", "nic", "storage",
        "kernel", "meter", "system", "persist",
    ),
    "protocols": (
        "failures guarantees layout request", "objects naming primitives", "scheme", "registry parts",
        "efactory rflush shapes structures", "rnvm pmr pdpm groups replicated filesystems filemr hotpot", "mongodb",
    ),
    "scenarios": (
        "history keyspace ycsb arguments", "values pagerank transactions", "calls schema", "build", "run", "sweep",
    ),
    "validation": (
        "oracle rigs naive litmus", "histories", "crash", "published", "matrix testing measuring speed",
        "mutation pytest_plugin",
    ),
    "app": (
        "options arguments", "terminal", "pages labs", "commands", "answers completion matrix", "grammar",
        "api main", "site",
    ),
}  # fmt: skip
"""By floor: its storeys from the lowest, each with its wings. Floors that are not here have no wings to order."""

MOST_FILES = 28
"""A folder with more Python files than this is a landing on which nobody finds a door."""
LARGEST_CIRCLE = 2

pytestmark = pytest.mark.xdist_group("house")  # as those of test_house.py


def wing_of(root: Path, path: Path) -> str:
    """The wing of a file of a floor: the folder below the floor, or its own name; empty for the floor's `__init__`."""
    parts = path.relative_to(root).parts
    return parts[1].removesuffix(".py").replace("__init__", "") if len(parts) > 1 else ""


def arrows(root: Path) -> nx.DiGraph:
    """Who imports whom, file by file; imports inside functions and those for type checkers alone count, too."""
    files = {module_of(root, path): path for path in package_files(root)}
    files.pop("rpsim", None)  # the version, and public names that are imported when they are asked for
    graph = nx.DiGraph()
    graph.add_nodes_from(files)
    for module, path in files.items():
        graph.add_edges_from(
            (module, other) for other in imported_modules(root, path) if other in files and other != module
        )
    return graph


def storey_complaints(root: Path, storeys: Mapping[str, Sequence[str]]) -> list[str]:
    """Imports that point up or sideways, and wings that no table knows."""
    level = {(floor, wing): n for floor, rows in storeys.items() for n, row in enumerate(rows) for wing in row.split()}
    wings = {module_of(root, path): (floor_of(root, path), wing_of(root, path)) for path in package_files(root)}
    ordered = {module: wing for module, wing in wings.items() if wing[0] in storeys and wing[1]}
    complaints = [
        f"{module}: {floor}/{wing} is on no storey"
        for module, (floor, wing) in ordered.items()
        if (floor, wing) not in level
    ]
    for module, other in sorted(arrows(root).edges):
        if module not in ordered or other not in ordered:
            continue
        above, lower = ordered[module], ordered[other]
        if above[0] == lower[0] and above != lower and level.get(above, 0) <= level.get(lower, 0):
            complaints.append(f"{module}: imports {other}, which is not below {'/'.join(above)}")
    return complaints


def circle_complaints(root: Path) -> list[str]:
    """Files that import each other in a larger circle than two."""
    circles = (sorted(circle) for circle in nx.strongly_connected_components(arrows(root)))
    return [
        f"a circle over {len(circle)} files: {', '.join(circle)}" for circle in circles if len(circle) > LARGEST_CIRCLE
    ]


def folder_complaints(root: Path) -> list[str]:
    """Folders with too many Python files, tests too."""
    paths = [*package_files(root), *(root / "tests").rglob("*.py")]
    counts = Counter(path.relative_to(root).parent.as_posix() for path in paths)
    return [
        f"{name}/ has {n} Python files, more than {MOST_FILES}" for name, n in sorted(counts.items()) if n > MOST_FILES
    ]


def docstring_complaints(root: Path) -> list[str]:
    """Wings whose `__init__` does not say in some three sentences what they are: one is too few."""
    complaints = []
    for path in package_files(root):
        if path.name == "__init__.py" and len(path.relative_to(root).parts) > 2:
            text = ast.get_docstring(tree_of(path)) or ""
            if len(re.findall(r"[.?!](?:\s|$)", text)) < 2:
                complaints.append(f"{path.relative_to(root)}: says too little of what it is")
    return complaints


@pytest.mark.long
def test_imports_between_wings_point_down(root: Path) -> None:
    assert storey_complaints(root, STOREYS) == []


@pytest.mark.long
def test_no_circle_is_over_two_files(root: Path) -> None:
    assert circle_complaints(root) == []


@pytest.mark.long
def test_no_folder_has_too_many_files(root: Path) -> None:
    assert folder_complaints(root) == []


def test_every_wing_says_what_it_is(root: Path) -> None:
    assert docstring_complaints(root) == []


def made(root: Path, **sources: str) -> None:
    """Files of a made-up floor: `low__a="..."` is `models/low/a.py`."""
    for name, source in sources.items():
        write(root, f"models/{name.replace('__', '/')}.py", source)


TWO = {"models": ("low side", "high")}


def test_an_arrow_that_points_up_or_sideways_is_reported(tmp_path: Path) -> None:
    made(tmp_path, low__a="from ..high.b import x", high__b="from ..low import a", side__c="")
    made(tmp_path, low__d="def f():\n    from ..side.c import y")
    assert [line.split(":")[0] for line in storey_complaints(tmp_path, TWO)] == [
        "rpsim.models.low.a",
        "rpsim.models.low.d",
    ]


def test_an_import_for_type_checkers_alone_counts(tmp_path: Path) -> None:
    made(tmp_path, low__a="if TYPE_CHECKING:\n    from ..high.b import x", high__b="")
    assert storey_complaints(tmp_path, TWO) == [
        "rpsim.models.low.a: imports rpsim.models.high.b, which is not below models/low"
    ]


def test_a_wing_on_no_storey_is_reported(tmp_path: Path) -> None:
    made(tmp_path, new__a="")
    assert storey_complaints(tmp_path, TWO) == ["rpsim.models.new.a: models/new is on no storey"]


def test_a_circle_over_three_files_is_reported(tmp_path: Path) -> None:
    made(tmp_path, low__a="from .b import x", low__b="from . import c")
    made(tmp_path, low__c="if TYPE_CHECKING:\n    from .a import y", low__d="from .e import z")
    made(tmp_path, low__e="from .d import z")
    assert circle_complaints(tmp_path) == [
        "a circle over 3 files: rpsim.models.low.a, rpsim.models.low.b, rpsim.models.low.c"
    ]


def test_a_full_folder_is_reported(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 1):
        write(tmp_path, f"models/low/m{number}.py")
    assert folder_complaints(tmp_path) == [f"models/low/ has {MOST_FILES + 1} Python files, more than {MOST_FILES}"]


def test_a_wing_that_does_not_say_what_it_is_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "models/low/__init__.py", '"""Low."""')
    write(tmp_path, "models/high/__init__.py", '"""High wing. It does high things. It knows nothing of low ones."""')
    assert [line.split(":")[0] for line in docstring_complaints(tmp_path)] == ["models/low/__init__.py"]


# one name, one thing ------------------------------------------------------------------------------------------------

LOWER = ("sim", "models", "protocols", "scenarios")
"""Floors on which a class name stands for one thing; a naive twin, or the oracle's model, may share a name with it."""
MESSAGES = "protocols/efactory/"
"""The stores of a paper name their messages alike: each has its own ``Put`` and ``Get``."""


def name_complaints(root: Path) -> list[str]:
    """Public classes of the lower floors that have the name of another."""
    found: dict[str, list[str]] = {}
    for path in package_files(root):
        where = path.relative_to(root).as_posix()
        if floor_of(root, path) in LOWER and not where.startswith(MESSAGES):
            for node in tree_of(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, []).append(where)
    return [f"{name} stands in {' and in '.join(places)}" for name, places in found.items() if len(places) > 1]


@pytest.mark.long
def test_a_class_name_stands_for_one_thing(root: Path) -> None:
    assert name_complaints(root) == []


def test_a_name_for_two_things_is_reported(tmp_path: Path) -> None:
    made(tmp_path, low__a="class Nic: ...\nclass _Own: ...", high__b="class Nic: ...\nclass _Own: ...")
    assert name_complaints(tmp_path) == ["Nic stands in models/high/b.py and in models/low/a.py"]
