"""``python -m rpsim.app.site.write FOLDER`` lays the site's source out; ``--notebooks FOLDER`` makes notebooks alone.

Needs jupytext (extra ``[docs]``); ``make docs`` and ``make notebooks`` call it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .layout import lay_out
from .notebooks import texts, write

if __name__ == "__main__":
    *only, target = sys.argv[1:]
    folder = Path(target)
    write(texts(), folder if only else folder / "notebooks")
    if not only:
        lay_out(folder)
