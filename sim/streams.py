"""Named random streams: every random choice draws from a stream of its own.

A stream is derived from the run's seed and its name alone, so a component that is added, or that draws more
often, does not change the draws of the others.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np


class Streams:
    """The random streams of one run. ``seed`` is any non-negative integer; ValueError otherwise.

    Another ``prefix`` before all their names gives others of the same seed.
    """

    __slots__ = ("_prefix", "_streams", "seed")

    def __init__(self, seed: int, prefix: str = "") -> None:
        if seed < 0:
            raise ValueError(f"a seed is a non-negative integer, not {seed}")
        self.seed = seed
        self._prefix = prefix
        self._streams: dict[str, np.random.Generator] = {}

    def stream(self, name: str) -> np.random.Generator:
        """The generator called ``name``; the same name is the same object, so its draws continue."""
        found = self._streams.get(name)
        if found is None:
            # PCG64 by name: numpy does not promise that default_rng stays the same algorithm.
            sequence = _sequence(self.seed, self._prefix + name)
            found = self._streams[name] = np.random.Generator(np.random.PCG64(sequence))
        return found


@functools.lru_cache(maxsize=1024)
def _sequence(seed: int, name: str) -> np.random.SeedSequence:
    """The seed of a stream; remembered, because exploration builds the same systems over and over."""
    # sha256 and not hash(): the latter differs from process to process.
    digest = hashlib.sha256(name.encode()).digest()
    words = [int.from_bytes(digest[at : at + 4], "little") for at in range(0, 32, 4)]
    return np.random.SeedSequence(entropy=seed, spawn_key=words)
