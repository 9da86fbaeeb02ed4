"""A scenario assembled and run: the system, its clients, the programs beside them, and the results of a run.

``experiment`` runs it undisturbed, ``inject`` with a fault after which some machines or processes run on.
"""
