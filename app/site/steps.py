"""steps.md: the words of a flush primitive's file, from the table that its reader and its engine have."""

from __future__ import annotations

from ...models.primitives.schema import reference

HEAD = """# Words of primitives

The fields of a flush primitive's file, then every action that a step may have, by its place.
[Flush primitives](primitives.md) says how to write one; `rpsim list primitives --schema` prints a JSON schema for
editors.

## Fields

"""


def pages() -> dict[str, str]:
    """The page."""
    return {"steps.md": HEAD + reference().replace("\n### ", "\n## ") + "\n"}
