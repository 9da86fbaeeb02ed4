"""Do published numbers come out? Curves of hardware and claims of papers, the experiments behind them, the scoreboard.

``curves`` has published curves as data and replays each by an experiment of ``experiments`` on the platform that it was
measured on; ``papers`` reads a paper's claims (the YAML files in ``claims``) and runs the scenarios behind them.
"""
