"""The command line ``rpsim``: dispatch, exit statuses.

Exit status: 0 done and all as expected; 1 done and something is not; 2 wrong input, or standard output takes nothing
(its disk is full); 70 a bug in rpsim; 130 interrupted (Ctrl-C), 141 the reader of standard output went away, 143
terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

WITHOUT_ANSWER, WRONG_INPUT, BUG, INTERRUPTED, READER_GONE, TERMINATED = 1, 2, 70, 130, 141, 143


def dispatch(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and return its exit status."""
    from .grammar import parse, parser, work_of

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
    try:  # imports are inside, so that Ctrl-C during them ends as it does later
        return _status(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        print("rpsim: interrupted", file=sys.stderr)
        return INTERRUPTED


def _status(arguments: Sequence[str]) -> int:
    """The exit status; what went wrong is printed."""
    from ..sim.errors import InputError, WorkersGone

    try:
        with _terminable():
            status = dispatch(arguments)
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
    except BrokenPipeError:
        _print_no_more()
        return READER_GONE
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    """The exit status of an error that no command expects: of standard output, of a user's own code, or of rpsim."""
    from ..protocols.naming.own import mistake_in

    if isinstance(error, OSError) and error.filename is None and not _printable():
        _print_no_more()
        found = f"standard output: found '{error.strerror}', expected room for what is printed"
        print(f"rpsim: {found}; a results folder that was written is whole", file=sys.stderr)
        return WRONG_INPUT
    if (own := mistake_in(error)) is not None:
        print(own, file=sys.stderr)
        return WRONG_INPUT
    import traceback

    traceback.print_exception(error)
    print("rpsim: this is a bug in rpsim, not in your input; nothing was written", file=sys.stderr)
    return BUG


def _printable() -> bool:
    """Whether standard output takes anything: an empty line is tried."""
    try:
        print(flush=True)
    except OSError:
        return False
    return True


def _print_no_more() -> None:
    """Give standard output somewhere to go: the interpreter flushes it once more on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
