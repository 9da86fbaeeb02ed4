"""Experiments on the component models: each is a function from a platform and one value to one number.

They are found by name; a curve says which one replays it.
"""
