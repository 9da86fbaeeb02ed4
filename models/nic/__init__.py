"""One RDMA adapter: requester, responder, port, slot, and the contents of its SRAM.

Programs use it through ``models.verbs``. Everything that an adapter keeps about a queue pair or a request is here.
"""
