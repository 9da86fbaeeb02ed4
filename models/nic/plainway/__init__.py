"""The plain way: requests that nothing is special about, from the doorbell to the completion.

It does what the adapter's other files do, at the same instants, with the same counters, bytes and trace, for a request
with nothing to wait for, on a reliable connection between two adapters whose tables all fit into their SRAM and whose
fabric disturbs nothing. Objects that never change are bound once for each connection. Each hop checks that it is plain
before it does anything, and passes special requests on to the general code (requester, port, responder, answers), which
knows of no plain way; and a request may come to the plain way at any hop.

``leaving`` has a request's way from the doorbell to the responder, ``writes``, ``reads`` and ``sends`` the rest of each
verb's, ``routes`` which requests may take it there, ``acks`` the way back of those that are only acknowledged.
``Nic.takes_plain_way`` turns it off. The tests run both ways and compare.
"""
