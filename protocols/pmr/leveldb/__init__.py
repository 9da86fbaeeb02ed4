"""LevelDB: a memtable in DRAM, and a log, tables and a manifest in files of a drive.

Formats and rules are those of its documentation (doc/impl.md, log_format.md, table_format.md) and the constants of
db/dbformat.h. The store stands on :mod:`rpsim.protocols.pmr.store`. Open :mod:`.database` first;
:mod:`.stacks` has the accessing stacks over it.
"""
