"""The labs of a class: their definitions, a student's folder, and the checks of what is in it.

A lab is a folder with a ``lab.md`` and a ``starter``. The shipped ones are in ``labs/`` of the package, a lecturer's
own anywhere. No check knows a right answer: each runs the simulator, the litmus explorer or the oracle,
and compares.
"""
