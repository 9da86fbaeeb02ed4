"""What did clients see? History files in any format, read, checked and judged by the oracle.

``rpsim check`` is this wing alone. Every mistake in a file is reported with its line.
"""
