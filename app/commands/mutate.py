"""``rpsim mutate``: faults planted in a scheme's code, and how many of them the judge finds."""

from __future__ import annotations

import argparse
import sys

from ...sim.errors import InputError, Mistake, nearest
from ..options import OUT, WORKERS, Command, Field, Option

COMMAND = Command(
    "faults planted in a scheme's code: how many the judge finds",
    "SUBJECT",
    "a scheme, with options, on a mode or over a primitive where it has such, or the name of a primitive (rpsim list); "
    "none: all schemes and primitives",
    needed=False,
    options=(
        Option("--shared", "also in the modules that it shares with others (without a scheme: always)"),
        Option("--quick", "a sample: one fault of each kind in each file, and only the cheap trials"),
        OUT,
        *WORKERS,
    ),
    answer=(
        Field("schemes", "array", "the schemes and primitives that faults were planted in"),
        Field("quick", "boolean", "whether it was a sample"),
        Field("faults", "integer", "how many faults"),
        Field("killed", "integer", "of these, how many the judge found"),
        Field("broken", "integer", "how many cannot run"),
        Field("undecided", "integer", "how many the judge could not decide on"),
        Field("kill_rate", "number|null", "killed over those that could be"),
        Field("unexplained", "integer", "survivors without a reason on record"),
        Field("stale_reasons", "array", "reasons on record for faults that do not survive"),
        Field("kinds", "object", "the same counts by kind of fault"),
        Field("by_scheme", "object", "the same counts by scheme"),
        Field("fates", "array", "every fault and its fate"),
    ),
)

KEPT = ".mutate-fates.jsonl"


def main(options: argparse.Namespace) -> int:
    """Plant, judge, print; returns 0 if every fault that survives has a reason, else 1."""
    from ...protocols.primitives import known_primitives
    from ...protocols.registry import is_more_than_listed, scheme, schemes, small
    from ...protocols.scheme import Scheme
    from ...sim.jobs.cluster import workers
    from ...validation.mutation.score import score
    from ...validation.mutation.step_score import score_primitives
    from ...validation.mutation.work import Work
    from ..terminal.envelope import envelope
    from ..terminal.mutation import document, text
    from ..terminal.output import writable
    from ..terminal.progress import bar

    subject, primitives = options.subject, known_primitives()
    name = "all schemes and primitives" if subject is None else subject
    steps = [one for one in primitives if subject in (None, one)]
    chosen = [small(one) for known, one in schemes().items() if subject in (None, known)]
    if subject is not None and not chosen and not steps and is_more_than_listed(subject):
        chosen = [small(scheme(subject))]
    if not chosen and not steps:
        both = [*Scheme.registry, *primitives]  # with parts of others, as two-tier
        expected = "a scheme (rpsim list schemes) or a flush primitive (rpsim list primitives)"
        raise InputError(Mistake(f"'{subject}'", expected, nearest=nearest(subject, both)))
    if options.shared and not chosen:
        raise InputError(Mistake(f"the primitive '{subject}'", "a scheme, which has shared modules", field="--shared"))
    kept = writable(options.out) / KEPT
    tried = 0, 0
    try:
        with bar("mutate", 0) as shown, workers(options.jobs, options.dask) as found:

            def advance(number: int, total: int) -> None:
                nonlocal tried
                tried = number, total
                shown.total = total
                shown.update(number - shown.n)

            work = Work(found, kept, advance)
            fates = score(chosen, work, shared=options.shared or subject is None, quick=options.quick) if chosen else []
            fates += score_primitives(steps, work, quick=options.quick)
    except (KeyboardInterrupt, SystemExit):
        done = f"{tried[0]:,} of {tried[1]:,} trials are done, of what is faultless and of faults"
        print(f"rpsim: {done}; the same command goes on from there ({kept.as_posix()})", file=sys.stderr)
        raise
    if options.json:
        print(envelope(options, document([*(one.name for one in chosen), *steps], fates, options.quick)), end="")
    else:
        print("\n".join(text(name + (", a sample" if options.quick else ""), fates)))
    return int(any(not fate.explained for fate in fates))
