"""The conditions of a verdict, one a file: each says what it allows and names its definition's source.

A condition gets operations, crashes and what was read after them, and nothing of how a run came about.
"""
