"""Remote file systems on persistent memory: a file is an object here, and its bytes go over a primitive of choice.

Open ``octopus.py`` first: extents in place. In ``orion.py`` data stores acknowledge to a metadata server
(``metadata.py``), in ``nvfs.py`` data nodes pass blocks on. What the three share, machines that answer late or never
among it, is in ``machines.py``.
"""
