"""What may a power failure leave, and what then? Crash states, recovery on them, verdicts, counterexamples.

``explore`` is what the command line and the matrix call. A failure that kills everybody is derived from one run;
a fault that leaves somebody alive is executed, a run for each instant.
"""
