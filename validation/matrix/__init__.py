"""Guarantees and costs of whole families: schemes or flush primitives, on platforms, under faults."""
