"""Litmus tests made from tables of guarantees that the literature states.

The tables know nothing of the rules that the machine obeys, so that neither can copy the other's mistake.
"""
