"""Remote file systems on persistent memory: a file is an object here, and its bytes go over a primitive of choice.

Open ``octopus.py`` first: extents in place. In ``orion/`` data stores acknowledge to a metadata server, in ``nvfs.py``
data nodes pass blocks on. What the three share, waiting for machines that may be gone among it, is in ``machines.py``.
"""
