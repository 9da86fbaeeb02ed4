"""For test suites of any scheme: explore crashes in one line, draw workloads, and live through many crashes.

``assert_holds(MyStore, "optane-adr")`` in any test; the fixture ``rpsim`` of the pytest plugin; Hypothesis strategies
in ``.strategies``; a state machine for Hypothesis in ``.machine``. Nothing here has to be registered anywhere.
"""

from .checks import Refuted, assert_holds, crash_report

__all__ = ["Refuted", "assert_holds", "crash_report"]
