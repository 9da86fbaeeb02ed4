"""Tailwind: a primary writes its log into the buffers of backups whose CPUs stay idle.

Open ``tailwind.py`` first: the primary. Segments, and the backups that have them, are in ``segments.py``.
"""
