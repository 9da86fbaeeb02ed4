"""Replicated persistent memory: systems that keep what one machine writes on others, over a primitive of choice.

Each file is a system and says at its head what is public of it and what is our reading: ``mojim.py`` has a mirror with
a log, ``tailwind.py`` backups that stay idle.
"""
