"""Hotpot: distributed shared persistent memory with transactions, and the code that its authors published.

Open ``hotpot.py`` first: the scheme. The phases of a commit are in ``commit.py``, a machine in ``node.py``, the copies
that it holds of others' pages in ``holder.py``. ``public.py`` does what the published code does, faults included.
"""
