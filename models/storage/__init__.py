"""Storage: NVMe drives with their queues and write cache, and the kernel's way to them through files.

``nvme`` is the drive, ``blocks`` what it holds and what of that is certain, ``queues`` how threads talk to it;
``files`` is a file system with its page cache, ``journal`` its commits, ``aio`` asynchronous I/O.
"""
