"""The commands of ``rpsim``, a module or a folder each.

The ``COMMAND`` of each is the table of its arguments and options (``app.options``); its ``main`` checks them, does the
work and prints. Every start of ``rpsim`` imports all of them: heavy modules are imported inside functions.
"""
