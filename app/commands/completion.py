"""``rpsim completion``: what a shell needs to complete rpsim's commands, options and names."""

from __future__ import annotations

import argparse

from ...sim.errors import InputError, Mistake, nearest
from ..options import Command, Field

SHELLS = ("bash", "zsh", "fish")
COMMAND = Command(
    'completion in a shell: eval "$(rpsim completion bash)" in its start-up file',
    "SHELL",
    f"the shell: {', '.join(SHELLS)}",
    answer=(Field("shell", "string", "the shell"), Field("code", "string", "what the shell has to evaluate")),
)


def main(options: argparse.Namespace) -> int:
    """Print the shell's code; raises InputError for another shell."""
    from argcomplete.shell_integration import shellcode

    from ..terminal.envelope import envelope

    if options.subject not in SHELLS:
        close = nearest(options.subject, SHELLS)
        raise InputError(Mistake(f"'{options.subject}'", f"a shell: {', '.join(SHELLS)}", nearest=close))
    shell = "bash" if options.subject == "zsh" else options.subject  # one code serves both
    code = shellcode(["rpsim"], shell=shell)
    print(envelope(options, {"shell": options.subject, "code": code}) if options.json else code, end="")
    return 0
