"""Flush primitives: a language of steps in YAML, and what executes them on the component models."""
