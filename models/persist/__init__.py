"""The software side of flush primitives: the requester that posts them, the service at the responder.

Both are programs over verbs and threads. Schemes call them; the adapter's part of a primitive is in ``models.nic``.
"""
