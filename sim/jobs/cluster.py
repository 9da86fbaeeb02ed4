"""Where the jobs of a command run: processes of this machine, or a Dask cluster's workers (extra ``[cluster]``)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager

from ..errors import InputError, Mistake, WorkersGone
from .runner import Workers

CONNECTING_S = 10
"""How long a scheduler may take to answer."""


@contextmanager
def workers(processes: int, address: str | None, option: str = "--dask") -> Iterator[Workers]:
    """So many processes of this machine or, with an ``address``, the workers of the Dask scheduler there; a context.

    Raises InputError as ``dask_workers`` does, and WorkersGone where workers die and nobody in the context minds them.
    """
    if address is None:
        yield from _guarded(Workers(processes))
        return
    with dask_workers(address, option) as far:
        yield from _guarded(far)


def _guarded(chosen: Workers) -> Iterator[Workers]:
    try:
        yield chosen
    except chosen.died as error:
        raise WorkersGone(chosen.why) from error


@contextmanager
def dask_workers(address: str, option: str) -> Iterator[Workers]:
    """The workers of the Dask scheduler at ``address``, a context; ``option`` is what messages call the address.

    Raises InputError where nobody answers, and where the package is not installed.
    """
    try:
        from distributed import Client, KilledWorker  # noqa: PLC0415  # an extra
        from distributed.client import ClosedClientError  # noqa: PLC0415
    except ImportError:
        found = "no package distributed"
        raise InputError(Mistake(found, "the extra [cluster]: pip install 'rpsim[cluster]'", field=option)) from None
    # They log tracebacks of what is reported in one line.
    for name in ("distributed", "tornado", "asyncio", "concurrent.futures"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        client = Client(address, timeout=CONNECTING_S, name="rpsim")
    except (OSError, ValueError, TypeError) as error:
        expected = "the address of a running Dask scheduler, as in tcp://127.0.0.1:8786"
        why = " ".join(str(error).split()).partition(" after ")[0].partition(" (")[0][:60] or type(error).__name__
        raise InputError(Mistake(f"'{address}' ({why})", expected, field=option)) from None
    try:
        died = (BrokenExecutor, CancelledError, KilledWorker, ClosedClientError)
        yield Workers(1, client.get_executor(), died, f"the Dask cluster at {address} is gone, or its workers die")
    finally:
        client.close()
