"""How fast are the simulator and the checker on this machine? What ``rpsim bench`` measures.

Figures are ratios to raw SimPy timeouts in the same process, since machines differ.
"""
