"""The operations of A and B as text: what each looks like, read with the nearest known word on a mistake."""

from __future__ import annotations

import re
from collections.abc import Callable

from ....sim.errors import nearest
from .program import LitmusOperation

FORMS_OF_A = {
    "W": "W q x v [F] [I]",
    "WIMM": "WIMM q x v [F] [I]",
    "R": "R q x r [F]",
    "FAA": "FAA q x v r [F]",
    "CAS": "CAS q x old new r [F]",
    "AW": "AW q x v [F]",
    "SEND": "SEND q [buf v] [F] [I]",
    "FLUSH": "FLUSH q x|* global|persist [F]",
    "P": "P q primitive x [v]",
    "poll": "poll q",
    "wait": "wait reply",
    "st": "st s v",
}
FORMS_OF_B = {
    "recv": "recv q",
    "ld": "ld x r",
    "st": "st x v",
    "ntst": "ntst x v",
    "spin": "spin x v",
    "cpucas": "cpucas x old new r",
    "clwb": "clwb x",
    "clflushopt": "clflushopt x",
    "clflush": "clflush x",
    "fence": "fence",
    "pmrsts": "pmrsts",
    "reply": "reply",
}
FORMS_OF_RELAY = {
    "wait": "wait m q [n]",
    "enable": "enable m p [n]",
    "W": "W m x v|@y [in s]",
}
INSIDE_B = {"awake": "awake q", "answer": "answer q", "tell": "tell"}
"""Operations of B that only primitives become: its thread is woken by a packet, lets its answer go, sends a message
that is not the end."""

_NAME = re.compile(r"(dram\.|c\.)?[A-Za-z_]\w*")
_PRIMITIVE = re.compile(r"[A-Za-z][\w-]*")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,8}|[0-9]{1,9}")
_RESERVED = {"mem", "pm", "dram", "and", "or", "not"}


class NoOperation(Exception):
    """The text is no operation; the arguments are the text found, the expected one in words, and the nearest word."""


def parse_operation(text: str, of_a: bool, inside: bool = False) -> LitmusOperation:
    """Read one line of A's or B's program (``inside``: or what only primitives become); raises :class:`NoOperation`."""
    forms = FORMS_OF_A if of_a else FORMS_OF_B
    words = text.split()
    verb = words[0] if words else ""
    if verb in INSIDE_B and inside:
        forms = INSIDE_B
    if verb not in forms:
        found = f"'{verb}'" if verb else "no operation"
        raise NoOperation(found, f"an operation of {'A' if of_a else 'B'}: {', '.join(forms)}", nearest(verb, forms))
    return _Reader(text, words[1:], forms[verb]).read(verb, of_a)


def parse_relayed(text: str) -> LitmusOperation:
    """Read one line of what B has posted beforehand; raises :class:`NoOperation`."""
    words = text.split()
    verb = words[0] if words else ""
    if verb not in FORMS_OF_RELAY:
        found = f"'{verb}'" if verb else "no operation"
        expected = f"what an adapter does by itself: {', '.join(FORMS_OF_RELAY)}"
        raise NoOperation(found, expected, nearest(verb, FORMS_OF_RELAY))
    return _Reader(text, words[1:], FORMS_OF_RELAY[verb]).relayed(verb)


class _Reader:
    """One operation's words, taken one after the other."""

    def __init__(self, text: str, words: list[str], form: str) -> None:
        self.text = text
        self.words = words
        self.form = form
        self.flags = set(re.findall(r"\[([FI])\]", form))

    def wrong(self, found: str) -> NoOperation:
        """The mistake: ``found`` where the form wants something else."""
        return NoOperation(f"{found} in '{self.text}'", f"'{self.form}'", None)

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        """The next word, which has to match."""
        if not self.words:
            raise self.wrong(f"no {what}")
        word = self.words.pop(0)
        if not pattern.fullmatch(word) or word in _RESERVED:
            raise self.wrong(f"'{word}' for {what}")
        return word

    def number(self, what: str = "value") -> int:
        """The next word, a whole number below 2**31."""
        word = self.take(_NUMBER, what)
        number = int(word, 16 if word.startswith("0x") else 10)
        if number >= 1 << 31:
            raise self.wrong(f"{number}, which is too large,")
        return number

    def several(self, pattern: re.Pattern[str], what: str) -> tuple[str, ...]:
        """The next word, names joined by ``+``."""
        parts = self.words[0].split("+") if self.words else [""]
        if len(set(parts)) < len(parts) or any(not pattern.fullmatch(part) or part in _RESERVED for part in parts):
            raise self.wrong(f"'{self.words[0]}' for {what}" if self.words else f"no {what}")
        self.words.pop(0)
        return tuple(parts)

    def payload(self) -> dict[str, object]:
        """The next word: a value, or ``@s``."""
        if self.words and self.words[0].startswith("@"):
            word = self.words.pop(0)
            if not _WORD.fullmatch(word[1:]):
                raise self.wrong(f"'{word}' for value")
            return {"source": word[1:]}
        return {"values": (self.number(),)}

    def read(self, verb: str, of_a: bool) -> LitmusOperation:
        """The whole operation."""
        found: dict[str, object] = {}
        while self.words and self.words[-1] in ("F", "I") and self.words[-1] in self.flags:
            found["fenced" if self.words.pop() == "F" else "inline"] = True
        if verb in ("recv", "poll", "awake", "answer") or (of_a and verb not in ("wait", "st")):
            found["qp"] = self.take(_WORD, "queue pair")
        if of_a:
            self._of_a(verb, found)
        else:
            self._of_b(verb, found)
        if self.words:
            raise self.wrong(f"'{' '.join(self.words)}' too much")
        make: Callable[..., LitmusOperation] = LitmusOperation
        return make(self.text, verb, **found)

    def relayed(self, verb: str) -> LitmusOperation:
        """The whole operation, of B's adapter."""
        found: dict[str, object] = {"qp": self.take(_WORD, "queue pair")}
        if verb in ("wait", "enable"):
            found["other"] = self.take(_WORD, "queue pair")
            count = self.number("count") if self.words else 1
            if not count:
                raise self.wrong("0 for count")
            found["values"] = (count,)
        else:
            found["names"] = self.several(_NAME, "variable")
            if self.words and self.words[0].startswith("@"):
                source = self.words.pop(0)[1:]
                if not _NAME.fullmatch(source):
                    raise self.wrong(f"'@{source}' for value")
                found["source"] = source
            else:
                found["values"] = (self.number(),)
            if self.words and "values" in found:
                self.take(re.compile("in"), "the word 'in'")
                found["element"] = self.take(_NAME, "variable")
        if self.words:
            raise self.wrong(f"'{' '.join(self.words)}' too much")
        make: Callable[..., LitmusOperation] = LitmusOperation
        return make(self.text, verb, **found)

    def _of_a(self, verb: str, found: dict[str, object]) -> None:
        if verb in ("W", "WIMM", "AW") or (verb == "SEND" and self.words):
            found["names"] = self.several(_NAME, "variable")
            found |= self.payload()
        elif verb == "R":
            names = found["names"] = self.several(_NAME, "variable")
            registers = found["registers"] = self.several(_WORD, "register")
            if len(names) != len(registers):
                raise self.wrong(f"{len(registers)} registers for {len(names)} variables")
        elif verb in ("FAA", "CAS"):
            found["names"] = (self.take(_NAME, "variable"),)
            found["values"] = tuple(self.number() for _ in range(1 if verb == "FAA" else 2))
            found["registers"] = (self.take(_WORD, "register"),)
        elif verb == "FLUSH":
            if self.words and self.words[0] == "*":
                self.words.pop(0)
            else:
                found["names"] = self.several(_NAME, "variable")
            found["persistent"] = self.take(re.compile("global|persist"), "guarantee") == "persist"
        elif verb == "P":
            found["primitive"] = self.take(_PRIMITIVE, "primitive")
            found["names"] = self.several(_NAME, "variable")
            found["values"] = (self.number(),) if self.words else ()
        elif verb == "wait":
            self.take(re.compile("reply"), "word 'reply'")
        elif verb == "st":
            found["source"] = self.take(_WORD, "local variable")
            found["values"] = (self.number(),)

    def _of_b(self, verb: str, found: dict[str, object]) -> None:
        if verb not in ("recv", "fence", "pmrsts", "reply", *INSIDE_B):
            found["names"] = (self.take(_NAME, "variable"),)
        if verb in ("st", "ntst", "spin", "cpucas"):
            found["values"] = tuple(self.number() for _ in range(2 if verb == "cpucas" else 1))
        if verb in ("ld", "cpucas"):
            found["registers"] = (self.take(_WORD, "register"),)
