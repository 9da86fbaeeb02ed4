"""Links and switches between machines, and the faults of a disturbed network.

A link is a station that answers when the first and last bit of a packet are through. It carries RDMA and TCP alike.
"""
