"""A scenario assembled and run: the system, its clients, what happens beside them, and what a run leaves behind.

``experiment`` runs it undisturbed, ``inject`` with a fault that leaves somebody alive.
"""
