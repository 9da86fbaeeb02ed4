"""The modes of rNVM: how much of the logs, the cache and the batches a front-end has.

Source: rNVM, section 10.2 (table 3): Naive, R (logs), RC (and a cache), RCB (and batches).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from ...sim.errors import InputError, Mistake
from ..failures import KINDS, LOST, POWER
from ..naming import Option
from ..scheme import Role
from ..structures.structure import Structure
from .backend import BackEnd, PlainBackEnd
from .cached import CACHE, POLICY, CachedBatchFrontEnd, CachedFrontEnd
from .frontend import FrontEnd
from .mirror import MIRROR, MIRRORED, Mirror
from .mode import BATCH, LOG, OPLOG, PROMISED, SN_READ, RnvmMode
from .spare import Spare
from .symmetric import LogKeeper, SymmetricBatchFrontEnd, SymmetricFrontEnd


class Naive(RnvmMode, name="naive"):
    """Every load a READ, every range that changes an awaited WRITE in place; no log, no recovery."""

    title = "remote memory accessed directly"
    role_types: ClassVar = {"client": FrontEnd, "server": PlainBackEnd}


class R(RnvmMode, name="rnvm-r"):
    """An operation's changes are one transaction in the memory log, which the back-end replays."""

    title = "rNVM's logs (R)"
    claims = PROMISED
    role_types: ClassVar = {"client": FrontEnd, "server": BackEnd}
    options: ClassVar[dict[str, Option]] = {"log": LOG, "sn_read": SN_READ, "mirror": MIRROR, "mirrored": MIRRORED}

    @override
    @classmethod
    def roles(cls) -> Mapping[str, type[Role]]:
        more = {} if cls.option("mirror") == "none" else {"mirror": Mirror, "spare": Spare}
        return {**cls.role_types, **{name: kind for name, kind in more.items() if name not in cls.role_types}}

    @override
    @classmethod
    def may_suffer(cls) -> Mapping[str, tuple[str, ...]]:
        if cls.option("mirror") == "none":
            return cls.faults
        return {"server": KINDS, "mirror": (POWER, LOST), "spare": (POWER,), **cls.faults}

    @override
    @classmethod
    def check(cls, structure: type[Structure]) -> None:
        super().check(structure)
        mirror, when = str(cls.option("mirror")), cls.chosen.get("mirrored")
        if mirror == "none" and when is not None:
            expected = "mirror=back-end or mirror=front-end beside it: there is no mirror"
            raise InputError(Mistake(f"mirrored={when} in '{structure.name}'", expected, field="scheme"))
        if mirror == "back-end" and when == "before" and "oplog" in cls.options and cls.option("oplog") == "posted":
            expected = "oplog=awaited beside it: nothing waits for what is posted"
            raise InputError(Mistake(f"mirrored=before in '{structure.name}'", expected, field="scheme"))

    @override
    @classmethod
    def copied_before(cls) -> bool:
        usual = {"none": "behind", "back-end": "behind", "front-end": "before"}[str(cls.option("mirror"))]
        return (cls.option("mirrored") or usual) == "before"


class Rc(R, name="rnvm-rc"):
    """The same with a cache of pages in the front-end's memory."""

    title = "rNVM's logs and cache (RC)"
    role_types: ClassVar = {"client": CachedFrontEnd, "server": BackEnd}
    options: ClassVar[dict[str, Option]] = {"cache": CACHE, "policy": POLICY}


class Rcb(Rc, name="rnvm-rcb"):
    """Operations are logged one by one, and performed in batches."""

    title = "rNVM's logs, cache and batches (RCB)"
    batches = True
    role_types: ClassVar = {"client": CachedBatchFrontEnd, "server": BackEnd}
    options: ClassVar[dict[str, Option]] = {"batch": BATCH, "oplog": OPLOG}


class Symmetric(RnvmMode, name="symmetric"):
    """The structure in the machine's own persistent memory, its log sent to another's and not awaited."""

    title = "local persistent memory, with a log elsewhere"
    role_types: ClassVar = {"client": SymmetricFrontEnd, "server": LogKeeper}
    faults: ClassVar = {"client": ("power", "process")}
    options: ClassVar[dict[str, Option]] = {"log": LOG}


class SymmetricB(Symmetric, name="symmetric-b"):
    """The same with operations in batches."""

    title = "local persistent memory by batches, with a log elsewhere"
    batches = True
    role_types: ClassVar = {"client": SymmetricBatchFrontEnd, "server": LogKeeper}
    options: ClassVar[dict[str, Option]] = {"batch": BATCH}
