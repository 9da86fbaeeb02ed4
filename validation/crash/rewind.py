"""Taking objects back to how they were: a system that was built once and has not run is as good as a new one.

Building machines costs more than the few microseconds that recovery and a read take on them. So everything that can be
reached from the given objects is noted once, and put back in place: attributes, slots, lists, dictionaries, closures,
the states of random generators. A process may be there whose code has not begun to run; if it has by then, or what
cannot be noted is met (one that is under way), that is refused, never guessed.

Most objects of the models are set up once and only read from then on. So they are watched: each gets a class that
notes the first time that one of its attributes is set (:func:`_watching`). Until then it is left alone; from then on
it is put back each time, as all other objects and all containers are.
"""

from __future__ import annotations

import enum
import functools
import inspect
import itertools
import operator
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

_ATOMS = (
    type(None), bool, int, float, complex, str, bytes, range, type, enum.Enum,
    types.ModuleType, types.MethodDescriptorType, types.WrapperDescriptorType, np.generic,
)  # fmt: skip
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType, partial)


_WRITTEN: set[int] = set()
"""The ids of objects that were watched until an attribute of theirs was set, and are not put back each time yet."""
_WATCHED = (*(f"{__name__.partition('.')[0]}.{floor}." for floor in ("models", "sim")), "simpy.")
"""Where the classes are whose objects are watched: their code is known to set attributes in no other way."""


class CannotRewind(TypeError):
    """Something of a kind whose state cannot be put back is reached."""


class Rewind:
    """Notes all that can be reached from ``roots``; calling it puts that back. Both raise CannotRewind."""

    def __init__(self, *roots: object) -> None:
        self._back: list[Callable[[], object]] = []
        self._watched: dict[int, Callable[[], None]] = {}
        """By id of a watched object: what notes it for being put back each time."""
        self._dicts: list[dict[Any, Any]] = []
        self._befores: list[dict[Any, Any]] = []
        """What they held."""
        self._others: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        """The same of dictionaries of other classes, which have methods of their own."""
        self._empty: list[dict[Any, Any] | deque[Any]] = []
        """Of those and of deques, the ones that held nothing: most have not changed when they are put back."""
        self._lists: list[list[Any]] = []
        self._items: list[list[Any]] = []
        """What they held."""
        self._slotted: list[object] = []
        self._slots: list[tuple[str, ...]] = []
        """Of each of them: its slots that are set."""
        self._getters: list[Callable[[object], Any]] = []
        """How to get the values of these at once."""
        self._values: list[Any] = []
        self._counters: list[tuple[dict[str, Any], str, int]] = []
        """Attributes that are counters, whose state can only be replaced: of whom, which, and where it begins."""
        self._unbegun: list[types.GeneratorType[Any, Any, Any]] = []
        """Code that has not begun to run."""
        self._known: dict[int, object] = {}  # the objects themselves, so that their ids stay theirs
        waiting: list[object] = list(roots)
        while waiting:
            one = waiting.pop()
            if isinstance(one, _ATOMS) or id(one) in self._known:
                continue
            self._known[id(one)] = one
            waiting.extend(self._note(one))

    def __call__(self) -> None:
        """Everything is as it was noted, unless CannotRewind is raised."""
        if not all(map(_is_unbegun, self._unbegun)):
            raise CannotRewind("code has begun to run that had not when it was noted")
        if _WRITTEN:
            for number in [number for number in _WRITTEN if number in self._watched]:
                _WRITTEN.discard(number)
                self._watched.pop(number)()
        for filled in filter(None, self._empty):
            filled.clear()  # type: ignore[attr-defined]  # mypy takes their common base class
        any(map(dict.clear, self._dicts))  # which returns None: a loop that is not interpreted
        any(map(dict.update, self._dicts, self._befores))
        for content, before in self._others:
            content.clear()
            content.update(before)
        for own, name, begins in self._counters:
            own[name] = itertools.count(begins)
        if self._lists != self._items:
            changed = map(operator.ne, self._lists, self._items)
            for items, held in itertools.compress(zip(self._lists, self._items, strict=True), changed):
                items[:] = held
        try:
            now = list(map(operator.call, self._getters, self._slotted))
        except AttributeError:  # one of these slots has been deleted
            for one, names, had in zip(self._slotted, self._slots, self._values, strict=True):
                for name, value in zip(names, had, strict=True):
                    setattr(one, name, value)
            now = self._values
        if now != self._values:
            for one, names, has, had in zip(self._slotted, self._slots, now, self._values, strict=True):
                if has != had:
                    for name, value, other in zip(names, had, has, strict=True):
                        if value is not other:
                            setattr(one, name, value)
        for back in self._back:
            back()

    def _note(self, one: Any) -> Iterable[object]:
        """How to put ``one`` back, and what it leads to."""
        if isinstance(one, _CODE):
            return self._code(one)
        if isinstance(one, (dict, list, set, deque, bytearray, tuple, frozenset)):
            return self._container(one)
        if isinstance(one, types.MappingProxyType):  # whoever can change what it shows is reached in another way
            return (*one, *one.values())
        if isinstance(one, np.ndarray) and one.dtype.kind not in "OV":
            self._back.append(partial(np.copyto, one, one.copy()))
            return ()
        if isinstance(one, np.random.Generator):
            bits, state = one.bit_generator, one.bit_generator.state
            self._back.append(partial(setattr, bits, "state", state))
            return ()
        if isinstance(one, types.GeneratorType):
            return self._generator(one)
        return self._instance(one)

    def _note_dict(self, content: dict[Any, Any], before: dict[Any, Any]) -> None:
        if not before:
            self._empty.append(content)
        elif type(content) is dict:
            self._dicts.append(content)
            self._befores.append(before)
        else:
            self._others.append((content, before))

    def _code(self, one: Any) -> Iterable[object]:
        if isinstance(one, partial):
            return (one.func, *one.args, *one.keywords.values())
        if not isinstance(one, types.FunctionType):
            return (one.__self__,)  # bound to the object whose state it works on
        found = []
        for cell in one.__closure__ or ():
            try:
                found.append(cell.cell_contents)
            except ValueError:  # empty
                continue
            self._back.append(partial(setattr, cell, "cell_contents", cell.cell_contents))
        return found

    def _generator(self, one: types.GeneratorType[Any, Any, Any]) -> Iterable[object]:
        if not _is_unbegun(one) or one.gi_code.co_freevars or one.gi_code.co_cellvars:
            raise CannotRewind(f"{one.__qualname__} is under way, or shares its variables: it cannot be put back")
        self._unbegun.append(one)
        return inspect.getgeneratorlocals(one).values()

    def _container(self, one: Any) -> Iterable[object]:
        if isinstance(one, dict):
            self._note_dict(one, dict(one))
            if type(one) not in (dict, OrderedDict):  # a subclass may have a default factory or attributes
                return (*one, *one.values(), *self._attributes(one), getattr(one, "default_factory", None))
            return (*one, *one.values())
        if isinstance(one, (tuple, frozenset)):
            return one
        if isinstance(one, deque):
            then = tuple(one)
            if then:
                self._back += [one.clear, partial(one.extend, then)]
            else:
                self._empty.append(one)
            return then
        if isinstance(one, set):
            self._back += [one.clear, partial(one.update, frozenset(one))]
            return tuple(one)
        if isinstance(one, list):
            self._lists.append(one)
            self._items.append(one[:])
            return tuple(one)
        self._back.append(partial(one.__setitem__, slice(None), one[:]))
        return ()

    def _instance(self, one: Any) -> Iterable[object]:
        kind = type(one)
        if kind.__module__ in ("builtins", "itertools") or not _is_python(kind):
            raise CannotRewind(f"a {kind.__module__}.{kind.__qualname__} is reached: its state cannot be put back")
        return self._attributes(one)

    def _attributes(self, one: Any) -> list[object]:
        frozen = getattr(getattr(type(one), "__dataclass_params__", None), "frozen", False)
        found: list[object] = []
        own: dict[str, Any] | None = getattr(one, "__dict__", None)
        then = {name: self._value(one, name, value) for name, value in (own or {}).items()}
        there = tuple(name for name in _slots_of(type(one)) if hasattr(one, name))
        found += (*then.values(), *(self._value(one, name, getattr(one, name)) for name in there))
        if frozen:
            return found
        get = _getter(there)
        note = partial(self._note_attributes, one, own, then, there, get, get(one))
        kind: type = type(one)
        watching = _watching(kind)
        if watching is None:
            note()
        else:
            self._watched[id(one)] = note
            one.__class__ = watching
        return found

    def _note_attributes(
        self,
        one: object,
        own: dict[str, Any] | None,
        then: dict[str, Any],
        there: tuple[str, ...],
        get: Callable[[object], tuple[Any, ...]],
        held: tuple[Any, ...],
    ) -> None:
        """Put these attributes of ``one`` back each time: its dictionary, if it has one, and its slots."""
        if own is not None:
            self._note_dict(own, then)
        if there:
            self._slotted.append(one)
            self._slots.append(there)
            self._getters.append(get)
            self._values.append(held)
        self._back += (partial(_forget, one, name) for name in _slots_of(type(one)) if name not in there)

    def _value(self, one: object, name: str, value: object) -> object:
        """An attribute's value; a counter, whose state can only be replaced, is set anew each time."""
        if type(value) is not itertools.count:
            return value
        begins = next(value)
        if repr(value) != f"count({begins + 1})":
            raise CannotRewind(f"{type(one).__qualname__}.{name}: a counter whose step is not 1")
        object.__setattr__(one, name, itertools.count(begins))
        own = getattr(one, "__dict__", {})
        if name in own:
            self._counters.append((own, name, begins))
        else:
            self._back.append(lambda: object.__setattr__(one, name, itertools.count(begins)))
        return None


_CLASS = vars(object)["__class__"]
"""What sets the class of an object, whatever it says that its class is."""


@functools.cache
def _watching(kind: type) -> type | None:
    """The class of objects of ``kind`` that are watched; the first to set or delete an attribute gives back their own.

    It has the name of ``kind``, and says that it is that. None for classes that are not of the models, or that have a
    way of their own of being derived from or of setting attributes.
    """
    bodies = [vars(base) for base in kind.__mro__[:-1]]
    special = {"__init_subclass__", "__setattr__", "__delattr__", "__class__"}
    if not kind.__module__.startswith(_WATCHED) or any(not special.isdisjoint(body) for body in bodies):
        return None
    if any(isinstance(value, cached_property) for body in bodies for value in body.values()):
        return None  # it sets an attribute in a way of its own

    def written(one: object) -> None:
        _WRITTEN.add(id(one))
        _CLASS.__set__(one, kind)

    def set_attribute(one: object, name: str, value: object) -> None:
        written(one)
        setattr(one, name, value)

    def delete_attribute(one: object, name: str) -> None:
        written(one)
        delattr(one, name)

    body = {
        "__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__,
        "__class__": property(lambda _: kind), "__setattr__": set_attribute, "__delattr__": delete_attribute,
    }  # fmt: skip
    return type(kind)(kind.__name__, (kind,), body)


def _is_unbegun(code: types.GeneratorType[Any, Any, Any]) -> bool:
    return not code.gi_suspended and not code.gi_running and code.gi_frame is not None


def _is_python(kind: type) -> bool:
    """Whether a class was written in Python down to ``object``, so that no state hides in C (as ``copyreg`` asks)."""
    return not any(isinstance(vars(base).get("__new__"), types.BuiltinFunctionType) for base in kind.__mro__[:-1])


_SLOTS: dict[type, tuple[str, ...]] = {}
"""By class: what :func:`_slots_of` has found."""


def _slots_of(kind: type) -> tuple[str, ...]:
    found = _SLOTS.get(kind)
    if found is None:
        members = (vars(base).items() for base in kind.__mro__)
        names = (name for own in members for name, slot in own if isinstance(slot, types.MemberDescriptorType))
        found = _SLOTS[kind] = tuple(names)
    return found


def _getter(names: Sequence[str]) -> Callable[[object], tuple[Any, ...]]:
    """Several attributes of an object at once, as a tuple also where it is one."""
    if not names:
        return lambda _: ()
    return operator.attrgetter(*names) if len(names) > 1 else lambda one: (getattr(one, names[0]),)


def _forget(one: object, name: str) -> None:
    if hasattr(one, name):
        delattr(one, name)
