"""The language of litmus files: programs, operations, outcomes, profiles, read with every mistake in its line.

Primitives are written out as the operations that their steps are.
"""
