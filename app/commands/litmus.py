"""``rpsim litmus``: may the outcomes of tiny programs be, and does that agree with what their authors say?"""

from __future__ import annotations

import argparse

from ..options import Command, Field, Option

COMMAND = Command(
    "tiny programs against the ordering rules: may the outcome be?",
    "PATH",
    "files of litmus tests, folders of them, or names of shipped ones (docs/litmus.md); none: all shipped",
    several=True,
    needed=False,
    options=(
        Option("--budget", "how many states of a test on a profile to explore", "N", least=1),
        Option("--witness", "also runs of the simulator that show outcomes"),
        Option("--no-reduction", "every interleaving: the same answers"),
    ),
    answer=(
        Field("cases", "array", "of each test and profile: `outcome`, `expected`, `found`, `agrees`, `states`"),
        Field("agree", "integer", "how many are as their authors say"),
        Field("disagree", "integer", "how many are not"),
        Field("witnesses", "array?", "with `--witness`: runs of the simulator that show outcomes"),
    ),
)


def main(options: argparse.Namespace) -> int:
    """Read, explore, print; returns 0 when the model agrees with every verdict, else 1."""
    from ...validation.litmus.machine.explorer import BUDGET, Reduce, explore
    from ...validation.litmus.shipped import chosen
    from ..terminal.envelope import envelope
    from ..terminal.litmus import document, text
    from ..terminal.witnesses import searched, unexplained, witness_text

    tests = chosen(options.subject)
    budget = options.budget or BUDGET
    reduce = Reduce.NOTHING if options.no_reduction else Reduce.ALL
    answers = [answer for test in tests for answer in explore(test, budget, reduce=reduce)]
    found = searched(answers) if options.witness else None
    if options.json:
        print(envelope(options, document(answers, found)), end="")
    else:
        print("\n".join([*text(tests, answers, budget), *(witness_text(found) if found is not None else [])]))
    return 0 if all(answer.agrees for answer in answers) and not unexplained(found or []) else 1
