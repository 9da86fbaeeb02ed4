"""Clover: versions of a key in a chain on data nodes; clients read and link them, a metadata server gives out space.

Open ``clover.py`` first: the scheme, and how the paper is read. ``header.py`` has the bytes of a version, ``client.py``
what a get and a put do, ``walk.py`` how they find the newest version, ``library.py`` what the threads of a machine
share, ``servers.py`` their way to the metadata servers; ``metadata.py`` is such a server,
``space.py`` its free buffers and chains, ``repair.py`` how it reads chains; ``replicated.py`` is a put with several
copies.
"""
