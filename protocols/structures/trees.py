"""What the schemes of rNVM's four trees have in common: maps whose keys are objects of their own."""

from __future__ import annotations

from .structure import Structure


class TreeStructure(Structure):
    """A tree with the operations of the paper: an insert of a key that is there replaces its value."""

    paper = "Ma et al., An Efficient Framework for Implementing Persistent Data Structures on Remote NVM, 2018"
    model = "kv"
    operations = ("insert", "find")
    updates = frozenset({"insert"})
    inserts = "insert"
