"""The language of scenario files: its fields, how a file is loaded, and how every mistake in it is reported.

pydantic is used here and nowhere else.
"""
