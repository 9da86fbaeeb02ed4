"""The commands of ``rpsim``, a module each: what it was given is checked, done, and printed.

``app.options`` has the table of their arguments. The heavy imports start in here.
"""
