"""Workers of a Dask cluster, as an executor for jobs (extra ``[cluster]``)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import InputError, Mistake

CONNECTING_S = 10
"""How long a scheduler may take to answer."""


@dataclass(frozen=True)
class Workers:
    """Where jobs run: an executor, or processes of this machine (None)."""

    executor: Executor | None = None
    died: tuple[type[BaseException], ...] = (BrokenExecutor,)
    """The errors that say that workers are gone, or the scheduler: no job's own."""
    why: str = "workers die again and again (out of memory? then fewer at a time)"
    """What to say of it when it does not get better."""


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
        yield Workers(client.get_executor(), died, f"the Dask cluster at {address} is gone, or its workers die")
    finally:
        client.close()
