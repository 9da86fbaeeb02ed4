"""Sweeps: a scenario over a grid of values, each run once.

``axes`` reads the values of a field as a command line has them; ``grid`` makes the runs of all combinations, and a
digest of each; ``point`` performs one of them; ``groups`` sums up what the runs of several seeds found. Nothing here
knows how a run is judged.
"""
