"""The PMR paper (Luo et al., TCAD 2024): a drive's persistent memory region as the target of RDMA WRITEs.

Open :mod:`.messaging` first, the way of a request and of its reply; then :mod:`.stack`, the server that all stacks have
in common, and :mod:`.pmraccess`, the paper's own. Its region is :mod:`.chunks`, and what is behind that
:mod:`.chunklog`.

The stores behind the stacks have one interface (:mod:`.store`): a hash table in DRAM (:mod:`.cuckoo`), and files on the
drive (:mod:`.leveldb`). :mod:`.redis` is what the paper compares with.
"""
