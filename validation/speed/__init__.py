"""The speed of the simulator and of the checker on this machine, as ``rpsim bench`` measures it.

Figures are ratios to raw SimPy timeouts in the same process, since machines differ.
"""
