"""How a responder executes requests that are more than bytes to place: READ, atomics, FLUSH, receives, a primitive's
steps.

``order`` says which of them wait for which. Each other file executes one kind, on the slot, the staging and the answers
of the adapter that it is given.
"""
