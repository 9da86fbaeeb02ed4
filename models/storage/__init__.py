"""Storage: NVMe drives with their queues and write cache, and the kernel's way to them through files.

``nvme`` is the drive, ``blocks`` its contents and the certain ones among them, ``queues`` the threads' way to it;
``files`` is a file system with its page cache, ``journal`` its commits, ``aio`` asynchronous I/O.
"""
