"""``python -m rpsim.app.site.keep RESULTS...`` keeps what papers' claims came to, for the pages of the site.

RESULTS are folders that ``rpsim reproduce PAPER --sweep`` has written. What is kept stands in docs/measured/papers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .measured import of_paper, text_of_results

if __name__ == "__main__":
    for folder in sys.argv[1:]:
        summary = json.loads(Path(folder, "summary.json").read_text(encoding="utf-8"))
        path = of_paper(summary["subject"])
        path.write_text(text_of_results(summary), encoding="utf-8", newline="\n")
        print(path)
