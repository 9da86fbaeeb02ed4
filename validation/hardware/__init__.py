"""The hardware models against what was published of hardware: curves, the experiments that replay them, the scoreboard.

``curves/*.yaml`` are published curves as data, each with the experiment that replays it and the platform that it was
measured on; ``experiments`` is the registry of these, ``board`` runs them.
"""
