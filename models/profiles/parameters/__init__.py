"""The parameters of each component: frozen dataclasses that ``models.profiles.platform`` reads from profiles.

Times are integers of picoseconds, sizes bytes, rates bits per second; the ending of a field's name says which.
"""
