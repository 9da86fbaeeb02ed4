"""rpsim: a discrete-event simulator of RDMA NICs, DDIO caches and persistent-memory persistence domains.

How fast is a remote-persistence protocol on given hardware, and what survives when the power fails at any instant?

The floors, each of which imports only those before it: ``rpsim.sim``, ``rpsim.models``, ``rpsim.protocols``,
``rpsim.scenarios``, ``rpsim.validation``, ``rpsim.app``. The names below are loaded when first used.
"""

from importlib import import_module

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers take it for true; typing's own costs more than the rest of this import
if TYPE_CHECKING:
    from .protocols.guarantees import Condition, Verdict
    from .protocols.scheme import Request, Role, Scheme
    from .scenarios.history import History, Operation
    from .sim.errors import InputError, Mistake

_MODULE_OF = {
    "Condition": ".protocols.guarantees",
    "History": ".scenarios.history",
    "InputError": ".sim.errors",
    "Mistake": ".sim.errors",
    "Operation": ".scenarios.history",
    "Request": ".protocols.scheme",
    "Role": ".protocols.scheme",
    "Scheme": ".protocols.scheme",
    "Verdict": ".protocols.guarantees",
}

__all__ = [
    "Condition",
    "History",
    "InputError",
    "Mistake",
    "Operation",
    "Request",
    "Role",
    "Scheme",
    "Verdict",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Load a public name from its module; raises AttributeError for any other."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
