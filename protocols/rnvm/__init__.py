"""The rNVM paper (2018): structures in a back-end's persistent memory, reached by front-ends through RDMA and logs.

A mode (:mod:`.modes`) is a way to reach a structure's memory (:mod:`rpsim.protocols.structures`): directly, or by logs
that the back-end replays. Open :mod:`.frontend` first, then :mod:`.backend`, and :mod:`.spaces` between the two.
"""
