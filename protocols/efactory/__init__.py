"""The stores of the eFactory paper (Du et al., ICPP'21): eFactory itself, and those that it is compared with.

Each file reads like the store's paragraph in the paper. What they share is in ``protocols.parts``.
"""
