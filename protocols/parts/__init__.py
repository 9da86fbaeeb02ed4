"""What several papers' schemes share: log and index of a key-value store, requests and replies, locks, pools.

A part knows the verbs and the CPU layer as a scheme does, and no scheme.
"""
