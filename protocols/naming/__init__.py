"""Names of schemes: ``clover[replicas=2]``, ``bst on rnvm-rcb``, ``mirrored over no-flush``.

``names.py`` has the grammar; open it first. ``options.py`` is what a scheme declares to be chosen, ``mode.py`` what
stands behind ``on``, and ``own.py`` finds schemes in files of a user's own.
"""

from .mode import Mode
from .options import Option, OptionValue

__all__ = ["Mode", "Option", "OptionValue"]
