"""The naive reference model: the same hardware with a process per message and a Resource and a Timeout per hop.

It shares the platform profiles and the layout of memory with the arithmetic model, and no arithmetic of time: what
``models`` computes, this simulates. Its worth is that each hop can be read by itself. It is slow, and it keeps no
trace of durability.
"""
