"""Replicated persistent memory: systems that keep what one machine writes on others, over a primitive of choice.

Each folder is a system and says what is public of it and what is our reading: in ``mojim`` there is a mirror with a
log, in ``tailwind`` backups stay idle, in ``hyperloop`` adapters replicate by themselves.
"""
