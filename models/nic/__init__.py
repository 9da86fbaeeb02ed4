"""One RDMA adapter: requester, responder, port, slot, and what its SRAM holds.

``models.verbs`` is what programs say to it. Everything that an adapter keeps about a queue pair or a request is here.
"""
