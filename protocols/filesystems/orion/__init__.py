"""Orion: clients write pages to data stores, and commit a file's log at the metadata server at the same time.

Open ``orion.py`` first: clients and data stores. The metadata server and its mirror are in ``mds.py``.
"""
