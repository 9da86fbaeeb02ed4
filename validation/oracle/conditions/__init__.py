"""The conditions of a verdict, one a file: each says what it allows and names its definition's source.

A condition gets operations, crashes and the values read after them; it knows nothing of the run behind them.
"""
