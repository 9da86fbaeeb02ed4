"""Does the house stand? Who imports whom, what is listed and shipped, how long files are, what start-up loads.

Every check is a function from a tree to a list of complaints, and has a test that feeds it a bad tree.
"""

from __future__ import annotations

import ast
import configparser
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

FLOORS = ("sim", "models", "protocols", "scenarios", "validation", "app")
"""From the lowest to the highest: a floor imports itself and those before it."""

ONLY_IN = {
    "simpy": {"sim", "models", "validation"},
    "pydantic": {"scenarios"},
    "pydantic_core": {"scenarios"},
    "argparse": {"app"},
    "jinja2": {"app"},
    "markupsafe": {"app"},
    "plotly": {"app"},
    "tqdm": {"app"},
    "concurrent": {"sim"},
    "multiprocessing": {"sim"},
}
"""Libraries that some floors alone may import."""

TIME_SUFFIXES = ("_ps", "_ns", "_us", "_ms")
"""What a name that holds a time ends in."""

HEAVY = ("jinja2", "numpy", "networkx", "plotly", "pydantic", "simpy", "yaml")
"""Libraries that `rpsim --help` can do without."""

IMPORT_NAMES = {"PyYAML": {"yaml"}, "jinja2": {"jinja2", "markupsafe"}, "pydantic": {"pydantic", "pydantic_core"}}
"""Under which names a distribution is imported, where that is not its own alone."""

OF_EXTRAS = {
    "distributed": "sim/jobs/cluster.py",
    "duckdb": "app/commands/sweep/results.py",
    "jupytext": "app/site/notebooks.py",
}
"""Libraries of extras, each with the one file that imports it, in a function, and does without."""

LONGEST = 500

pytestmark = pytest.mark.xdist_group("house")  # one worker parses the tree, whatever the number of workers


def test_a_group_of_tests_is_known_to_the_worker(request):
    """What a group shares is made once: pytest-xdist sends to one worker what has the group's name in its id."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@house")


# the tree ------------------------------------------------------------------------------------------------


def package_files(root: Path) -> list[Path]:
    """The Python files that ship: at the root and on the floors."""
    floors = [path for floor in FLOORS for path in (root / floor).rglob("*.py")]
    return sorted([*root.glob("*.py"), *floors])


_parsed = cache(ast.parse)


def tree_of(path: Path) -> ast.Module:
    """A file's syntax tree, for reading only: all checks of a worker have the same one."""
    return _parsed(path.read_text(encoding="utf-8"))


def floor_of(root: Path, path: Path) -> str | None:
    """The floor of a file, or None for one at the root."""
    parts = path.relative_to(root).parts
    return parts[0] if len(parts) > 1 else None


def module_of(root: Path, path: Path) -> str:
    """The module that a file is: `rpsim.sim.clock` for `sim/clock.py`, `rpsim.sim` for `sim/__init__.py`."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(["rpsim", *parts]).removesuffix(".__init__")


# 1. who may import whom ----------------------------------------------------------------------------------


def imports(root: Path, path: Path) -> Iterator[tuple[int, str, bool]]:
    """Every import of a file, wherever it stands: (line, absolute name, written relatively)."""
    module = module_of(root, path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: package.count(".") + 2 - node.level]) if node.level else ""
            source = ".".join(part for part in (base, node.module) if part)
            names = [f"{source}.{alias.name}" for alias in node.names] if source == "rpsim" else [source]
            yield from ((node.lineno, name, node.level > 0) for name in names)


def imported_modules(root: Path, path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, wherever it does; `from . import x` imports x if that is one."""
    module = module_of(root, path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package.split(".")[: package.count(".") + 2 - node.level]
            source = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                file = root.joinpath(*source.split(".")[1:], alias.name)
                is_module = file.with_suffix(".py").exists() or (file / "__init__.py").exists()
                yield f"{source}.{alias.name}" if is_module else source


def import_complaints(root: Path) -> list[str]:
    """Imports that break a rule of the house."""
    complaints = []
    for path in package_files(root):
        floor = floor_of(root, path)
        for line, name, relative in imports(root, path):
            where = f"{path.relative_to(root)}:{line}"
            first, *rest = name.split(".")
            if first == "rpsim" and not relative:
                complaints.append(f"{where}: imports {name}; inside the package imports are relative")
            if floor is None or name == "rpsim.__version__":
                continue
            if first == "rpsim":
                target = rest[0] if rest else ""
                if target not in FLOORS:
                    complaints.append(f"{where}: imports {name}, which is on no floor")
                elif FLOORS.index(target) > FLOORS.index(floor):
                    complaints.append(f"{where}: {floor} imports {name}, which is a floor above it")
            elif floor not in ONLY_IN.get(first, {floor}):
                complaints.append(f"{where}: {floor} imports {first}, which belongs to {sorted(ONLY_IN[first])}")
    return complaints


@pytest.mark.long
def test_no_floor_imports_one_above_it_nor_a_library_of_another(root: Path) -> None:
    assert import_complaints(root) == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("sim/a.py", "from ..models.nic import Nic", "sim imports rpsim.models.nic, which is a floor above it"),
        ("sim/a.py", "from .. import models", "sim imports rpsim.models, which is a floor above it"),
        ("sim/deep/a.py", "from ...app import main", "sim imports rpsim.app, which is a floor above it"),
        ("sim/__init__.py", "from ..app import main", "sim imports rpsim.app, which is a floor above it"),
        ("models/a.py", "def f():\n    from ..app.main import main", "models imports rpsim.app.main"),
        ("protocols/a.py", "if x:\n    from ..validation import oracle", "protocols imports rpsim.validation"),
        ("validation/a.py", "from rpsim.sim.clock import Clock", "inside the package imports are relative"),
        ("validation/a.py", "import rpsim.app", "validation imports rpsim.app, which is a floor above it"),
        ("app/a.py", "from ..tests.smoke import x", "which is on no floor"),
        ("protocols/a.py", "import simpy", "protocols imports simpy, which belongs to ['models', 'sim', 'validation']"),
        ("scenarios/a.py", "from simpy.events import Event", "scenarios imports simpy"),
        ("models/a.py", "from pydantic import BaseModel", "models imports pydantic, which belongs to ['scenarios']"),
        ("scenarios/a.py", "import plotly.graph_objects as go", "scenarios imports plotly"),
        ("validation/a.py", "import argparse", "validation imports argparse, which belongs to ['app']"),
        ("scenarios/a.py", "from tqdm.auto import tqdm", "scenarios imports tqdm"),
        ("validation/a.py", "from concurrent.futures import Executor", "concurrent, which belongs to ['sim']"),
    ],
)
def test_a_forbidden_import_is_reported(tmp_path: Path, path: str, source: str, complaint: str) -> None:
    write(tmp_path, path, source)
    assert any(complaint in line and line.startswith(path) for line in import_complaints(tmp_path))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "app/a.py",
            "import argparse\nfrom .. import __version__\nfrom ..sim.clock import Clock\nfrom . import report",
        ),
        ("models/a.py", "import simpy\nfrom .cpu import Thread\nfrom ..sim import clock"),
        ("sim/deep/a.py", "from ..clock import Clock"),
        ("__init__.py", "from .app.main import main"),
    ],
)
def test_a_permitted_import_is_not_reported(tmp_path: Path, path: str, source: str) -> None:
    write(tmp_path, path, source)
    assert import_complaints(tmp_path) == []


# 2. protocols hold no times --------------------------------------------------------------------------------


def timing_complaints(root: Path) -> list[str]:
    """Names of times in protocols/: a scheme says what happens, its duration is the hardware's.

    The rule: no variable, parameter, attribute, keyword argument, function or imported name in there ends in
    one of TIME_SUFFIXES, whether it is set or only read.
    """
    complaints = []
    for path in sorted((root / "protocols").rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            for name in names_in(node):
                if name.lower().endswith(TIME_SUFFIXES):
                    complaints.append(f"{path.relative_to(root)}:{getattr(node, 'lineno', '?')}: names a time: {name}")
    return complaints


def names_in(node: ast.AST) -> list[str]:
    """The identifiers that a node itself spells out."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.arg(arg=name) | ast.keyword(arg=str(name)):
            return [name]
        case ast.alias(name=name, asname=asname):
            return [name.rpartition(".")[2], asname or ""]
    return []


def test_protocols_hold_no_times(root: Path) -> None:
    assert timing_complaints(root) == []


@pytest.mark.parametrize(
    "source",
    [
        "POLL_NS = 100",
        "def wait(self, delay_ps): ...",
        "def delay_ns(self): ...",
        "thread.compute(duration_ps=5)",
        "late = node.clock.now_ps > 7",
        "from ..models.cpu import CLWB_PS",
        "from ..models.cpu import clwb as cost_ns",
    ],
)
def test_a_time_in_a_protocol_is_reported(tmp_path: Path, source: str) -> None:
    write(tmp_path, "protocols/bad.py", source)
    write(tmp_path, "models/good.py", source)
    complaints = timing_complaints(tmp_path)
    assert len(complaints) == 1
    assert complaints[0].startswith("protocols/bad.py:1: names a time")


# 3. what is listed is what is there --------------------------------------------------------------------------


def package_complaints(root: Path, listed: list[str]) -> list[str]:
    """Packages of the tree that setup.cfg does not list, and the other way round."""
    there = {module_of(root, path.parent / "__init__.py") for path in package_files(root)}
    without = [path for path in package_files(root) if not (path.parent / "__init__.py").exists()]
    return (
        [f"{name} is not listed in setup.cfg" for name in sorted(there - set(listed))]
        + [f"{name} is listed in setup.cfg and is not there" for name in sorted(set(listed) - there)]
        + [f"{folder}/ has no __init__.py" for folder in sorted({str(p.parent.relative_to(root)) for p in without})]
    )


def setup_cfg(root: Path) -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(root / "setup.cfg", encoding="utf-8")
    return config


def test_setup_cfg_lists_the_packages_of_the_tree(root: Path) -> None:
    assert package_complaints(root, setup_cfg(root)["options"]["packages"].split()) == []


def test_a_package_that_is_missing_from_the_list_or_the_tree_is_reported(tmp_path: Path) -> None:
    for path in ("__init__.py", "sim/__init__.py", "models/nvme/__init__.py", "app/main.py", "tests/test_x.py"):
        write(tmp_path, path)
    assert package_complaints(tmp_path, ["rpsim", "rpsim.sim", "rpsim.app", "rpsim.gone"]) == [
        "rpsim.models.nvme is not listed in setup.cfg",
        "rpsim.gone is listed in setup.cfg and is not there",
        "app/ has no __init__.py",
    ]


FOR_TESTS = ("validation/pytest_plugin.py", "validation/testing/")
"""What the extra ``test`` is for may need what it names."""


def dependency_complaints(root: Path, requirements: list[str], for_tests: Sequence[str] = ()) -> list[str]:
    """Libraries that are imported and not required."""
    known = {"rpsim", *sys.stdlib_module_names}
    for name in (requirement.partition(">")[0].strip() for requirement in requirements):
        known |= IMPORT_NAMES.get(name, {name})
    return [
        f"{path.relative_to(root)}:{line}: imports {name}, which install_requires does not name"
        for path in package_files(root)
        for line, name, _ in imports(root, path)
        if name.partition(".")[0] not in known
        and not (name.partition(".")[0] in for_tests and path.relative_to(root).as_posix().startswith(FOR_TESTS))
        and OF_EXTRAS.get(name.partition(".")[0]) != path.relative_to(root).as_posix()
    ]


@pytest.mark.long
def test_what_is_imported_is_required(root: Path) -> None:
    requirements = setup_cfg(root)["options"]["install_requires"].split("\n")
    extra = [line.partition(">")[0] for line in setup_cfg(root)["options.extras_require"]["test"].split()]
    assert dependency_complaints(root, [line for line in requirements if line], extra) == []


def test_a_library_that_is_not_required_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "sim/a.py", "import json\nimport numpy.typing as npt\nimport yaml\nfrom scipy import stats")
    assert dependency_complaints(tmp_path, ["numpy>=1.26,<3", "PyYAML>=6,<7"]) == [
        "sim/a.py:4: imports scipy, which install_requires does not name"
    ]


# 4. a file is read in one sitting ------------------------------------------------------------------------------


def length_complaints(root: Path) -> list[str]:
    """Python files of the checkout, tests too, that are longer than LONGEST lines."""
    made = {"build", "dist", "results"}  # by tools, as is what starts with a dot
    complaints = []
    for path in sorted(root.rglob("*.py")):
        first = path.relative_to(root).parts[0]
        lines = 0 if first in made or first.startswith(".") else len(path.read_text(encoding="utf-8").splitlines())
        if lines > LONGEST:
            complaints.append(f"{path.relative_to(root)} has {lines} lines, more than {LONGEST}")
    return complaints


@pytest.mark.long
def test_no_file_is_too_long(root: Path) -> None:
    assert length_complaints(root) == []


def test_a_file_that_is_too_long_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "models/nic.py", "x = 1\n" * LONGEST)
    write(tmp_path, "models/all.py", "x = 1\n" * (LONGEST + 1))
    write(tmp_path, ".venv/lib/all.py", "x = 1\n" * (LONGEST + 1))
    assert length_complaints(tmp_path) == ["models/all.py has 501 lines, more than 500"]


# 5. every module imports by itself -----------------------------------------------------------------------------

IMPORT_EACH = """
import importlib, sys, traceback
afresh, *names = sys.argv[1:]
for name in names:
    for loaded in afresh and [m for m in sys.modules if m.partition(".")[0] == name.partition(".")[0]]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except Exception:
        print(name, traceback.format_exc(limit=-1).strip().replace("\\n", " | "))
"""


def unimportable(modules: list[str], folder: Path, afresh: bool = True) -> list[str]:
    """Those modules that cannot be the first of their package to be imported (afresh), or at all, with the reason."""
    command = [sys.executable, "-c", IMPORT_EACH, "afresh" if afresh else "", *modules]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


def while_importing(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    """The relative imports that are executed when a module is, and not by its functions or for a type checker alone."""
    todo: list[ast.stmt] = list(tree.body)
    for node in todo:
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
            todo += node.body


def in_circles(root: Path) -> list[str]:
    """The modules that import each other: whether one of them can be imported may depend on which comes first.

    Left out are those with a package around them in the same circle: whoever imports such a module imports the package.
    """
    files = {module_of(root, path): path for path in package_files(root)}
    graph = nx.DiGraph()
    for module, path in files.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        graph.add_edges_from((module, around) for around in packages_of(module))
        for node in while_importing(tree_of(path)):
            source = ".".join(
                [*package.split(".")[: package.count(".") + 2 - node.level], *filter(None, [node.module])]
            )
            for name in node.names:
                both = (f"{source}.{name.name}", source)
                graph.add_edge(module, next((found for found in both if found in files), source))
    circles = [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1]
    return sorted(module for circle in circles for module in circle if not circle & set(packages_of(module)))


def packages_of(module: str) -> list[str]:
    """The packages around a module, all of which are imported before it."""
    return [module[:end] for end, sign in enumerate(module) if sign == "."]


@pytest.mark.long
def test_every_module_can_be_imported_first(root: Path, tmp_path: Path) -> None:
    modules = [module_of(root, path) for path in package_files(root)]
    assert len(modules) > len(FLOORS)
    assert unimportable(modules, tmp_path, afresh=False) == []
    assert unimportable(in_circles(root), tmp_path) == []


def test_modules_that_import_each_other_are_found(tmp_path: Path) -> None:
    for name in ("__init__", "models/__init__"):
        write(tmp_path, f"{name}.py")
    write(tmp_path, "models/a.py", "from .b import x")
    write(tmp_path, "models/b.py", "if True:\n    from . import a")
    write(tmp_path, "models/c.py", "from .a import y\ndef f():\n    from .d import z")
    write(tmp_path, "models/d.py", "from .c import f")
    assert in_circles(tmp_path) == ["rpsim.models.a", "rpsim.models.b"]
    write(tmp_path, "models/__init__.py", "from .a import y")
    assert in_circles(tmp_path) == ["rpsim.models"]


def test_a_broken_module_and_a_circle_are_reported(tmp_path: Path) -> None:
    write(tmp_path, "sick/__init__.py")
    write(tmp_path, "sick/well.py", "import json")
    write(tmp_path, "sick/broken.py", "raise ValueError('no')")
    write(tmp_path, "sick/first.py", "from .second import b\na = 1")
    write(tmp_path, "sick/second.py", "from .first import a\nb = 1")
    complaints = unimportable(["sick", "sick.well", "sick.broken", "sick.first"], tmp_path)
    assert [line.split()[0] for line in complaints] == ["sick.broken", "sick.first"]


# 6. start-up is light, and the public names are there -----------------------------------------------------------


def loaded_by(statement: str, folder: Path, names: tuple[str, ...]) -> list[str]:
    """Which of the named modules a fresh interpreter has loaded after the statement."""
    program = f"{statement}\nimport sys\nprint(*(name for name in {names!r} if name in sys.modules))"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("statement", ["import rpsim", "import rpsim.app.main"])
def test_start_up_loads_no_heavy_library(tmp_path: Path, statement: str) -> None:
    assert loaded_by(statement, tmp_path, HEAVY) == []


def test_importing_rpsim_loads_no_floor(tmp_path: Path) -> None:
    assert loaded_by("import rpsim", tmp_path, tuple(f"rpsim.{floor}" for floor in FLOORS)) == []


@pytest.mark.long
def test_a_heavy_library_is_reported(tmp_path: Path) -> None:
    assert loaded_by("import numpy.random, rpsim.sim", tmp_path, (*HEAVY, "rpsim.sim")) == ["numpy", "rpsim.sim"]


def test_every_public_name_is_there() -> None:
    import rpsim

    assert [name for name in rpsim.__all__ if getattr(rpsim, name, None) is None] == []
    assert set(rpsim.__all__) == {*rpsim._MODULE_OF, "__version__"}
    assert set(rpsim.__all__) <= set(dir(rpsim))
    with pytest.raises(AttributeError, match="Shceme"):
        rpsim.Shceme  # noqa: B018  the access itself is what is tested


def write(root: Path, path: str, source: str = "") -> None:
    """A file of a made-up tree."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(source, encoding="utf-8")
