"""The rig, for every test of this folder."""

from __future__ import annotations

import pytest

from ..rig import Rig


@pytest.fixture
def rig() -> Rig:
    """One client and one server with Optane behind ADR, DDIO on."""
    return Rig()
