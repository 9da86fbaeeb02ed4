"""Mojim: a mirror whose log has what the primary writes, before it is durable at the primary itself.

Open ``mojim.py`` first: the scheme and its clients. A machine, primary or mirror, is in ``machine.py``, what
it keeps in persistent memory and says to others in ``words.py``.
"""
