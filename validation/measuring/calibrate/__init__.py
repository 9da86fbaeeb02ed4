"""The fit of a platform to measurements: what is turned, what can be told apart, what was held out.

``hops`` fits the adapter's residual hops to published curves by the same solver.
"""
