"""A permutation of the first n whole numbers that is computed, not stored, and its inverse.

A balanced Feistel network over the next power of four, and cycle walking back into the range (Black and Rogaway,
"Ciphers with arbitrary finite domains", CT-RSA'02). Four rounds of a mixing function do for spreading; it is no cipher.
"""

from __future__ import annotations

_ROUNDS = 4
_MASK = (1 << 64) - 1


class Permutation:
    """A bijection of ``range(n)``, the same for the same ``seed``. ValueError below one number."""

    def __init__(self, n: int, seed: int) -> None:
        if n < 1:
            raise ValueError(f"a permutation is of at least one number, not {n}")
        self.n = n
        self._bits = max(1, -(-(n - 1).bit_length() // 2))
        self._half = (1 << self._bits) - 1
        self._keys = [mixed(seed * _ROUNDS + turn) for turn in range(_ROUNDS)]

    def __call__(self, number: int) -> int:
        """The number that the permutation maps ``number`` to."""
        self._check(number)
        while True:
            left, right = number >> self._bits, number & self._half
            for key in self._keys:
                left, right = right, left ^ (mixed(right ^ key) & self._half)
            number = left << self._bits | right
            if number < self.n:
                return number

    def inverse(self, number: int) -> int:
        """The number that the permutation maps to ``number``."""
        self._check(number)
        while True:
            left, right = number >> self._bits, number & self._half
            for key in reversed(self._keys):
                left, right = right ^ (mixed(left ^ key) & self._half), left
            number = left << self._bits | right
            if number < self.n:
                return number

    def _check(self, number: int) -> None:
        if not 0 <= number < self.n:
            raise ValueError(f"{number} is none of the {self.n} numbers")


def mixed(number: int) -> int:
    """A number of 64 bits that looks random: the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA'14)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)
