"""Published curves of hardware, in ``library``, and the board that replays every point of them.

A curve states where it is printed, the hardware it was measured on, and whether a fit may use it.
"""
