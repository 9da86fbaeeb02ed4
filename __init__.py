"""rpsim: a discrete-event simulator of RDMA NICs, DDIO caches and persistent-memory persistence domains.

How fast is a remote-persistence protocol on given hardware, and what survives when the power fails at any instant?

The floors, each of which imports only those before it: ``rpsim.sim``, ``rpsim.models``, ``rpsim.protocols``,
``rpsim.scenarios``, ``rpsim.validation``, ``rpsim.app``. The names below are loaded when first used; docs/python.md
shows ``rpsim.run``, ``rpsim.crash``, ``rpsim.matrix``, ``rpsim.check`` and ``rpsim.load`` at work.
"""

from importlib import import_module

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers take it for true; typing's own costs more than the rest of this import
if TYPE_CHECKING:
    from .app.answers import CheckAnswer, CrashAnswer, CrashCase, RunAnswer
    from .app.api import check, crash, load, run
    from .app.matrix import MatrixAnswer, MatrixCase, matrix
    from .protocols.guarantees import Condition, Verdict
    from .protocols.scheme import Request, Role, Scheme
    from .scenarios.build import Draft
    from .scenarios.history import History, Operation
    from .scenarios.schema.schema import Scenario
    from .sim.errors import InputError, Mistake

_MODULE_OF = {
    "CheckAnswer": ".app.answers",
    "Condition": ".protocols.guarantees",
    "CrashAnswer": ".app.answers",
    "CrashCase": ".app.answers",
    "Draft": ".scenarios.build",
    "History": ".scenarios.history",
    "InputError": ".sim.errors",
    "MatrixAnswer": ".app.matrix",
    "MatrixCase": ".app.matrix",
    "Mistake": ".sim.errors",
    "Operation": ".scenarios.history",
    "Request": ".protocols.scheme",
    "Role": ".protocols.scheme",
    "RunAnswer": ".app.answers",
    "Scenario": ".scenarios.schema.schema",
    "Scheme": ".protocols.scheme",
    "Verdict": ".protocols.guarantees",
    "check": ".app.api",
    "crash": ".app.api",
    "load": ".app.api",
    "matrix": ".app.matrix",
    "run": ".app.api",
}

__all__ = [
    "CheckAnswer",
    "Condition",
    "CrashAnswer",
    "CrashCase",
    "Draft",
    "History",
    "InputError",
    "MatrixAnswer",
    "MatrixCase",
    "Mistake",
    "Operation",
    "Request",
    "Role",
    "RunAnswer",
    "Scenario",
    "Scheme",
    "Verdict",
    "__version__",
    "check",
    "crash",
    "load",
    "matrix",
    "run",
]


def __getattr__(name: str) -> object:
    """Load a public name from its module; raises AttributeError for any other."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
