"""Litmus tests: tiny programs on two nodes, and whether the ordering rules admit an outcome (docs/litmus.md)."""
