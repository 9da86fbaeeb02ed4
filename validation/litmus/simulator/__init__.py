"""Litmus programs run on the component models: what they show, the machine must admit.

``witness`` looks for a run that shows an outcome which the rules allow.
"""
