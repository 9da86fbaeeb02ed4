"""Published curves of hardware, in ``library``, and the board that replays every point of them.

A curve says where it is printed, what it was measured on, and whether a fit may use it.
"""
