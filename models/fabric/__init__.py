"""Links and switches between machines, and what a disturbed network does to packets.

A link is a station that is asked when the first and last bit of a packet are through. It carries RDMA and TCP alike.
"""
