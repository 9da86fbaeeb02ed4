"""Data structures as algorithms over a space: each is one file, and its whole state is bytes in that space.

A space (:mod:`.space`) is where the bytes are and what reaching them costs; a mode of a family gives one. A structure
(:mod:`.structure`) knows nothing of networks, logs or caches, and so runs on every mode and again in recovery.
"""
