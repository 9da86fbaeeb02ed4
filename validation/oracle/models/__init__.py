"""Sequential models: what an object does if its operations come one after the other.

``model`` is the interface; ``simple`` has registers, logs, sets, queues and stacks, ``structures`` the larger objects.
"""
