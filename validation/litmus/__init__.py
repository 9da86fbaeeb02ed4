"""What do the ordering rules allow? Litmus tests: tiny programs on two nodes, and outcomes to ask for (docs/litmus.md).

``language`` reads the programs, ``machine`` goes through every state that the rules admit, ``families`` makes tests
from tables. ``simulator`` runs the same programs on the component models; ``library`` has the shipped tests.
"""
