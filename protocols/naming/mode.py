"""A mode: the way in which a structure's memory is reached, the part of ``bst on rnvm-rcb`` behind ``on``."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from ..guarantees import Claims
from .options import Option, OptionValue


class Mode:
    """A subclass names itself as a scheme does: ``class Rcb(Space, name="rnvm-rcb")``.

    A structure says by its attribute ``on`` from which class its modes derive; it finds the chosen one in its
    attribute ``mode``. The claims of the two together are the mode's, beside the structure's own.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    claims: ClassVar[Claims] = {}
    options: ClassVar[dict[str, Option]] = {}
    chosen: ClassVar[dict[str, OptionValue]] = {}
    registry: ClassVar[dict[str, type[Mode]]] = {}

    @override
    def __init_subclass__(cls, name: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.options = {
            option: one for kind in reversed(cls.__mro__) for option, one in vars(kind).get("options", {}).items()
        }
        if name is not None:
            cls.name = name
            Mode.registry[name] = cls

    @classmethod
    def option(cls, name: str) -> Any:
        """The value of an option: the chosen one, or its default. Raises KeyError for an undeclared one."""
        return cls.chosen[name] if name in cls.chosen else cls.options[name].usual
