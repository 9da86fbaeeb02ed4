"""What a scenario file may say: its fields, how it is loaded, and how every mistake in it is told.

pydantic is used here and nowhere else.
"""
