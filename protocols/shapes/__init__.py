"""Message shapes: what a storage protocol asks of a flush primitive, as schemes over any primitive.

A shape is a register for each object over a primitive's ``persist``; an update is acknowledged where the primitive says
that it is durable. ``line over read-after-write`` is such a scheme's name; ``by SEND`` chooses among the ways in which
the primitive's updates may travel, ``into pm`` the memory of the receive buffers, ``[level=region]`` its switches.

| shape | an update is |
|---|---|
| ``word`` | a value in place; 8 B cannot be torn |
| ``line`` | a value whose words carry a version, in the older of two places, 64 B at 48 B of value |
| ``page`` | the same of 4 KiB, at 3 KiB of value |
| ``log`` | an entry and the word that commits it, handed to the primitive together |
| ``pair`` | an entry, made durable, and only then the word that points at it |
| ``other-qp`` | a word written on one queue pair, and the primitive's steps on another |
| ``batch`` | a value in as many pieces as the primitive batches, handed over one by one, awaited together |
"""

from .names import SHAPES, shape_name, shaped
from .shape import Shape, tagged, untagged, versions_in

__all__ = ["SHAPES", "Shape", "shape_name", "shaped", "tagged", "untagged", "versions_in"]
