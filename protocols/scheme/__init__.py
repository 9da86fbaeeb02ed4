"""What a scheme is: its source, claims and layout, and a class for each role that machines play; found without a list.

A scheme is one file of ``protocols/`` with one subclass of :class:`Scheme` (most often through
:class:`~rpsim.protocols.parts.kv.KvScheme`) that names itself: ``class Saw(KvScheme, name="saw")``. The classes in it
that derive from :class:`Role` are its roles: the code of a client, of a server, of a mirror, its recovery included.
What clients ask of it (``protocols/request.py``) is imported from here, too. Open ``role.py`` first.
"""

from ..request import OperationFailed, OutcomeUnknown, PastOperation, Request, RequestStep
from .role import Code, Role, name_of_role
from .scheme import ANY_PRIMITIVE, Scheme
from .sizes import Limits, Sizes

__all__ = (
    "ANY_PRIMITIVE", "Code", "Limits", "OperationFailed", "OutcomeUnknown", "PastOperation", "Request", "RequestStep",
    "Role", "Scheme", "Sizes", "name_of_role",
)  # fmt: skip
