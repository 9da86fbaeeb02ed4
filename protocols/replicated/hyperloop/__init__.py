"""HyperLoop: adapters replicate a redo log along a chain, by work requests that a message fills in.

Open ``hyperloop.py`` first: the store. The chain of adapters is in ``offload.py``.
"""
