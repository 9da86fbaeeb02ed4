"""The moves of bytes that must have happened by an instant, and the images that a power failure may therefore leave.

The table of ordering rules, the door by which components report what code observed, persistence domains, and the two
views of what memory may hold. It imports no other wing: every component reports to it.
"""
