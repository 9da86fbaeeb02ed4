"""A job for workers that are killed."""

from __future__ import annotations

import time


def slowly(number: int) -> dict[str, int]:
    """Plain data, after a while."""
    time.sleep(0.02)
    return {"number": number}
