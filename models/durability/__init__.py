"""What is certain: which moves of bytes must have happened by now, and what a power failure may therefore leave.

The table of ordering rules, the door by which components report what code observed, persistence domains, and the two
views of what memory may hold. It imports no other wing: every component reports to it.
"""
