"""Numbers with sources: platform profiles, read from YAML into parameters.

The files themselves are in ``models/platforms``. A component takes its times and sizes from here and has none of its
own.
"""
