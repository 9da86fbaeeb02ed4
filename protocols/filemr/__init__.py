"""Files as memory regions (FileMR), beside ordinary regions of the same file.

Open :mod:`.filemr`. What an adapter makes of a file is in ``models.verbs.files`` and ``models.nic.protection``.
"""
