"""``python -m rpsim`` is ``rpsim``."""

import sys

from .app.main import main

if __name__ == "__main__":  # worker processes import this module under another name
    sys.exit(main())
