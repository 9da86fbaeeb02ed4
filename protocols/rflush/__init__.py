"""The remote procedure calls of the RDMA Flush paper (Duan et al., SC'21): the durable ones, and those beside them.

Each system's file reads like its paragraph in the paper: how a request travels, how its reply does, and what is durable
when the caller goes on. What they share stands once: messages, paths, the objects that calls update in place, the log.
"""
