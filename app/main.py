"""The command line ``rpsim``: dispatch, exit statuses.

Exit status: 0 done and all as expected; 1 done and something is not; 2 wrong input; 70 a bug in rpsim;
130 interrupted (Ctrl-C), 141 the reader of standard output went away, 143 terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from ..sim.errors import InputError, WorkersGone
from .grammar import parse, parser, work_of

WITHOUT_ANSWER, WRONG_INPUT, BUG, INTERRUPTED, READER_GONE, TERMINATED = 1, 2, 70, 130, 141, 143


def dispatch(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and return its exit status."""
    options = parse(arguments)
    if options.version:
        from .. import __version__

        print(f"rpsim {__version__}")
        return 0
    if options.command is None:
        parser().print_help()
        return 0
    return work_of(options.form)(options)  # the heavy imports start here


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``rpsim``; returns the exit status (``--help`` raises SystemExit(0) as argparse does)."""
    try:
        with _terminable():
            status = dispatch(sys.argv[1:] if arguments is None else arguments)
            sys.stdout.flush()
            return status
    except InputError as error:
        for mistake in error.mistakes:
            named = mistake.file or (mistake.field or "").startswith("rpsim ")
            print(mistake if named else f"rpsim: {mistake}", file=sys.stderr)
        return WRONG_INPUT
    except WorkersGone as error:
        print(f"rpsim: {error}", file=sys.stderr)
        return WITHOUT_ANSWER
    except KeyboardInterrupt:
        print("rpsim: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output once more on its way out: give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except Exception as error:
        from ..protocols.naming.own import mistake_in

        if (own := mistake_in(error)) is not None:
            print(own, file=sys.stderr)
            return WRONG_INPUT
        traceback.print_exc()
        print("rpsim: this is a bug in rpsim, not in your input; nothing was written", file=sys.stderr)
        return BUG


@contextmanager
def _terminable() -> Iterator[None]:
    """Make SIGTERM unwind like Ctrl-C does, so that a batch system's kill leaves nothing half-written either."""

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
