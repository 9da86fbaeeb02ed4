"""The operating system of a machine: system calls, interrupts, sockets over TCP.

A thread that waits in the kernel sleeps, and its core is free meanwhile. Drives and files are in ``models.storage``.
"""
