"""Litmus programs run on the component models: the machine must admit every outcome that they show.

``witness`` looks for a run that shows an outcome which the rules allow.
"""
