"""Flush primitives: a language of steps in YAML, read, written and cut at the wire into each side's part.

Nothing here executes anything: the adapter's steps are executed in ``models.nic``, the programs' in ``models.persist``.
"""
