"""The fit of a platform to measurements: the parameters to turn, how well they are separated, the points held out.

``hops`` fits the adapter's residual hops to published curves by the same solver.
"""
