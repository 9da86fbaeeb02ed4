"""What do whole families keep, and what do they cost? Schemes or flush primitives, on platforms, under faults.

``judging`` explores a cell, ``timing`` measures it, ``rows`` spreads rows over processes. ``methods`` looks for the
cheapest correct primitive, ``design`` searches the language of steps.
"""
